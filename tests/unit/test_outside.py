"""Files are read and JSON is written in one place each, which names file, fault and remedy."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import speculative_tts

PACKAGE = Path(speculative_tts.__file__).parent
BESIDE = {
    "": PACKAGE,
    "benchmarks: ": PACKAGE.with_name("speculative_tts_benchmarks"),
    "makers: ": PACKAGE.with_name("speculative_tts_makers"),
}
READERS = {  # call -> files that may make it, and why
    "json.loads": {
        "typed.py": "the reader",
        "records.py": "the end of a growing file of our own",
        "caches/store.py": "a manifest of our own, held against its hash",
        "caches/transitions.py": "a cache of our own; damaged ones are told",
        "checks/compare.py": "golden files, which may be lists",
        "corpora/extract.py": "metadata of our own shards",
        "corpora/settings.py": "settings that the same command noted",
        "listening/server.py": "a request, not a file",
        "makers: corpora/testset.py": "a list that the same command wrote",
        "models/families/row_layout.py": "a key of a cache in memory",
        "reporting/page.py": "a copy of data in memory",
        "training/data/columns.py": "metadata of our own shards",
    },
    "torch.load": {
        "state_dicts.py": "the reader",
        "checks/valle.py": "golden files",
        "evaluation/judges/ge2e.py": "a file of an installed package",
        "training/state.py": "a training of our own; damaged ones are told",
    },
    "load_file": {"codecs/tiny.py": "numpy's, in a codec of our own; damaged ones are told"},
    "pickle.load": {},
    "json.load": {},
    "yaml.load": {"reporting/reading.py": "templates of our own, by the safe loader"},
    "yaml.unsafe_load": {},
}


WRITERS = {  # as READERS
    "json.dumps": {
        "reporting/page.py": "a copy of data in memory, whose NaN becomes null",
        "typed.py": "the writer; a wrong value in a message",
    },
    "json.dump": {},
}


def calls(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def callers(call: str) -> set[str]:
    return {
        f"{prefix}{path.relative_to(package)}"
        for prefix, package in BESIDE.items()
        for path in package.rglob("*.py")
        if call in calls(path.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("call", READERS)
def test_readers_of_files_are_few(call: str) -> None:
    """Each place that parsed JSON itself had a traceback, or a message without the file."""
    assert callers(call) == READERS[call].keys()


@pytest.mark.parametrize("call", WRITERS)
def test_one_writer_of_json(call: str) -> None:
    """Each place that formatted JSON itself wrote NaN and Infinity, which are not JSON."""
    assert callers(call) == set(WRITERS[call])


def test_a_reader_elsewhere_would_be_found() -> None:
    assert "json.loads" in calls("def read(path):\n    return json.loads(path.read_text())")
