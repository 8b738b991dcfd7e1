"""Check golden files of CSM: prompts, the logits of both decoders, greedy frames, and its codec.

Reads golden.json: `prompts` (name, text, prompt_text of one that follows the recording, and ids as
CsmProcessor makes them) and `sampler` (that of generation_config.json); the checkpoint in model/;
golden.npz: of a prompt <name>/frames, transformers' greedy frames [frames, codebooks], and along
them <name>/logits [frames, codebooks, size]; of the codec wave, its codes [codebooks, frames] and
what they sound like, heard.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.compare import Entries, close, read_arrays, read_object, same
from speculative_tts.checks.decoding import CPU, sped
from speculative_tts.checks.registry import CheckRow, FormatError
from speculative_tts.codecs.mimi import MimiCodec
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.typed import typed


@dataclass(frozen=True)
class _SpokenTurn:
    """Hold a prompt of golden.json with the ids that the processor makes of it."""

    name: str
    text: str
    ids: tuple[int, ...]
    prompt_text: str | None = None


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a golden folder; ValueError if it is not in the format."""
    golden = _GoldenTalk(folder)
    if golden.arrays.keys() & {"codes", "heard"}:
        yield from _codec(golden)
    layout = golden.model.layout
    for key, value in golden.about["sampler"].items():
        yield close(f"sampler: {key}", float(layout.sampling.get(key, np.nan)), float(value))
    for one in golden.prompts:
        prompt = golden.prompt(one)
        rows = golden.model.prompt_ids(prompt)
        yield same(f"prompt {one.name}, ids", _processed(rows, golden.model), np.array(one.ids))
        yield from _frames(golden, one.name, golden.model.prompt(rows))


@dataclass(frozen=True)
class _GoldenTalk:
    """Read each file of a golden folder once."""

    folder: Path

    @cached_property
    def about(self) -> Entries:
        return read_object(self.folder / "golden.json")

    @cached_property
    def prompts(self) -> list[_SpokenTurn]:
        return [typed(_SpokenTurn, one, self.about.path) for one in self.about["prompts"]]

    @cached_property
    def arrays(self) -> Entries:
        return read_arrays(self.folder / "golden.npz")

    @cached_property
    def model(self) -> CsmLM:
        given = CheckpointConfig(name="csm", path=str(self.folder / "model"))
        return CsmLM.load(given, dtype=torch.float32, device=CPU)

    def prompt(self, one: _SpokenTurn) -> Prompt:
        if one.prompt_text is None:
            return Prompt(one.text)
        codes = torch.from_numpy(self.arrays["codes"].T.astype(np.int64))
        return Prompt(one.text, one.prompt_text, flat(codes, self.model))


def flat(frames: Tensor, model: CsmLM) -> Tensor:
    """Return frames [frames, codebooks] as speech ids in one row."""
    c = model.config
    if frames.shape[1:] != (c.codebooks,) or not bool(((frames >= 0) & (frames < c.size)).all()):
        raise FormatError(
            f"golden.npz has frames of other codes than the model's {c.codebooks} x {c.size}; copy "
            "golden.npz and model of one run"
        )
    return (frames + c.size * torch.arange(c.codebooks)).flatten()


def _codec(golden: _GoldenTalk) -> Iterator[CheckRow]:
    codec = MimiCodec.load(golden.folder / "model")
    expected = golden.arrays["codes"]
    got = codec.encode(golden.arrays["wave"])
    yield same("codec: codes of a wave", got.reshape(-1, codec.codebooks) % codec.size, expected.T)
    yield close("codec: wave of the codes", codec.decode(got), golden.arrays["heard"])


def _processed(rows: list[int], model: CsmLM) -> np.ndarray:
    """Return a prompt's rows as the processor has them: one token a frame."""
    text, found = model.config.text_rows, np.array(rows)
    kept = (found < text) | ((found - text) < model.config.size)  # of a frame the first code
    return np.where(found < text, found, model.config.audio)[kept]


@torch.inference_mode()
def _frames(golden: _GoldenTalk, name: str, prompt: Tensor) -> Iterator[CheckRow]:
    """Check logits along transformers' frames, and greedy frames with and without speculation."""
    model, frames = golden.model, torch.from_numpy(golden.arrays[f"{name}/frames"])
    ids, c = flat(frames, model), model.config
    cache = model.cache(1, len(prompt) + len(ids) + 1)
    first = model.prefill_hidden([prompt], cache)[:, None]
    states = model.extend_hidden(ids[None, :-1], cache, torch.tensor([len(prompt)]))
    logits = model.logits(torch.cat([first, states], 1))[0, :, : c.codes]
    own = logits.view(-1, c.codebooks, c.codebooks, c.size).diagonal(dim1=1, dim2=2).transpose(1, 2)
    expected = golden.arrays[f"{name}/logits"]
    yield close(f"{name}: logits, backbone", own[:, 0], expected[:, 0])
    yield close(f"{name}: logits, depth decoder", own[:, 1:], expected[:, 1:])
    sampler, stops = Sampler(0.0, slots=model.layout.slots), model.layout.stop_ids
    request = Request("golden", prompt, None, 0, len(ids), 0)
    (outcome,) = autoregressive(model, stops, sampler, [request])
    yield same(f"{name}: greedy", outcome.tokens, ids)
    drafter = LookupDrafter(model.vocab_size, CPU)
    (both,) = sped(model, drafter, sampler, stops, [request])
    yield same(f"{name}: greedy, speculative", both.tokens, ids)
