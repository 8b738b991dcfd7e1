"""Path search against exhaustive enumeration, and block decoding on the VALL-E golden beside it.

The folder holds viterbi.npz (cases with the best path of four readings), dead.npz (cases without a
possible path) and mtp_decode.npz with mtp_decode_info.json; the last need the folder valle beside.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.compare import close, need, read_arrays, same
from speculative_tts.checks.registry import Row
from speculative_tts.decoding.transitions import IMPOSSIBLE, Table
from speculative_tts.decoding.viterbi import PathSearch
from speculative_tts.models.valle.lm import ValleLM

READINGS = ((False, False), (False, True), (True, False), (True, True))  # (union, boundary)


def check(folder: Path) -> Iterator[Row]:
    """Rows of all cases; ValueError when the folder is not in the format."""
    path = folder / "viterbi.npz"
    cases = read_arrays(path)
    names = ("Q", "q_id", "n", "k", "last", "logits")
    golden = {name: need(cases, name, path) for name in names}
    for union, boundary in READINGS:
        name = ("union" if union else "perhead") + ("_last" if boundary else "")
        yield from _reading(golden, cases, path, name, union=union, boundary=boundary)
    dead = folder / "dead.npz"
    if dead.is_file():
        yield _dead(read_arrays(dead), dead)
    if (folder / "mtp_decode.npz").is_file():
        yield from _blocks(folder)


def log_law(logits: Any) -> Tensor:
    """Log probabilities of heads, float64 [1, n, vocab]."""
    return torch.as_tensor(np.asarray(logits)).double().log_softmax(-1)[None]


def log_score(scores: Tensor, q: Tensor, tokens: Tensor, last: int | None) -> float:
    """Log of a path's product: scores [n, vocab], q [vocab, vocab], tokens [n]."""
    total = scores.gather(1, tokens[:, None]).sum()
    total = total + q[tokens[:-1], tokens[1:]].log().sum()
    return float(total if last is None else total + q[last, tokens[0]].log())


def _reading(
    golden: dict[str, Any],
    cases: dict[str, Any],
    path: Path,
    name: str,
    *,
    union: bool,
    boundary: bool,
) -> Iterator[Row]:
    paths, expected = (need(cases, f"{part}_{name}", path) for part in ("path", "logscore"))
    found, scored = np.full_like(paths, -1), np.zeros_like(expected)
    for index, n in enumerate(golden["n"]):
        q = torch.as_tensor(golden["Q"][golden["q_id"][index]])
        scores, last = log_law(golden["logits"][index, :n]), int(golden["last"][index])
        search = PathSearch(Table(q.log()), int(golden["k"][index]), union, boundary)
        tokens = search.best(scores, torch.tensor([last])).tokens[0]
        found[index, :n] = tokens
        scored[index] = log_score(scores[0], q, tokens, last if boundary else None)
    yield same(f"{name}: paths", found, paths)
    yield close(f"{name}: log scores", scored, expected, 1e-9)


def _dead(cases: dict[str, Any], path: Path) -> Row:
    """Each is found dead, and then the block is every head's likeliest token."""
    q, logits, n, k = (need(cases, name, path) for name in ("Q", "logits", "n", "k"))
    wrong = 0
    for index, heads in enumerate(n):
        scores = log_law(logits[index, :heads])
        search = PathSearch(Table(torch.as_tensor(q[index]).log()), int(k[index]), union=False)
        found = search.best(scores, torch.zeros(1, dtype=torch.int64))
        wrong += not (bool(found.dead) and bool((found.tokens == scores.argmax(-1)).all()))
    return Row("dead: found, and likeliest tokens", float(wrong), 0.0)


def _blocks(folder: Path) -> Iterator[Row]:
    path = folder / "mtp_decode.npz"
    cases = read_arrays(path)
    info_path = folder / "mtp_decode_info.json"
    info = json.loads(info_path.read_text(encoding="utf-8"))
    valle = folder.parent / "valle"
    main = read_arrays(valle / "main.npz")
    model = ValleLM.load(valle / "checkpoint.pt")
    q, extra = _transitions(cases, path), torch.as_tensor(need(cases, "extra_heads", path)).float()
    for name in sorted(cases):
        match = re.fullmatch(r"tokens_n(\d+)_k(\d+)_(perhead|union)_(no)?boundary", name)
        if match is None:
            continue
        n, k = int(match[1]), int(match[2])
        search = PathSearch(Table(q), k, match[3] == "union", match[4] is None)
        tokens = _decode(model, main, extra[: n - 1], search, int(need(info, "limit", info_path)))
        yield same(name, np.array(tokens), cases[name])


def _transitions(cases: dict[str, Any], path: Path) -> Tensor:
    """Log of the golden's Q: a uniform floor and what was stored of each row."""
    successors, values = (need(cases, name, path) for name in ("q_succ", "q_val"))
    size = len(values)
    q = np.repeat(((1 - values.sum(1)) / size)[:, None], size, axis=1)
    np.add.at(q, (np.arange(size)[:, None], successors), values)
    return torch.as_tensor(q).double().log()


@torch.inference_mode()
def _decode(
    model: ValleLM, main: dict[str, Any], extra: Tensor, search: PathSearch, limit: int
) -> list[int]:
    """The golden's loop: blocks of n tokens, cut before the first head that says end."""
    end, text, codes = model.stop_ids[0], main["x"][0], main["y"][0, :, 0]
    prompt = model.row(model.merged(text.tolist(), codes.tolist()))
    cache, tokens = model.cache(1, len(prompt) + limit + 8), [int(codes[-1])]
    hidden = model.prefill_hidden([prompt], cache)
    while True:
        own = model.logits(hidden)
        logits = torch.cat([own[:, None], torch.einsum("bh,nvh->bnv", hidden, extra)], 1)
        scores = logits.double().log_softmax(-1)
        barred = scores.clone()
        barred[..., end] = IMPOSSIBLE
        block = search.best(barred, torch.tensor(tokens[-1:])).tokens[0].tolist()
        ends = (logits.argmax(-1)[0] == end).tolist()
        taken = block[: ends.index(True)] if True in ends else block
        tokens += taken
        if len(taken) < len(block) or len(tokens) > limit:
            return tokens[1 : limit + 1]
        start = torch.tensor([len(prompt) + len(tokens) - 1 - len(block)])
        hidden = model.extend_hidden(torch.tensor([block]), cache, start, keep=1)[:, -1]
