"""Pronounce words that are in no dictionary, from their letters: a joint n-gram model.

A word is a sequence of units, each some letters with the phones they stand for; the model knows how
often a unit follows others, backs off to shorter histories (Witten and Bell), and a beam search
finds the likeliest units that spell the word. `scripts/make_english.py` learns it from CMUdict.
"""

from __future__ import annotations

import lzma
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Unit = tuple[str, str]  # letters, phones between spaces
History = tuple[int, ...]

EDGE = 0  # the unit before the first and after the last
BEAM = 12
SILENT = "_"  # phones of letters that are silent, in files


@dataclass(frozen=True)
class LetterToSound:
    """Counts of units after histories of up to `order` - 1 units."""

    units: tuple[Unit, ...]  # the first is the edge
    order: int
    counts: dict[History, dict[int, int]] = field(repr=False)

    def phones(self, word: str) -> list[str]:
        """Return the likeliest phones of a lower-case word; letters that no unit has are silent."""
        beams: list[dict[History, tuple[float, tuple[int, ...]]]] = [
            {} for _ in range(len(word) + 1)
        ]
        beams[0] = {(EDGE,) * (self.order - 1): (0.0, ())}
        for at in range(len(word)):
            best = sorted(beams[at].items(), key=lambda item: -item[1][0])[:BEAM]
            for history, (score, path) in best:
                for letters, unit in self._spelling(word, at):
                    total = score + self._log_chance(history, unit)
                    there, after = beams[at + letters], (*history, unit)[1:]
                    if after not in there or there[after][0] < total:
                        there[after] = (total, (*path, unit))
        if not beams[-1]:
            known = "".join(letter for letter in word if letter in self._single)
            return self.phones(known) if known != word else []
        ends = (
            (score + self._log_chance(history, EDGE), path)
            for history, (score, path) in beams[-1].items()
        )
        return [phone for unit in max(ends)[1] for phone in self.units[unit][1].split()]

    def _spelling(self, word: str, at: int) -> list[tuple[int, int]]:
        """Units that can come next, with the letters they take."""
        lengths = (1, 2)
        return [
            (n, unit)
            for n in lengths
            for unit in self._by_letters.get(word[at : at + n], ())
            if at + n <= len(word)
        ]

    def _log_chance(self, history: History, unit: int) -> float:
        chance = 1.0 / len(self.units)
        for length in range(self.order):
            after = self.counts.get(history[len(history) - length :])
            if after is None:
                break
            total, kinds = self._totals[history[len(history) - length :]], len(after)
            chance = (after.get(unit, 0) + kinds * chance) / (total + kinds)
        return math.log(chance)

    @cached_property
    def _totals(self) -> dict[History, int]:
        return {history: sum(after.values()) for history, after in self.counts.items()}

    @cached_property
    def _by_letters(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, (letters, _) in enumerate(self.units):
            if number != EDGE:
                found.setdefault(letters, []).append(number)
        return found

    @cached_property
    def _single(self) -> frozenset[str]:
        return frozenset(letters for letters, _ in self.units if len(letters) == 1)

    @classmethod
    def load(cls, path: Path) -> LetterToSound:
        """Read what `scripts/make_english.py` wrote: units and counts as compressed text."""
        lines = lzma.decompress(path.read_bytes()).decode().split("\n")
        order, n_units = int(lines[0]), int(lines[1])
        units = (line.split("\t") for line in lines[2 : 2 + n_units])
        counts: dict[History, dict[int, int]] = {}
        for line in lines[2 + n_units :]:
            history, _, after = line.partition("\t")
            pairs = (item.partition(":") for item in after.split())
            key = tuple(map(int, history.split()))
            counts[key] = {int(unit): int(count or 1) for unit, _, count in pairs}
        return cls(tuple((a, "" if b == SILENT else b) for a, b in units), order, counts)
