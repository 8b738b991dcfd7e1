"""The tiny corpus' speakers: warps of four Flite voices that the recogniser still understands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Speaker:
    """A voice with its frequency axis and F0 scaled; `seen` speakers are trained on."""

    voice: str
    formant_scale: float
    pitch_scale: float
    seen: bool = True

    @property
    def name(self) -> str:
        """Voice, formant and pitch scale in per cent."""
        return f"{self.voice}_f{100 * self.formant_scale:03.0f}_p{100 * self.pitch_scale:03.0f}"


SPEAKERS = (
    Speaker("slt", 1.00, 1.00),
    Speaker("slt", 0.97, 1.22),
    Speaker("slt", 0.94, 0.86),
    Speaker("slt", 0.91, 1.10),
    Speaker("slt", 0.88, 0.76),
    Speaker("slt", 0.86, 0.95),
    Speaker("slt", 0.93, 1.00, seen=False),
    Speaker("rms", 1.00, 1.00),
    Speaker("rms", 0.91, 0.88),
    Speaker("rms", 0.95, 1.25),
    Speaker("rms", 1.05, 0.82),
    Speaker("rms", 1.10, 1.45),
    Speaker("rms", 1.14, 1.12),
    Speaker("rms", 1.07, 1.20, seen=False),
    Speaker("rms", 0.97, 0.95, seen=False),
    Speaker("awb", 1.00, 1.00),
    Speaker("awb", 0.91, 0.80),
    Speaker("awb", 0.95, 1.15),
    Speaker("awb", 1.05, 0.75),
    Speaker("awb", 1.10, 1.30),
    Speaker("awb", 1.14, 1.05),
    Speaker("awb", 1.07, 1.12, seen=False),
    Speaker("awb", 0.96, 0.90, seen=False),
    Speaker("kal16", 1.00, 1.00),
    Speaker("kal16", 0.91, 1.15),
    Speaker("kal16", 0.95, 0.90),
    Speaker("kal16", 1.05, 1.40),
    Speaker("kal16", 1.10, 1.10),
    Speaker("kal16", 1.14, 1.60),
    Speaker("kal16", 1.03, 1.22, seen=False),
)


def speakers_of(voice: str, seen: bool) -> tuple[Speaker, ...]:
    """The speakers made from `voice` that are (not) trained on."""
    return tuple(s for s in SPEAKERS if s.voice == voice and s.seen == seen)
