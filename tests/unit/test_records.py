"""Rows survive the disk, kills and other versions of the code."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative_tts.records import (
    Appender,
    Counts,
    DecodeRecord,
    ListItem,
    Split,
    read_jsonl,
    read_list,
    spread,
    to_row,
    write_jsonl,
)
from speculative_tts.typed import json_text, not_finite, read_json, typed, write_json

RECORD = DecodeRecord(
    id="a",
    speaker="slt",
    text="alpha two",
    prompt_text="bravo",
    prompt_audio="prompts/a.flac",
    reference_audio=None,
    seed=0,
    audio="audio/a.wav",
    codes=[1, 2, 3],
    tokens=4,
    stop="stop_id",
    audio_seconds=0.12,
    lm_seconds=0.03,
    counts=Counts(rounds=2, drafted_per_position=[2, 1], accepted_per_position=[2, 0], bonuses=1),
    split=Split(0.1, 0.2, 0.3, [0.5], [0.25], [2]),
)
ITEM = {"id": "a", "text": "one", "prompt_audio": "p.wav", "prompt_text": "two"}


def test_record_goes_through_json_unchanged() -> None:
    row = json.loads(json.dumps(to_row(RECORD)))
    assert typed(DecodeRecord, row, "records:1") == RECORD


def test_counts_are_flat_in_files_as_in_those_of_finished_runs() -> None:
    row = to_row(RECORD)
    assert "counts" not in row
    assert (row["rounds"], row["drafted"], row["accepted"], row["bonuses"]) == (2, 3, 2, 1)
    with pytest.raises(ValueError, match=r"records:1: rounds is .x.; give a whole number"):
        typed(DecodeRecord, row | {"rounds": "x"}, "records:1")
    for name in ("passes", "unverified", "dead_blocks"):  # of a record from before these
        del row[name]
    assert typed(DecodeRecord, row, "records:1") == RECORD


def test_unknown_keys_are_ignored_and_missing_ones_named() -> None:
    row = to_row(RECORD) | {"from_the_future": 1}
    assert typed(DecodeRecord, row, "records:1") == RECORD
    del row["codes"]
    with pytest.raises(ValueError, match="records:1: codes is missing; give a list"):
        typed(DecodeRecord, row, "records:1")


def test_jsonl_round_trip(tmp_path: Path) -> None:
    rows = [{"id": "a", "x": 1}, {"id": "b", "x": None}]
    write_jsonl(tmp_path / "new" / "rows.jsonl", rows)
    assert list(read_jsonl(tmp_path / "new" / "rows.jsonl")) == rows


def test_a_torn_last_line_is_skipped_and_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b')
    assert list(read_jsonl(path)) == [{"id": "a"}]
    path.write_text('{"id": "a"}\nnot json\n{"id": "b"}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl:2 is not a JSON object"):
        list(read_jsonl(path))
    path.write_text('{"id": "a"}\n["b", 1]\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl:2 is not a JSON object but \["):
        list(read_jsonl(path))


def test_appender_continues_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "run" / "records.jsonl"
    first = Appender(path)
    first.append({"id": "a"})
    first.close()
    with path.open("a") as file:
        file.write('{"id": "torn')
    second = Appender(path)
    second.append({"id": "b"})
    second.close()
    assert [row["id"] for row in read_jsonl(path)] == ["a", "b"]


def test_a_whole_last_row_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}')  # written by hand, or killed before the newline
    assert list(read_jsonl(path)) == [{"id": "a"}, {"id": "b"}]
    appender = Appender(path)
    appender.append({"id": "c"})
    appender.close()
    assert list(read_jsonl(path)) == [{"id": "a"}, {"id": "b"}, {"id": "c"}]


def test_appended_rows_are_on_disk_at_once(tmp_path: Path) -> None:
    appender = Appender(tmp_path / "records.jsonl")
    appender.append({"id": "a"})
    assert list(read_jsonl(tmp_path / "records.jsonl")) == [{"id": "a"}]
    appender.close()


def test_list_paths_are_taken_from_the_lists_folder(tmp_path: Path) -> None:
    row = {"id": "a", "text": "alpha", "prompt_audio": "p/a.flac", "prompt_text": "bravo"}
    other = row | {"id": "b-1 (2)", "reference_audio": "/elsewhere/r.wav"}
    write_jsonl(tmp_path / "list.jsonl", [row, other])
    first, second = read_list(tmp_path / "list.jsonl")
    assert first == ListItem("a", "alpha", str(tmp_path / "p/a.flac"), "bravo")
    assert second.reference_audio == "/elsewhere/r.wav"


def test_list_that_is_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; give"):
        read_list(tmp_path / "list.jsonl")
    (tmp_path / "list.jsonl").touch()
    with pytest.raises(ValueError, match="has no rows"):
        read_list(tmp_path / "list.jsonl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "id a is there twice"),
        ({"id": "../../escaped"}, r"id '\.\./\.\./escaped' cannot name a file"),
        ({"id": "a\\b"}, "cannot name a file"),
        ({"id": ".."}, "cannot name a file"),
        ({"id": ""}, "cannot name a file"),
        ({"id": "b" * 300}, "cannot name a file"),
        ({"id": 7}, "jsonl:2: id is 7; give text in quotes"),
        ({"id": "b", "prompt_audio": None}, "jsonl:2: prompt_audio is null; give text in quotes"),
        *(
            ({"id": unseen}, r"list\.jsonl: id .* use .*letters, digits, - and _")
            for unseen in (" a", "a ", "a\u200b", "a\u202eb", "\ufeffa", "a\u2028b")
        ),
        *(
            ({"id": one}, r"is there twice, as .* on disks that ignore case")
            for one in ("A", "\u00e9", "STRASSE")
        ),
        *(
            ({"id": formula}, r"so that a spreadsheet computes it; begin with a letter")
            for formula in ("=1+1", "+1", "@x")
        ),
    ],
)
def test_ids_name_files_of_a_run_each_its_own(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """A repeated id once wrote two records and one wav, and `../` a wav outside the run folder.

    Ids that some disks take for one did so too; in CSV files spreadsheets compute formulas.
    """
    others = [ITEM | {"id": key} for key in ("a", "e\u0301", "stra\u00dfe")]
    write_jsonl(tmp_path / "list.jsonl", [others[0], ITEM | change, *others[1:]])
    with pytest.raises(ValueError, match=message):
        read_list(tmp_path / "list.jsonl")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        (9, [0, 1, 2, 3, 4, 5]),
        (3, [0, 2, 4]),
        (1, [0]),
        (4, [0, 1, 3, 4]),
    ],
)
def test_spread(limit: int | None, expected: list[int]) -> None:
    assert spread(list(range(6)), limit) == expected


def test_spread_refuses_nothing() -> None:
    with pytest.raises(ValueError, match="limit 0 is below 1; use limit=null"):
        spread([1], 0)


def test_audio_of_a_relative_list_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of a run over data/tiny/dev lacked similarity: its prompts were sought in the run."""
    write_jsonl(tmp_path / "data" / "list.jsonl", [ITEM | {"reference_audio": "r.wav"}])
    monkeypatch.chdir(tmp_path)
    (item,) = read_list(Path("data/list.jsonl"))
    assert item.prompt_audio == str(tmp_path / "data" / "p.wav")
    assert item.reference_audio == str(tmp_path / "data" / "r.wav")


def test_a_list_edited_on_windows_is_read(tmp_path: Path) -> None:
    """A byte order mark was no JSON: a good first row was refused."""
    path = tmp_path / "list.jsonl"
    rows = [ITEM, ITEM | {"id": "b", "text": "one\u2028two"}]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows)
    path.write_bytes(text.encode("utf-8-sig"))
    assert [(item.id, item.text) for item in read_list(path)] == [
        ("a", "one"),
        ("b", "one\u2028two"),
    ]


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """The first of two values was dropped in silence."""
    path = tmp_path / "list.jsonl"
    path.write_text(
        '{"id": "a", "id": "b", "text": "one", "prompt_audio": "p", "prompt_text": ""}\n'
    )
    with pytest.raises(ValueError, match=r'list\.jsonl:1 is .*the key "id" is there twice'):
        read_list(path)
    path.write_text('{"model_type": "llama", "sub": {"x": 1, "x": 2}}')
    with pytest.raises(ValueError, match=r'list\.jsonl is .*the key "x" is there twice'):
        read_json(path)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (float("nan"), "the value is nan"),
        ({"split": {"kl": [0.5, float("inf")]}}, "split.kl.1 is inf"),
        ([{"a": (1, -float("inf"))}], "0.a.1 is -inf"),
        ({"a": np.float64("nan")}, "a is nan"),
    ],
)
def test_a_number_that_json_cannot_hold_is_named(tmp_path: Path, value: object, where: str) -> None:
    """`NaN` and `Infinity` were written, which no other reader of JSON takes."""
    path = tmp_path / "rows.json"
    assert not_finite(value) == where
    with pytest.raises(ValueError, match=re.escape(f"{path}: {where}, which JSON cannot hold")):
        write_json(path, value)
    with pytest.raises(ValueError, match="which JSON cannot hold"):
        write_jsonl(path, [{"value": value}])
    assert not path.exists()
    appender = Appender(path)
    appender.append({"value": 1.5})
    with pytest.raises(ValueError, match="which JSON cannot hold"):
        appender.append({"value": value})
    appender.close()
    assert list(read_jsonl(path)) == [{"value": 1.5}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_what_is_written_is_json(value: object) -> None:
    """It is what a strict reader takes, or a refusal."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    if not_finite(value):
        with pytest.raises(ValueError, match="which JSON cannot hold"):
            json_text(value)
    else:
        assert json.loads(json_text(value), parse_constant=refuse) == value
