"""VALL-E beside its official classes (golden files), and its cache beside full recomputation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from valle_golden import SMALL, small_valle

from speculative_tts.checks.valle import check, text_ids, variants
from speculative_tts.models import host
from speculative_tts.models.families.valle import official
from speculative_tts.models.families.valle.checkpoint import Valle, load_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.families.valle.modules import SinePosition, sine_table
from speculative_tts.models.families.valle.nar import draw_prefix
from speculative_tts.models.families.valle.text import Symbols

pytestmark = pytest.mark.usefixtures("kernels")

GOLDEN = Path(__file__).parents[2] / "golden" / "valle"
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "ar_main.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def lm(kernels: str) -> ValleLM:
    return ValleLM.load(GOLDEN / "ar_checkpoint.pt")


def decode(
    lm: ValleLM, golden: dict[str, np.ndarray], start: str, draw: official.Sampler
) -> official.Decoded:
    return official.decode(
        lm, golden[f"{start}x"][0].tolist(), golden[f"{start}y"][0, :, 0].tolist(), draw
    )


def test_at_full_size_it_has_the_official_tensors() -> None:
    with torch.device("meta"):
        valle = Valle.build(ValleConfig())
    assert len(valle.state()) == 372
    sizes = [sum(p.numel() for p in model.parameters()) for model in (valle.ar, valle.nar)]
    assert [round(size / 1e6, 2) for size in sizes] == [153.78, 213.61]


def test_greedy_decoding_ends_where_the_official_one_does(
    lm: ValleLM, golden: dict[str, np.ndarray]
) -> None:
    decoded = decode(lm, golden, "", official.sampler(1, 1.0))
    assert decoded.codes.tolist() == golden["greedy_codes_prefix1"][0, :, 0].tolist()
    assert np.abs(decoded.hidden.numpy() - golden["greedy_ar_hidden"]).max() < TOLERANCE
    first = golden["greedy_ar_logits_first"]
    assert np.abs(decoded.logits[: len(first)].numpy() - first).max() < TOLERANCE
    assert int(decoded.logits[-1].argmax()) == lm.config.eos_id


def test_the_longest_sequence_has_sixteen_codes_a_text_id_and_one(
    lm: ValleLM, golden: dict[str, np.ndarray]
) -> None:
    decoded = decode(lm, golden, "maxlen_", official.sampler(1, 1.0))
    assert decoded.codes.tolist() == golden["maxlen_codes_prefix1"][0, :, 0].tolist()
    assert len(decoded.codes) == 16 * golden["maxlen_x"].shape[1] + 1


@pytest.mark.parametrize(
    ("name", "top_k", "temperature"), [("topk10_t09", 10, 0.9), ("full_t10", 0, 1)]
)
def test_sampling_repeats_the_official_draws(
    lm: ValleLM, golden: dict[str, np.ndarray], name: str, top_k: int, temperature: float
) -> None:
    draw = official.sampler(top_k, temperature, torch.Generator().manual_seed(1234))
    expected = golden[f"sampled_codes_{name}_seed1234"][0, :, 0]
    assert decode(lm, golden, "", draw).codes.tolist() == expected.tolist()


def test_filters_keep_ties(golden: dict[str, np.ndarray]) -> None:
    for name, top_k, top_p in (("topk4", 4, 1.0), ("topp07", 0, 0.7), ("topk5_topp08", 5, 0.8)):
        got = official.filtered(torch.from_numpy(golden["filter_in"]), top_k, top_p)
        assert np.array_equal(got.numpy(), golden[f"filter_{name}"])


@torch.no_grad()
def test_teacher_forcing_counts_padding_as_the_official_loss_does(
    golden: dict[str, np.ndarray],
) -> None:
    ar = load_valle(GOLDEN / "ar_checkpoint.pt").ar
    x, x_lens, y, y_lens = (
        torch.from_numpy(golden[f"tf_{name}"].astype(np.int64))
        for name in ("x", "x_lens", "y", "y_lens")
    )
    out = ar(x, x_lens, y[..., 0], y_lens)
    assert out.inputs.tolist() == golden["tf_ar_inputs"].tolist()
    assert out.targets.tolist() == golden["tf_ar_targets"].tolist()
    assert np.abs(out.hidden.numpy() - golden["tf_ar_hidden"]).max() < TOLERANCE
    assert float(out.loss()) == pytest.approx(float(golden["tf_ar_loss_sum"]), rel=1e-5)
    assert out.top10() * int(y_lens.sum()) == pytest.approx(float(golden["tf_ar_top10"]), abs=1e-5)


def test_uslm_equals_its_official_class() -> None:
    """All of the format: AR and NAR, teacher-forced and decoding, by the shipped loop too."""
    rows = list(check(GOLDEN.parent / "uslm"))
    assert len(rows) == 49
    assert [row for row in rows if not row.passed] == []


def test_variants_equal_the_official_classes() -> None:
    """BOS, prenets, norms behind, a narrow NAR; NAR codes of prefix modes 0 and 1."""
    rows = list(variants(GOLDEN))
    assert len(rows) == 12
    assert [row for row in rows if not row.passed] == []


def test_text_ids_equal_the_official_ones() -> None:
    assert [row for row in text_ids(GOLDEN) if not row.passed] == []
    with pytest.raises(ValueError, match="phonemes without an id: q, x; give the symbol table"):
        Symbols.of(["a"]).encode(["x", "a", "q"])


@torch.no_grad()
@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, prepend_bos=True, norm_first=False, add_prenet=True),
        replace(SMALL, heads=1),
    ],
)
def test_a_ragged_batch_with_rollback_equals_full_recomputation(config: ValleConfig) -> None:
    """Regression: with one head a step of two rows raised a RuntimeError (view of a sum)."""
    valle = small_valle(config)
    lm = ValleLM(valle.ar)
    texts, prompts, codes = (
        [[1, 5, 2], [1, 4, 6, 7, 2]],
        [[3, 1], [0, 9, 11, 4]],
        [[7, 2, 8, 5]] * 2,
    )
    merged = [lm.prompt(lm.merged(t, p)) for t, p in zip(texts, prompts, strict=True)]
    cache = lm.cache(2, 20)
    first = lm.prefill_hidden(merged, cache)
    start = torch.tensor([len(row) for row in merged])
    lm.extend_hidden(torch.tensor([[10, 10, 10]] * 2), cache, start)  # drafts that are rejected
    lm.extend(torch.tensor([row[:1] for row in codes]), cache, start)
    rest = torch.tensor([row[1:] for row in codes])
    hidden = lm.extend_hidden(rest, cache, start + 1)
    logits = lm.extend(rest[:, -1:], cache, start + 3, keep=1)
    for row, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
        audio = [config.bos_id] * config.prepend_bos + prompt + codes[row]
        expected = valle.ar.hidden(torch.tensor([text]), torch.tensor([audio]))[0]
        assert torch.allclose(first[row], expected[-5], atol=1e-5)
        assert torch.allclose(hidden[row], expected[-3:], atol=1e-5)
        last = valle.ar.ar_predict_layer(expected[-1])
        assert torch.allclose(logits[row, 0], last, atol=1e-5)


@torch.no_grad()
@pytest.mark.usefixtures("kernels")
def test_what_a_row_held_before_does_not_reach_the_next_in_it() -> None:
    """NaN behind a prompt would pass through the mask."""
    lm = ValleLM(small_valle().ar)
    prompt, cache = lm.prompt(lm.merged([1, 4, 6, 2], [0, 9, 11])), lm.cache(1, 20)
    start = torch.tensor([len(prompt)])

    def said() -> torch.Tensor:
        first = lm.prefill([prompt], cache)
        return torch.cat([first, *lm.extend(torch.tensor([[7, 2]]), cache, start)])

    with host.fixed():  # all positions are looked at, behind a mask
        expected = said()
        cache.keys_values.storage.fill_(float("nan"))
        assert torch.equal(said(), expected)


def test_a_step_reads_the_layers_and_the_head() -> None:
    ar = small_valle().ar
    read = [*ar.ar_decoder.parameters(), ar.ar_predict_layer.weight]
    assert ValleLM(ar).step_bytes == 4 * sum(p.numel() for p in read)


@torch.no_grad()
@pytest.mark.parametrize("prefix", [0, 3])
def test_the_nar_trains_on_what_it_infers(prefix: int) -> None:
    """Teacher-forced logits are inference's when the codes are inference's; padding is not seen."""
    nar = small_valle().nar
    text = torch.tensor([[1, 4, 2]])
    prompt, first = torch.tensor([[[1, 2, 3]]]).expand(1, prefix, 3), torch.tensor([[5, 6, 7, 8]])
    mode = 1 if prefix else 0
    codes = nar.infer(text, prompt, first, prefix_mode=mode)
    stages = list(nar.stage_logits(text, prompt, first, prefix_mode=mode))
    frames = torch.cat([prompt, codes, torch.zeros(1, 2, 3, dtype=torch.int64)], 1)
    padded_text = torch.nn.functional.pad(text, (0, 2))
    for stage, logits in enumerate(stages, 1):
        out = nar(padded_text, torch.tensor([3]), frames, torch.tensor([prefix + 4]), stage, prefix)
        assert torch.allclose(out.logits[:, :4], logits, atol=1e-5)
        nats = torch.nn.functional.cross_entropy(logits[0], codes[0, :, stage], reduction="sum")
        assert float(out.loss()) == pytest.approx(float(nats) * (prefix + 4) / 4, rel=1e-5)


def test_prefixes_are_a_quarter_to_half_of_the_shortest_row() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = {draw_prefix(torch.tensor([40, 99]), generator) for _ in range(200)}
    assert drawn == set(range(10, 20))
    assert draw_prefix(torch.tensor([3])) == 0
    assert draw_prefix(torch.tensor([2000]), longest=150) == 150


def test_training_moves_what_it_should_and_padding_may_be_left_out() -> None:
    valle = small_valle()
    ar, nar = valle.ar.train(), valle.nar.train()
    text, codes = torch.tensor([[1, 4, 2, 0]] * 2), torch.randint(0, 12, (2, 6, 3))
    lengths = (torch.tensor([3, 3]), torch.tensor([6, 6]))
    ar(text, lengths[0], codes[..., 0], lengths[1]).loss().backward()
    nar(text, lengths[0], codes, lengths[1], 2, 2).loss().backward()
    still = {n for n, p in [*ar.named_parameters(), *nar.named_parameters()] if p.grad is None}
    assert {"nar_text_position.alpha", "nar_audio_position.alpha"} <= still
    assert not {name for name in still if name.startswith("ar_")}
    ar.eval()
    with torch.no_grad():
        one = ar(text[:1], lengths[0][:1], codes[:1, :4, 0], torch.tensor([4]))
        padded = ar(text[:1], lengths[0][:1], codes[:1, :, 0], torch.tensor([4]))
    assert float(padded.loss()) > float(one.loss())
    assert torch.allclose(
        padded.loss(count_padding=False), one.loss(count_padding=False), rtol=1e-5
    )


def test_positions_are_added_in_float32_and_rounded_once() -> None:
    """In bfloat16 the sines had been rounded before they were scaled and added."""
    module = SinePosition(64, dropout=0.0, learned=True)
    torch.nn.init.constant_(module.alpha, 1.5)
    x = torch.randn(1, 500, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = x.float() + 1.5 * sine_table(500, 64, x.device)
    assert module.to(torch.bfloat16)(x).equal(exact.bfloat16())


def test_a_bfloat16_lm_keeps_its_positions_in_float32() -> None:
    lm = ValleLM(small_valle().ar, dtype=torch.bfloat16)
    assert lm.cache(1, 8).sines.dtype == torch.float32
    prompt = lm.prompt(lm.merged([1, 5, 2], [3, 4]))
    cache = lm.cache(1, 20)
    assert lm.prefill([prompt], cache).dtype == torch.float32
    assert lm.extend(torch.tensor([[7, 8]]), cache, torch.tensor([5])).shape[:2] == (1, 2)
