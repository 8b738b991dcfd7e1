"""Decode speech while its codes are still being made: cut final pieces and join them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol, runtime_checkable

import numpy as np

from speculative_tts.codecs.audio import Wave


class Speaking(Protocol):
    """One utterance that is decoded piece by piece."""

    def strides(self) -> Iterator[int]:
        """Yield the number of further codes that each next piece needs."""

    def ready(self, codes: np.ndarray, *, ended: bool = False) -> Iterator[Wave]:
        """Yield the pieces that became final, given all `codes` so far; each comes once."""


@runtime_checkable
class StreamCodec(Protocol):
    """A codec that can speak the beginning of an utterance before its end is known."""

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Speaking:
        """Start an utterance after a prompt, in pieces of `chunk` codes (None: the default)."""


@dataclass(frozen=True)
class Window:
    """Codes that a decoder must see around a piece, so that the piece's samples are final.

    It sees `ahead` codes after the piece and `back` codes before it (None: all, so that pieces
    equal the samples of the whole utterance). Where they are only nearly equal, a piece fades into
    the next over `fade` samples. `chunk` is the default number of codes in a piece.
    """

    ahead: int
    chunk: int
    back: int | None = None
    fade: int = 0


class Windowed:
    """Pieces of a stateless codec: each is decoded with its context, which is then cut off."""

    def __init__(
        self,
        decode: Callable[[np.ndarray], Wave],
        window: Window,
        chunk: int | None,
        before: np.ndarray,
    ) -> None:
        """Start an utterance; the decoder sees the codes `before` ahead of the first piece."""
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
        if self._window.back is not None:
            before = before[max(0, len(before) - self._window.back) :]
        context = np.concatenate([before, codes[self._sent : end + self._window.ahead]])
        wave = self._decode(context)
        hop = len(wave) // len(context)
        wave, length = wave[hop * len(before) :], hop * (end - self._sent)
        piece, over = wave[:length].copy(), min(len(self._tail), length)
        if over:
            rise = np.arange(1, over + 1, dtype=np.float32) / (over + 1)
            piece[:over] = rise * piece[:over] + (1 - rise) * self._tail[:over]
        self._sent, self._tail = end, wave[length : length + self._window.fade]
        return piece
