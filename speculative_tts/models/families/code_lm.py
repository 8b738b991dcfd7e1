"""Base of speech LMs: a decoder, inputs of speech ids, and a head over them."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.decoder.cache import Cache, KVCache
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.matrix import Matrix, Packed
from speculative_tts.models.gpu import prefill
from speculative_tts.models.gpu.norms import gathered
from speculative_tts.models.gpu.triton_runtime import suits
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import FromStates, Layout
from speculative_tts.native.library import library
from speculative_tts.native.step import PackedCache
from speculative_tts.native.walk import NativeModel, NativeSteps


class CodeLM(FromStates):
    """Runs embedded prompts and speech ids through the decoder; returns logits over speech ids."""

    layout: Layout  # of a checkpoint's model, which has prompts

    def __init__(self, decoder: Decoder, embedding: Tensor, head: Matrix) -> None:
        """embedding: [rows, hidden]; head: from hidden to vocab_size."""
        self.decoder = decoder
        self.head = head
        self.embedding = embedding

    @property
    def vocab_size(self) -> int:
        """Speech ids, stop ids included."""
        return self.head.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.decoder.device

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that a step reads: layers and head; an embedding lookup is free."""
        layers = [matrix for layer in self.decoder.layers for matrix in layer.matrices()]
        return self.decoder.norm.nbytes + sum(matrix.nbytes for matrix in (*layers, self.head))

    def embed(self, ids: Tensor) -> Tensor:
        """Inputs of speech ids: [..., hidden]. Here the embedding's first rows are theirs."""
        return embedded(ids, self.embedding)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """The prompt as rows of the embedding. ValueError says why it cannot be spoken."""
        return self.layout.prompt_ids(prompt)

    def prompt(self, rows: list[int]) -> Tensor:
        """Inputs of rows of the embedding: [length, hidden]."""
        return self.embedding[torch.tensor(rows, device=self.device)]

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """A prompt [length, hidden] with speech ids [new] after it."""
        return torch.cat([prompt, self.embed(ids)])

    def speech_ids(self, rows: list[int]) -> list[int]:
        """Speech ids of those rows of a prompt that have one; here the first rows are theirs."""
        return [row for row in rows if row < self.vocab_size]

    def cache(self, batch: int, capacity: int) -> Cache:
        """Key-value storage for `batch` rows of up to `capacity` positions."""
        return self.decoder.cache(batch, capacity)

    def prefill_hidden(self, prompts: list[Tensor], cache: Cache) -> Tensor:
        """Run prompts [length, hidden]; return states after the final norm, [batch, hidden].

        A row at a time, so that a batch equals its rows; on a GPU padded to one pass.
        """
        cache.clear()
        if isinstance(cache, KVCache) and suits(self.decoder.norm):
            return prefill.prefill(self.decoder, prompts, cache)
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        last = [
            self.decoder.extend(prompt[None], cache.row(index), zero, keep=1)[:, -1]
            for index, prompt in enumerate(prompts)
        ]
        return torch.cat(last)

    def extend_hidden(
        self, ids: Tensor, cache: Cache, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed speech ids [batch, new] at positions start [batch].

        Returns the last `keep` states (all by default) after the final norm.
        """
        return self.decoder.extend(self.embed(ids), cache, start, keep)

    def native_steps(self, cache: Cache, lengths: Tensor) -> NativeSteps | None:
        """Return native steps over a cache; None where kernels are torch's."""
        stack = self.decoder.native
        if stack is None or not isinstance(self.head, Packed) or not isinstance(cache, PackedCache):
            return None
        if (native := library()) is None:
            return None
        parts = (native, stack, self.head.linear, self.embedding, self._rows_of_ids())
        return NativeSteps(NativeModel(*parts), cache, lengths, rotations=self.decoder.turns)

    def _rows_of_ids(self) -> Tensor | None:
        """Row of the embedding of each speech id: int64 [vocab]; None: the id itself."""
        return None

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 logits over speech ids of final hidden states [..., hidden]."""
        return self.head.in_float32(hidden.flatten(0, -2)).view(*hidden.shape[:-1], -1)


def embedded(ids: Tensor, table: Tensor) -> Tensor:
    """Return the table's rows of these ids: [..., hidden]."""
    if suits(table) and not torch.is_grad_enabled():
        return gathered(ids, table)
    return F.embedding(ids, table)
