"""Greedy speculative output of the shipped models is greedy autoregressive output, in float32."""

import functools
from pathlib import Path

import pytest
from torch import Tensor

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import read_wave
from speculative_tts.commands.decode import main
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import read_list
from speculative_tts.runs.voices import encode_prompt
from speculative_tts.schema.decode import DecodeConfig, System

BATCH = 12


def prompt_codes(engine: Engine, audio: str) -> Tensor:
    return encode_prompt(engine.codec, read_wave(Path(audio), engine.codec.sample_rate), audio)


@pytest.mark.slow
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "drafter", [["drafter=lm"], ["drafter=heads"], ["drafter=heads", "viterbi.mode=none"]]
)
def test_greedy_speculation_repeats_the_greedy_target(drafter: list[str], every: int) -> None:
    """Every 20th utterance of the test list; `pytest -m full` takes all 240."""
    config: DecodeConfig = main.compose(
        ["sampling.temperature=0", "lookahead=3", "rule=exact", *drafter]
    )
    engine = Builder(config).engine()
    items = read_list(resolve(config.data.path))[::every]
    assert len(items) == 240 // every
    codes = functools.cache(functools.partial(prompt_codes, engine))
    differing = []
    accepted = 0
    for begin in range(0, len(items), BATCH):
        batch = items[begin : begin + BATCH]
        requests = [
            engine.request(
                item.id, Prompt(item.text, item.prompt_text, codes(item.prompt_audio)), 0
            )
            for item in batch
        ]
        alone = engine.decode(System.target, requests).outcomes
        fast = engine.decode(System.speculative, requests).outcomes
        pairs = zip(batch, alone, fast, strict=True)
        differing += [item.id for item, a, b in pairs if a.tokens != b.tokens]
        accepted += sum(outcome.counts.accepted for outcome in fast)
    assert differing == []
    assert accepted > 0  # or nothing was speculated
