"""Blind names given out, and the sounds behind them: what systems said, checks, anchors."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from speculative_tts.evaluation.sources import Source
from speculative_tts.listening import sound
from speculative_tts.listening.design import PAIRS, Heard
from speculative_tts.listening.key import Clip, Role, Trial
from speculative_tts.schema.listen import ListeningTest

GOOD, BAD = "An example of what is as good as it gets.", "An example of what is as bad as it gets."


@dataclass(frozen=True)
class Utterance:
    """What all systems said, and recordings of its speaker."""

    id: str
    text: str
    speaker: str
    audio: tuple[Path, ...]  # by system
    recording: Path | None  # of these words, or at least of this speaker
    recorded: str | None  # what the recording says, where that is known
    prompt: Path | None


class Clips:
    """Blind names given out, and how the sound behind each is made."""

    def __init__(
        self,
        test: ListeningTest,
        sources: Sequence[Source],
        said: Sequence[Utterance],
        rng: np.random.Generator,
    ) -> None:
        self.test, self.sources, self.said, self.rng = test, sources, said, rng
        self.known: dict[str, Clip] = {}
        self.made: dict[str, partial[sound.Sound]] = {}
        self._names: dict[tuple[Clip, str], str] = {}
        self._recorded = [one for one in said if one.recording]

    def name(self, clip: Clip, path: Path, how: str = "load") -> str:
        """A file's blind name: the same for the same clip, of which it says nothing."""
        if (clip, how) not in self._names:
            name = f"{self.rng.bytes(8).hex()}.wav"
            self._names[clip, how], self.known[name] = name, clip
            seed = int(self.rng.integers(2**32))
            self.made[name] = partial(_sound, path, how, seed)
        return self._names[clip, how]

    def trial(self, heard: Heard, show_text: bool) -> Trial:
        """An utterance by its systems."""
        one = self.said[heard.utterance]
        clips = [
            self.name(Clip(Role.system, one.id, self.sources[s].label), one.audio[s])
            for s in heard.systems
        ]
        text = one.text if show_text else None
        if self.test is ListeningTest.mushra:
            hidden = [self._recording(one, Role.reference, "hidden"), self._anchor(one)]
            clips = [str(name) for name in self.rng.permutation([*clips, *hidden])]
            return Trial(clips, self._recording(one, Role.reference, "load"), text)
        return Trial(clips, self._voice(one) if self.test is ListeningTest.smos else None, text)

    def check(self, turn: int, *, high: bool, show_text: bool = False) -> Trial:
        """A trial whose answer anybody knows; by its looks nobody can tell it from others."""
        one = self._recorded[turn % len(self._recorded)]
        text = one.recorded if show_text else None
        good, bad = self._good(one), self._bad(one)
        if self.test in PAIRS:
            return Trial([bad, good] if high else [good, bad], text=text)
        voice = self._voice(one) if self.test is ListeningTest.smos else None
        return Trial([good if high else bad], voice, text)

    def training(self) -> list[Trial]:
        """What raters see first: the ends of the scale, told."""
        if not self._recorded:
            return []
        one = self._recorded[-1]
        if self.test is ListeningTest.mushra:
            clips = [self._recording(one, Role.reference, "hidden"), self._anchor(one)]
            note = "One of these is the reference itself, the other is far from it."
            return [Trial(clips, self._recording(one, Role.reference, "load"), note=note)]
        shown = [self.check(-1, high=high) for high in (True, False)]
        if self.test in PAIRS:
            notes = ["Here the second clip is the better one.", "Here it is the first."]
        else:
            notes = [GOOD, BAD]
        return [dataclasses.replace(t, note=n) for t, n in zip(shown, notes, strict=True)]

    def _voice(self, one: Utterance) -> str:
        assert one.prompt is not None
        return self.name(Clip(Role.prompt, one.id), one.prompt)

    def _good(self, one: Utterance) -> str:
        return self._recording(one, Role.high, "load")

    def _bad(self, one: Utterance) -> str:
        if self.test is not ListeningTest.smos:
            return self._recording(one, Role.low, "corrupted")
        others = [two for two in self._recorded if two.speaker != one.speaker] or [one]
        other = others[sum(map(ord, one.id)) % len(others)]
        assert other.recording is not None
        return self.name(Clip(Role.low, one.id), other.recording, "raised")

    def _anchor(self, one: Utterance) -> str:
        return self._recording(one, Role.anchor, "dull")

    def _recording(self, one: Utterance, role: Role, how: str) -> str:
        assert one.recording is not None
        return self.name(Clip(role, one.id), one.recording, how)


def _sound(path: Path, how: str, seed: int) -> sound.Sound:
    """A file as it is, or worse."""
    loaded = sound.load(path)
    if how == "corrupted":
        return sound.corrupted(loaded, np.random.default_rng(seed))
    worse = {"raised": sound.raised, "dull": sound.dull}
    return worse[how](loaded) if how in worse else loaded
