"""Utterances of a test list as a benchmark asks for them."""

from dataclasses import dataclass
from pathlib import Path

from speculative_tts.codecs.audio import read_wave
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import read_list, spread
from speculative_tts.runs.voices import encode_prompt
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
        wave = read_wave(Path(item.prompt_audio), engine.codec.sample_rate)
        codes = encode_prompt(engine.codec, wave, item.prompt_audio)
        prompt = Prompt(item.text, item.prompt_text, codes)
        asked.append(Asked(engine.request(item.id, prompt, config.seed), prompt))
    return asked
