"""Write the texts of a model card: how a draft or a recurrent layer was made and is used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.assets import configuration, configurations, named
from speculative_tts.models.recurrent import DESCRIPTION
from speculative_tts.reporting.checkpoints import INHERITANCE, LOSSES
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.export import CLASSES, SPECULATORS, VLLM, Exported
from speculative_tts.typed import read_json

UNRECORDED = "Training: not recorded."
USE = """## With transformers

```python
from transformers import AutoModelForCausalLM

target = AutoModelForCausalLM.from_pretrained({verifier!r}{trust})
draft = AutoModelForCausalLM.from_pretrained({folder!r}{trust})
settings = draft.generation_config  # the target's sampler, and how much is drafted
tokens = target.generate(
    prompt, assistant_model=draft, generation_config=settings, max_new_tokens=1000
)
```
"""
SERVE = """
## With vLLM

    vllm serve {verifier} --speculative-config "$(cat {folder}/{file})"

This command was not run here. `{format}` has the same settings in the format of the library speculators, which has no type for a draft that is a model by itself.
"""  # noqa: E501
LAYER_USE = """## With transformers

No `assistant_model`: transformers hands that tokens alone, and this layer reads the target's states, those that the target's head reads, after its final norm.

```python
import torch
from transformers import AutoModel, AutoModelForCausalLM

target = AutoModelForCausalLM.from_pretrained({verifier!r}{trust})
drafter = AutoModel.from_pretrained({folder!r}, trust_remote_code=True, dtype=target.dtype)
with torch.no_grad():
    output = target(prompt, output_hidden_states=True)
newest = output.logits[:, -1].argmax(-1)  # or draw it
states = output.hidden_states[-1][:, -1]  # the states it was drawn from
drafted = drafter.draft(states, newest, {lookahead})  # the likeliest tokens after `newest`
```

`logits, states = drafter(states, newest)` is one step of it, for drawing drafts and verifying them by the distribution that they were drawn from. Embedding and head are the target's, in its vocabulary; rows that are never drawn have a bias of -inf.

## Elsewhere

Neither vLLM nor the library speculators has a type of this shape, h <- h + out silu(inner [h, e]) of a state h and a token's embedding e, so neither runs it. `speculators_config` in config.json is as speculators has it; `speculators_model_type` is not one of theirs.
"""  # noqa: E501


@dataclass(frozen=True)
class Words:
    """Texts of a card for one kind of draft."""

    title: str
    shape: str  # begins a sentence that ends with vocabulary and parameters
    training: list[str]  # how, and on what
    sampler: str  # what of the target's the folder has
    use: str
    tag: str  # for a hub


def draft_words(config: ExportConfig, exported: Exported) -> Words:
    """Return the texts for a draft that is a model by itself."""
    own = config.draft.path == config.target.path
    name = config.target.name
    words = _template_values(config, trust=bool(exported.classes))
    serve = SERVE.format(**words) if any(file.name == VLLM for file in exported.files) else ""
    shape = exported.config
    return Words(
        title=f"{name}, for its drafts" if own else f"{draft_name(config)}, a draft of {name}",
        shape=f"{shape['num_hidden_layers']} layers of {shape['hidden_size']}",
        training=list(describe_inheritance(Path(config.draft.path) / INHERITANCE)),
        sampler="generation_config.json has what transformers has a name for.",
        use=USE.format(**words) + serve,
        tag="draft-model",
    )


def layer_words(config: ExportConfig, exported: Exported) -> Words:
    """Return the texts for a recurrent layer."""
    shape = exported.config
    (target,) = shape["speculators_config"]["verifier"]["architectures"]
    return Words(
        title=f"A recurrent drafter of {config.target.name}",
        shape=(
            f"states of {shape['hidden_size']}, {shape['blocks']} x {shape['width']} units within, "
            "with the target's embedding and head"
        ),
        training=list(_describe_recurrent(Path(config.draft.path) / DESCRIPTION)),
        sampler="The folder does not hold it.",
        use=LAYER_USE.format(**_template_values(config, trust=target not in CLASSES.values())),
        tag="recurrent-drafter",
    )


def draft_name(config: ExportConfig) -> str:
    """Return the configured draft's name; the folder's name if `path` was overridden."""
    name, path = config.draft.name, config.draft.path
    known = configuration(f"draft/{name}").get("path") if name in configurations("draft") else None
    return name if known in (None, named(path)) else Path(path).name


def _template_values(config: ExportConfig, *, trust: bool) -> Mapping[str, Any]:
    """Return the values that fill the placeholders of the texts."""
    return {
        "verifier": config.verifier or config.target.name,
        "folder": config.out,
        "lookahead": config.lookahead,
        "trust": ", trust_remote_code=True" if trust else "",
        "file": VLLM,
        "format": SPECULATORS,
    }


def describe_inheritance(path: Path) -> Iterator[str]:
    """Describe the training recorded in a draft's inheritance.json."""
    if not path.is_file():
        yield UNRECORDED
        return
    record = read_json(path)
    settings = record["settings"]
    yield (
        f"Training: layers {', '.join(map(str, record['layers']))} of {record['target']} "
        f"(SHA-256 {record['target_sha256'][:16]}), {len(record['trained'])} tensors trained for "
        f"{_losses(settings)}, {settings['steps']} steps of {settings['batch_size']} sequences"
        f"{_start(settings)}.{_best_step(record.get('summary', {}))}"
    )
    yield _data(settings)


def _best_step(summary: Mapping[str, Any]) -> str:
    """Name the step whose weights were kept; empty if it is the last one."""
    step = summary.get("best_step")
    if step is None or step == summary.get("steps"):
        return ""
    whose = f"those after step {step}" if step else "the layers as inherited"
    return f" The weights are {whose}, the best on the dev list."


def _describe_recurrent(path: Path) -> Iterator[str]:
    """Describe the training recorded in recurrent.json; a layer made by hand records none."""
    record = read_json(path)
    settings = record["about"].get("settings")
    if settings is None:
        yield UNRECORDED
        return
    weighed = ", each as often as own drafts come to it" if settings.get("own_drafts") else ""
    yield (
        f"Training: on the frozen states of {settings['target']} "
        f"(SHA-256 {record['target'][:16]}), "
        f"{settings['n'] - 1} tokens ahead{weighed}, for {_losses(settings)}, "
        f"{settings['steps']} steps of {settings['batch_size']} positions{_start(settings)}."
        f"{_mean(record['about'].get('mean_of', []))}"
    )
    yield _data(settings)


def _start(settings: Mapping[str, Any]) -> str:
    """Name the earlier training that this one started from; empty if there is none."""
    init = settings.get("init")
    return f", begun with an earlier one (SHA-256 {init[:16]})" if init else ""


def _mean(sources: Sequence[str]) -> str:
    """Name the layers whose weights were averaged; empty if there are none."""
    of = " and ".join(one[:16] for one in sources)
    return f" The weights are the mean of those of SHA-256 {of}." if of else ""


def _data(settings: Mapping[str, Any]) -> str:
    """Name the training data; settings older than `codes_from` mean recorded codes."""
    own = f"the target's own tokens in `{settings.get('own')}`"
    recorded = f"the codes in `{settings['codes']}`"
    sources = {"recorded": recorded, "target": own, "mix": f"{recorded} and {own}"}

    return f"Data: {sources[settings.get('codes_from', 'recorded')]}."


def _losses(settings: Mapping[str, Any]) -> str:
    """Name the losses that had a weight."""
    weights: Mapping[str, float] = settings["losses"]
    return " and ".join(LOSSES[name] for name, weight in weights.items() if weight)
