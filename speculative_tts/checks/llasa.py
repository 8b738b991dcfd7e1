"""Check LLaSA golden files: prompts, logits, decoding, samplers, similarity, codes, training rows.

Reads layout.json, prompts.json, expected.json and the arrays beside them, and a folder
model_<style> for each style in expected.json. Sizes, names and lengths come from the folder;
arrays that are not there are not checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.caches.groups import normalise
from speculative_tts.checks.compare import Entries, close, read_arrays, read_json, read_object, same
from speculative_tts.checks.decoding import CPU, along, drawn_from, expected_law, sped
from speculative_tts.checks.precision import PRECISIONS, bfloat16, laws
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.codecs import fsq
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.code_rows import RowLM, code_embedding
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig, RowsConfig
from speculative_tts.training.data.columns import StoredUtterance
from speculative_tts.training.data.pairs import write_rows

FIXED_DATE = "llama31"  # the template that has a date of its own; others take layout.json's
SAMPLERS = {  # of transformers' generate with the published settings; top_k 50 is its default
    "card": Sampler(0.8, 50, 1.0),
    "card_update": Sampler(0.9, 50, 0.95),
    "lora_example": RepetitionPenalty(0.8, 50, 1.0, 1.2),
    "no_topk": Sampler(0.8, 0, 1.0),
}


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a golden folder; FormatError if it is not in the format."""
    golden = _LlasaGolden(folder)
    for style in golden.styles:
        yield from _layout(golden, style)
        yield from _prompts(golden, style)
        yield from _teacher_forced(golden, style)
        yield from _precision(golden, style)
        yield from _greedy(golden, style)
        yield from _sampling(golden, style)
        yield from _similarity(golden, style)
    yield from _drafted_by_another(golden)
    yield from _fsq(golden)
    yield from _training_rows(golden)


@dataclass(frozen=True)
class _LlasaGolden:
    """A golden folder whose files are read once."""

    folder: Path

    def json(self, name: str) -> Any:
        return read_json(self.folder / name)

    @cached_property
    def layout(self) -> Entries:
        return read_object(self.folder / "layout.json")

    @cached_property
    def prompts(self) -> dict[str, dict[str, Any]]:
        return {case["name"]: case for case in self.json("prompts.json")}

    @cached_property
    def styles(self) -> dict[str, dict[str, Any]]:
        found = {
            name: value
            for name, value in self.json("expected.json").items()
            if isinstance(value, dict) and "template" in value
        }
        if not found:
            raise FormatError(f"{self.folder / 'expected.json'} names no model with a template")
        return found

    @cached_property
    def logits(self) -> Entries:
        return read_arrays(self.folder / "logits.npz")

    def optional(self, name: str) -> Entries:
        path = self.folder / name
        return read_arrays(path) if path.is_file() else Entries(path, {})

    def checkpoint(self, style: str, rows: RowsConfig | None = None) -> CheckpointConfig:
        rows = rows or RowsConfig(date=self.date(style))
        return CheckpointConfig(name=style, path=str(self.folder / f"model_{style}"), rows=rows)

    def date(self, style: str) -> str | None:
        fixed = self.styles[style]["template"] == FIXED_DATE
        return None if fixed else str(self.layout["date_string"])

    def model(self, style: str, dtype: torch.dtype = torch.float32) -> RowLM:
        return RowLM.load(self.checkpoint(style), dtype=dtype, device=CPU, text_rows=True)

    def prompt(self, style: str, case: str) -> list[int]:
        return list(self.prompts[case][self.styles[style]["template"]]["input_ids"])

    def cases(self, style: str, kind: str) -> list[str]:
        """List the cases of `<style>/<kind>_<case>_ids` in logits.npz."""
        start, end = f"{style}/{kind}_", "_ids"
        return [
            k[len(start) : -len(end)]
            for k in self.logits
            if k.startswith(start) and k.endswith(end)
        ]


def _layout(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    read = RowLayout.read(Path(golden.checkpoint(style).path), golden.checkpoint(style).rows)
    expected = golden.layout["speech_first_id"] + np.arange(golden.layout["n_speech"])
    yield same(f"{style}: rows of codes", read.codes, expected)
    yield same(f"{style}: row of the end of speech", read.end, golden.layout["speech_end_id"])
    yield same(f"{style}: rows", read.rows, golden.layout["vocab_size"])


def _prompts(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    for name, case in golden.prompts.items():
        expected = case[golden.styles[style]["template"]]
        rows, text, codes = _taken_apart(case["messages"], golden.date(style))
        layout = RowLayout.read(Path(golden.checkpoint(style).path), rows)
        written = layout.written(text) + "".join(rows.code.format(code) for code in codes)
        yield CheckRow(
            f"{style}: prompt {name}, written", float(written != expected["rendered"]), 0.0
        )
        yield same(
            f"{style}: prompt {name}, ids",
            layout.prompt_ids(Prompt(text, voice=torch.tensor(codes, dtype=torch.int64))),
            expected["input_ids"],
        )


def _taken_apart(
    messages: list[dict[str, str]], date: str | None
) -> tuple[RowsConfig, str, list[int]]:
    """Return the configuration, text and codes that these messages were made of."""
    rows = RowsConfig(date=date)
    said = {message["role"]: message["content"] for message in messages}
    before, _, behind = rows.user.partition("{text}")
    text = said["user"].removeprefix(before).removesuffix(behind)
    start, marker, written = said["assistant"].partition(rows.assistant)
    left, _, right = rows.code.partition("{}")
    codes = [int(part.removesuffix(right)) for part in written.split(left) if part]
    rows = replace(rows, system=said.get("system"), assistant=start + marker)
    return rows, text, codes


def _teacher_forced(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    model = golden.model(style)
    for kind in ("tf", "greedy"):
        for case in golden.cases(style, kind):
            for suffix in ("_logits", "_logits_fp32"):
                expected = golden.logits.get(f"{style}/{kind}_{case}{suffix}")
                if expected is not None:
                    ids = golden.logits[f"{style}/{kind}_{case}_ids"].tolist()
                    first = len(golden.prompt(style, case)) - 1
                    got = _logits(model, ids, first, len(expected))
                    yield close(f"{style}: logits, {kind} {case}", got, expected)


def _precision(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    for case in golden.cases(style, "tf")[:1]:
        rows, first = golden.logits[f"{style}/tf_{case}_ids"], len(golden.prompt(style, case))
        models = [golden.model(style, dtype) for dtype in PRECISIONS]
        codes = torch.tensor(models[0].speech_ids(rows[first:].tolist()))
        prompts = [one.prompt(rows[:first].tolist()) for one in models]
        pairs = zip(models, prompts, strict=True)
        yield bfloat16(f"{style}: {case}", (laws(one, prompt, codes) for one, prompt in pairs))


def _logits(model: RowLM, rows: list[int], first: int, number: int) -> Tensor:
    """Return the logits after each of `number` positions from `first` on, in vocabulary order."""
    logits = along(model, rows, first, number)
    order = model.layout.order(text_rows=True)
    return torch.empty_like(logits).index_copy_(1, order, logits)


def _greedy(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    model = golden.model(style)
    for case in golden.cases(style, "greedy"):
        prompt = golden.prompt(style, case)
        expected = golden.styles[style][f"greedy_{case}"]
        request = _request(model, prompt, expected["max_length"])
        (outcome,) = autoregressive(model, model.layout.stop_ids, Sampler(0.0), [request])
        order = model.layout.order(text_rows=True)
        whole = golden.logits[f"{style}/greedy_{case}_ids"]
        yield same(f"{style}: greedy {case}", [*prompt, *order[outcome.tokens].tolist()], whole)
        codes = [token for token in outcome.tokens if token < model.layout.n_codes]
        yield same(f"{style}: greedy {case}, codes", codes, expected["all_codes"])
        ended = float(outcome.stopped != expected["ended_with_eos"])
        yield CheckRow(f"{style}: greedy {case}, stop", ended, 0.0)
        drafter = LMDrafter(model.subset([0]))  # of other opinions
        (got,) = sped(model, drafter, Sampler(0.0), model.layout.stop_ids, [request])
        yield same(f"{style}: greedy {case}, speculative", got.tokens, outcome.tokens)


def _drafted_by_another(golden: _LlasaGolden) -> Iterator[CheckRow]:
    """Check one model as another's draft: LLaSA-1B of LLaSA-8B, whose ids are the same."""
    names = [name for name in golden.styles if golden.cases(name, "greedy")]
    for draft_name, name in pairwise(names):
        model, draft = golden.model(name), golden.model(draft_name)
        case = golden.cases(name, "greedy")[0]
        limit = golden.styles[name][f"greedy_{case}"]["max_length"]
        request = _request(model, golden.prompt(name, case), limit)
        theirs = _request(draft, golden.prompt(draft_name, case), limit)
        request = replace(request, draft_prompt=theirs.prompt)
        greedy, stops = Sampler(0.0), model.layout.stop_ids
        (alone,) = autoregressive(model, stops, greedy, [request])
        (both,) = sped(model, LMDrafter(draft), greedy, stops, [request])
        yield same(f"{name} drafted by {draft_name}", both.tokens, alone.tokens)


def _request(model: RowLM, prompt: list[int], max_length: int) -> Request:
    embedded = model.prompt(prompt)
    return Request("golden", embedded, None, 0, max_length - len(prompt), 0)


def _sampling(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    arrays = golden.optional("sampling.npz")
    model = golden.model(style)
    order = model.layout.order(text_rows=True)
    for name, sampler in SAMPLERS.items():
        if f"{style}/{name}/scores" not in arrays:
            continue
        scores, rows = (arrays[f"{style}/{name}/{array}"] for array in ("scores", "ids"))
        number = len(scores)
        got = drawn_from(sampler, model, rows.tolist(), len(rows) - number, number)
        yield close(f"{style}: sampler {name}", got, expected_law(scores, order))


def _similarity(golden: _LlasaGolden, style: str) -> Iterator[CheckRow]:
    arrays = golden.optional("asg.npz")
    if f"{style}/codes" not in arrays:
        return
    unit = normalise(code_embedding(golden.checkpoint(style)).float())
    cosine = unit[torch.from_numpy(arrays[f"{style}/codes"])] @ unit.T
    yield close(f"{style}: cosines of codes", cosine, arrays[f"{style}/cosine_rows"])
    nearest = cosine.topk(arrays[f"{style}/top8"].shape[1]).indices
    yield same(f"{style}: nearest codes", nearest, arrays[f"{style}/top8"])


def _fsq(golden: _LlasaGolden) -> Iterator[CheckRow]:
    if not (golden.folder / "fsq.json").is_file():
        return
    rows = golden.json("fsq.json")
    codes = np.array([row["index"] for row in rows])
    yield same(
        "digits of codes", fsq.digits(codes), np.array([r["digits_lsb_first"] for r in rows])
    )
    yield same("values of codes", fsq.values(codes), np.array([r["values"] for r in rows]))


def _training_rows(golden: _LlasaGolden) -> Iterator[CheckRow]:
    """Compare the ids of published dataset items, cut and padded to one length."""
    items = golden.optional("train_data/dataset_items.npz")
    style = next((name for name in golden.styles if golden.date(name) is not None), None)
    if not items or style is None:  # they are in the words of the template with a date
        return
    checkpoint = golden.checkpoint(style)
    layout = RowLayout.read(Path(checkpoint.path), checkpoint.rows)
    arrays = golden.optional("train_data/u2_codes.npz")
    for number, row in enumerate(golden.json("train_data/source.json").values()):
        codes = row.get("codes")
        codes = arrays["codes"].tolist() if not isinstance(codes, list) else codes
        expected = items[f"{number}/input_ids"]
        got = write_rows(layout, layout.end, None, None, StoredUtterance(row["text"], codes)).ids
        pad = np.full(len(expected), golden.layout["pad_token_id"])
        pad[: len(got)] = got[: len(expected)]
        yield same(f"training row {number}", pad, expected)
