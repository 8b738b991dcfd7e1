"""Speech codes of voice prompts: encoded once for all runs, kept by what they were made from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speculative_tts.caches import store
from speculative_tts.codecs.audio import UnfitWaveError, Wave, is_silent, read_wave
from speculative_tts.codecs.registry import Codec, VoiceCodec, encode_voice
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Layout, follows_voice, speaks_alone
from speculative_tts.provenance import content_hash, source_hash
from speculative_tts.records import ListItem

LONGEST_PROMPT = 60.0  # seconds; encoding ten minutes takes minutes
KIND, CODES = "voice", "codes"


class Voices:
    """Codes of recordings, by path: int64 [tokens] or, with layers, [layers, tokens].

    What was encoded lies in the store below `cache`, keyed by the content of recording and codec.
    A codec that keeps a prompt's voice to speak with (`VoiceCodec`) must hear it in every process.
    """

    def __init__(self, codec: Codec, codec_hash: str, cache: Path) -> None:
        self._codec, self._cache = codec, cache
        self._made_by = {"codec": codec_hash, "code": source_hash("codecs")}
        self._known: dict[str, Tensor] = {}

    def __getitem__(self, path: str) -> Tensor:
        """Return the codes of a recording; raise ValueError as `encode_prompt` does."""
        if path not in self._known:
            self._known[path] = self._codes(path)
        return self._known[path]

    def _codes(self, path: str) -> Tensor:
        if isinstance(self._codec, VoiceCodec):
            return self._encoded(path)
        description = {"audio": content_hash(Path(path)), **self._made_by}
        entry = store.find_or_make(
            self._cache, KIND, description, lambda: ({CODES: self._encoded(path).numpy()}, {})
        )
        return torch.from_numpy(np.array(entry.arrays[CODES]))

    def _encoded(self, path: str) -> Tensor:
        return encode_file(self._codec, path)


def prompt_of(item: ListItem, layout: Layout, encoded: Callable[[str], Tensor]) -> Prompt:
    """Build the prompt of a list's row, whose recording `encoded` turns into codes.

    Raises ValueError for a row without a recording where the target follows one.
    """
    prompt = Prompt(item.text, speaker=item.speaker, voice_codes=item.voice_codes or ())
    if not follows_voice(layout):
        return prompt
    if item.prompt_audio:
        voice = encoded(item.prompt_audio)
        return replace(prompt, voice_text=item.prompt_text, voice=voice)
    if not speaks_alone(layout):
        raise ValueError(
            "prompt_audio is missing, and this target follows a recording; give one with its words"
        )
    return prompt


def heard(item: ListItem, layout: Layout) -> str:
    """Return the recording that the row's prompt needs; empty where it needs none."""
    return item.prompt_audio if follows_voice(layout) else ""


def encode_file(codec: Codec, path: str) -> Tensor:
    """Return the speech codes of a recording; raises ValueError as `encode_prompt` does."""
    return encode_prompt(codec, read_wave(Path(path), codec.sample_rate), path)


def encode_prompt(codec: Codec, wave: Wave, name: str) -> Tensor:
    """Encode a voice prompt: int64 [tokens] or, with layers, [layers, tokens].

    Raises UnfitWaveError for silence, below one token, and above a minute.
    """
    seconds = len(wave) / codec.sample_rate
    if seconds > LONGEST_PROMPT:
        raise UnfitWaveError(
            f"{name} is {seconds:.0f} s long, above {LONGEST_PROMPT:.0f}; give 2 to 3 s of speech"
        )
    if len(wave) and is_silent(wave):
        raise UnfitWaveError(
            f"{name} is silent: it has no voice to follow; give 2 to 3 s of speech"
        )
    codes = np.asarray(encode_voice(codec, wave))
    if codes.shape[-1] == 0:
        raise UnfitWaveError(
            f"{name} is {seconds:.2f} s long, below one speech token; give 2 to 3 s of speech"
        )
    return torch.from_numpy(codes.astype(np.int64))
