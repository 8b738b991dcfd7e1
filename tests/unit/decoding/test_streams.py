"""Many utterances, the next in the row of one that ended: what each alone would have given."""

from collections import Counter
from dataclasses import replace
from itertools import repeat

import pytest
import torch
from fake_models import write_checkpoint
from test_multi_token import CPU, SAMPLER, STOPS, choosers, heads_of, requests

from speculative_tts.decoding.batch import Request, Size
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, Loop, LoopSpec
from speculative_tts.decoding.loops.multi_token import by_blocks
from speculative_tts.decoding.loops.one_by_one import SEVERAL, Autoregression, alone
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.models.families.merged_vocab import MergedVocabLM

pytestmark = pytest.mark.usefixtures("kernels")
KINDS = ("alone", "draft", "heads", "paths", "blocks", "best")


@pytest.fixture(scope="module")
def models(
    kernels: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MergedVocabLM, MergedVocabLM]:
    """A target and a draft."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    target = write_checkpoint(folder / "target", layers=2)
    write_checkpoint(folder / "draft", layers=1, source=target)
    target, draft = (
        MergedVocabLM.load(folder / name, dtype=torch.float32, device=CPU)
        for name in ("target", "draft")
    )
    return target, draft


def looping(kind: str, target: MergedVocabLM, draft: MergedVocabLM) -> LoopSpec:  # type: ignore[type-arg]
    if kind == "alone":
        return alone(target, STOPS, SAMPLER)
    chooser = choosers()[{"paths": 2, "best": 3}.get(kind, 0)]
    heads = heads_of(target, 4)
    if kind in {"blocks", "best"}:
        return by_blocks(target, heads, chooser, STOPS)
    drafter: Drafter = LMDrafter(draft) if kind == "draft" else HeadsDrafter(heads, chooser)
    return Speculation(target, drafter, Tolerance(0.3), SAMPLER, STOPS, 3).looping()


def many(target: MergedVocabLM) -> list[Request]:
    """Of many lengths; one ends with its first token, several are as long as the longest."""
    rows = [one for more in range(5) for one in requests(target, maximum=22 + 2 * more)]
    rows.append(replace(rows[0], max_tokens=1))
    return [replace(one, id=f"{n}") for n, one in enumerate(rows)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graphs", [EAGER, Graphs(capture=lambda step: step)])
def test_a_stream_gives_what_each_alone_gives(
    kind: str, graphs: Graphs, models: tuple[MergedVocabLM, MergedVocabLM]
) -> None:
    """Tokens and counts, in batches of any size, on loops that are made or kept for later."""
    rows, how = many(models[0]), looping(kind, *models)
    expected = {one.id: outcome for one in rows for _, outcome in EAGER.stream(how, [one], 1)}
    for batch in (2, 3, 7, 40):
        found = [(one.id, outcome) for one, outcome in graphs.stream(how, rows, batch)]
        assert len(found) == len(rows)
        assert dict(found) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_one_without_a_law_takes_no_other_with_it(
    kind: str, models: tuple[MergedVocabLM, MergedVocabLM]
) -> None:
    """The NaN in its row passed through the next one's mask, and so on: 13 of 16 failed."""
    rows, how = many(models[0]), looping(kind, *models)
    expected = {one.id: outcome for one in rows for _, outcome in EAGER.stream(how, [one], 1)}
    nan = torch.full_like(torch.cat([one.prompt for one in rows]), float("nan"))
    broken = replace(rows[0], id="broken", prompt=nan, max_tokens=40)  # the first of all
    found = {one.id: outcome for one, outcome in EAGER.stream(how, [*rows, broken], 3)}
    assert found.pop("broken").failure is not None
    assert found == expected


@pytest.mark.parametrize("kind", ["alone", "draft", "blocks"])
def test_rows_are_refilled_while_others_run(
    kind: str, models: tuple[MergedVocabLM, MergedVocabLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As few steps as the longest rows leave, not those of one batch after the other."""
    rows, how = many(models[0]), looping(kind, *models)
    steps, loop = Counter[str](), type(how.make(Size.of(rows, how.slack)))
    real, now = loop.step, "alone"

    def counted(self: Loop) -> None:
        steps[now] += 1
        real(self)

    monkeypatch.setattr(loop, "step", counted)
    monkeypatch.setattr(Autoregression, "run_native", lambda *_: False)  # step by step
    monkeypatch.setattr(loop, "_natively", lambda _: None, raising=False)
    longest = 0
    for one in rows:
        before = steps[now]
        assert len(list(EAGER.stream(how, [one], 1))) == 1
        longest = max(longest, steps[now] - before)
    now = "together"
    assert len(list(EAGER.stream(how, rows, 3))) == len(rows)
    assert steps["together"] < steps["alone"] / 3 + longest


@pytest.mark.native
def test_native_tokens_are_made_several_a_call(
    kernels: str, models: tuple[MergedVocabLM, MergedVocabLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In streams as many as cost little behind an end, by strides as many as are wanted, or all."""
    if kernels == "torch":
        pytest.skip("token by token")
    asked, run = list[int](), Autoregression.run_native

    def counted(self: Autoregression, number: int) -> bool:
        asked.append(number)
        return run(self, number)

    monkeypatch.setattr(Autoregression, "run_native", counted)
    rows, how = many(models[0])[:1], alone(models[0], STOPS, SAMPLER)
    list(EAGER.stream(how, rows, 1))
    assert {*asked} == {SEVERAL}
    asked.clear()
    for strides, number in ((repeat(3), 2), (repeat(1), None), (None, None)):
        *_, last = EAGER.states(how, rows, strides)
        assert {*asked} == ({number} if number else set())
        asked.clear()
    assert last.outcomes() == EAGER.decode(how, rows)
    assert len(asked) <= 2
