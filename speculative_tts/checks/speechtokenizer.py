"""Compare SpeechTokenizer with the official class: features, codes, waves."""

from collections.abc import Iterator
from pathlib import Path

import torch

from speculative_tts.checks.compare import Entries, close, read_arrays, same
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.codecs.speechtokenizer import SpeechTokenizer


@torch.inference_mode()
def check(folder: Path) -> Iterator[CheckRow]:
    """Check every config_<name>.json with its SpeechTokenizer_<name>.pt."""
    arrays = read_arrays(folder / "speechtokenizer.npz")
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
        for row in _cases(model, Entries(arrays.path, entries)):
            yield CheckRow(f"{name}/{row.case}", row.worst, row.tolerance)


def _cases(model: SpeechTokenizer, arrays: Entries) -> Iterator[CheckRow]:
    waves = torch.from_numpy(arrays["wav"])
    codes = torch.from_numpy(arrays["codes"]).long()
    layers = len(arrays["codes_nq4"])
    skipped = len(codes) - len(arrays["codes_st2"])
    yield close("encoder_out", model.encoder(waves), arrays["encoder_out"])
    yield same("codes", model.encode(waves), codes)
    yield same("codes_nq4", model.encode(waves, layers), arrays["codes_nq4"])
    yield same("codes_st2", model.encode(waves, first=skipped), arrays["codes_st2"])
    yield close("decoded", model.decode(codes), arrays["decoded"])
    yield close("decoded_layer0", model.decode(codes[:1]), arrays["decoded_layer0"])
    middle = arrays["decoded_layers1_3_st1"]
    yield close("decoded_layers1_3_st1", model.decode(codes[1:4], 1), middle)
    out = model.decode(model.encode(waves))
    yield close("forward_out", out, arrays["forward_out"])
    yield close("forward_feature", model.semantic(waves), arrays["forward_feature"])
