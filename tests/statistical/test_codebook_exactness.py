"""Speculation over the codes of a frame follows the talker, whose law transformers computes.

A CSM of 6 codebooks of 2 codes, small enough to enumerate: a whole frame and four codes of the next
one, or an end. n = 2,500 utterances, 600 of a control that decodes for itself; 8 chi-squares of
false-alarm rate 1e-9 each. Seeds are fixed.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from csm_folders import save, talker
from goodness import mismatches
from reference import Law
from torch import Tensor
from transformers import CsmForConditionalGeneration, TopPLogitsWarper

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.drafters.codebooks import CodebooksDrafter, CodebooksDrafting
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.codebook_offsets import CodebookOffsets
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig

N, FEW, BOOKS, CODES, LIMIT, LOOKAHEAD = 2_500, 600, 6, 2, 10, 3
PLACES = ((0, 1, 2, 3, 4, 5), (1, 2), (2, 3), (3, 4), (5, 6), (6, 7, 8, 9), (1, 8), (2, 9))
TEXT = "Nine boats."


@pytest.fixture(scope="module")
def official() -> CsmForConditionalGeneration:
    return talker(BOOKS, CODES, seed=6, scale=0.45)


@pytest.fixture(scope="module")
def target(
    official: CsmForConditionalGeneration, tmp_path_factory: pytest.TempPathFactory
) -> CsmLM:
    return load(save(tmp_path_factory.mktemp("target"), official))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> CsmLM:
    return load(save(tmp_path_factory.mktemp("draft"), talker(BOOKS, CODES, seed=7, scale=0.45)))


@pytest.fixture(scope="module")
def law(official: CsmForConditionalGeneration, target: CsmLM) -> Law:
    return law_of(official, target)


def law_of(official: CsmForConditionalGeneration, target: CsmLM, top_p: float = 1.0) -> Law:
    """Return every output's probability, of transformers' two models in float64.

    A frame that ends the speech has code 0 in all codebooks but the last.
    """
    rows = target.prompt_ids(Prompt(TEXT))
    frames = torch.tensor([*product(range(CODES), repeat=BOOKS)])
    model, found = official.double(), {}
    with torch.no_grad():
        prompt = model.embed_text_tokens(torch.tensor([rows]))
        first = framed(model, prompt, frames, top_p)
        sums = model.backbone_model.embed_tokens(frames[:, None])
        for frame, chance, fed in zip(frames.tolist(), first.tolist(), sums, strict=True):
            said = tuple(code + CODES * book for book, code in enumerate(frame))
            if not any(frame[:-1]):
                ended = (*said[:-1], BOOKS * CODES)
                found[ended] = found.get(ended, 0.0) + chance
                continue
            second = framed(model, torch.cat([prompt, fed[None]], 1), frames, top_p)
            for more, after in zip(frames.tolist(), second.tolist(), strict=True):
                ids = tuple(code + CODES * book for book, code in enumerate(more))
                whole = (*said, *ids)[:LIMIT]
                found[whole] = found.get(whole, 0.0) + chance * after
    official.float()
    assert sum(found.values()) == pytest.approx(1, abs=1e-9)
    return found


def framed(
    model: CsmForConditionalGeneration, inputs: Tensor, frames: Tensor, top_p: float
) -> Tensor:
    """Return the probability of each frame after these inputs of the backbone."""
    hidden = model.backbone_model(inputs_embeds=inputs).last_hidden_state[:, -1]
    within = torch.nn.functional.pad(frames[:, :-1], (1, 0))
    states = hidden.expand(len(frames), -1)
    depth = model.depth_decoder(input_ids=within, backbone_last_hidden_state=states).logits
    logits = torch.cat([model.lm_head(states)[:, None], depth], 1)
    if top_p < 1:
        flat = logits.reshape(-1, logits.shape[-1])
        logits = TopPLogitsWarper(top_p)(frames, flat).view(logits.shape)
    return logits.log_softmax(-1).gather(-1, frames[..., None])[..., 0].sum(1).exp()


def load(folder: Path) -> CsmLM:
    given = CheckpointConfig(name="csm", path=str(folder))
    model = load_speech_lm(given, dtype=torch.float32, device=torch.device("cpu"))
    assert isinstance(model, CsmLM)
    return model


def steps(target: CsmLM) -> CodebookOffsets:
    """Return random steps that make a draft that is sometimes right."""
    hidden, generator = target.depth.config.hidden, torch.Generator().manual_seed(4)
    shapes = (LOOKAHEAD, 12, 2 * hidden), (LOOKAHEAD, BOOKS, 12), (LOOKAHEAD, hidden, 12)
    return CodebookOffsets(*(0.5 * torch.randn(shape, generator=generator) for shape in shapes))


def requests(target: CsmLM, number: int = N) -> list[Request]:
    prompt = target.prompt(target.prompt_ids(Prompt(TEXT)))
    return [Request(f"utterance {row}", prompt, None, 0, LIMIT, 0) for row in range(number)]


def drafted(
    target: CsmLM, drafter: Drafter, number: int = N, beta: float = 0.0, top_p: float = 1.0
) -> list[Outcome]:
    sampler = Sampler(1.0, top_p=top_p, slots=target.layout.slots)
    stops = target.layout.stop_ids
    made = Speculation(target, drafter, Tolerance(beta), sampler, stops, LOOKAHEAD)
    return made.decode(requests(target, number))


def test_the_talker_alone_follows_transformers(target: CsmLM, law: Law) -> None:
    """8 comparisons."""
    sampler = Sampler(1.0, slots=target.layout.slots)
    found = autoregressive(target, target.layout.stop_ids, sampler, requests(target))
    assert any(outcome.stopped for outcome in found)
    assert mismatches(found, law, PLACES) == []


DRAFTERS: dict[str, Callable[[CsmLM, CsmLM], Drafter]] = {
    "frozen heads": lambda target, _: CodebooksDrafter(target),
    "heads with offsets": lambda target, _: CodebooksDrafter(target, steps(target)),
    "another talker, across frames": lambda _, draft: LMDrafter(draft),
}


@pytest.mark.parametrize("name", DRAFTERS)
def test_verified_codes_follow_the_talker(name: str, target: CsmLM, draft: CsmLM, law: Law) -> None:
    """8 comparisons; as a control a tolerance of 0.4 is another law."""
    made = DRAFTERS[name](target, draft)
    found = drafted(target, made)
    accepted, tried = (
        sum(getattr(o.counts, which) for o in found) for which in ("accepted", "drafted")
    )
    assert 0.2 < accepted / tried < 0.95
    assert max(sum(o.counts.drafted_per_position[2:]) for o in found) > 0
    assert mismatches(found, law, PLACES) == []
    assert mismatches(drafted(target, made, FEW, beta=0.4), law, PLACES)


def test_a_talkers_nucleus_is_followed(
    official: CsmForConditionalGeneration, target: CsmLM, law: Law
) -> None:
    """Codes outside a nucleus of 0.7 are never said; as a control the whole law is another.

    Of two codes top-k leaves one or both: its chi-squares are those of one stream's samplers.
    """
    found = drafted(target, CodebooksDrafter(target, steps(target)), top_p=0.7)
    assert mismatches(found, law_of(official, target, top_p=0.7), PLACES) == []
    assert mismatches(found, law, PLACES)


def test_a_law_of_the_wrong_heads_is_found(
    target: CsmLM, law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: the rule is told what the heads say without the offsets they drew with."""
    real = CodebooksDrafting.propose

    def propose(
        self: CodebooksDrafting, rows: BatchState, sampler: Sampler, lookahead: int
    ) -> tuple[Tensor, Tensor]:
        lengths, _ = real(self, rows, sampler, lookahead)
        plain, before = CodebooksDrafting(CodebooksDrafter(target)), rows.tokens.clone()
        plain.hidden = self.hidden
        _, others = real(plain, rows, sampler, lookahead)
        rows.tokens.copy_(before)
        return lengths, others

    monkeypatch.setattr(CodebooksDrafting, "propose", propose)
    assert mismatches(drafted(target, CodebooksDrafter(target, steps(target)), FEW), law, PLACES)
