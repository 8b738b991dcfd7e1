"""Speak the sentences of the shipped list again: the package has their texts and no recordings.

    python scripts/speak_list.py runs/sentences/list   # needs flite; as `make sentences-pcg` does

The folder gets list.jsonl, whose rows are the shipped ones, the recordings and the voice prompts.
`data.path=<folder>/list.jsonl` decodes it.
"""

import sys
from pathlib import Path

from speculative_tts.assets import resolve
from speculative_tts.files import write_atomic
from speculative_tts.records import read_jsonl, write_jsonl
from speculative_tts_makers.corpora.sentence_lists import speak_audio
from speculative_tts_makers.corpora.testset import reference_path

SHIPPED = "tiny:testset_sentences"


def main() -> None:
    """Write the list into the given folder."""
    shipped, out = resolve(SHIPPED), Path(sys.argv[1])
    rows = [
        {**row, "reference_audio": reference_path(row["id"])}
        for row in read_jsonl(shipped / "list.jsonl")
    ]
    for prompt in {row["prompt_audio"] for row in rows}:
        write_atomic(out / prompt, (shipped / prompt).read_bytes())
    speak_audio({row["reference_audio"]: (row["text"], row["speaker"]) for row in rows}, out)
    write_jsonl(out / "list.jsonl", rows)
    print(f"{out / 'list.jsonl'}: {len(rows)} rows with recordings")


if __name__ == "__main__":
    main()
