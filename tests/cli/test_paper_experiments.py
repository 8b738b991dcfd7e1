"""The papers' experiments have their settings (that each composes, test_configs tests)."""

import pytest

from speculative_tts.commands.decode import main
from speculative_tts.schema import Device, DType, Similarity, System


@pytest.mark.parametrize(
    ("experiment", "target", "lookahead", "data"),
    [
        ("ssd/paper_table1", "models/CosyVoice2-0.5B", 3, "unicats_b"),
        ("pcg/paper_table1", "models/Llasa-8B", 3, "test_clean_500"),
        ("mtp/paper_table2", "models/uslm", 3, "test_clean"),
    ],
)
def test_settings(experiment: str, target: str, lookahead: int, data: str) -> None:
    config = main.compose([f"experiment={experiment}"])
    assert (config.target.path, config.lookahead, config.data.name) == (target, lookahead, data)
    assert (config.runtime.device, config.runtime.dtype) == (Device.cuda, DType.bfloat16)
    assert config.limit is None


def test_own_places_win() -> None:
    config = main.compose(["experiment=ssd/paper_table1", "target.path=/m/x", "limit=5"])
    assert (config.target.path, config.limit) == ("/m/x", 5)


def test_pcg_rules() -> None:
    ours = main.compose(["experiment=pcg/paper_table1", "method=pcg"])
    theirs = main.compose(["experiment=pcg/paper_table1", "method=ssd"])
    assert (ours.rule.groups.theta, theirs.rule.beta) == (0.42, 0.3)
    assert ours.sampling.temperature == 0.8
    swap = main.compose(["experiment=pcg/paper_table2"])
    assert (swap.system, swap.rule.groups.source) == (System.swap, Similarity.embedding)
