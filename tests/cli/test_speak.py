"""sst-speak as a newcomer runs it, on random little models."""

import dataclasses
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import soundfile

from speculative_tts.api import Speaker, Speech
from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import EDGE
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.commands import speak
from speculative_tts.commands.prompts import find_prompt
from speculative_tts.decoding.engine import Engine
from speculative_tts.records import ListItem
from speculative_tts.schema.common import ListConfig
from speculative_tts.schema.speak import SpeakConfig
from speculative_tts_makers.corpora import flite
from tests.fake_models import WORDS, FakeModels, watch_systems

ROOT = Path(__file__).parents[2]
SPEECH = ROOT / "tests" / "assets" / "speech" / "slt_kilo_seven_india.flac"


def test_speaks_with_a_speaker_of_the_list(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.wav"
    assert speak.main([*models.overrides, "text=alpha two", "prompt=s1", f"out={out}"]) == 0
    wave, rate = soundfile.read(out)
    assert rate == 16_000
    assert len(wave) >= 8 * 640  # min_tokens_per_word
    printed = capsys.readouterr().out
    for part in ("s of speech", "tokens in", "accepted", "tokens a round", "x the tokens/s"):
        assert part in printed


def test_the_voice_is_the_one_chosen_beside_the_list(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was the list's first speaker, of 30 the worst."""
    shipped = SpeakConfig(data=ListConfig("tiny", str(resolve("tiny:testset/list.jsonl"))))
    chosen = json.loads(resolve("tiny:testset/voices.json").read_text())
    assert find_prompt(shipped).speaker == chosen["default"]
    for name in ("list.jsonl", "prompt0.wav", "prompt1.wav"):
        (tmp_path / name).write_bytes((models.root / name).read_bytes())
    own = SpeakConfig(data=ListConfig("own", str(tmp_path / "list.jsonl")))
    assert find_prompt(own).speaker == "s0"  # nothing chosen: the first
    (tmp_path / "voices.json").write_text('{"default": "s1"}')
    assert find_prompt(own).speaker == "s1"
    assert find_prompt(dataclasses.replace(own, prompt="s0")).speaker == "s0"
    for text, message in (
        ('{"default": "s2"}', "(KeyError('s2')); mend it, or give prompt=<speaker>: s0, s1"),
        ('{"default": ["s0"]}', 'voices.json: not {"default": "<a speaker of the list>"}'),
        ("[]", 'voices.json: not {"default": "<a speaker of the list>"}'),
        ("", 'voices.json: not {"default": "<a speaker of the list>"}'),
    ):
        (tmp_path / "voices.json").write_text(text)
        arguments = [f"data.path={tmp_path / 'list.jsonl'}", f"out={tmp_path / 'x.wav'}"]
        assert speak.main([*models.overrides, "text=one", *arguments]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line


def test_a_voice_that_errs_by_far_the_most_does_not_speak() -> None:
    config = SpeakConfig(data=ListConfig("any", str(resolve("tiny:testset_sentences/list.jsonl"))))
    assert find_prompt(dataclasses.replace(config, prompt="rms")).speaker == "rms"
    with pytest.raises(ValueError, match=r"awb is a speaker for tables alone: 26 .*: rms, slt"):
        find_prompt(dataclasses.replace(config, prompt="awb"))
    with pytest.raises(ValueError, match="neither a file nor a speaker; speakers: rms, slt"):
        find_prompt(dataclasses.replace(config, prompt="nobody"))


def test_the_shipped_choice_is_that_of_the_shipped_table(tmp_path: Path) -> None:
    table = ROOT / "results" / "tiny" / "voices.csv"
    script = ROOT / "scripts" / "choose_voice.py"
    subprocess.run([sys.executable, script, table, tmp_path / "voices.json"], check=True)
    made = (tmp_path / "voices.json").read_text()
    assert made == resolve("tiny:testset/voices.json").read_text()


def test_silence_around_a_recording_is_cut_before_the_model_hears_it(tmp_path: Path) -> None:
    """With half a second of room on both sides 87 % of the first words were lost."""
    codec = TinyCodec.load(resolve("tiny:codec"))
    layout = SimpleNamespace(words=flite.WORDS)
    engine = cast(Engine, SimpleNamespace(codec=codec, target=SimpleNamespace(layout=layout)))
    wave, rate = soundfile.read(SPEECH, dtype="float32")
    room = (3e-4 * np.random.default_rng(0).standard_normal(rate // 2)).astype(np.float32)
    soundfile.write(tmp_path / "room.wav", np.concatenate([room, wave, room]), rate)
    own = ListItem("prompt", "one", str(tmp_path / "room.wav"), "kilo seven india")
    edges = 2 * codec.token_rate * EDGE
    asked = speak.prompt_of("one", own, engine)
    assert asked.voice_text == "kilo seven india"
    assert len(asked.codes) <= len(wave) // 640 + edges
    listed = dataclasses.replace(own, speaker="s0")  # as sst-decode reads it
    assert len(speak.prompt_of("one", listed, engine).codes) == (len(wave) + rate) // 640
    layout.words = ()  # trained on speech with silence
    assert len(speak.prompt_of("one", own, engine).codes) == (len(wave) + rate) // 640


def test_words_of_a_prompt_are_heard_unless_given(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*models.overrides, "text=one", f"prompt={SPEECH}", f"out={tmp_path / 'x.wav'}"]
    assert speak.main(arguments) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    heard = re.fullmatch(
        r'.*flac: heard "(.+)"; if that is wrong, give prompt_text="<words>"', first
    )
    assert heard is not None
    assert set(heard[1].split()) <= set(WORDS)
    assert speak.main([*arguments, "prompt_text=two"]) == 0
    assert "heard" not in capsys.readouterr().out


def test_words_of_a_prompt_that_cannot_be_heard() -> None:
    with pytest.raises(ValueError, match="has no list of words to hear; add prompt_text"):
        speak.words_in(str(SPEECH), ())


def test_no_word_is_heard_in_silence(tmp_path: Path) -> None:
    """Of 35 words the recogniser once heard "papa" in 2.6 seconds of zeros."""
    soundfile.write(tmp_path / "silent.wav", np.zeros(41_600), 16_000)
    with pytest.raises(ValueError, match="no word was heard in it"):
        speak.words_in(str(tmp_path / "silent.wav"), flite.WORDS)


def test_both_systems_are_warmed_and_timed_in_turn(
    models: FakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = watch_systems(monkeypatch)
    arguments = ["text=one", "runtime.warmup=1", f"out={tmp_path / 'x.wav'}"]
    assert speak.main([*models.overrides, *arguments]) == 0
    assert "".join(order) == "st" + "stts"


def test_a_sweep_writes_a_file_a_job(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All jobs wrote the same file, each over the last."""
    told = [*models.overrides, "text=one", "runtime.warmup=0"]
    alone, out, device = tmp_path / "alone.wav", tmp_path / "x.wav", Path("/dev/null")
    assert speak.main([*told, f"out={alone}", "seed=2"]) == 0
    assert speak.main([*told, f"out={out}", "seed=1,2"]) == 0
    assert speak.main([*told, f"out={device}", "seed=1,2"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.wav", "x-1.wav", "x-2.wav"]
    assert (tmp_path / "x-2.wav").read_bytes() == alone.read_bytes()
    assert (tmp_path / "x-1.wav").read_bytes() != alone.read_bytes()
    printed = capsys.readouterr().out
    assert f"{tmp_path / 'x-1.wav'}: " in printed
    assert printed.count(f"{device}: ") == 2


def test_a_target_without_a_draft_speaks_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`target=tiny_valle` was asked for a draft of its vocabulary, which does not exist."""
    out = tmp_path / "x.wav"
    told = ["target=tiny_valle", "text=7,8", "runtime.warmup=0", f"out={out}"]
    assert speak.main([*told, "sampling.max_tokens_per_word=8"]) == 0
    printed = capsys.readouterr().out
    assert soundfile.info(out).frames > 1600
    assert "tokens in" in printed
    assert "accepted" not in printed


STREAM = ["text=alpha two", "stream=true", "runtime.warmup=0"]


def test_a_stream_is_written_as_it_comes(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a file, a player, a pipe that cannot be rewound: the samples of the whole utterance."""
    whole, streamed, played = (tmp_path / f"{name}.wav" for name in ("whole", "streamed", "played"))
    own = models.overrides
    assert speak.main([*own, "text=alpha two", "runtime.warmup=0", f"out={whole}"]) == 0
    assert speak.main([*own, *STREAM, f"out={streamed}"]) == 0
    assert streamed.read_bytes()[:44] == whole.read_bytes()[:44]
    (tmp_path / "a player").write_text(
        'import sys; open(sys.argv[1], "wb").write(sys.stdin.buffer.read())'
    )
    player = f"player={sys.executable} '{tmp_path / 'a player'}' {played}"
    assert speak.main([*own, *STREAM, player, "chunk=2"]) == 0
    waves = [soundfile.read(path, dtype="int16")[0] for path in (whole, streamed, played)]
    for wave in waves[1:]:
        assert np.array_equal(wave, waves[0])
    printed = capsys.readouterr().err
    assert (
        len(re.findall(r"the first after \d+ ms; real-time factor [\d.]+, (no|\d+) gaps", printed))
        == 2  # gaps on a busy machine
    )
    assert "accepted" in printed


def test_a_player_may_leave_before_the_end(
    models: FakeModels, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that ended well in the middle left an AssertionError."""
    player = f"player={sys.executable} -c 'import sys; sys.stdin.buffer.read(10)'"
    own = [*models.overrides, *STREAM, player, "chunk=1"]
    assert speak.main(own) == 0
    err = capsys.readouterr().err
    assert "left before the speech ended" in err or "pieces, the first after" in err


PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from speculative_tts.commands.speak import main; sys.exit(main())",
]


@pytest.mark.whole
def test_standard_output_has_the_speech_alone(models: FakeModels, tmp_path: Path) -> None:
    own = [*PROGRAM, *models.overrides, *STREAM, "out=-"]
    wav = subprocess.run(own, capture_output=True, check=True).stdout
    raw = subprocess.run([*own, "encoding=raw"], capture_output=True, check=True).stdout
    assert wav[:4] == b"RIFF"
    assert wav[44:] == raw
    assert len(raw) % 1280 == 0
    (tmp_path / "x.wav").write_bytes(wav)
    assert (
        len(soundfile.read(tmp_path / "x.wav")[0]) == len(raw) // 2
    )  # though its header is longer


def test_text_of_standard_input_is_read_to_its_end(
    models: FakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves = []
    for said in (["text=alpha two"], ["text=-"], ["text=-", "stream=true"]):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"alpha\n two")))
        out = tmp_path / f"{len(waves)}.wav"
        assert speak.main([*models.overrides, "runtime.warmup=0", *said, f"out={out}"]) == 0
        waves.append(soundfile.read(out, dtype="int16")[0])
    assert np.array_equal(waves[0], waves[1])
    assert np.abs(waves[2].astype(int) - waves[0]).max() <= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b" \n", "no text on standard input, which text=- reads; pipe some in"),
        (None, "no text on standard input"),  # <&-
        (b"alpha \xff", "is not UTF-8"),
    ],
)
def test_standard_input_without_a_text_is_one_line(
    models: FakeModels,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: bytes | None,
    message: str,
) -> None:
    given = None if text is None else SimpleNamespace(buffer=io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", given)
    assert speak.main([*models.overrides, "text=-"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.whole
def test_what_cannot_be_spoken_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note on the text's length stood before it."""
    assert speak.main(["text=...", f"out={tmp_path / 'x.wav'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_listener_who_leaves_is_no_mistake(models: FakeModels) -> None:
    """A pipe closed at its other end while text comes by another: 0, and nothing is said."""
    settings = [*models.overrides, *STREAM, "text=-", "out=-", "runtime.kernels=torch"]
    own = shlex.join([*PROGRAM, *settings])
    line = f"echo alpha two | {own} | true; exit ${{PIPESTATUS[1]}}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_from_python_a_target_without_a_draft_speaks_alone() -> None:
    """It would have drafted for itself, at twice the price."""
    speaker = Speaker("target=tiny_valle", "sampling.max_tokens_per_word=8")
    said = speaker.speak("7 8")
    assert said.tokens == speaker.speak("7 8", system="target").tokens
    assert said.outcome.counts.rounds == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("rule.betaa=1", r"^unknown key rule.betaa; did you mean rule.beta\?"),
        ("target=nope", "^target=nope: no such choice; there are "),
        ("rule.beta=abc", "^rule.beta=abc: rule.beta takes a number"),
        ("seed=-1", "^seed -1 is below 0"),
        (5, "^5 is no setting; write it as text"),
    ],
)
def test_from_python_a_mistake_is_the_commands_line(setting: Any, said: str) -> None:
    """Hydra's errors came out, of several lines, none of them a ValueError."""
    with pytest.raises(ValueError, match=said) as error:
        Speaker(setting)
    assert "\n" not in str(error.value)


def test_from_python_a_wav_is_saved_as_one(tmp_path: Path) -> None:
    speech = Speech(np.zeros(8, np.float32), 16_000, None, 0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"x.mp3 would hold a wav: .* give out=.*x.wav"):
        speech.save(tmp_path / "x.mp3")
    assert not any(tmp_path.iterdir())


def test_from_python_what_speak_is_asked_is_checked(models: FakeModels) -> None:
    """Of a system that is none a KeyError came out, of chunks of -1 codes a ZeroDivisionError."""
    speaker = Speaker(*models.overrides)
    with pytest.raises(ValueError, match="system foo is unknown; give one of speculative, target"):
        speaker.speak("alpha", system="foo")
    with pytest.raises(ValueError, match="system draft is a model, and none drafts here"):
        Speaker("target=tiny_fine").speak("alpha", system="draft")
    with pytest.raises(ValueError, match="seed -1 is below 0"):
        speaker.speak("alpha", seed=-1)
    with pytest.raises(ValueError, match="chunk 0 is below 1"):
        speaker.stream("alpha", chunk=0)
