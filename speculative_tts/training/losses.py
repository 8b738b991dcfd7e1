"""Losses of a draft at speech positions, as pure functions over logits.

Convention: q = target distribution, p = draft distribution, as in the SSD and PCG papers. Every
function returns one value per position, shape (n,), in nats (tv: in [0, 1]); the caller averages
over positions. `ce` is the papers' loss. The others pull p towards q: under the exact rule the
acceptance probability of a position is alpha = sum_x min(p(x), q(x)) = 1 - TV(p, q) (Leviathan et
al., arXiv 2211.17192, corollary 3.6), so `tv` and `lk` descend on acceptance itself.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

Logits = Float[Tensor, "n vocab"]
Losses = Float[Tensor, " n"]


def cross_entropy(draft_logits: Logits, labels: Int[Tensor, " n"]) -> Losses:
    """Return -log p(label) (SSD section 2.2)."""
    return functional.cross_entropy(draft_logits.float(), labels, reduction="none")


def acceptance(target_logits: Logits, draft_logits: Logits) -> Losses:
    """Return alpha = sum_x min(p(x), q(x)), the exact rule's probability of accepting a token."""
    q, p = (logits.float().softmax(-1) for logits in (target_logits, draft_logits))
    return torch.minimum(p, q).sum(-1)


def kl(target_logits: Logits, draft_logits: Logits) -> Losses:
    """Return the forward KL(q || p) = sum_x q(x) log(q(x) / p(x)) (DistillSpec, 2310.08461)."""
    log_q, log_p = target_logits.float().log_softmax(-1), draft_logits.float().log_softmax(-1)
    return functional.kl_div(log_p, log_q, reduction="none", log_target=True).sum(-1)


def tv(target_logits: Logits, draft_logits: Logits) -> Losses:
    """Return TV(p, q) = 1 - alpha (DistillSpec's total variation distance)."""
    return 1 - acceptance(target_logits, draft_logits)


def lk(target_logits: Logits, draft_logits: Logits) -> Losses:
    """Return -log alpha (LK losses, arXiv 2602.23881): `tv` with gradients larger by 1 / alpha."""
    return -acceptance(target_logits, draft_logits).clamp_min(1e-6).log()


DISTILLATION: dict[str, Callable[[Logits, Logits], Losses]] = {"kl": kl, "tv": tv, "lk": lk}
KNOWN = ("ce", *DISTILLATION)


def needs_target(weights: Mapping[str, float]) -> bool:
    """Return True if this mix of losses reads the target's distribution."""
    return any(weights.get(name, 0.0) != 0 for name in KNOWN[1:])


def check_weights(weights: Mapping[str, float]) -> None:
    """Raise ValueError for unknown names, negative weights and an empty mix."""
    for name, weight in weights.items():
        if name not in KNOWN:
            raise ValueError(f"loss {name!r} is unknown; choose from {', '.join(KNOWN)}")
        if weight < 0:
            raise ValueError(f"loss weight {name}={weight} is below 0; use 0 to leave a loss out")
    if not any(weights.values()):
        raise ValueError("all loss weights are 0; set at least one, for example losses.ce=1")


def mix(
    weights: Mapping[str, float],
    draft_logits: Logits,
    labels: Int[Tensor, " n"],
    target_logits: Logits | None = None,
    temperature: float = 1.0,
) -> Losses:
    """Return the weighted sum of the losses; all but ce need `target_logits` (no gradient).

    All but ce compare distributions at the sampler's `temperature`; ce is at temperature 1.
    """
    total = draft_logits.new_zeros(labels.shape, dtype=torch.float32)
    if weight := weights.get("ce", 0.0):
        total = total + weight * cross_entropy(draft_logits, labels)
    for name, loss in DISTILLATION.items():
        if weight := weights.get(name, 0.0):
            assert target_logits is not None, f"loss {name} needs the target's logits"
            total = total + weight * loss(target_logits / temperature, draft_logits / temperature)
    return total
