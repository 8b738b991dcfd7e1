"""Look-up in what was said, the drafter of native rounds (`draft.cpp`)."""

import ctypes

from torch import Tensor

from speculative_tts.native.structures import numbers
from speculative_tts.native.walk import NativeDrafter


class _Lookup(ctypes.Structure):
    _fields_ = (("heard", ctypes.c_void_p), *numbers(ctypes.c_int64, "before longest shortest"))


def drafter(heard: Tensor, longest: int, shortest: int) -> NativeDrafter:
    """Return look-up as the drafter of rounds.

    heard: int64 [batch, before], the prompts' codes, the newest last, negative where there is none.
    """
    assert heard.is_contiguous()
    past = _Lookup(heard.data_ptr(), heard.shape[1], longest, shortest)
    made = NativeDrafter(lookup=ctypes.addressof(past))
    made.kept = (past, heard)
    return made
