"""Published lists joined with real clips."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from libritts_clips import PROMPTS, TARGETS, lay_out, texts, unicats

from speculative_tts.commands import prepare as command
from speculative_tts.corpora import libritts, listing
from speculative_tts.corpora.libritts import text_of
from speculative_tts.corpora.published import Listed, read_published
from speculative_tts.records import ListItem, read_list
from speculative_tts.schema.prepare import Corpus, ListFormat

LEAK = f"{TARGETS[0]} {TARGETS[0]}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("corpus"))


def test_unicats_list_and_its_leak(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = unicats(tmp_path / "b", LEAK), tmp_path / "out"
    arguments = [f"path={corpus}", f"list_file={source}", f"out={out}"]
    assert command.main(["corpus=list", *arguments]) == 0
    printed = capsys.readouterr().out
    assert f"1 of the rows are their own prompt and were left out: {TARGETS[0]}" in printed
    items = read_list(out / "list.jsonl")
    assert [item.id for item in items] == list(TARGETS)
    assert [item.text for item in items] == [texts()[key] for key in TARGETS]
    assert [item.prompt_text for item in items] == [texts()[key] for key in PROMPTS]
    assert [(item.speaker, item.seen) for item in items] == [("8230", False), ("4077", False)]
    assert all(Path(str(item.reference_audio)).is_file() for item in items)
    assert json.loads((out / "list.json").read_text())["leaks"] == [TARGETS[0]]


def test_leaks_can_be_kept(corpus: Path) -> None:
    rows = [Listed(TARGETS[0], TARGETS[0])]
    root = corpus / "LibriTTS"
    kept = listing.join(rows, root, ["test-clean"], corpus, keep_leaks=True)
    assert [item.id for item in kept.items] == [TARGETS[0]]


def test_missing_audio_is_named_and_counted(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = unicats(tmp_path / "b", f"9_9_1_1 {PROMPTS[0]}", f"{PROMPTS[1]} 9_9_2_2")
    arguments = ["corpus=list", f"path={corpus}", f"list_file={source}", f"out={tmp_path}"]
    assert command.main(arguments) == 2
    line = capsys.readouterr().err
    assert "2 of 4 rows are missing: 9_9_1_1 (audio 9_9_1_1)" in line
    assert f"{PROMPTS[1]} (prompt 9_9_2_2)" in line
    assert "allow_missing=true" in line
    assert not (tmp_path / "list.jsonl").exists()
    assert command.main([*arguments, "allow_missing=true"]) == 0
    assert len(read_list(tmp_path / "list.jsonl")) == 2


def test_other_formats(corpus: Path, tmp_path: Path) -> None:
    f5 = tmp_path / "f5.lst"
    f5.write_text("1-2-0003\t2.7\tA prompt.\t1-2-0004\t4.6\tA text.\n")
    assert read_published(f5, ListFormat.f5) == [
        Listed("1-2-0004", "1-2-0003", "A text.", "A prompt.")
    ]
    wavs = corpus / "LibriTTS/test-clean/8230/279154"
    meta = wavs / "meta.lst"
    meta.write_text(
        f"a|A prompt.|{PROMPTS[0]}.wav|A text.\nb|A prompt.|{PROMPTS[0]}.wav|Text.|{TARGETS[0]}.wav"
    )
    out = tmp_path / "seedtts"
    arguments = ["format=seedtts", f"list_file={meta}", f"out={out}"]
    assert command.main(["corpus=list", *arguments]) == 0
    items = read_list(out / "list.jsonl")
    assert [item.reference_audio is None for item in items] == [True, False]
    assert items[0].prompt_audio == str((wavs / f"{PROMPTS[0]}.wav").resolve())


def test_librispeech_layout_and_its_text(tmp_path: Path) -> None:
    place = tmp_path / "LibriSpeech/test-clean/1/2"
    place.mkdir(parents=True)
    for key in ("1-2-0003", "1-2-0004"):
        soundfile.write(place / f"{key}.flac", np.zeros(1600), 16000)
    (place / "1-2.trans.txt").write_text("1-2-0003 A PROMPT\n1-2-0004 A TEXT\n")
    assert text_of(place / "1-2-0004.flac") == "A TEXT"
    row = Listed("1-2-0004", "1-2-0003", "A text.", "A prompt.")
    root = tmp_path / "LibriSpeech"
    (item,) = listing.join([row], root, ["test-clean"], tmp_path, keep_leaks=False).items
    assert (item.speaker, item.text) == ("1", "A text.")


def test_recordings_in_capitals_are_seen(corpus: Path, tmp_path: Path) -> None:
    """Files named .WAV, as some recorders write them, were missing from every list."""
    shutil.copytree(corpus / "LibriTTS", tmp_path / "LibriTTS")
    found = libritts.locate(tmp_path / "LibriTTS", TARGETS[0], ["test-clean"])
    assert found is not None
    audio, _ = found
    renamed = audio.rename(audio.with_suffix(".WAV"))
    assert libritts.locate(tmp_path / "LibriTTS", TARGETS[0], ["test-clean"]) == (
        renamed,
        "test-clean",
    )
    assert text_of(renamed) == texts()[TARGETS[0]]
    with pytest.raises(ValueError, match=r"^1 files end in .WAV, which lhotse does not see"):
        next(libritts.utterances(tmp_path / "LibriTTS", ["test-clean"], tmp_path, 1))


def test_random_list_is_a_function_of_its_seed(corpus: Path) -> None:
    seconds, unreadable = listing.recordings(corpus / "LibriTTS", ["test-clean"])
    assert not unreadable
    rows = listing.draw(seconds, 2, seed=1)
    assert rows == listing.draw(seconds, 2, seed=1)
    assert len(listing.draw(seconds, None, seed=1)) == 2  # all that there are
    assert all(row.prompt_id in PROMPTS and row.id != row.prompt_id for row in rows)
    assert all(row.id.split("_")[0] == row.prompt_id.split("_")[0] for row in rows)
    with pytest.raises(ValueError, match=r"rows=9, but there are only 2 utterances"):
        listing.draw(seconds, 9, seed=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "path is not set; give path=<folder of LibriTTS>"),
        (["path=/"], "path=/ holds no LibriTTS: no folder dev-clean, dev-other, test-clean"),
        (["path={corpus}"], "list_file is not set; get it from https://cpdu.github.io/unicats"),
        (["path={corpus}", "list_file=nowhere"], "list_file=nowhere not found; get it from"),
        (["path={corpus}", "parts=[dev-clean]"], "has no dev-clean; it has test-clean"),
        (["path={corpus}", "list_file={bad}"], "bad:1: not a line of format=unicats"),
        (["path={corpus}", "format=f5", "list_file={bad}"], "bad:1: not a line of format=f5"),
        (["format=seedtts", "list_file={bad}"], "bad:1: not a line of format=seedtts"),
    ],
)
def test_mistakes_are_one_line(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "bad").write_text("only-one-field\n")
    given = [one.format(corpus=corpus, bad=tmp_path / "bad") for one in arguments]
    assert command.main(["corpus=list", f"out={tmp_path / 'out'}", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_corpora_choose_their_defaults() -> None:
    config = command.main.compose(["corpus=libritts"])
    assert (config.corpus, config.out) == (Corpus.libritts, "data/libritts")
    assert config.parts[0] == "train-clean-100"
    assert command.main.compose(["corpus=libritts", "out=x"]).out == "x"
    assert command.main.compose().corpus is Corpus.tiny


@pytest.mark.parametrize(
    ("name", "content"),
    [("._8230_2_000001_000000.wav", b"\0\5\26\7Mac OS X"), ("8230_2_000009_000000.wav", b"")],
)
def test_unreadable_recordings_are_left_out_and_named_once(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    """A file that a Mac leaves beside each recording, or a cut download, ended in a traceback."""
    copy = tmp_path / "corpus"
    shutil.copytree(corpus, copy)
    (copy / "LibriTTS/test-clean/8230/279154" / name).write_bytes(content)
    out = tmp_path / "out"
    arguments = ["corpus=list", "format=random", "rows=2", f"path={copy}", f"out={out}"]
    assert command.main(arguments) == 0
    line = f"1 files are not readable audio: test-clean/8230/279154/{name}; left out"
    assert capsys.readouterr().out.count(line) == 1
    assert len(read_list(out / "list.jsonl")) == 2
    assert json.loads((out / "list.json").read_text())["unreadable"] == [
        f"test-clean/8230/279154/{name}"
    ]
    assert command.main([*arguments, "strict=true"]) == 2
    error = capsys.readouterr().err
    assert f"{name}; get them again, or leave them out with strict=false" in error
    assert error.count("\n") == 1


def test_a_listed_recording_without_sound_is_missing(tmp_path: Path) -> None:
    """Rows of a list went through unread, and the decoding of each failed later."""
    (tmp_path / "p.wav").touch()
    made = listing.join(
        [Listed("u", "p", "Text.", "Prompt.", None, "p.wav")], None, [], tmp_path, keep_leaks=False
    )
    assert made.missing == {"u": "sound in p.wav"}


def test_lists_edited_on_windows(tmp_path: Path) -> None:
    """The first id began with a byte order mark, and a text with U+2028 was cut in two rows."""
    meta = tmp_path / "meta.lst"
    rows = ["u0|One.|p.wav|Alpha.", "u1 | One.|p.wav|Alpha\u2028bravo."]
    meta.write_bytes(b"\xef\xbb\xbf" + "".join(f"{row}\r\n" for row in rows).encode())
    found = read_published(meta, ListFormat.seedtts)
    assert [(row.id, row.text) for row in found] == [("u0", "Alpha."), ("u1", "Alpha\u2028bravo.")]
    meta.write_text("u\u200b0|One.|p.wav|Alpha.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="holds characters that nobody sees"):
        read_published(meta, ListFormat.seedtts)


@pytest.mark.parametrize("ids", [["u", "u"], ["u", "U"], ["a/b"]])
def test_ids_of_a_list_that_is_written_name_files(tmp_path: Path, ids: list[str]) -> None:
    """sst-prepare wrote such lists with exit code 0, and sst-decode refused them."""
    items = [ListItem(key, "One.", "p.wav", "Two.") for key in ids]
    with pytest.raises(ValueError, match=r"is there twice|cannot name a file; use"):
        listing.write(listing.Listing(items), tmp_path / "list.jsonl", allow_missing=False)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["loop.wav", "a\0b.wav"])
def test_a_path_that_no_file_can_have_is_missing(tmp_path: Path, name: str) -> None:
    """A link to itself ended in a traceback, a NUL in a message without the list or the row."""
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    row = Listed("u", "p", "Text.", "Prompt.", None, name)
    made = listing.join([row], None, [], tmp_path, keep_leaks=False)
    assert made.missing == {"u": f"prompt {name}"}
