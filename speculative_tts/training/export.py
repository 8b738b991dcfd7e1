"""Export a draft for other libraries: transformers' assistant_model, vLLM's draft_model.

The folder looks as `save_pretrained` writes it, with the whole vocabulary: where a head has speech
rows only the others are filled in and never drawn. A head with a bias, CosyVoice 2's, needs a class
of its own (`integrations.biased_head`), which vLLM does not have. The library `speculators` has no
type for a draft that is a model by itself (its types all read the target's states); the fields that
its format gives any draft are in speculators.json, and vLLM's setting in vllm.json. A recurrent
layer is exported by `training.export_layer`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.decoding.builder import check_pair
from speculative_tts.decoding.sampling.settings import completed
from speculative_tts.files import write_atomic
from speculative_tts.integrations import biased_head
from speculative_tts.models import heads
from speculative_tts.models.decoder.loading import State, read_config, read_state
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.cosyvoice_export import spread
from speculative_tts.models.families.cosyvoice_files import is_merged, is_official, merged_ids
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.speech_lm import Layout
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import SamplingConfig
from speculative_tts.schema.export import ExportConfig
from speculative_tts.state_dicts import write_tensors
from speculative_tts.training.checkpoint import CONFIG, WEIGHTS, copy_companions, read_checkpoint
from speculative_tts.training.inherit import HEAD
from speculative_tts.typed import write_json

BIAS = "lm_head.bias"
CLASSES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}
CODE = "modeling_biased_head"
VLLM, SPECULATORS = "vllm.json", "speculators.json"
GENERATION = "generation_config.json"


@dataclass(frozen=True)
class Folder:
    """A checkpoint as other libraries read it: its vocabulary in its own tokenizer's order."""

    path: Path
    layout: Layout

    @classmethod
    def of(cls, checkpoint: CheckpointConfig) -> "Folder":
        """Open a checkpoint; raise ValueError for a shape that these libraries cannot run."""
        path = Path(checkpoint.path)
        if (path / heads.DESCRIPTION).is_file():
            raise ValueError(
                f"{path} holds heads, no model without its target; "
                "give a draft that sst-train-draft made, or a recurrent layer"
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
        """The checkpoint's config.json."""
        if is_official(self.path):
            return cosyvoice.read_checkpoint(self.path).config
        return read_config(self.path)

    @property
    def size(self) -> int:
        """Number of vocabulary rows."""
        return int(self.config["vocab_size"])

    @cached_property
    def rows(self) -> Tensor:
        """Vocabulary row of each speech id: int64 [speech_vocab_size]."""
        if is_merged(self.path):
            return merged_ids(self.path)[1][: self.layout.speech_vocab_size]
        return self.layout.order(text_rows=False)

    def silent(self, settings: SamplingConfig) -> Tensor:
        """Mark the rows that are never drawn: bool [size]."""
        silent = torch.full((self.size,), not settings.text_rows)
        silent[self.rows] = False
        return silent

    def tensors(self) -> tuple[dict[str, Any], State]:
        """Return config.json and the weights, with a row of the head for every vocabulary row."""
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
    """Facts about an exported folder, for its card."""

    config: dict[str, Any]
    parameters: int
    dtypes: list[str]
    rows: list[int]
    sampler: dict[str, float]  # the target's
    files: list[Path]

    @property
    def classes(self) -> set[str]:
        """Names of transformers' Auto classes whose code lies in the folder."""
        return {*self.config.get("auto_map", {})}

    @property
    def layer(self) -> bool:
        """True for a recurrent layer, which is no model by itself."""
        return "AutoModel" in self.classes

    @property
    def unserved(self) -> str | None:
        """Reason why vLLM cannot serve it; None if it can."""
        if self.layer:
            return "vLLM has no class of a recurrent layer"
        return "the head has a bias, for which vLLM has no class" if self.classes else None


def export(config: ExportConfig) -> Exported:
    """Write the draft of `config`, without its card, into `config.out`; config.json comes last.

    Raise ValueError for a draft that does not fit the libraries or its target.
    """
    out, like = Path(config.out), config.target
    draft = Folder.of(replace(config.draft, rows=like.rows, instruction=like.instruction))
    target = Folder.of(like)
    settings = completed(SamplingConfig(), target.layout.sampling)
    check_pair(target.layout, draft.layout, settings)
    _check_rows(target, draft)
    stored, state = draft.tensors()
    own_config = configuration(stored, biased=BIAS in state)
    copy_companions(draft.path, out)
    files = {GENERATION: generation(draft, settings, config.lookahead)}
    forget(out, CONFIG, VLLM, SPECULATORS)
    if BIAS in state:
        write_atomic(out / f"{CODE}.py", Path(biased_head.__file__).read_bytes())
    elif draft.path != target.path:
        files[VLLM] = vllm(config)
        files[SPECULATORS] = speculators(config, [CLASSES[target.config["model_type"]]])
    return write(out, state, files | {CONFIG: own_config}, target)


def forget(out: Path, *names: str) -> None:
    """Remove files of an earlier export, perhaps of a draft of another shape.

    Without config.json the folder is no model until everything is written.
    """
    for name in names:
        (out / name).unlink(missing_ok=True)


def write(out: Path, state: State, files: dict[str, dict[str, Any]], target: Folder) -> Exported:
    """Write weights, then `files` in their order; the last is config.json."""
    own = {name: tensor.contiguous() for name, tensor in state.items()}
    write_tensors(out / WEIGHTS, own)
    for name, content in files.items():
        write_json(out / name, content)
    return Exported(
        files[CONFIG],
        sum(tensor.numel() for tensor in own.values()),
        sorted({str(tensor.dtype).removeprefix("torch.") for tensor in own.values()}),
        target.rows.tolist(),
        dict(target.layout.sampling),
        [out / WEIGHTS, *(out / name for name in files)],
    )


def _check_rows(target: Folder, draft: Folder) -> None:
    """Raise ValueError unless every token has the same row in both: the libraries assume it."""
    if target.size != draft.size or not torch.equal(target.rows, draft.rows):
        raise ValueError(
            f"vocabularies of target {target.path} ({target.size} rows) and draft {draft.path} "
            f"({draft.size}) are not laid out alike; give both as they were trained together"
        )


def configuration(stored: dict[str, Any], *, biased: bool) -> dict[str, Any]:
    """Return the folder's config.json; raise ValueError for a bias that no class supports."""
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


def generation(draft: Folder, settings: SamplingConfig, lookahead: int) -> dict[str, Any]:
    """Return generation_config.json: the target's sampler as far as transformers has names for it.

    Every round drafts `lookahead` tokens, as ours do; by default transformers adapts to the draft's
    confidence.
    """
    stops = draft.rows[list(draft.layout.stop_ids)].tolist()
    sampler: dict[str, Any] = {"do_sample": settings.temperature != 0}
    if sampler["do_sample"]:
        sampler |= {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p")}
    barred = draft.silent(settings).nonzero()[:, 0].tolist()
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
    """Return the JSON object that `vllm serve --speculative-config` reads."""
    lookahead = config.lookahead
    return {"method": "draft_model", "model": config.out, "num_speculative_tokens": lookahead}


def speculators(
    config: ExportConfig, architectures: list[str], algorithm: str = "draft_model"
) -> dict[str, Any]:
    """Return a `SpeculatorsConfig` of that library; `architectures` are the target's."""
    proposal = {"proposal_type": "greedy", "speculative_tokens": config.lookahead}
    verifier = {
        "name_or_path": config.verifier or config.target.name,
        "architectures": architectures,
    }
    return {
        "algorithm": algorithm,
        "proposal_methods": [proposal],
        "default_proposal_method": "greedy",
        "verifier": verifier,
    }
