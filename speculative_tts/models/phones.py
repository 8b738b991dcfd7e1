"""The layout of a target whose text is phones, each in as many rows as it lasts on average.

Text and speech then run at one clock, the codec's, and the text is filled up to a multiple of
`block` rows, so that a row of the text lies about as far before the speech it stands for in every
utterance: attention finds it by distance alone, with ordinary integer positions.
"""

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from speculative_tts.models.layout import FILE, SpeechLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.fields import NonNegative, Whole
from speculative_tts.text.phones import are_phones, spoken_phones
from speculative_tts.typed import read_json

PAUSES = 4  # codes: "hello" and "no" take up to three more than so many times their phones


@dataclass(frozen=True)
class PhoneLayout(SpeechLayout):
    """A `SpeechLayout` whose words are phones; `clock` is how many codes each lasts on average."""

    clock: tuple[NonNegative, ...] = ()  # empty: one row a phone
    block: Whole = 0  # rows that the text fills up a multiple of; 0: none

    @property
    def shared(self) -> dict[str, object]:
        """Also how a text becomes rows."""
        return super().shared | {"clock": self.clock, "block": self.block}

    @property
    def fill_id(self) -> int:
        """The row that fills up the text."""
        return self.task_id + 1

    @property
    def vocab_size(self) -> int:
        """All rows of a merged vocabulary."""
        return self.fill_id + 1

    def rows(self, phones: list[int]) -> list[int]:
        """Return the number of rows of each phone: the clock's ends, rounded, at least one."""
        if not self.clock:
            return [1] * len(phones)
        ends = [round(end) for end in accumulate(self.clock[phone] for phone in phones)]
        return [max(1, end - begin) for begin, end in zip([0, *ends], ends, strict=False)]

    def fill(self, rows: int) -> int:
        """Return how many rows fill up a text of `rows` rows."""
        return -rows % self.block if self.block else 0

    def phone_rows(self, phones: list[int]) -> list[int]:
        """Return the ids of the rows of one text."""
        counts = self.rows(phones)
        pairs = zip(phones, counts, strict=True)
        return [self.text_offset + phone for phone, count in pairs for _ in range(count)]

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the ids of the rows of the prompt's text and then of the text.

        Raises ValueError for a text that cannot be spoken.
        """
        index = {phone: number for number, phone in enumerate(self.words)}
        texts = [one for one in (prompt_text, text) if one.strip()] or [text]
        said = [[index[phone] for phone in spoken_phones(one)] for one in texts]
        return [row for phones in said for row in self.phone_rows(phones)]

    def text_length(self, text: str) -> int:
        """Count the rows of a text: as many as the codes that it should take."""
        return len(self.text_ids(text))

    def outside_training(self, text: str) -> str | None:
        """See `SpeechLayout`; nobody counts the words of phones."""
        return None if are_phones(text) else super().outside_training(text)

    def limits(
        self, text: str, prompt_length: int, minimum: float, maximum: float
    ) -> tuple[int, int]:
        """See `SpeechLayout`; with room for pauses, which one word needs as a sentence does."""
        fewest, most = super().limits(text, prompt_length, minimum, maximum)
        return fewest, most + PAUSES

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return [sos] prompt text, text, fill [task] prompt speech."""
        rows = self.text_ids(prompt.text, prompt.voice_text)
        filled = [*rows, *[self.fill_id] * self.fill(len(rows))]
        return [self.sos_id, *filled, self.task_id, *prompt.codes]


def read_layout(folder: Path) -> SpeechLayout:
    """Read a folder's speech.json, of words or of phones; raise ValueError for a faulty one."""
    path = folder / FILE
    by_phones = path.is_file() and "clock" in read_json(path)
    return (PhoneLayout if by_phones else SpeechLayout).from_folder(folder)
