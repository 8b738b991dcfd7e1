"""Tables say how their draft was made, for the paper's is another."""

import json
from pathlib import Path

import pytest
from synthetic_runs import make_run

from speculative_tts.reporting.checkpoints import draft_notes
from speculative_tts.reporting.paper import DraftPolicy, published
from speculative_tts.reporting.runs import find_runs

POLICY = DraftPolicy("two layers", train_layers=2, losses=("ce",))


def test_the_shipped_draft_is_not_made_as_the_papers(tmp_path: Path) -> None:
    for system in ("target", "draft", "speculative"):
        make_run(tmp_path, system, n=2)
    (note,) = draft_notes(find_runs(tmp_path).runs, POLICY)
    assert note == (
        "The draft (tiny:draft) is layers 0, 1, 11 of the target; all of them and the head are "
        "trained for acceptance (the log of the sum of min(p, q)). This is not the "
        "paper's policy: two layers."
    )
    for table in map(published, ("ssd_table1", "ssd_table3")):
        assert "lower 2 and upper 6 of 24 layers" in table.draft.text  # type: ignore[union-attr]


def test_nothing_is_said_of_a_draft_that_is_gone_or_another_by_now(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs", "draft", n=2, draft={"path": str(tmp_path / "draft")})
    runs = find_runs(tmp_path / "runs").runs
    assert draft_notes(runs, POLICY) == []
    settings = {"losses": {"ce": 1.0, "kl": 0.0}, "train_layers": 2, "train_head": False}
    (tmp_path / "draft").mkdir()
    text = json.dumps({"layers": [0, 1, 3], "settings": settings})
    (tmp_path / "draft" / "inheritance.json").write_text(text)
    (note,) = draft_notes(runs, POLICY)
    assert "layers 0, 1, 3 of the target; the first 2 are trained for cross entropy. The" in note
    provenance = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps(provenance | {"weights": {"draft": "0"}}))
    assert draft_notes(find_runs(tmp_path / "runs").runs, POLICY) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "is not a JSON object"),
        ("[]", "is not a JSON object but"),
        ('{"layers": [0], "settings": {"losses": [], "train_layers": 1}}', "is not ours"),
        ('{"layers": 3}', "is not ours"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str, fault: str) -> None:
    """A torn one was passed over in silence, and losses that are a list were a traceback."""
    make_run(tmp_path / "runs", "draft", n=2, draft={"path": str(tmp_path / "draft")})
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "inheritance.json").write_text(content)
    (note,) = draft_notes(find_runs(tmp_path / "runs").runs, POLICY)
    assert note.startswith(f"How {tmp_path / 'draft'} was made is not known: ")
    assert f"inheritance.json {fault}" in note
