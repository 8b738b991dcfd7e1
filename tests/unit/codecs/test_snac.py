"""SNAC: frames of codes, whatever is whole among them, pieces, and mistakes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from speculative_tts.codecs.registry import load_codec
from speculative_tts.codecs.snac import SnacCodec, by_level, frame_levels, interleave, whole_frames

GOLDEN = Path(__file__).parents[2] / "golden" / "rows" / "snac"


@pytest.fixture(scope="module")
def codec() -> SnacCodec:
    loaded = load_codec("snac", GOLDEN)
    assert isinstance(loaded, SnacCodec)
    return loaded


def frames(count: int, seed: int = 0) -> np.ndarray:
    """Codes of so many frames, as an LM says them."""
    drawn = np.random.default_rng(seed).integers(0, 16, (count, 7))
    return np.asarray(drawn + 16 * np.arange(7)).reshape(-1)


def test_a_frame_is_each_code_before_the_faster_ones_of_its_time() -> None:
    assert frame_levels([4, 2, 1]) == (0, 1, 2, 2, 1, 2, 2)
    assert frame_levels([8, 4, 2, 1])[:8] == (0, 1, 2, 3, 3, 2, 3, 3)
    assert frame_levels([1]) == (0,)


def test_levels_and_frames_are_each_others_inverse() -> None:
    levels = [np.array([1, 2]), np.array([3, 4, 5, 6]), np.arange(8)]
    row = interleave(levels, (0, 1, 2, 2, 1, 2, 2), 16)
    assert row[:7].tolist() == [1, 16 + 3, 32 + 0, 48 + 1, 64 + 4, 80 + 2, 96 + 3]
    back = by_level(whole_frames(row, 7, 16), (0, 1, 2, 2, 1, 2, 2))
    assert all(np.array_equal(a, b) for a, b in zip(levels, back, strict=True))


def test_what_is_no_whole_frame_is_left_out() -> None:
    """A sampler that may say anything loses a code, doubles one, or is cut at the limit."""
    said = frames(4)
    whole = whole_frames(said, 7, 16)
    assert whole.shape == (4, 7)
    assert np.array_equal(whole_frames(said[:-1], 7, 16), whole[:3])
    assert np.array_equal(whole_frames(np.delete(said, 9), 7, 16), whole[[0, 2, 3]])
    assert np.array_equal(whole_frames(np.insert(said, 9, said[9]), 7, 16), whole[[0, 2, 3]])
    assert np.array_equal(whole_frames(said[3:], 7, 16), whole[1:])
    assert whole_frames(said[:0], 7, 16).shape == (0, 7)
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 112\); drop stop tokens first"):
        whole_frames(np.array([112]), 7, 16)


def test_waves_become_frames_and_back(codec: SnacCodec) -> None:
    assert (codec.sample_rate, codec.n_codes, codec.n_layers, codec.hop) == (24_000, 112, 1, 2048)
    assert codec.token_rate == pytest.approx(24_000 / 2048 * 7)
    wave = 0.1 * np.sin(np.arange(5000) / 20).astype(np.float32)
    codes = codec.encode(wave)
    assert codes.dtype == np.int64
    assert len(codes) == 21  # three frames, the last one filled up
    assert codec.decode(codes).shape == (3 * 2048,)
    assert codec.decode(codes[:6]).shape == (0,)
    assert codec.encode(wave[:0]).shape == (0,)
    assert codec.codebook.shape == (112, 4)
    assert np.array_equal(codec.codebook[16:32], codec.codebook[64:80])  # both of level 1


def test_the_same_codes_are_the_same_wave_whatever_was_drawn_before(codec: SnacCodec) -> None:
    import torch

    codes = frames(3)
    first = codec.decode(codes)
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    assert np.array_equal(codec.decode(codes), first)
    assert torch.rand(1) == expected  # and nobody else's numbers change


@pytest.mark.parametrize("chunk", [None, 14, 20])
def test_pieces_are_whole_frames_and_as_long_as_the_utterance(
    codec: SnacCodec, chunk: int | None
) -> None:
    said = frames(11)
    speaking = codec.speaking(said[:0], chunk)
    strides = speaking.strides()
    assert next(strides) % 7 == next(strides) % 7 == 0
    pieces = [piece for end in range(5, 77, 6) for piece in speaking.ready(said[:end])]
    pieces += list(speaking.ready(said, ended=True))
    assert all(len(piece) % 2048 == 0 for piece in pieces)
    assert sum(map(len, pieces)) == 11 * 2048
    assert len(pieces) > 2


def test_codes_without_a_frame_are_a_moment_of_silence(codec: SnacCodec) -> None:
    (piece,) = codec.speaking(np.zeros(0, dtype=np.int64)).ready(frames(1)[:3], ended=True)
    assert len(piece) == 2048
    assert not piece.any()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"vq_strides": []}, r"has vq_strides \[\], no frames; give codec\.path="),
        ({"sampling_rate": 0}, r"config\.json: sampling_rate 0 is below 1; give"),
        ({"sampling_rate": "24k"}, r"config\.json: sampling_rate is \"24k\"; give"),
        ({"vq_strides": [3, 2, 1]}, r"has vq_strides \[3, 2, 1\], no frames; give codec\.path="),
        ({"codebook_size": 8}, r"does not fit: .*codebook\.weight is .*; give codec\.path="),
        ({"unheard": 1}, r"describes no SNAC \(.*unheard.*\); give codec\.path="),
    ],
)
def test_another_folder_is_named(damage: dict[str, object], message: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "snac")
    path = tmp_path / "snac" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(ValueError, match=message):
        load_codec("snac", tmp_path / "snac")


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "snac")
    (tmp_path / "snac" / "pytorch_model.bin").unlink()
    with pytest.raises(ValueError, match=r"no pytorch_model\.bin in .*; give codec\.path=<folder"):
        load_codec("snac", tmp_path / "snac")


def test_without_its_package_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "snac", None)
    with pytest.raises(ImportError, match=r"^codec snac needs .*: pip install 'speculative_tts\[s"):
        load_codec("snac", GOLDEN)
