"""Define the tiny corpus's speakers: warps of four Flite voices that the recogniser understands."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TinySpeaker:
    """A voice with its frequency axis and F0 scaled; `seen` speakers are trained on."""

    voice: str
    formant_scale: float
    pitch_scale: float
    seen: bool = True

    @property
    def name(self) -> str:
        """Name made of voice, formant and pitch scale in per cent."""
        return f"{self.voice}_f{100 * self.formant_scale:03.0f}_p{100 * self.pitch_scale:03.0f}"


# By voice: formant and pitch scale in per cent; training has not seen those after the bar.
SCALES = {
    "slt": "100 100, 97 122, 94 86, 91 110, 88 76, 86 95 | 93 100",
    "rms": "100 100, 91 88, 95 125, 105 82, 110 145, 114 112 | 107 120, 97 95",
    "awb": "100 100, 91 80, 95 115, 105 75, 110 130, 114 105 | 107 112, 96 90",
    "kal16": "100 100, 91 115, 95 90, 105 140, 110 110, 114 160 | 103 122",
}
SPEAKERS = tuple(
    TinySpeaker(voice, int(formant) / 100, int(pitch) / 100, seen=part == 0)
    for voice, scales in SCALES.items()
    for part, pairs in enumerate(scales.split("|"))
    for formant, pitch in [pair.split() for pair in pairs.split(",")]
)


def speakers_of(voice: str, seen: bool) -> tuple[TinySpeaker, ...]:
    """Return the speakers made from `voice` that training has seen, or not."""
    return tuple(s for s in SPEAKERS if s.voice == voice and s.seen == seen)
