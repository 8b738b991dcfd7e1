"""Codes as vocabulary rows of a causal LM (LLaSA, NeuTTS): ids by token name, and the prompt.

Rows are found by the names in a `RowsConfig`, never by arithmetic: look-alike checkpoints order
them otherwise (<|s_0|>, <|s_1|>, <|s_10|>) or pad the vocabulary. Codes and markers are ordinary
added tokens that match anywhere in a text, so a text that holds one is refused.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.files import text_hash
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.layout import words_in
from speculative_tts.models.prompt import Prompt
from speculative_tts.pretrained import read_tokenizer
from speculative_tts.schema.common import RowsConfig
from speculative_tts.typed import json_text

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_MARKER = re.compile(r"<[^<>{}\s]+>")


@dataclass(frozen=True)
class RowLayout:
    """The rows of a vocabulary that are codes, and the way a prompt is written.

    Speech ids: codes 0 .. n_codes - 1, the end of speech, then (for a whole head) all other rows.
    """

    folder: Path
    config: RowsConfig
    tokenizer: Any
    codes: Tensor  # int64 [n_codes]: row of each code
    end: int  # row that ends the speech
    rows: int  # of the embedding
    # control tokens by row; the tokenizer makes its own table at every call, 0.5 s for 65,560
    control: Mapping[int, str] = field(repr=False)

    @classmethod
    def read(cls, folder: Path, config: RowsConfig) -> "RowLayout":
        """The layout of a checkpoint folder; ValueError names what its tokenizer lacks."""
        return _read(folder.resolve(), json_text(dataclasses.asdict(config)))

    @property
    def n_codes(self) -> int:
        """Size of the codebook."""
        return len(self.codes)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Only the end of speech: the end ids in config.json end chats, not speech."""
        return (self.n_codes,)

    @property
    def speech_vocab_size(self) -> int:
        """Codes and the end of speech."""
        return self.n_codes + 1

    @property
    def sampling(self) -> dict[str, float]:
        """The authors' sampler. Their top_k of 50 is transformers' default, unsaid in the card."""
        c = self.config
        return {
            "temperature": c.temperature,
            "top_k": c.top_k,
            "top_p": c.top_p,
            "repetition_penalty": c.repetition_penalty,
            "min_tokens_per_word": 0.0,
            "max_tokens_per_word": float(c.max_length),
            "text_rows": c.text_rows,
        }

    @property
    def shared(self) -> dict[str, object]:
        """Properties that a draft must have in common with its target."""
        return {"n_codes": self.n_codes, "stop_ids": self.stop_ids}

    @property
    def vocabulary(self) -> str:
        """A hash of all tokens and their ids: equal where text rows mean the same."""
        names = sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])
        return text_hash(json_text([self.rows, names]))

    def width(self, *, text_rows: bool) -> int:
        """Ids that the head has."""
        return self.rows if text_rows else self.speech_vocab_size

    def order(self, *, text_rows: bool) -> Tensor:
        """Row of each speech id: int64 [width]."""
        speech = torch.cat([self.codes, torch.tensor([self.end])])
        if not text_rows:
            return speech
        other = torch.ones(self.rows, dtype=torch.bool)
        other[speech] = False
        return torch.cat([speech, other.nonzero()[:, 0]])

    def limits(
        self, text: str, prompt_length: int, minimum: float, maximum: float
    ) -> tuple[int, int]:
        """Fewest and most new tokens: what `max_length` leaves, and limits a word if wanted."""
        room = self.config.max_length - prompt_length
        if room < 1:
            raise ValueError(
                f"the prompt has {prompt_length} tokens, the limit with the speech is "
                f"{self.config.max_length}; shorten text or voice prompt, or raise rows.max_length"
            )
        words = len(words_in(text))
        fewest = max(self.config.min_tokens, int(words * minimum))
        return min(fewest, room - 1), min(room, max(1, int(words * maximum)))

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Rows of both texts as the prompt has them.

        Raises ValueError when there is nothing to say, or for a control token within.
        """
        if not text.strip():
            raise ValueError("the text is empty; give some words")
        ids = self._encode(self._spoken(text, prompt_text))
        for token in ids:
            if token in self.control:
                raise ValueError(
                    f"the text holds the control token {self.control[token]}; take it out"
                )
            if token == self.end or token in self._code_rows:
                name = self.tokenizer.convert_ids_to_tokens(token)
                raise ValueError(
                    f"{name} of the text is a code or the end of speech; take it out, or name the "
                    "codes' own tokens with target.rows.code, .first and .end"
                )
        return ids

    @cached_property
    def _code_rows(self) -> frozenset[int]:
        return frozenset(self.codes.tolist())

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Rows of the whole prompt: the conversation up to the last code of the voice prompt."""
        texts = prompt.text, prompt.voice_text
        self.text_ids(*texts)
        written = self._encode(self.written(*texts), special=self.config.bos)
        return [*written, *self.codes[prompt.codes].tolist()]

    def written(self, text: str, prompt_text: str = "") -> str:
        """The prompt as a string, without the voice prompt's codes."""
        c = self.config
        user = c.user.replace("{text}", self._spoken(text, prompt_text))
        if not c.chat:
            return user + c.assistant
        chat = [{"role": "user", "content": user}, {"role": "assistant", "content": c.assistant}]
        if c.system is not None:
            chat.insert(0, {"role": "system", "content": c.system})
        date = {} if c.date is None else {"date_string": c.date}
        rendered = self.tokenizer.apply_chat_template(
            chat, tokenize=False, continue_final_message=True, **date
        )
        assert isinstance(rendered, str)
        return rendered

    def _spoken(self, text: str, prompt_text: str) -> str:
        """Both texts joined; as phonemes for a checkpoint that reads them."""
        parts = [part for part in (prompt_text, text) if part]
        if self.config.phonemes is not None:
            parts = [_phonemes(part, self.config.phonemes) for part in parts]
        return self.config.separator.join(parts)

    def _encode(self, string: str, *, special: bool = False) -> list[int]:
        ids: list[int] = self.tokenizer(string, add_special_tokens=special)["input_ids"]
        return ids


@lru_cache(maxsize=4)
def _read(folder: Path, settings: str) -> RowLayout:
    config = RowsConfig(**json.loads(settings))
    decoder = DecoderConfig.from_folder(folder)
    tokenizer = _tokenizer(folder)
    if config.chat and tokenizer.chat_template is None:
        raise ValueError(
            f"the tokenizer of {folder} has no chat template; copy chat_template.jinja or "
            "tokenizer_config.json of the checkpoint, or set target.rows.chat=false"
        )
    vocabulary = tokenizer.get_vocab()
    markers = [
        one for one in _MARKER.findall(config.user + config.assistant) if _named(one, config)
    ]
    for marker in [*markers, config.end]:
        if marker not in vocabulary:
            raise ValueError(
                f"the tokenizer of {folder} has no token {marker}; "
                "name the checkpoint's own with target.rows.user, .assistant and .end"
            )
    codes = code_rows(vocabulary, config, folder)
    prompt = config.user.replace("{text}", "") + config.assistant
    fixed = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    _check_apart(codes, vocabulary[config.end], fixed, config)
    highest = max(int(codes.max()), vocabulary[config.end])
    if highest >= decoder.vocab_size:
        raise ValueError(
            f"the tokenizer of {folder} has token {highest}, config.json {decoder.vocab_size} "
            "rows; they do not belong together"
        )
    control = {row: token.content for row, token in tokenizer.added_tokens_decoder.items()}
    end = vocabulary[config.end]
    return RowLayout(folder, config, tokenizer, codes, end, decoder.vocab_size, control)


def code_rows(vocabulary: dict[str, int], config: RowsConfig, folder: Path) -> Tensor:
    """Row of each code 0, 1, ...: int64 [codes]; ValueError when names do not fit the pattern.

    The token of code 0 has the number `config.first`; there are `config.count` codes, or as many as
    follow without a gap of all that are there.
    """
    if "{}" not in config.code:
        raise ValueError(
            f"rows.code {config.code!r} has no {{}} for the number; such as '<|s_{{}}|>'"
        )
    numbered = {_number(token, config.code): row for token, row in vocabulary.items()}
    found = {number: row for number, row in numbered.items() if number is not None}
    if not found:
        example = max(vocabulary, key=lambda token: vocabulary[token])
        raise ValueError(
            f"no token of {folder} looks like {config.code}; its last token is {example}: "
            "set target.rows.code"
        )
    last = max(found) if config.count is None else config.first + config.count - 1
    wanted = range(config.first, last + 1)
    missing = next((number for number in wanted if number not in found), None)
    if missing is not None or not wanted:
        raise ValueError(
            f"{folder} has {len(found)} tokens like {config.code} but none for code "
            f"{config.first if missing is None else missing}; codes count from rows.first="
            f"{config.first} without gaps"
        )
    rows = [found[number] for number in wanted]
    if len(set(rows)) < len(rows):
        raise ValueError(f"two codes of {folder} have one row; copy its tokenizer again")
    return torch.tensor(rows)


def _number(token: str, pattern: str) -> int | None:
    """Return the number in a code's token; None for another token."""
    before, _, after = pattern.partition("{}")
    number = token.removeprefix(before).removesuffix(after)
    plain = number.isdecimal() and token == f"{before}{int(number)}{after}"
    return int(number) if plain else None


def _named(marker: str, config: RowsConfig) -> bool:
    """Return True for a marker of the prompt that must be a token: it is written as one."""
    return marker.startswith("<|") or _number(marker, config.code) is not None


def _check_apart(codes: Tensor, end: int, fixed: list[int], config: RowsConfig) -> None:
    """Raise ValueError where the end of speech, or a token of the prompt, is also a code."""
    code_of = {row: code for code, row in enumerate(codes.tolist())}
    for what, row in (
        (f"rows.end {config.end}", end),
        *(("a token of the prompt", row) for row in fixed),
    ):
        if row in code_of:
            raise ValueError(
                f"{what} (row {row}) is also code {code_of[row]} of rows.code {config.code}; give "
                f"the number of the first code's token with target.rows.first (now {config.first}) "
                "and how many codes there are with target.rows.count"
            )
    if end in fixed:
        raise ValueError(
            f"rows.end {config.end} ends the speech and is in the prompt too; name the "
            "checkpoint's own with target.rows.user, .assistant and .end"
        )


@lru_cache(maxsize=2)  # with 65,536 added tokens it takes seconds to read
def _tokenizer(folder: Path) -> Any:
    if not any((folder / name).is_file() for name in TOKENIZER):
        raise ValueError(
            f"no tokenizer in {folder}; looked for {' and '.join(TOKENIZER)}: copy them there"
        )
    return read_tokenizer(folder, f"looked for {' and '.join(TOKENIZER)}: copy them there again")


def _phonemes(text: str, language: str) -> str:
    """Phonemes of a text by espeak, as NeuTTS makes them: stress marks, punctuation kept."""
    try:
        from phonemizer.backend import EspeakBackend
    except ImportError as error:
        raise ImportError(
            "rows.phonemes needs phonemizer and espeak-ng: pip install 'speculative_tts[papers]'"
        ) from error
    backend = EspeakBackend(language=language, preserve_punctuation=True, with_stress=True)
    return " ".join(backend.phonemize([text])[0].split())
