"""Store a target's distributions over its own codes, for a draft's losses (setting `laws`).

sst-own-codes stores the model's distribution, before top-k, top-p and history: losses compare
distributions at a temperature only. It keeps the k likeliest tokens and the total mass of all
others, which a loss takes to be shared out as the draft shares it. So the loss's KL is below the
full one by mass x KL among the others, its gradient is that of the k tokens and the rest's sum, and
the acceptance is too high by at most that mass (at temperature 1; at another temperature the mass
of the others is the draft's guess too).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Model

IDS, LOGS, REST = "law_ids", "law_logs", "law_rest"  # a shard's columns, flat lists
VOICE, VOICE_TEXT = "voice", "voice_text"  # the prompt, whose codes have distributions too
COLUMNS = (IDS, LOGS, REST, VOICE, VOICE_TEXT)
NARROW = 1 << 16  # ids below it take 16 bits


@dataclass(frozen=True)
class TopDistributions:
    """Log probabilities of the k likeliest tokens, and of all others together."""

    ids: Int[Tensor, "*at k"]
    logs: Float[Tensor, "*at k"]
    rest: Float[Tensor, "*at"]  # NaN where no distribution was stored

    @classmethod
    def of(cls, logits: Float[Tensor, "n vocab"], k: int) -> "TopDistributions":
        """Keep the `k` likeliest tokens of each row, or all but one if there are fewer."""
        log_probs = logits.float().log_softmax(-1)
        logs, ids = log_probs.topk(min(k, log_probs.shape[-1] - 1))
        return cls(ids, logs, log_probs.scatter(-1, ids, -torch.inf).logsumexp(-1))

    @classmethod
    def read(cls, ids: np.ndarray, logs: np.ndarray, rest: np.ndarray) -> "TopDistributions":
        """Read the distributions of an utterance from its flat columns."""
        k, numbers = len(ids) // len(rest), torch.from_numpy(ids.astype(np.int64))
        top, others = (torch.from_numpy(part.astype(np.float32)) for part in (logs, rest))
        return cls(numbers.view(-1, k), top.view(-1, k), others)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The three tensors, in field order."""
        return self.ids, self.logs, self.rest

    def at(self, places: Tensor) -> "TopDistributions":
        """Return the distributions at some positions."""
        return TopDistributions(*(part[places] for part in self.parts))

    def to(self, device: torch.device) -> "TopDistributions":
        """Return the distributions on `device`."""
        return TopDistributions(*(part.to(device) for part in self.parts))

    def logits(self, like: Float[Tensor, "n vocab"]) -> Float[Tensor, "n vocab"]:
        """Return full log distributions; the rest's mass is shared out as by the logits `like`."""
        others = like.detach().float().scatter(-1, self.ids, -torch.inf).log_softmax(-1)
        return others.add_(self.rest[:, None]).scatter_(-1, self.ids, self.logs)


@torch.inference_mode()
def top_distributions(
    model: Model, request: Request, voice: list[int], tokens: list[int], k: int
) -> TopDistributions:
    """Compute the distribution of each code of the voice prompt and each drawn token, in one pass.

    On a CPU the result equals that of decoding to the last bit: there logits do not depend on what
    is computed beside them.
    """
    before = request.prompt[: len(request.prompt) - len(voice)]
    fed = torch.tensor([[*voice, *tokens[:-1]]], device=model.device)
    cache = model.cache(1, len(before) + fed.shape[1])
    first = model.prefill([before], cache)
    after = model.extend(fed, cache, torch.tensor([len(before)], device=model.device))
    return TopDistributions.of(torch.cat([first, after[0]]), k)


def law_columns(laws: TopDistributions, prompt: Prompt, vocab_size: int) -> dict[str, object]:
    """Return a shard row's columns, prompt included; half precision errs <= 0.4 % above e^-16."""
    ids = laws.ids.cpu().numpy().astype(np.uint16 if vocab_size <= NARROW else np.uint32)
    logs, rest = (part.cpu().numpy().astype(np.float16) for part in (laws.logs, laws.rest))
    voice = np.array(prompt.codes, dtype=np.int32)
    columns = {IDS: ids.ravel(), LOGS: logs.ravel(), REST: rest}
    return {**columns, VOICE: voice, VOICE_TEXT: prompt.voice_text}
