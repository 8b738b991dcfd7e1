"""Define the tiny corpus's speakers: warps of four Flite voices that the recogniser understands."""

from __future__ import annotations

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


SPEAKERS = (
    TinySpeaker("slt", 1.00, 1.00),
    TinySpeaker("slt", 0.97, 1.22),
    TinySpeaker("slt", 0.94, 0.86),
    TinySpeaker("slt", 0.91, 1.10),
    TinySpeaker("slt", 0.88, 0.76),
    TinySpeaker("slt", 0.86, 0.95),
    TinySpeaker("slt", 0.93, 1.00, seen=False),
    TinySpeaker("rms", 1.00, 1.00),
    TinySpeaker("rms", 0.91, 0.88),
    TinySpeaker("rms", 0.95, 1.25),
    TinySpeaker("rms", 1.05, 0.82),
    TinySpeaker("rms", 1.10, 1.45),
    TinySpeaker("rms", 1.14, 1.12),
    TinySpeaker("rms", 1.07, 1.20, seen=False),
    TinySpeaker("rms", 0.97, 0.95, seen=False),
    TinySpeaker("awb", 1.00, 1.00),
    TinySpeaker("awb", 0.91, 0.80),
    TinySpeaker("awb", 0.95, 1.15),
    TinySpeaker("awb", 1.05, 0.75),
    TinySpeaker("awb", 1.10, 1.30),
    TinySpeaker("awb", 1.14, 1.05),
    TinySpeaker("awb", 1.07, 1.12, seen=False),
    TinySpeaker("awb", 0.96, 0.90, seen=False),
    TinySpeaker("kal16", 1.00, 1.00),
    TinySpeaker("kal16", 0.91, 1.15),
    TinySpeaker("kal16", 0.95, 0.90),
    TinySpeaker("kal16", 1.05, 1.40),
    TinySpeaker("kal16", 1.10, 1.10),
    TinySpeaker("kal16", 1.14, 1.60),
    TinySpeaker("kal16", 1.03, 1.22, seen=False),
)


def speakers_of(voice: str, seen: bool) -> tuple[TinySpeaker, ...]:
    """Return the speakers made from `voice` that training has seen, or not."""
    return tuple(s for s in SPEAKERS if s.voice == voice and s.seen == seen)
