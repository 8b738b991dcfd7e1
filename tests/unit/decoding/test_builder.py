"""What a run decodes with, as it is configured: parts, what is kept, where shared things lie."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy_lists
from fake_models import N_CODES, FakeModels
from head_stubs import layer_tensors
from rule_laws import built

from speculative_tts.assets import TINY
from speculative_tts.commands import decode
from speculative_tts.decoding.builder import Builder, check_pair
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, cuda_graph
from speculative_tts.decoding.model_cache import ModelCache, process_cache
from speculative_tts.models.recurrent import save_layer
from speculative_tts.provenance import content_hash, plain
from speculative_tts.runs import target_tokens
from speculative_tts.runs.folder import shared_caches
from speculative_tts.runs.run import SOURCES, AudioSource
from speculative_tts.runs.sources import swap as swaps
from speculative_tts.runs.sources.recordings import RecordedSource
from speculative_tts.runs.sources.swap import SwapSource
from speculative_tts.schema.common import Similarity
from speculative_tts.schema.decode import DecodeConfig, System
from speculative_tts.schema.drafters import LookupDrafterConfig
from speculative_tts.schema.rules import DynamicRule, NeighboursRule

CODES_AND_STOP, WIDE = N_CODES + 1, 50
Configure = Callable[..., DecodeConfig]
Make = Callable[..., Builder]


@pytest.fixture
def configure(models: FakeModels) -> Configure:
    return lambda *told: decode.main.compose([*models.overrides, *told])


@pytest.fixture
def make(configure: Configure) -> Make:
    return lambda *told, kept=None: Builder(configure(*told), kept)


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
    configure: Configure, told: list[str], parts: set[str]
) -> None:
    config = configure(*told)
    made = Builder(config).engine(config.system)
    names = ("draft", "speculation", "multi")
    assert {name for name in names if getattr(made, name) is not None} == parts


def test_heads_are_of_their_systems_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Builder, "multi", "heads and who chooses among them")
    for system in (System.multi_token, System.uncached_heads):
        assert make(f"system={system.name}").engine(system).multi == Builder.multi
    assert make().engine().multi is None


def test_an_engine_has_the_graphs_of_its_parts(configure: Configure) -> None:
    class Captured(Builder):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.graphs = Graphs(lambda step: step)

    assert Captured(configure()).engine().graphs.capture is not None


@pytest.fixture
def swap(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> DecodeConfig:
    """Of groups and of a target's run that are not looked for."""
    monkeypatch.setattr(swaps, "target_run", lambda _: {})
    monkeypatch.setattr(Builder, "groups", SimpleNamespace(arrays={"own": "arrays"}))
    return configure("system=swap", "rule=group", "sampling.temperature=0.7")


def test_an_engine_takes_what_is_kept(configure: Configure) -> None:
    kept = ModelCache(1e9)
    first, again = (Builder(configure(), kept).engine(System.target) for _ in range(2))
    assert first.target is again.target


def test_the_next_run_takes_what_this_one_loaded(configure: Configure, swap: DecodeConfig) -> None:
    for config in (configure("system=target"), swap):
        codecs = [source(config).codec for _ in range(2)]
        assert codecs[0] is codecs[1]


def test_half_of_a_devices_memory_is_for_that(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10, 100))
    process_cache.cache_clear()
    assert process_cache("cuda")._room == 50
    process_cache.cache_clear()


@pytest.mark.parametrize("system", ["codec", "reference"])
def test_recordings_are_spoken_as_they_are_or_by_the_codec(
    configure: Configure, system: str
) -> None:
    made = source(configure(f"system={system}", "seed=5"))
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
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides their requests."""
    monkeypatch.setattr(target_tokens, "source_hash", lambda *folders: folders)
    config = configure(
        "out=runs", "sampling.top_k=7", "runtime.kernels=torch", "runtime.dtype=bfloat16"
    )
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


def with_text_rows(parts: Builder) -> Builder:
    """As a target whose head has text rows behind its codes and stop id."""
    sampled = SimpleNamespace(width=lambda *, text_rows: WIDE if text_rows else CODES_AND_STOP)
    parts.layout = sampled  # type: ignore[assignment]
    parts.sampling = replace(parts.sampling, text_rows=True)
    return parts


def test_rows_that_are_no_sound_have_no_place(make: Make) -> None:
    plain = make().code_vectors(Similarity.codebook)
    wide = with_text_rows(make()).code_vectors(Similarity.codebook)
    assert (len(plain), len(wide)) == (CODES_AND_STOP, WIDE)
    torch.testing.assert_close(wide[:CODES_AND_STOP], plain, equal_nan=True)
    assert plain[:N_CODES].isfinite().all()
    assert wide[N_CODES:].isnan().all()


def test_text_rows_are_alone_in_their_groups(make: Make, tmp_path: Any) -> None:
    told = ("method=pcg", f"rule.groups.cache={tmp_path}")
    for parts, width in ((make(*told), CODES_AND_STOP), (with_text_rows(make(*told)), WIDE)):
        law = torch.zeros(width)
        law[-1] = 1.0
        assert sorted(built(parts.config.rule, parts).coarse(law).tolist())[-2:] == [0.0, 1.0]


def test_a_recurrent_drafters_folder_is_among_the_facts(
    make: Make, models: FakeModels, tmp_path: Any
) -> None:
    path = tmp_path / "layer"
    save_layer(path, layer_tensors(32), target=models.root / "target")
    parts = make("drafter=recurrent", f"drafter.path={path}")
    parts.speculation()
    assert parts.facts == {"recurrent": content_hash(path)}


def test_rules_have_their_numbers(make: Make) -> None:
    near = built(NeighboursRule(k=3, delta=0.25, ratio=1.5), make())
    assert (near.nearest.shape, near.delta, near.ratio) == ((CODES_AND_STOP, 3), 0.25, 1.5)
    alike = built(DynamicRule(reach=2, gap=0.25, distance=0.75), make())
    assert (alike.reach, alike.gap, alike.distance) == (2, 0.25, 0.75)


def test_matches_may_be_of_one_length_and_no_shorter_than_the_longest(make: Make) -> None:
    cpu = torch.device("cpu")
    for longest, shortest in ((3, 2), (2, 2)):
        given = LookupDrafterConfig(longest=longest, shortest=shortest)
        expected = LookupDrafter(CODES_AND_STOP, cpu, longest, shortest)
        assert built(given, make()) == expected
    with pytest.raises(ValueError, match=r"^drafter.shortest 3 is above drafter.longest 2; lower"):
        built(LookupDrafterConfig(longest=2, shortest=3), make())


def test_a_gpu_captures_if_it_may(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert make().graphs is EAGER
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert make("runtime.device=cuda").graphs.capture is cuda_graph
    assert make("runtime.device=cuda", "runtime.graphs=off").graphs is EAGER
    assert make().graphs is EAGER


class Noting(ModelCache):
    """Keeps nothing but what it was asked for."""

    def __init__(self) -> None:
        super().__init__(0)
        self.keys: list[Hashable] = []

    def get(self, key: Hashable, size: int, load: Callable[[], Any]) -> Any:
        self.keys.append(key)
        return super().get(key, size, load)


@pytest.mark.native
def test_a_target_of_other_rows_or_kernels_is_another_one(make: Make) -> None:
    """A process that holds on to models once loaded."""
    noted = Noting()
    for told in ((), (), ("target.rows.bos=true",), ("runtime.kernels=torch",)):
        parts = make(*told, kept=noted)
        assert parts.target.vocab_size == CODES_AND_STOP
    first, again, *others = noted.keys
    assert first == again
    assert len({first, *others}) == 3


@pytest.mark.native
def test_so_are_heads_of_other_kernels(make: Make) -> None:
    """Torch's, kept from the run before, made a native run half as fast, under the same name."""
    noted, heads = Noting(), str(TINY / "valle_heads")
    for kernels in ("torch", "native", "native"):
        chosen = ("target=tiny_valle", "codec=tiny_residual", f"heads.path={heads}")
        parts = Builder(decode.main.compose([*chosen, f"runtime.kernels={kernels}"]), noted)
        assert (parts.multi.heads.native is None) == (kernels == "torch")
    assert len({key for key in noted.keys if "heads" in key}) == 2


def layout(codes: int, *words: str) -> Any:
    return SimpleNamespace(shared=(("codes", codes),), vocabulary=words)


@pytest.mark.parametrize(
    ("draft", "text_rows", "apart"),
    [
        (layout(3, "a", "b"), True, None),
        (layout(3, "a", "c", "d"), False, None),
        (layout(3, "a", "c", "d"), True, r"\(vocabulary: 2 words and 3 words\)"),
        (layout(4, "a", "b"), False, r"\(codes: 3 and 4\)"),
    ],
)
def test_target_and_draft_have_the_rows_that_may_be_emitted(
    draft: Any, text_rows: bool, apart: str | None
) -> None:
    given = (layout(3, "a", "b"), draft, toy_lists.settings(text_rows=text_rows))
    if apart is None:
        check_pair(*given)
    else:
        with pytest.raises(ValueError, match=f"^target and draft have different .* {apart}; give"):
            check_pair(*given)
