"""A speech LM: a decoder with the embeddings, speech head and prompt layout of a family.

Everything above speaks *speech ids*: 0 .. n_codes - 1 are codec codes, then come stop ids. The head
has speech rows only (exact for a sampler that masks text rows; CosyVoice 2's head is made so, a
merged vocabulary is cut to it).
"""

from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.models.cache import KVCache
from speculative_tts.models.config import DecoderConfig
from speculative_tts.models.decoder import Decoder
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.loading import build_decoder, read_state


class SpeechLM:
    """Embeds prompts and speech ids, runs the decoder, returns logits over speech ids."""

    def __init__(
        self,
        decoder: Decoder,
        layout: SpeechLayout,
        embedding: Tensor,
        head: Tensor,
        bias: Tensor | None,
    ):
        """embedding: [rows, hidden], speech ids first.

        head: [hidden, speech_vocab_size]; bias: [speech_vocab_size].
        """
        self.decoder = decoder
        self.layout = layout
        self._embedding = embedding
        self.head = head
        self._bias = bias

    @classmethod
    def load(cls, folder: Path, *, dtype: torch.dtype, device: torch.device) -> "SpeechLM":
        """A checkpoint in the merged layout: config.json, weights and speech.json of one folder."""
        if not folder.is_dir():
            raise ValueError(
                f"checkpoint folder {folder} not found; "
                "give target.path=<folder> or draft.path=<folder>"
            )
        config, layout = DecoderConfig.from_folder(folder), SpeechLayout.from_folder(folder)
        state = read_state(folder)
        decoder = build_decoder(config, state, dtype=dtype, device=device)
        embedding = state["model.embed_tokens.weight"].to(dtype=dtype, device=device)
        head = embedding if config.tied else state["lm_head.weight"].to(dtype=dtype, device=device)
        bias = state.get("lm_head.bias")
        rows = slice(0, layout.speech_vocab_size)
        return cls(
            decoder,
            layout,
            embedding,
            head[rows].T.contiguous(),
            None if bias is None else bias[rows].to(dtype=dtype, device=device),
        )

    @property
    def vocab_size(self) -> int:
        """Speech ids, stop ids included."""
        return self.head.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.decoder.device

    def prompt_ids(self, text: str, prompt_text: str, prompt_codes: Tensor) -> list[int]:
        """CosyVoice 2's zero-shot prompt in merged-vocabulary ids: [sos] texts [task] speech."""
        return self.layout.prompt_ids(text, prompt_text, prompt_codes.tolist())

    def prompt(self, text: str, prompt_text: str, prompt_codes: Tensor) -> Tensor:
        """The embedded prompt, [length, hidden]; ValueError names unknown words."""
        ids = self.prompt_ids(text, prompt_text, prompt_codes)
        return self._embedding[torch.tensor(ids, device=self.device)]

    def cache(self, batch: int, capacity: int) -> KVCache:
        """Key-value storage for `batch` rows of up to `capacity` positions."""
        return self.decoder.cache(batch, capacity)

    def prefill(self, prompts: list[Tensor], cache: KVCache) -> Tensor:
        """Run prompts ([length, hidden] each), a row at a time, so that a batch equals its rows.

        Returns float32 logits of the first token, [batch, vocab].
        """
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        last = [
            self.decoder.extend(prompt[None], cache.row(index), zero)[:, -1]
            for index, prompt in enumerate(prompts)
        ]
        return self._logits(torch.cat(last))

    def extend(self, ids: Tensor, cache: KVCache, start: Tensor, keep: int | None = None) -> Tensor:
        """Feed speech ids [batch, new] at positions start [batch].

        Returns float32 logits of the last `keep` of them (all by default), [batch, keep, vocab].
        """
        hidden = self.decoder.extend(self._embedding[ids], cache, start)
        return self._logits(hidden if keep is None else hidden[:, -keep:])

    def _logits(self, hidden: Tensor) -> Tensor:
        flat = hidden.flatten(0, -2)
        out = (
            torch.mm(flat, self.head)
            if self._bias is None
            else torch.addmm(self._bias, flat, self.head)
        )
        return out.float().view(*hidden.shape[:-1], -1)
