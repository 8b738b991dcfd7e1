"""Sampling settings of one run, those given or else the checkpoint's own, and their sampler."""

import dataclasses
from typing import Any

from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.installed import find
from speculative_tts.models.slots import slots_of
from speculative_tts.models.speech_lm import Layout
from speculative_tts.schema.decode import SamplingConfig

# What a setting is that neither the run nor the checkpoint gives; the others must be given.
UNSAID: dict[str, float] = {
    "repetition_penalty": 1.0,
    "end_when_likeliest": False,
    "text_rows": False,
    "ras_window": 0,
    "ras_tau": 0.1,
}
AS_GIVEN = ("ras_variant", "sampler")  # no numbers
TYPES = {"top_k": int, "ras_window": int, "end_when_likeliest": bool, "text_rows": bool}


def completed(sampling: SamplingConfig, defaults: dict[str, float]) -> SamplingConfig:
    """Return the settings with the checkpoint's own where they are None.

    Raises ValueError where neither says, and for limits of length that cannot be kept.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(sampling):
        name, value = field.name, getattr(sampling, field.name)
        if name not in AS_GIVEN:
            value = {**UNSAID, **defaults}.get(name) if value is None else value
            if value is None:
                raise ValueError(f"sampling.{name} is not set, nor in speech.json; give a number")
            value = TYPES.get(name, float)(value)
        values[name] = value
    _check_lengths(values["min_tokens_per_word"], values["max_tokens_per_word"])
    return SamplingConfig(**values)


def _check_lengths(least: float, most: float) -> None:
    if not most > 0:
        raise ValueError(
            f"sampling.max_tokens_per_word {most:g} is not above 0; "
            "give a number such as 28, the tiny target's"
        )
    if not least >= 0:
        raise ValueError(f"sampling.min_tokens_per_word {least:g} is below 0; use 0 for no minimum")
    if least > most:
        raise ValueError(
            f"sampling.min_tokens_per_word {least:g} is above max_tokens_per_word {most:g}; "
            "lower the one or raise the other"
        )


def sampler_of(sampling: SamplingConfig, layout: Layout) -> Sampler:
    """Return the sampler of complete settings; ValueError for two that do not go together.

    A sampler of another package is made by what it announces, of the same settings and layout.
    """
    settings: Any = sampling  # no number is None
    if settings.sampler is not None:
        made: Sampler = find("sampler", settings.sampler)(sampling, layout)
        return made
    shape = (settings.temperature, settings.top_k, settings.top_p)
    given: dict[str, Any] = {"end_when_likeliest": settings.end_when_likeliest}
    if not settings.text_rows:  # with text among the codes a position says nothing
        given["slots"] = slots_of(layout)
    if settings.ras_window:
        if settings.end_when_likeliest:
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
        return RepetitionAware(*shape, *repetition, getattr(layout, "barred_ids", None), **given)
    if settings.repetition_penalty != 1:
        return RepetitionPenalty(*shape, settings.repetition_penalty, **given)
    return Sampler(*shape, **given)
