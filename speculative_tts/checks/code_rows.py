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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.compare import close, need, read_arrays, read_json, same
from speculative_tts.checks.registry import CheckRow
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import Slots
from speculative_tts.schema.common import CheckpointConfig, RowsConfig
from speculative_tts.typed import typed

CPU = torch.device("cpu")
LOOKAHEAD = 3


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
        """Return the prompt as this package has it."""
        codes = torch.tensor(self.codes, dtype=torch.int64)
        return Prompt(self.text, self.prompt_text, codes, self.speaker, self.voice_codes)


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
    def about(self) -> dict[str, Any]:
        return dict(read_json(self.folder / "golden.json"))

    @cached_property
    def prompts(self) -> list[_Said]:
        where = self.folder / "golden.json"
        return [typed(_Said, one, where) for one in need(self.about, "prompts", where)]

    @cached_property
    def checkpoint(self) -> CheckpointConfig:
        where = self.folder / "golden.json"
        rows = typed(RowsConfig, need(self.about, "rows", where), where)
        place = self.folder / str(self.about.get("model", "model"))
        return CheckpointConfig(name=self.folder.name, path=str(place), rows=rows)

    @cached_property
    def layout(self) -> RowLayout:
        return RowLayout.read(Path(self.checkpoint.path), self.checkpoint.rows)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        path = self.folder / "golden.npz"
        return read_arrays(path) if path.is_file() else {}

    def model(self, kind: str) -> RowLM:
        whole = kind == "free"
        return RowLM.load(self.checkpoint, dtype=torch.float32, device=CPU, text_rows=whole)

    def slots(self, kind: str) -> Slots | None:
        return None if kind == "free" else self.layout.slots

    def sampler(self, kind: str) -> Sampler:
        given = dict(self.about.get("sampler", {}))
        shape = (given.pop("temperature"), given.pop("top_k"), given.pop("top_p"))
        penalty = given.pop("repetition_penalty", 1.0)
        return RepetitionPenalty(*shape, penalty, slots=self.slots(kind))


def _logits(golden: _Golden, one: _Said) -> Iterator[CheckRow]:
    expected = golden.arrays.get(f"{one.name}/logits")
    if expected is not None:
        rows = golden.arrays[f"{one.name}/frames_greedy"].tolist()
        got = _along(golden.model("free"), rows, len(one.ids) - 1, len(expected))
        order = golden.layout.order(text_rows=True)
        yield close(f"{one.name}: logits", got, expected[:, order])


@torch.inference_mode()
def _along(model: RowLM, rows: list[int], first: int, number: int) -> Tensor:
    """Return the logits after each of `number` rows from `first` on, [number, ids]."""
    cache = model.cache(1, len(rows))
    hidden = model.decoder.extend(model.prompt(rows)[None], cache, torch.zeros(1).long())
    return model.logits(hidden[0, first : first + number])


def _greedy(golden: _Golden, one: _Said, kind: str) -> Iterator[CheckRow]:
    expected = golden.arrays.get(f"{one.name}/{kind}_greedy")
    if expected is None:
        return
    model, sampler = golden.model(kind), Sampler(0.0, slots=golden.slots(kind))
    stops, most = model.layout.stop_ids, len(expected) - len(one.ids)
    request = Request("golden", model.prompt(list(one.ids)), None, 0, most, 0)
    (outcome,) = autoregressive(model, stops, sampler, [request])
    order = model.layout.order(text_rows=kind == "free")
    said = order[outcome.tokens].tolist()
    yield same(f"{one.name}: greedy, {kind}", [*one.ids, *said], expected)
    drafter, rule = LMDrafter(model.subset([0])), Tolerance(0.0)
    (sped,) = Speculation(model, drafter, rule, sampler, stops, LOOKAHEAD).decode([request])
    yield same(f"{one.name}: greedy, {kind}, speculative", sped.tokens, outcome.tokens)


def _sampled(golden: _Golden, one: _Said, kind: str) -> Iterator[CheckRow]:
    scores = golden.arrays.get(f"{one.name}/{kind}_scores")
    if scores is None:
        return
    model, number = golden.model(kind), len(scores)
    rows = golden.arrays[f"{one.name}/{kind}_sampled"].tolist()
    logits = _along(model, rows, len(one.ids) - 1, number)
    stop = StopRule.build(
        model.layout.stop_ids, model.vocab_size, [0], CPU,
        [tuple(sorted(set(model.speech_ids(list(one.ids)))))],
    )  # fmt: skip
    history = torch.tensor([model.speech_ids(rows[len(one.ids) :])])
    law = golden.sampler(kind)(logits[None], history, torch.arange(number)[None], stop)[0]
    order = model.layout.order(text_rows=kind == "free")
    expected = torch.from_numpy(scores).softmax(-1)[:, order]
    yield close(f"{one.name}: sampler, {kind}", law, expected)
