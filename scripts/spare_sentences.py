"""Write the held-out sentences that neither the test nor the dev list took, for a list of its own.

    python scripts/spare_sentences.py results/sentences/lists/spare.jsonl   # needs wordnet-base

Texts, seed and order are those of the shipped list, which is drawn again and compared. The voices
take turns with the shipped prompts; each gets as many sentences.
"""

import sys
from itertools import cycle
from os.path import relpath
from pathlib import Path

from speculative_tts.assets import resolve
from speculative_tts.records import read_jsonl, write_jsonl
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.sentence_lists import PROMPTS, plan_lists
from speculative_tts_makers.corpora.texts import sentences

SHIPPED = resolve("tiny:testset_sentences")
CONFIG = PrepareConfig()


def spare_rows(folder: Path) -> list[dict[str, str]]:
    """Return rows whose prompts are named as seen from `folder`; ValueError for other texts."""
    shipped = [*read_jsonl(SHIPPED / "list.jsonl")]
    voices = [*dict.fromkeys(row["speaker"] for row in shipped)]
    lists, spare = plan_lists(sentences([Path(CONFIG.texts[0])]), voices, CONFIG.seed)
    if [row.text for row in lists["test"]] != [row["text"] for row in shipped]:
        raise ValueError(
            f"{CONFIG.texts[0]} gives another test list than the one that ships; "
            "install WordNet 3.0 (apt-get install wordnet-base)"
        )
    prompts = shipped[: PROMPTS * len(voices)]
    spoken = spare[: len(spare) // len(voices) * len(voices)]
    return [
        {
            "id": f"spare-{like['speaker']}-{number // len(voices)}",
            "text": text,
            "speaker": like["speaker"],
            "prompt_audio": relpath(SHIPPED / like["prompt_audio"], folder),
            "prompt_text": like["prompt_text"],
        }
        for number, (text, like) in enumerate(zip(spoken, cycle(prompts)))
    ]


def main() -> None:
    """Write the rows into the given file."""
    out = Path(sys.argv[1])
    rows = spare_rows(out.parent)
    write_jsonl(out, rows)
    print(f"{out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
