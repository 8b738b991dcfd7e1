"""Compare SpeechTokenizer with the official class: features, codes, waves."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from speculative_tts.checks.compare import close, need, read_arrays, same
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.codecs.speechtokenizer import SpeechTokenizer


@torch.inference_mode()
def check(folder: Path) -> Iterator[CheckRow]:
    """Check every config_<name>.json with its SpeechTokenizer_<name>.pt."""
    path = folder / "speechtokenizer.npz"
    arrays = read_arrays(path)
    configs = sorted(folder.glob("config_*.json"))
    if not configs:
        raise FormatError(f"{folder} has no config_<name>.json; it is not in the golden format")
    for config in configs:
        name = config.stem.removeprefix("config_")
        model = SpeechTokenizer.load(config, folder / f"SpeechTokenizer_{name}.pt")
        entries = {
            key.removeprefix(f"{name}/"): value
            for key, value in arrays.items()
            if key.startswith(f"{name}/")
        }
        for row in _cases(model, entries, path):
            yield CheckRow(f"{name}/{row.case}", row.worst, row.tolerance)


def _cases(model: SpeechTokenizer, arrays: dict[str, np.ndarray], path: Path) -> Iterator[CheckRow]:
    waves = torch.from_numpy(need(arrays, "wav", path))
    codes = torch.from_numpy(need(arrays, "codes", path)).long()
    layers = len(need(arrays, "codes_nq4", path))
    skipped = len(codes) - len(need(arrays, "codes_st2", path))
    yield close("encoder_out", model.encoder(waves), need(arrays, "encoder_out", path))
    yield same("codes", model.encode(waves), codes)
    yield same("codes_nq4", model.encode(waves, layers), arrays["codes_nq4"])
    yield same("codes_st2", model.encode(waves, first=skipped), arrays["codes_st2"])
    yield close("decoded", model.decode(codes), need(arrays, "decoded", path))
    yield close("decoded_layer0", model.decode(codes[:1]), need(arrays, "decoded_layer0", path))
    middle = need(arrays, "decoded_layers1_3_st1", path)
    yield close("decoded_layers1_3_st1", model.decode(codes[1:4], 1), middle)
    out = model.decode(model.encode(waves))
    yield close("forward_out", out, need(arrays, "forward_out", path))
    yield close("forward_feature", model.semantic(waves), need(arrays, "forward_feature", path))
