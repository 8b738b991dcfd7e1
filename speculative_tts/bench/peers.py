"""Others on the same weights: transformers, the public baseline, and what else runs on a CPU."""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.bench.engine import Decode, drafts
from speculative_tts.bench.llama_cpp import LlamaCpp
from speculative_tts.bench.openvino import OpenVino
from speculative_tts.bench.sizes import Size, Weights
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.training.checkpoint import CONFIG, build_model, read_checkpoint

MODULES = {"llama.cpp": "llama_cpp", "OpenVINO": "openvino"}
USUAL = 3  # tokens that transformers' draft makes a round where ours seeks its best
GENERATE, ASSISTED = "transformers generate", "transformers assisted"


def of_checkpoints(config: BenchConfig, engine: Engine) -> dict[str, Decode]:
    """Plain and assisted generation of a target and its draft; none without a draft.

    Assisted with the lookahead that is asked for. ValueError for what transformers cannot load.
    """
    if not drafts(engine):
        return {}
    target, draft = Path(config.target.path), Path(config.draft.path)
    dtype, device = getattr(torch, config.runtime.dtype.value), engine.target.device
    try:
        peer = Transformers(_load(target, dtype, device), _load(draft, dtype, device), device)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"transformers cannot load {target} or {draft}; give transformers=false"
        ) from error
    lookahead = USUAL if config.seeks_lookahead else config.drafted
    return peer.systems(engine.sampler, lookahead)


class Transformers:
    """Plain and assisted `generate` of a merged-vocabulary model and its draft, batch 1."""

    def __init__(self, target: Any, draft: Any, device: torch.device) -> None:
        self.target, self._draft, self._device = target, draft, device
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0

    def systems(self, sampler: Sampler, lookahead: int) -> dict[str, Decode]:
        """Both."""
        return {
            GENERATE: lambda prompt: self.seconds(prompt.ids, prompt.tokens, sampler, None),
            ASSISTED: lambda prompt: self.seconds(prompt.ids, prompt.tokens, sampler, lookahead),
        }

    @torch.inference_mode()
    def seconds(
        self, prompt: list[int], tokens: int, sampler: Sampler, lookahead: int | None
    ) -> float:
        """Seconds to continue prompt ids by `tokens` tokens; assisted if lookahead is given."""
        ids: Tensor = torch.tensor([prompt], device=self._device)
        assistant = {}
        if lookahead is not None:
            self._draft.generation_config.num_assistant_tokens = lookahead
            assistant = {"assistant_model": self._draft}
        greedy = sampler.temperature == 0
        shape = (
            {}
            if greedy
            else {
                "temperature": sampler.temperature,
                "top_k": sampler.top_k,
                "top_p": sampler.top_p,
            }
        )
        begin = time.perf_counter()
        out = self.target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=not greedy,
            eos_token_id=None,
            pad_token_id=0,
            **shape,
            **assistant,
        )
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elapsed = time.perf_counter() - begin
        assert out.shape[1] == len(prompt) + tokens, "generate stopped early"
        return elapsed


def transformers_of(
    size: Size, weights: Weights, dtype: torch.dtype, device: torch.device
) -> Transformers:
    """The same of random weights."""
    both = (weights.checkpoint(), weights.some(size.draft).checkpoint())
    target, draft = (build_model(*one, dtype, device).train(mode=False) for one in both)
    return Transformers(target, draft, device)


def others(
    config: BenchConfig, size: Size, weights: Weights, device: torch.device
) -> tuple[dict[str, Decode], dict[str, str]]:
    """Who else runs these weights here; and of each that is not installed how to get it."""
    dtype = getattr(torch, config.runtime.dtype.value)
    systems: dict[str, Decode] = {}
    missing: dict[str, str] = {}
    if config.transformers:
        peer = transformers_of(size, weights, dtype, device)
        systems |= peer.systems(size.sampler, config.drafted)
    if config.peers and device.type == "cpu":
        context, threads = size.length + config.tokens + 1, config.runtime.threads
        made: dict[str, Callable[[], LlamaCpp | OpenVino]] = {
            "llama.cpp": lambda: LlamaCpp(weights, dtype, context, threads),
            "OpenVINO": lambda: OpenVino(weights, dtype, threads),
        }
        for name, make in made.items():
            if name in installed():
                systems[name] = _continues(make(), size.sampler)
            else:
                missing[name] = "pip install 'speculative_tts[peers]'"
    return systems, missing


def installed() -> list[str]:
    """Those beside transformers that are here; each keeps weights of its own."""
    return [name for name, module in MODULES.items() if find_spec(module) is not None]


def _continues(peer: LlamaCpp | OpenVino, sampler: Sampler) -> Decode:
    return lambda prompt: peer.seconds(prompt.ids, prompt.tokens, sampler)


def _load(folder: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """The checkpoint as transformers' own model; its weights may be packed."""
    config, tensors = read_checkpoint(folder)
    if not (folder / CONFIG).is_file() or "model_type" not in config:
        raise ValueError(f"{folder} is not of transformers' making")
    return build_model(config, tensors, dtype, device).train(mode=False)
