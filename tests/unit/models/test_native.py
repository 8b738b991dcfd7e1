"""The native step: one order of every sum, whatever is computed beside it."""

import ctypes
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from computing import computing
from decoders import build, state
from torch import Tensor
from valle_golden import SMALL, small_valle

from speculative_tts import assets
from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.decoder.matrix import Packed, matrix
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.host import with_threads
from speculative_tts.native import flags, library
from speculative_tts.native.step import PackedCache
from speculative_tts.schema.decode import Kernels

CPU = torch.device("cpu")
COUNT = 33  # positions
POST_NORM = replace(SMALL, norm_first=False, prepend_bos=True)
runnable = flags.sets()[flags.sets().index(library.instructions()) :]


def use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(library, "instructions", lambda: name)
    library.loaded.cache_clear()


def tiny(dtype: torch.dtype = torch.float32) -> MergedVocabLM:
    return MergedVocabLM.load(assets.resolve("tiny:draft"), dtype=dtype, device=CPU)


MODELS = {
    "small": lambda: build(state(0)),
    "tiny": tiny,
    "tiny bfloat16": lambda: tiny(torch.bfloat16),
    "valle": lambda: ValleLM(small_valle(SMALL).ar),
    "valle, norms behind": lambda: ValleLM(small_valle(POST_NORM).ar),
}


def ids_of(model: CodeLM | ValleLM, rows: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, model.vocab_size - 4, (rows, COUNT), generator=generator)


def prompt_of(model: CodeLM | ValleLM, ids: list[int]) -> Tensor:
    if isinstance(model, ValleLM):
        return model.prompt(model.merged([1, 4, 2], ids))
    return model.embed(torch.tensor(ids))


def logits_in_pieces(model: CodeLM | ValleLM, ids: Tensor, size: int) -> Tensor:
    """Logits [COUNT, vocab] of ids [COUNT], fed in pieces behind a prompt of one token."""
    prompt = prompt_of(model, [3])
    cache = model.cache(1, len(prompt) + COUNT)
    model.prefill([prompt], cache)
    out = []
    for begin in range(0, COUNT, size):
        start = torch.tensor([len(prompt) + begin])
        out.append(model.extend(ids[None, begin : begin + size], cache, start)[0])
    return torch.cat(out)


@pytest.mark.native
@pytest.mark.parametrize("set_", runnable)
@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_logits_do_not_depend_on_how_many_rows_are_computed_at_once(
    name: str, set_: str, instructions: pytest.MonkeyPatch
) -> None:
    """Bit for bit: single steps, verifications, one pass; as a prompt; beside others of a batch."""
    use(instructions, set_)
    model = MODELS[name]()
    assert isinstance(model.cache(1, 8), PackedCache) or isinstance(model, ValleLM)
    ids = ids_of(model, rows=3)
    alone = [logits_in_pieces(model, row, 1) for row in ids]
    for size in (2, 3, 4, 5, 7, 8, 13, 16, COUNT):
        assert logits_in_pieces(model, ids[0], size).equal(alone[0]), size

    for fed in (1, 9, COUNT):  # a prefill gives what steps do
        prompt = prompt_of(model, [3, *ids[0, :fed].tolist()])
        assert model.prefill([prompt], model.cache(1, 90))[0].equal(alone[0][fed - 1])

    fed = [5, 0, 17]  # ragged: rows have different lengths, and caches another capacity
    prompts = [prompt_of(model, [3, *row[:n].tolist()]) for row, n in zip(ids, fed, strict=True)]
    cache = model.cache(3, 300)
    model.prefill(prompts, cache)
    start = torch.tensor([len(prompt) for prompt in prompts])
    junk = torch.full((3, 6), 7)
    model.extend(junk, cache, start)  # rolled back
    for size in (1, 4, 2):
        pieces = torch.stack([row[n : n + size] for row, n in zip(ids, fed, strict=True)])
        out = model.extend(pieces, cache, start)
        for row, n in enumerate(fed):
            assert out[row].equal(alone[row][n : n + size]), (row, size)
        start, fed = start + size, [n + size for n in fed]


@torch.inference_mode()
def test_logits_do_not_depend_on_threads() -> None:
    model, before = tiny(), torch.get_num_threads()
    ids = ids_of(model)[0]
    expected = {size: logits_in_pieces(model, ids, size) for size in (1, 4, COUNT)}
    try:
        for threads in (2, 3, 5, 2):
            torch.set_num_threads(threads)
            for size, logits in expected.items():
                assert logits_in_pieces(model, ids, size).equal(logits), threads
    finally:
        torch.set_num_threads(before)


def test_threads_wait_or_sleep_between_passes() -> None:
    """At once, or after longer than they stay awake, by as many as there were or others."""
    product = matrix(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))
    x = torch.linspace(-1, 1, 64)[None]
    expected = product(x)
    for number in range(3000):
        with with_threads(2 + number // 10 % 3):
            assert product(x).equal(expected)
        if number % 7 == 0:
            time.sleep(1e-4)


@pytest.mark.skipif("avx2" not in runnable, reason="this machine has no AVX2")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_avx2_and_avx512_give_the_same_bits(
    dtype: torch.dtype, instructions: pytest.MonkeyPatch
) -> None:
    """So a run goes on elsewhere with the same tokens; with the instruction for bfloat16 too."""
    found = []
    for set_ in runnable[:-1]:
        use(instructions, set_)
        model = tiny(dtype)
        found.append(logits_in_pieces(model, ids_of(model)[0], 4))
    assert all(logits.equal(found[0]) for logits in found)


@pytest.mark.native
@pytest.mark.parametrize("set_", runnable)
@torch.inference_mode()
def test_bfloat16_products_are_of_rounded_inputs(
    set_: str, instructions: pytest.MonkeyPatch
) -> None:
    """Of 37 inputs, an odd number; halves go to the even one; what is no number stays none."""
    use(instructions, set_)
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(37, 70, generator=generator).bfloat16()
    x = torch.randn(5, 37, generator=generator)
    x[0, :2] = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8])  # each half way between two
    x[4, 36] = torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)  # not a number
    made = matrix(weight)
    assert library.kernel_name() in {"native-avx512", "native-avx2", "native-portable"}
    assert made.dense().equal(weight)
    out = made(x)
    expected = x[:4].bfloat16().double() @ weight.double()
    torch.testing.assert_close(out[:4].double(), expected, rtol=0, atol=1e-5)
    assert out[4].isnan().all()


def in_8_bits(weight: Tensor, x: Tensor) -> Tensor:
    """The product by its definition: integers, exact in float64, and a scale on either side."""
    scale = weight.abs().amax(0) / 127
    most = min(32767, (2**31 - 1) // (127 * len(weight)))
    step = (x.abs().amax(1, keepdim=True) / torch.tensor(float(most))).clamp(min=2.0**-126)
    whole = (x / step).round().double() @ (weight / scale).round().double()
    return whole.float() * (scale * step)


@pytest.mark.native
@pytest.mark.parametrize("set_", runnable)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 70), (37, 70), (64, 96), (1100, 70)])
@torch.inference_mode()
def test_8_bit_products_are_of_integers(
    inputs: int, outputs: int, set_: str, instructions: pytest.MonkeyPatch
) -> None:
    """Bit for bit the definition's, whatever the rows; the largest sums there are do not overflow.

    Near the exact product; rows of zeros and of what is no number as they should be.
    """
    use(instructions, set_)
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(inputs, outputs, generator=generator)
    weight[:, 3], weight[:, 4] = 1, torch.tensor(-2.0)
    x = torch.randn(13, inputs, generator=generator)
    x[1], x[2] = 1, -3.5
    made, bias = matrix(weight, dtype=torch.int8), torch.randn(outputs, generator=generator)
    expected = in_8_bits(weight, x)
    for rows, threads in ((1, 1), (2, 2), (5, 1), (6, 3), (8, 1), (9, 1), (13, 1)):
        with with_threads(threads):
            assert made(x[:rows]).equal(expected[:rows]), rows
    assert matrix(weight, bias, torch.int8)(x).equal(expected + bias)
    assert made.nbytes == weight.numel() + 4 * outputs
    exact = x.double() @ made.dense().double()
    torch.testing.assert_close(made(x).double(), exact, rtol=1e-3, atol=1e-3 * exact.abs().max())
    torch.testing.assert_close(made.dense(), weight, rtol=0, atol=weight.abs().max().item() / 254)
    assert made.to(torch.float32).dense().equal(made.dense())

    tiny = torch.full((inputs,), -1e-38)
    out = made(torch.stack([torch.zeros(inputs), x[0] / 0, x[0], tiny]))
    assert out[0].equal(torch.zeros(outputs))
    assert out[1].isnan().all()
    assert out[2].equal(expected[0])
    assert out[3].equal(in_8_bits(weight, tiny[None])[0])


@pytest.mark.native
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("set_", runnable)
def test_a_product_of_no_rows_writes_nothing(
    dtype: torch.dtype, set_: str, instructions: pytest.MonkeyPatch
) -> None:
    """As the last layer's are for the first pieces of a long prompt."""
    use(instructions, set_)
    made = matrix(torch.randn(37, 70), dtype=dtype)
    assert isinstance(made, Packed)
    x, out = torch.ones(1, 37), torch.zeros(1, 70)
    fed = ctypes.byref(made.linear), x.data_ptr()
    step = library.library()
    assert step is not None
    step.sst_product(*fed, 0, out.data_ptr(), 1)
    assert not out.any()
    step.sst_product(*fed, 1, out.data_ptr(), 1)
    assert out.equal(made(x))
    assert out.any()
    assert made(x[:0]).shape == (0, 70)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("set_", runnable)
@torch.inference_mode()
def test_the_native_step_equals_its_reference(
    name: str, set_: str, instructions: pytest.MonkeyPatch
) -> None:
    """To 1e-4; in bfloat16 torch rounds all activations, the native step what products read."""
    use(instructions, set_)
    native = MODELS[name]()
    with computing(Kernels.torch):
        reference = MODELS[name]()
    cache = reference.cache(1, 8)
    assert isinstance(getattr(cache, "keys_values", cache), KVCache)
    ids = ids_of(native)[0]
    ours, theirs = (logits_in_pieces(model, ids, 4) for model in (native, reference))
    assert theirs.abs().max() > 1
    tolerance = 0.25 if "bfloat16" in name else 1e-4
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.native
@torch.inference_mode()
def test_a_long_prompt_in_pieces_gives_the_same_bits() -> None:
    """Of more than 256 positions; steps behind it too."""
    model = build(state(0))
    ids = torch.randint(0, model.vocab_size - 4, (301,), generator=torch.Generator().manual_seed(1))
    cache, other = model.cache(1, 310), model.cache(1, 310)
    whole = model.extend(ids[None], cache, torch.tensor([0]))[0]
    halves = [
        model.extend(ids[None, s], other, torch.tensor([s.start]))[0]
        for s in (slice(0, 7), slice(7, 200), slice(200, 301))
    ]
    assert whole.equal(torch.cat(halves))
    caches = [cache, other]
    for keep in (60, 1):  # from both pieces, of the second alone
        caches.append(model.cache(1, 310))
        kept = model.extend(ids[None], caches[-1], torch.tensor([0]), keep=keep)[0]
        assert kept.equal(whole[-keep:])
    after = [model.extend(ids[None, :2], c, torch.tensor([301])) for c in caches]
    assert all(logits.equal(after[0]) for logits in after[1:])


@torch.inference_mode()
def test_a_row_that_the_cache_cannot_hold_is_a_defect() -> None:
    model = build(state(0))
    cache = model.cache(1, 16)
    with pytest.raises(AssertionError, match="cache of 16 positions cannot hold 17"):
        model.extend(torch.tensor([[1, 2]]), cache, torch.tensor([15]))


@torch.inference_mode()
def test_a_child_after_a_fork_has_threads_of_its_own() -> None:
    """The parent's threads do not exist in a child: waiting for them would never end."""
    script = (
        "import os, torch; from speculative_tts.models.decoder.matrix import matrix\n"
        "torch.set_num_threads(2); m = matrix(torch.ones(64, 64)); x = torch.ones(1, 64)\n"
        "first = m(x); child = os.fork()\n"
        "if not child: os._exit(0 if m(x).equal(first) else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
