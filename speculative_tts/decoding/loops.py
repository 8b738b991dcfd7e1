"""The two decoding loops: autoregressive, and speculative (draft, verify, accept, append).

Both keep the newest token out of the cache; `start` of an `extend` is where it goes, so a rejected
draft is rolled back by starting lower. Batches are ragged: every row has its own number of tokens.
"""

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from speculative_tts.decoding.acceptance import AcceptanceRule, verify
from speculative_tts.decoding.batch import Model, Request, Rows
from speculative_tts.decoding.observer import Observer
from speculative_tts.decoding.outcome import Outcome, Round, outcomes
from speculative_tts.decoding.randomness import ACCEPT, AUXILIARY, DRAFT, NEXT, draw
from speculative_tts.decoding.sampling import Sampler


def autoregressive(
    model: Model, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """One token a step.

    The baseline of every speedup, and with the draft as the model the "draft alone" row.
    """
    if not requests:
        return []
    (rows,) = deque(steps(model, stop_ids, sampler, requests), maxlen=1)
    return outcomes(rows, [], 0)


@torch.inference_mode()
def steps(
    model: Model, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> Iterator[Rows]:
    """The rows after each token; the same object each time."""
    rows = Rows(requests, stop_ids, model.vocab_size, slack=0)
    prompts = [r.prompt for r in requests]
    lengths = _lengths(prompts)
    cache = model.cache(len(prompts), int(lengths.max()) + rows.capacity)
    none = torch.zeros_like(rows.count)
    logits = model.prefill(prompts, cache)[:, None]
    while True:
        positions = rows.positions(1)
        probs = sampler(logits, rows.tokens, positions, rows.stop)
        rows.emit(none, draw(probs, rows.uniform(positions, NEXT))[:, 0])
        yield rows
        if rows.finished:
            return
        logits = model.extend(rows.last(1), cache, lengths + rows.count - 1)


def speculative(
    target: Model,
    draft: Model,
    rule: AcceptanceRule,
    stop_ids: tuple[int, ...],
    sampler: Sampler,
    lookahead: int,
    requests: list[Request],
    observer: Observer | None = None,
) -> list[Outcome]:
    """Rounds of `lookahead` drafted tokens, one target pass over them, and the rule.

    Sources: Leviathan et al., 2023; with a tolerance SSD (Lin et al., 2025).
    """
    if not requests:
        return []
    every = rounds_of(target, draft, rule, stop_ids, sampler, lookahead, requests, observer)
    ((rows, rounds),) = deque(every, maxlen=1)
    return outcomes(rows, rounds, lookahead)


@torch.inference_mode()
def rounds_of(
    target: Model,
    draft: Model,
    rule: AcceptanceRule,
    stop_ids: tuple[int, ...],
    sampler: Sampler,
    lookahead: int,
    requests: list[Request],
    observer: Observer | None = None,
) -> Iterator[tuple[Rows, list[Round]]]:
    """Rows and rounds after the first token and after each round; the same objects each time."""
    watch = observer or Observer()
    rows = Rows(requests, stop_ids, target.vocab_size, slack=lookahead)
    prompts = [r.prompt for r in requests]
    draft_prompts = [r.prompt if r.draft_prompt is None else r.draft_prompt for r in requests]
    lengths, draft_lengths = _lengths(prompts), _lengths(draft_prompts)
    cache = target.cache(len(prompts), int(lengths.max()) + rows.capacity)
    draft_cache = draft.cache(len(prompts), int(draft_lengths.max()) + rows.capacity)

    positions = rows.positions(1)
    probs = sampler(target.prefill(prompts, cache)[:, None], rows.tokens, positions, rows.stop)
    draft.prefill(draft_prompts, draft_cache)
    rows.emit(torch.zeros_like(rows.count), draw(probs, rows.uniform(positions, NEXT))[:, 0])

    rounds: list[Round] = []
    behind = 1  # tokens the draft has not seen
    yield rows, rounds
    while not rows.finished:
        with watch.section("draft"):
            drafted, draft_probs = _draft(
                draft, draft_cache, draft_lengths, rows, sampler, lookahead, behind
            )
        number = draft_probs.shape[1]
        with watch.section("verify"):
            logits = target.extend(rows.window(-1, number + 1), cache, lengths + rows.count - 1)
            positions = rows.positions(number + 1)
            target_probs = sampler(logits, rows.tokens, positions, rows.stop)
        with watch.section("accept"):
            random = torch.stack(
                [rows.uniform(positions[:, :number], which) for which in (ACCEPT, AUXILIARY)], -1
            )
            verdict = verify(
                rule, target_probs, draft_probs, rows.window(0, number), drafted, random
            )
            end = (rows.count + verdict.accepted)[:, None]
            token = draw(verdict.next_probs, rows.uniform(end, NEXT)[:, 0])
            active, before = ~rows.done, rows.count
            rows.emit(verdict.accepted, token)
            bare = rows.count - before == verdict.accepted
            behind = _behind(active & (verdict.accepted == drafted))
        rounds.append(Round(active, drafted, verdict.accepted, verdict.fallback, bare))
        watch.verified(target_probs[:, :number], draft_probs, rounds[-1])
        yield rows, rounds


def _draft(
    draft: Model,
    cache: object,
    lengths: Tensor,
    rows: Rows,
    sampler: Sampler,
    lookahead: int,
    behind: int,
) -> tuple[Tensor, Tensor]:
    """Draft into `rows.tokens`.

    Returns how many tokens count per row [batch] and their laws [batch, drafted, vocab].

    The first step feeds the last `behind` tokens of every row. Drafting stops at a stop id and
    before the length limit, where the token after the accepted ones must still fit.
    """
    room = torch.where(rows.done, 0, rows.limit - rows.count - 1)
    drafted = room.clamp(min=0, max=lookahead)
    most = _most(drafted, lookahead)
    ids, start = rows.last(behind), lengths + rows.count - behind
    positions = rows.positions(lookahead)
    laws: list[Tensor] = []
    while len(laws) < most:
        position = positions[:, len(laws), None]
        logits = draft.extend(ids.clamp(max=draft.vocab_size - 1), cache, start, keep=1)
        law = sampler(logits, rows.tokens, position, rows.stop)
        start = start + ids.shape[1]
        ids = draw(law, rows.uniform(position, DRAFT))
        rows.tokens.scatter_(1, position, ids)
        laws.append(law)
        stopped = rows.ends[ids[:, 0]]
        if stopped.device.type != "cpu" or stopped.any():
            drafted = torch.where(stopped, drafted.clamp(max=len(laws)), drafted)
            most = _most(drafted, lookahead)
    empty = torch.zeros(len(rows.count), 0, draft.vocab_size, device=drafted.device)
    return drafted, torch.cat(laws, 1) if laws else empty


def _most(drafted: Tensor, lookahead: int) -> int:
    """Draft steps that some row needs; on a GPU always all, where looking would wait."""
    return lookahead if drafted.device.type != "cpu" else int(drafted.max())


def _behind(full: Tensor) -> int:
    """Tokens the draft must be fed first: 2 when it has not seen its own last one in some row.

    That is after full acceptance ([batch]); on a GPU always, where looking would wait.
    """
    return 2 if full.device.type != "cpu" or bool(full.any()) else 1


def _lengths(prompts: list[Tensor]) -> Tensor:
    return torch.tensor([len(p) for p in prompts], device=prompts[0].device)
