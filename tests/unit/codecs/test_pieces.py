"""Speech in pieces: the whole utterance's samples away from the seams, each code once."""

from collections.abc import Callable

import numpy as np
import pytest
from transformers import Xcodec2Config, Xcodec2Model

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.pieces import Speaking, Window, Windowed
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.codecs.xcodec2 import WINDOW, Xcodec2
from tests.unit.codecs.test_transformers_codecs import SIZES

HOP = 10


def told(speaking: Speaking, codes: np.ndarray, step: int) -> list[Wave]:
    """Pieces of codes that come `step` at a time."""
    grown = (codes[:n] for n in range(step, len(codes), step))
    pieces = [piece for some in grown for piece in speaking.ready(some)]
    return [*pieces, *speaking.ready(codes, ended=True)]


def smeared(reach_back: int, reach_ahead: int) -> Callable[[np.ndarray], Wave]:
    """A codec whose samples of a code are the sum of the codes around it."""

    def decode(codes: np.ndarray) -> Wave:
        around = [
            codes[max(0, i - reach_back) : i + reach_ahead + 1].sum() for i in range(len(codes))
        ]
        return np.repeat(np.array(around, dtype=np.float32), HOP)

    return decode


@pytest.mark.parametrize("step", [1, 3, 4, 50])
@pytest.mark.parametrize("window", [Window(2, 5), Window(2, 4, back=3), Window(3, 1, 3, HOP)])
def test_pieces_are_the_whole(window: Window, step: int) -> None:
    """Whatever comes at a time; with enough before and ahead a fade has nothing to hide."""
    codes = np.arange(1, 41)
    decode = smeared(3 if window.back else 100, 2)
    before = np.array([7, 9])
    whole = decode(np.concatenate([before, codes]))[2 * HOP :]
    pieces = told(Windowed(decode, window, None, before), codes, step)
    assert len(pieces[0]) == (window.chunk if step < 50 else 40) * HOP
    np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-6)


def test_a_window_that_is_too_small_is_found_and_faded() -> None:
    """The negative control; and the jump between two pieces becomes a slope."""
    codes = np.arange(1, 41)
    decode = smeared(3, 2)
    whole = decode(codes)
    for fade in (0, HOP):
        window = Window(0, 5, back=0, fade=fade)
        pieces = told(Windowed(decode, window, None, codes[:0]), codes, 1)
        assert np.abs(np.concatenate(pieces) - whole).max() > 1
    steep, soft = (
        np.concatenate(told(Windowed(decode, Window(1, 5, 0, fade), None, codes[:0]), codes, 1))
        for fade in (0, HOP)
    )
    assert np.abs(np.diff(soft)).max() < np.abs(np.diff(steep)).max()


@pytest.mark.parametrize("chunk", [1, 5, 17])
def test_the_tiny_codecs_pieces_are_exactly_the_whole_utterance(chunk: int) -> None:
    """WORLD's pulses and noise go on from all before: a window would start them anew."""
    codec = TinyCodec.load(resolve("tiny:codec"))
    codes = np.random.default_rng(0).integers(0, codec.n_codes, 40)
    whole = codec.decode(codes)
    pieces = told(codec.speaking(codes[:0], chunk), codes, 3)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    cut = codec.decode(codes[10:])  # the control: without what was before
    assert np.abs(cut - whole[10 * 640 :]).max() > 0.01


def test_xcodec2_is_near_the_whole_away_from_the_seams() -> None:
    """Its attention sees everything, so nearly; a piece alone, without its surroundings, is not."""
    import torch

    torch.manual_seed(0)
    codec = Xcodec2(Xcodec2Model(Xcodec2Config(**SIZES)).eval())
    rng = np.random.default_rng(0)
    prompt, codes = rng.integers(0, 64, 60), rng.integers(0, 64, 120)
    whole = codec.decode_as(codes, prompt)
    pieces = told(codec.speaking(prompt), codes, 4)
    assert [len(piece) // 320 for piece in pieces] == [25, 25, 25, 25, 20]

    def away(parts: list[Wave]) -> float:
        """Relative difference where no seam is within 20 ms."""
        found = np.concatenate(parts)
        far = np.ones(len(found), dtype=bool)
        for seam in np.cumsum([len(part) for part in parts])[:-1]:
            far[max(0, seam - 320) : seam + 320] = False
        return float(np.linalg.norm((found - whole)[far]) / np.linalg.norm(whole[far]))

    alone = [codec.decode(codes[i : i + 25]) for i in range(0, 120, 25)]
    assert away(pieces) < 0.2
    assert away(alone) > 2 * away(pieces)
    wide = Window(len(codes), 25, back=None)  # sees everything
    (all_of_it,) = told(Windowed(codec.decode, wide, None, prompt), codes, 4)
    np.testing.assert_allclose(all_of_it, whole, atol=1e-6)
    assert WINDOW.back == 150
