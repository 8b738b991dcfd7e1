"""CosyVoice 2 against what the official code computed (tests/golden/cosyvoice2)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from speculative_tts.checks.chi_square import chi_square, two_samples
from speculative_tts.checks.cosyvoice2 import check, closed_form
from speculative_tts.checks.registry import CheckRow, FormatError

GOLDEN = Path(__file__).parents[2] / "golden/cosyvoice2"


@pytest.fixture(scope="module")
def rows(kernels: str) -> list[CheckRow]:
    return list(check(GOLDEN))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("greedy", 36),
        ("teacher forced", 18),
        ("bistream", 9),
        ("tokenizer", 16),
        ("repetition-aware sampling", 20),
        ("sequences, autoregressive", 7),
        ("sequences, speculative", 7),
    ],
)
def test_all_cases_pass(rows: list[CheckRow], kind: str, count: int) -> None:
    """Each chi-square has a false-alarm rate of 1e-9; seeds are fixed."""
    own = [row for row in rows if row.case.startswith(kind)]
    assert len(own) == count
    assert [row for row in own if not row.passed] == []


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("top1_in_window", {"hist": []}),
        ("legacy_no_rep_mask", {"variant": "head"}),
        ("eos_masked", {"ignore_eos": False}),
        ("legacy_retry_all_stops", {"variant": "retry_eos"}),
        ("top1_at_window_edge_in", {"hist": [0] * 12}),
        ("flat_top_k_limits", {"prm": {"top_p": 0.8, "top_k": 24, "win_size": 10, "tau_r": 0.1}}),
    ],
)
def test_tables_find_another_sampler(case: str, fault: dict[str, object]) -> None:
    """Negative controls: the comparison has the power to tell versions and histories apart."""
    (facts,) = [c for c in json.loads((GOLDEN / "ras_cases.json").read_text()) if c["id"] == case]
    arrays = np.load(GOLDEN / "ras_counts.npz")

    def passed(facts: dict[str, object]) -> bool:
        law: Tensor = closed_form(facts, torch.from_numpy(arrays[f"{case}/logp"]))
        statistic, bound = chi_square(arrays[f"{case}/counts"], law.double().numpy())
        return statistic <= bound

    assert passed(facts)
    assert not passed(facts | fault)


def test_two_samples_of_other_laws_differ() -> None:
    """n = 3,000 each; a negative control, and equal samples as its counterpart."""
    rng = np.random.default_rng(0)
    one, same, other = (rng.integers(0, high, 3000) for high in (20, 20, 22))
    statistic, bound = two_samples(one, same)
    assert statistic < bound
    statistic, bound = two_samples(one, other)
    assert statistic > bound


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cases.json not found"):
        list(check(tmp_path))
    (tmp_path / "cases.json").write_text("{}")
    with pytest.raises(FormatError, match="has no list 'greedy'"):
        list(check(tmp_path))
    (tmp_path / "cases.json").write_text('{"greedy": [{"id": "one"}]}')  # ended in a KeyError
    with pytest.raises(FormatError, match=r"cases\.json has no 'model'"):
        list(check(tmp_path))


def test_a_changed_weight_is_found(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "golden")
    path = tmp_path / "golden/small/llm.pt"
    state = torch.load(path)
    state["llm_decoder.bias"][7] += 0.01
    torch.save(state, path)
    wrong = [r for r in check_until(tmp_path / "golden", "teacher") if not r.passed]
    assert any("log-probabilities" in row.case for row in wrong)


def check_until(folder: Path, kind: str) -> list[CheckRow]:
    rows = []
    for row in check(folder):
        if row.case.startswith(kind):
            return rows
        rows.append(row)
    return rows
