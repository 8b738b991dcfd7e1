"""Check CosyVoice 2 golden files: decoding, text tokenizer, repetition-aware sampling.

Reads cases.json, logprobs.npz, hidden.npz, ras_cases.json and ras_counts.npz, ras_sequences.json
and .npz, and a model directory for each model that is named there. Sizes, vocabularies and block
sizes come from the folder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.chi_square import chi_square, two_samples
from speculative_tts.checks.compare import close, read_arrays, read_json, same
from speculative_tts.checks.decoding import CPU, sped
from speculative_tts.checks.precision import PRECISIONS, bfloat16, laws
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.integrations.bistream import bistream
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.speech_lm import FromStates
from speculative_tts.schema.decode import Repetition

DRAWS = 3_000  # utterances that are decoded beside the recorded sequences
VARIANTS = {
    "head": Repetition.current,
    "legacy": Repetition.redraw_eos,
    "retry_eos": Repetition.redraw_eos,
    "retry_all": Repetition.redraw_stops,
}


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a golden folder; FormatError if it is not in the format."""
    cases = read_json(folder / "cases.json")
    if not isinstance(cases, dict) or not isinstance(cases.get("greedy"), list):
        raise FormatError(f"{folder / 'cases.json'} has no list 'greedy'; give golden=<folder>")
    golden = _CosyVoiceGolden(folder, cases)
    for name, rows in _KINDS.items():
        for case in cases.get(name, []):
            yield from rows(golden, case)
    yield from _tables(folder)
    yield from _sequences(golden)


@dataclass(frozen=True)
class _CosyVoiceGolden:
    """A golden folder whose models and arrays are read once."""

    folder: Path
    cases: dict[str, Any]

    def model(self, name: str, dtype: torch.dtype = torch.float32) -> MergedVocabLM:
        return _load(self.folder / name, dtype)

    def array(self, file: str, name: str) -> np.ndarray:
        array: np.ndarray = _arrays(self.folder / file)[name]
        return array

    def has(self, file: str, name: str) -> bool:
        return name in _arrays(self.folder / file)


@lru_cache(maxsize=4)
def _load(folder: Path, dtype: torch.dtype) -> MergedVocabLM:
    return cosyvoice.load(folder, dtype=dtype, device=CPU)


_arrays = lru_cache(maxsize=8)(read_arrays)


class _Recorded:
    """A model that records the logits and the number of positions of every forward."""

    def __init__(self, model: MergedVocabLM) -> None:
        self._model, self.vocab_size, self.device = model, model.vocab_size, model.device
        self.logits: list[Tensor] = []
        self.lengths: list[int] = []
        self.cache = model.cache

    def prefill(self, prompts: list[Tensor], cache: Any) -> Tensor:
        out = self._model.prefill(prompts, cache)
        self._keep(out[0], len(prompts[0]))
        return out

    def extend(self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None) -> Tensor:
        out = self._model.extend(ids, cache, start, keep)
        self._keep(out[0, -1], ids.shape[1])
        return out

    def _keep(self, logits: Tensor, length: int) -> None:
        self.logits.append(logits)
        self.lengths.append(length)

    def logprobs(self) -> Tensor:
        return torch.stack(self.logits).log_softmax(-1)


class _Level(FromStates):
    """A model for many requests with prompts of one length, which are run in one pass."""

    def __init__(self, model: MergedVocabLM) -> None:
        self._model, self.vocab_size, self.device = model, model.vocab_size, model.device
        self.cache, self.extend_hidden, self.logits = model.cache, model.extend_hidden, model.logits

    def prefill_hidden(self, prompts: list[Tensor], cache: Any) -> Tensor:
        start = torch.zeros(len(prompts), dtype=torch.int64)
        return self._model.decoder.extend(torch.stack(prompts), cache, start)[:, -1]


def _prompt(model: MergedVocabLM, case: dict[str, Any]) -> Tensor:
    layout = model.layout
    text = [layout.text_offset + i for i in (*case["prompt_text"], *case["text"])]
    return model.embed(torch.tensor([layout.sos_id, *text, layout.task_id, *case["prompt_speech"]]))


def _sampler(model: MergedVocabLM, **options: Any) -> RepetitionAware:
    layout = model.layout
    assert isinstance(layout, cosyvoice.CosyVoiceLayout)
    return RepetitionAware(barred=layout.barred_ids, **options)


def _request(model: MergedVocabLM, case: dict[str, Any], id_: str = "golden") -> Request:
    return Request(id_, _prompt(model, case), None, case["min_len"], case["max_len"], seed=0)


def _greedy(golden: _CosyVoiceGolden, case: dict[str, Any]) -> Iterator[CheckRow]:
    """Compare greedy tokens, ends, lengths and log-probabilities, also by speculation."""
    model, name = golden.model(case["model"]), f"greedy {case['id']}"
    recorded, sampler = _Recorded(model), _sampler(model, temperature=0.0)
    request, stops = _request(model, case), model.layout.stop_ids
    (found,) = autoregressive(recorded, stops, sampler, [request])
    ending = [] if case["stop_id"] is None else [case["stop_id"]]
    expected = [*case["tokens"], *ending]
    yield same(f"{name}: tokens", np.array(found.tokens), np.array(expected))
    yield same(f"{name}: forwards", np.array(recorded.lengths), np.array(case["input_lens"]))
    logprobs = golden.array("logprobs.npz", case["id"])
    yield close(f"{name}: log-probabilities", recorded.logprobs()[: len(logprobs)], logprobs)
    drafter = LMDrafter(_draft(model))
    (both,) = sped(model, drafter, sampler, stops, [request])
    yield same(f"{name}: speculative tokens", np.array(both.tokens), np.array(expected))


def _draft(model: MergedVocabLM) -> MergedVocabLM:
    return cosyvoice.with_layers(model, [0, model.decoder.config.layers - 1])


@torch.inference_mode()
def _teacher_forced(golden: _CosyVoiceGolden, case: dict[str, Any]) -> Iterator[CheckRow]:
    """Compare log-probabilities and hidden states: in one pass, by steps, by chunks."""
    model, name = golden.model(case["model"]), f"teacher forced {case['id']}"
    prompt, ids = _prompt(model, case), torch.tensor([case["continuation"]])
    yield same(f"{name}: prefix length", float(len(prompt)), float(case["prefix_len"]))
    whole = torch.cat([prompt, model.embed(ids[0])])[None]
    cache = model.cache(1, whole.shape[1])
    hidden = model.decoder.extend(whole, cache, torch.zeros(1, dtype=torch.int64))
    hidden = hidden[0, len(prompt) - 1 :]
    full = golden.array("logprobs.npz", f"{case['id']}_full")
    yield close(f"{name}: one pass", model.logits(hidden).log_softmax(-1), full)
    yield close(f"{name}: hidden states", hidden, golden.array("hidden.npz", case["id"]))
    for size in (1, 3):
        label = "steps" if size == 1 else f"chunks of {size}"
        stepped = f"{case['id']}_step"
        one = size == 1 and golden.has("logprobs.npz", stepped)
        expected = golden.array("logprobs.npz", stepped) if one else full
        yield close(f"{name}: {label}", _by_chunks(model, prompt, ids, size), expected)
    models = (golden.model(case["model"], dtype) for dtype in PRECISIONS)
    yield bfloat16(name, (laws(one, _prompt(one, case), ids[0]) for one in models))


def _by_chunks(model: MergedVocabLM, prompt: Tensor, ids: Tensor, size: int) -> Tensor:
    cache = model.cache(1, len(prompt) + ids.shape[1])
    out = [model.prefill([prompt], cache)]
    for begin in range(0, ids.shape[1], size):
        start = torch.tensor([len(prompt) + begin])
        out.append(model.extend(ids[:, begin : begin + size], cache, start)[0])
    return torch.cat(out).log_softmax(-1)


def _bistream(golden: _CosyVoiceGolden, case: dict[str, Any]) -> Iterator[CheckRow]:
    """Compare decoding of text in pieces: output, sequence lengths, log-probabilities."""
    model, name = golden.model(case["model"]), f"bistream {case['id']}"
    layout = model.layout
    assert isinstance(layout, cosyvoice.CosyVoiceLayout)
    recorded = _Recorded(model)
    found = bistream(
        recorded,
        layout,
        _sampler(model, temperature=0.0),
        case["text_chunks"],
        case["prompt_text"],
        case["prompt_speech"],
    )
    yield same(f"{name}: tokens", np.array(list(found)), np.array(case["yielded"]))
    yield same(f"{name}: forwards", np.array(recorded.lengths), np.array(case["input_lens"]))
    expected = golden.array("logprobs.npz", case["id"])
    yield close(f"{name}: log-probabilities", recorded.logprobs(), expected)


def _tokenizer(golden: _CosyVoiceGolden, case: dict[str, Any]) -> Iterator[CheckRow]:
    layout = golden.model(case["model"]).layout
    assert isinstance(layout, cosyvoice.CosyVoiceLayout)
    assert layout.tokenizer is not None
    name = f"tokenizer {case['text']!r}"
    yield same(name, np.array(layout.encode(case["text"])), np.array(case["ids"]))
    if "length" in case:
        yield same(f"{name}: size", float(len(layout.tokenizer)), float(case["length"]))


_KINDS: dict[str, Callable[[_CosyVoiceGolden, Any], Iterator[CheckRow]]] = {
    "greedy": _greedy,
    "teacher_forced": _teacher_forced,
    "bistream": _bistream,
    "tokenizer": _tokenizer,
}


def _tables(folder: Path) -> Iterator[CheckRow]:
    """Compare counts of official draws with the closed form, by chi-square."""
    if not (folder / "ras_cases.json").is_file():
        return
    arrays = read_arrays(folder / "ras_counts.npz")
    for case in read_json(folder / "ras_cases.json"):
        logits = torch.from_numpy(arrays[f"{case['id']}/logp"])
        counts = arrays[f"{case['id']}/counts"]
        law = closed_form(case, logits).double().numpy()
        statistic, bound = chi_square(counts, law)
        yield CheckRow(f"repetition-aware sampling {case['id']} (chi-square)", statistic, bound)


def closed_form(case: dict[str, Any], logits: Tensor) -> Tensor:
    """Return the distribution of the sampler for the logits [vocab] of a case."""
    options = case["prm"]
    stops = [] if case["S"] is None else list(range(case["S"], len(logits)))
    sampler = RepetitionAware(
        top_p=options["top_p"],
        top_k=options["top_k"],
        window=options["win_size"],
        tau=options["tau_r"],
        variant=VARIANTS[case["variant"]],
        barred=tuple(stops[:1]) or None,
    )
    stop = StopRule.build(tuple(stops), len(logits), [2**62 if case["ignore_eos"] else 0], CPU)
    history = torch.tensor([case["hist"] or [0]])
    return sampler(logits[None, None], history, torch.tensor([[len(case["hist"])]]), stop)[0, 0]


def _sequences(golden: _CosyVoiceGolden) -> Iterator[CheckRow]:
    """Compare sampled sequences of the official code with ours, alone and speculative (beta 0)."""
    path = golden.folder / "ras_sequences.json"
    if not path.is_file():
        return
    facts = read_json(path)
    case = next(c for c in golden.cases["greedy"] if c["id"] == facts["case"])
    case = case | {"min_len": facts["min_len"], "max_len": facts["max_len"]}
    model, options = golden.model(case["model"]), facts["params"]
    sampler = _sampler(
        model,
        top_p=options["top_p"],
        top_k=options["top_k"],
        window=options["win_size"],
        tau=options["tau_r"],
    )
    expected = golden.array("ras_sequences.npz", "seqs")
    for system, found in sampled(model, sampler, case).items():
        for place in (*range(4), (0, 1), (2, 3), "length"):
            statistic, bound = two_samples(_cells(found, place), _cells(expected, place))
            yield CheckRow(f"sequences, {system}, {place} (chi-square)", statistic, bound)


def sampled(model: MergedVocabLM, sampler: Sampler, case: dict[str, Any]) -> dict[str, np.ndarray]:
    """Sample `DRAWS` utterances by both loops; codes int64 [DRAWS, max_len], -1 after the end."""
    requests = [_request(model, case, f"sequence {n}") for n in range(DRAWS)]
    stops = model.layout.stop_ids
    target, drafter = _Level(model), LMDrafter(_Level(_draft(model)))
    both = sped(target, drafter, sampler, stops, requests)
    alone = autoregressive(target, stops, sampler, requests)
    out = {}
    for system, outcomes in (("autoregressive", alone), ("speculative", both)):
        codes = np.full((DRAWS, case["max_len"]), -1)
        for row, outcome in zip(codes, outcomes, strict=True):
            kept = [token for token in outcome.tokens if token not in stops]
            row[: len(kept)] = kept
        out[system] = codes
    return out


def _cells(sequences: np.ndarray, place: int | str | tuple[int, int]) -> np.ndarray:
    """Number the codes at a place (or two), or the lengths."""
    if place == "length":
        return np.asarray((sequences >= 0).sum(-1))
    if isinstance(place, tuple):
        first, second = (sequences[:, p].astype(np.int64) + 1 for p in place)
        return first * 100_000 + second
    assert isinstance(place, int)
    return sequences[:, place].astype(np.int64)
