"""sst-decode processes=2: the same tokens, clocked in a process of its own too."""

import json
from pathlib import Path

import pytest

from speculative_tts.commands.decode import main as decode
from speculative_tts.evaluation.processes import cells
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.sources import read_run
from speculative_tts.records import SPLIT
from speculative_tts.runs.folder import read_records
from tests.fake_models import write_fake_models

pytestmark = pytest.mark.whole


def test_utterances_are_timed_in_every_process(tmp_path: Path) -> None:
    """A speed's interval was drawn over the utterances of one process."""
    models = write_fake_models(tmp_path / "models")
    common = [*models.overrides, "limit=2", "runtime.warmup=0", "instrument=0", "method=target"]
    assert decode([*common, f"out={tmp_path / 'one'}"]) == 0
    assert decode([*common, f"out={tmp_path / 'two'}", "processes=2"]) == 0
    (one,), (two,) = ((tmp_path / name).glob("target-*") for name in ("one", "two"))
    assert one.name != two.name, "another run, which sst-decode does not skip"
    plain, clocked = (read_records(folder).values() for folder in (one, two))
    for before, after in zip(plain, clocked, strict=True):
        assert before.codes == after.codes
        assert before.clocks is None, "old records have none, and are one process"
        clocks = after.clocks
        assert clocks is not None
        assert len(clocks) == 2
        mean = sum(clock.lm_seconds for clock in clocks) / 2
        assert after.lm_seconds == pytest.approx(mean)
    metric = METRICS["tokens_per_second"]
    numbers = [
        cells(read_run(folder).samples, metric, lambda row: row.id).number for folder in (one, two)
    ]
    assert numbers == [1, 2]
    for folder in (one, two):
        memory = json.loads((folder / "provenance.json").read_text())["memory"]
        assert memory["quiet"] >= memory["gb_per_second"] > 0, "of a process alone too"


def test_an_utterance_is_streamed_in_every_process(tmp_path: Path) -> None:
    """First audio was that of the first process, however many timed the rest."""
    models = write_fake_models(tmp_path / "models")
    given = ["limit=2", "runtime.warmup=0", "instrument=0", "method=target", "chunk=5"]
    assert decode([*models.overrides, *given, f"out={tmp_path / 'runs'}", "processes=2"]) == 0
    (folder,) = (tmp_path / "runs").glob("target-*")
    for record in read_records(folder).values():
        first, second = (clock.arrivals for clock in record.clocks or ())
        assert first is not None
        assert second is not None
        assert first.lengths == second.lengths
        assert first.seconds != second.seconds
        assert record.arrivals == first
    samples = read_run(folder).samples
    for name in ("first_audio_ms", "stream_rtf", "gaps", "tokens_per_second", "codec_rtf"):
        assert cells(samples, METRICS[name], lambda row: row.id).number == 2, name


def test_shares_of_a_round_are_measured_in_every_process(tmp_path: Path) -> None:
    """They were of the first process, and stood beside speeds of five."""
    models = write_fake_models(tmp_path / "models")
    given = ["limit=2", "runtime.warmup=0", "instrument=0", "method=exact", "lookahead=2"]
    given += ["runtime.kernels=native"]  # whose rounds clock themselves
    assert decode([*models.overrides, *given, f"out={tmp_path / 'runs'}", "processes=2"]) == 0
    (folder,) = (tmp_path / "runs").glob("speculative-*")
    for record in read_records(folder).values():
        for clock in record.clocks or ():
            parts = [getattr(clock, name) for name in SPLIT]
            assert min(parts) > 0
            assert sum(parts) < clock.lm_seconds, "prefill is in no round"
    samples = read_run(folder).samples
    for name in ("draft_share", "verify_share", "accept_share"):
        assert cells(samples, METRICS[name], lambda row: row.id).number == 2, name
