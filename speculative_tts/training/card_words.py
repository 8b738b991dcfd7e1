"""What a card says of a draft, or of a recurrent layer, beside its figures: how made, how used."""

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

Not run where this was written. `{format}` says the same as the library speculators has it, which knows no type of draft that is a model by itself.
"""  # noqa: E501
LAYER_USE = """## With transformers

No `assistant_model`: transformers hands that tokens alone, and this layer reads the target's states, those that the target's head reads, behind its final norm.

```python
import torch
from transformers import AutoModel, AutoModelForCausalLM

target = AutoModelForCausalLM.from_pretrained({verifier!r}{trust})
drafter = AutoModel.from_pretrained({folder!r}, trust_remote_code=True, dtype=target.dtype)
with torch.no_grad():
    said = target(prompt, output_hidden_states=True)
newest = said.logits[:, -1].argmax(-1)  # or as you draw it
states = said.hidden_states[-1][:, -1]  # which it was drawn from
drafted = drafter.draft(states, newest, {lookahead})  # the likeliest tokens behind `newest`
```

`logits, states = drafter(states, newest)` is one step of it, for who draws drafts and verifies them by the law that they were drawn from. Embedding and head are the target's, in its vocabulary; rows that are never said have a bias of -inf.

## Elsewhere

Neither vLLM nor the library speculators has a type of this shape, h <- h + out silu(inner [h, e]) of a state h and a token's embedding e, so neither runs it. `speculators_config` in config.json is as speculators has it; `speculators_model_type` is not one of theirs.
"""  # noqa: E501


@dataclass(frozen=True)
class Words:
    """Texts of one kind of draft."""

    title: str
    shape: str  # begins a sentence that ends with vocabulary and parameters
    training: list[str]  # how, and on what
    sampler: str  # what of the target's the folder has
    use: str
    tag: str  # for a hub


def draft_words(config: ExportConfig, made: Exported) -> Words:
    """Of a model by itself."""
    own = config.draft.path == config.target.path
    name = config.target.name
    words = _names(config, trust=bool(made.classes))
    serve = SERVE.format(**words) if any(file.name == VLLM for file in made.files) else ""
    shape = made.config
    return Words(
        title=f"{name}, for its drafts" if own else f"{_called(config)}, a draft of {name}",
        shape=f"{shape['num_hidden_layers']} layers of {shape['hidden_size']}",
        training=list(_inherited(Path(config.draft.path) / INHERITANCE)),
        sampler="generation_config.json has what transformers has a name for.",
        use=USE.format(**words) + serve,
        tag="draft-model",
    )


def layer_words(config: ExportConfig, made: Exported) -> Words:
    """Of a recurrent layer."""
    shape = made.config
    (target,) = shape["speculators_config"]["verifier"]["architectures"]
    return Words(
        title=f"A recurrent drafter of {config.target.name}",
        shape=(
            f"states of {shape['hidden_size']}, {shape['blocks']} x {shape['width']} units within, "
            "with the target's embedding and head"
        ),
        training=list(_on_states(Path(config.draft.path) / DESCRIPTION)),
        sampler="The folder does not hold it.",
        use=LAYER_USE.format(**_names(config, trust=target not in CLASSES.values())),
        tag="recurrent-drafter",
    )


def _called(config: ExportConfig) -> str:
    """The draft's name, or of another folder than its configuration's that of the folder."""
    name, path = config.draft.name, config.draft.path
    there = configuration(f"draft/{name}").get("path") if name in configurations("draft") else None
    return name if there in (None, named(path)) else Path(path).name


def _names(config: ExportConfig, *, trust: bool) -> Mapping[str, Any]:
    """What the texts are filled with."""
    return {
        "verifier": config.verifier or config.target.name,
        "folder": config.out,
        "lookahead": config.lookahead,
        "trust": ", trust_remote_code=True" if trust else "",
        "file": VLLM,
        "format": SPECULATORS,
    }


def _inherited(path: Path) -> Iterator[str]:
    """What inheritance.json says."""
    if not path.is_file():
        yield UNRECORDED
        return
    made = read_json(path)
    settings = made["settings"]
    yield (
        f"Training: layers {', '.join(map(str, made['layers']))} of {made['target']} "
        f"(SHA-256 {made['target_sha256'][:16]}), {len(made['trained'])} tensors trained for "
        f"{_losses(settings)}, {settings['steps']} steps of {settings['batch_size']} sequences"
        f"{_begun(settings)}.{_best(made.get('summary', {}))}"
    )
    yield _data(settings)


def _best(summary: Mapping[str, Any]) -> str:
    """Whose weights they are, where not the last step's."""
    step = summary.get("best_step")
    if step is None or step == summary.get("steps"):
        return ""
    whose = f"those after step {step}" if step else "the layers as inherited"
    return f" The weights are {whose}, the best on the dev list."


def _on_states(path: Path) -> Iterator[str]:
    """What recurrent.json says, of which a layer made by hand has no settings."""
    made = read_json(path)
    settings = made["about"].get("settings")
    if settings is None:
        yield UNRECORDED
        return
    weighed = ", each as often as own drafts come to it" if settings.get("own_drafts") else ""
    yield (
        f"Training: on the frozen states of {settings['target']} (SHA-256 {made['target'][:16]}), "
        f"{settings['n'] - 1} tokens ahead{weighed}, for {_losses(settings)}, "
        f"{settings['steps']} steps of {settings['batch_size']} positions{_begun(settings)}."
        f"{_mean(made['about'].get('mean_of', []))}"
    )
    yield _data(settings)


def _begun(settings: Mapping[str, Any]) -> str:
    """With what, where not with the target's own weights or new ones."""
    init = settings.get("init")
    return f", begun with an earlier one (SHA-256 {init[:16]})" if init else ""


def _mean(sources: Sequence[str]) -> str:
    """Whose mean the weights are."""
    of = " and ".join(one[:16] for one in sources)
    return f" The weights are the mean of those of SHA-256 {of}." if of else ""


def _data(settings: Mapping[str, Any]) -> str:
    """Whose tokens were learnt from; settings of before there was a choice name none."""
    own = f"the target's own tokens in `{settings.get('own')}`"
    recorded = f"the codes in `{settings['codes']}`"
    said = {"recorded": recorded, "target": own, "mix": f"{recorded} and {own}"}
    return f"Data: {said[settings.get('codes_from', 'recorded')]}."


def _losses(settings: Mapping[str, Any]) -> str:
    """What was learnt."""
    weights: Mapping[str, float] = settings["losses"]
    return " and ".join(LOSSES[name] for name, weight in weights.items() if weight)
