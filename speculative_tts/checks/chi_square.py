"""Compute Pearson's chi-square of counts against a distribution, and of two samples.

Bounds have a false-alarm rate of 1e-9.
"""

import numpy as np
from scipy.stats import chi2

FALSE_ALARM = 1e-9  # of each comparison
FEWEST = 25  # expected counts below which cells are pooled


def chi_square(counts: np.ndarray, law: np.ndarray) -> tuple[float, float]:
    """Return Pearson's statistic of counts against a distribution, and its bound.

    The statistic is infinite if an outcome of probability 0 was drawn.
    """
    total = counts.sum()
    if (counts[law <= 0] > 0).any():
        return float("inf"), 0.0
    expected = law / law.sum() * total
    large = expected >= FEWEST
    seen = np.append(counts[large], counts[~large].sum()).astype(np.float64)
    wanted = np.append(expected[large], expected[~large].sum())
    if len(wanted) > 1 and wanted[-1] < FEWEST:  # too small a rest joins the smallest cell
        least = int(wanted[:-1].argmin())
        wanted[least] += wanted[-1]
        seen[least] += seen[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    return float(((seen - wanted) ** 2 / wanted).sum()), _bound(len(wanted) - 1)


def two_samples(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the chi-square of homogeneity of two samples, rare cells pooled, and its bound."""
    cells, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    table = np.stack(
        [np.bincount(part, minlength=len(cells)) for part in np.split(place, [len(one)])]
    ).astype(np.float64)
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    rare = expected.min(0) < FEWEST
    table = np.hstack([table[:, ~rare], table[:, rare].sum(1, keepdims=True)])
    table = table[:, table.sum(0) > 0]
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    return float(((table - expected) ** 2 / expected).sum()), _bound(table.shape[1] - 1)


def _bound(freedom: int) -> float:
    return float(chi2.isf(FALSE_ALARM, max(freedom, 1)))
