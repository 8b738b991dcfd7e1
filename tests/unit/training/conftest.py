import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_store import save_store
from scored_runs import record, write_run
from small_target import save_codes, save_target

from speculative_tts.assets import resolve
from speculative_tts.commands import eval as evaluate
from speculative_tts.provenance import content_hash
from tests.fake_models import FakeModels, write_fake_models


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A saved untied Qwen2 target with its speech.json."""
    save_target(tmp_path / "target")
    return tmp_path / "target"


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    """A codes store with train and dev utterances."""
    save_codes(tmp_path / "codes")
    return tmp_path / "codes"


@pytest.fixture
def arguments(target: Path, codes: Path) -> list[str]:
    """A short training of sst-train-heads."""
    numbers = "n=3 steps=6 batch_size=32 sequences=24 eval_every=3 save_every=2 dev_utterances=4"
    return [f"target.path={target}", f"codes={codes}", *numbers.split()]


@pytest.fixture
def models(tmp_path: Path) -> FakeModels:
    """A random target and codec, and beside them a codes store of texts for it to say."""
    save_store(tmp_path / "codes")
    return write_fake_models(tmp_path / "models")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Makes a scored run of the tiny target and a draft, or of its recurrent layer."""

    def made(draft: str = "tiny:draft", system: str = "speculative", drafter: str = "lm") -> Path:
        folder = tmp_path / "runs" / f"{system}-{draft[5:]}-{drafter}-s0"
        layer = drafter == "recurrent"
        chosen = {"name": drafter} | ({"path": draft, "dtype": "int8"} if layer else {})
        write_run(
            folder, [record(f"u{i}") for i in range(12)], {"system": system, "drafter": chosen}
        )
        paths = {"target": "tiny:target", "codec": "tiny:codec"} | (
            {} if layer else {"draft": draft}
        )
        weights = {name: content_hash(resolve(path)) for name, path in paths.items()}
        facts: dict[str, Any] = {"weights": weights, "hardware": {"cpu": "A CPU"}}
        facts |= {"argv": ["sst-decode", "x"]}
        facts |= {"recurrent": content_hash(resolve(draft))} if layer else {}
        (folder / "provenance.json").write_text(json.dumps(facts))
        assert evaluate.main([f"runs={folder}", "metrics=[wer]", "draws=100", "workers=1"]) == 0
        return folder.parent

    return made
