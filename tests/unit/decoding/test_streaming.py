"""Streams say what the engine says of whole utterances: pieces, clocks, what a listener has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake_models import FakeModels
from head_stubs import Mixed, choosers
from test_engine_parts import PROMPT, Clock, speculating
from toy_lists import N_CODES, RATE, SAMPLER, STOP, ToyCodec, engine

from speculative_tts.codecs.pieces import Window, Windowed
from speculative_tts.commands import decode
from speculative_tts.decoding import streaming
from speculative_tts.decoding.blocks.build import MultiToken
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops import observer
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.decoding.loops.observer import Instruments, synchronise
from speculative_tts.decoding.outcome import Outcome, Round
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.streaming import STREAMED, Stream, given, growing
from speculative_tts.evaluation.rows import decode_counts
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import Arrivals
from speculative_tts.runs.folder import read_records
from speculative_tts.schema.decode import System


class StreamToyCodec(ToyCodec):
    """A piece is decoded with one code ahead; the last id of the head is no code of its."""

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Windowed:
        assert prompt_codes.tolist() == PROMPT.codes
        return Windowed(self.decode, Window(ahead=1, chunk=3), chunk, np.zeros(0, np.int64))


def every_system(**parts: Any) -> Engine:
    """An engine with all that systems need."""
    made = engine(StreamToyCodec(n_codes=N_CODES - 1))
    heads: Any = Mixed(N_CODES + 1, 3)
    choose = choosers(N_CODES + 1, (STOP,), SAMPLER)["independent"]
    multi = MultiToken(heads, choose, {})
    return replace(made, speculation=speculating().speculation, multi=multi, **parts)


@pytest.mark.parametrize("system", STREAMED)
@pytest.mark.parametrize("seed", range(4))
def test_pieces_join_to_the_utterance(system: System, seed: int) -> None:
    """Ids that are no codes (a text row here) are heard nowhere."""
    made = every_system()
    request = made.request("u", PROMPT, seed)
    (whole,) = made.decode(system, [request]).outcomes
    stream = Stream(made, growing(made, system, request), PROMPT, 2)
    pieces = list(stream)
    assert stream.outcome == whole
    expected = np.repeat(np.array(made.codes(whole)) / 10, 4).astype(np.float32)
    np.testing.assert_allclose(np.concatenate(pieces), expected)
    assert [len(piece) for piece in pieces[:-1]] == [8] * (len(pieces) - 1)
    assert N_CODES - 1 not in made.codes(whole)


@pytest.mark.parametrize("system", [System.target, System.draft, System.multi_token])
def test_the_engines_graphs_are_taken(system: System) -> None:
    """In batches and in streams: both keep their loop there."""
    for how in ("decode", "stream"):
        graphs = Graphs(capture=lambda step: step)
        made = every_system(graphs=graphs)
        request = made.request("u", PROMPT, 1)
        if how == "decode":
            made.decode(system, [request])
        else:
            list(Stream(made, growing(made, system, request), PROMPT))
        assert len(graphs.kept) == 1


def test_pieces_are_clocked_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also codes that come from elsewhere, of which each piece is made once it can be."""
    monkeypatch.setattr(streaming, "time", clock := Clock())
    clock.perf_counter()
    came: list[int] = []

    def codes() -> Iterator[int]:
        for code in (1, 2, 3, 4, 0, 5, 2):
            came.append(code)
            yield code

    made = engine(StreamToyCodec())
    stream = Stream(made, given(codes()), PROMPT)
    begun = iter(stream)
    np.testing.assert_allclose(next(begun), np.repeat([0.1, 0.2, 0.3], 4))
    assert came == [1, 2, 3, 4]
    np.testing.assert_allclose(np.concatenate(list(begun)), np.repeat([0.4, 0.0, 0.5, 0.2], 4))
    assert stream.outcome == Outcome([1, 2, 3, 4, 0, 5, 2], stopped=True)
    assert stream.arrivals == Arrivals([3.0, 7.0, 12.0], [12 / RATE, 12 / RATE, 4 / RATE])


def test_streams_that_end_without_codes() -> None:
    made = engine(StreamToyCodec())
    (wave,) = Stream(made, given([]), PROMPT)
    np.testing.assert_array_equal(wave, np.zeros(RATE // 10))

    def broken(_: Iterator[int]) -> Iterator[Outcome]:
        yield Outcome([1], stopped=False, failure="u: no law")

    with pytest.raises(ValueError, match=r"^u: no law$"):
        list(Stream(made, broken, PROMPT))


@pytest.mark.parametrize("parts", [{"codec": ToyCodec()}, {"refiner": object()}])
def test_waves_of_whole_utterances_only(parts: dict[str, Any]) -> None:
    made = replace(engine(StreamToyCodec()), **parts)
    name = type(made.codec).__name__
    with pytest.raises(ValueError, match=f"^{name} makes waves of whole utterances only; leave"):
        Stream(made, given([]), PROMPT)


def test_systems_that_make_no_tokens_one_by_one() -> None:
    made = engine(StreamToyCodec())
    grow = growing(made, System.uncached, made.request("u", PROMPT, 0))
    with pytest.raises(AssertionError, match=r"^uncached makes no tokens one by one"):
        list(grow(iter([1])))


def test_on_a_gpu_as_many_rows_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody says how many; and what is clocked waits for it."""
    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    synchronise(torch.device("cpu"))
    synchronise(torch.device("cuda", 0))
    assert waited == [torch.device("cuda", 0)]
    asked: list[Any] = []

    class Fitting(Graphs):
        def fitting(self, *given: Any) -> int:
            asked.append(given[1:])
            return 5

        def stream(self, _looping: Any, _requests: Any, batch: int) -> Any:
            asked.append(batch)
            return iter(())

    plain = engine()
    requests = [plain.request("u", PROMPT, 0)]
    parts = {"device": torch.device("cuda"), "vocab_size": 9, "layout": plain.target.layout}
    made: Any = replace(plain, target=SimpleNamespace(**parts), graphs=Fitting())
    for size in (None, 3):
        assert list(made.stream(System.target, requests, size)) == []
    assert asked == [(requests, 9), 5, 3]


def test_sections_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "time", Clock())
    tools = Instruments(Tolerance(0.0), 2, torch.device("cpu"))
    for name in ("draft", "verify", "draft"):
        with tools.section(name):
            pass
    assert tools.seconds == {"draft": 2.0 + 6.0, "verify": 4.0, "accept": 0.0}


class Known(AcceptanceRule):
    """A rule whose law is what it is told of drafts, and whose trials are given."""

    draws_by_trials = True

    def __init__(self, trials: float) -> None:
        self.trials, self.drafts = trials, torch.zeros(0)

    def output_law(self, target_probs: torch.Tensor, draft_probs: torch.Tensor) -> torch.Tensor:
        self.drafts = draft_probs
        return target_probs

    def expected_trials(self, target_probs: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return torch.full(target_probs.shape[:-1], self.trials, dtype=torch.float64)


@pytest.mark.parametrize(("trials", "counted"), [(1e6, 0.0), (1e6 / 2, 1.0)])
def test_a_block_rules_weights_divide_and_hardly_possible_rejections_are_none(
    trials: float, counted: float
) -> None:
    """A rejection of a probability of 1e-6 is one by rounding."""
    rule: Any = Known(trials)
    tools = Instruments(rule, 1, torch.device("cpu"))
    yes, one = torch.tensor([True]), torch.tensor([1])
    laws = torch.tensor([[[1.0, 3.0]]])
    tools.verified(laws, laws, Round(yes, one, one, ~yes, ~yes, torch.tensor([[0.5]])))
    tools.verified(laws, laws, Round(~yes, one, one, ~yes, ~yes))
    assert tools.sums()["expected_trials"] == [counted]
    assert tools.sums()["expected_rejections"] == [pytest.approx(1 / trials)]
    assert rule.drafts.tolist() == [[0.5, 1.5]]
    assert (tools.per_round, tools.positions) == ([[1, 1]], [1])
    tools.verified(laws, laws, Round(yes, one, one, ~yes, ~yes))
    assert tools.sums()["expected_trials"] == [2 * counted]
    assert rule.drafts.tolist() == [[0.25, 0.75]]


def engine_of(system: System, models: FakeModels, kernels: str) -> Engine:
    """Of random models; of the shipped target where its heads speak."""
    multi = system is System.multi_token
    chosen = ["method=mtp", "heads.n=4"] if multi else [*models.overrides, f"system={system.name}"]
    return Builder(decode.main.compose([*chosen, f"runtime.kernels={kernels}"])).engine(system)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("system", STREAMED)
def test_a_stream_is_the_utterance(system: System, kernels: str, models: FakeModels) -> None:
    """Tokens, counts and samples, however many codes a piece has."""
    engine = engine_of(system, models, kernels)
    prompt = Prompt("one two", "two", torch.arange(20))
    request = engine.request("u", prompt, 3)
    (whole,) = engine.decode(system, [request]).outcomes
    wave = engine.audio(whole, prompt).wave
    for chunk in (1, 4, None):
        stream = Stream(engine, growing(engine, system, request), prompt, chunk)
        pieces = list(stream)
        assert stream.outcome == whole
        np.testing.assert_array_equal(np.concatenate(pieces), wave)
        found = stream.arrivals
        assert found.seconds == sorted(found.seconds)
        assert found.lengths == [len(piece) / 16_000 for piece in pieces]
        assert len(pieces) > 1
        assert len(pieces[0]) == 640 * (chunk or 5)


def test_gaps_are_silence_that_a_listener_waits_in() -> None:
    """First piece at 1 s; the second in time; the third 0.5 s late, the fourth late after it."""
    found = Arrivals([1.0, 1.5, 3.5, 5.1], [1.0, 1.0, 1.0, 0.5]).heard()
    assert found["first_audio_ms"] == 1000
    assert found["gaps"] == 2
    assert found["gap_ms"] == pytest.approx(500 + 600)
    assert found["stream_seconds"] == 5.1
    assert found["stream_audio_seconds"] == 3.5
    assert Arrivals([0.2, 0.3], [1.0, 1.0]).heard()["gaps"] == 0


def test_records_have_when_pieces_came(models: FakeModels, tmp_path: Path) -> None:
    """Of every system that can; runs without a chunk keep their names."""
    told = [*models.overrides, "limit=2", "instrument=0", "runtime.warmup=0", "baseline=false"]
    told.append(f"out={tmp_path}")
    for arguments in (["method=ssd", "chunk=4"], ["method=target", "chunk=4"], ["method=target"]):
        assert decode.main([*told, *arguments]) == 0
    folders = sorted(path.parent for path in tmp_path.glob("*/config.json"))
    assert len(folders) == 3
    streamed = []
    for folder in folders:
        for record in read_records(folder).values():
            counts, arrivals = decode_counts(record), record.arrivals
            streamed.append(arrivals is not None)
            assert ("first_audio_ms" in counts) == (arrivals is not None)
            if arrivals:
                assert sum(arrivals.lengths) == pytest.approx(record.audio_seconds)
    assert sorted(streamed) == [False] * 2 + [True] * 4
