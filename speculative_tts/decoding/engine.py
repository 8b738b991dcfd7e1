"""From configuration to objects: models, codec, sampler and rule of one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from speculative_tts.assets import resolve
from speculative_tts.caches.provide import Sources, acoustic_groups, tensors
from speculative_tts.caches.store import Entry
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.groups import Group
from speculative_tts.decoding.loops import autoregressive, speculative
from speculative_tts.decoding.observer import Instruments, Observer, synchronise
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.models.layout import words_in
from speculative_tts.models.speech_lm import SpeechLM
from speculative_tts.schema import (
    CheckpointConfig,
    CodecConfig,
    Rule,
    RuleConfig,
    RuntimeConfig,
    SamplingConfig,
    System,
)

Made = tuple[AcceptanceRule, Entry | None]  # a rule, and the groups it was made from


def group_rule(config: RuleConfig, sources: Sources) -> Made:
    """PCG's rule, its groups found in the cache or made now."""
    groups = acoustic_groups(config.groups, sources)
    return Group(**tensors(groups, sources.device)), groups


RULES: dict[Rule, Callable[[RuleConfig, Sources], Made]] = {
    Rule.exact: lambda _, __: (Tolerance(0.0), None),
    Rule.tolerance: lambda config, _: (Tolerance(config.beta), None),
    Rule.group: group_rule,
}


@dataclass(frozen=True)
class Settings:
    """A `SamplingConfig` with nothing left open."""

    temperature: float
    top_k: int
    top_p: float
    min_tokens_per_word: float
    max_tokens_per_word: float


@dataclass(frozen=True)
class Timed:
    """Utterances decoded together and the seconds it took, prefill included."""

    outcomes: list[Outcome]
    seconds: float


@dataclass(frozen=True)
class Engine:
    """All that decoding needs."""

    target: SpeechLM
    draft: SpeechLM
    codec: Codec
    rule: AcceptanceRule
    sampler: Sampler
    settings: Settings
    lookahead: int
    groups: Entry | None = None

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Speech ids that end an utterance."""
        return self.target.layout.stop_ids

    def request(
        self, id_: str, text: str, prompt_text: str, prompt_codes: Tensor, seed: int
    ) -> Request:
        """One utterance to decode. Raises ValueError for words the target does not know."""
        words = len(words_in(text))
        return Request(
            id=id_,
            prompt=self.target.prompt(text, prompt_text, prompt_codes),
            draft_prompt=self.draft.prompt(text, prompt_text, prompt_codes),
            min_tokens=int(words * self.settings.min_tokens_per_word),
            max_tokens=max(1, int(words * self.settings.max_tokens_per_word)),
            seed=seed,
        )

    def decode(
        self, system: System, requests: list[Request], observer: Observer | None = None
    ) -> Timed:
        """Decode a batch with a system that has a model, the device idle at both ends."""
        synchronise(self.target.device)
        begin = time.perf_counter()
        if system is System.speculative:
            outcomes = speculative(
                self.target,
                self.draft,
                self.rule,
                self.stop_ids,
                self.sampler,
                self.lookahead,
                requests,
                observer,
            )
        else:
            model = self.draft if system is System.draft else self.target
            outcomes = autoregressive(model, self.stop_ids, self.sampler, requests)
        synchronise(self.target.device)
        return Timed(outcomes, time.perf_counter() - begin)

    def instruments(self) -> Instruments:
        """Fresh clocks and distortion sums for one utterance."""
        return Instruments(self.rule, self.lookahead, self.target.device)

    def audio(self, outcome: Outcome) -> np.ndarray:
        """The wave of a decoded utterance, without its stop id."""
        return self.codec.decode(np.array(codes_of(outcome), dtype=np.int64))


def codes_of(outcome: Outcome) -> list[int]:
    """Speech codes of an utterance: its tokens without the stop id."""
    return outcome.tokens[:-1] if outcome.stopped else outcome.tokens


def build_engine(
    target: CheckpointConfig,
    draft: CheckpointConfig,
    codec: CodecConfig,
    rule: RuleConfig,
    sampling: SamplingConfig,
    runtime: RuntimeConfig,
    lookahead: int,
) -> Engine:
    """Check the settings, then load everything. Raises ValueError for any that cannot work."""
    if lookahead < 1:
        raise ValueError(f"lookahead {lookahead} is below 1; draft at least 1 token a round")
    if runtime.device.name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "runtime.device=cuda needs a GPU that torch can see; use runtime.device=cpu"
        )
    torch.set_num_threads(runtime.threads)
    device, dtype = torch.device(runtime.device.value), getattr(torch, runtime.dtype.value)
    sources = Sources(resolve(target.path), (codec.name, resolve(codec.path)), device)
    acceptance, groups = RULES[rule.name](rule, sources)
    models = [SpeechLM.load(resolve(c.path), dtype=dtype, device=device) for c in (target, draft)]
    _check_pair(*models)
    speech_codec = load_codec(codec.name, resolve(codec.path))
    layout = models[0].layout
    if speech_codec.n_codes != layout.n_codes:
        raise ValueError(
            f"codec {codec.path} has {speech_codec.n_codes} codes, "
            f"target {target.path} {layout.n_codes}; they do not belong together"
        )
    settings = _with_defaults(sampling, layout.sampling)
    sampler = Sampler(settings.temperature, settings.top_k, settings.top_p)
    return Engine(
        models[0], models[1], speech_codec, acceptance, sampler, settings, lookahead, groups
    )


def _check_pair(target: SpeechLM, draft: SpeechLM) -> None:
    a, b = target.layout, draft.layout
    for name in ("speech_vocab_size", "n_codes", "stop_ids", "words"):
        if getattr(a, name) != getattr(b, name):
            raise ValueError(
                f"target and draft have different vocabularies ({name}: {_short(getattr(a, name))} "
                f"and {_short(getattr(b, name))}); train the draft from this target"
            )


def _short(value: object) -> str:
    return (
        f"{len(value)} words"
        if isinstance(value, tuple) and value and isinstance(value[0], str)
        else str(value)
    )


def _with_defaults(sampling: SamplingConfig, defaults: dict[str, float]) -> Settings:
    """Settings left open take the checkpoint's own; ValueError when neither says."""

    def value(name: str) -> float:
        chosen = getattr(sampling, name)
        number = defaults.get(name) if chosen is None else chosen
        if number is None:
            raise ValueError(f"sampling.{name} is not set, nor in speech.json; give a number")
        return float(number)

    return Settings(
        temperature=value("temperature"),
        top_k=int(value("top_k")),
        top_p=value("top_p"),
        min_tokens_per_word=value("min_tokens_per_word"),
        max_tokens_per_word=value("max_tokens_per_word"),
    )
