"""Walk docs/own-model.md as a stranger does, and say how long each of its steps takes.

    taskset -c 0 env OMP_NUM_THREADS=1 python scripts/own_hour.py runs/hour dtype=float32

Make a folder with a random Llama of 0.1 G weights as transformers saves it, a codec, codes and a
list. Then run the document's commands there from the check of the checkpoint to the page of a
first drafter, each in a process of its own, and print a table of minutes. Settings after the
folder are added to the training.
"""

import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from speculative_tts.assets import resolve
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.files import copy_atomic, write_atomic
from speculative_tts.records import read_jsonl

DOCUMENT = Path(__file__).parent.parent / "docs" / "own-model.md"
OTHERS = {"runs/all", "runs/heads", "heads", "lm", "sst-bench", "sst-train-draft"}  # for later
OWN = ["--config-dir", "my-configs", "target=mine"]
ADDED = {  # what the document says to add, by program
    "sst-own-codes": [*OWN, "codec=mine", "codes=data/mine/codes"],
    "sst-train-heads": [*OWN, "codes=data/mine/codes"],
    "sst-decode": [*OWN, "codec=mine", "data=mine"],
}
ROWS = {  # the document's example, and a longest speech
    "code": "<|audio_{}|>",
    "end": "<|audio_end|>",
    "user": "Say: {text}",
    "assistant": "<speech>",
    "chat": False,
    "temperature": 0.8,
    "text_rows": False,
}
PEAKED = 4.0  # times transformers' random head: a distribution about as uneven as a trained model's
UTTERANCES = 20  # of the list
Run = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Size:
    """The sizes of a checkpoint and of what it learns from."""

    layers: int = 12
    hidden: int = 768
    inner: int = 3072
    heads: int = 12
    codes: int = 4096
    length: int = 125  # codes of an utterance
    recordings: int = 1000


def make_folder(folder: Path, size: Size) -> None:
    """Write all that section 1 of the document asks for."""
    _save_model(folder / "models/mine", size)
    codec = TinyCodec.load(resolve("tiny:codec_fine"))
    replace(codec, entries=codec.entries[: size.codes], postnet=None).save(
        folder / "models/mine_codec"
    )
    _save_codes(folder / "data/mine/codes", size)
    shipped = resolve("tiny:testset")
    rows = list(read_jsonl(shipped / "list.jsonl"))[:UTTERANCES]
    for row in rows:
        row |= {key: str(shipped / row[key]) for key in ("prompt_audio", "reference_audio")}
    write_atomic(folder / "data/mine/test.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    copy_atomic(Path(rows[0]["prompt_audio"]), folder / "voice.flac")
    layout = ROWS | {"max_length": 2048, "max_tokens": 2 * size.length}
    for group, content in {
        "target": {"name": "mine", "path": "models/mine", "rows": layout},
        "codec": {"name": "tiny", "path": "models/mine_codec"},
        "data": {"name": "mine", "path": "data/mine/test.jsonl"},
    }.items():  # JSON is YAML
        write_atomic(folder / "my-configs" / group / "mine.yaml", json.dumps(content) + "\n")


def _save_model(folder: Path, size: Size) -> None:
    """Write checkpoint and tokenizer."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(BPE(vocab={one: n for n, one in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_tokens([f"<|audio_{n}|>" for n in range(size.codes)])
    words.add_tokens([ROWS["end"], ROWS["assistant"]])
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    codes = range(len(letters), len(letters) + size.codes)
    _let_it_end(model, codes, words.token_to_id(ROWS["end"]), size)
    model.save_pretrained(folder)


@torch.no_grad()
def _let_it_end(model: LlamaForCausalLM, codes: range, end: int, size: Size) -> None:
    """Give the end a constant logit by which an utterance has `size.length` codes on average.

    One channel of all states is kept constant for it, which nothing else reads at the head.
    """
    head, temperature = model.lm_head.weight, ROWS["temperature"]
    head *= PEAKED
    head[:, 0], head[end] = 0, 0
    model.model.embed_tokens.weight[:, 0] = 1
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = 0
        layer.mlp.down_proj.weight[0] = 0
    said = torch.randint(codes.start, codes.stop, (1, 64))
    states = model.model(said).last_hidden_state[0]
    logits = states @ head[codes.start : codes.stop].T / temperature
    wanted = temperature * (logits.logsumexp(-1).mean() - math.log(size.length))
    head[end, 0] = wanted / states[:, 0].mean()


def _save_codes(folder: Path, size: Size) -> None:
    """Write random codes in the place of recorded ones."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    texts = [row["text"] for row in read_jsonl(resolve("tiny:testset") / "list.jsonl")]
    for split, count in (("train", size.recordings), ("dev", 48)):
        rows = [
            {
                "id": f"{split}{n}",
                "speaker": f"s{n % 8}",
                "split": split,
                "text": texts[n % len(texts)],
                "codes": rng.integers(0, size.codes, size.length).tolist(),
            }
            for n in range(count)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}-0000.parquet")


def commands(more: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the command lines up to the page, with what the document says to add and `more`."""
    yield ["sst-check", "folder=models/mine"]
    voice = ["prompt=voice.flac", "prompt_text=delta kilo papa", "text=alpha bravo charlie"]
    yield ["sst-speak", *OWN, "codec=mine", *voice, *more.get("sst-speak", ())]
    text = DOCUMENT.read_text().partition("\n## 5.")[0]
    for line in text.splitlines():
        if line.startswith("    sst-"):
            program, *options = shlex.split(line, comments=True)
            chosen = {part for one in [program, *options] for part in one.split("=")}
            if not chosen & OTHERS:
                yield [program, *options, *ADDED.get(program, ()), *more.get(program, ())]


def in_a_process(line: Sequence[str]) -> int:
    """Run a command as it is typed; return its exit code."""
    program, *options = line
    return subprocess.run([Path(sys.executable).parent / program, *options], check=False).returncode


def walk(more: Mapping[str, Sequence[str]], run: Run = in_a_process) -> Iterator[tuple[str, float]]:
    """Run the commands in the working directory; yield each as the document has it, and seconds.

    Raise RuntimeError where one fails. The check ends with 1: no name tells it the end.
    """
    for line in commands(more):
        begin = time.perf_counter()
        if run(line) not in ((0, 1) if line[0] == "sst-check" else (0,)):
            raise RuntimeError(f"{shlex.join(line)} failed")
        added = [*ADDED.get(line[0], ()), *OWN]
        yield shlex.join(one for one in line if one not in added), time.perf_counter() - begin


def table(seconds: Mapping[str, float]) -> str:
    """Return the steps' minutes as Markdown."""
    lines = ["| step | minutes |", "|---|---|"]
    lines += [f"| `{step}` | {spent / 60:.1f} |" for step, spent in seconds.items()]
    return "\n".join([*lines, f"| together | **{sum(seconds.values()) / 60:.0f}** |"])


def main() -> None:
    """Walk in the folder that is named, and print the table after each step."""
    folder, added = Path(sys.argv[1]), sys.argv[2:]
    make_folder(folder, Size())
    os.chdir(folder)
    seconds: dict[str, float] = {}
    for step, spent in walk({"sst-train-heads": added}):
        seconds[step] = spent
        print(table(seconds), flush=True)


if __name__ == "__main__":
    main()
