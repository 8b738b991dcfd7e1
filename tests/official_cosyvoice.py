"""Stand-ins for the official CosyVoice: of its audio a code is 960 samples of its number."""

import sys
import types

import pytest
import soundfile
import torch

AHEAD = 3  # codes that the flow looks ahead


class Frontend:
    def _extract_speech_feat(self, path: str) -> tuple[torch.Tensor, torch.Tensor]:
        frames = soundfile.info(path).frames // 480 + 1
        return torch.zeros(1, frames, 80), torch.tensor([frames])

    def _extract_spk_embedding(self, path: str) -> torch.Tensor:
        return torch.full((1, 192), 0.5)


class Model:
    token_hop_len = 25
    flow = types.SimpleNamespace(pre_lookahead_len=AHEAD)

    def __init__(self) -> None:
        self.hift_cache_dict: dict[str, object] = {}
        self.calls: list[dict[str, object]] = []

    def token2wav(self, **arguments: object) -> torch.Tensor:
        before = self.hift_cache_dict[str(arguments["uuid"])]
        assert (before is None) == (arguments["token_offset"] == 0)
        self.hift_cache_dict[str(arguments["uuid"])] = "the seam"
        self.calls.append(arguments)
        token = arguments["token"]
        assert isinstance(token, torch.Tensor)
        first, ahead = arguments["token_offset"], 0 if arguments["finalize"] else AHEAD
        assert isinstance(first, int)
        return (token[:, first : token.shape[1] - ahead] / 32767).repeat_interleave(960, 1)


class AutoModel:
    def __init__(self, model_dir: str) -> None:
        self.frontend, self.model = Frontend(), Model()


def official(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("cosyvoice", "cosyvoice.cli", "cosyvoice.cli.cosyvoice")
    package, cli, module = (types.ModuleType(name) for name in names)
    module.AutoModel = AutoModel  # type: ignore[attr-defined]
    cli.cosyvoice = module  # type: ignore[attr-defined]
    for name, part in zip(names, (package, cli, module), strict=True):
        monkeypatch.setitem(sys.modules, name, part)
