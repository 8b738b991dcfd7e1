"""What runs share: codes of prompts, tokens of the target, things that stay loaded."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from stubs import request
from toy_lists import RATE, ToyCodec, ToyVoiceCodec, sounding

from speculative_tts.caches import store
from speculative_tts.codecs.audio import UnfitWaveError
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.runs import voices as module
from speculative_tts.runs.target_tokens import TargetTokens, key_of_request
from speculative_tts.runs.voices import Voices, encode_prompt


def sound(path: Path, level: float, samples: int = 40) -> str:
    soundfile.write(path, sounding(level, samples), RATE, subtype="FLOAT")
    return str(path)


class Counting(ToyCodec):
    """Counts what it encodes."""

    encoded = 0

    def encode(self, wave: np.ndarray) -> np.ndarray:
        self.encoded += 1
        return super().encode(wave)


def test_a_prompt_is_encoded_once_for_its_content_and_codec(tmp_path: Path) -> None:
    path, codec = sound(tmp_path / "a.wav", 0.3), Counting()
    known = Voices(codec, "abc", tmp_path / "cache")
    assert known[path].tolist() == [3] * 10
    assert known[path] is known[path]
    assert known[path].dtype == torch.int64
    (tmp_path / "elsewhere").mkdir()
    copied = shutil.copy(path, tmp_path / "elsewhere")
    assert Voices(codec, "abc", tmp_path / "cache")[copied].tolist() == [3] * 10
    assert codec.encoded == 1
    (entry,) = (tmp_path / "cache").iterdir()
    assert entry.name.startswith("voice-")
    assert (entry / "codes.npy").is_file()
    described = store.open_entry(entry).description
    assert described.keys() == {"audio", "codec", "code"}
    assert described["codec"] == "abc"
    Voices(codec, "abd", tmp_path / "cache")[path]
    Voices(codec, "abc", tmp_path / "other")[path]
    Voices(codec, "abc", tmp_path / "cache")[sound(tmp_path / "b.wav", 0.4)]
    assert codec.encoded == 4


def test_other_code_encodes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        module, "source_hash", lambda *names: asked.append(*names) or str(len(asked))
    )
    path, codec = sound(tmp_path / "a.wav", 0.3), Counting()
    for _ in range(2):
        Voices(codec, "abc", tmp_path / "cache")[path]
    assert (codec.encoded, asked) == (2, ["codecs"] * 2)


def test_a_codec_that_keeps_a_voice_hears_it_in_every_process(tmp_path: Path) -> None:
    path, cache = sound(tmp_path / "a.wav", 0.3), tmp_path / "cache"
    assert Voices(ToyVoiceCodec(), "abc", cache)[path].tolist() == [4] * 10
    assert not cache.exists()


def test_prompts_that_cannot_be_followed() -> None:
    codec, speech = ToyCodec(), sounding(0.5, 60 * RATE)  # a minute
    assert encode_prompt(codec, speech, "p").tolist() == [5] * (15 * RATE)
    faint = np.zeros(8)
    faint[3] = -1e-4
    assert encode_prompt(codec, faint, "p").tolist() == [0, 0]
    for wave, message in (
        (
            np.append(speech, speech[: 3 * RATE // 2]),
            r"^p is 62 s long, above 60; give 2 to 3 s of speech$",
        ),
        (0.99 * faint, r"^p is silent: it has no voice to follow; give 2 to 3 s of speech$"),
        (faint[:0], r"^p is 0.00 s long, below one speech token; give 2 to 3 s of speech$"),
    ):
        with pytest.raises(UnfitWaveError, match=message):
            encode_prompt(codec, wave, "p")


def test_codes_of_several_layers_are_a_voice() -> None:
    class Layered(ToyCodec):
        def encode(self, wave: np.ndarray) -> np.ndarray:
            codes = super().encode(wave).astype(np.int32)
            return np.stack([codes, codes + 1])[:, : len(wave) // 8]

    found = encode_prompt(Layered(), sounding(0.2, 8), "p")
    assert (found.tolist(), found.dtype) == ([[2], [3]], torch.int64)
    with pytest.raises(UnfitWaveError, match=r"p is 0.00 s long, below one"):
        encode_prompt(Layered(), sounding(0.2, 7), "p")


def decoder(asked: list[list[str]], broken: str = "") -> Any:
    """Decodes to the id's length; keeps what it was asked for."""

    def decode(requests: list[Request]) -> Any:
        asked.append([one.id for one in requests])
        for one in requests:
            failure = "broke" if one.id == broken else None
            yield one, Outcome([len(one.id)] * 2, stopped=len(one.id) > 1, failure=failure)

    return decode


def test_tokens_are_decoded_once_and_failures_again(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    rows = [request(name) for name in ("a", "bb", "ccc")]
    known = TargetTokens(tmp_path, {"target": 1})
    first = {one.id: out for one, out in known.outcomes(rows[:2], decoder(asked, "bb"))}
    assert first == {"a": Outcome([1, 1], False), "bb": Outcome([2, 2], True, failure="broke")}
    again = list(known.outcomes(rows, decoder(asked)))
    assert [one.id for one, _ in again] == ["a", "bb", "ccc"]
    assert again[0][1] == Outcome([1, 1], stopped=False)
    assert list(TargetTokens(tmp_path, {"target": 1}).outcomes(rows, decoder(asked))) == again
    assert asked == [["a", "bb"], ["bb", "ccc"]]
    list(TargetTokens(tmp_path, {"target": 2}).outcomes(rows[:1], decoder(asked)))
    assert asked[2:] == [["a"]]
    assert sorted(path.name[:7] for path in tmp_path.iterdir()) == ["target-"] * 2
    assert all(len(path.name) == 23 for path in tmp_path.iterdir())


def test_what_was_made_is_kept_when_the_rest_is_not_wanted(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    rows = [request(name) for name in ("a", "bb")]
    begun = TargetTokens(tmp_path, {}).outcomes(rows, decoder(asked))
    assert next(iter(begun))[0].id == "a"
    begun.close()  # type: ignore[attr-defined]
    assert len(list(TargetTokens(tmp_path, {}).outcomes(rows, decoder(asked)))) == 2
    assert asked == [["a", "bb"], ["bb"]]


def test_nobody_waits_while_another_decodes(tmp_path: Path) -> None:
    """Copies of a run of the target decoded their shares one after the other."""
    asked: list[list[str]] = []
    first, second = (TargetTokens(tmp_path, {}) for _ in range(2))
    begun = first.outcomes([request("a"), request("bb")], decoder(asked))
    assert next(iter(begun))[0].id == "a"
    assert [one.id for one, _ in second.outcomes([request("ccc")], decoder(asked))] == ["ccc"]
    assert len(list(second.outcomes([request("a")], decoder(asked)))) == 1  # kept as it came
    assert [one.id for one, _ in begun] == ["bb"]
    everything = [request(name) for name in ("a", "bb", "ccc")]
    assert len(list(second.outcomes(everything, decoder(asked)))) == 3
    assert asked == [["a", "bb"], ["ccc"]]


def test_requests_are_the_same_by_all_that_the_target_reads() -> None:
    one = replace(request("a"), prompt_tokens=(1, 2))
    key = key_of_request(one)
    assert len(key) == 64
    same = replace(one, draft_prompt=one.prompt + 1, last_code=3)
    strided = torch.stack([one.prompt, one.prompt], 1)[:, 0]
    assert key_of_request(same) == key_of_request(replace(one, prompt=strided)) == key
    others = {"id": "b", "seed": 1, "min_tokens": 1, "max_tokens": 13, "prompt_tokens": (1,)}
    changed = [replace(one, **{name: value}) for name, value in others.items()]  # type: ignore[arg-type]
    changed += [replace(one, prompt=prompt) for prompt in (one.prompt + 1, one.prompt.T)]
    assert len({key, *map(key_of_request, changed)}) == 8
