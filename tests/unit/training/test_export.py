"""Drafts as other libraries load them: the same logits, the same greedy tokens, an honest card."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cosyvoice_folders import write_merged, write_official
from exported_pairs import (
    KINDS,
    LLASA,
    chosen,
    inherited,
    ours,
    pair_of,
    spoken,
    their_rows,
    theirs,
)
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from speculative_tts.commands import export
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.training.card import draft_name, words_of
from speculative_tts.training.export import Exported, Folder

TOKENS = 40


@pytest.fixture(scope="module", params=KINDS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kind, the checkpoints of target and draft, and where both were exported."""
    root = tmp_path_factory.mktemp(request.param)
    target, draft = pair_of(request.param, root)
    for name, path in (("target", target.path), ("draft", draft.path)):
        asked = [
            *chosen(target),
            f"draft.path={path}",
            f"draft.name={name}",
            f"out={root / 'out' / name}",
        ]
        assert export.main(asked) == 0
    return request.param, target, draft, root / "out"


@torch.inference_mode()
def test_both_give_equal_logits(exported: Any) -> None:
    kind, target, draft, out = exported
    for name, checkpoint in (("target", target), ("draft", draft)):
        model, other = ours(checkpoint), theirs(out / name)
        rows = spoken(kind, model)
        own = model.prefill([model.prompt(rows)], model.cache(1, len(rows)))
        found = other(torch.tensor([their_rows(checkpoint, rows)])).logits[:, -1]
        speech = Folder.of(checkpoint).rows
        torch.testing.assert_close(found[:, speech], own, atol=2e-4, rtol=0)
        assert found.shape[1] == other.config.vocab_size


class Counted:
    """Passes of a model of theirs."""

    def __init__(self, model: Any) -> None:
        self.passes, plain = 0, model.forward

        def forward(*given: Any, **named: Any) -> Any:
            self.passes += 1
            return plain(*given, **named)

        model.forward = forward


@torch.inference_mode()
def test_assisted_generation_says_our_greedy_tokens(exported: Any) -> None:
    """Of our exact greedy speculation, in fewer passes than tokens where the draft is trained."""
    kind, target, draft, out = exported
    model, small = ours(target), ours(draft)
    rows, stops = spoken(kind, model), model.layout.stop_ids
    prompts = [one.prompt(rows) for one in (model, small)]
    request = Request("x", *prompts, 0, TOKENS, 0)
    speculation = Speculation(model, LMDrafter(small), Tolerance(0.0), Sampler(0.0), stops, 3)
    (outcome,) = speculation.decode([request])
    whole, assistant = theirs(out / "target"), theirs(out / "draft")
    assert assistant.generation_config.num_assistant_tokens == 3
    passes, ids = Counted(whole), torch.tensor([their_rows(target, rows)])
    order = Folder.of(target).rows
    told = assistant.generation_config
    if kind == "llasa":  # whose text rows may be said, by ours too where they are asked for
        told.suppress_tokens = sorted(set(range(whole.config.vocab_size)) - {*order.tolist()})
    told.update(do_sample=False, temperature=None, top_k=None, top_p=None, max_new_tokens=TOKENS)
    found = whole.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        assistant_model=assistant,
        generation_config=told,
    )
    assert found[0, ids.shape[1] :].tolist() == order[torch.tensor(outcome.tokens)].tolist()
    if kind in ("tiny", "fine"):
        assert passes.passes < len(outcome.tokens)


def test_vllm_is_told_of_what_it_has_a_class_for(exported: Any) -> None:
    kind, _, _, out = exported
    biased = kind in ("cosyvoice2", "merged")
    for name in ("vllm.json", "speculators.json"):
        assert (out / "draft" / name).is_file() != biased
        assert not (out / "target" / name).exists()  # which drafts for nobody
    card = (out / "draft/README.md").read_text()
    assert ("trust_remote_code=True" in card) == biased
    assert ("vllm serve" in card) != biased
    if not biased:
        told = json.loads((out / "draft/vllm.json").read_text())
        assert told == {
            "method": "draft_model",
            "model": str(out / "draft"),
            "num_speculative_tokens": 3,
        }


def test_a_bias_is_not_lost_in_silence(exported: Any) -> None:
    kind, _, _, out = exported
    if kind not in ("cosyvoice2", "merged"):
        pytest.skip("no bias")
    with pytest.raises(ValueError, match="trust_remote_code"):
        AutoModelForCausalLM.from_pretrained(out / "draft", trust_remote_code=False)


def test_speculators_own_classes_take_its_format(exported: Any) -> None:
    """And no type of theirs is a draft that is a model by itself: then config.json would say it."""
    speculators = pytest.importorskip(
        "speculators", reason="speculators is not here: make venv installs it"
    )
    _, _, _, out = exported
    written = out / "draft/speculators.json"
    if not written.exists():
        pytest.skip("no class for its head")
    read = speculators.SpeculatorsConfig.model_validate(json.loads(written.read_text()))
    assert read.proposal_methods[0].speculative_tokens == 3
    types = {*speculators.SpeculatorModelConfig.registry}
    heads = {"eagle3", "peagle", "mtp", "dflash", "dflash2", "dspark", "xpress"}
    assert types <= heads, "is there one for a small language model now?"


def test_the_card_has_the_figures_of_the_drafts_runs_alone(
    run: Callable[..., Path], tmp_path: Path
) -> None:
    run("tiny:draft_fine"), run(system="target"), run(drafter="lookup"), run()
    out = tmp_path / "out"
    given = [f"runs={tmp_path / 'runs'}", f"out={out}", "licence=apache-2.0"]
    assert export.main(given) == 0
    card = (out / "README.md").read_text()
    lines = [line for line in card.splitlines() if line.startswith("| ")]
    assert len(lines) == 4  # heading, rule, this draft's run and its target's
    heading, cells = (re.split(r" \| ", line.strip("| ")) for line in (lines[0], lines[3]))
    figures = dict(zip(heading, cells, strict=True))
    assert figures["acceptance rate at 1"] == "0.800"
    assert figures["acceptance rate at 3"] == "0.200"
    assert figures["acceptance length"].startswith("2.50 [")
    assert figures["TV"] == "not measured"
    assert re.fullmatch(r"\d+\.\d\d \[.*\]", figures["WER %"])
    assert 'license: "apache-2.0"' in card
    assert "A CPU" in card
    assert "layers 0, 1, 11 of tiny" in card


def test_the_card_invents_nothing(tmp_path: Path, run: Callable[..., Path]) -> None:
    assert export.main([f"out={tmp_path / 'out'}"]) == 0
    card = (tmp_path / "out/README.md").read_text()
    assert "Nothing was measured: no runs were given." in card
    (line,) = (line for line in card.splitlines() if line.startswith("| no run"))
    assert line.count("not measured") == 7
    assert "Licence: not stated." in card
    assert "license:" not in card


def test_runs_of_another_draft_are_refused(
    tmp_path: Path, run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run("tiny:draft_fine")
    run(drafter="heads"), run(system="target")  # which name the draft and do not use it
    assert export.main([f"runs={folder}", f"out={tmp_path / 'out'}"]) == 2
    assert "holds no scored run of this draft" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_official(tmp_path / "source", 40)
    write_merged(tmp_path / "merged", tmp_path / "source")
    biased = tmp_path / "biased"
    inherited(LLASA, biased)
    state: dict[str, Tensor] = load_file(biased / "model.safetensors")
    save_file(state | {"lm_head.bias": torch.zeros(600)}, biased / "model.safetensors")
    wrong = {
        "draft.path=tiny:target_heads": "holds heads, no model without its target",
        "target.path=tiny:target_recurrent": "holds no speech LM known here",
        "draft.path=tiny:valle target.path=tiny:valle": "is of model_type valle, for which",
        "draft.path=tiny:draft_fine": "different vocabularies",
        f"draft.path={tmp_path}/source target.path={tmp_path}/merged": "are not laid out alike",
        f"draft.path={biased} target.path={LLASA}": "has a bias, which LlamaForCausalLM has not",
    }
    for settings, message in wrong.items():
        assert export.main([*settings.split(), f"out={tmp_path / 'out'}"]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("whose", "data"),
    [
        ("recorded", "Data: the codes in `some/codes`."),
        ("target", "Data: the target's own tokens in `some/own`."),
        ("mix", "Data: the codes in `some/codes` and the target's own tokens in `some/own`."),
    ],
)
def test_a_card_says_whose_tokens_and_which_step(whose: str, data: str, tmp_path: Path) -> None:
    settings = {
        "codes": "some/codes", "own": "some/own", "codes_from": whose,
        "losses": {"ce": 1.0}, "steps": 10, "batch_size": 2,
    }  # fmt: skip
    made: dict[str, Any] = {
        "layers": [0, 1], "target": "mine", "target_sha256": "0" * 64, "trained": ["a"],
        "settings": settings, "summary": {"steps": 10, "best_step": 10},
    }  # fmt: skip
    path = tmp_path / "inheritance.json"
    shape = {"num_hidden_layers": 2, "hidden_size": 64}
    written = Exported(shape, 0, [], [], {}, [])
    for best, said in (
        (10, ""),
        (5, "those after step 5, the best"),
        (0, "as inherited, the best"),
    ):
        made["summary"]["best_step"] = best
        path.write_text(json.dumps(made))
        config = export.main.compose([f"draft.path={tmp_path}"])
        training, on = filter(None, words_of(config, written).training.splitlines())
        assert on == data
        assert said in training
        assert ("The weights are" in training) is bool(said)


def test_a_card_has_the_folders_name_where_no_other_fits() -> None:
    config = export.main.compose(["draft.path=runs/mine"])
    assert draft_name(config) == "mine"
    assert draft_name(export.main.compose([])) == "tiny"
    assert draft_name(export.main.compose(["draft.path=runs/mine", "draft.name=x"])) == "x"
