"""Check golden files of LMs whose codes are vocabulary rows: Orpheus, Maya1, Veena, Spark-TTS.

Reads golden.json: `rows` (a RowsConfig), `prompts` (text, speaker, prompt_text, codes, voice_codes
and their ids), `model` (a folder, by default model), and for what a model says `sampler`. Beside it
golden.npz has for a prompt's name sequences of transformers' generate, `free` and in `frames`, that
begin with the prompt: <name>/free_greedy, frames_greedy, free_sampled and the processed scores that
these tokens were drawn by, free_scores; and <name>/logits along frames_greedy. Arrays that are not
there are not checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from speculative_tts.checks.compare import Entries, close, read_arrays, read_object, same
from speculative_tts.checks.decoding import CPU, along, drawn_from, expected_law, sped
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import Slots
from speculative_tts.schema.common import CheckpointConfig, RowsConfig
from speculative_tts.schema.fields import NonNegative, Nucleus, Positive, Whole
from speculative_tts.typed import exactly, refuse_unknown

KEYS = ("rows", "prompts", "model", "sampler", "frames")  # of golden.json
MAKERS = ("said", "opened_here")  # of a prompt: what only those who made it need


@dataclass(frozen=True)
class _Said:
    """Hold a prompt of golden.json with the ids that the authors' code makes of it."""

    name: str
    text: str
    ids: tuple[int, ...]
    speaker: str = ""
    prompt_text: str = ""
    codes: tuple[int, ...] = ()
    voice_codes: tuple[int, ...] = ()

    @property
    def prompt(self) -> Prompt:
        codes = torch.tensor(self.codes, dtype=torch.int64)
        return Prompt(self.text, self.prompt_text, codes, self.speaker, self.voice_codes)


@dataclass(frozen=True)
class _Drawn:
    """Hold the sampler that golden sequences were drawn by, as transformers names its settings."""

    temperature: NonNegative
    top_k: Whole
    top_p: Nucleus
    repetition_penalty: Positive = 1.0


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a golden folder; ValueError if it is not in the format."""
    golden = _Golden(folder)
    for one in golden.prompts:
        got = golden.layout.prompt_ids(one.prompt)
        yield same(f"prompt {one.name}, ids", got, np.array(one.ids))
    for one in golden.prompts:
        yield from _logits(golden, one)
        for kind in ("free", "frames"):
            yield from _greedy(golden, one, kind)
            yield from _sampled(golden, one, kind)


@dataclass(frozen=True)
class _Golden:
    """Read each file of a golden folder once."""

    folder: Path

    @cached_property
    def about(self) -> Entries:
        about = read_object(self.folder / "golden.json")
        refuse_unknown(about, KEYS, about.path)
        return about

    @cached_property
    def prompts(self) -> list[_Said]:
        where = self.about.path
        prompts = [exactly(_Said, one, where, MAKERS) for one in self.about["prompts"]]
        for one in prompts:
            if not one.ids or not 0 <= min(one.ids) <= max(one.ids) < self.layout.rows:
                raise FormatError(
                    f"{where}: ids of prompt {one.name} must be rows of the model, 0 to "
                    f"{self.layout.rows - 1}; copy golden.json and model of one run"
                )
        return prompts

    @cached_property
    def checkpoint(self) -> CheckpointConfig:
        rows = exactly(RowsConfig, self.about["rows"], self.about.path)
        place = self.folder / str(self.about.get("model", "model"))
        return CheckpointConfig(name=self.folder.name, path=str(place), rows=rows)

    @cached_property
    def layout(self) -> RowLayout:
        return RowLayout.read(Path(self.checkpoint.path), self.checkpoint.rows)

    @cached_property
    def arrays(self) -> Entries:
        path = self.folder / "golden.npz"
        return read_arrays(path) if path.is_file() else Entries(path, {})

    def model(self, kind: str) -> RowLM:
        whole = kind == "free"
        return RowLM.load(self.checkpoint, dtype=torch.float32, device=CPU, text_rows=whole)

    def slots(self, kind: str) -> Slots | None:
        return None if kind == "free" else self.layout.slots

    def sampler(self, kind: str) -> Sampler:
        drawn = exactly(_Drawn, self.about["sampler"], self.about.path)
        return RepetitionPenalty(
            drawn.temperature, drawn.top_k, drawn.top_p, drawn.repetition_penalty,
            slots=self.slots(kind),
        )  # fmt: skip

    def optional(self, one: _Said, name: str) -> np.ndarray | None:
        """Return an array of a prompt; None where there is none.

        Raises FormatError for values of a vocabulary other than the model's.
        """
        array = self.arrays.get(f"{one.name}/{name}")
        if array is not None and array.ndim == 2 and array.shape[1] != self.layout.rows:
            raise FormatError(
                f"{self.arrays.path}: {one.name}/{name} has {array.shape[1]} columns, "
                f"the model {self.layout.rows} rows; copy golden.npz and model of one run"
            )
        return array

    def sequence(self, one: _Said, name: str, least: int) -> list[int]:
        """Return a prompt and the rows said after it; FormatError for fewer than `least` of them.

        Raises FormatError for rows that the model has not, too.
        """
        key = f"{one.name}/{name}"
        rows: list[int] = self.arrays[key].tolist()
        if len(rows) < len(one.ids) + least or not set(rows) <= set(range(self.layout.rows)):
            raise FormatError(
                f"{self.arrays.path}: {key} must be the prompt and {least} or more rows "
                f"of the model, 0 to {self.layout.rows - 1}; copy golden.npz and golden.json of "
                "one run"
            )
        return rows


def _logits(golden: _Golden, one: _Said) -> Iterator[CheckRow]:
    expected = golden.optional(one, "logits")
    if expected is not None:
        rows = golden.sequence(one, "frames_greedy", len(expected) - 1)
        got = along(golden.model("free"), rows, len(one.ids) - 1, len(expected))
        order = golden.layout.order(text_rows=True)
        yield close(f"{one.name}: logits", got, expected[:, order])


def _greedy(golden: _Golden, one: _Said, kind: str) -> Iterator[CheckRow]:
    if golden.optional(one, f"{kind}_greedy") is None:
        return
    expected = golden.sequence(one, f"{kind}_greedy", 1)
    model, sampler = golden.model(kind), Sampler(0.0, slots=golden.slots(kind))
    stops, most = model.layout.stop_ids, len(expected) - len(one.ids)
    request = Request("golden", model.prompt(list(one.ids)), None, 0, most, 0)
    (outcome,) = autoregressive(model, stops, sampler, [request])
    order = model.layout.order(text_rows=kind == "free")
    said = order[outcome.tokens].tolist()
    yield same(f"{one.name}: greedy, {kind}", [*one.ids, *said], expected)
    (both,) = sped(model, LMDrafter(model.subset([0])), sampler, stops, [request])
    yield same(f"{one.name}: greedy, {kind}, speculative", both.tokens, outcome.tokens)


def _sampled(golden: _Golden, one: _Said, kind: str) -> Iterator[CheckRow]:
    scores = golden.optional(one, f"{kind}_scores")
    if scores is None:
        return
    model, number = golden.model(kind), len(scores)
    rows = golden.sequence(one, f"{kind}_sampled", number)
    law = drawn_from(golden.sampler(kind), model, rows, len(one.ids), number)
    order = model.layout.order(text_rows=kind == "free")
    yield close(f"{one.name}: sampler, {kind}", law, expected_law(scores, order))
