"""Speech from Python: the shipped system, or any that sst-speak can load, in a few lines.

docs/api.md has this and the other names that are promised.
"""

from base64 import b64encode
from dataclasses import dataclass, field, replace
from pathlib import Path

from speculative_tts.codecs.audio import Wave, wav_bytes, write_wave
from speculative_tts.commands.speak import find_prompt, main, prompt_of
from speculative_tts.costs.lookahead import settled
from speculative_tts.decoding.builder import build_engine
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.streaming import Stream, growing
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.decode import System
from speculative_tts.schema.limits import check

SYSTEMS = ("speculative", "target", "draft")


@dataclass(frozen=True)
class Speech:
    """What was said: the wave [samples], how its tokens were made, the language model's seconds."""

    wave: Wave = field(repr=False)
    sample_rate: int
    outcome: Outcome = field(repr=False)
    seconds: float

    @property
    def tokens(self) -> list[int]:
        """Ids that the target emitted or accepted, the stop id included."""
        return self.outcome.tokens

    @property
    def acceptance_length(self) -> float:
        """Tokens a round emitted; 1 where nothing was drafted."""
        rounds = self.outcome.counts.rounds
        return (len(self.tokens) - 1) / rounds if rounds else 1.0

    def save(self, path: str | Path) -> Path:
        """Write a wav; returns its path."""
        write_wave(Path(path), self.wave, self.sample_rate)
        return Path(path)

    def _repr_html_(self) -> str:
        """A player, where a notebook shows this."""
        data = b64encode(wav_bytes(self.wave, self.sample_rate)).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio>'


class Speaker:
    """Target, draft and codec, loaded once.

    `settings` are sst-speak's, written as there: `Speaker("rule=exact", "lookahead=4")`. ValueError
    names what is wrong with one.
    """

    def __init__(self, *settings: str) -> None:
        self.config, _ = settled(main.compose([*settings, "text=''"]))
        self.engine = build_engine(self.config)

    def speak(
        self,
        text: str,
        prompt: str | None = None,
        prompt_text: str | None = None,
        *,
        seed: int = 0,
        system: str = "speculative",
    ) -> Speech:
        """Say a text in a voice: a recording, a speaker of the list, or the one chosen for it.

        `system` is speculative, target or draft. Same seed, same tokens.
        """
        asked = self._asked(text, prompt, prompt_text, seed)
        request = self.engine.request("speak", asked, seed)
        timed = self.engine.decode(self._system(system), [request])
        (outcome,) = timed.outcomes
        if outcome.failure:
            raise ValueError(outcome.failure)
        wave = self.engine.audio(outcome, asked).wave
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
        """The same, to be iterated over: waves [samples] as they are made, of `chunk` codes each.

        Together they are what `speak` says (of X-Codec2 nearly). Afterwards the stream's `outcome`
        and `arrivals` say what it came to, and when.
        """
        asked = self._asked(text, prompt, prompt_text, seed, chunk)
        request = self.engine.request("speak", asked, seed)
        return Stream(
            self.engine, growing(self.engine, self._system(system), request), asked, chunk
        )

    def _system(self, name: str) -> System:
        """A target without a draft speaks alone."""
        if name not in SYSTEMS:
            raise ValueError(f"system {name} is unknown; give one of {', '.join(SYSTEMS)}")
        if name == "draft" and self.engine.draft is None:
            raise ValueError("system draft is a model, and none drafts here; give drafter=lm")
        alone = name == "speculative" and self.engine.draft is self.engine.target
        return System.target if alone else System[name]

    def _asked(
        self,
        text: str,
        prompt: str | None,
        prompt_text: str | None,
        seed: int,
        chunk: int | None = None,
    ) -> Prompt:
        """A text in a voice; ValueError for what sst-speak would not take."""
        given = replace(self.config, text=text, seed=seed, chunk=chunk)
        config = replace(given, prompt=prompt, prompt_text=prompt_text)
        check(config)
        return prompt_of(text, find_prompt(config), self.engine)
