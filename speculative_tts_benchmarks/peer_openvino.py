"""OpenVINO on the same random weights: what a user on a CPU may pick in our engine's place.

The graph is what its own exporter makes of a Llama: a stateful model whose keys, values and
attention, RoPE and norms its CPU plug-in fuses.
"""

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts_benchmarks.sizes import RandomWeights


class OpenVino:
    """One model, batch 1."""

    def __init__(self, weights: RandomWeights, dtype: torch.dtype, threads: int) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "bf16" if dtype is torch.bfloat16 else "f32",
            "KV_CACHE_PRECISION": "bf16" if dtype is torch.bfloat16 else "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        graph = Graph(weights.config, dtype).model(weights)
        self._run: Any = openvino.Core().compile_model(graph, "CPU", settings)
        self._request = self._run.create_infer_request()

    def seconds(self, prompt: list[int], tokens: int, sampler: Sampler) -> float:
        """Seconds to continue a prompt by so many tokens."""
        begin = time.perf_counter()
        logits = self.logits(prompt)
        for position in range(len(prompt), len(prompt) + tokens - 1):
            logits = self.step([_drawn(logits, sampler)], position)
        _drawn(logits, sampler)
        return time.perf_counter() - begin

    def logits(self, prompt: list[int]) -> Tensor:
        """Behind a prompt."""
        self._request.reset_state()
        return self.step(prompt, 0)

    def step(self, ids: list[int], start: int) -> Tensor:
        """Logits behind the last of some ids at positions from `start` on."""
        end = start + len(ids)
        behind = np.arange(end)[None] > np.arange(start, end)[:, None]
        mask = np.where(behind, np.float32(-np.inf), np.float32(0))[None, None]
        beam = np.zeros(1, dtype=np.int32)
        fed = {0: np.array([ids]), 1: np.arange(start, end)[None], 2: mask, 3: beam}
        return torch.from_numpy(self._request.infer(fed)[0][0, -1])


def _drawn(logits: Tensor, sampler: Sampler) -> int:
    """A token by temperature, top k and top p."""
    if sampler.temperature == 0:
        return int(logits.argmax())
    kept, ids = (logits / sampler.temperature).topk(sampler.top_k or len(logits))
    law = kept.softmax(0)
    law = torch.where(law.cumsum(0) - law < sampler.top_p, law, 0.0)
    return int(ids[torch.multinomial(law, 1)])


class Graph:
    """Builds a Llama out of OpenVINO's operations."""

    def __init__(self, config: DecoderConfig, dtype: torch.dtype) -> None:
        import openvino
        from openvino import opset13

        self._c, self._dtype = config, dtype
        self._ov: Any = openvino
        self._op: Any = opset13
        self._sinks: list[Any] = []

    def model(self, weights: RandomWeights) -> Any:
        """Of token ids, positions, an additive mask and rows of a beam to logits of the last."""
        op, c = self._op, self._c
        ids = op.parameter([-1, -1], np.int64)
        positions = op.parameter([-1, -1], np.int64)
        mask = op.parameter([-1, 1, -1, -1], np.float32)
        beam = op.parameter([-1], np.int32)
        speech = len(weights.head)
        x = op.gather(self._weight(weights.embedding[:speech]), ids, self._ints(0))
        turn = self._turn(positions)
        layers: list[dict[str, Tensor]] = [{} for _ in weights.layers]
        for index, name, value in weights.named():
            layers[index][name.removesuffix(".weight")] = value
        for index, own in enumerate(layers):
            x = op.add(x, self._attention(index, own, x, turn, mask, beam))
            x = op.add(x, self._mlp(own, x))
        last = op.gather(x, self._ints([-1]), self._ints(1))
        norm = self._norm(last, weights.layers[0]["norm.weight"])
        logits = op.result(self._product(norm, weights.head))
        inputs = [ids, positions, mask, beam]
        assert c.layers == len(layers)
        return self._ov.Model([logits], self._sinks, inputs, "llama")

    def _attention(
        self,
        index: int,
        own: dict[str, Tensor],
        x: Any,
        turn: tuple[Any, Any],
        mask: Any,
        beam: Any,
    ) -> Any:
        op, c = self._op, self._c
        normed = self._norm(x, own["input_layernorm"])

        def heads(name: str, number: int) -> Any:
            product = self._product(normed, own[f"self_attn.{name}_proj"])
            split = op.reshape(product, self._ints([0, 0, number, c.head_dim]), True)
            return op.transpose(split, self._ints([0, 2, 1, 3]))

        q = self._turned(heads("q", c.heads), turn)
        k = self._turned(heads("k", c.kv_heads), turn)
        k = self._remembered(f"k{index}", k, x, beam)
        v = self._remembered(f"v{index}", heads("v", c.kv_heads), x, beam)
        mixed = op.scaled_dot_product_attention(q, self._repeated(k), self._repeated(v), mask)
        joined = op.transpose(mixed, self._ints([0, 2, 1, 3]))
        joined = op.reshape(joined, self._ints([0, 0, c.heads * c.head_dim]), True)
        return self._product(joined, own["self_attn.o_proj"])

    def _mlp(self, own: dict[str, Tensor], x: Any) -> Any:
        op, normed = self._op, self._norm(x, own["post_attention_layernorm"])
        gate, up = (self._product(normed, own[f"mlp.{name}_proj"]) for name in ("gate", "up"))
        return self._product(op.multiply(op.swish(gate), up), own["mlp.down_proj"])

    def _turn(self, positions: Any) -> tuple[Any, Any]:
        """Cosines and sines of RoPE [batch, 1, new, head_dim]."""
        op = self._op
        steps = np.array(self._c.inverse_frequencies(), dtype=np.float32).reshape(1, -1, 1)
        places = op.unsqueeze(op.convert(positions, "f32"), self._ints(1))
        angles = op.matmul(op.constant(steps), places, False, False)
        angles = op.transpose(angles, self._ints([0, 2, 1]))
        both = op.concat([angles, angles], -1)
        return tuple(op.unsqueeze(of(both), self._ints(1)) for of in (op.cos, op.sin))

    def _turned(self, x: Any, turn: tuple[Any, Any]) -> Any:
        op, half, end = self._op, self._c.head_dim // 2, self._c.head_dim
        low, high = (
            op.slice(x, *(self._ints([number]) for number in (a, b, 1, 3)))
            for a, b in ((0, half), (half, end))
        )
        crossed = op.concat([op.multiply(high, self._floats(-1.0)), low], -1)
        return op.add(op.multiply(x, turn[0]), op.multiply(crossed, turn[1]))

    def _remembered(self, name: str, new: Any, x: Any, beam: Any) -> Any:
        """Keys or values so far and the new ones, which the next call will find."""
        from openvino.op.util import Variable, VariableInfo

        op, c = self._op, self._c
        info = VariableInfo()
        info.data_shape = self._ov.PartialShape([-1, c.kv_heads, -1, c.head_dim])
        info.data_type, info.variable_id = self._ov.Type.f32, name
        state = Variable(info)
        batch = op.gather(op.shape_of(x), self._ints([0]), self._ints(0))
        shape = [batch, *(self._ints([number]) for number in (c.kv_heads, 0, c.head_dim))]
        nothing = op.broadcast(self._floats(0.0), op.concat(shape, 0))
        before = op.gather(op.read_value(nothing, state), beam, self._ints(0))
        whole = op.concat([before, new], 2)
        self._sinks.append(op.assign(whole, state))
        return whole

    def _repeated(self, x: Any) -> Any:
        """Keys or values once for each query head."""
        op, c = self._op, self._c
        groups = self._ints([1, 1, c.heads // c.kv_heads, 1, 1])
        spread = op.broadcast(op.unsqueeze(x, self._ints(2)), groups, None, "BIDIRECTIONAL")
        return op.reshape(spread, self._ints([0, c.heads, -1, c.head_dim]), True)

    def _norm(self, x: Any, weight: Tensor) -> Any:
        op = self._op
        square = op.reduce_mean(op.power(x, self._floats(2.0)), self._ints([-1]), True)
        root = op.sqrt(op.add(square, self._floats(self._c.norm_eps)))
        normed = op.multiply(x, op.divide(self._floats(1.0), root))
        return op.multiply(normed, op.constant(weight.float().numpy().reshape(1, 1, -1)))

    def _product(self, x: Any, weight: Tensor) -> Any:
        return self._op.matmul(x, self._weight(weight), False, True)

    def _weight(self, value: Tensor) -> Any:
        """A matrix in the precision of the run."""
        if self._dtype is not torch.bfloat16:
            return self._op.constant(value.float().contiguous().numpy())
        held = self._ov.Tensor(self._ov.Type.bf16, [*value.shape])
        bits = value.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
        held.data.view(np.int16)[:] = bits
        return self._op.convert(self._op.constant(held), "f32")

    def _ints(self, value: Any) -> Any:
        return self._op.constant(np.array(value, dtype=np.int64))

    def _floats(self, value: float) -> Any:
        return self._op.constant(np.float32(value))
