"""How many examples a property takes that takes more or fewer than its profile says."""

from hypothesis import settings


def examples(number: int) -> settings:
    """Return settings of `number` examples; `make test` takes its share of them, 15 of 50."""
    share = min(1.0, settings.default.max_examples / 50)
    return settings(max_examples=max(1, round(number * share)), deadline=None)
