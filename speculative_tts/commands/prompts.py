"""Find the voice prompt of sst-speak: a recording, or a speaker of the test list."""

from collections.abc import Mapping
from pathlib import Path

from speculative_tts.records import ListItem, read_list
from speculative_tts.schema.speak import SpeakConfig
from speculative_tts.texts import some
from speculative_tts.typed import read_json

VOICES = "voices.json"


def find_prompt(config: SpeakConfig) -> ListItem:
    """Find the voice prompt; ValueError if it is neither a file nor a speaker."""
    if config.target.rows.by_name:
        return _named(config)
    path = Path(config.data.path)
    items = read_list(path)
    if config.prompt is None and config.prompt_text is not None:
        raise ValueError("prompt_text says the words of a recording; give it too, prompt=<a wav>")
    voices = {item.speaker: item for item in reversed(items)}  # the first row of each speaker
    default, left_out = chosen_voices(path, voices)
    if config.prompt is None:
        return default or items[0]
    if config.prompt in left_out:
        raise ValueError(
            f"prompt {config.prompt} is a speaker for tables alone: {left_out[config.prompt]}; "
            f"speakers: {some(sorted(voices.keys() - left_out), 20)}"
        )
    if config.prompt in voices:
        if config.prompt_text is not None:
            raise ValueError(
                f"prompt_text is for a recording of yours: speaker {config.prompt}'s words are "
                "in the list; leave it out, or give prompt=<a wav>"
            )
        return voices[config.prompt]
    if not Path(config.prompt).is_file():
        raise ValueError(
            f"prompt {config.prompt} is neither a file nor a speaker; speakers: "
            f"{some(sorted(voices.keys() - left_out), 20)}"
        )
    return ListItem("prompt", config.text, config.prompt, config.prompt_text or "")


def _named(config: SpeakConfig) -> ListItem:
    """Return the speaker that `prompt` names; ValueError for a recording."""
    if config.prompt_text is not None or Path(config.prompt or "").is_file():
        raise ValueError(
            f"prompt={config.prompt} is a recording, and {config.target.name} speaks as one of the "
            "speakers it knows; give prompt=<name>, or leave it out, and prompt_text too"
        )
    return ListItem("prompt", config.text, speaker=config.prompt or "")


def chosen_voices(
    path: Path, voices: Mapping[str, ListItem]
) -> tuple[ListItem | None, dict[str, str]]:
    """Return the default voice of a list, and why each of `left_out` does not speak.

    voices.json beside the list names them; without that file there is neither. Raises ValueError
    if it names nobody of the list.
    """
    file = path.with_name(VOICES)
    if not file.is_file():
        return None, {}
    try:
        chosen = read_json(file)
        return voices[chosen["default"]], dict(chosen.get("left_out", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'{file}: not {{"default": "<a speaker of the list>"}} ({error!r}); mend it, or give '
            f"prompt=<speaker>: {some(sorted(voices), 20)}"
        ) from error
