"""Replace the official CosyVoice's `llm.inference`: same arguments, same tokens, faster.

    model = AutoModel(model_dir="CosyVoice2-0.5B")  # the official class
    ours = Inference.load("CosyVoice2-0.5B", "draft", device="cuda")
    model.model.llm.inference = ours
    model.model.llm.inference_bistream = ours.bistream  # if text is streamed

Nothing else of the official pipeline changes. Tokens come as they are accepted, so that streamed
audio begins as early as before. With beta 0 their distribution is the official sampler's.
The pipeline's fp16=True is an autocast around this call, which has no effect here: `dtype` decides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.graphs import EAGER, LoopSpec
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import failure
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.integrations.bistream import bistream, seeded
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.merged_vocab import MergedVocabLM

T = TypeVar("T")
UNUSED = {  # arguments of the official calls that change no token here
    *("text_len", "prompt_text_len", "prompt_speech_token_len", "embedding", "sampling", "uuid"),
    *("max_token_text_ratio", "min_token_text_ratio"),
}


@dataclass(frozen=True)
class Inference:
    """A callable with the official generator's keywords; autoregressive without a draft.

    Each call has its own random numbers, counted from `seed`.
    """

    target: MergedVocabLM
    draft: MergedVocabLM | None
    rule: AcceptanceRule
    sampler: RepetitionAware
    lookahead: int = 3
    seed: int = 0
    calls: Iterator[int] = field(default_factory=count)

    @staticmethod
    def load(
        target: str | Path,
        draft: str | Path | None = None,
        *,
        beta: float = 0.0,
        lookahead: int = 3,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> "Inference":
        """Load checkpoint folders; ValueError for folders that are not CosyVoice's."""
        models = []
        for folder in (Path(path) for path in (target, draft) if path is not None):
            if not cosyvoice.found(folder):
                raise ValueError(f"{folder} is no CosyVoice folder; looked for {cosyvoice.FILES}")
            models.append(cosyvoice.load(folder, dtype=dtype, device=torch.device(device)))
        layout = models[0].layout
        assert isinstance(layout, cosyvoice.CosyVoiceLayout)
        if len(models) > 1 and layout.shared != models[1].layout.shared:
            raise ValueError(
                f"{draft} has other speech ids than {target}; train the draft from this target"
            )
        options = layout.sampling
        sampler = RepetitionAware(
            top_k=int(options["top_k"]),
            top_p=options["top_p"],
            window=int(options["ras_window"]),
            tau=options["ras_tau"],
            barred=layout.barred_ids,
        )
        small = models[1] if len(models) > 1 else None
        return Inference(models[0], small, Tolerance(beta), sampler, lookahead, seed)

    @property
    def layout(self) -> cosyvoice.CosyVoiceLayout:
        """The layout of the target's ids."""
        layout = self.target.layout
        assert isinstance(layout, cosyvoice.CosyVoiceLayout)
        return layout

    def __call__(
        self,
        text: Tensor,
        *,
        prompt_text: Tensor,
        prompt_speech_token: Tensor,
        max_token_text_ratio: float = 20,
        min_token_text_ratio: float = 2,
        **others: object,
    ) -> Iterator[int]:
        """Yield the speech codes of one utterance as they are accepted, without the stop id.

        text, prompt_text, prompt_speech_token: ids [1, n]. `others` are unused arguments of the
        official call. Raises ValueError for a CosyVoice 3 text without an end of prompt.
        """
        _check_unused(others)
        length = text.shape[1]
        if int(length * max_token_text_ratio) < 1:
            return
        ids = [*_ids(prompt_text), *_ids(text)]
        self.layout.check_text(ids)
        rows = [self.layout.text_offset + id_ for id_ in ids]
        rows = [self.layout.sos_id, *rows, self.layout.task_id, *_ids(prompt_speech_token)]
        row = torch.tensor(rows)
        request = Request(
            id=f"call {next(self.calls)}",
            prompt=self.target.embed(row.to(self.target.device)),
            draft_prompt=None
            if self.draft is None
            else self.draft.embed(row.to(self.draft.device)),
            min_tokens=int(length * min_token_text_ratio),
            max_tokens=int(length * max_token_text_ratio),
            seed=self.seed,
        )
        sent = 0
        for state in self._as_loaded(self._states(request)):
            new = state.tokens[0, sent : int(state.count[0])].tolist()
            sent += len(new)
            yield from (token for token in new if token < self.layout.n_codes)
            if self.target.vocab_size in new:
                raise ValueError(failure(request.id, sent - 1))

    def _states(self, request: Request) -> Iterator[BatchState]:
        stops = self.layout.stop_ids
        if self.draft is None:
            looping: LoopSpec[Any] = alone(self.target, stops, self.sampler)
        else:
            pair = (self.target, LMDrafter(self.draft))
            made = Speculation(*pair, self.rule, self.sampler, stops, self.lookahead)
            looping = made.looping()
        return (loop.rows for loop in EAGER.states(looping, [request]))

    def bistream(
        self,
        text: Iterable[Tensor],
        *,
        prompt_text: Tensor,
        prompt_speech_token: Tensor,
        **others: object,
    ) -> Iterator[int]:
        """Yield speech codes while text [1, n] arrives in pieces; by the target alone."""
        _check_unused(others)
        return self._as_loaded(
            bistream(
                self.target,
                self.layout,
                self.sampler,
                (_ids(piece) for piece in text),
                _ids(prompt_text),
                _ids(prompt_speech_token),
                seeded(self.seed + next(self.calls)),
            )
        )

    def _as_loaded(self, work: Iterator[T]) -> Iterator[T]:
        """Run each step of `work` in the weights' dtype, whatever autocast its caller has on.

        Switched off within a step only: between steps the caller's code runs.
        """
        while True:
            with torch.autocast(self.target.device.type, enabled=False):
                try:
                    item = next(work)
                except StopIteration:
                    return
            yield item


def _check_unused(others: dict[str, object]) -> None:
    if unknown := others.keys() - UNUSED:
        raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")


def _ids(tensor: Tensor) -> list[int]:
    return [int(id_) for id_ in tensor.flatten().tolist()]
