"""What memory allows."""

from pathlib import Path

import pytest
import torch

from speculative_tts.bench import roofline
from speculative_tts.native import library
from speculative_tts.schema.decode import Kernels


@pytest.mark.native
def test_every_size_is_read_and_nothing_without_the_native_step() -> None:
    found = roofline.limits({"small": 1 << 20})
    assert set(found) == {"small", "main memory", *roofline.l3()}
    assert all(1e8 < speed < 1e13 for speed in found.values())
    library.select(Kernels.torch)
    assert roofline.limits({"small": 1 << 20}) == {}
    library.select(Kernels.auto)


def test_a_large_model_is_not_in_memory_twice() -> None:
    """The bench of an 8B model was killed here: 14.5 GB beside as many of weights."""
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "bandwidth", lambda size, _: read.append(size) or 1.0)
        assert set(roofline.limits({"8B": 14 << 30, "small": 5})) >= {"8B", "small"}
    assert max(read) == roofline.MAIN
    assert 5 in read


@pytest.mark.native
def test_threads_read_parts_and_their_speeds_add_up() -> None:
    one, two = (roofline.bandwidth(2 << 20, threads) for threads in (1, 2))
    assert one is not None
    assert two is not None
    assert two > one / 2


def test_a_cache_is_read_as_the_system_tells_it(tmp_path: Path) -> None:
    told = tmp_path / "size"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "L3", told)
        assert roofline.l3() == {}
        told.write_text("32768K\n")
        assert roofline.l3() == {"half of 32 MB of L3": 16 << 20}


@pytest.mark.native
def test_all_is_read() -> None:
    """The sum that the reading returns: nothing is left out but a last odd piece."""
    native = library.library()
    assert native is not None
    data = torch.ones(1280)
    lanes = {16: 80, 8: 160, 4: 320}
    assert native.sst_read(data.data_ptr(), len(data)) in lanes.values()
