"""Codes as vocabulary rows of a causal LM (LLaSA, Orpheus): ids by token name, and the prompt.

Rows are found by the names in a `RowsConfig`, never by arithmetic: look-alike checkpoints order
them otherwise (<|s_0|>, <|s_1|>, <|s_10|>) or pad the vocabulary. Codes and markers are ordinary
added tokens that match anywhere in a text, so a text that holds one is refused.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.files import text_hash
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.families.code_tokens import (
    code_rows,
    find_codes,
    number_in,
    refuse_mixed,
)
from speculative_tts.models.families.row_prompt import PLACE, PromptWriter, templates
from speculative_tts.models.layout import words_in
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import Slots
from speculative_tts.pretrained import read_tokenizer
from speculative_tts.schema.common import RowsConfig
from speculative_tts.typed import json_text

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_MARKER = re.compile(r"<[^<>{}\s]+>")


@dataclass(frozen=True)
class RowLayout:
    """The rows of a vocabulary that are codes, and the way a prompt is written.

    Speech ids: codes 0 .. n_codes - 1, the ends of speech, then (for a whole head) all other rows.
    """

    config: RowsConfig
    prompts: PromptWriter
    codes: Tensor  # int64 [n_codes]: row of each code
    slots: Slots | None  # of codes that come in frames
    ends: tuple[int, ...]  # rows that end the speech, the one of training first
    rows: int  # of the embedding

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
        """Only the ends of speech: the end ids in config.json end chats, not speech."""
        return tuple(range(self.n_codes, self.speech_vocab_size))

    @property
    def speech_vocab_size(self) -> int:
        """Codes and the ends of speech."""
        return self.n_codes + len(self.ends)

    @property
    def end(self) -> int:
        """The row that ends recorded speech."""
        return self.ends[0]

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
        common = {"n_codes": self.n_codes, "stop_ids": self.stop_ids}
        return common if self.slots is None else {**common, "slots": self.slots.sizes}

    @property
    def vocabulary(self) -> str:
        """A hash of all tokens and their ids: equal where text rows mean the same."""
        names = sorted(self.prompts.tokenizer.get_vocab().items(), key=lambda item: item[1])
        return text_hash(json_text([self.rows, names]))

    def width(self, *, text_rows: bool) -> int:
        """Ids that the head has."""
        return self.rows if text_rows else self.speech_vocab_size

    def order(self, *, text_rows: bool) -> Tensor:
        """Row of each speech id: int64 [width]."""
        speech = torch.cat([self.codes, torch.tensor(self.ends)])
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
        room = min(room, self.config.max_tokens or room)
        words = len(words_in(text))
        fewest = max(self.config.min_tokens, int(words * minimum))
        return min(fewest, room - 1), min(room, max(1, int(words * maximum)))

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the rows of both texts; see `PromptWriter`."""
        return self.prompts.text_ids(text, prompt_text)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the rows of the whole prompt; ValueError for a text or voice it cannot have."""
        if self.slots is not None:
            self.slots.check_whole(len(prompt.codes))
        return self.prompts.ids(prompt)

    @property
    def follows_voice(self) -> bool:
        """Return False for a model whose prompts name a speaker and hold no recording."""
        return not self.config.by_name

    @property
    def speaks_alone(self) -> bool:
        """Return True: such a model speaks without a recording to follow."""
        return True

    def written(self, text: str, prompt_text: str = "") -> str:
        """Return the prompt of two texts as a string."""
        return self.prompts.written(Prompt(text, prompt_text))


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
    refuse_mixed(vocabulary, folder)
    prompt = templates(config)
    markers = [one for one in _MARKER.findall(prompt) if _named(one, config)]
    for marker in [*markers, config.end, *config.ends]:
        if marker not in vocabulary:
            raise ValueError(
                f"the tokenizer of {folder} has no token {marker}; "
                "name the checkpoint's own with target.rows.user, .assistant and .end"
            )
    codes, slots = find_codes(vocabulary, config, folder)
    ends = {name: vocabulary[name] for name in (config.end, *config.ends)}
    opened = PLACE.sub("", config.assistant)
    fixed, last = (
        tokenizer(part, add_special_tokens=False)["input_ids"] for part in (prompt, opened)
    )
    voice = []
    if config.voice is not None and "{voice}" in config.user + config.assistant:
        voice = code_rows(vocabulary, config.voice, folder).tolist()
    _check_apart(codes, ends, [*fixed, *voice], config)
    _check_begins(ends, [*last, *voice])
    highest = max(int(codes.max()), *ends.values())
    if highest >= decoder.vocab_size:
        raise ValueError(
            f"the tokenizer of {folder} has token {highest}, config.json {decoder.vocab_size} "
            "rows; they do not belong together"
        )
    rows = tuple(ends.values())
    control = {row: token.content for row, token in tokenizer.added_tokens_decoder.items()}
    if config.offset is not None:
        _check_nameless(codes, vocabulary, control, config)
    prompts = PromptWriter(folder, config, tokenizer, codes, rows, control)
    return RowLayout(config, prompts, codes, slots, rows, decoder.vocab_size)


def _named(marker: str, config: RowsConfig) -> bool:
    """Return True for a marker of the prompt that must be a token: it is written as one."""
    patterns = (config.code, *config.more)
    return marker.startswith("<|") or any(number_in(marker, one) is not None for one in patterns)


def _check_apart(
    codes: Tensor, ends: Mapping[str, int], fixed: list[int], config: RowsConfig
) -> None:
    """Raise ValueError where an end of speech, or a token of the prompt, is also a code."""
    code_of = {row: code for code, row in enumerate(codes.tolist())}
    for what, row in (
        *((f"rows.end {name}", row) for name, row in ends.items()),
        *(("a token of the prompt", row) for row in fixed),
    ):
        if row in code_of:
            raise ValueError(
                f"{what} (row {row}) is also code {code_of[row]} of rows.code {config.code}; give "
                f"the number of the first code's token with target.rows.first (now {config.first}) "
                "and how many codes there are with target.rows.count"
            )


def _check_nameless(
    codes: Tensor, vocabulary: Mapping[str, int], control: Mapping[int, str], config: RowsConfig
) -> None:
    """Raise ValueError where rows that are counted from an offset are rows of text in part."""
    name_of = {row: token for token, row in vocabulary.items()}
    rows = codes.tolist()
    named = [row for row in rows if row in name_of]
    if named and not all(row in control for row in rows):
        raise ValueError(
            f"rows.offset {config.offset} makes row {named[0]} a code, which the tokenizer has as "
            f"{name_of[named[0]]!r}; give the row of code 0, or the names of codes (rows.code)"
        )


def _check_begins(ends: Mapping[str, int], opened: list[int]) -> None:
    """Raise ValueError where the speech is opened by a token that ends it.

    Elsewhere in the prompt such a token may stand: Soprano's begins with one.
    """
    for name, row in ends.items():
        if row in opened:
            raise ValueError(
                f"rows.end {name} ends the speech and is in the prompt too; name the "
                "checkpoint's own with target.rows.user, .assistant and .end"
            )


@lru_cache(maxsize=2)  # with 65,536 added tokens it takes seconds to read
def _tokenizer(folder: Path) -> Any:
    if not any((folder / name).is_file() for name in TOKENIZER):
        raise ValueError(
            f"no tokenizer in {folder}; looked for {' and '.join(TOKENIZER)}: copy them there"
        )
    return read_tokenizer(folder, f"looked for {' and '.join(TOKENIZER)}: copy them there again")
