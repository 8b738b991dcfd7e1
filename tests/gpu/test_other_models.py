"""Models whose kernels no other test of a GPU runs: norms of heads, frames, block drafters.

In float32 tokens by Triton are torch's.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from block_folders import random_block
from computing import computing
from decoders import requests
from small_target import LAYOUT, save_target
from static_loops import moved, speculation

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.graphs import Graphs, cuda_graph
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.slots import Slots
from speculative_tts.schema.decode import Kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can see"),
]
CUDA = torch.device("cuda")
FRAMES = Slots((13, 12, 13))  # the 38 codes of `decoders`
Decode = Callable[[Graphs], list[Outcome]]


def same(decode: Decode) -> bool:
    """Return whether both kernels emit the same tokens, in captured steps."""
    said = []
    for kernels in (Kernels.torch, Kernels.triton):
        with computing(kernels):
            said.append([one.tokens for one in decode(Graphs(cuda_graph))])
    assert any(said[0])
    return said[0] == said[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("target")
    save_target(made, "qwen3")
    return made


def qwen3(folder: Path) -> tuple[MergedVocabLM, list[Request]]:
    """A small target with norms of queries and keys, and requests."""
    model = MergedVocabLM.load(folder, dtype=torch.float32, device=CUDA)
    ids = torch.randint(LAYOUT.n_codes, (4, 7), generator=torch.Generator().manual_seed(1))
    prompts = [model.prompt(row.tolist()) for row in ids]
    return model, [Request(str(n), one, None, 0, 30, 0) for n, one in enumerate(prompts)]


def test_norms_of_queries_and_keys(folder: Path) -> None:
    model, asked = qwen3(folder)
    assert model.decoder.config.head_norms
    assert same(lambda g: autoregressive(model, LAYOUT.stop_ids, Sampler(0.9, 12), asked, g))


@pytest.mark.parametrize("markov", [None, "vanilla"])
def test_a_block_drafter(folder: Path, markov: str | None) -> None:
    model, asked = qwen3(folder)
    drafter = random_block(model, markov)
    given = drafter.verifier, drafter, Tolerance(0.3), Sampler(0.9, 12), LAYOUT.stop_ids, 3
    assert same(lambda graphs: Speculation(*given).decode(asked, graphs=graphs))


@pytest.mark.parametrize("drafter", ["lm", "recurrent"])
@pytest.mark.parametrize("sampler", [Sampler(0.9, 12), RepetitionPenalty(0.9, 12, 0.9, 1.3)])
def test_codes_in_frames(sampler: Sampler, drafter: str) -> None:
    with computing(Kernels.torch):
        made = speculation("tolerance", "all", drafter)
    made = replace(made, sampler=replace(sampler, slots=FRAMES))
    there, asked = moved(made, CUDA), moved(requests(4), CUDA)
    assert same(lambda graphs: there.decode(asked, graphs=graphs))
