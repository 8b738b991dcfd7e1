"""Inherit a draft from layers of its target (SSD, arXiv 2505.15380, section 2.2).

The draft has the target's architecture with fewer layers: copies of the chosen ones, and of
everything that is not a layer (embeddings, final norm, head). Pure functions on a configuration and
a state dict; `training.checkpoint` reads and writes the files.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from speculative_tts.schema.train import TrainDraftConfig

FAMILIES = ("qwen2", "qwen3", "llama")
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_LAYER = re.compile(r"^(model\.layers\.)(\d+)(\..+)$")


def check_layers(layers: Sequence[int], n_layers: int) -> list[int]:
    """Return the layers; raise ValueError unless distinct, ascending and in [0, n_layers)."""
    if not layers:
        raise ValueError("layers [] names no layer; choose at least one layer of the target")
    for layer in layers:
        if not 0 <= layer < n_layers:
            raise ValueError(
                f"layer {layer} is not in the target, its layers are 0 to {n_layers - 1}; "
                "give layers=[0,...]"
            )
    if len(set(layers)) < len(layers):
        raise ValueError(f"layers {list(layers)} name a layer twice; name each at most once")
    if sorted(layers) != list(layers):
        raise ValueError(f"layers {list(layers)} are out of order; name them as {sorted(layers)}")
    return list(layers)


def inherit_config(
    config: Mapping[str, Any], layers: Sequence[int], *, untie: bool = False
) -> dict[str, Any]:
    """Return config.json of a draft with the target's `layers`; `untie` gives it its own head."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ValueError(
            f"model_type {family!r} cannot be inherited; supported are {', '.join(FAMILIES)}"
        )
    n_layers = int(config["num_hidden_layers"])
    layers = check_layers(layers, n_layers)
    draft = {
        key: value
        for key, value in config.items()
        if key not in ("_name_or_path", "transformers_version")
    }
    draft["num_hidden_layers"] = len(layers)
    types = config.get("layer_types") or _implied_layer_types(config, n_layers)
    if types:
        draft["layer_types"] = [types[layer] for layer in layers]
    if untie:
        draft["tie_word_embeddings"] = False
    return draft


def _implied_layer_types(config: Mapping[str, Any], n_layers: int) -> list[str] | None:
    """Return layer types of older Qwen configurations: windows from `max_window_layers` on."""
    if not config.get("use_sliding_window"):
        return None
    first = int(config.get("max_window_layers", n_layers))
    return [
        "sliding_attention" if layer >= first else "full_attention" for layer in range(n_layers)
    ]


def draft_names(names: Iterable[str], layers: Sequence[int]) -> dict[str, str]:
    """Map the draft's tensor names to the target's; layers not chosen are left out."""
    position = {layer: index for index, layer in enumerate(layers)}
    inherited = {}
    for name in names:
        match = _LAYER.match(name)
        if match is None:
            inherited[name] = name
        elif int(match[2]) in position:
            inherited[f"{match[1]}{position[int(match[2])]}{match[3]}"] = name
    return inherited


def inherit_tensors(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    layers: Sequence[int],
    *,
    untie: bool = False,
) -> dict[str, Tensor]:
    """Return the draft's state dict: the target's tensors unchanged, layers renumbered.

    A tied target's head is its embedding matrix and is not stored again, unless `untie` gives the
    draft a copy of it.
    """
    draft = {name: tensors[source] for name, source in draft_names(tensors, layers).items()}
    if is_tied(config):
        draft.pop(HEAD, None)
        if untie:
            draft[HEAD] = draft[EMBEDDING].clone()
    return draft


def is_tied(config: Mapping[str, Any]) -> bool:
    """Return True if embeddings and head share one matrix; all families default to False."""
    return bool(config.get("tie_word_embeddings", False))


def trained_parameters(
    names: Iterable[str], *, train_layers: int, train_head: bool, train_embeddings: bool
) -> list[str]:
    """Choose the trained parameters: the first `train_layers` layers, the head, the embeddings.

    The paper trains the first two of eight layers and the head; embeddings, upper layers and final
    norm are frozen. Raise ValueError when nothing would be trained or there are fewer layers than
    `train_layers`.
    """
    names = list(names)
    n_layers = len({match[2] for name in names if (match := _LAYER.match(name))})
    if not 0 <= train_layers <= n_layers:
        raise ValueError(
            f"train_layers {train_layers} is not in 0 to {n_layers}, the number of inherited layers"
        )

    def is_trained(name: str) -> bool:
        if match := _LAYER.match(name):
            return int(match[2]) < train_layers
        return (train_head and name.startswith("lm_head.")) or (
            train_embeddings and name == EMBEDDING
        )

    trained = [name for name in names if is_trained(name)]
    if not trained:
        raise ValueError(
            "nothing is trained; set train_layers above 0, train_head or train_embeddings"
        )
    return trained


@dataclass(frozen=True)
class Inherited:
    """The draft before training, and the names of the parameters that will be trained."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    trained: list[str]
    untied: bool


def inherit(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], policy: TrainDraftConfig
) -> Inherited:
    """Pick the draft's layers and the parameters to train.

    A tied target gets an untied draft when its head is trained and its embeddings are frozen, the
    paper's policy.
    """
    untie = is_tied(config) and policy.train_head and not policy.train_embeddings
    draft = inherit_config(config, policy.layers, untie=untie)
    own = inherit_tensors(config, tensors, policy.layers, untie=untie)
    trained = trained_parameters(
        own,
        train_layers=policy.train_layers,
        train_head=policy.train_head,
        train_embeddings=policy.train_embeddings,
    )
    return Inherited(draft, own, trained, untie)
