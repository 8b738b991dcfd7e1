"""Streams say what the engine says of whole utterances; what a listener has of their times."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import FakeModels

from speculative_tts.commands import decode
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.streaming import STREAMED, Stream, growing
from speculative_tts.evaluation.rows import decode_counts
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import Arrivals
from speculative_tts.runs.folder import read_records
from speculative_tts.schema.decode import System


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


def test_systems_that_make_no_speech_bit_by_bit_say_so() -> None:
    config = decode.main.compose(["target=tiny_valle", "method=target"])
    engine = Builder(config).engine(System.target)
    prompt = Prompt("one", "two", torch.zeros(4, 20, dtype=torch.int64))
    request = engine.request("u", prompt, 0)
    with pytest.raises(ValueError, match="makes waves of whole utterances only; leave streaming"):
        Stream(engine, growing(engine, System.target, request), prompt)


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
