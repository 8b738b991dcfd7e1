"""VALL-E's autoregressive model (AR) as the decoding loops see it (`models.speech_lm.Model`).

A prompt is one row of merged ids: text ids, then text_tokens + id of each prompt code. In a prefill
text sees all text and audio all before it; then speech ids follow, one by one or in blocks.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from speculative_tts.models.decoder.cache import Cache
from speculative_tts.models.decoder.matrix import Packed, matrix
from speculative_tts.models.families.valle.ar import ValleAR
from speculative_tts.models.families.valle.checkpoint import load_valle
from speculative_tts.models.families.valle.layout import read_layout
from speculative_tts.models.families.valle.modules import sine_table
from speculative_tts.models.families.valle.trunk import Trunk
from speculative_tts.models.layout import FILE, SpeechLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import FromStates
from speculative_tts.native.library import library
from speculative_tts.native.step import PackedCache
from speculative_tts.native.walk import NativeModel, NativeSteps, PositionTable

CPU = torch.device("cpu")
SHORTEST_TABLE = 512


@dataclass(frozen=True)
class ValleCache:
    """Keys and values, and int64 [batch] text positions of each row, which prefill writes.

    Audio positions count from there. sines: [2, positions, dim]; see `KVCache.places`.
    """

    keys_values: Cache
    text: Tensor
    sines: Tensor

    def row(self, index: int) -> "ValleCache":
        """See `KVCache.row`."""
        text = self.text[index : index + 1]
        return ValleCache(self.keys_values.row(index), text, self.sines)


class ValleLM(FromStates):
    """Embeds prompts and codes, runs the trunk, returns hidden states or logits over speech ids.

    Speech ids are 0 .. n_codes - 1 and the end id n_codes. Weights are copied from `ar`.
    """

    def __init__(
        self,
        ar: ValleAR,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
        layout: SpeechLayout | None = None,
    ) -> None:
        """`layout` knows the words of a model that reads words; without it prompts are ids."""
        self.config = ar.config
        self.device = device
        self.trunk = Trunk(ar.ar_decoder, ar.config.heads, dtype=dtype, device=device)
        self.head = matrix(ar.ar_predict_layer.weight.detach().to(device, dtype).T)
        self._layout = layout
        self._text = _frozen(nn.Sequential(ar.ar_text_embedding, ar.ar_text_prenet), dtype, device)
        audio = _frozen(nn.Sequential(ar.ar_audio_embedding, ar.ar_audio_prenet), dtype, device)
        inputs = torch.arange(self.config.n_codes + 1 + self.config.prepend_bos, device=device)
        self._codes = audio(inputs)  # of each code
        self._alphas = tuple(
            float(position.alpha.detach())
            for position in (ar.ar_text_position, ar.ar_audio_position)
        )
        self._positions = self._tables(SHORTEST_TABLE)

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
        heads: int | None = None,
    ) -> "ValleLM":
        """The AR of an icefall file, or of a folder with config.json, weights and speech.json.

        Raises ValueError for anything else (see `models.families.valle.checkpoint`).
        """
        valle = load_valle(path, heads=heads)
        layout = read_layout(path) if (path / FILE).is_file() else None
        return cls(valle.ar, dtype=dtype, device=device, layout=layout)

    @property
    def layout(self) -> SpeechLayout:
        """Facts about texts and ids; ValueError for a bare checkpoint file."""
        if self._layout is None:
            raise ValueError(f"this VALL-E has no {FILE}; make its folder with sst-import-valle")
        return self._layout

    @property
    def vocab_size(self) -> int:
        """Speech ids, the end id included."""
        return self.head.shape[1]

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that a step reads: layers and head; an embedding lookup is free."""
        return sum(part.nbytes for part in (*self.trunk.weights(), self.head))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The end id."""
        return (self.config.eos_id,)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Merged ids: begin id, prompt's words, text's, end id, codes; ValueError as `text_ids`."""
        words = self.layout.text_ids(prompt.text, prompt.voice_text)
        return self.merged([self.layout.sos_id, *words, self.layout.task_id], prompt.codes)

    def merged(self, text_ids: Sequence[int], codes: Sequence[int]) -> list[int]:
        """Merged ids of text ids (with their begin and end id) and layer-1 codes of a prompt.

        Raises ValueError without audio: the model cannot predict a first code from nothing.
        """
        c = self.config
        audio = [c.bos_id, *codes] if c.prepend_bos else list(codes)
        if not audio:
            raise ValueError("the prompt has no codes; this model needs a recorded prompt")
        if not text_ids or not 0 <= min(text_ids) <= max(text_ids) < c.text_tokens:
            raise ValueError(f"text ids must lie in [0, {c.text_tokens}) and be at least one")
        return [*text_ids, *(c.text_tokens + code for code in audio)]

    def speech_ids(self, rows: Sequence[int]) -> list[int]:
        """Codes among merged ids."""
        codes = [row - self.config.text_tokens for row in rows]
        return [code for code in codes if 0 <= code < self.config.n_codes]

    def prompt(self, rows: Sequence[int]) -> Tensor:
        """Merged ids for `prefill`: int64 [length]."""
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """A prompt [length] of merged ids with speech ids [new] after it."""
        return torch.cat([prompt, self.config.text_tokens + ids])

    def cache(self, batch: int, capacity: int) -> ValleCache:
        """Key-value storage for `batch` rows of up to `capacity` positions, text included."""
        if capacity > self._positions.shape[1]:
            self._positions = self._tables(2 * capacity)
        text = torch.zeros(batch, dtype=torch.int64, device=self.device)
        return ValleCache(self.trunk.cache(batch, capacity), text, self._positions)

    def prefill_hidden(self, prompts: list[Tensor], cache: ValleCache) -> Tensor:
        """Run prompts (merged ids, [length] each), a row at a time, so a batch equals its rows.

        Returns hidden states after the final norm, [batch, dim].
        """
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        cache.keys_values.clear()
        last = []
        for index, prompt in enumerate(prompts):
            texts = int((prompt < self.config.text_tokens).sum())
            cache.text[index] = texts
            codes = prompt[texts:] - self.config.text_tokens
            text = self._text(prompt[None, :texts]) + cache.sines[0, :texts]
            audio = self._codes[codes[None]] + cache.sines[1, : len(codes)]
            inputs = torch.cat([text, audio], 1).to(self.trunk.dtype)
            row = cache.keys_values.row(index)
            last.append(self.trunk.extend(inputs, row, zero, prefix=texts, keep=1)[:, -1])
        return torch.cat(last)

    def extend_hidden(
        self, ids: Tensor, cache: ValleCache, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed speech ids [batch, new] at positions start [batch], text positions counted.

        Returns hidden states of the last `keep` of them (all by default), [batch, keep, dim].
        """
        places = (start - cache.text)[:, None] + torch.arange(ids.shape[1], device=self.device)
        inputs = (self._codes[ids] + cache.sines[1, places]).to(self.trunk.dtype)
        return self.trunk.extend(inputs, cache.keys_values, start, keep=keep)

    def native_steps(self, cache: ValleCache, lengths: Tensor) -> NativeSteps | None:
        """Return native steps over a cache; None where kernels are torch's."""
        stack = self.trunk.native
        if stack is None or not isinstance(self.head, Packed) or (native := library()) is None:
            return None
        kept = cache.keys_values
        if not isinstance(kept, PackedCache) or self._codes.dtype != torch.float32:
            return None  # sums of inputs are rounded in bfloat16
        model = NativeModel(native, stack, self.head.linear, self._codes, None)
        return NativeSteps(model, kept, lengths, places=PositionTable(cache.sines[1], cache.text))

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 logits over speech ids of hidden states [..., dim]."""
        out = self.head(hidden.flatten(0, -2))
        return out.float().view(*hidden.shape[:-1], -1)

    def _tables(self, length: int) -> Tensor:
        """Scaled sines of text and of audio positions, in float32: [2, length, dim]."""
        table = sine_table(length, self.config.dim, self.device)
        return torch.stack([alpha * table for alpha in self._alphas])


def valle_code_embedding(folder: Path) -> Tensor:
    """Stored input embeddings of all codes of the AR: [n_codes, dim]."""
    ar = load_valle(folder).ar
    return ar.ar_audio_embedding.weight.detach()[: ar.config.n_codes]


def _frozen(module: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    return copy.deepcopy(module).to(device, dtype).eval().requires_grad_(False)
