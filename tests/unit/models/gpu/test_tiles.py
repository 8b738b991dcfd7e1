"""Tables of tiles: what ships, what is measured, what is kept."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from speculative_tts.models.gpu import tiles, tuning
from speculative_tts.models.gpu.tiles import (
    MOST_GEMV,
    AttentionHeads,
    AttentionTile,
    GemvTile,
    ProductShape,
    RowsTile,
    of_attention,
    product_default,
    row_class,
)

CPU = torch.device("cpu")
SHAPES = [ProductShape(1152, 896, False), ProductShape(4864, 896, True), ProductShape(7, 37, False)]


def refuse(*_: object) -> None:
    """Stand for a product that must not be measured."""
    raise AssertionError("measured")


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A GPU that is known by name alone, with a cache folder of its own."""
    monkeypatch.setattr(tiles, "slug", lambda _: "some_gpu")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tiles.table.cache_clear()
    yield torch.device("cuda:9")
    tiles.table.cache_clear()


def test_what_is_measured_is_kept_for_later_processes(device: torch.device) -> None:
    shape = SHAPES[0]
    tiles.learn(device, {shape.key(torch.bfloat16, 1): [2, 2]})
    tiles.learn(device, {shape.key(torch.bfloat16, 3): [16, 128, 2, 4, 512]})
    tiles.table.cache_clear()
    assert tuning.of_product(device, shape, torch.bfloat16, 1, refuse) == GemvTile(2, 2)
    assert tuning.of_product(device, shape, torch.bfloat16, 4, refuse) == RowsTile(
        16, 128, 2, 4, 512
    )
    assert len(tiles.table(device)) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tiles"', '{"others": 1}'])
def test_a_damaged_table_is_measured_again(device: torch.device, text: str) -> None:
    tiles.own_file(device).parent.mkdir(parents=True)
    tiles.own_file(device).write_text(text)
    assert tiles.table(device) == {}
    tiles.learn(device, {"a": [1, 1]})
    assert json.loads(tiles.own_file(device).read_text()) == {"tiles": {"a": [1, 1]}}


def test_a_folder_that_cannot_be_written_costs_no_run(
    device: torch.device, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "speculative_tts").write_text("a file where the folder belongs")
    with caplog.at_level(logging.WARNING):
        tiles.learn(device, {"a": [1, 1]})
    assert "measured again in the next process" in caplog.text
    assert tiles.table(device) == {"a": [1, 1]}


def test_tiles_that_ship_are_some() -> None:
    files = list(tiles.SHIPPED.glob("*.json"))
    assert files
    for file in files:
        for key, numbers in json.loads(file.read_text())["tiles"].items():
            kind, dtype, *sizes = key.split()
            assert (kind, dtype) == ("product", "bfloat16")
            rows, tile = int(sizes[-1]), tiles.product_of(numbers)
            assert rows in tiles.ROW_CLASSES
            assert rows <= MOST_GEMV or isinstance(tile, RowsTile)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_product_has_a_tile(shape: ProductShape, dtype: torch.dtype) -> None:
    for rows in range(1, tiles.FEW + 1):
        tile = tuning.of_product(CPU, shape, dtype, rows, refuse)
        assert tile == product_default(shape, dtype, rows)
        assert isinstance(tile, RowsTile) or rows <= MOST_GEMV
        tried = tuning.candidates(shape, dtype, row_class(rows))
        assert tile in tried or row_class(rows) != rows
        assert len(set(tried)) == len(tried)


def test_attention_has_more_parts_the_fewer_rows_there_are() -> None:
    parts = [
        of_attention(CPU, AttentionHeads(14, 2, 64), torch.bfloat16, batch, 1).splits
        for batch in (1, 8, 16, 32, 64)
    ]
    assert parts == [8, 8, 4, 2, 0]
    assert of_attention(CPU, AttentionHeads(2, 1, 8), torch.float32, 1, 1) == AttentionTile(
        8, 32, 4
    )


def test_tiles_are_not_measured_off_a_gpu_or_for_little() -> None:
    assert not tuning.worth_it(CPU, SHAPES[0], torch.bfloat16)
    assert SHAPES[0].bytes(torch.bfloat16) > tuning.LEAST > SHAPES[2].bytes(torch.float32)
