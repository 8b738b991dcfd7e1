"""Settings of sst-speak."""

from dataclasses import dataclass
from enum import Enum

from omegaconf import MISSING

from speculative_tts.schema.decode import EngineConfig
from speculative_tts.schema.fields import Count, ReadPath, Words, WrittenPath


class Encoding(Enum):
    """The format of a stream."""

    wav = "wav"  # its header says no length until the stream has ended
    raw = "raw"  # 16-bit samples, little-endian, nothing else


@dataclass
class SpeakConfig(EngineConfig):
    """sst-speak: text and a voice prompt in, a wav out."""

    # what to say; the tiny target knows the digits and the spelling alphabet, the sentence target
    # also takes phones, "<hh ax l ow>". "-": standard input, to its end; by CosyVoice with
    # stream=true while it arrives
    text: Words = MISSING
    # a wav, or a speaker of the test list; None = the one that voices.json beside the list
    # chooses (scripts/choose_voice.py), or the list's first
    prompt: ReadPath | None = None
    prompt_text: Words | None = None  # words spoken in a prompt wav; null: what is recognised
    # the wav, of a sweep one a job (out-1.wav); with stream=true also "-", standard output
    out: WrittenPath = "out.wav"
    # the speech is written piece by piece while it is made
    stream: bool = False
    chunk: Count | None = None  # codes a piece of a stream; null: the codec's own
    encoding: Encoding = Encoding.wav  # of a stream
    # a program that plays a stream from its standard input, such as "aplay -q" or "ffplay -nodisp
    # -autoexit -"; it gets the speech in place of out
    player: Words | None = None
