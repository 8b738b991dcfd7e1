"""results/differences.md has what the scores that ship say of its pairs."""

import pytest
from differences import NAME, Pair, line, table
from kept_runs import RESULTS

from speculative_tts.reporting.tables import comma_separated, markdown


def test_the_table_follows_from_the_scores() -> None:
    made = table(RESULTS)
    for ending, text in (("md", markdown(made)), ("csv", comma_separated(made))):
        assert (RESULTS / f"{NAME}.{ending}").read_text(encoding="utf-8") == text


def test_a_system_whose_scores_do_not_ship_is_named() -> None:
    pair = Pair("a minus b", ("sentences", "no-such-run"), ("sentences", "target-s0-"))
    with pytest.raises(ValueError, match="sentences has no scores of no-such-run; keep them"):
        line(RESULTS, pair)
