"""What sst-bench times of a path search: all modes of every vocabulary."""

import torch

from speculative_tts.bench.search import SEEN, search_costs, synthetic_transitions

CPU = torch.device("cpu")


def test_rows_name_mode_set_and_vocabulary() -> None:
    costs = search_costs((12, 50), 2, 3, 3, CPU)
    modes = [f"{mode} path" for mode in ("best", "sampled")]
    expected = [
        f"{mode}, {size} codes, n = 2, k = 3, {candidates}"
        for size in (12, 50)
        for candidates in ("union", "per head")
        for mode in modes
    ]
    assert list(costs) == expected
    assert all(0 < seconds < 1 for seconds in costs.values())


def test_synthetic_transitions_have_distinct_successors() -> None:
    size = 200
    rows = synthetic_transitions(size)
    lengths = rows.offsets.diff()
    assert int(lengths.sum()) == len(rows.columns) == len(rows.seen)
    assert SEEN * 0.8 < float(lengths.float().mean()) <= SEEN
    row = torch.repeat_interleave(torch.arange(size), lengths)
    assert len((row * size + rows.columns).unique()) == len(row)
    table = rows.on(CPU, ids=size + 1, weight=1.0)
    assert table.pairs(torch.zeros(1, 1).long(), torch.zeros(1, 1).long()).isfinite().all()
