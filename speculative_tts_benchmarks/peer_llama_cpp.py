"""llama.cpp on the same random weights: what a user on a CPU may pick in our engine's place."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts_benchmarks.sizes import RandomWeights

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(weights: RandomWeights, path: Path, dtype: torch.dtype) -> None:
    """The weights as a GGUF file of a Llama whose vocabulary are the speech ids."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    c, speech = weights.config, len(weights.head)
    kind = GGMLQuantizationType.BF16 if dtype is torch.bfloat16 else GGMLQuantizationType.F32
    writer = GGUFWriter(path, "llama")
    writer.add_vocab_size(speech)
    writer.add_tokenizer_model("no_vocab")
    writer.add_context_length(c.max_positions)
    writer.add_embedding_length(c.hidden)
    writer.add_block_count(len(weights.layers))
    writer.add_feed_forward_length(c.intermediate)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_value_length(c.head_dim)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.rope_theta)
    writer.add_layer_norm_rms_eps(c.norm_eps)

    def add(name: str, value: Tensor) -> None:
        data, of = value.float().contiguous().numpy(), kind
        if value.ndim == 1:
            of = GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", quantize(data, of), raw_dtype=of)

    add("token_embd", weights.embedding[:speech])
    add("output", weights.head)
    add("output_norm", weights.layers[0]["norm.weight"])
    if c.rope_scaling is not None:
        plain = c.rope_theta ** (-torch.arange(0, c.head_dim, 2) / c.head_dim)
        add("rope_freqs", plain / torch.tensor(c.inverse_frequencies()))
    for index, name, value in weights.named():
        heads = {"self_attn.q_proj": c.heads, "self_attn.k_proj": c.kv_heads}
        stem = name.removesuffix(".weight")
        own = interleaved(value, heads[stem]) if stem in heads else value
        add(f"blk.{index}.{NAMES[stem]}", own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Rows of Q or K as GGUF has them: RoPE's pairs side by side, not half a head apart."""
    halves = weight.view(heads, 2, -1, weight.shape[1])
    return halves.transpose(1, 2).reshape(weight.shape)


class LlamaCpp:
    """One model, batch 1."""

    def __init__(
        self, weights: RandomWeights, dtype: torch.dtype, context: int, threads: int
    ) -> None:
        from llama_cpp import Llama

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_gguf(weights, path, dtype)
            self._model: Any = Llama(
                str(path),
                n_ctx=context,
                n_threads=threads,
                n_threads_batch=threads,
                seed=0,
                verbose=False,
            )

    def seconds(self, prompt: list[int], tokens: int, sampler: Sampler) -> float:
        """Seconds to continue a prompt by so many tokens."""
        self._model.reset()  # else it knows the prompt from the last time
        begin = time.perf_counter()
        made = self._model.generate(
            prompt,
            temp=sampler.temperature,
            top_k=sampler.top_k or 0,
            top_p=sampler.top_p,
            min_p=0.0,
            repeat_penalty=1.0,
        )
        for _ in range(tokens):
            next(made)
        return time.perf_counter() - begin

    def logits(self, prompt: list[int]) -> Tensor:
        """Behind a prompt."""
        self._model.reset()
        self._model.eval(prompt)
        found = torch.tensor(self._model._ctx.get_logits()[: self._model.n_vocab()])
        return found.view(-1)
