"""Reading VALL-E and USLM checkpoints: icefall files, plain state dicts, and our folders."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from speculative_tts.models.decoder.loading import read_state
from speculative_tts.models.families.valle.ar import ValleAR
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.nar import ValleNAR
from speculative_tts.state_dicts import State, check_fit, read_state_dict, write_tensors
from speculative_tts.typed import read_json, typed, write_json

MODEL_TYPE = "valle"


@dataclass(frozen=True)
class Valle:
    """Both models of a checkpoint; together their weights have the official names."""

    config: ValleConfig
    ar: ValleAR
    nar: ValleNAR

    @classmethod
    def build(cls, config: ValleConfig) -> "Valle":
        """Fresh weights from torch's global generator."""
        return cls(config, ValleAR(config), ValleNAR(config))

    @classmethod
    def from_state(cls, state: State, *, heads: int, prefix_mode: int = 1) -> "Valle":
        """Models with the weights of an official state dict, in evaluation mode, float32.

        Raises ValueError listing missing, unknown or misshapen tensors in one line.
        """
        valle = cls.build(ValleConfig.from_state(state, heads=heads, prefix_mode=prefix_mode))
        valle.load_state(state)
        return valle

    def state(self) -> State:
        """The official state dict; tied tensors are there under both names."""
        return {**self.ar.state_dict(), **self.nar.state_dict()}

    def load_state(self, state: State) -> None:
        """Copy an official state dict in; ValueError lists what does not fit in one line."""
        advice = "give a VALL-E or USLM checkpoint whose options its tensors show"
        check_fit(self.state(), state, advice)
        for model in (self.ar, self.nar):
            own = {name: state[name] for name in model.state_dict()}
            model.load_state_dict(own)
            model.eval()


def load_valle(path: Path, *, heads: int | None = None, prefix_mode: int | None = None) -> Valle:
    """A checkpoint file or a folder that `save_valle` wrote; options given here win.

    Raises ValueError for a file that lacks the number of heads when `heads` is None.
    """
    if path.is_dir():
        given = {"heads": heads, "prefix_mode": prefix_mode}
        return _load_folder(path, {k: v for k, v in given.items() if v is not None})
    state, options = read_state_dict(path)
    heads = options.get("nhead") if heads is None else heads
    if heads is None:
        raise ValueError(
            f"{path} does not say how many heads it has; give heads=16 (the official number)"
        )
    mode = options.get("prefix_mode", 1) if prefix_mode is None else prefix_mode
    return Valle.from_state(state, heads=heads, prefix_mode=mode)


def save_valle(valle: Valle, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write config.json and model.safetensors; of tied tensors one copy."""
    tied = _tied(valle.config)
    kept = {
        name: tensor.detach().to(dtype if tensor.is_floating_point() else tensor.dtype).contiguous()
        for name, tensor in valle.state().items()
        if name not in tied
    }
    write_tensors(folder / "model.safetensors", kept)
    config = {"model_type": MODEL_TYPE, **asdict(valle.config)}
    write_json(folder / "config.json", config)


def _load_folder(folder: Path, given: dict[str, int]) -> Valle:
    path = folder / "config.json"
    values = read_json(path)
    kind = values.get("model_type")
    if kind != MODEL_TYPE:
        raise ValueError(f"{path}: model_type {kind!r} is no VALL-E; give another folder")
    valle = Valle.build(typed(ValleConfig, values | given, path))
    state = read_state(folder)
    state |= {
        name: state[source] for name, source in _tied(valle.config).items() if source in state
    }
    valle.load_state(state)
    return valle


def _tied(config: ValleConfig) -> dict[str, str]:
    """Names of tensors that are others once more, and those others' names."""
    if not config.share_embedding:
        return {}
    return {
        f"nar_predict_layers.{stage}.weight": (
            f"nar_audio_embeddings.{stage + 2}.word_embeddings.weight"
        )
        for stage in range(config.quantizers - 2)
    }
