"""speech.json: which ids of a checkpoint mean what, and the sampler it was made for.

Rows of a merged vocabulary: speech codes, stop ids, text words, <sos>, <task>.
Input: <sos> prompt text, text <task> prompt speech; the speech goes on until a stop id.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.decode import SamplingConfig
from speculative_tts.schema.fields import Count, Positive, Whole
from speculative_tts.texts import some
from speculative_tts.typed import read_json, typed, write_json

FILE = "speech.json"
FORMAT_VERSION = 1
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d")  # it's is one word, 42 are two
NAMES = "zero one two three four five six seven eight nine"
DIGITS = {str(digit): name for digit, name in enumerate(NAMES.split())}


@dataclass(frozen=True)
class SpeechLayout:
    """Facts of a checkpoint's speech.json; `sampling` has the keys of a SamplingConfig."""

    n_codes: Count
    stop_ids: tuple[Whole, ...]
    speech_vocab_size: Count
    text_offset: Whole  # row of the first word in the merged vocabulary
    words: tuple[str, ...]
    sos_id: Whole
    task_id: Whole
    token_rate: Positive  # speech tokens a second
    sample_rate: Count
    sampling: dict[str, Any]
    trained_words: tuple[Whole, ...] = ()  # fewest and most words of a text in training

    @classmethod
    def merged(
        cls, n_codes: int, words: tuple[str, ...], sampling: dict[str, float] | None = None
    ) -> "SpeechLayout":
        """Make the layout of a fresh tiny target: codes, one stop id, then words and marks."""
        text_offset = n_codes + 1
        sos_id = text_offset + len(words)
        return cls(
            n_codes=n_codes,
            stop_ids=(n_codes,),
            speech_vocab_size=text_offset,
            text_offset=text_offset,
            words=words,
            sos_id=sos_id,
            task_id=sos_id + 1,
            token_rate=25.0,
            sample_rate=16_000,
            sampling=sampling or {},
        )

    @classmethod
    def from_folder(cls, folder: Path) -> "SpeechLayout":
        """Read `folder`/speech.json; ValueError names what is missing."""
        path = folder / FILE
        if not path.is_file():
            raise ValueError(
                f"no {FILE} in {folder}; is this a speech LM checkpoint of this toolkit?"
            )
        row = read_json(path, "export the checkpoint again")
        if row.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format {row['format_version']}; this version reads "
                f"{FORMAT_VERSION}: export the checkpoint again"
            )
        layout = typed(cls, row, path)
        layout.check(path)
        return layout

    def check(self, path: Path) -> None:
        """Raise ValueError for ids that do not fit the head, or a sampler that cannot be."""
        far = [i for i in self.stop_ids if i >= self.speech_vocab_size]
        if far or not self.stop_ids or self.n_codes > self.speech_vocab_size:
            raise ValueError(
                f"{path}: {self.n_codes} codes and stop ids {list(self.stop_ids)} do not fit "
                f"speech_vocab_size {self.speech_vocab_size}; export the checkpoint again"
            )
        typed(SamplingConfig, self.sampling, f"{path}: sampling")

    def save(self, folder: Path) -> None:
        """Write `folder`/speech.json."""
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        write_json(folder / FILE, content)

    @property
    def eos_id(self) -> int:
        """The stop id that ends recorded speech."""
        return self.stop_ids[0]

    @property
    def vocab_size(self) -> int:
        """All rows of a merged vocabulary."""
        return self.task_id + 1

    @property
    def shared(self) -> dict[str, object]:
        """Facts that a draft must share with its target."""
        names = ("speech_vocab_size", "n_codes", "stop_ids", "words")
        return {name: getattr(self, name) for name in names}

    def width(self, *, text_rows: bool) -> int:  # noqa: ARG002 - of heads that can be whole
        """Return the number of ids that the head has."""
        return self.speech_vocab_size

    def order(self, *, text_rows: bool) -> Tensor:  # noqa: ARG002 - of heads that can be whole
        """Return the row of each speech id: int64 [speech_vocab_size]."""
        return torch.arange(self.speech_vocab_size)

    def limits(
        self,
        text: str,
        prompt_length: int,  # noqa: ARG002 - of families that limit prompt and speech together
        minimum: float,
        maximum: float,
    ) -> tuple[int, int]:
        """Return the fewest and most new tokens of a text: `minimum` and `maximum` a part of it."""
        parts = self.text_length(text)
        return int(parts * minimum), max(1, int(parts * maximum))

    def text_length(self, text: str) -> int:
        """Count the parts of a text that limits are a multiple of: words."""
        return len(words_in(text))

    def outside_training(self, text: str) -> str | None:
        """Say that a text is shorter or longer than those of training; None if it is not."""
        count = len(words_in(text))
        if not self.trained_words or self.trained_words[0] <= count <= self.trained_words[1]:
            return None
        fewest, most = self.trained_words
        words = f"the text has {count} word{'' if count == 1 else 's'}"
        does, give = "drops words or runs on", "speak the text in parts"
        if count < fewest:
            does, give = "may say one twice or another one", "put it into a sentence"
        return f"{words} and this model was trained on {fewest} to {most}: it {does}; {give}"

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the merged-vocabulary ids of the prompt's words and then of the text's.

        Raises ValueError naming unknown words, or when there is nothing to say.
        """
        if not words_in(text):
            raise ValueError(f"the text is empty; give some of: {' '.join(self.words)}")
        known = {word: self.text_offset + index for index, word in enumerate(self.words)}
        words = words_in(prompt_text) + words_in(text)
        unknown = [word for word in words if word not in known]
        if unknown:
            raise ValueError(
                f"unknown words: {some(unknown)}; this model speaks: {' '.join(self.words)}"
            )
        return [known[word] for word in words]

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return CosyVoice 2's zero-shot prompt, all before the first new token.

        That is [sos] prompt text, text [task] prompt speech. Raises ValueError as `text_ids` does.
        """
        words = self.text_ids(prompt.text, prompt.voice_text)
        return [self.sos_id, *words, self.task_id, *prompt.codes]


def words_in(text: str) -> list[str]:
    """Return a text's words in lower case: signs between them part them, digits are said singly."""
    return [DIGITS.get(word, word) for word in WORD.findall(text.lower())]
