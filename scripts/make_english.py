"""Make assets/english of CMUdict: the dictionary in Flite's phones, and the letter-to-sound model.

    python scripts/make_english.py cmudict.dict [--held-out N]

With --held-out every N-th word is kept from the model, and how many of them come out right is
printed; nothing is written then.
"""

from __future__ import annotations

import lzma
import math
import re
import sys
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

from speculative_tts.files import write_atomic
from speculative_tts.text.letters import EDGE, SILENT, History, LetterToSound, Unit
from speculative_tts.text.lexicon import FOLDER, LETTERS, LEXICON

ORDER = 4
SHAPES = ((1, 1), (1, 0), (2, 1), (1, 2), (2, 2))  # letters and phones of a unit
ROUNDS, SAMPLE = 4, 15_000
NEW = 9.0  # cost of a unit that is not known yet


def read_dictionary(path: Path) -> dict[str, list[str]]:
    """The first pronunciation of each word, stress left out but for the schwa."""
    words: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, _, said = line.partition("#")[0].strip().partition(" ")
        if re.fullmatch(r"[a-z']+", word) and word not in words:
            words[word] = [phone_of(phone) for phone in said.split()]
    return words


def phone_of(phone: str) -> str:
    """Flite's phone of one of CMUdict's: unstressed AH is the schwa."""
    return "ax" if phone == "AH0" else re.sub(r"\d", "", phone).lower()


def align(letters: str, phones: list[str], cost: dict[Unit, float]) -> list[Unit] | None:
    """The cheapest units that spell the word and say it; None where none fit."""
    best: dict[tuple[int, int], tuple[float, tuple[int, int] | None]] = {(0, 0): (0.0, None)}
    for i, j in product(range(len(letters)), range(len(phones) + 1)):
        if (i, j) not in best:
            continue
        for a, b in SHAPES:
            there = (i + a, j + b)
            unit = (letters[i : i + a], " ".join(phones[j : j + b]))
            total = best[i, j][0] + cost.get(unit, NEW + 2 * (a + b > 2))
            fits = there[0] <= len(letters) and there[1] <= len(phones)
            if fits and total < best.get(there, (math.inf, None))[0]:
                best[there] = (total, (a, b))
    at, units = (len(letters), len(phones)), list[Unit]()
    while (found := best.get(at)) is not None and found[1] is not None:
        a, b = found[1]
        units.append((letters[at[0] - a : at[0]], " ".join(phones[at[1] - b : at[1]])))
        at = (at[0] - a, at[1] - b)
    return units[::-1] if at == (0, 0) and units else None


def costs(words: list[list[Unit]]) -> dict[Unit, float]:
    """-log of how often each unit is among all."""
    counts = Counter(unit for word in words for unit in word)
    total = sum(counts.values())
    return {unit: -math.log(count / total) for unit, count in counts.items()}


def learn(words: dict[str, list[str]]) -> LetterToSound:
    """Align all words by units learnt on some of them, and count."""
    plain = {word: said for word, said in words.items() if "'" not in word}
    some = list(plain.items())[:: max(1, len(plain) // SAMPLE)]
    cost: dict[Unit, float] = {}
    for _ in range(ROUNDS):
        aligned = [align(*item, cost) for item in some]
        cost = costs([word for word in aligned if word])
    every = [word for item in plain.items() if (word := align(*item, cost))]
    frequent = {unit for unit, count in Counter(u for w in every for u in w).items() if count > 2}
    return counted([word for word in every if frequent.issuperset(word)])


def counted(words: list[list[Unit]]) -> LetterToSound:
    """Count the units of aligned words after each history."""
    numbers: dict[Unit, int] = {("", ""): EDGE}
    counts: defaultdict[History, Counter[int]] = defaultdict(Counter)
    for word in words:
        said = [numbers.setdefault(unit, len(numbers)) for unit in word]
        row = [EDGE] * (ORDER - 1) + [*said, EDGE]
        for at in range(ORDER - 1, len(row)):
            for length in range(ORDER):
                counts[tuple(row[at - length : at])][row[at]] += 1
    return LetterToSound(
        tuple(numbers), ORDER, {history: dict(after) for history, after in counts.items()}
    )


def save(model: LetterToSound, path: Path) -> None:
    """Write units and counts as compressed text."""
    lines = [str(model.order), str(len(model.units))]
    lines += [f"{letters}\t{phones or SILENT}" for letters, phones in model.units]
    for history, after in sorted(model.counts.items(), key=lambda item: (len(item[0]), item[0])):
        said = " ".join(
            f"{unit}:{count}" if count > 1 else str(unit) for unit, count in sorted(after.items())
        )
        lines.append(f"{' '.join(map(str, history))}\t{said}")
    write_atomic(path, lzma.compress("\n".join(lines).encode(), preset=9))


def main() -> None:
    """See the module."""
    words = read_dictionary(Path(sys.argv[1]))
    if "--held-out" in sys.argv:
        every = int(sys.argv[sys.argv.index("--held-out") + 1])
        held = {
            w: said for n, (w, said) in enumerate(words.items()) if n % every == 0 and "'" not in w
        }
        model = learn({w: said for w, said in words.items() if w not in held})
        right = sum(model.phones(word) == said for word, said in held.items())
        print(f"{right} of {len(held)} held-out words right")
        return
    text = "\n".join(f"{word} {' '.join(said)}" for word, said in sorted(words.items()))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / LEXICON).write_bytes(lzma.compress(text.encode(), preset=9))
    save(learn(words), FOLDER / LETTERS)


if __name__ == "__main__":
    main()
