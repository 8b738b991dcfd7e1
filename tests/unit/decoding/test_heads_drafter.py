"""Heads that draft and are verified: what they read, and edges; see `test_every_drafter`."""

import pytest
import torch
from head_stubs import Mixed, choosers
from stubs import Markov, request
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB, STOPS = 5, (4,)
TARGET = Markov.random(VOCAB, 0, scale=0.8, dtype=torch.float64).without(0)
ONE = request(minimum=1, maximum=4)
PLAIN = Sampler()
NAMES = tuple(choosers(VOCAB, STOPS, PLAIN))


def test_the_residual_token_leads_the_next_block() -> None:
    """Heads read the state that the newest token was drawn from; head 1 says what follows it."""
    seen: list[Tensor] = []

    class Recording(Mixed):
        def __call__(self, hidden: Tensor) -> Tensor:
            seen.append(hidden.clone())
            return super().__call__(hidden)

    drafter = HeadsDrafter(Recording(VOCAB, 3), choosers(VOCAB, STOPS, PLAIN)["independent"])  # type: ignore[arg-type]
    row = request(minimum=11, maximum=12)
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 2)
    said, counts = [], []
    for rows in (state.rows for state in EAGER.states(made.looping(), [row])):
        counts.append(int(rows.count))
        said = [0, 1, *rows.tokens[0, : int(rows.count)].tolist()]
    for hidden, count in zip(seen, counts, strict=False):
        before, last = said[count - 1 : count + 1]  # the two tokens before the newest
        assert torch.equal(hidden[0], TARGET.table[before, last])
    assert len(seen) > 2


def test_too_few_heads_are_told() -> None:
    chooser = choosers(VOCAB, STOPS, PLAIN)["independent"]
    drafter = HeadsDrafter(Mixed(VOCAB, 3), chooser)  # type: ignore[arg-type]
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 3)
    with pytest.raises(ValueError, match="lookahead 3 needs 4 heads, there are 3; lower lookahead"):
        made.decode([ONE])


@pytest.mark.parametrize("name", NAMES)
def test_heads_that_break_down_are_told(name: str) -> None:
    class Broken(Mixed):
        def __call__(self, hidden: Tensor) -> Tensor:
            return super().__call__(hidden) * float("nan")

    drafter = HeadsDrafter(Broken(VOCAB, 3), choosers(VOCAB, STOPS, PLAIN)[name])  # type: ignore[arg-type]
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 2)
    (out,) = made.decode([request(minimum=2, maximum=4)])
    assert "no law for token 1" in str(out.failure)


@pytest.mark.parametrize("name", NAMES)
def test_drafted_laws_are_laws_where_the_end_is_likely(name: str) -> None:
    rows = BatchState.of([request(minimum=1, maximum=6)], STOPS, VOCAB, slack=3)
    rows.tokens[0, 0], rows.count[0] = 1, 1
    logits = torch.randn(1, 3, VOCAB, generator=torch.Generator().manual_seed(0)).double()
    logits[0, 1, STOPS[0]] = 2
    laws = choosers(VOCAB, STOPS, PLAIN, torch.float64)[name].draft(logits, rows)
    torch.testing.assert_close(laws.sum(-1), torch.ones(1, 3, dtype=laws.dtype))
    assert laws[0, 1, STOPS[0]] > 0.5
