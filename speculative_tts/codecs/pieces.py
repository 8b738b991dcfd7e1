"""Speech while its codes are still being made: which samples are final, and how pieces join."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol, runtime_checkable

import numpy as np

from speculative_tts.codecs.audio import Wave


class Speaking(Protocol):
    """One utterance on its way to waves."""

    def strides(self) -> Iterator[int]:
        """How many codes more each next piece needs."""
        ...

    def ready(self, codes: np.ndarray, *, ended: bool = False) -> Iterator[Wave]:
        """The pieces that are final now that `codes`, all so far, are there; each comes once."""
        ...


@runtime_checkable
class StreamCodec(Protocol):
    """A codec that can speak the beginning of an utterance before its end is known."""

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Speaking:
        """An utterance in pieces of `chunk` codes, None: the codec's own; a prompt came before."""
        ...


@dataclass(frozen=True)
class Window:
    """What a decoder must hear besides a piece's own codes, so that its samples are final.

    `ahead` codes behind it, and `behind` codes before it; None: all before it, and pieces are the
    whole utterance's samples. Where they are so only nearly, a piece fades into the next over
    `fade` samples. `chunk`: codes a piece, where nobody says.
    """

    ahead: int
    chunk: int
    behind: int | None = None
    fade: int = 0


class Windowed:
    """Pieces of a codec without a memory: each decoded with what is around it, which is cut off."""

    def __init__(
        self,
        decode: Callable[[np.ndarray], Wave],
        window: Window,
        chunk: int | None,
        before: np.ndarray,
    ) -> None:
        """`before`: codes that the decoder hears before the first piece."""
        self._decode, self._window, self._before = decode, window, before
        self._chunk = chunk or window.chunk
        self._sent = 0
        self._tail = np.zeros(0, dtype=np.float32)

    def strides(self) -> Iterator[int]:
        """See `Speaking`."""
        return chain([self._chunk + self._window.ahead], repeat(self._chunk))

    def ready(self, codes: np.ndarray, *, ended: bool = False) -> Iterator[Wave]:
        """See `Speaking`."""
        while not ended and len(codes) - self._sent >= self._chunk + self._window.ahead:
            yield self._piece(codes, self._sent + self._chunk)
        if ended and len(codes) > self._sent:
            yield self._piece(codes, len(codes))

    def _piece(self, codes: np.ndarray, end: int) -> Wave:
        before = np.concatenate([self._before, codes[: self._sent]])
        if self._window.behind is not None:
            before = before[max(0, len(before) - self._window.behind) :]
        heard = np.concatenate([before, codes[self._sent : end + self._window.ahead]])
        wave = self._decode(heard)
        hop = len(wave) // len(heard)
        wave, length = wave[hop * len(before) :], hop * (end - self._sent)
        piece, over = wave[:length].copy(), min(len(self._tail), length)
        if over:
            rise = np.arange(1, over + 1, dtype=np.float32) / (over + 1)
            piece[:over] = rise * piece[:over] + (1 - rise) * self._tail[:over]
        self._sent, self._tail = end, wave[length : length + self._window.fade]
        return piece
