"""Utterances of a test list as a benchmark asks for them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import read_list, spread
from speculative_tts.runs.voices import encode_file, prompt_of
from speculative_tts.schema.bench import BenchConfig


@dataclass(frozen=True)
class Asked:
    """An utterance for the engine, and its text and voice."""

    request: Request
    prompt: Prompt


def asked_of(config: BenchConfig, engine: Engine) -> list[Asked]:
    """Return `config.limit` utterances, evenly spread over the list."""
    asked = []
    for item in spread(read_list(Path(config.data.path)), config.limit):
        prompt = prompt_of(item, engine.target.layout, partial(encode_file, engine.codec))
        asked.append(Asked(engine.request(item.id, prompt, config.seed), prompt))
    return asked
