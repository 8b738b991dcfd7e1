"""Lists on which nothing was trained or chosen."""

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import soundfile

from speculative_tts.assets import resolve
from speculative_tts.commands import prepare
from speculative_tts.records import read_list
from speculative_tts.schema.prepare import Corpus, PrepareConfig
from speculative_tts_makers.corpora import unseen
from speculative_tts_makers.corpora.plan import plan_list, plan_takes
from speculative_tts_makers.corpora.unseen import plan_unseen

plan = cache(lambda corpus: plan_unseen(PrepareConfig(corpus=corpus)))


def words_of(corpus: Corpus) -> set[tuple[str, ...]]:
    prompts, rows = plan(corpus)
    return {one.words for one in (*prompts, *rows)}


@pytest.fixture(scope="module")
def heard() -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """The strings of the lists that ship, and those that training speaks."""
    config, reserved = PrepareConfig(), set[tuple[str, ...]]()
    for name, count in (("test", 8), ("dev", 4)):
        plan_list(name, count, config.seed, reserved)
    takes = plan_takes(config.n_takes + config.n_fine_takes, (1, 3), config.seed, reserved)
    return reserved, {take.words for take in takes}


@pytest.mark.parametrize(
    ("corpus", "listed"),
    [(Corpus.fresh, 60), (Corpus.registered, 240), (Corpus.registered2, 240)],
)
def test_no_string_was_heard_before(
    corpus: Corpus, listed: int, heard: tuple[set[tuple[str, ...]], set[tuple[str, ...]]]
) -> None:
    _, rows = plan(corpus)
    strings, (reserved, spoken) = words_of(corpus), heard
    assert len(rows) == listed
    assert len(strings) == listed + 30
    shipped = read_list(resolve("tiny:testset/list.jsonl"))
    assert not strings & reserved
    assert not strings & spoken
    assert {tuple(item.text.split()) for item in shipped} <= reserved
    assert {row.speaker.name for row in rows} == {item.speaker for item in shipped}


def test_the_lists_share_no_string() -> None:
    one, two, three = map(words_of, unseen.ROWS)
    assert not one & two
    assert not (one | two) & three


def test_a_later_list_leaves_the_earlier_ones_as_they_were() -> None:
    """What was registered was spoken when no later list was known."""
    rows = [" ".join(row.words) for row in plan(Corpus.registered)[1]]
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    assert digest.startswith("0381bbf34ba0")


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_flite_speaks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, rows = plan(Corpus.fresh)
    monkeypatch.setattr(unseen, "plan_unseen", lambda _config: (prompts[:1], rows[:2]))
    assert prepare.main(["corpus=fresh", f"out={tmp_path}"]) == 0
    items = read_list(tmp_path / "list.jsonl")
    assert [item.text for item in items] == [" ".join(row.words) for row in rows[:2]]
    for item in items:
        assert soundfile.info(item.prompt_audio).duration > 1
        assert json.loads((tmp_path / "list.jsonl").read_text().splitlines()[0])["prompt_text"]
