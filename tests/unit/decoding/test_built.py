"""What a run decodes with, as it is configured: parts, what is kept, where shared things lie."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_models import FakeModels

from speculative_tts.commands import decode
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.decoding.model_cache import ModelCache, process_cache
from speculative_tts.provenance import content_hash, plain
from speculative_tts.runs import target_tokens
from speculative_tts.runs.folder import shared_caches
from speculative_tts.runs.run import SOURCES, AudioSource
from speculative_tts.runs.sources import swap as swaps
from speculative_tts.runs.sources.recordings import RecordedSource
from speculative_tts.runs.sources.swap import SwapSource
from speculative_tts.schema.decode import DecodeConfig, System

Make = Callable[..., DecodeConfig]


@pytest.fixture
def make(models: FakeModels) -> Make:
    return lambda *told: decode.main.compose([*models.overrides, *told])


def source(config: DecodeConfig) -> AudioSource:
    made: AudioSource = resolve_name(SOURCES[config.system])(config)
    return made


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        (["system=target"], set()),
        (["system=uncached"], set()),
        (["system=draft"], {"draft"}),
        (["system=speculative"], {"draft", "speculation"}),
        (["drafter=lookup"], {"speculation"}),
        (["drafter=lookup", "system=draft"], {"draft"}),
    ],
)
def test_an_engine_has_what_its_system_decodes_with(
    make: Make, told: list[str], parts: set[str]
) -> None:
    config = make(*told)
    made = Builder(config).engine(config.system)
    names = ("draft", "speculation", "multi")
    assert {name for name in names if getattr(made, name) is not None} == parts


def test_heads_are_of_their_systems_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Builder, "multi", "heads and who chooses among them")
    for system in ("multi_token", "uncached_heads"):
        config = make(f"system={system}")
        assert Builder(config).engine(config.system).multi == Builder.multi
    assert Builder(config).engine().multi is None


def test_an_engine_fills_layers_by_its_refiner(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Builder, "refiner", "what fills further layers")
    assert Builder(make()).engine(System.target).refiner == Builder.refiner


def test_an_engine_has_the_graphs_of_its_parts(make: Make) -> None:
    class Captured(Builder):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.graphs = Graphs(lambda step: step)

    assert Captured(make()).engine().graphs.capture is not None


@pytest.fixture
def swap(make: Make, monkeypatch: pytest.MonkeyPatch) -> DecodeConfig:
    """Of groups and of a target's run that are not looked for."""
    monkeypatch.setattr(swaps, "target_run", lambda _: {})
    monkeypatch.setattr(Builder, "groups", SimpleNamespace(arrays={"own": "arrays"}))
    return make("system=swap", "rule=group", "sampling.temperature=0.7")


def test_an_engine_takes_what_is_kept(make: Make) -> None:
    kept = ModelCache(1e9)
    first, again = (Builder(make(), kept).engine(System.target) for _ in range(2))
    assert first.target is again.target


def test_the_next_run_takes_what_this_one_loaded(make: Make, swap: DecodeConfig) -> None:
    for config in (make("system=target"), swap):
        codecs = [source(config).codec for _ in range(2)]
        assert codecs[0] is codecs[1]


def test_half_of_a_devices_memory_is_for_that(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10, 100))
    process_cache.cache_clear()
    assert process_cache("cuda")._room == 50
    process_cache.cache_clear()


@pytest.mark.parametrize("system", ["codec", "reference"])
def test_recordings_are_spoken_as_they_are_or_by_the_codec(make: Make, system: str) -> None:
    made = source(make(f"system={system}", "seed=5"))
    assert isinstance(made, RecordedSource)
    assert (made.through, made.seed) == (system == "codec", 5)


def test_a_swap_has_groups_and_the_targets_settings(swap: DecodeConfig) -> None:
    made = source(swap)
    assert isinstance(made, SwapSource)
    assert made.groups == {"own": "arrays"}
    assert made.settings is not None
    assert made.settings.temperature == 0.7


def test_what_runs_share_lies_beside_them_or_where_it_is_wanted() -> None:
    assert shared_caches("some/runs", None) == Path("some/runs/.caches")
    assert shared_caches("some/runs", "elsewhere") == Path("elsewhere")


def test_a_targets_tokens_are_known_by_all_that_decides_them(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides their requests."""
    monkeypatch.setattr(target_tokens, "source_hash", lambda *folders: folders)
    config = make("out=runs", "sampling.top_k=7", "runtime.kernels=torch", "runtime.dtype=bfloat16")
    engine = Builder(config).engine()
    assert target_tokens.made_by(engine.sampling, config.target, config.runtime) == {
        "target": content_hash(Path(config.target.path)),
        "rows": plain(config.target.rows),
        "sampler": plain(engine.sampling),
        "dtype": "bfloat16",
        "kernels": "torch",
        "code": ("decoding", "models", "native"),
    }
    assert engine.sampling.top_k == 7
