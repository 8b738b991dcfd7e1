"""The parts of an engine as they are configured, without a run."""

from collections.abc import Callable, Hashable
from dataclasses import replace
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
from speculative_tts.decoding.loops.graphs import EAGER, cuda_graph
from speculative_tts.decoding.model_cache import ModelCache
from speculative_tts.models.recurrent import save_layer
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import Similarity
from speculative_tts.schema.drafters import LookupDrafterConfig
from speculative_tts.schema.rules import DynamicRule, NeighboursRule

CODES_AND_STOP, WIDE = N_CODES + 1, 50


Make = Callable[..., Builder]


@pytest.fixture
def make(models: FakeModels) -> Make:
    def made(*told: str, kept: ModelCache | None = None) -> Builder:
        return Builder(decode.main.compose([*models.overrides, *told]), kept)

    return made


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


def test_a_gpu_has_to_be_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"^runtime.device=cuda needs a GPU that torch can see"):
        make("runtime.device=cuda")


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
