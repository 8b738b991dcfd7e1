"""What raters get and what stays at home."""

import json
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
from listening_runs import RATE, make_runs, make_test, record, speech

from speculative_tts.commands.listen import main
from speculative_tts.listening import sound
from speculative_tts.listening.key import Role
from speculative_tts.records import to_row, write_jsonl

NAMES = ["draft-s0-11111111", "target-s0-22222222", "speculative-tolerance-b0.4-k3-s0-33333333"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("listening") / "runs", NAMES)


def data(folder: Path) -> dict[str, object]:
    text = (folder / "site" / "data.js").read_text()
    return dict(json.loads(text.removeprefix("window.TEST = ").removesuffix(";\n")))


def test_raters_learn_nothing_of_the_systems(runs: Path, tmp_path: Path) -> None:
    key = make_test(
        tmp_path,
        runs,
        "raters=6",
        "samples=4",
        "systems=[draft-s0,target-s0,speculative-tolerance-b0.4-k3-s0]",
    )
    site = tmp_path / "site"
    everything = b"".join(path.read_bytes() for path in site.rglob("*") if path.is_file())
    for name in (*NAMES, "u3", "speaker1", "key.json", "runs/"):
        assert name.encode() not in everything
    assert {path.name for path in (site / "audio").iterdir()} == set(key.clips)
    assert [one.name for one in key.systems] == NAMES
    assert data(tmp_path)["id"] == key.id
    assert len(key.raters) == 6
    assert all(len(own) == 4 * 3 + 4 for own in key.raters)
    for own in key.raters:
        roles = [key.clips[clip].role for trial in own for clip in trial.clips]
        assert (roles.count(Role.high), roles.count(Role.low)) == (2, 2)
        assert not key.is_check(own[0])


def test_all_clips_are_equally_loud(runs: Path, tmp_path: Path) -> None:
    """Sources differ by 15 dB."""
    make_test(tmp_path, runs, "raters=3", "samples=4", "loudness=-30")
    levels = []
    for path in (tmp_path / "site" / "audio").iterdir():
        wave, rate = soundfile.read(path)
        levels.append(pyloudnorm.Meter(rate, block_size=len(wave) / rate).integrated_loudness(wave))
    assert np.ptp(levels) < 0.2
    assert np.mean(levels) == pytest.approx(-30, abs=0.1)


def test_no_clip_is_cut_off(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_test(tmp_path, runs, "raters=3", "samples=4", "loudness=-5")
    peaks = [np.abs(soundfile.read(p)[0]).max() for p in (tmp_path / "site" / "audio").iterdir()]
    assert max(peaks) == pytest.approx(sound.PEAK, abs=0.01)
    assert "LUFS instead of -5: " in capsys.readouterr().out


@pytest.mark.parametrize("wave", [np.zeros(0), np.zeros(400), np.full(2000, 3e-4)])
def test_what_a_system_did_not_say(wave: np.ndarray, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "nothing.wav", wave, RATE)
    one = sound.load(tmp_path / "nothing.wav")
    assert len(one.wave)
    assert np.isfinite(one.gain(-23.0))


@pytest.mark.parametrize(
    ("test", "trials", "clips", "reference"),
    [("smos", 8, 1, True), ("cmos", 4, 2, False), ("ab", 4, 2, False)],
)
def test_every_kind_of_test(
    test: str, trials: int, clips: int, reference: bool, runs: Path, tmp_path: Path
) -> None:
    systems = "systems=[target,speculative]"
    key = make_test(tmp_path, runs, f"test={test}", "raters=4", "samples=4", systems)
    for own in key.raters:
        real = [trial for trial in own if not key.is_check(trial)]
        assert len(real) == trials
        assert len(own) - len(real) == 4
        assert all(len(trial.clips) == clips for trial in own if not key.is_check(trial))
        assert all((trial.reference is not None) == reference for trial in own)
    assert key.training


def test_the_low_check_of_a_voice_is_another_speaker(runs: Path, tmp_path: Path) -> None:
    key = make_test(tmp_path, runs, "test=smos", "raters=3", "samples=4")
    for own in key.raters:
        for trial in own:
            assert trial.reference is not None
            assert key.clips[trial.reference].role is Role.prompt
            assert key.clips[trial.reference].utterance == key.clips[trial.clips[0]].utterance


def test_the_baseline_is_first_and_in_every_pair(runs: Path, tmp_path: Path) -> None:
    key = make_test(tmp_path, runs, "test=ab", "raters=3", "samples=4", "baseline=target")
    assert key.systems[0].name == NAMES[1]
    pairs = [{key.clips[c].system for c in t.clips} for t in key.raters[0] if not key.is_check(t)]
    assert all(NAMES[1] in pair for pair in pairs)


def test_the_same_seed_is_the_same_test(runs: Path, tmp_path: Path) -> None:
    ids = [
        make_test(tmp_path / str(i), runs, "raters=3", "samples=4", f"seed={seed}").id
        for i, seed in enumerate((0, 0, 1))
    ]
    assert ids[0] == ids[1] != ids[2]


def test_a_system_of_others_beside_runs(runs: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for i in range(6):
        speech(tmp_path / f"u{i}.wav", rng, 0.3)
        rows.append({"id": f"u{i}", "text": "alpha two", "audio": f"u{i}.wav"})
    write_jsonl(tmp_path / "theirs.jsonl", rows)
    given = f"list={tmp_path / 'theirs.jsonl'}"
    key = make_test(
        tmp_path / "test", runs, given, "raters=2", "samples=6", "systems=[target,theirs]"
    )
    assert [(one.name, one.run) for one in key.systems] == [
        (NAMES[1], True),
        ("theirs-scores", False),
    ]


def test_texts_are_shown_only_when_asked(runs: Path, tmp_path: Path) -> None:
    plain = make_test(tmp_path / "a", runs, "raters=2", "samples=2")
    shown = make_test(tmp_path / "b", runs, "raters=2", "samples=2", "show_text=true")
    assert not any(trial.text for own in plain.raters for trial in own)
    assert all(trial.text == "alpha two" for own in shown.raters for trial in own)


def test_utterances_that_one_system_lacks_are_left_out(tmp_path: Path) -> None:
    runs = make_runs(tmp_path / "runs", ["a", "b"], n=6)
    write_jsonl(
        runs / "b" / "records.jsonl", [to_row(record(f"u{i}", "speaker1")) for i in range(4)]
    )
    (runs / "a" / "audio" / "u0.wav").unlink()
    key = make_test(tmp_path / "test", runs, "raters=2", "samples=3")
    said = {one.utterance for one in key.clips.values() if one.role is Role.system}
    assert said == {"u1", "u2", "u3"}


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (["systems=[nobody]"], ["nobody names 0 of the systems", NAMES[0]]),
        (["systems=[draft]", "test=ab"], ["test=ab compares systems, and there is one"]),
        (["samples=13"], ["samples=13 is more than the 12 utterances", "samples=12"]),
        (["utterances=3"], ["samples=10 is more than the 3 utterances"]),
        (["test=mean"], ["test=mean", "mos, smos, cmos, ab"]),
        (["loudness=3"], ["loudness 3", "-60 to -5"]),
    ],
)
def test_mistakes_are_told_in_a_line(
    settings: list[str],
    parts: list[str],
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["make", f"folder={tmp_path}", f"runs={runs}", *settings]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    for part in parts:
        assert part in line
    assert not (tmp_path / "site").exists()


def test_a_test_with_answers_is_not_overwritten(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_test(tmp_path, runs, "raters=2", "samples=2")
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "one.json").write_text("{}")
    before = (tmp_path / "key.json").read_bytes()
    assert main(["make", f"folder={tmp_path}", f"runs={runs}", "raters=3"]) == 2
    assert "holds answers" in capsys.readouterr().err
    assert (tmp_path / "key.json").read_bytes() == before
