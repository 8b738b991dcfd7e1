from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scored_runs import record

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.aggregate import aggregate, by_speaker
from speculative_tts.evaluation.compare import compare, compare_all
from speculative_tts.evaluation.statistics import bootstrap
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.schema.evaluate import EvalConfig

HOW = Bootstrap(draws=500)


@pytest.fixture
def seeds(make_run: Callable[..., Path]) -> list[Path]:
    """Three seeds of one configuration, scored without judges; seed s takes (5 + s) / 10 s."""
    folders = [
        make_run(
            f"ssd-{seed}{seed}345678"[:12],
            [record(f"u{i}", seed=seed, lm_seconds=(5 + seed) / 10) for i in range(10)],
            seed=seed,
        )
        for seed in range(3)
    ]
    command.run(EvalConfig(runs=str(folders[0].parent), metrics=[], draws=0))
    return folders


def test_seeds_are_averaged(seeds: list[Path]) -> None:
    result = aggregate(seeds, HOW)
    figure = result["metrics"]["lm_rtf"]
    assert result["seeds"] == [0, 1, 2]
    assert figure["value"] == pytest.approx(0.6)
    assert figure["seeds"] == pytest.approx({0: 0.5, 1: 0.6, 2: 0.7})
    assert figure["sd"] == pytest.approx(0.1)
    assert figure["n"] == result["n"] == 10
    assert figure["processes"] == 3  # a timed seed is a process, and these differ
    assert figure["low"] < 0.5
    assert figure["high"] > 0.7


def test_by_speaker_and_by_who_was_seen(make_run: Callable[..., Path]) -> None:
    folders = [
        make_run(
            f"target-{seed}2345678",
            [
                record(f"u{i}", seed=seed, speaker=f"s{i % 3}", seen=i % 3 < 2, lm_seconds=1.0 + i)
                for i in range(6)
            ],
            seed=seed,
        )
        for seed in range(2)
    ]
    command.run(EvalConfig(runs=str(folders[0].parent), metrics=[], draws=0))
    found = by_speaker(folders, HOW)
    assert set(found) == {"all", "seen", "unseen", "s0", "s1", "s2"}
    assert [found[name]["n"] for name in ("all", "seen", "unseen", "s0")] == [6, 4, 2, 2]
    assert found["all"] == aggregate(folders, HOW)
    assert found["s2"]["metrics"] == found["unseen"]["metrics"]
    assert found["s1"]["metrics"]["lm_rtf"]["value"] == pytest.approx((2 + 5) / 2)


def test_a_list_need_not_say_who_was_seen(seeds: list[Path]) -> None:
    assert not {"seen", "unseen"} & set(by_speaker(seeds, HOW))


def test_same_seed_twice_is_refused(seeds: list[Path]) -> None:
    with pytest.raises(ValueError, match="seed 0 occurs twice"):
        aggregate([seeds[0], seeds[0]])


def test_not_scored_yet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no scores.jsonl; run sst-eval on it first"):
        aggregate([tmp_path])


def test_comparison_averages_seeds_and_pairs_utterances(seeds: list[Path]) -> None:
    result = compare(seeds[:1], seeds[1:], ("lm_rtf", "wer"), HOW)
    assert result["lm_rtf"].value == pytest.approx(0.15)
    assert result["lm_rtf"].n == 10
    assert result["lm_rtf"].p == 2.0**-9  # ten signs agree
    assert result["wer"].value is None


def test_holm_over_systems(seeds: list[Path]) -> None:
    systems = {"one": [seeds[1]], "two": [seeds[2]]}
    result = compare_all([seeds[0]], systems, ("lm_rtf",), HOW)
    assert result["one"]["lm_rtf"].tests["holm"] == 2 * 2.0**-9


def test_nothing_shared(seeds: list[Path], make_run: Callable[..., Path]) -> None:
    other = make_run("other-01234567", [record("x0")])
    command.run(EvalConfig(runs=str(other), metrics=[], draws=0))
    with pytest.raises(ValueError, match="share no scored utterance; compare runs of one list"):
        compare(seeds, [other])
    with pytest.raises(ValueError, match="metric mos is unknown"):
        compare(seeds, seeds, ("mos",))


@pytest.mark.parametrize("seeds", [3, 5, 7])
@pytest.mark.parametrize("seed", range(5))
def test_averages_of_seeds_have_the_interval_of_their_sums(seed: int, seeds: int) -> None:
    """Thirds are rounded: draws that equal the figure were told from it, one processor's way."""
    rng = np.random.default_rng(seed)
    words = seeds * rng.integers(3, 9, 20)
    sums = np.stack([rng.binomial(words, 0.03), words], -1).astype(float)
    whole, averaged = bootstrap(sums), bootstrap(sums / seeds)
    assert (averaged.low, averaged.high) == pytest.approx((whole.low, whole.high), rel=1e-12)
