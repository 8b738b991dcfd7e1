from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scored_runs import record

from speculative_tts.evaluation.efficiency import per_position
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, row_of
from speculative_tts.evaluation.summary import Bootstrap, figures
from speculative_tts.records import DecodeRecord, Split, to_row
from speculative_tts.typed import typed

NO_DRAWS = Bootstrap(draws=0)
LM_FIGURES = ("lm_rtf", "time_per_token_ms", "tokens_per_second", "speedup", "speedup_seconds")


def row(one: DecodeRecord) -> ScoreRow:
    return row_of(Path("run"), one)


def values(rows: list[ScoreRow]) -> dict[str, float | None]:
    return {name: figure["value"] for name, figure in figures(rows, NO_DRAWS).items()}


def test_figures_of_known_counts() -> None:
    found = values([row(record("a")), row(record("b", lm_seconds=1.5, tokens=75))])
    assert found["lm_rtf"] == pytest.approx(2.0 / 2.0)
    assert found["time_per_token_ms"] == pytest.approx(20.0)
    assert found["tokens_per_second"] == pytest.approx(50.0)
    assert found["speedup"] == pytest.approx(50.0 / 25.0)
    assert found["speedup_seconds"] == pytest.approx(1.6 / 2.0)
    assert found["acceptance_rate"] == pytest.approx(0.5)
    assert found["acceptance_length"] == pytest.approx(50 / 20)
    assert found["acceptance_length_without_bonus"] == pytest.approx(30 / 20)
    assert found["stopped_at_max"] == 0.0
    assert found["length_ratio"] is None


def test_a_token_behind_the_first_is_compared_without_the_prefill() -> None:
    """Times that somebody did not tell take no part, as of runs of before."""
    clocks = {"prefill_seconds": 0.1, "baseline_prefill_seconds": 0.2}
    told = row(record("a", **clocks))  # 24 tokens in 0.4 s, 19 of the target in 0.6
    found = values([told, row(record("b")), row(record("c", **{**clocks, "lm_seconds": None}))])
    assert found["tpot_speedup"] == pytest.approx((24 / 0.4) / (19 / 0.6))
    assert found["prefill_share"] == pytest.approx(0.1 / 0.5)
    assert values([row(record("b"))])["tpot_speedup"] is None


def test_parts_of_the_time_add_up() -> None:
    """LM, flow and vocoder; where the codec was not timed there is no end to end."""
    after = {"codec_seconds": 0.3, "flow_seconds": 0.2}
    found = values([row(record("a", **after)), row(record("b", nar_seconds=0.1, **after))])
    assert found["rtf"] == pytest.approx((2 * 0.5 + 2 * 0.3 + 0.1) / 2.0)
    parts = [found[f"{name}_rtf"] for name in ("lm", "flow", "vocoder", "codec")]
    assert parts == pytest.approx([0.5, 0.2, 0.1, 0.3])
    assert values([row(record("a"))])["rtf"] is None


def test_a_round_emits_one_token_more_than_it_accepts() -> None:
    """The prefill's token is no round's: a fully accepted round of three is four tokens long."""
    full = record("a", tokens=1 + 10 * 4, accepted_per_position=[10] * 3, residuals=0, bonuses=10)
    assert values([row(full)])["acceptance_length"] == 4.0
    found = values([row(full), row(record("b")), row(record("c", bonuses=1))])  # c: a bare round
    lengths = [found[f"acceptance_length{end}"] for end in ("", "_without_bonus")]
    assert None not in lengths
    assert 0 < lengths[0] - lengths[1] <= 1


def test_lm_rtf_is_time_per_token_times_token_rate() -> None:
    rng = np.random.default_rng(0)
    records = [
        record(
            f"u{i}",
            tokens=int(rng.integers(1, 90)),
            lm_seconds=float(rng.uniform(0.1, 2)),
            audio_seconds=float(rng.uniform(0.5, 4)),
        )
        for i in range(20)
    ]
    found = values([row(one) for one in records])
    rate = sum(one.tokens for one in records) / sum(one.audio_seconds for one in records)
    assert found["lm_rtf"] is not None
    assert found["time_per_token_ms"] is not None
    assert found["tokens_per_second"] is not None
    assert found["lm_rtf"] == pytest.approx(found["time_per_token_ms"] / 1000 * rate)
    assert found["tokens_per_second"] * found["time_per_token_ms"] == pytest.approx(1000)


def test_no_language_model_means_no_speed() -> None:
    silent = record("a", lm_seconds=0.0, rounds=0, stop="", tokens=0)
    found = values([row(silent)])
    assert {name: found[name] for name in LM_FIGURES} == dict.fromkeys(LM_FIGURES)
    assert found["acceptance_rate"] is None
    assert found["stopped_at_max"] is None


def test_autoregressive_has_speed_but_no_acceptance() -> None:
    alone = record("a", rounds=0, baseline_tokens=None)
    found = values([row(alone)])
    assert found["lm_rtf"] == 0.5
    assert found["acceptance_rate"] is None
    assert found["acceptance_length"] is None
    assert found["speedup"] is None


def test_an_utterance_without_tokens_counts_its_time_and_is_flagged() -> None:
    empty = row(record("b", tokens=0, codes=[], audio_seconds=0.0))
    assert empty.flags == ["no_codes"]
    at_once = row(record("b", tokens=1, codes=[], audio_seconds=0.1))  # its end alone
    assert at_once.flags == ["no_codes"]
    assert row(record("b")).flags == []
    assert values([row(record("a")), empty])["lm_rtf"] == pytest.approx(1.0)
    assert values([empty])["lm_rtf"] is None


def test_per_position_with_rounds_of_different_depth() -> None:
    rows = [
        row(record("a")),
        row(record("b", drafted_per_position=[10], accepted_per_position=[2])),
    ]
    assert per_position(rows)["acceptance"] == pytest.approx([0.5, 0.5, 0.2])
    assert per_position(rows)["tv"] == []


def test_distortion_and_shares_of_instrumented_utterances() -> None:
    split = Split(1.0, 2.0, 1.0, tv=[1.0, 0.5], kl=[2.0, 0.0], positions=[10, 5])
    rows = [row(record("a", split=split)), row(record("b"))]
    all_figures = figures(rows, NO_DRAWS)
    assert all_figures["tv"] == {"value": pytest.approx(0.1), "low": None, "high": None, "n": 1}
    assert all_figures["verify_share"]["value"] == pytest.approx(0.5)
    assert per_position(rows)["kl"] == pytest.approx([0.2, 0.0])


def test_trials_are_those_of_a_rejection_and_old_records_have_none() -> None:
    split = Split(
        1.0, 2.0, 1.0, [1.0], [1.0], [9], expected_rejections=[2.0], expected_trials=[5.0]
    )
    rows = [row(record("a", split=split)), row(record("b"))]
    assert values(rows)["expected_trials"] == 2.5
    old = to_row(record("c", split=split))
    for name in ("expected_rejections", "expected_trials"):
        del old["split"][name]
    assert values([row(typed(DecodeRecord, old, "old"))])["expected_trials"] is None


def test_stopped_at_max_is_a_share() -> None:
    rows = [row(record("a")), row(record("b", stop="max_length"))]
    assert values(rows)["stopped_at_max"] == 0.5


def test_wer_is_of_the_corpus_and_wer_mean_of_utterances() -> None:
    """A text without words added its insertions to the corpus rate: 68 % of nothing."""
    counts = {"substitutions": 1, "deletions": 0, "insertions": 0}
    rows = [
        replace(row(record("a")), columns=counts | {"words": 1}),
        replace(row(record("b")), columns=counts | {"words": 3, "substitutions": 0}),
        replace(
            row(record("c")), columns=counts | {"words": 0, "substitutions": 0, "insertions": 2}
        ),
    ]
    found = figures(rows, NO_DRAWS)
    assert found["wer"] == {"value": pytest.approx(1 / 4), "low": None, "high": None, "n": 2}
    assert found["word_lost"]["n"] == 2
    assert found["wer_mean"] == {"value": pytest.approx(0.5), "low": None, "high": None, "n": 2}


def test_every_figure_of_nothing_is_null() -> None:
    empty = {"value": None, "low": None, "high": None, "n": 0}
    assert figures([], Bootstrap()) == dict.fromkeys(METRICS, empty)
