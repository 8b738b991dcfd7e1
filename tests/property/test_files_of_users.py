"""Whatever a list, a record, a layout or an override holds: an object, or a ValueError of one line.

Each example is a file as a person or a broken disk may leave it: right rows with one value changed,
keys lost, and any JSON at all. Other exceptions than ValueError would be tracebacks.
"""

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

from bad_files import RECORD, ROW
from hypothesis import example, given
from hypothesis import strategies as st

from speculative_tts.commands import decode
from speculative_tts.commands.messages import one_line
from speculative_tts.corpora.published import read_published
from speculative_tts.evaluation.sources import read_external, read_run
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.records import read_list
from speculative_tts.reporting.runs import find_runs
from speculative_tts.runs.folder import read_records
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.fields import check
from speculative_tts.schema.prepare import ListFormat
from speculative_tts.typed import read_json, typed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EXTERNAL = {"id": "a", "text": "one", "audio": "a.wav"}
LAYOUT = SpeechLayout.merged(8, ("one", "two"), {"temperature": 0.8}).__dict__
CONFIG = {
    "model_type": "qwen2",
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 12,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}


@st.composite
def changed(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """A good object with some values replaced by anything, and some keys lost."""
    keys = draw(st.lists(st.sampled_from(sorted(good)), max_size=3, unique=True))
    row = good | {key: draw(JSON) for key in keys}
    for key in draw(st.lists(st.sampled_from(sorted(row)), max_size=1)):
        del row[key]
    return row | draw(st.dictionaries(st.text(max_size=5), JSON, max_size=1))


def files(good: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSONL files: rows like a good one, any JSON, any bytes; perhaps cut short."""
    row = (changed(good) | JSON).map(lambda value: json.dumps(value).encode())
    rows = st.lists(row | st.binary(max_size=20), max_size=3)
    return st.builds(
        lambda lines, end: b"\n".join(lines) + end, rows, st.sampled_from([b"\n", b""])
    )


def documents(good: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """JSON files: like a good one, any JSON, any bytes."""
    value = (changed(good) | JSON).map(lambda value: json.dumps(value).encode())
    return value | st.binary(max_size=40)


@contextlib.contextmanager
def told() -> Any:
    """Lets pass what a command tells in one line, and nothing else."""
    try:
        yield
    except ValueError as error:
        line = one_line(error, DecodeConfig)
        assert line
        assert "\n" not in line
        assert "SST_DEBUG" not in line
        line.encode()


def written(folder: str, name: str, content: bytes) -> Path:
    path = Path(folder) / name
    path.write_bytes(content)
    return path


@given(files(ROW))
def test_lists(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, told():
        items = read_list(written(folder, "list.jsonl", content))
        assert all(isinstance(item.text, str) for item in items)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4)
FIELD = st.text(st.characters(codec="utf-8", exclude_characters="|\r\n"), max_size=12)
FIELDS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=4)


@st.composite
def lines(draw: st.DrawFn, rows: list[str]) -> bytes:
    """A text file as one or another editor leaves it: byte order mark, ends of lines."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(rows) + draw(st.sampled_from(["", end]))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig"])))


@given(PAIRS, st.booleans(), st.data())
def test_what_goes_into_a_list_comes_out_in_order(
    pairs: list[tuple[str, str]], ascii_only: bool, data: st.DataObject
) -> None:
    rows = [
        json.dumps(ROW | EXTERNAL | {"id": key, "text": text}, ensure_ascii=ascii_only)
        for key, text in pairs
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, "list.jsonl", data.draw(lines(rows)))
        with told():
            assert [(item.id, item.text) for item in read_list(path)] == pairs
        with told():
            (source,) = read_external(path)
            assert [(sample.id, sample.text) for sample in source.samples] == pairs


@given(FIELDS, st.data())
def test_what_goes_into_a_published_list_comes_out_in_order(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    rows = [f"{key}|said|p.wav|{text}" for key, text in pairs]
    with tempfile.TemporaryDirectory() as folder, told():
        path = written(folder, "meta.lst", data.draw(lines(rows)))
        found = read_published(path, ListFormat.seedtts)
        assert [(row.id, row.text) for row in found] == [(a.strip(), b.strip()) for a, b in pairs]


@given(files(EXTERNAL))
def test_lists_of_other_systems(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, told():
        read = read_external(written(folder, "list.jsonl", content))
        assert all(source.samples for source in read)


@given(files(RECORD), documents({"target": {"path": "x"}, "rule": {"name": "exact"}}))
def test_runs(records: bytes, config: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written(folder, "records.jsonl", records)
        written(folder, "config.json", config)
        with told():
            read_run(Path(folder))
        with told():
            read_records(Path(folder))


@given(files(RECORD), documents({"run": {}, "metrics": {}, "n": 3}), documents({"seed": 1}))
def test_runs_of_reports(records: bytes, summary: bytes, config: bytes) -> None:
    """A broken run never ends a report: it is left out and named."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        for name, content in (
            ("DONE", b""),
            ("records.jsonl", records),
            ("scores.jsonl", records),
            ("summary.json", summary),
            ("config.json", config),
        ):
            written(str(run), name, content)
        found = find_runs(Path(folder))
        assert len(found.runs) + len(found.unusable) == 1


@given(documents(LAYOUT))
def test_layouts(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, told():
        path = written(folder, "speech.json", content)
        layout = SpeechLayout.from_folder(path.parent)
        assert max(layout.stop_ids) < layout.speech_vocab_size


@given(documents(CONFIG))
def test_decoder_configs(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, told():
        path = written(folder, "config.json", content)
        config = DecoderConfig.from_folder(path.parent)
        assert config.heads % config.kv_heads == 0
        assert config.head_dim % 2 == 0


@given(documents(ValleConfig().__dict__))
def test_valle_configs(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, told():
        path = written(folder, "config.json", content)
        assert typed(ValleConfig, read_json(path), path).nar_dim > 0


NUMBERS = ["lookahead", "seed", "limit", "rule.beta", "runtime.threads", "sampling.top_p", "zzz"]


@given(
    st.sampled_from([*NUMBERS, "system", "rule", "target.path", "out", "text"]),
    st.text(max_size=12) | st.integers().map(str) | st.floats().map(str) | JSON.map(json.dumps),
)
@example(key="rule", value="[null]")
def test_overrides(key: str, value: str) -> None:
    """Composed as a command does it; what comes out is within its limits."""
    try:
        check(decode.main.compose([f"{key}={value}"]))
        line: str | None = "composed"
    except Exception as error:  # noqa: BLE001 - whatever it is must have a line
        line = one_line(error, DecodeConfig)
    assert line
    assert "\n" not in line
