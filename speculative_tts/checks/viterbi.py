"""Check the path search by enumeration, and block decoding on the VALL-E golden beside it.

The folder holds viterbi.npz (cases with the best path of four readings), dead.npz (cases without a
possible path) and mtp_decode.npz with mtp_decode_info.json; the last need the model and the prompt
in the folder valle beside. What is checked is what decodes: `PathSearch` and `multi_token`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.compare import Entries, close, read_arrays, read_object, same
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.blocks.choosers import ViterbiHeads
from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.loops.multi_token import multi_token
from speculative_tts.decoding.sampling.sampler import StopRule
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.heads import Heads, HeadTensors

READINGS = ((False, False), (False, True), (True, False), (True, True))  # (union, boundary)


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases; ValueError if the folder is not in the format."""
    golden = read_arrays(folder / "viterbi.npz")
    for union, boundary in READINGS:
        name = ("union" if union else "perhead") + ("_last" if boundary else "")
        yield from _reading(golden, name, union=union, boundary=boundary)
    dead = folder / "dead.npz"
    if dead.is_file():
        yield _dead(read_arrays(dead))
    if (folder / "mtp_decode.npz").is_file():
        yield from _blocks(folder)


def log_law(logits: Any) -> Tensor:
    """Return the log probabilities of heads, float64 [1, n, vocab]."""
    return torch.as_tensor(np.asarray(logits)).double().log_softmax(-1)[None]


def log_score(scores: Tensor, q: Tensor, tokens: Tensor, last: int | None) -> float:
    """Return the log of a path's product: scores [n, vocab], q [vocab, vocab], tokens [n]."""
    total = scores.gather(1, tokens[:, None]).sum()
    total = total + q[tokens[:-1], tokens[1:]].log().sum()
    return float(total if last is None else total + q[last, tokens[0]].log())


def _reading(golden: Entries, name: str, *, union: bool, boundary: bool) -> Iterator[CheckRow]:
    paths, expected = golden[f"path_{name}"], golden[f"logscore_{name}"]
    found, scored = np.full_like(paths, -1), np.zeros_like(expected)
    for index, n in enumerate(golden["n"]):
        q = torch.as_tensor(golden["Q"][golden["q_id"][index]])
        scores, last = log_law(golden["logits"][index, :n]), int(golden["last"][index])
        search = PathSearch(DenseTransitions(q.log()), int(golden["k"][index]), union, boundary)
        tokens = search.best(scores, torch.tensor([last])).tokens[0]
        found[index, :n] = tokens
        scored[index] = log_score(scores[0], q, tokens, last if boundary else None)
    yield same(f"{name}: paths", found, paths)
    yield close(f"{name}: log scores", scored, expected, 1e-9)


def _dead(cases: Entries) -> CheckRow:
    """Check that each case has no path, and that the block is every head's likeliest token."""
    q, logits, n, k = (cases[name] for name in ("Q", "logits", "n", "k"))
    wrong = 0
    for index, heads in enumerate(n):
        scores = log_law(logits[index, :heads])
        search = PathSearch(
            DenseTransitions(torch.as_tensor(q[index]).log()), int(k[index]), union=False
        )
        found = search.best(scores, torch.zeros(1, dtype=torch.int64))
        wrong += not (bool(found.dead) and bool((found.tokens == scores.argmax(-1)).all()))
    return CheckRow("dead: found, and likeliest tokens", float(wrong), 0.0)


def _blocks(folder: Path) -> Iterator[CheckRow]:
    """Check decoding by `multi_token`, the loop that users run."""
    cases = read_arrays(folder / "mtp_decode.npz")
    limit = int(read_object(folder / "mtp_decode_info.json")["limit"])
    valle = folder.parent / "valle"
    main, model = read_arrays(_one(valle, "*main.npz")), ValleLM.load(_one(valle, "*checkpoint.pt"))
    text, codes = main["x"][0].tolist(), main["y"][0, :, 0].tolist()
    prompt = model.prompt(model.merged(text, codes))
    request = Request("golden", prompt, None, 0, limit, seed=0, last_code=codes[-1])
    q, extra = _transitions(cases), torch.as_tensor(cases["extra_heads"]).float()
    weight = torch.cat([model.head.dense().T[None], extra])
    stop = StopRule.build(model.stop_ids, model.vocab_size, [0], model.device)
    for name in sorted(cases):
        match = re.fullmatch(r"tokens_n(\d+)_k(\d+)_(perhead|union)_(no)?boundary", name)
        if match is None:
            continue
        search = PathSearch(
            DenseTransitions(q), int(match[2]), match[3] == "union", match[4] is None
        )
        choose = ViterbiHeads(search, stop, temperature=1.0, sample=False)
        heads = Heads(HeadTensors(weight[: int(match[1])]))
        (found,) = multi_token(model, heads, choose, model.stop_ids, [request])
        yield same(name, np.array(found.tokens[: -1 if found.stopped else None]), cases[name])


def _one(folder: Path, pattern: str) -> Path:
    """Return the file of a pattern; FormatError if there is none."""
    for path in sorted(folder.glob(pattern)):
        return path
    raise FormatError(f"no {pattern} in {folder}, which mtp_decode.npz needs; copy it beside")


def _transitions(cases: Entries) -> Tensor:
    """Return the log of the golden Q: a uniform floor and the stored entries of each row."""
    successors, values = cases["q_succ"], cases["q_val"]
    size = len(values)
    q = np.repeat(((1 - values.sum(1)) / size)[:, None], size, axis=1)
    np.add.at(q, (np.arange(size)[:, None], successors), values)
    return torch.as_tensor(q).double().log()
