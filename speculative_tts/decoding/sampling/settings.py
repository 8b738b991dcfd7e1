"""Sampling settings of one run: those given, else the checkpoint's own; and their sampler."""

from dataclasses import dataclass

from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.speech_lm import Layout
from speculative_tts.schema.decode import Repetition, SamplingConfig


@dataclass(frozen=True)
class Settings:
    """A `SamplingConfig` with nothing left open."""

    temperature: float
    top_k: int
    top_p: float
    min_tokens_per_word: float
    max_tokens_per_word: float
    repetition_penalty: float
    end_when_likeliest: bool
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


def with_defaults(sampling: SamplingConfig, defaults: dict[str, float]) -> Settings:
    """Settings left open take the checkpoint's own; ValueError when neither says."""

    def value(name: str, unsaid: float | None = None) -> float:
        chosen = getattr(sampling, name)
        number = defaults.get(name, unsaid) if chosen is None else chosen
        if number is None:
            raise ValueError(f"sampling.{name} is not set, nor in speech.json; give a number")
        return float(number)

    return Settings(
        temperature=value("temperature"),
        top_k=int(value("top_k")),
        top_p=value("top_p"),
        min_tokens_per_word=value("min_tokens_per_word"),
        max_tokens_per_word=value("max_tokens_per_word"),
        repetition_penalty=value("repetition_penalty", 1),
        end_when_likeliest=bool(value("end_when_likeliest", 0)),
        text_rows=bool(value("text_rows", 0)),
        ras_window=int(value("ras_window", 0)),
        ras_tau=value("ras_tau", 0.1),
        ras_variant=sampling.ras_variant,
    )


def sampler_of(settings: Settings, layout: Layout) -> Sampler:
    """The sampler of these settings; ValueError for two that do not go together."""
    shape = (settings.temperature, settings.top_k, settings.top_p)
    ends = settings.end_when_likeliest
    if settings.ras_window:
        if ends:
            raise ValueError(
                "sampling.end_when_likeliest true does not go with ras_window "
                f"{settings.ras_window}; set the one to false or the other to 0"
            )
        if settings.repetition_penalty != 1:
            raise ValueError(
                f"sampling.repetition_penalty {settings.repetition_penalty:g} does not go with "
                f"ras_window {settings.ras_window}; set the one to 1 or the other to 0"
            )
        repetition = (settings.ras_window, settings.ras_tau, settings.ras_variant)
        return RepetitionAware(*shape, *repetition, getattr(layout, "barred_ids", None))
    if settings.repetition_penalty != 1:
        return RepetitionPenalty(*shape, settings.repetition_penalty, end_when_likeliest=ends)
    return Sampler(*shape, end_when_likeliest=ends)
