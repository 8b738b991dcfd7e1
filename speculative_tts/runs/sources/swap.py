"""PCG's swap test: does a group hold tokens that may stand for each other?

Yanuka et al., 2025, arXiv 2511.13732, table 2: in sequences that the target made, every token whose
group has more than one member is replaced by an alternative: a uniform draw from the other members.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.registry import Codec, VoiceCodec, decode_voice
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.decoding.sampling.randomness import AUXILIARY, uniforms
from speculative_tts.provenance import content_hash
from speculative_tts.records import DecodeRecord, ListItem
from speculative_tts.runs.folder import is_done, read_config, read_records, shared_caches
from speculative_tts.runs.naming import run_name
from speculative_tts.runs.run import check_audio, record
from speculative_tts.runs.voices import Voices
from speculative_tts.schema.decode import DecodeConfig, SamplingConfig, System
from speculative_tts.schema.rules import GroupRule


def build(config: DecodeConfig) -> "SwapSource":
    """Return the source of a run of system=swap; ValueError without the target's run."""
    source, shared = target_run(config), shared_caches(config.out, config.cache)
    parts = Builder(config, process_cache(config.runtime.device.value))
    voices = Voices(parts.codec, content_hash(Path(config.codec.path)), shared)
    groups = parts.groups.arrays
    return SwapSource(parts.codec, groups, source, parts.facts, parts.sampling, voices)


def target_run(config: DecodeConfig) -> dict[str, DecodeRecord]:
    """Read the records of the target's run that system=swap starts from.

    Raises ValueError if there is no such finished run, or no groups to swap within.
    """
    if not isinstance(config.rule, GroupRule):
        raise ValueError(
            f"system=swap swaps within groups, and rule is {config.rule.name}; give rule=group"
        )
    target = replace(config, system=System.target, source=None)
    folder = Path(config.source or Path(config.out) / run_name(target))
    if not is_done(folder):
        raise ValueError(
            f"{folder} is no finished run; system=swap needs the target's, made by "
            "sst-decode system=target with the same settings, or source=<its folder>"
        )
    made = read_config(folder)
    if made.get("system") != System.target.name:
        raise ValueError(f"{folder} is a run of system={made.get('system')}, not of the target")
    return read_records(folder)


def swap(
    codes: Sequence[int], groups: Mapping[str, NDArray[Any]], seed: int, id_: str
) -> list[int]:
    """Replace each code by another member of its own group G(t), where it has one.

    groups: arrays own [tokens], group_offsets [groups + 1], group_tokens [members] of
    `caches.provide`. The uniforms are keyed as in decoding, and those of a draw that autoregressive
    decoding does not make, so they are independent of how the codes were sampled.
    """
    uniform = uniforms([(seed, id_)], len(codes), device=torch.device("cpu"))[0, :, AUXILIARY]
    return [_alternative(*one, groups) for one in zip(codes, uniform.tolist(), strict=True)]


def _alternative(code: int, uniform: float, groups: Mapping[str, NDArray[Any]]) -> int:
    """Return one of the other members of a code's group; the code itself if it has no company."""
    begin, end = groups["group_offsets"][groups["own"][code] :][:2]
    members = groups["group_tokens"][begin:end]
    others = members[members != code]
    return int(others[int(uniform * len(others))]) if len(others) else code


@dataclass(frozen=True)
class SwapSource:
    """A target run's utterances, by id in `source`, each code swapped within its group."""

    codec: Codec
    groups: Mapping[str, NDArray[Any]]
    source: Mapping[str, DecodeRecord]
    facts: Mapping[str, Any]
    settings: SamplingConfig | None
    voices: Voices
    failed: dict[str, str] = field(default_factory=dict)

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:  # noqa: ARG002
        """See `AudioSource`."""
        lacking = [item.id for item in missing if item.id not in self.source]
        if lacking:
            raise ValueError(
                f"{lacking[0]} is not in the run to swap; decode the target over this list"
            )
        if isinstance(self.codec, VoiceCodec):
            check_audio({item.id: item.prompt_audio for item in missing if item.prompt_audio})

    def make(self, missing: list[ListItem]) -> Iterator[tuple[DecodeRecord, Wave]]:
        """See `AudioSource`."""
        for item in missing:
            source = self.source[item.id]
            codes = swap(source.codes, self.groups, source.seed, item.id)
            array = np.array(codes, dtype=np.int64)
            wave = decode_voice(self.codec, array, self._prompt(item, array))
            swapped = sum(new != old for new, old in zip(codes, source.codes, strict=True))
            about = {"stop": source.stop, "swapped": swapped}
            yield record(item, source.seed, codes, wave, self.codec, **about), wave

    def _prompt(self, item: ListItem, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes of the voice prompt, for a codec that hears it."""
        if not isinstance(self.codec, VoiceCodec) or not item.prompt_audio:
            return codes[:0]
        prompt: NDArray[np.int64] = self.voices[item.prompt_audio].numpy()
        return prompt
