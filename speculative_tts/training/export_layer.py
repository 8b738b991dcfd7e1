"""Export a recurrent drafter for other libraries: a folder that transformers' AutoModel loads.

It is no `assistant_model`: that protocol gives a draft tokens, and the layer reads the target's
states. Neither vLLM nor the library `speculators` has a type of its shape, h <- h + out silu(inner
[h, e]). So the code is in the folder (`integrations.recurrent_drafter`) with the target's embedding
and head, in the order of the target's own vocabulary: the folder drafts without this package.
config.json follows speculators' layout, with a `speculators_model_type` of ours.
"""

from pathlib import Path
from typing import Any

import torch

from speculative_tts.decoding.sampling.settings import completed
from speculative_tts.files import write_atomic
from speculative_tts.integrations import recurrent_drafter
from speculative_tts.models.decoder.loading import EMBEDDING, State
from speculative_tts.models.recurrent import DESCRIPTION, NAMES, LayerTensors, layer_of
from speculative_tts.schema.decode import SamplingConfig
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.checkpoint import CONFIG
from speculative_tts.training.export import (
    BIAS,
    GENERATION,
    SPECULATORS,
    VLLM,
    Exported,
    Folder,
    configuration,
    forget,
    speculators,
    write,
)
from speculative_tts.training.inherit import HEAD

CODE = "modeling_recurrent_drafter"


def is_layer(folder: Path) -> bool:
    """Return True if the folder holds a recurrent layer."""
    return (folder / DESCRIPTION).is_file()


def export_layer(config: ExportConfig) -> Exported:
    """Write the layer in `config.draft.path`, without its card, into `config.out`.

    Raise ValueError for a layer of another target, or of one that these libraries cannot run.
    """
    target, out = Folder.of(config.target), Path(config.out)
    layer = layer_of(Path(config.draft.path), target.path)
    stored, state = target.tensors()
    verifier = configuration(stored, biased=BIAS in state)["architectures"]
    silent = target.silent(completed(SamplingConfig(), target.layout.sampling))
    own = _state(layer, state, silent)
    forget(out, CONFIG, VLLM, SPECULATORS, GENERATION)
    write_atomic(out / f"{CODE}.py", Path(recurrent_drafter.__file__).read_bytes())
    layer_config = _configuration(layer, own) | {
        "speculators_config": speculators(config, verifier, algorithm="recurrent")
    }
    return write(out, own, {CONFIG: layer_config}, target)


def _state(layer: LayerTensors, target: State, silent: torch.Tensor) -> State:
    """Return the layer, the target's embedding and its head; `silent` rows get a bias of -inf."""
    embedding = target[EMBEDDING]
    head = target[HEAD] if HEAD in target else embedding.clone()  # of a tied target store both
    bias = target.get(BIAS, head.new_zeros(len(head)))
    return {
        "embed_tokens.weight": embedding,
        **{
            f"blocks.{number}.{name}": part
            for number, block in enumerate(layer.blocks)
            for name, part in zip(NAMES, block, strict=True)
        },
        HEAD: head,
        BIAS: bias.masked_fill(silent, float("-inf")),
    }


def _configuration(layer: LayerTensors, state: State) -> dict[str, Any]:
    """Return config.json without the fields that speculators adds."""
    settings, model = recurrent_drafter.RecurrentDrafterConfig, recurrent_drafter.RecurrentDrafter
    hidden, width = layer.sizes
    code = {"AutoConfig": settings, "AutoModel": model}
    return {
        "model_type": settings.model_type,
        "architectures": [model.__name__],
        "auto_map": {name: f"{CODE}.{one.__name__}" for name, one in code.items()},
        "hidden_size": hidden,
        "width": width,
        "blocks": len(layer.blocks),
        "vocab_size": len(state[HEAD]),
        "tie_word_embeddings": False,
        "dtype": str(state[HEAD].dtype).removeprefix("torch."),
        "speculators_model_type": settings.model_type,
    }
