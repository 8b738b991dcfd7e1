"""Build models of published sizes with random weights, to time steps without checkpoints.

Costs of steps are those of the real weights. How often a random draft is right is not: layers that
the draft lacks are made weak, so that it agrees with its target often enough for the loop to be
seen, and the acceptance is told beside the speed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from speculative_tts.costs.hours import QWEN
from speculative_tts.costs.layers import State, decoder_of, random_layers
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.decoder.config import DecoderConfig, RopeScaling
from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.recurrent import BlockTensors, LayerTensors, RecurrentLayer

RECURRENT_WIDTH = 8  # of its block over the target's
MISSING_SCALE = 0.1  # scale of what layers outside the draft add
LAYER = "layers.0."  # prefix of the names in a state


@dataclass(frozen=True)
class RandomWeights:
    """Weights of a model: layers, embedding [ids, hidden], head [speech ids, hidden].

    Speech ids come first.

    Q, K and V have biases of zero, which others do without.
    """

    config: DecoderConfig
    layers: Sequence[State]
    embedding: Tensor
    head: Tensor

    def model(self, dtype: torch.dtype, device: torch.device) -> CodeLM:
        """Build this engine's model, whose head is cut to speech ids."""
        decoder = decoder_of(self.config, self.layers, dtype=dtype, device=device)
        return CodeLM(decoder, self.embedding.to(device), matrix(self.head.T.to(device, dtype)))

    def some(self, layers: Sequence[int]) -> "RandomWeights":
        """Return weights with some of the layers only."""
        return replace(self, layers=[self.layers[index] for index in layers])

    def named(self) -> Iterator[tuple[int, str, Tensor]]:
        """Yield layer index, name and value of each weight of the layers."""
        for index, state in enumerate(self.layers):
            for name, tensor in state.items():
                if name.startswith(LAYER) and not name.endswith(".bias"):
                    yield index, name.removeprefix(LAYER), tensor

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return config.json and state dict of a Llama or Qwen3 of speech ids alone."""
        c, speech = self.config, len(self.head)
        rope: dict[str, Any] = {"rope_theta": c.rope_theta, "rope_type": "default"}
        if c.rope_scaling is not None:
            rope |= asdict(c.rope_scaling) | {"rope_type": "llama3"}
        config = {
            "model_type": "qwen3" if c.head_norms else "llama",
            "hidden_size": c.hidden,
            "intermediate_size": c.intermediate,
            "num_hidden_layers": len(self.layers),
            "num_attention_heads": c.heads,
            "num_key_value_heads": c.kv_heads,
            "head_dim": c.head_dim,
            "vocab_size": speech,
            "rms_norm_eps": c.norm_eps,
            "max_position_embeddings": c.max_positions,
            "rope_parameters": rope,
            "tie_word_embeddings": False,
        }
        ends = {
            "model.embed_tokens.weight": self.embedding[:speech],
            "model.norm.weight": self.layers[0]["norm.weight"],
            "lm_head.weight": self.head,
        }
        layers = {f"model.layers.{index}.{name}": value for index, name, value in self.named()}
        return config, ends | layers


@dataclass(frozen=True)
class ModelSize:
    """A published size: the model's shape, its prompt and its sampler."""

    title: str
    config: DecoderConfig
    speech: int  # rows of the head
    codes: int
    draft: Sequence[int]  # its layers
    length: int  # of a prompt with 3 s of speech
    sampler: Sampler

    @property
    def parameters(self) -> int:
        """The number of weights: layers, embedding and head."""
        c = self.config
        attention = 2 * c.hidden * c.head_dim * (c.heads + c.kv_heads)
        layer = attention + 3 * c.hidden * c.intermediate
        return c.layers * layer + (c.vocab_size + self.speech) * c.hidden

    def weights(self, dtype: torch.dtype, seed: int) -> RandomWeights:
        """Draw random weights."""
        generator = torch.Generator().manual_seed(seed)
        scales = [1.0 if i in self.draft else MISSING_SCALE for i in range(self.config.layers)]
        layers = random_layers(self.config, scales, generator)
        shape = self.config.vocab_size, self.config.hidden
        embedding = torch.randn(shape, generator=generator).to(dtype)  # the same in any format
        head = embedding[: self.speech]
        if not self.config.tied:
            head = torch.randn(head.shape, generator=generator)
        return RandomWeights(self.config, layers, embedding, head * (2 / self.config.hidden**0.5))

    def make(self, dtype: torch.dtype, device: torch.device, seed: int) -> CodeLM:
        """Build a target with random weights."""
        return self.weights(dtype, seed).model(dtype, device)

    def draft_of(self, model: CodeLM) -> CodeLM:
        """Build a draft of some of a target's layers, sharing its memory."""
        return CodeLM(model.decoder.some(self.draft), model.embedding, model.head)

    def recurrent_of(self, model: CodeLM, dtype: torch.dtype, seed: int) -> RecurrentLayer:
        """Build a recurrent layer of one block with random weights, as wide as a trained one."""
        hidden, width = self.config.hidden, RECURRENT_WIDTH * self.config.hidden
        shapes = (width, 2 * hidden), (width,), (hidden, width), (hidden,)
        where: Any = {"generator": torch.Generator(model.device).manual_seed(seed), "dtype": dtype}
        parts = (torch.randn(one, device=model.device, **where) / hidden for one in shapes)
        return RecurrentLayer(LayerTensors((BlockTensors(*parts),)), model.head, dtype)

    def ids(self, seed: int) -> list[int]:
        """Draw the ids of a prompt; its content does not affect time, so it is codes only."""
        generator = torch.Generator().manual_seed(seed)
        found: list[int] = torch.randint(self.codes, (self.length,), generator=generator).tolist()
        return found

    def prompt(self, model: CodeLM, seed: int) -> Tensor:
        """Return the prompt's embeddings for this engine."""
        return model.embed(torch.tensor(self.ids(seed), device=model.device))


_CODES = 6_561
COSYVOICE2 = ModelSize(
    "CosyVoice 2",
    replace(QWEN, vocab_size=_CODES + 3 + 151_936 + 2, max_positions=32_768, qkv_bias=True),
    speech=_CODES + 3,
    codes=_CODES,
    draft=(0, 1, 18, 19, 20, 21, 22, 23),  # the paper's: lower 2 and upper 6 of 24
    length=127,  # with 50 tokens of text
    sampler=RepetitionAware(top_k=25, top_p=0.8, barred=(_CODES,)),
)
LLASA_1B = ModelSize(
    "LLaSA-1B, head cut to speech rows",
    DecoderConfig(
        layers=16,
        hidden=2_048,
        heads=32,
        kv_heads=8,
        head_dim=64,
        intermediate=8_192,
        vocab_size=65_537 + 1_024,  # text for prompts; a look-up costs the same in a larger table
        norm_eps=1e-5,
        rope_theta=500_000.0,
        rope_scaling=RopeScaling(32.0, 1.0, 4.0, 8_192),
        max_positions=131_072,
        tied=True,
    ),
    speech=65_537,  # with the end of speech
    codes=65_536,
    draft=(0, 7, 15),  # PCG drafts with 3 of the 8B's 32 layers
    length=260,  # with 110 tokens of text
    sampler=Sampler(0.8, 50, 1.0),  # the model card's
)
LLASA_8B = replace(
    LLASA_1B,
    title="LLaSA-8B, head cut to speech rows",
    config=replace(LLASA_1B.config, layers=32, hidden=4_096, head_dim=128, intermediate=14_336),
)
SIZES = {"cosyvoice2": COSYVOICE2, "llasa_1b": LLASA_1B, "llasa_8b": LLASA_8B}
