"""A codec and a sampler of another distribution, found by their entry points."""

import json
from pathlib import Path

import pytest
from fake_models import FakeModels, write_fake_models

from speculative_tts.codecs.registry import load_codec
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.commands import decode
from speculative_tts.installed import find

CODE = '''
from dataclasses import dataclass

import torch
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.decoding.sampling.sampler import Sampler


class MyCodec(TinyCodec):
    """The tiny codec under another name."""


@dataclass(frozen=True)
class Second(Sampler):
    """Say the second likeliest token, whatever the settings."""

    def __call__(self, logits, history, positions, stop):
        second = stop.mask(logits, positions).topk(2, -1).indices[..., 1:]
        return torch.zeros_like(logits).scatter_(-1, second, 1.0)


def second(settings, layout):
    assert settings.temperature is not None and layout.n_codes > 0
    return Second()
'''
ANNOUNCED = """
[speculative_tts.codecs]
mine = my_package:MyCodec.load
broken = no_such_package:load

[speculative_tts.samplers]
second = my_package:second
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    about = site / "my_package-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ANNOUNCED)
    (site / "my_package.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(site))


@pytest.fixture
def models(tmp_path: Path) -> FakeModels:
    return write_fake_models(tmp_path)


@pytest.mark.usefixtures("installed")
def test_they_decode_by_name(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens that are certain are the target's own, whatever is drafted."""
    given = [*models.overrides, "codec.name=mine", "limit=2", f"out={tmp_path / 'runs'}"]
    for method in ("target", "exact"):
        assert decode.main([*given, f"method={method}", "sampling.sampler=second"]) == 0
    assert decode.main([*given, "method=target"]) == 0
    said = capsys.readouterr().out
    assert "sampler Second has no native round: compare tokens a round, not seconds" in said
    runs = sorted((tmp_path / "runs").glob("*/records.jsonl"))
    own, alone, speculative = map(codes, _by_sampler(runs))
    assert alone == speculative
    assert alone != own
    assert type(load_codec("mine", models.root / "codec")).__name__ == "MyCodec"


def codes(records: Path) -> dict[str, list[int]]:
    """Codes of each utterance, by its id."""
    rows = map(json.loads, records.read_text().splitlines())
    return {row["id"]: row["codes"] for row in rows}


def _by_sampler(runs: list[Path]) -> list[Path]:
    """The run without the sampler, the target with it, and speculation."""
    config = {run: json.loads((run.parent / "config.json").read_text()) for run in runs}
    key = {run: (one["sampling"]["sampler"] or "", one["system"]) for run, one in config.items()}
    return sorted(runs, key=lambda run: (key[run][0], key[run][1] == "speculative"))


@pytest.mark.usefixtures("installed")
def test_names_that_lead_nowhere_say_so(
    models: FakeModels, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {
        "codec.name=theirs": "codec 'theirs' is unknown; known here: broken, codes, cosyvoice",
        "codec.name=broken": "'broken' is announced as no_such_package:load, which does not load",
        "sampling.sampler=first": "sampler 'first' is unknown; known here: second. Give one",
    }
    for setting, message in cases.items():
        assert decode.main([*models.overrides, setting, "limit=1"]) == 2
        assert message in capsys.readouterr().err


def test_without_another_distribution_all_is_ours(models: FakeModels) -> None:
    assert type(load_codec("tiny", models.root / "codec")) is TinyCodec
    with pytest.raises(ValueError, match="sampler 'second' is unknown; known here: none"):
        find("sampler", "second")
