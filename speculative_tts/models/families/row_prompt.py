"""The prompt of an LM whose codes are vocabulary rows, written by the templates of a RowsConfig."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from speculative_tts.models.families.code_tokens import code_rows
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import RowsConfig

PLACE = re.compile(r"\{(text|prompt_text|speaker|voice)\}")
CODES = "{codes}"


@dataclass(frozen=True)
class PromptWriter:
    """Write prompts as text and as rows, and refuse texts that hold a token with a meaning."""

    folder: Path
    config: RowsConfig
    tokenizer: Any
    codes: Tensor  # int64 [n_codes]: row of each code
    ends: tuple[int, ...]
    # control tokens by row; the tokenizer makes its own table at every call, 0.5 s for 65,560
    control: Mapping[int, str] = field(repr=False)

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the rows of both texts as the prompt has them.

        Raises ValueError when there is nothing to say, or for a control token within.
        """
        if not text.strip():
            raise ValueError("the text is empty; give some words")
        return self._plain(self._spoken(text, prompt_text))

    def ids(self, prompt: Prompt) -> list[int]:
        """Return the rows of the whole prompt, up to the last code of the voice prompt.

        A voice that is given by global codes is followed without its words too, and then its other
        codes are left out, as Spark-TTS does.
        """
        self.text_ids(prompt.text, prompt.voice_text)
        codes = self.codes[prompt.codes].tolist()
        first, within, last = self.written(prompt).partition(CODES)
        ids = self._encode(first, special=self.config.bos)
        if within:
            return [*ids, *codes, *self._encode(last)]
        if self.config.voice is not None and not prompt.voice_text:
            return ids
        return [*ids, *codes]

    def written(self, prompt: Prompt) -> str:
        """Return the prompt as a string, with {codes} for codes of a voice that are not its end."""
        c = self.config
        apart = c.voice_turn is not None and len(prompt.codes) > 0
        texts = (prompt.text, "" if apart else prompt.voice_text)
        parts = {
            "text": lambda: self._spoken(*texts),
            "prompt_text": lambda: self._spoken(prompt.voice_text, ""),
            "speaker": lambda: self._speaker(prompt.speaker),
            "voice": lambda: self._voice(prompt.voice_codes),
        }

        def filled(template: str) -> str:
            return PLACE.sub(lambda place: parts[place[1]](), template)

        before = filled(c.voice_turn) if apart and c.voice_turn else ""
        return before + self._conversation(filled(c.user), filled(c.assistant))

    def _conversation(self, user: str, assistant: str) -> str:
        """Write both parts by the chat template, if the checkpoint is used with one."""
        c = self.config
        if not c.chat:
            return user + assistant
        chat = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        if c.system is not None:
            chat.insert(0, {"role": "system", "content": c.system})
        date = {} if c.date is None else {"date_string": c.date}
        rendered = self.tokenizer.apply_chat_template(
            chat, tokenize=False, continue_final_message=True, **date
        )
        assert isinstance(rendered, str)
        return rendered

    def _spoken(self, text: str, prompt_text: str) -> str:
        """Join both texts; as phonemes for a checkpoint that reads them."""
        parts = [part for part in (prompt_text, text) if part]
        if self.config.phonemes is not None:
            parts = [_phonemes(part, self.config.phonemes) for part in parts]
        return self.config.separator.join(parts)

    def _speaker(self, name: str) -> str:
        """Return the speaker that the prompt names; ValueError for none or an unknown one."""
        known = self.config.speakers
        name = self.config.speaker or name or next(iter(known), "")
        if not name or (known and name not in known):
            wanted = f"one of {', '.join(known)}" if known else "words that describe a voice"
            raise ValueError(
                f"speaker {name!r} is not known to the target; give each row of the list its "
                f"speaker, or target.rows.speaker=<name>: {wanted}"
            )
        self._plain(name)
        return name

    def _voice(self, codes: tuple[int, ...]) -> str:
        """Write a voice's global codes; ValueError for a wrong number or one that is no token."""
        pattern, count = self.config.voice, self.config.voice_codes
        assert pattern is not None, "checked with the templates"
        if len(codes) != count:
            raise ValueError(
                f"the prompt has {len(codes)} global codes of a voice, the target reads {count}; "
                "give voice_codes in the list, or a codec that makes them"
            )
        known = len(self._voice_rows)
        if wrong := [code for code in codes if not 0 <= code < known]:
            raise ValueError(
                f"voice_codes has {wrong[0]}, the target's are 0 to {known - 1}; "
                "give those of its own codec"
            )
        return "".join(pattern.replace("{}", str(code)) for code in codes)

    @cached_property
    def _voice_rows(self) -> Tensor:
        """Return the row of each global code; ValueError where the tokenizer has none."""
        assert self.config.voice is not None
        return code_rows(self.tokenizer.get_vocab(), self.config.voice, self.folder)

    @cached_property
    def _code_rows(self) -> frozenset[int]:
        return frozenset(self.codes.tolist())

    def _plain(self, text: str) -> list[int]:
        """Return the rows of a text; ValueError for a control token, a code or an end in it."""
        ids = self._encode(text)
        for token in ids:
            if token in self.control:
                raise ValueError(
                    f"the text holds the control token {self.control[token]}; take it out"
                )
            if token in self.ends or token in self._code_rows:
                name = self.tokenizer.convert_ids_to_tokens(token)
                raise ValueError(
                    f"{name} of the text is a code or the end of speech; take it out, or name the "
                    "codes' own tokens with target.rows.code, .first and .end"
                )
        return ids

    def _encode(self, string: str, *, special: bool = False) -> list[int]:
        ids: list[int] = self.tokenizer(string, add_special_tokens=special)["input_ids"]
        return ids


def templates(config: RowsConfig) -> str:
    """Return a prompt's templates, nothing filled in; ValueError for a place that nothing fills."""
    spoken = config.user + config.assistant
    if "{text}" not in spoken:
        raise ValueError(
            f"the prompt {spoken!r} has no place for the text; put {{text}} in target.rows.user"
        )
    whole = (config.system or "") * config.chat + (config.voice_turn or "") + spoken
    if "{voice}" in whole and config.voice is None:
        raise ValueError("the prompt has {voice}; give the token of its codes, target.rows.voice")
    if config.voice_turn is not None and CODES not in config.voice_turn:
        raise ValueError(f"rows.voice_turn {config.voice_turn!r} has no {CODES} for the voice's")
    return PLACE.sub("", whole).replace(CODES, "")


def _phonemes(text: str, language: str) -> str:
    """Return a text's phonemes by espeak as NeuTTS makes them: stress marks, punctuation kept."""
    try:
        from phonemizer.backend import EspeakBackend
    except ImportError as error:
        raise ImportError(
            "rows.phonemes needs phonemizer and espeak-ng: pip install 'speculative_tts[papers]'"
        ) from error
    backend = EspeakBackend(language=language, preserve_punctuation=True, with_stress=True)
    return " ".join(backend.phonemize([text])[0].split())
