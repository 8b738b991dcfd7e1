"""Settings of sst-listen."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from omegaconf import MISSING

from speculative_tts.schema.fields import (
    Count,
    Draws,
    Few,
    KeptPath,
    Limit,
    NonNegative,
    Positive,
    ReadPath,
    Seed,
    Words,
)

Names = list[str]  # ListenConfig has a key called list, which hides the type of that name


class ListenStep(Enum):
    """The step of a listening test."""

    make = "make"  # write the test
    serve = "serve"  # show it and collect answers
    score = "score"  # figures from answers
    power = "power"  # how many raters a difference takes


class ListeningTest(Enum):
    """The question to raters."""

    mos = "mos"  # how natural, 1 to 5
    smos = "smos"  # how like the prompt's voice, 1 to 5
    cmos = "cmos"  # how much better the second of two is, -3 to 3
    ab = "ab"  # which of two, or neither


@dataclass
class ListenConfig:
    """sst-listen: a listening test, from runs to scores."""

    what: ListenStep = MISSING  # sst-listen make says the same

    # the test: <folder>/site goes to raters, <folder>/key.json stays
    folder: KeptPath = "runs/listening"
    runs: KeptPath = "runs"  # one run folder, or a folder of run folders; score writes into them
    # names of run folders, or their beginnings, or the list's name; empty: all there are
    systems: Names = field(default_factory=list)
    baseline: Words | None = None  # the system that others are compared with; null: the first
    list: ReadPath | None = None  # JSONL (id, text, audio, prompt_audio): another system beside
    test: ListeningTest = ListeningTest.mos
    raters: Few = 30  # listeners, each with a number of their own
    samples: Count = 10  # utterances that a rater hears by every system
    utterances: Count | None = None  # draw so many for the whole test; null: all that there are
    checks: Annotated[int, Limit(0, 100)] = 4  # attention checks a rater, good and bad in turn
    loudness: Annotated[float, Limit(-60, -5)] = -23.0  # LUFS of every clip (ITU-R BS.1770)
    show_text: bool = False  # show what is said
    seed: Seed = 0  # of what is drawn: utterances, orders, names, noise, the bootstrap

    host: Words = "127.0.0.1"  # serve: 0.0.0.0 lets other machines in
    port: Annotated[int, Limit(0, 65535)] = 8765  # serve; 0: any that is free

    # score: folder of answers that raters sent, or a file of one; null: <folder>/answers
    answers: ReadPath | None = None
    partial: bool = False  # score: count raters who did not finish too
    draws: Draws = 10_000  # bootstrap draws of the intervals

    difference: Positive = 0.2  # power: points to be found
    # power: standard deviation of a difference between one rating of each of two systems; score
    # prints all three of its raters
    noise: Positive = 1.2
    between_raters: NonNegative = 0.3  # power: how far raters differ in what they think of it
    between_utterances: NonNegative = 0.3  # power: how far it differs from utterance to utterance
