"""The multi-token loop: one head is the autoregressive loop, ends are cut right, rows are alone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fake_models import N_CODES, WORDS, write_checkpoint

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks.choosers import Chooser, IndependentHeads, ViterbiHeads
from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.loops.multi_token import multi_token, uncached_blocks
from speculative_tts.decoding.loops.one_by_one import autoregressive, uncached
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.heads import Heads, HeadTensors, load_heads, save_heads
from speculative_tts.models.prompt import Prompt

pytestmark = pytest.mark.usefixtures("kernels")

CPU = torch.device("cpu")
STOPS = (N_CODES,)
SAMPLER = Sampler(temperature=0.9, top_k=20)


@pytest.fixture(scope="module")
def target(kernels: str, tmp_path_factory: pytest.TempPathFactory) -> MergedVocabLM:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "target"
    write_checkpoint(folder, layers=2)
    return MergedVocabLM.load(folder, dtype=torch.float32, device=CPU)


def heads_of(target: MergedVocabLM, n: int) -> Heads:
    noise = torch.randn(n, *target.head.dense().T.shape, generator=torch.Generator().manual_seed(1))
    weight = target.head.dense().T + 0.1 * noise
    weight[0] = target.head.dense().T
    return Heads(HeadTensors(weight))


def requests(target: MergedVocabLM, count: int = 3, maximum: int = 30) -> list[Request]:
    rows = []
    for row in range(count):
        codes = torch.arange(5 + 3 * row) % N_CODES
        prompt = target.prompt(target.prompt_ids(Prompt(WORDS[row], "two", codes)))
        rows.append(Request(f"u{row}", prompt, None, row, maximum - 7 * row, seed=3))
    return rows


def choosers() -> list[Chooser]:
    generator = torch.Generator().manual_seed(2)
    table = DenseTransitions(
        torch.randn(N_CODES + 1, N_CODES + 1, generator=generator), size=N_CODES
    )
    stop = StopRule.build(STOPS, N_CODES + 1, [0], CPU)
    found: list[Chooser] = [IndependentHeads(SAMPLER), IndependentHeads(Sampler(temperature=0))]
    for union in (True, False):
        search = PathSearch(table, 4, union, boundary=union)
        found += [ViterbiHeads(search, stop, temperature=0.9, sample=s) for s in (True, False)]
    return found


def test_one_head_is_the_autoregressive_loop(target: MergedVocabLM) -> None:
    many = requests(target)
    expected = [one.tokens for one in autoregressive(target, STOPS, SAMPLER, many)]
    found = multi_token(target, heads_of(target, 1), IndependentHeads(SAMPLER), STOPS, many)
    assert [one.tokens for one in found] == expected
    assert [one.counts.unverified for one in found] == [one.counts.passes for one in found]
    assert all(one.counts.rounds == 0 for one in found)


def passes_of(target: MergedVocabLM, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of positions of each pass from now on."""
    lengths: list[int] = []
    extend = target.decoder.extend

    def counting(inputs: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
        lengths.append(inputs.shape[1])
        return extend(inputs, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(target.decoder, "extend", counting)
    return lengths


def test_uncached_gives_the_same_tokens_by_one_pass_each(
    target: MergedVocabLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass is a run over prompt and tokens so far; it once were two, one for either."""
    many = requests(target)
    expected = autoregressive(target, STOPS, SAMPLER, many)
    lengths = passes_of(target, monkeypatch)
    for row, outcome in zip(many, expected, strict=True):
        lengths.clear()
        assert uncached(target, STOPS, SAMPLER, [row])[0] == outcome
        assert lengths == [len(row.prompt) + done for done in range(len(outcome.tokens))]
    assert uncached(target, STOPS, SAMPLER, many) == expected


@pytest.mark.parametrize("which", range(6))
def test_uncached_blocks_are_the_cached_ones_by_a_pass_over_everything(
    target: MergedVocabLM, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached heads stood beside an uncached target: most of that speedup was the cache's."""
    chooser, heads, many = choosers()[which], heads_of(target, 4), requests(target)
    expected = multi_token(target, heads, chooser, STOPS, many)
    assert uncached_blocks(target, heads, chooser, STOPS, many) == expected
    assert uncached_blocks(target, heads, chooser, STOPS, []) == []
    lengths = passes_of(target, monkeypatch)
    uncached_blocks(target, heads, chooser, STOPS, many[:1])
    passes = expected[0].counts.passes
    assert lengths == [len(many[0].prompt) + 4 * block for block in range(passes)]


def test_uncached_rows_that_are_done_grow_no_further(target: MergedVocabLM) -> None:
    """A long prompt with few tokens became as long as the longest row, and longer than its room."""
    one = requests(target)[0]
    wordy = replace(one, id="wordy", prompt=one.prompt[:3], min_tokens=50, max_tokens=60)
    brief = replace(one, id="brief", prompt=one.prompt.repeat(4, 1), max_tokens=4)
    many = [wordy, brief]
    assert uncached(target, STOPS, SAMPLER, many) == autoregressive(target, STOPS, SAMPLER, many)


@pytest.mark.parametrize("which", range(6))
def test_a_batch_is_its_rows_and_limits_hold(target: MergedVocabLM, which: int) -> None:
    chooser, heads = choosers()[which], heads_of(target, 4)
    many = requests(target)
    together = multi_token(target, heads, chooser, STOPS, many)
    for request, found in zip(many, together, strict=True):
        alone = multi_token(target, heads, chooser, STOPS, [request])[0]
        assert alone == found
        assert 1 <= len(found.tokens) <= request.max_tokens
        assert found.stopped == (found.tokens[-1] in STOPS)
        assert found.stopped or len(found.tokens) == request.max_tokens
        assert not set(found.tokens[:-1]) & set(STOPS)
        assert len(found.tokens) - found.stopped >= request.min_tokens
        assert found.counts.passes == -(-len(found.tokens) // 4)
        assert found.counts.unverified == len(found.tokens)


class Script:
    """Puts given tokens into each block."""

    native = None

    def __init__(self, *blocks: list[int]) -> None:
        self._blocks = iter(blocks)

    def __call__(self, logits: torch.Tensor, rows: object, before: object) -> object:
        from speculative_tts.decoding.blocks.choosers import ChosenBlock

        return ChosenBlock(torch.tensor([next(self._blocks)]))


@pytest.mark.parametrize(
    ("blocks", "maximum", "expected"),
    [
        (([1, 2, 3], [4, N_CODES, 5]), 30, [1, 2, 3, 4, N_CODES]),
        (([N_CODES, 2, 3],), 30, [N_CODES]),
        (([1, 2, N_CODES],), 30, [1, 2, N_CODES]),
        (([1, 2, 3], [4, 5, 6]), 5, [1, 2, 3, 4, 5]),
        (([1, 2, 3], [4, 5, N_CODES]), 5, [1, 2, 3, 4, 5]),
        (([1, 2, 3], [4, 5, 6]), 6, [1, 2, 3, 4, 5, 6]),
        (([1, 2, 3],), 1, [1]),
    ],
)
def test_blocks_are_cut_at_stop_id_and_limit(
    target: MergedVocabLM, blocks: tuple[list[int], ...], maximum: int, expected: list[int]
) -> None:
    one = Request("a", requests(target)[0].prompt, None, 0, maximum, seed=0)
    heads = heads_of(target, 3)
    found = multi_token(target, heads, Script(*blocks), STOPS, [one])[0]  # type: ignore[arg-type]
    assert found.tokens == expected
    assert found.stopped == (expected[-1] == N_CODES)


@torch.inference_mode()
def test_the_first_blocks_boundary_is_the_prompts_last_code(target: MergedVocabLM) -> None:
    """It once was code 0, whatever the prompt ended with."""
    heads, codes = heads_of(target, 3), (None, 0, 7, 31)
    table = 9 * torch.randn(41, 41, generator=torch.Generator().manual_seed(4))
    search = PathSearch(DenseTransitions(table, size=N_CODES), 2, union=False, boundary=True)
    stop = StopRule.build(STOPS, N_CODES + 1, [0], CPU)
    choose = ViterbiHeads(search, stop, temperature=1.0, sample=False)
    one = replace(requests(target)[1], min_tokens=3, max_tokens=3)
    many = [replace(one, last_code=code) for code in codes]
    logits = heads(target.prefill_hidden([one.prompt], target.cache(1, len(one.prompt))))
    rows = BatchState.of(many, STOPS, N_CODES + 1, slack=3)
    before = torch.tensor([-1 if code is None else code for code in codes])
    expected = choose(logits.expand(len(codes), -1, -1), rows, before).tokens.tolist()
    assert len({tuple(path) for path in expected}) > 1, "another table"
    found = multi_token(target, heads, choose, STOPS, many)
    assert [outcome.tokens for outcome in found] == expected


@pytest.mark.parametrize("sample", [True, False])
def test_dead_blocks_are_counted_in_each_row_and_decoding_goes_on(
    target: MergedVocabLM, sample: bool
) -> None:
    """A row that is done lies in dead lattices too while the others go on."""
    dead = DenseTransitions(torch.full((N_CODES + 1, N_CODES + 1), float("-inf")), size=N_CODES)
    stop = StopRule.build(STOPS, N_CODES + 1, [0], CPU)
    choose = ViterbiHeads(PathSearch(dead, 3), stop, temperature=1.0, sample=sample)
    many = [
        replace(row, max_tokens=length)
        for row, length in zip(requests(target), (3, 17, 9), strict=True)
    ]
    found = multi_token(target, heads_of(target, 4), choose, STOPS, many)
    assert [one.counts.dead_blocks for one in found] == [one.counts.passes for one in found]
    assert len({one.counts.passes for one in found}) > 1
    assert all(one.counts.passes for one in found)


@pytest.mark.parametrize("kind", ["linear", "residual"])
def test_heads_are_kept_and_misfits_told(target: MergedVocabLM, tmp_path: Path, kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    checkpoint = tmp_path / "target"
    write_checkpoint(checkpoint, layers=1)
    weight = torch.randn(3, 11, 8, generator=generator)
    block = (None, None)
    if kind == "residual":
        block = torch.randn(3, 8, 8, generator=generator), torch.randn(3, 8, generator=generator)
        block[0][0], block[1][0] = 0, 0
    tensors = HeadTensors(weight, torch.randn(3, 11, generator=generator), *block)
    save_heads(tmp_path / "heads", tensors, target=checkpoint)
    hidden = torch.randn(2, 8, generator=generator)
    options = {"target": checkpoint, "dtype": torch.float32, "device": CPU}
    for n in (None, 2):
        logits = load_heads(tmp_path / "heads", n, **options)(hidden)
        assert logits.shape == (2, n or 3, 11)
        for head in range(n or 3):
            inner = hidden
            if kind == "residual":
                inner = hidden + torch.nn.functional.silu(
                    hidden @ block[0][head].T + block[1][head]
                )
            expected = inner @ weight[head].T + tensors.bias[head]
            torch.testing.assert_close(logits[:, head], expected, atol=1e-4, rtol=1e-4)
    for n in (0, 4):
        with pytest.raises(ValueError, match=rf"heads.n {n} is not in 1 to 3"):
            load_heads(tmp_path / "heads", n, **options)
    write_checkpoint(checkpoint, layers=1)
    with pytest.raises(ValueError, match="another target"):
        load_heads(tmp_path / "heads", None, **options)
    with pytest.raises(ValueError, match=r"no file .*heads\.json; make heads"):
        load_heads(tmp_path, None, **options)
