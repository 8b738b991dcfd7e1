"""Time transformers on the same weights."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.bench.engine import Decode, drafts
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.training.checkpoint import CONFIG, build_model, read_checkpoint

USUAL = 3  # tokens that transformers' draft makes a round where ours seeks its best
GENERATE, ASSISTED = "transformers generate", "transformers assisted"


def of_checkpoints(config: BenchConfig, engine: Engine) -> dict[str, Decode]:
    """Return plain and assisted generation of a target and its draft; nothing without a draft.

    Assisted generation drafts as many tokens a round as asked for. Raises ValueError for a
    checkpoint that transformers cannot load.
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
    lookahead = USUAL if config.seeks_lookahead else int(config.lookahead)
    return peer.systems(engine.sampler, lookahead)


class Transformers:
    """Plain and assisted `generate` of a merged-vocabulary model and its draft, batch 1."""

    def __init__(self, target: Any, draft: Any, device: torch.device) -> None:
        self.target, self._draft, self._device = target, draft, device
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0

    def systems(self, sampler: Sampler, lookahead: int) -> dict[str, Decode]:
        """Return both by name."""
        return {
            GENERATE: lambda prompt: self.seconds(prompt.ids, prompt.tokens, sampler, None),
            ASSISTED: lambda prompt: self.seconds(prompt.ids, prompt.tokens, sampler, lookahead),
        }

    @torch.inference_mode()
    def seconds(
        self, prompt: list[int], tokens: int, sampler: Sampler, lookahead: int | None
    ) -> float:
        """Return the seconds to continue a prompt by `tokens` tokens; assisted with a lookahead."""
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


def _load(folder: Path, dtype: torch.dtype, device: torch.device) -> Any:
    """Load a checkpoint, whose weights may be packed, as transformers' own model."""
    config, tensors = read_checkpoint(folder)
    if not (folder / CONFIG).is_file() or "model_type" not in config:
        raise ValueError(f"{folder} is not of transformers' making")
    return build_model(config, tensors, dtype, device).train(mode=False)
