"""A draft for other libraries: transformers' assistant_model, vLLM's draft_model, and its card.

The folder is as `save_pretrained` writes one, with the whole vocabulary: where a head has rows of
speech alone the others are filled in, and are never said. A head with a bias, CosyVoice 2's, needs
a class of its own (`integrations.biased_head`), which vLLM does not have. The library `speculators`
has no type for a draft that is a model by itself (its types all read the target's states): what its
format says of any draft is in speculators.json, and vLLM's setting in vllm.json.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from speculative_tts.decoding.parts import check_pair
from speculative_tts.decoding.settings import Settings, with_defaults
from speculative_tts.files import write_atomic
from speculative_tts.integrations import biased_head
from speculative_tts.models import cosyvoice, heads, recurrent
from speculative_tts.models.cosyvoice_export import spread
from speculative_tts.models.cosyvoice_files import is_merged, is_official, merged_ids
from speculative_tts.models.families import load_layout
from speculative_tts.models.loading import State, read_state
from speculative_tts.models.speech_lm import Layout
from speculative_tts.records import write_json
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import SamplingConfig
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.checkpoint import CONFIG, WEIGHTS, copy_companions, read_checkpoint
from speculative_tts.training.inherit import HEAD
from speculative_tts.typed import read_json

BIAS = "lm_head.bias"
CLASSES = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
CODE = "modeling_biased_head"
PARTS = {heads.DESCRIPTION: "heads", recurrent.DESCRIPTION: "a recurrent layer"}
VLLM, SPECULATORS = "vllm.json", "speculators.json"


@dataclass(frozen=True)
class Folder:
    """A checkpoint as other libraries have it: its vocabulary in the order of its own tokenizer."""

    path: Path
    layout: Layout

    @classmethod
    def of(cls, checkpoint: CheckpointConfig) -> "Folder":
        """ValueError for what is no model of a shape that these libraries run."""
        path = Path(checkpoint.path)
        for file, part in PARTS.items():
            if (path / file).is_file():
                raise ValueError(
                    f"{path} holds {part}, no model without its target; "
                    "give a draft that sst-train-draft made"
                )
        folder = cls(path, load_layout(checkpoint))
        kind = folder.config.get("model_type")
        if kind not in CLASSES:
            raise ValueError(
                f"{path} is of model_type {kind}, for which transformers and vLLM have no class; "
                f"those of {' and '.join(CLASSES)} can be exported"
            )
        return folder

    @cached_property
    def config(self) -> dict[str, Any]:
        """Its config.json."""
        if is_official(self.path):
            return cosyvoice.read_checkpoint(self.path).config
        return read_json(self.path / CONFIG)

    @property
    def size(self) -> int:
        """Rows of the vocabulary."""
        return int(self.config["vocab_size"])

    @cached_property
    def rows(self) -> Tensor:
        """Row of each speech id: int64 [speech_vocab_size]."""
        if is_merged(self.path):
            return merged_ids(self.path)[1][: self.layout.speech_vocab_size]
        return self.layout.order(text_rows=False)

    def tensors(self) -> tuple[dict[str, Any], State]:
        """config.json and weights with the whole head."""
        if is_merged(self.path):
            return self.config, read_state(self.path)
        config, state = read_checkpoint(self.path)
        head, bias = state.get(HEAD), state.get(BIAS)
        if head is not None and len(head) < self.size:
            state[HEAD] = spread(head, self.rows, self.size, 0.0)
        if bias is not None and len(bias) < self.size:
            state[BIAS] = spread(bias, self.rows, self.size, float("-inf"))
        return config, state


@dataclass(frozen=True)
class Exported:
    """What was written: the card's facts."""

    config: dict[str, Any]
    parameters: int
    dtypes: list[str]
    rows: list[int]
    sampler: dict[str, float]  # the target's
    files: list[Path]

    @property
    def biased(self) -> bool:
        """Does it need a class of its own?"""
        return "auto_map" in self.config


def export(config: ExportConfig) -> Exported:
    """Write the draft of `config` into `config.out`, all but its card; config.json comes last.

    ValueError for a draft that does not fit the libraries or its target.
    """
    out, like = Path(config.out), config.target
    draft = Folder.of(replace(config.draft, rows=like.rows, instruction=like.instruction))
    target = Folder.of(like)
    settings = with_defaults(SamplingConfig(), target.layout.sampling)
    check_pair(target.layout, draft.layout, settings)
    _check_rows(target, draft)
    stored, state = draft.tensors()
    made = configuration(stored, biased=BIAS in state)
    copy_companions(draft.path, out)
    files = {"generation_config.json": generation(draft, settings, config.lookahead)}
    for name in (VLLM, SPECULATORS):  # of an earlier export, perhaps of a draft of another shape
        (out / name).unlink(missing_ok=True)
    if BIAS in state:
        write_atomic(out / f"{CODE}.py", Path(biased_head.__file__).read_bytes())
    elif draft.path != target.path:
        files[VLLM] = vllm(config)
        files[SPECULATORS] = speculators(config, target)
    own = {name: tensor.contiguous() for name, tensor in state.items()}
    write_atomic(out / WEIGHTS, save(own, metadata={"format": "pt"}))
    files[CONFIG] = made
    for name, content in files.items():
        write_json(out / name, content)
    return Exported(
        made,
        sum(tensor.numel() for tensor in own.values()),
        sorted({str(tensor.dtype).removeprefix("torch.") for tensor in own.values()}),
        draft.rows.tolist(),
        dict(target.layout.sampling),
        [out / WEIGHTS, *(out / name for name in files)],
    )


def _check_rows(target: Folder, draft: Folder) -> None:
    """Both libraries take a token's row in the one for its row in the other."""
    if target.size != draft.size or not torch.equal(target.rows, draft.rows):
        raise ValueError(
            f"vocabularies of target {target.path} ({target.size} rows) and draft {draft.path} "
            f"({draft.size}) are not laid out alike; give both as they were trained together"
        )


def configuration(stored: dict[str, Any], *, biased: bool) -> dict[str, Any]:
    """config.json of the folder. ValueError for a bias that no class has."""
    kind = stored["model_type"]
    config = {k: v for k, v in stored.items() if k not in ("_name_or_path", "transformers_version")}
    if not biased:
        return config | {"architectures": [CLASSES[kind]]}
    if kind != "qwen2":
        raise ValueError(f"the head of this {kind} has a bias, which {CLASSES[kind]} has not")
    own, settings = biased_head.BiasedQwen2ForCausalLM, biased_head.BiasedQwen2Config
    code = {"AutoConfig": settings, "AutoModelForCausalLM": own}
    return config | {
        "model_type": settings.model_type,
        "architectures": [own.__name__],
        "auto_map": {name: f"{CODE}.{one.__name__}" for name, one in code.items()},
    }


def generation(draft: Folder, settings: Settings, lookahead: int) -> dict[str, Any]:
    """generation_config.json: the target's sampler as far as there are names for it.

    Every round drafts `lookahead` tokens, as ours do; transformers would look at the draft's
    confidence otherwise.
    """
    stops = draft.rows[list(draft.layout.stop_ids)].tolist()
    sampler = {"do_sample": settings.temperature > 0}
    if sampler["do_sample"]:
        sampler |= {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p")}
    silent = torch.ones(draft.size, dtype=torch.bool)
    silent[draft.rows] = False
    barred = [] if settings.text_rows else silent.nonzero()[:, 0].tolist()
    return {
        "eos_token_id": stops,
        "pad_token_id": stops[0],
        **sampler,
        **({"suppress_tokens": barred} if barred else {}),
        "num_assistant_tokens": lookahead,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


def vllm(config: ExportConfig) -> dict[str, Any]:
    """What `vllm serve --speculative-config` takes."""
    lookahead = config.lookahead
    return {"method": "draft_model", "model": config.out, "num_speculative_tokens": lookahead}


def speculators(config: ExportConfig, target: Folder) -> dict[str, Any]:
    """A `SpeculatorsConfig` of the library."""
    proposal = {"proposal_type": "greedy", "speculative_tokens": config.lookahead}
    verifier = {
        "name_or_path": config.verifier or config.target.name,
        "architectures": [CLASSES[target.config["model_type"]]],
    }
    return {
        "algorithm": "draft_model",
        "proposal_methods": [proposal],
        "default_proposal_method": "greedy",
        "verifier": verifier,
    }
