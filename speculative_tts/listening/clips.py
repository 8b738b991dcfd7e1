"""Give clips blind names and prepare their sounds: outputs of systems, checks."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from speculative_tts.evaluation.sources import Source
from speculative_tts.listening import sound
from speculative_tts.listening.design import PAIRS, PlannedTrial
from speculative_tts.listening.key import BlindClip, Role, Trial
from speculative_tts.schema.listen import ListeningTest

GOOD, BAD = "An example of what is as good as it gets.", "An example of what is as bad as it gets."


@dataclass(frozen=True)
class SharedUtterance:
    """An utterance that all systems spoke, with recordings of its speaker."""

    id: str
    text: str
    speaker: str
    audio: tuple[Path, ...]  # by system
    recording: Path | None  # of these words, or at least of this speaker
    recorded: str | None  # the recording's text, where it is known
    prompt: Path | None


class Clips:
    """Clips by blind name, and how each one's sound is made."""

    def __init__(
        self,
        test: ListeningTest,
        sources: Sequence[Source],
        utterances: Sequence[SharedUtterance],
        rng: np.random.Generator,
    ) -> None:
        self.test, self.sources, self.utterances, self.rng = test, sources, utterances, rng
        self.known: dict[str, BlindClip] = {}
        self.sounds: dict[str, partial[sound.Sound]] = {}
        self._names: dict[tuple[BlindClip, str], str] = {}
        self._recorded = [one for one in utterances if one.recording]

    def name(self, clip: BlindClip, path: Path, how: str = "load") -> str:
        """Return a clip's blind name, always the same for one clip; it says nothing about it."""
        if (clip, how) not in self._names:
            name = f"{self.rng.bytes(8).hex()}.wav"
            self._names[clip, how], self.known[name] = name, clip
            seed = int(self.rng.integers(2**32))
            self.sounds[name] = partial(_load, path, how, seed)
        return self._names[clip, how]

    def trial(self, planned: PlannedTrial, show_text: bool) -> Trial:
        """Return the trial of an utterance by the planned systems."""
        one = self.utterances[planned.utterance]
        clips = [
            self.name(BlindClip(Role.system, one.id, self.sources[s].label), one.audio[s])
            for s in planned.systems
        ]
        text = one.text if show_text else None
        return Trial(clips, self._voice(one) if self.test is ListeningTest.smos else None, text)

    def check(self, turn: int, *, high: bool, show_text: bool = False) -> Trial:
        """Return a trial with an obvious answer, which looks like any other trial."""
        one = self._recorded[turn % len(self._recorded)]
        text = one.recorded if show_text else None
        good, bad = self._recording(one, Role.high, "load"), self._bad(one)
        if self.test in PAIRS:
            return Trial([bad, good] if high else [good, bad], text=text)
        voice = self._voice(one) if self.test is ListeningTest.smos else None
        return Trial([good if high else bad], voice, text)

    def training(self) -> list[Trial]:
        """Return the first trials, which show both ends of the scale with a note."""
        if not self._recorded:
            return []
        shown = [self.check(-1, high=high) for high in (True, False)]
        if self.test in PAIRS:
            notes = ["Here the second clip is the better one.", "Here it is the first."]
        else:
            notes = [GOOD, BAD]
        return [dataclasses.replace(t, note=n) for t, n in zip(shown, notes, strict=True)]

    def _voice(self, one: SharedUtterance) -> str:
        assert one.prompt is not None
        return self.name(BlindClip(Role.prompt, one.id), one.prompt)

    def _bad(self, one: SharedUtterance) -> str:
        if self.test is not ListeningTest.smos:
            return self._recording(one, Role.low, "corrupted")
        others = [two for two in self._recorded if two.speaker != one.speaker] or [one]
        other = others[sum(map(ord, one.id)) % len(others)]
        assert other.recording is not None
        return self.name(BlindClip(Role.low, one.id), other.recording, "raised")

    def _recording(self, one: SharedUtterance, role: Role, how: str) -> str:
        assert one.recording is not None
        return self.name(BlindClip(role, one.id), one.recording, how)


def _load(path: Path, how: str, seed: int) -> sound.Sound:
    """Load a file unchanged, or degraded as `how` says."""
    loaded = sound.load(path)
    if how == "corrupted":
        return sound.corrupted(loaded, np.random.default_rng(seed))
    return sound.raised(loaded) if how == "raised" else loaded
