"""The recordings of a list themselves, or through the codec: bounds that no model can pass."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from speculative_tts.codecs.audio import Wave, read_wave
from speculative_tts.codecs.registry import (
    Codec,
    VoiceCodec,
    encode_voice,
    load_codec,
    silence,
)
from speculative_tts.records import DecodeRecord, ListItem
from speculative_tts.runs.run import check_audio, of_row, record
from speculative_tts.schema.decode import DecodeConfig, SamplingConfig, System


def build(config: DecodeConfig) -> "RecordedSource":
    """Return the source of a run of system=codec or reference."""
    codec = load_codec(config.codec.name, Path(config.codec.path))
    return RecordedSource(codec, through=config.system is System.codec, seed=config.seed)


@dataclass(frozen=True)
class RecordedSource:
    """Reference recordings with their codes, the wave as it is or `through` the codec."""

    codec: Codec
    through: bool
    seed: int = 0  # of the records; nothing is drawn
    facts: Mapping[str, Any] = field(default_factory=dict)
    settings: SamplingConfig | None = None
    failed: dict[str, str] = field(default_factory=dict)

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:  # noqa: ARG002
        """See `AudioSource`."""
        heard = [item for item in missing if self._given(item) is None]
        lacking = [item.id for item in heard if item.reference_audio is None]
        if lacking:
            system = "codec" if self.through else "reference"
            raise ValueError(f"{lacking[0]} has no reference_audio, which system={system} needs")
        check_audio({item.id: str(item.reference_audio) for item in heard})
        for item in heard:
            with of_row(item):
                read_wave(Path(str(item.reference_audio)), self.codec.sample_rate)

    def make(self, missing: list[ListItem]) -> Iterator[tuple[DecodeRecord, Wave]]:
        """See `AudioSource`."""
        for item in missing:
            codes = self._given(item)
            if codes is None:
                wave = read_wave(Path(str(item.reference_audio)), self.codec.sample_rate)
                codes = encode_voice(self.codec, wave)
            if self.through:
                wave = self.codec.decode(codes) if codes.size else silence(self.codec)
            first = np.atleast_2d(codes)[0].tolist()
            yield record(item, self.seed, first, wave, self.codec), wave

    def _given(self, item: ListItem) -> np.ndarray | None:
        """Return a recording's codes in the list; None if it is encoded, or heard as it is."""
        if item.reference_codes is None or not self.through:
            return None
        if isinstance(self.codec, VoiceCodec):
            raise ValueError(
                f"row {item.id} has reference_codes, and this codec hears a voice too; take them "
                "out, so that the recording is encoded"
            )
        layers, size = self.codec.n_layers, self.codec.n_codes
        codes = np.array(list(itertools.zip_longest(*item.reference_codes, fillvalue=-1))).T
        if len(codes) != layers or not 0 <= codes.min() <= codes.max() < size:
            raise ValueError(
                f"row {item.id}: reference_codes are not {layers} layers of codes below {size}; "
                "give the codec that they are of"
            )
        return codes if layers > 1 else codes[0]
