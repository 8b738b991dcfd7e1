"""Slow references: sampling, the autoregressive law and the law of a tolerance rule, by recursion
over plain floats.

Written from the formulas, not from the package, so that both being wrong alike is unlikely.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import torch
from stubs import Markov

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.speech_lm import SpeechLM
from speculative_tts.schema.decode import Repetition

Law = dict[tuple[int, ...], float]
# Of a target's and a draft's law: of emitting each token accepted, and drawn after a rejection.
Masses = Callable[[list[float], list[float]], tuple[list[float], list[float]]]
END = -1  # the token of a place behind the end


def probabilities(
    logits: list[float], sampler: Sampler, output: tuple[int, ...] = ()
) -> list[float]:
    """Temperature, top-k, top-p, in this order, and repetition-aware sampling after `output`;
    float64. Impossible logits are -inf.
    """
    top = max(logits)
    if sampler.temperature == 0:
        return [float(index == logits.index(top)) for index in range(len(logits))]
    weights = [math.exp((x - top) / sampler.temperature) for x in logits]
    order = sorted(range(len(logits)), key=lambda index: -weights[index])
    order = order[: sampler.top_k or None]
    aware = isinstance(sampler, RepetitionAware)  # whose top-p counts what top-k drops
    total = sum(weights) if aware else sum(weights[index] for index in order)
    kept, before = [], 0.0
    for index in order:
        if before < sampler.top_p:
            kept.append(index)
        before += weights[index] / total
    total = sum(weights[index] for index in kept)
    law = [weights[i] / total if i in kept else 0.0 for i in range(len(logits))]
    if isinstance(sampler, RepetitionAware):
        return repetition_aware(law, weights, sampler, output)
    return law


def repetition_aware(
    law: list[float], weights: list[float], sampler: RepetitionAware, output: tuple[int, ...]
) -> list[float]:
    """Draw y from the law; if y is frequent in the last tokens, draw again from all ids, in the
    current version without y. By both draws, one after the other.
    """
    recent = output[-sampler.window :]
    out = [0.0] * len(law)
    for first, chance in enumerate(law):
        if recent.count(first) < sampler.window * sampler.tau:
            out[first] += chance
            continue
        without = first if sampler.variant is Repetition.current else None
        again = [0.0 if x == without else weight for x, weight in enumerate(weights)]
        for second, weight in enumerate(again):
            out[second] += chance * weight / math.fsum(again)
    return out


def in_slot(logits: list[float], sampler: Sampler, position: int) -> list[float]:
    """Logits of the ids that a position of a frame may hold, -inf for the others."""
    if sampler.slots is None:
        return logits
    sizes = sampler.slots.sizes
    slot, codes = position % len(sizes), sum(sizes)
    begin = sum(sizes[:slot])
    allowed = {*range(begin, begin + sizes[slot])}
    if slot == 0 or sampler.slots.end_in_frame:
        allowed |= {*range(codes, len(logits))}
    return [x if id_ in allowed else -math.inf for id_, x in enumerate(logits)]


class Chain:
    """Laws of one model after any output of one request."""

    def __init__(
        self, model: Markov, sampler: Sampler, stops: tuple[int, ...], request: Request
    ) -> None:
        self._table = model.table.double().tolist()
        self._sampler, self._stops = sampler, stops
        self._minimum = request.min_tokens
        self._prompt = tuple(int(x) for x in request.prompt[:, 0])

    def logits(self, output: tuple[int, ...]) -> list[float]:
        before, last = (self._prompt + output)[-2:]
        return list(self._table[before][last])

    def next(self, output: tuple[int, ...]) -> list[float]:
        logits = self.logits(output)
        if isinstance(self._sampler, RepetitionPenalty):
            for token in {*output}:
                factor = self._sampler.penalty ** (1 if logits[token] < 0 else -1)
                logits[token] *= factor
        if len(output) < self._minimum:
            for stop in self._stops:
                logits[stop] = -math.inf
        logits = in_slot(logits, self._sampler, len(output))
        best = logits.index(max(logits))
        if self._sampler.end_when_likeliest and best in self._stops:
            return [float(token == best) for token in range(len(logits))]
        return probabilities(logits, self._sampler, output)


class Passes(Chain):
    """Laws of a decoder, each by a pass over all that comes before."""

    def __init__(
        self, model: SpeechLM, sampler: Sampler, stops: tuple[int, ...], request: Request
    ) -> None:
        self._model, self._start = model, request.prompt
        self._sampler, self._stops, self._minimum = sampler, stops, request.min_tokens

    @torch.inference_mode()
    def logits(self, output: tuple[int, ...]) -> list[float]:
        whole = self._model.append(self._start, torch.tensor(output, dtype=torch.int64))
        found = self._model.prefill([whole], self._model.cache(1, len(whole)))
        return found[0].double().tolist()


def autoregressive_law(
    model: Markov, sampler: Sampler, stops: tuple[int, ...], request: Request
) -> Law:
    """Probability of every complete output."""
    return law_of(Chain(model, sampler, stops, request), stops, request.max_tokens)


def law_of(chain: Chain, stops: tuple[int, ...], limit: int) -> Law:
    """Probability of every complete output of at most `limit` tokens."""
    return dict(_grow((), 1.0, chain, stops, limit))


def _grow(
    output: tuple[int, ...], mass: float, chain: Chain, stops: tuple[int, ...], limit: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    for token, chance in enumerate(chain.next(output)):
        if chance > 0:
            longer = (*output, token)
            if token in stops or len(longer) == limit:
                yield longer, mass * chance
            else:
                yield from _grow(longer, mass * chance, chain, stops, limit)


def speculative_law(
    target: Markov,
    draft: Markov,
    masses: Masses,
    lookahead: int,
    sampler: Sampler,
    stops: tuple[int, ...],
    request: Request,
) -> Law:
    """Law of the outputs of speculation by a rule that looks at one token after the other."""
    q = Chain(target, sampler, stops, request)
    p = Chain(draft, sampler, stops, request)
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)

    def emit(output: tuple[int, ...], mass: float, room: int) -> None:
        """`room` tokens may still be drafted in this round; 0 means the bonus token is next."""
        if mass == 0:
            return
        if output and (output[-1] in stops or len(output) == request.max_tokens):
            law[output] += mass
            return
        fresh = max(min(lookahead, request.max_tokens - len(output) - 2), 0)  # next round's room
        accepted, drawn = [0.0] * target.vocab_size, q.next(output)
        if room > 0:
            accepted, drawn = masses(drawn, p.next(output))
        for token, (passes, fails) in enumerate(zip(accepted, drawn, strict=True)):
            emit((*output, token), mass * passes, room - 1)
            emit((*output, token), mass * fails, fresh)

    emit((), 1.0, 0)
    return dict(law)


def tolerance_masses(
    beta: float, q: list[float], p: list[float]
) -> tuple[list[float], list[float]]:
    """Probabilities of emitting each token as an accepted draft, and as a residual token.

    A drafted x passes with a(x) = min(1, min(1, q/p) + beta).
    """
    accepted = [
        y * min(1.0, min(1.0, x / y) + beta) if y > 0 else 0.0 for x, y in zip(q, p, strict=True)
    ]
    rejected = 1 - math.fsum(accepted)
    residual = [max(x - y, 0.0) for x, y in zip(q, p, strict=True)]
    if rejected < 1e-15:
        return accepted, [0.0] * len(q)
    return accepted, [rejected * r / math.fsum(residual) for r in residual]


def marginal(law: Law, places: tuple[int, ...]) -> Law:
    """Joint law of the tokens at some places of the output; END where it is shorter."""
    out: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for tokens, mass in law.items():
        out[at(tokens, places)] += mass
    return dict(out)


def at(tokens: tuple[int, ...] | list[int], places: tuple[int, ...]) -> tuple[int, ...]:
    """Tokens at some places, END behind the end."""
    return tuple(tokens[place] if place < len(tokens) else END for place in places)
