"""What memory allows."""

import pytest
import torch

from speculative_tts.bench import roofline
from speculative_tts.models.native import library
from speculative_tts.schema.decode import Kernels


@pytest.mark.native
def test_every_size_is_read_and_nothing_without_the_native_step() -> None:
    found = roofline.limits({"small": 1 << 20})
    assert set(found) == {"small", "main memory"}
    assert all(1e8 < speed < 1e13 for speed in found.values())
    library.select(Kernels.torch)
    assert roofline.limits({"small": 1 << 20}) == {}
    library.select(Kernels.auto)


@pytest.mark.native
def test_all_is_read() -> None:
    """The sum that the reading returns: nothing is left out but a last odd piece."""
    native = library.library()
    assert native is not None
    data = torch.ones(1280)
    lanes = {16: 80, 8: 160, 4: 320}
    assert native.sst_read(data.data_ptr(), len(data)) in lanes.values()
