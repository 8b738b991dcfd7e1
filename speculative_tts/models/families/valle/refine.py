"""VALL-E's non-autoregressive model (NAR) as decoding sees it: one layer of codes in, all out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from speculative_tts.models.families.valle.checkpoint import load_valle
from speculative_tts.models.families.valle.layout import read_layout
from speculative_tts.models.families.valle.nar import ValleNAR
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.prompt import Prompt


class ValleRefiner:
    """Fills the layers that the AR leaves out, an utterance at a time; the most likely codes."""

    def __init__(self, nar: ValleNAR, layout: SpeechLayout) -> None:
        self._nar = nar
        self._layout = layout

    @classmethod
    def load(cls, folder: Path, *, dtype: torch.dtype, device: torch.device) -> ValleRefiner:
        """The NAR of a folder with config.json, model.safetensors and speech.json."""
        nar = load_valle(folder).nar.to(device, dtype).eval().requires_grad_(requires_grad=False)
        return cls(nar, read_layout(folder))

    @property
    def n_layers(self) -> int:
        """Layers of codes that come out."""
        return self._nar.config.quantizers

    @torch.inference_mode()
    def __call__(self, prompt: Prompt, first: Sequence[int]) -> Int64[Tensor, "layers tokens"]:
        """Codes of all layers on the CPU. Raises ValueError for words the model does not know."""
        if not first:
            return torch.zeros(self.n_layers, 0, dtype=torch.int64)
        device = self._nar.nar_text_embedding.weight.device
        words = self._layout.text_ids(prompt.text, prompt.voice_text)
        ids = torch.tensor([[self._layout.sos_id, *words, self._layout.task_id]], device=device)
        given = torch.tensor([list(first)], device=device)
        voice = prompt.voice.T[None].to(device)
        # modes that leave the prompt's text out must know how long it is, both marks counted
        enrolled = 2 + len(self._layout.text_ids(prompt.voice_text)) if prompt.voice_text else 2
        return self._nar.infer(ids, voice, given, enrolled=enrolled)[0].T.cpu()
