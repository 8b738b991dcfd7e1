"""The ids of a CSM checkpoint, its prompts and the sampler it was made for.

Speech ids: code c of codebook k is k * size + c, so that a frame is one code of each range in turn;
the id after all codes ends the speech. A prompt's rows are those of the text, then, after them,
speech ids: each frame of a recording is `codebooks` rows and one position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.families.csm.config import TalkerConfig
from speculative_tts.models.layout import words_in
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import Slots
from speculative_tts.pretrained import read_tokenizer
from speculative_tts.schema.fields import Count, NonNegative, Nucleus, Whole
from speculative_tts.typed import read_json, typed

GENERATION = "generation_config.json"
COPY = "copy tokenizer.json, tokenizer_config.json and chat_template.jinja of the checkpoint there"


@dataclass(frozen=True)
class _DrawnBy:
    """Settings by which a code is drawn, with transformers' names and defaults."""

    do_sample: bool = False
    temperature: NonNegative = 1.0
    top_k: Whole = 50
    top_p: Nucleus = 1.0

    @property
    def keys(self) -> dict[str, float]:
        temperature = self.temperature if self.do_sample else 0.0
        return {"temperature": temperature, "top_k": self.top_k, "top_p": self.top_p}


@dataclass(frozen=True)
class _MostFrames:
    max_new_tokens: Count | None = None  # frames


@dataclass(frozen=True)
class CsmLayout:
    """Meaning of a checkpoint's ids, and the way its prompts are written."""

    config: TalkerConfig
    tokenizer: Any
    drawn: Mapping[str, float]
    most_frames: int | None
    control: Mapping[int, str] = field(repr=False)
    # a depth decoder says the codes of a frame after its first
    by_depth = True
    follows_voice = True
    speaks_alone = True

    @classmethod
    def read(cls, folder: Path) -> "CsmLayout":
        """Read a checkpoint folder; ValueError names what it lacks."""
        return _read(folder.resolve())

    @property
    def slots(self) -> Slots:
        """Return the ids of each codebook; the model itself says where the end may stand."""
        return Slots((self.config.size,) * self.config.codebooks, end_in_frame=True)

    @property
    def n_codes(self) -> int:
        """Return the number of codes of all codebooks."""
        return self.config.codes

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Return the id that ends the speech."""
        return (self.n_codes,)

    @property
    def speech_vocab_size(self) -> int:
        """Return the number of codes and the end."""
        return self.n_codes + 1

    @property
    def sampling(self) -> dict[str, float]:
        """Return the sampler of generation_config.json."""
        longest = self.config.backbone.max_positions * self.config.codebooks
        lengths = {"min_tokens_per_word": 0.0, "max_tokens_per_word": float(longest)}
        return {**self.drawn, **lengths}

    @property
    def shared(self) -> dict[str, object]:
        """Return what a draft must have in common with its target."""
        names = {"n_codes": self.n_codes, "stop_ids": self.stop_ids}
        return {**names, "slots": self.slots.sizes}

    def width(self, *, text_rows: bool) -> int:  # noqa: ARG002 - text is never emitted
        """Return the number of ids that can be emitted."""
        return self.speech_vocab_size

    def order(self, *, text_rows: bool) -> Tensor:  # noqa: ARG002 - text is never emitted
        """Return the row of each speech id in the table of codes: int64 [speech_vocab_size]."""
        return torch.arange(self.speech_vocab_size)

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the rows of both texts; ValueError for an empty text or a control token in one."""
        if not text.strip():
            raise ValueError("the text is empty; give some words")
        ids = [*self._encode(prompt_text), *self._encode(text)]
        if odd := [self.control[row] for row in ids if row in self.control]:
            raise ValueError(f"the text holds the control token {odd[0]}; take it out")
        return ids

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the prompt as the chat template writes it, a recording and its words before.

        A speaker that is a number is the conversation's; any other is its first, 0.
        """
        self.text_ids(prompt.text, prompt.voice_text)
        self.slots.check_whole(len(prompt.codes))
        if prompt.codes and not prompt.voice_text.strip():
            raise ValueError(
                "the recording has no words (prompt_text), and this target reads them before it; "
                "give what is said there"
            )
        role = prompt.speaker if prompt.speaker.isdecimal() else "0"
        turns = [{"role": role, "content": [{"type": "text", "text": prompt.text}]}]
        if prompt.codes:
            words = {"type": "text", "text": prompt.voice_text}
            turns.insert(0, {"role": role, "content": [words, {"type": "audio"}]})
        written = self.tokenizer.apply_chat_template(turns, tokenize=False)
        rows, begin = self._encode(written), self.config.text_rows
        if rows.count(self.config.audio) != len(turns) - 1:
            raise ValueError(
                f"the chat template writes {rows.count(self.config.audio)} places for audio where "
                f"the prompt has {len(turns) - 1} recordings; {COPY} again"
            )
        frames = [begin + code for code in prompt.codes]
        at = rows.index(self.config.audio) if prompt.codes else 0
        return [*rows[:at], *frames, *rows[at + 1 :]] if prompt.codes else rows

    def limits(
        self, text: str, prompt_length: int, minimum: float, maximum: float
    ) -> tuple[int, int]:
        """Return the fewest and most new codes, whole frames of them.

        A minimum is refused: a frame of ends would have no next code before it is reached.
        """
        if minimum > 0:
            raise ValueError(
                f"sampling.min_tokens_per_word {minimum:g} is above 0, and this target ends by a "
                "frame of codes that nothing can bar; leave it out"
            )
        positions, codebooks = self.config.backbone.max_positions, self.config.codebooks
        room = positions - prompt_length - 1
        if room < 1:
            raise ValueError(
                f"the prompt has {prompt_length} positions, the model {positions}; shorten text or "
                "voice prompt"
            )
        wanted = int(len(words_in(text)) * maximum) // codebooks
        return 0, codebooks * max(1, min(room, self.most_frames or room, wanted))

    def _encode(self, string: str) -> list[int]:
        ids: list[int] = self.tokenizer(string, add_special_tokens=False)["input_ids"]
        return ids


@lru_cache(maxsize=4)
def _read(folder: Path) -> CsmLayout:
    config = TalkerConfig.from_folder(folder)
    tokenizer = read_tokenizer(folder, COPY)
    if tokenizer.chat_template is None:
        raise ValueError(f"the tokenizer of {folder} has no chat template; {COPY}")
    control = {row: token.content for row, token in tokenizer.added_tokens_decoder.items()}
    highest = max([config.audio, config.audio_end, *control])
    if highest >= config.text_rows or not {config.audio, config.audio_end} <= control.keys():
        raise ValueError(
            f"{folder}: audio_token_id {config.audio} and audio_eos_token_id {config.audio_end} of "
            f"config.json are no tokens below its text_vocab_size {config.text_rows}; {COPY} again"
        )
    return CsmLayout(config, tokenizer, *_sampler(folder), control)


def _sampler(folder: Path) -> tuple[dict[str, float], int | None]:
    """Return the sampler of generation_config.json and the frames it allows.

    Raises ValueError where codes of a frame are drawn in two ways: one sampler draws them here.
    """
    path = folder / GENERATION
    stored = read_json(path) if path.is_file() else {}
    begin = "depth_decoder_"
    within = {key.removeprefix(begin): v for key, v in stored.items() if key.startswith(begin)}
    first, others = (
        typed(_DrawnBy, {k: v for k, v in one.items() if v is not None}, path)
        for one in (stored, within)
    )
    if first.keys != others.keys:
        raise ValueError(
            f"{path} draws a frame's first code by {first.keys}, the others by {others.keys}; one "
            "sampler draws all here: make the depth_decoder_ keys equal in a copy of the folder"
        )
    return first.keys, typed(_MostFrames, stored, path).max_new_tokens
