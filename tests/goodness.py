"""Chi-square of outputs against an exact law, for the statistical tests."""

from collections import Counter

from reference import Law, at, marginal
from scipy.stats import chi2

from speculative_tts.decoding.outcome import Outcome

FALSE_ALARM = 1e-9  # of one comparison
FEWEST = 25  # expected count below which cells are pooled: the tail of chi-square needs full cells
PLACES = ((0,), (1,), (2,), (3,), (0, 1), (1, 2), (2, 3), (0, 2))


def chi_square(counts: Counter[tuple[int, ...]], law: Law) -> tuple[float, float]:
    """Pearson's statistic and the bound it passes with probability FALSE_ALARM. Infinite where the
    law is 0.
    """
    total = sum(counts.values())
    if any(law.get(cell, 0.0) == 0 for cell in counts):
        return float("inf"), 0.0
    cells = [(counts[cell], total * mass) for cell, mass in law.items()]
    large = [cell for cell in cells if cell[1] >= FEWEST]
    small = [cell for cell in cells if cell[1] < FEWEST]
    pooled = (sum(seen for seen, _ in small), sum(expected for _, expected in small))
    if pooled[1] >= FEWEST or not large:
        large.append(pooled)
    elif small:
        least = min(range(len(large)), key=lambda index: large[index][1])
        large[least] = (large[least][0] + pooled[0], large[least][1] + pooled[1])
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in large)
    return statistic, float(chi2.isf(FALSE_ALARM, max(len(large) - 1, 1)))


def mismatches(
    outcomes: list[Outcome], law: Law, compared: tuple[tuple[int, ...], ...] = PLACES
) -> list[str]:
    """Return the tuples of places whose counts of tokens do not follow `law`, one line each."""
    lines = []
    for places in compared:
        counts = Counter(at(outcome.tokens, places) for outcome in outcomes)
        statistic, bound = chi_square(counts, marginal(law, places))
        if statistic > bound:
            lines.append(f"tokens {places}: chi-square {statistic:.1f} > {bound:.1f}")
    return lines
