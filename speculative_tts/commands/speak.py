"""Speak a text in the voice of a prompt, at once, and say what speculation bought.

The prompt is a recording or a speaker of the test list. Words of a recording that prompt_text does
not give are recognised, if the model has a vocabulary of words.

text=- reads the text from standard input: to its end, or with stream=true and CosyVoice while it
arrives, word by word. Speech then begins before the text has ended (the official bistream mode: the
target alone, one token a step).
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import IO, TYPE_CHECKING

from speculative_tts.commands import app, choices, stdin
from speculative_tts.commands.prompts import find_prompt
from speculative_tts.files import check_place, reading, writing
from speculative_tts.records import ListItem
from speculative_tts.schema.decode import System
from speculative_tts.schema.speak import Encoding, SpeakConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.engine import Engine
    from speculative_tts.decoding.outcome import Outcome
    from speculative_tts.decoding.streaming import Stream
    from speculative_tts.models.prompt import Prompt

STDOUT = STDIN = "-"
WAVES = ("", ".wav", ".wave")  # suffixes of files that may hold a wav
# Order of the timed runs, symmetric so that drift (clock rates, other programs) affects both.
ORDER = (System.speculative, System.target, System.target, System.speculative)


def run(config: SpeakConfig) -> int:
    """Speak one text, speculatively and autoregressively, and write the speculative audio."""
    from speculative_tts.codecs.audio import write_wave
    from speculative_tts.costs.lookahead import settled
    from speculative_tts.decoding.builder import Builder
    from speculative_tts.decoding.streaming import Stream, growing
    from speculative_tts.models.families import cosyvoice

    _check_stream(config)
    out = place_of(config)
    config = replace(config, out=str(out))
    prompt = find_prompt(config)
    with reading([Path(prompt.prompt_audio)] if prompt.prompt_audio else []):
        if not config.stream or (config.player is None and config.out != STDOUT):
            check_place(out)
    if config.text == STDIN:
        if config.stream and cosyvoice.found(Path(config.target.path)):
            return _speak_words(config, prompt)
        config = replace(config, text=" ".join(stdin.words()))
    config, _ = settled(config)
    engine = Builder(config).engine()
    asked = prompt_of(config.text, prompt, engine)
    request = engine.request("speak", asked, config.seed)
    _note_length(config.text, engine)
    alone = engine.draft is engine.target  # a target without a draft is its own
    order = ORDER[1:2] if alone else ORDER
    for system in order[: 1 if config.stream else 2] * config.runtime.warmup:
        engine.decode(system, [request])
    if config.stream:
        stream = Stream(engine, growing(engine, order[0], request), asked, config.chunk)
        return _play(config, stream, engine.codec.sample_rate)
    timed = [(system, engine.decode(system, [request])) for system in order]
    for broken in filter(None, (one.outcomes[0].failure for _, one in timed)):
        raise ValueError(broken)
    (outcome, own), (plain, baseline) = (
        (one[0].outcomes[0], fmean(timing.seconds for timing in one))
        for one in ([t for s, t in timed if s is wanted] for wanted in (order[0], System.target))
    )
    spoken = engine.audio(outcome, asked).wave
    write_wave(out, spoken, engine.codec.sample_rate)
    seconds = len(spoken) / engine.codec.sample_rate
    print(summary(out, seconds, None if alone else (plain, baseline), (outcome, own)))
    return 0


def _note_length(text: str, engine: "Engine") -> None:
    """Say on standard error that a text is of another length than what was trained on."""
    from speculative_tts.models.layout import SpeechLayout

    layout = engine.target.layout
    if isinstance(layout, SpeechLayout) and (note := layout.outside_training(text)):
        print(note, file=sys.stderr)


def _speak_words(config: SpeakConfig, prompt: ListItem) -> int:
    """Speak the words of standard input while they arrive."""
    from speculative_tts.decoding.builder import Builder
    from speculative_tts.decoding.streaming import Stream, given
    from speculative_tts.integrations.bistream import spoken

    engine = Builder(config).engine(System.target)
    asked = prompt_of("", prompt, engine)
    codes = spoken(engine, asked, stdin.words(), config.seed)
    return _play(
        config, Stream(engine, given(codes), asked, config.chunk), engine.codec.sample_rate
    )


def _check_stream(config: SpeakConfig) -> None:
    """Raise ValueError for a setting that only a stream has."""
    only = {
        "out=-": config.out == STDOUT,
        "player": config.player is not None,
        "chunk": config.chunk is not None,
        "encoding=raw": config.encoding is Encoding.raw,
    }
    for name in (name for name, given in only.items() if given and not config.stream):
        raise ValueError(f"{name} is for speech written while it is made; add stream=true")


def place_of(config: SpeakConfig) -> Path:
    """Return the file of the speech: `out`, or in a sweep a file per job (x-1.wav, x-2.wav).

    Raises ValueError for a suffix of another format than wav.
    """
    out, job = Path(config.out), app.job_number()
    if config.encoding is Encoding.wav:
        check_suffix(out)
    if job is None or config.out == STDOUT or (out.exists() and not out.is_file()):
        return out
    return out.with_stem(f"{out.stem}-{job + 1}")


def check_suffix(out: Path) -> None:
    """Raise ValueError for a suffix of another format than wav."""
    if out.suffix.lower() not in WAVES:
        raise ValueError(
            f"out={out} would hold a wav: {out.suffix} is not written here; give out="
            f"{out.with_suffix('.wav')}"
        )


def _play(config: SpeakConfig, stream: "Stream", sample_rate: int) -> int:
    """Write a stream as it comes; say on standard error when it came (stdout may be the wave)."""
    from speculative_tts.codecs.audio import WaveWriter

    with suppress(BrokenPipeError), _sink(config) as file:  # the reader of out=- may leave
        writer = WaveWriter(file, sample_rate, raw=config.encoding is Encoding.raw)
        for wave in stream:
            writer.write(wave)
        writer.close()
    if (outcome := stream.outcome) is None:
        if config.player is not None:
            print(f'player "{config.player}" left before the speech ended', file=sys.stderr)
        return 0
    found, pieces = stream.arrivals.heard(), len(stream.arrivals.seconds)
    length = found["stream_audio_seconds"]
    gaps = (
        f"{found['gaps']} gaps of {found['gap_ms']:.0f} ms in all" if found["gaps"] else "no gaps"
    )
    print(
        f"{config.player or config.out}: {length:.2f} s of speech in {pieces} pieces, the first "
        f"after {found['first_audio_ms']:.0f} ms; real-time factor "
        f"{found['stream_seconds'] / length:.2f}, {gaps}\n{_acceptance(outcome)}",
        file=sys.stderr,
    )
    return 0


@contextmanager
def _sink(config: SpeakConfig) -> Iterator[IO[bytes]]:
    """Open a player's standard input, our standard output, or a file that appears once whole."""
    if config.player is not None:
        with _player(config.player) as file:
            yield file
    elif config.out == STDOUT:
        yield sys.stdout.buffer
    else:
        with writing(Path(config.out)) as file:
            yield file


@contextmanager
def _player(command: str) -> Iterator[IO[bytes]]:
    """Open the standard input of a program; ValueError if it does not exist or fails."""
    try:
        process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE)
    except (OSError, ValueError, IndexError) as error:
        raise ValueError(f'player "{command}" does not start ({error}); give a program') from error
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        yield process.stdin
    if code := process.wait():
        raise ValueError(f'player "{command}" ended with {code}; try it on a wav of your own')


def prompt_of(text: str, prompt: ListItem, engine: "Engine") -> "Prompt":
    """Build the prompt: the text, and the voice prompt's words, given or recognised, and codes.

    Silence around a recording is cut for a model of words: its training speech has 0.07 s of it,
    and 0.4 s cost it the first word of every second utterance (results/LOG.md).
    """
    from speculative_tts.codecs.audio import read_wave, without_edges
    from speculative_tts.models.phones import PhoneLayout
    from speculative_tts.models.prompt import Prompt
    from speculative_tts.models.speech_lm import follows_voice
    from speculative_tts.runs.voices import encode_prompt

    given = Prompt(text, speaker=prompt.speaker, voice_codes=prompt.voice_codes or ())
    if not prompt.prompt_audio or not follows_voice(engine.target.layout):
        return given
    wave = read_wave(Path(prompt.prompt_audio), engine.codec.sample_rate)
    words = getattr(engine.target.layout, "words", ())
    if words and not prompt.speaker:
        wave = without_edges(wave, engine.codec.sample_rate)
    codes = encode_prompt(engine.codec, wave, prompt.prompt_audio)
    words = () if isinstance(engine.target.layout, PhoneLayout) else words  # those are phones
    spoken = prompt.prompt_text or words_in(prompt.prompt_audio, words)
    return replace(given, voice_text=spoken, voice=codes)


def words_in(prompt: str, words: Sequence[str]) -> str:
    """Recognise a recording with pocketsphinx, limited to `words`, and print the result.

    Raises ValueError if nothing is recognised, or if there is no vocabulary.
    """
    from speculative_tts.evaluation.audio import flags_of, load_wave
    from speculative_tts.evaluation.judges.pocketsphinx import load_recogniser

    wave = load_wave(Path(prompt))
    listen = words and not flags_of(wave)  # a grammar of words finds a word even in silence
    heard = load_recogniser("words", tuple(words))(wave) if listen else ""
    if not heard:
        why = "no word was heard in it" if words else "this model has no list of words to hear"
        raise ValueError(
            f'the words spoken in {prompt} are needed, and {why}; add prompt_text="<words>"'
        )
    print(f'{prompt}: heard "{heard}"; if that is wrong, give prompt_text="<words>"')
    return heard


def summary(
    out: Path,
    seconds: float,
    baseline: "tuple[Outcome, float] | None",
    own: "tuple[Outcome, float]",
) -> str:
    """Describe the result; `baseline` (None: no draft) and `own` are outcomes and seconds."""
    outcome, fast = own
    end = "" if outcome.stopped else " (cut at the length limit)"
    spoken = f"{out}: {seconds:.2f} s of speech, {len(outcome.tokens)} tokens in {fast:.3f} s{end}"
    if baseline is None:
        return f"{spoken}; by the target alone (draft=itself), without rule or drafter"
    plain, slow = baseline
    speedup = slow / len(plain.tokens) * len(outcome.tokens) / fast
    return (
        f"{spoken}\n{_acceptance(outcome)}; "
        f"{speedup:.2f}x the tokens/s of the same engine without a draft "
        f"({len(plain.tokens)} tokens in {slow:.3f} s)"
    )


def _acceptance(outcome: "Outcome") -> str:
    counts = outcome.counts
    if not counts.rounds:
        return f"{len(outcome.tokens)} tokens, one by one"
    rate = counts.accepted / max(counts.drafted, 1)
    length = (len(outcome.tokens) - 1) / counts.rounds
    return f"accepted {rate:.0%} of the drafted tokens, {length:.2f} tokens a round"


main = app.command(
    "speak",
    SpeakConfig,
    run,
    examples=(
        'sst-speak text="alpha seven tango"',
        'sst-speak text="lima nine" prompt=voice.wav out=x.wav',
        'sst-speak text="lima nine" prompt=voice.wav prompt_text="echo two zulu"',
        'sst-speak text="seven kilo" stream=true player="aplay -q"',
        "echo seven kilo | sst-speak text=-",
    ),
    first=(
        *("text", "prompt", "prompt_text", "out", "target"),
        *("rule", "lookahead", "stream", "player", "seed"),
    ),
    implied=(
        *(*choices.CODEC_OF_TARGET, *choices.DRAFT_OF_TARGET, *choices.WITHOUT_DRAFT),
        *choices.DRAFTER_OF_TARGET,
        *choices.DATA_OF_TARGET,
    ),
)

if __name__ == "__main__":
    sys.exit(main())
