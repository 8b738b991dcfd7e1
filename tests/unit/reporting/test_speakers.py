"""The tiny system's tables by speaker, from run folders to files."""

from pathlib import Path

import pytest
from shipped import read_csv
from synthetic_runs import make_run

from speculative_tts.commands import decode
from speculative_tts.commands.report import main
from speculative_tts.evaluation.summary import read_scores
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.schema.decode import System

REPORT = REPORTS["tiny"](TINY)
NEW = [table for table in REPORT.tables if table.name.endswith("fresh")]
SPEAKERS, SPOKEN = REPORT.speakers
FRESH = {"data": {"name": "tiny_fresh", "path": "data/tiny/fresh/list.jsonl"}}
FINE = {
    "target": {"name": "tiny_fine", "path": "tiny:target_fine"},
    "codec": {"name": "tiny", "path": "tiny:codec_fine"},
}
VOICES = {
    "data": {"name": "tiny_voices", "path": "data/tiny/voices/list.jsonl"},
    "target": {"name": "tiny_fine"},
    "drafter": {"name": "recurrent"},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the whole report, and the report."""
    folder = tmp_path_factory.mktemp("tiny")
    for own in ({}, FINE):
        for system in ("target", "codec", "reference"):
            make_run(folder / "runs", system, n=24, **own)
        make_run(folder / "runs", "target", n=24, **FRESH, **own)
    for seed in (0, 1):
        make_run(folder / "runs", "speculative", rule="exact", n=48, seed=seed, **VOICES)
    arguments = [f"runs={folder / 'runs'}", f"out={folder}", "paper=tiny", "page=false"]
    assert main([*arguments, "strict=true"]) == 0
    return folder


def test_make_fresh_decodes_the_target_alone() -> None:
    """The table looks for it; the default is exact speculation."""
    assert decode.main.compose(["experiment=fresh"]).system is System.target
    assert {row.where["system"] for table in NEW for row in table.rows.values()} == {"target"}


def test_figures_are_those_of_the_runs_own_scores(tiny: Path) -> None:
    (run,) = (tiny / "runs").glob("codec-s0-00000000")
    for line in read_csv(tiny / "tiny" / "speakers.csv"):
        chosen = {
            "all": lambda row: True,
            "seen": lambda row: row["seen"],
            "unseen": lambda row: not row["seen"],
        }.get(line["key"], lambda row, name=line["key"]: row.speaker == name)
        rows = [row for row in read_scores(run) if chosen(row)]
        wer = 100 * sum(row["substitutions"] for row in rows) / sum(row["words"] for row in rows)
        assert float(line["codec_wer"]) == pytest.approx(wer, 1e-4)
        lost = 100 * sum(row["first_word_lost"] for row in rows) / len(rows)
        assert float(line["codec_first_word_lost"]) == pytest.approx(lost, 1e-4)


def test_groups_come_first_and_then_the_best_voice(tiny: Path) -> None:
    table = read_csv(tiny / "tiny" / "voices.csv")
    assert [line["key"] for line in table[:3]] == ["all", "seen", "unseen"]
    assert {line["key"] for line in table[3:]} == {f"speaker{i}" for i in range(4)}
    rates = [float(line["spoken_wer"]) for line in table[3:]]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_the_command_of_a_missing_run_names_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs", "target")
    given = [f"runs={tmp_path / 'runs'}", f"out={tmp_path}", "paper=tiny", "page=false"]
    assert main([*given, "strict=true"]) == 3
    assert (
        "target=tiny_fine drafter=recurrent rule=exact data=tiny_voices" in capsys.readouterr().err
    )


def test_few_utterances_of_a_speaker_have_no_interval(tiny: Path) -> None:
    """Six utterances a speaker on the test list, twelve of the strings that all voices say."""
    few, many = (read_csv(tiny / "tiny" / f"{one.name}.csv") for one in (SPEAKERS, SPOKEN))
    assert [bool(line["target_wer_low"]) for line in few] == [True, True, False, *4 * [False]]
    assert all(line["spoken_wer_low"] for line in many)
    text = (tiny / "tiny" / "voices.md").read_text()
    assert "words lost are the same of every word" in text
    assert "Every voice says the same strings" in text
