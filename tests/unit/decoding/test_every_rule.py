"""What every rule of the registry must have: a law with its tests, a row in the docs.

The law of `rule_laws` is held against the rule's closed forms by `tests/property/test_rules`
and against the loop's outputs by `tests/statistical/test_rule_exactness`; both go through the
registry too.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rule_laws import CASES, COVER, NEAREST, VECTORS, built, shipped_rules

from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.schema.rules import ExactRule, GroupRule, RuleConfig

ROOT = Path(__file__).parents[3]
RULES: dict[str, type[RuleConfig]] = shipped_rules()
_cover = COVER.rule()
ARTEFACTS = SimpleNamespace(  # of six tokens, as `Artefacts`
    memberships={
        name: array
        for name, array in _cover.memberships.items()
        if name in ("token_offsets", "token_groups", "group_offsets", "group_tokens", "scores")
    },
    nearest=lambda source, number: torch.tensor(NEAREST)[:, :number],
    code_vectors=lambda source: VECTORS,
    readable=lambda x: True,
)


def missing(rules: dict[str, type[RuleConfig]]) -> list[str]:
    """What these rules lack, a line each."""
    docs, lines = (ROOT / "docs/commands.md").read_text(), []
    for name, config in rules.items():
        if f"\n| `{name}`" not in docs:
            lines.append(f"{name}: a row of the rules in docs/commands.md")
        if not CASES.get(name):
            lines.append(f"{name}: its paper's law in tests/rule_laws.py")
        elif type(built(config(), ARTEFACTS)) not in {type(case.rule) for case in CASES[name]}:
            lines.append(f"{name}: a law of the rule that its settings build")
    return lines


def test_every_rule_has_its_law_and_docs() -> None:
    assert len(RULES) >= 8
    assert missing(RULES) == []


def test_a_forgotten_rule_is_found() -> None:
    """A control: a planted name with none of it, and settings that build another rule."""
    assert missing({"forgotten": ExactRule}) == [
        "forgotten: a row of the rules in docs/commands.md",
        "forgotten: its paper's law in tests/rule_laws.py",
    ]
    assert missing({"exact": GroupRule}) == ["exact: a law of the rule that its settings build"]


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("name", ["exact", "group"])
def test_rules_that_judge_blocks_say_so(name: str, block: bool) -> None:
    rule: AcceptanceRule = built(RULES[name](block=block), ARTEFACTS)  # type: ignore[call-arg]
    assert rule.judges_blocks is block


@pytest.mark.parametrize("name", RULES)
def test_rules_of_the_compiled_engine_say_so(name: str) -> None:
    """`test_native_laws` holds their native form against them."""
    assert (CASES[name][0].rule.native() is not None) is (name in ("exact", "tolerance", "group"))
