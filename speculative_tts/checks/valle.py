"""Compare VALL-E and USLM with their official classes: losses, decoding, NAR, sampler."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.compare import Entries, close, read_arrays, read_object, relative, same
from speculative_tts.checks.precision import PRECISIONS, bfloat16, laws
from speculative_tts.checks.registry import CheckRow
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.valle import official
from speculative_tts.models.families.valle.checkpoint import Valle, load_valle
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.families.valle.text import Symbols, split_phonemes
from speculative_tts.state_dicts import read_state_dict

GREEDY = official.sampler(1, 1.0)
LOSS_TOLERANCE = 1e-5
"""Of summed losses, relative."""

BLOCK = 3
"""Codes fed at once where blocks are checked."""


@dataclass(frozen=True)
class Arrays:
    """The entries of one .npz file whose names begin with `prefix`."""

    arrays: Entries
    prefix: str = ""

    def get(self, name: str) -> np.ndarray:
        """Return an array as stored; FormatError if it is missing."""
        found: np.ndarray = self.arrays[self.prefix + name]
        return found

    def ids(self, name: str) -> Tensor:
        """Return an array as an int64 tensor."""
        return torch.from_numpy(self.get(name).astype(np.int64))

    def matching(self, pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield the names, without the prefix, that a pattern matches fully."""
        for name in self.arrays:
            bare = name.removeprefix(self.prefix)
            if match := re.fullmatch(pattern, bare):
                yield bare, match


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a folder; variants, continuations and symbols if there are some."""
    main, info = Arrays(read_arrays(folder / "main.npz")), read_object(folder / "info.json")
    valle = _fixed(load_valle(folder / "checkpoint.pt"))
    lm, losses = ValleLM(valle.ar), info["nar_teacher_forced"]
    yield _stored(folder / "checkpoint.pt", valle)
    yield from _teacher_forced_ar(valle, main)
    yield from _teacher_forced_nar(valle, main, losses)
    yield from _greedy(valle, lm, main)
    yield from _sampled(valle, lm, main)
    yield bfloat16("greedy", (_laws(valle, main, dtype) for dtype in PRECISIONS))
    yield from _filters(main)
    yield from _continual(valle, main)
    if (folder / "variants_state_dicts.pt").is_file():
        yield from variants(folder)
    if (folder / "text_frontend.json").is_file():
        yield from text_ids(folder)


def _fixed(valle: Valle) -> Valle:
    valle.ar.requires_grad_(False)
    valle.nar.requires_grad_(False)
    return valle


def _stored(path: Path, valle: Valle) -> CheckRow:
    """Compare every tensor of the file by its name."""
    state, ours = read_state_dict(path)[0], valle.state()
    differing = sum(not state[name].to(t.dtype).equal(t) for name, t in ours.items())
    return CheckRow(f"checkpoint ({len(ours)} tensors)", float(differing), 0.0)


def _teacher_forced_ar(valle: Valle, main: Arrays) -> Iterator[CheckRow]:
    codes, lengths = main.ids("tf_y"), main.ids("tf_y_lens")
    out = valle.ar(main.ids("tf_x"), main.ids("tf_x_lens"), codes[..., 0], lengths)
    at = main.prefix
    yield close(f"{at}ar teacher forced: logits", out.logits, main.get("tf_ar_logits"))
    expected = float(main.get("tf_ar_loss_sum"))
    yield relative(f"{at}ar teacher forced: loss", float(out.loss()), expected, LOSS_TOLERANCE)
    if main.prefix:
        return
    yield same("ar teacher forced: inputs", out.inputs, main.get("tf_ar_inputs"))
    yield same("ar teacher forced: targets", out.targets, main.get("tf_ar_targets"))
    yield close("ar teacher forced: hidden", out.hidden, main.get("tf_ar_hidden"))
    top10 = out.top10() * int(lengths.sum())
    yield close("ar teacher forced: top 10", top10, main.get("tf_ar_top10"))


def _teacher_forced_nar(valle: Valle, main: Arrays, losses: Entries) -> Iterator[CheckRow]:
    """Compare NAR losses; USLM's are of two stages, each with its own prefix."""
    batch = [main.ids(f"tf_{name}") for name in ("x", "x_lens", "y", "y_lens")]
    frames = int(batch[3].sum())
    for case, row in losses.items():
        last, prefixes = int(case.rpartition("stage")[2]), row["prefix_lens"]
        stages = [1, last][-len(prefixes) :]
        outs = [valle.nar(*batch, s, p) for s, p in zip(stages, prefixes, strict=True)]
        loss = sum(float(out.loss()) for out in outs)
        yield relative(f"nar {case}: loss", loss, row["loss_sum"], LOSS_TOLERANCE)
        found = np.array([out.top10() * frames for out in outs])
        yield close(f"nar {case}: top 10", found, np.array([*row["metrics"].values()]))
    for name, match in main.matching(r"tf_nar_logits_(prefix\d_stage(\d+))_b(\d+)"):
        items, row = [int(item) for item in match[3]], losses[match[1]]
        out = valle.nar(*batch, int(match[2]), row["prefix_lens"][-1])
        yield close(name, out.logits[items], main.get(name))


def _greedy(valle: Valle, lm: ValleLM, main: Arrays) -> Iterator[CheckRow]:
    """Compare greedy sequences that end by themselves and at the limit, by steps and blocks."""
    text, prompt = main.ids("x"), main.ids("y")
    decoded = official.decode(lm, text[0].tolist(), prompt[0, :, 0].tolist(), GREEDY)
    yield close("greedy: logits of every step", decoded.logits, main.get("greedy_ar_logits"))
    yield close("greedy: hidden states", decoded.hidden, main.get("greedy_ar_hidden"))
    blocks = _blocks(lm, lm.merged(text[0].tolist(), prompt[0, :, 0].tolist()), decoded.codes)
    yield close("greedy: hidden states, in blocks", blocks, main.get("greedy_ar_hidden"))
    for name, match in main.matching(r"(greedy|maxlen)_codes_prefix(\d)"):
        start = "maxlen_" if match[1] == "maxlen" else ""
        yield _layers(name, valle, lm, main, start, int(match[2]), GREEDY)
        yield shipped(f"{name}: layer 1 by the shipped loop", lm, main, start, name)
    enrolled = int(main.get("enroll_x_lens")[0])
    *_, last = valle.nar.stage_logits(
        text, prompt, main.ids("greedy_codes_prefix1")[..., 0], enrolled=enrolled, prefix_mode=1
    )
    yield close("greedy: logits of the last layer", last[0], main.get("greedy_nar_logits_last"))


def _laws(valle: Valle, main: Arrays, dtype: torch.dtype) -> Tensor:
    """Return the distributions along the recorded greedy codes."""
    lm = ValleLM(valle.ar, dtype=dtype)
    text, prompt = main.ids("x")[0].tolist(), main.ids("y")[0, :, 0].tolist()
    codes = main.ids("greedy_codes_prefix1")[0, :, 0]
    return laws(lm, lm.prompt(lm.merged(text, prompt)), codes)


def _sampled(valle: Valle, lm: ValleLM, main: Arrays) -> Iterator[CheckRow]:
    """Compare sampled sequences, which the CPU's random generator repeats."""
    pattern = r"sampled_codes_(?:topk(\d+)|full)_t(\d)(\d)_seed(\d+)"
    for name, match in main.matching(pattern):
        generator = torch.Generator().manual_seed(int(match[4]))
        temperature = float(f"{match[2]}.{match[3]}")
        draw = official.sampler(int(match[1] or 0), temperature, generator)
        yield _layers(name, valle, lm, main, "", valle.config.prefix_mode, draw)


def _filters(main: Arrays) -> Iterator[CheckRow]:
    for name, match in main.matching(r"filter(?:_topk(\d+))?(?:_topp(\d)(\d))?"):
        top_p = float(f"{match[2]}.{match[3]}") if match[2] else 1.0
        got = official.filtered(torch.from_numpy(main.get("filter_in")), int(match[1] or 0), top_p)
        yield close(name, got, main.get(name))


def _continual(valle: Valle, main: Arrays) -> Iterator[CheckRow]:
    for name, match in main.matching(r"continual_codes_prefix(\d)"):
        got = official.continual(valle.nar, main.ids("x"), main.ids("continual_y"), int(match[1]))
        yield same(name, got[0], main.get(name)[0])


def variants(folder: Path) -> Iterator[CheckRow]:
    """Check other options: BOS, prenets, post-norm, a narrow NAR, fewer layers of codes."""
    arrays, path = read_arrays(folder / "variants.npz"), folder / "variants_state_dicts.pt"
    states = Entries(path, torch.load(path, map_location="cpu", weights_only=True))
    for name, case in read_object(folder / "variants_info.json")["cases"].items():
        heads, prefix_mode = case["nhead"], case["prefix_mode"]
        valle = _fixed(Valle.from_state(states[name], heads=heads, prefix_mode=prefix_mode))
        lm, own = ValleLM(valle.ar), Arrays(arrays, f"{name}/")
        yield from _teacher_forced_ar(valle, own)
        text, prompt = own.ids("x"), own.ids("y")
        decoded = official.decode(lm, text[0].tolist(), prompt[0, :, 0].tolist(), GREEDY)
        yield close(f"{name}/greedy_ar_logits", decoded.logits, own.get("greedy_ar_logits"))
        yield _layers(f"{name}/greedy_codes", valle, lm, own, "", valle.config.prefix_mode, GREEDY)


def text_ids(folder: Path) -> Iterator[CheckRow]:
    """Compare phonemes made of espeak's text, and their ids."""
    golden = read_object(folder / "text_frontend.json")
    symbols = Symbols.read(folder / "text_symbols.k2symbols")
    ours, theirs = symbols.ids.items(), golden["token2idx"].items()
    yield CheckRow("text: symbol table", float(len(ours ^ theirs)), 0.0)
    wrong = {"phonemes": 0, "ids": 0}
    columns = [golden[name] for name in ("raw_phonemized", "phonemes", "ids", "lens")]
    for raw, phonemes, ids, length in zip(*columns, strict=True):
        wrong["phonemes"] += split_phonemes(raw) != phonemes
        wrong["ids"] += symbols.encode(phonemes) != ids[:length]
    for name, count in wrong.items():
        yield CheckRow(f"text: {name} ({len(columns[0])} sentences)", float(count), 0.0)


def _layers(
    name: str,
    valle: Valle,
    lm: ValleLM,
    main: Arrays,
    start: str,
    prefix_mode: int,
    draw: official.Sampler,
) -> CheckRow:
    """Compare all code layers of one utterance, whose inputs' names begin with `start`."""
    text, prompt = main.ids(f"{start}x"), main.ids(f"{start}y")
    decoded = official.decode(lm, text[0].tolist(), prompt[0, :, 0].tolist(), draw)
    enrolled = int(main.get(f"{start}enroll_x_lens")[0])
    codes = valle.nar.infer(
        text, prompt, decoded.codes[None], enrolled=enrolled, prefix_mode=prefix_mode
    )
    bare = name.rpartition("/")[2]
    return same(name, codes[0], main.get(bare)[0])


def shipped(case: str, lm: ValleLM, main: Arrays, start: str, name: str) -> CheckRow:
    """Compare layer 1 of `name` by `decoding.loops.one_by_one`, greedy, without the end id.

    Sampled cases are of the official sampler alone: its top-k keeps ties, torch's generator draws.
    """
    text, prompt = main.get(f"{start}x")[0].tolist(), main.get(f"{start}y")[0, :, 0].tolist()
    longest = official.longest(lm.config, text)
    request = Request("golden", lm.prompt(lm.merged(text, prompt)), None, 0, longest, seed=0)
    (found,) = autoregressive(lm, lm.stop_ids, Sampler(temperature=0), [request])
    codes = found.tokens[: -1 if found.stopped else None]
    return same(case, np.array(codes), main.get(name)[0, :, 0])


def _blocks(lm: ValleLM, prompt: list[int], codes: Tensor) -> Tensor:
    """Return hidden states of the prompt's end and of codes fed a few at a time."""
    row = lm.prompt(prompt)
    cache = lm.cache(1, len(row) + len(codes))
    states = [lm.prefill_hidden([row], cache)]
    for begin in range(0, len(codes), BLOCK):
        start = torch.tensor([len(row) + begin])
        states.append(lm.extend_hidden(codes[None, begin : begin + BLOCK], cache, start)[0])
    return torch.cat(states)
