"""The list on which voices are compared."""

from pathlib import Path

from speculative_tts.assets import resolve
from speculative_tts.commands import prepare
from speculative_tts.records import ListItem, read_list
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.voices import dev_strings, voice_rows


def test_every_voice_says_every_string(tmp_path: Path) -> None:
    assert prepare.main(["corpus=voices", "rows=5", f"out={tmp_path / 'made'}"]) == 0
    items = read_list(tmp_path / "made" / "list.jsonl")
    shipped = read_list(resolve("tiny:testset/list.jsonl"))
    said: dict[str, list[str]] = {}
    for item in items:
        said.setdefault(item.speaker, []).append(item.text)
    assert said.keys() == {item.speaker for item in shipped}
    assert all(texts == dev_strings(PrepareConfig(rows=5)) for texts in said.values())
    prompts = {(item.speaker, item.prompt_text, item.seen) for item in shipped}
    assert {(item.speaker, item.prompt_text, item.seen) for item in items} == prompts
    assert all(Path(item.prompt_audio).is_file() for item in items)


def test_strings_are_the_dev_lists_and_none_of_the_tests() -> None:
    strings = dev_strings(PrepareConfig(rows=None))
    assert len(strings) == len(set(strings)) == 120
    assert not {item.text for item in read_list(resolve("tiny:testset/list.jsonl"))} & set(strings)


def test_a_voice_speaks_from_its_first_prompt() -> None:
    items = [ListItem("a", "one", "p.wav", "two", "s"), ListItem("b", "six", "q.wav", "ten", "s")]
    (row,) = voice_rows(items, ["nine"])
    assert (row.id, row.text, row.prompt_audio, row.prompt_text) == ("s-0", "nine", "p.wav", "two")
