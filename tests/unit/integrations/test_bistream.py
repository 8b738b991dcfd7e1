"""Text in pieces with a stub model: what the sampler sees, and a cache that grows."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.integrations import bistream as module
from speculative_tts.integrations.bistream import bistream

CODES, VOCAB, EOS, FILL = 8, 10, 8, 9
LAYOUT = SimpleNamespace(
    version=2,
    sos_id=20,
    task_id=21,
    text_offset=22,
    n_codes=CODES,
    eos_id=EOS,
    fill_id=FILL,
    stop_ids=(EOS, FILL),
)


class Hashing:
    """Its logits depend on all that its cache holds."""

    vocab_size, device = VOCAB, torch.device("cpu")

    def __init__(self, favourite: int | None = None) -> None:
        self.capacities: list[int] = []
        self._favourite = favourite

    def cache(self, batch: int, capacity: int) -> SimpleNamespace:
        self.capacities.append(capacity)
        return SimpleNamespace(capacity=capacity, ids=torch.zeros(batch, capacity).long())

    def extend(
        self, ids: Tensor, cache: SimpleNamespace, start: Tensor, keep: int | None = None
    ) -> Tensor:
        end = int(start) + ids.shape[1]
        cache.ids[:, int(start) : end] = ids
        weights = torch.arange(1, end + 1)
        logits = torch.sin(
            (cache.ids[:, :end] * weights).sum(1, keepdim=True) * torch.arange(VOCAB)
        )
        logits[:, CODES:] = -20.0
        if end > 40:
            logits[:, EOS] = 20.0
        if self._favourite is not None:
            logits[:, self._favourite] = 15.0
        return logits[:, None].float()


def spoken(model: Hashing, sampler: Sampler, block: int = 5) -> list[int]:
    """Three pieces of text, after each but the last `block` codes."""
    layout = SimpleNamespace(**vars(LAYOUT) | {"mix_ratio": (2, block)})
    return list(bistream(model, layout, sampler, [[1, 2], [3, 4], [5, 6]]))  # type: ignore[arg-type]


def test_the_sampler_sees_the_newest_token() -> None:
    """A window of one token: what was said last is never said again (history was one short)."""
    found = spoken(Hashing(favourite=3), RepetitionAware(window=1, tau=1.0), block=30)[:30]
    assert found[::2] == [3] * 15
    assert 3 not in found[1::2]


def test_a_full_cache_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = Hashing()
    expected = spoken(roomy, Sampler(temperature=0.5))
    assert len(roomy.capacities) == 1
    monkeypatch.setattr(module, "ROOM", 0)
    tight = Hashing()
    assert spoken(tight, Sampler(temperature=0.5)) == expected
    assert len(tight.capacities) > 3
    assert len(expected) > 20


def test_a_model_without_a_law_is_told() -> None:
    with pytest.raises(ValueError, match="streamed text: no law for token 0: logits are NaN"):
        spoken(Hashing(favourite=None), _Broken())


class _Broken(Sampler):
    def __call__(self, logits: Tensor, *rest: object) -> Tensor:
        return super().__call__(logits * float("nan"), *rest)  # type: ignore[arg-type]
