"""Recurrent layers as transformers loads them: equal logits, a use that works, an honest card."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_pairs import KINDS, chosen, ours, pair_of, spoken, their_rows
from head_stubs import layer_tensors
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM

from speculative_tts.assets import resolve
from speculative_tts.commands import export
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.recurrent import RecurrentLayer, load_layer, save_layer
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.training.export import Folder

ATOL = 2e-4  # float32, sums in another order


@dataclass(frozen=True)
class Case:
    """A target, its layer, and where both were exported."""

    kind: str
    target: CheckpointConfig
    layer: Path
    out: Path

    def ours(self) -> tuple[CodeLM, RecurrentLayer]:
        """In float32."""
        model = ours(self.target)
        assert isinstance(model, CodeLM)
        options: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
        path = Path(self.target.path)
        return model, load_layer(self.layer, target=path, head=model.head, **options)

    def theirs(self) -> Any:
        """The same."""
        folder = self.out / "layer"
        loaded = AutoModel.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32)
        return loaded.eval()


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The layers that ship, and random ones of other shapes."""
    root = tmp_path_factory.mktemp(request.param)
    target, _ = pair_of(request.param, root)
    layer = root / "own"
    if request.param in ("tiny", "fine"):
        layer = Path(f"{target.path}_recurrent")
    else:
        hidden = Folder.of(target).config["hidden_size"]
        save_layer(layer, layer_tensors(hidden), target=Path(target.path))
    for name, path in (("target", target.path), ("layer", layer)):
        asked = [*chosen(target), f"draft.path={path}", f"out={root / 'out' / name}"]
        assert export.main([*asked, f"verifier={root / 'out/target'}"]) == 0
    return Case(request.param, target, layer, root / "out")


@torch.inference_mode()
def test_both_give_equal_logits_step_by_step(case: Case) -> None:
    """Behind random states and tokens; a row that is no speech is never drafted."""
    (model, layer), other = case.ours(), case.theirs()
    random, rows = torch.Generator().manual_seed(0), Folder.of(case.target).rows
    state = torch.randn(5, layer.hidden, generator=random)
    known = state
    for _ in range(3):
        ids = torch.randint(model.vocab_size, (5,), generator=random)
        said, before = layer.logits(state := layer(state, model.embed(ids))), known
        found, known = other(known, rows[ids])
        torch.testing.assert_close(found[:, rows], said, atol=ATOL, rtol=0)
        torch.testing.assert_close(known, state, atol=ATOL, rtol=0)
        wrong, _ = other(before, rows[ids.roll(1)])
        assert not torch.allclose(wrong[:, rows], said, atol=100 * ATOL)
    assert found.shape[1] == other.config.vocab_size
    silent = torch.ones(found.shape[1], dtype=torch.bool).index_fill(0, rows, value=False)
    barred = found[:, silent].isneginf()
    assert not barred.any() if case.kind == "llasa" else barred.all()


def test_the_cards_code_drafts_our_tokens(case: Case) -> None:
    """So the state that it takes of transformers is the one that ours reads."""
    model, layer = case.ours()
    rows, speech = spoken(case.kind, model), Folder.of(case.target).rows
    (code,) = re.findall(
        "```python\n(.*?)```", (case.out / "layer/README.md").read_text(), re.DOTALL
    )
    config = case.out / "target/config.json"  # loaded as it says: with our numbers, to compare
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dtype": "float32"}))
    named: dict[str, Any] = {"prompt": torch.tensor([their_rows(case.target, rows)])}
    exec(code, named)
    state = model.prefill_hidden([model.prompt(rows)], model.cache(1, len(rows)))
    torch.testing.assert_close(named["states"], state, atol=ATOL, rtol=0)
    newest = (speech == named["newest"]).nonzero()[0]
    drafted: list[Tensor] = []
    for _ in range(3):
        state = layer(state, model.embed(drafted[-1] if drafted else newest))
        drafted.append(layer.logits(state).argmax(-1))
    assert named["drafted"].tolist() == [speech[torch.cat(drafted)].tolist()]


def test_no_library_takes_it_for_a_model_by_itself(case: Case) -> None:
    folder = case.out / "layer"
    assert {file.name for file in folder.iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "modeling_recurrent_drafter.py"),
    }
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    with pytest.raises(ValueError, match="trust_remote_code"):
        AutoModel.from_pretrained(folder, trust_remote_code=False)


def test_speculators_reads_its_config(tmp_path: Path) -> None:
    """Under a type that somebody registers there; none of its own is this one."""
    speculators = pytest.importorskip(
        "speculators", reason="speculators is not here: make venv installs it"
    )
    asked = [f"out={tmp_path}", "draft.path=tiny:target_recurrent", "verifier=some/where"]
    assert export.main(asked) == 0
    base, name = speculators.SpeculatorModelConfig, "recurrent_drafter"
    with pytest.raises(ValueError, match=name):
        base.from_pretrained(tmp_path)
    own = base.register(name)(type("OwnConfig", (base,), {"__module__": __name__}))
    base.reload_schema()
    read = base.from_pretrained(tmp_path)
    base.registry.pop(name)
    assert isinstance(read, own)
    assert read.speculators_config.proposal_methods[0].speculative_tokens == 3
    assert read.speculators_config.verifier.name_or_path == "some/where"


def test_the_card_has_the_figures_of_the_layers_runs(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    layer = "tiny:target_recurrent"
    run(), run(system="target"), run(layer, drafter="recurrent")
    out = tmp_path / "out"
    given = [f"draft.path={layer}", f"runs={tmp_path / 'runs'}", f"out={out}"]
    assert export.main([*given, "licence=apache-2.0"]) == 0
    card = (out / "README.md").read_text()
    lines = [line for line in card.splitlines() if line.startswith("| ")]
    assert len(lines) == 4  # heading, rule, this layer's run and its target's
    heading, cells = (re.split(r" \| ", line.strip("| ")) for line in (lines[0], lines[2]))
    figures = dict(zip(heading, cells, strict=True))
    assert [figures[f"acceptance rate at {at}"] for at in (1, 2, 3)] == ["0.800", "0.500", "0.200"]
    assert re.fullmatch(r"\d+\.\d\d \[.*\]", figures["WER %"])
    for said in (
        "# A recurrent drafter of tiny\n",
        "A CPU",
        "Licence: apache-2.0",
        "on the frozen states of tiny (SHA-256 7537142d79aae0fb), 4 tokens ahead, each as often",
        "as often as own drafts come to it, for KL",
        "positions, begun with an earlier one (SHA-256 77d0bb9f22afbb35). The weights are the mean",
        "mean of those of SHA-256 6e9b61d3a28ce85c and 77d0bb9f22afbb35.",
        "Data: the target's own tokens in `runs/own`.",
        "Layer and head in these runs (drafter.dtype): int8.",
        "No `assistant_model`",
    ):
        assert said in card
    assert "assistant_model=" not in card


def test_a_layer_made_by_hand_says_no_more_than_it_knows(tmp_path: Path) -> None:
    save_layer(tmp_path / "own", layer_tensors(192), target=resolve("tiny:target"))
    out = tmp_path / "out"
    assert export.main([f"draft.path={tmp_path / 'own'}", f"out={out}"]) == 0
    card = (out / "README.md").read_text()
    assert "Training: not recorded." in card
    assert "Nothing was measured: no runs were given." in card


def test_what_does_not_fit_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Callable[..., Path]
) -> None:
    layer, runs = "draft.path=tiny:target_recurrent", run()
    wrong = {
        f"target=tiny_fine {layer}": "drafts for another target (weights 7537142d79aa",
        f"target.path=tiny:valle {layer}": "is of model_type valle, for which",
        f"runs={runs} {layer}": "drafter=recurrent of a recurrent layer",
    }
    for settings, message in wrong.items():
        assert export.main([*settings.split(), f"out={tmp_path / 'out'}"]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
        assert message in line
    assert not (tmp_path / "out").exists()


def test_a_layer_takes_the_place_of_a_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is cut off while it is written anew is no model of either kind."""
    out = tmp_path / "out"
    assert export.main([f"out={out}"]) == 0
    made = [f"out={out}", "draft.path=tiny:target_recurrent"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("speculative_tts.training.export.write_tensors", full)
        assert export.main(made) != 0
    assert not (out / "config.json").exists()
    capsys.readouterr()
    assert export.main(made) == 0
    assert capsys.readouterr().err == "no vllm.json: vLLM has no class of a recurrent layer\n"
    assert json.loads((out / "config.json").read_text())["model_type"] == "recurrent_drafter"
    for name in ("vllm.json", "speculators.json", "generation_config.json"):
        assert not (out / name).exists()
