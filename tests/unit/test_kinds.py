"""Keys that choose the kind of a rule or a drafter."""

from dataclasses import dataclass

import pytest

from speculative_tts.commands import decode
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.kinds import IMPLIED, asked_for, kinds_in, own_keys
from speculative_tts.schema.rules import ExactRule, RuleConfig

FROZEN = {  # what command lines of users hold: rows may be added, none may change
    "drafter.entropy": "lm",
    "drafter.longest": "lookup",
    "drafter.shortest": "lookup",
    "drafter.codes": "recurrent",
    "drafter.dtype": "recurrent",
    "drafter.path": "recurrent",
    "rule.beta": "tolerance",
    "rule.groups": "group",
    "rule.alpha": "typical",
    "rule.epsilon": "typical",
    "rule.most": "divergence",
    "rule.ratio": "neighbours",
    "rule.distance": "dynamic",
    "rule.gap": "dynamic",
    "rule.reach": "dynamic",
}


@dataclass
class Power(ExactRule):
    """A rule that comes later, one of whose keys an older rule has too."""

    name: str = "power"
    alpha: float = 0.5
    exponent: float = 1.0


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Power` among the rules, where Python would never forget a subclass of their base."""
    rules = [*RuleConfig.__subclasses__(), Power]
    monkeypatch.setattr(RuleConfig, "__subclasses__", staticmethod(lambda: rules))


def test_what_a_key_chooses_is_frozen() -> None:
    assert FROZEN.items() <= IMPLIED.items()
    known = kinds_in(DecodeConfig)
    for key, kind in IMPLIED.items():
        group, _, own = key.partition(".")
        assert own in own_keys(known[group][kind])


@pytest.mark.usefixtures("later")
def test_a_later_rule_changes_no_older_command() -> None:
    """A new rule with a key `alpha` made `rule.alpha=0.3`, which chose typical, ambiguous."""
    assert "power" in kinds_in(DecodeConfig)["rule"]
    assert ("rule.alpha", "rule=typical") in asked_for(DecodeConfig)
    assert decode.main.compose(["target=tiny", "rule.alpha=0.3"]).rule.name == "typical"
    assert "rule.exponent" not in dict(asked_for(DecodeConfig))
