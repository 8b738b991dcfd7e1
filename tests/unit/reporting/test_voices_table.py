"""results/sentences/voices.md has what the scores that ship say of each voice."""

from kept_runs import RESULTS
from voices import NAME, table

from speculative_tts.reporting.tables import comma_separated, markdown


def test_the_table_of_voices_follows_from_the_scores() -> None:
    made = table(RESULTS)
    for ending, text in (("md", markdown(made)), ("csv", comma_separated(made))):
        assert (RESULTS / f"{NAME}.{ending}").read_text(encoding="utf-8") == text
