"""From configuration to objects: models, codec, sampler and rule of one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from speculative_tts.assets import resolve
from speculative_tts.caches.provide import Sources, acoustic_groups, tensors
from speculative_tts.caches.store import Entry
from speculative_tts.codecs.registry import Codec, VoiceCodec, load_codec
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.groups import Group
from speculative_tts.decoding.heads import MultiToken, Target, build_multi_token
from speculative_tts.decoding.loops import autoregressive, speculative
from speculative_tts.decoding.multi_token import multi_token, uncached
from speculative_tts.decoding.observer import Instruments, Observer, synchronise
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.penalty import RepetitionPenalty
from speculative_tts.decoding.ras import RepetitionAware
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.models.families import (
    FamilyLM,
    Layout,
    Refiner,
    load_layout,
    load_refiner,
    load_speech_lm,
)
from speculative_tts.schema import (
    CheckpointConfig,
    CodecConfig,
    HeadsConfig,
    Repetition,
    Rule,
    RuleConfig,
    RuntimeConfig,
    SamplingConfig,
    System,
    ViterbiConfig,
)

Made = tuple[AcceptanceRule, Entry | None]  # a rule, and the groups it was made from


def group_rule(config: RuleConfig, sources: Sources, vocab_size: int) -> Made:
    """PCG's rule, its groups found in the cache or made now."""
    groups = acoustic_groups(config.groups, sources)
    return Group(**tensors(groups, sources.device, vocab_size)), groups


RULES: dict[Rule, Callable[[RuleConfig, Sources, int], Made]] = {
    Rule.exact: lambda _, __, ___: (Tolerance(0.0), None),
    Rule.tolerance: lambda config, _, __: (Tolerance(config.beta), None),
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
    repetition_penalty: float
    text_rows: bool
    ras_window: int
    ras_tau: float
    ras_variant: Repetition

    def __post_init__(self) -> None:
        least, most = self.min_tokens_per_word, self.max_tokens_per_word
        if not most > 0:
            raise ValueError(
                f"sampling.max_tokens_per_word {most:g} is not above 0; "
                "give a number such as 28, the tiny target's"
            )
        if not least >= 0:
            raise ValueError(
                f"sampling.min_tokens_per_word {least:g} is below 0; use 0 for no minimum"
            )
        if least > most:
            raise ValueError(
                f"sampling.min_tokens_per_word {least:g} is above max_tokens_per_word {most:g}; "
                "lower the one or raise the other"
            )


@dataclass(frozen=True)
class Timed:
    """Utterances decoded together and the seconds it took, prefill included."""

    outcomes: list[Outcome]
    seconds: float


@dataclass(frozen=True)
class Spoken:
    """A wave [samples], and the seconds that further layers of its codes took (no LM time)."""

    wave: np.ndarray
    nar_seconds: float | None = None


@dataclass(frozen=True)
class Engine:
    """All that decoding needs."""

    target: FamilyLM
    draft: FamilyLM
    codec: Codec
    rule: AcceptanceRule
    sampler: Sampler
    settings: Settings
    lookahead: int
    groups: Entry | None = None
    refiner: Refiner | None = None  # of a codec with several layers
    multi: MultiToken | None = None

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Speech ids that end an utterance."""
        return self.target.layout.stop_ids

    def request(
        self, id_: str, text: str, prompt_text: str, prompt_codes: Tensor, seed: int
    ) -> Request:
        """One utterance to decode. Raises ValueError for a text the target cannot speak."""
        prompt_codes = first_layer(prompt_codes)
        prompt = self.target.prompt(text, prompt_text, prompt_codes)
        fewest, most = self.target.layout.limits(
            text,
            len(prompt),
            self.settings.min_tokens_per_word,
            self.settings.max_tokens_per_word,
        )
        return Request(
            id=id_,
            prompt=prompt,
            draft_prompt=self.draft.prompt(text, prompt_text, prompt_codes),
            min_tokens=fewest,
            max_tokens=most,
            seed=seed,
            prompt_tokens=self._prompt_tokens(text, prompt_text, prompt_codes),
            last_code=int(prompt_codes[-1]) if len(prompt_codes) else None,
        )

    def _prompt_tokens(self, text: str, prompt_text: str, prompt_codes: Tensor) -> tuple[int, ...]:
        """Speech ids in the prompt, for a sampler that counts them."""
        if self.settings.repetition_penalty == 1:
            return ()
        rows = self.target.prompt_ids(text, prompt_text, prompt_codes)
        return tuple(sorted(set(self.target.speech_ids(rows))))

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
        elif system is System.multi_token:
            assert self.multi is not None, "with_heads comes before"
            heads, choose = self.multi.heads, self.multi.choose
            outcomes = multi_token(self.target, heads, choose, self.stop_ids, requests)
        elif system is System.uncached:
            outcomes = uncached(self.target, self.stop_ids, self.sampler, requests)
        else:
            model = self.draft if system is System.draft else self.target
            outcomes = autoregressive(model, self.stop_ids, self.sampler, requests)
        synchronise(self.target.device)
        return Timed(outcomes, time.perf_counter() - begin)

    def with_heads(
        self,
        heads: HeadsConfig,
        viterbi: ViterbiConfig,
        *,
        target: CheckpointConfig,
        codec: CodecConfig,
        dtype: torch.dtype,
    ) -> "Engine":
        """This engine with the target's multi-token heads. Raises ValueError when they misfit."""
        parts = Target(
            target,
            codec,
            self.codec.n_codes,
            self.stop_ids,
            self.target.vocab_size,
            dtype,
            self.target.device,
        )
        return replace(self, multi=build_multi_token(heads, viterbi, parts, self.sampler))

    def instruments(self) -> Instruments:
        """Fresh clocks and distortion sums for one utterance."""
        return Instruments(self.rule, self.lookahead, self.target.device)

    def audio(self, outcome: Outcome, text: str, prompt_text: str, prompt_codes: Tensor) -> Spoken:
        """The wave of a decoded utterance, without its stop id."""
        codes = self.codes(outcome)
        if self.refiner is None:
            speech = np.array(codes, dtype=np.int64)
            if isinstance(self.codec, VoiceCodec):
                return Spoken(self.codec.decode_as(speech, prompt_codes.cpu().numpy()))
            return Spoken(self.codec.decode(speech))
        synchronise(self.target.device)
        begin = time.perf_counter()
        layers = self.refiner(text, prompt_text, prompt_codes, codes)
        seconds = time.perf_counter() - begin
        return Spoken(self.codec.decode(layers.numpy()), seconds)

    def codes(self, outcome: Outcome) -> list[int]:
        """Speech codes of an utterance: its tokens without stop id and text rows."""
        return [token for token in outcome.tokens if token < self.codec.n_codes]


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
    # A draft writes its prompt as its target does.
    like_target = replace(draft, rows=target.rows, instruction=target.instruction)
    checkpoints = [replace(c, path=str(resolve(c.path))) for c in (target, like_target)]
    layouts = [load_layout(c) for c in checkpoints]
    layout = layouts[0]
    settings = _with_defaults(sampling, layout.sampling)
    sampler = _sampler(settings, layout)
    _check_pair(layouts[0], layouts[1], settings)
    vocab_size = layout.width(text_rows=settings.text_rows)
    sources = Sources(resolve(target.path), (codec.name, resolve(codec.path)), device, target.rows)
    acceptance, groups = RULES[rule.name](rule, sources, vocab_size)
    speech_codec = load_codec(codec.name, resolve(codec.path))
    if speech_codec.n_codes != layout.n_codes:
        raise ValueError(
            f"codec {codec.path} has {speech_codec.n_codes} codes, "
            f"target {target.path} {layout.n_codes}; they do not belong together"
        )
    refiner = load_refiner(checkpoints[0], dtype=dtype, device=device)
    _check_layers(codec, speech_codec, refiner)
    target_lm, draft_lm = _load_pair(checkpoints, dtype, device, text_rows=settings.text_rows)
    return Engine(
        target_lm,
        draft_lm,
        speech_codec,
        acceptance,
        sampler,
        settings,
        lookahead,
        groups,
        refiner,
    )


def _load_pair(
    checkpoints: list[CheckpointConfig],
    dtype: torch.dtype,
    device: torch.device,
    *,
    text_rows: bool,
) -> tuple[FamilyLM, FamilyLM]:
    """Target and draft; one model when they are the same."""
    target, draft = checkpoints
    model = load_speech_lm(target, dtype=dtype, device=device, text_rows=text_rows)
    if draft.path == target.path:
        return model, model
    return model, load_speech_lm(draft, dtype=dtype, device=device, text_rows=text_rows)


def first_layer(codes: Tensor) -> Tensor:
    """What an LM reads of a prompt's codes: [tokens], of [layers, tokens] the first."""
    return codes if codes.ndim == 1 else codes[0]


def _check_layers(config: CodecConfig, codec: Codec, refiner: Refiner | None) -> None:
    have, need = codec.n_layers, 1 if refiner is None else refiner.n_layers
    if have != need:
        raise ValueError(
            f"codec {config.path} has {have} layers of codes, the target makes {need}; "
            "give the codec that the target was trained with"
        )


def _sampler(settings: Settings, layout: Layout) -> Sampler:
    shape = (settings.temperature, settings.top_k, settings.top_p)
    if settings.ras_window:
        if settings.repetition_penalty != 1:
            raise ValueError(
                f"sampling.repetition_penalty {settings.repetition_penalty:g} does not go with "
                f"ras_window {settings.ras_window}; set the one to 1 or the other to 0"
            )
        repetition = (settings.ras_window, settings.ras_tau, settings.ras_variant)
        return RepetitionAware(*shape, *repetition, getattr(layout, "barred_ids", None))
    if settings.repetition_penalty != 1:
        return RepetitionPenalty(*shape, settings.repetition_penalty)
    return Sampler(*shape)


def _check_pair(target: Layout, draft: Layout, settings: Settings) -> None:
    """Codes and stop ids must agree; where text rows may be emitted, all rows."""
    a, b = (dict(layout.shared) for layout in (target, draft))
    if settings.text_rows:
        a["vocabulary"], b["vocabulary"] = (
            getattr(layout, "vocabulary", None) for layout in (target, draft)
        )
    for name, value in a.items():
        other = b.get(name)
        if value != other:
            raise ValueError(
                f"target and draft have different vocabularies ({name}: {_short(value)} "
                f"and {_short(other)}); train the draft from this target"
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
        repetition_penalty=float(
            defaults.get("repetition_penalty", 1)
            if sampling.repetition_penalty is None
            else sampling.repetition_penalty
        ),
        text_rows=bool(
            defaults.get("text_rows", False) if sampling.text_rows is None else sampling.text_rows
        ),
        ras_window=int(
            defaults.get("ras_window", 0) if sampling.ras_window is None else sampling.ras_window
        ),
        ras_tau=float(
            defaults.get("ras_tau", 0.1) if sampling.ras_tau is None else sampling.ras_tau
        ),
        ras_variant=sampling.ras_variant,
    )
