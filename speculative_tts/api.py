"""Speak from Python in a few lines, with the shipped system or any that sst-speak can load.

docs/api.md lists this and the other stable names.
"""

from base64 import b64encode
from dataclasses import dataclass, field, replace
from pathlib import Path

from speculative_tts.codecs.audio import Wave, wav_bytes, write_wave
from speculative_tts.commands.prompts import find_prompt
from speculative_tts.commands.speak import check_suffix, main, prompt_of
from speculative_tts.costs.lookahead import settled
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.streaming import Stream, growing
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.decode import System
from speculative_tts.schema.fields import check

SYSTEMS = ("speculative", "target", "draft")


@dataclass(frozen=True)
class Speech:
    """A spoken text: the wave [samples], the decoding outcome, the language model's seconds."""

    wave: Wave = field(repr=False)
    sample_rate: int
    outcome: Outcome = field(repr=False)
    seconds: float

    @property
    def tokens(self) -> list[int]:
        """Emitted token ids, the stop id included."""
        return self.outcome.tokens

    @property
    def acceptance_length(self) -> float:
        """Mean number of tokens that a round emitted; 1 where nothing was drafted."""
        rounds = self.outcome.counts.rounds
        return (len(self.tokens) - 1) / rounds if rounds else 1.0

    def save(self, path: str | Path) -> Path:
        """Write a wav file; return its path. Raise ValueError for a suffix of another format."""
        check_suffix(Path(path))
        write_wave(Path(path), self.wave, self.sample_rate)
        return Path(path)

    def _repr_html_(self) -> str:
        """Return an audio player, for notebooks."""
        data = b64encode(wav_bytes(self.wave, self.sample_rate)).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


class Speaker:
    """A loaded system that speaks texts: target, draft and codec.

    `settings` are written as for sst-speak: `Speaker("rule=exact", "lookahead=4")`. A wrong one
    raises a ValueError that names it.
    """

    def __init__(self, *settings: str) -> None:
        for one in settings:
            if not isinstance(one, str):
                raise ValueError(
                    f'{one!r} is no setting; write it as text, such as "rule.beta=0.2"'
                )
        self.config, _ = settled(main.compose([*settings, "text=''"]))
        self.engine = Builder(self.config).engine()

    def speak(
        self,
        text: str,
        prompt: str | None = None,
        prompt_text: str | None = None,
        *,
        seed: int = 0,
        system: str = "speculative",
    ) -> Speech:
        """Speak a text in the voice of a recording or a listed speaker, or in the default voice.

        `system` is speculative, target or draft. The same seed gives the same tokens.
        """
        spoken = self._prompt(text, prompt, prompt_text, seed)
        request = self.engine.request("speak", spoken, seed)
        timed = self.engine.decode(self._system(system), [request])
        (outcome,) = timed.outcomes
        if outcome.failure:
            raise ValueError(outcome.failure)
        wave = self.engine.audio(outcome, spoken).wave
        return Speech(wave, self.engine.codec.sample_rate, outcome, timed.seconds)

    def stream(
        self,
        text: str,
        prompt: str | None = None,
        prompt_text: str | None = None,
        *,
        seed: int = 0,
        system: str = "speculative",
        chunk: int | None = None,
    ) -> Stream:
        """Speak a text as an iterator over waves [samples] of `chunk` codes each.

        Joined, the waves equal that of `speak` (with X-Codec2 nearly). Afterwards the stream's
        `outcome` and `arrivals` hold the decoding outcome and the times of the pieces.
        """
        spoken = self._prompt(text, prompt, prompt_text, seed, chunk)
        request = self.engine.request("speak", spoken, seed)
        return Stream(
            self.engine, growing(self.engine, self._system(system), request), spoken, chunk
        )

    def _system(self, name: str) -> System:
        """Return the system of this name; a target without a draft speaks alone."""
        if name not in SYSTEMS:
            raise ValueError(f"system {name} is unknown; give one of {', '.join(SYSTEMS)}")
        if name == "draft" and self.engine.draft is None:
            raise ValueError("system draft is a model, and none drafts here; give drafter=lm")
        alone = name == "speculative" and self.engine.draft is self.engine.target
        return System.target if alone else System[name]

    def _prompt(
        self,
        text: str,
        prompt: str | None,
        prompt_text: str | None,
        seed: int,
        chunk: int | None = None,
    ) -> Prompt:
        """Build the prompt of a text in a voice; raise ValueError for what sst-speak refuses."""
        given = replace(self.config, text=text, seed=seed, chunk=chunk)
        config = replace(given, prompt=prompt, prompt_text=prompt_text)
        check(config)
        return prompt_of(text, find_prompt(config), self.engine)
