"""sst-bench random=: what is timed is what was asked for."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from speculative_tts.bench import random, random_cosyvoice
from speculative_tts.commands import bench
from speculative_tts.decoding.acceptance import Tolerance
from speculative_tts.decoding.groups import Group
from speculative_tts.schema.decode import ExactRule, ToleranceRule

SMALL = dataclasses.replace(
    random_cosyvoice.CONFIG,
    hidden=32,
    heads=4,
    head_dim=8,
    intermediate=48,
    vocab_size=random_cosyvoice.CODES + 3 + 100 + 2,
)
ASKED = ["random=cosyvoice2", "limit=1", "tokens=6", "steps=1", "draws=10"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape shrunken; everything else as it is."""
    use = dataclasses.replace(
        random.KINDS["cosyvoice2"],
        make=lambda dtype, device, seed: random_cosyvoice.cosyvoice2(dtype, device, seed, SMALL),
    )
    monkeypatch.setitem(random.KINDS, "cosyvoice2", use)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("rule", "kind", "told"),
    [
        (["rule=group", "rule.groups.mean_size=40"], Group, "rule group, synthetic groups of 40"),
        (["rule.beta=0.3"], Tolerance, "rule tolerance, beta 0.3"),
        ([], Tolerance, "rule exact"),
    ],
)
def test_the_rule_that_was_asked_for_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: list[str], kind: type, told: str
) -> None:
    """rule=group timed the exact rule and did not say so."""
    timed = []
    run = random.continue_prompts

    def watched(*arguments: object, **settings: object) -> object:
        timed.append(arguments[2])
        return run(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(random, "continue_prompts", watched)
    assert bench.main([*ASKED, *rule, f"out={tmp_path}"]) == 0
    assert [type(one) for one in timed] == [kind]
    assert told in (tmp_path / "cosyvoice2_random.md").read_text()
    made = json.loads((tmp_path / "cosyvoice2_random.json").read_text())
    assert 0 <= made["acceptance_rate"] <= 1


def test_beta_is_the_tolerances_alone() -> None:
    cpu = torch.device("cpu")
    for rule, beta in ((ExactRule(), 0.0), (ToleranceRule(beta=0.3), 0.3)):
        made = random.rule_of(rule, 50, cpu)
        assert isinstance(made, Tolerance)
        assert made.beta == beta


@pytest.mark.parametrize("key", ["rule.groups.theta=0.5", "rule.groups.path=x"])
def test_groups_by_similarity_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    assert bench.main([*ASKED, "rule=group", key, f"out={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "give rule.groups.mean_size=<tokens of a group>" in line
