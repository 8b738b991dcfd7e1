"""Look-up and drafts that end in doubt: native rounds give the tokens of the loop in Python."""

from dataclasses import replace

import pytest
import torch
from decoders import CPU, STOPS, VOCAB, requests
from pairwise import pairwise
from test_walking import RULES, SAMPLERS, Noting, in_python, models

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters import lm
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.models.families.merged_vocab import MergedVocabLM

pytestmark = pytest.mark.native
DRAFTERS = ("1 to 3", "2 to 2", "1 to 30", "2.5 nats", "0 nats")


def pair(name: str) -> tuple[MergedVocabLM, Drafter]:
    """The target, and look-up by the tokens of a match or a model by the nats of its doubt."""
    target, draft = models()
    number, _, unit = name.partition(" ")
    if unit == "nats":
        return target, LMDrafter(draft, float(number))
    return target, LookupDrafter(VOCAB, CPU, int(unit.removeprefix("to ")), int(number))


def asked(count: int) -> list[Request]:
    """Ragged; each has a voice prompt of its own length, the first none."""
    prompts = (tuple(n * at % VOCAB for at in range(3 * n)) for n in range(count))
    return [
        replace(row, prompt_tokens=prompt)
        for row, prompt in zip(requests(count), prompts, strict=True)
    ]


def spoken(
    name: str,
    rule: str,
    sampler: str = "all",
    lookahead: int = 3,
    count: int = 5,
    observer: Observer | None = None,
) -> list[Outcome]:
    target, drafts = pair(name)
    made = Speculation(target, drafts, RULES[rule], SAMPLERS[sampler], STOPS, lookahead)
    return made.decode(asked(count), observer)


@pytest.mark.parametrize(
    ("name", "rule", "sampler", "lookahead", "count"),
    pairwise(DRAFTERS, RULES, SAMPLERS, [1, 3, 6], [1, 5]),
)
def test_native_rounds_are_those_in_python(
    name: str, rule: str, sampler: str, lookahead: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both drafted in Python alone, at an eighth of the target's speed: tokens and all counts."""
    given = (name, rule, sampler, lookahead, count)
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_round", None)  # no round of Python's
        native = spoken(*given)
    in_python(monkeypatch)
    assert spoken(*given) == native
    monkeypatch.setattr(lm, "sampled_steps", lambda *_: None)
    assert spoken(*given) == native


@pytest.mark.parametrize("name", DRAFTERS)
def test_each_drafts_and_some_of_it_passes(name: str) -> None:
    """Equal tokens of rounds without a draft would show nothing."""
    made = spoken(name, "tolerance", count=12)
    assert sum(one.counts.drafted for one in made) > 5
    assert sum(one.counts.accepted for one in made) > 0


@pytest.mark.parametrize("name", ["1 to 3", "2.5 nats"])
def test_who_watches_is_told_the_same_laws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native, reference = Noting(), Noting()
    made = spoken(name, "exact", observer=native)
    in_python(monkeypatch)
    assert spoken(name, "exact", observer=reference) == made
    for (*laws, _, _), (*others, _, _) in zip(native.told, reference.told, strict=True):
        for law, other in zip(laws, others, strict=True):
            torch.testing.assert_close(law, other, atol=1e-6, rtol=0)


def test_a_draft_in_doubt_is_shorter() -> None:
    """The negative control: without the limit, or with one that no distribution reaches."""
    target, draft = models()

    def drafted(doubt: float | None) -> int:
        made = Speculation(target, LMDrafter(draft, doubt), Tolerance(), SAMPLERS["all"], STOPS, 6)
        return sum(one.counts.drafted for one in made.decode(requests(5)))

    assert drafted(0.0) < drafted(2.5) < drafted(None)
    assert drafted(99.0) == drafted(None)


def test_look_up_reads_a_row_of_a_batch_natively() -> None:
    """A stream refills rows one by one: a row read the prompts of the whole batch."""
    target, drafts = pair("1 to 3")
    made = Speculation(target, drafts, Tolerance(0.3), SAMPLERS["all"], STOPS, 3)
    rows = asked(5)
    served = {one.id: outcome for one, outcome in EAGER.stream(made.looping(), rows, 2)}
    assert served == {row.id: made.decode([row])[0] for row in rows}
