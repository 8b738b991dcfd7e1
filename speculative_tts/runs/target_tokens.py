"""Tokens of the target alone, decoded once for all runs that need them.

A run of the target needs them, and one of system=uncached, whose tokens are the same: in another
folder, over another part of the list, beside another draft. What is timed is decoded anew.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from speculative_tts.caches.store import key_of
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.files import held
from speculative_tts.native.library import kernel_label
from speculative_tts.provenance import content_hash, plain, source_hash
from speculative_tts.records import Appender, read_rows, to_row
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import RuntimeConfig, SamplingConfig

TOKENS = "tokens.jsonl"
Made = Iterable[tuple[Request, Outcome]]


@dataclass(frozen=True)
class _Row:
    key: str
    tokens: list[int]
    stopped: bool


class TargetTokens:
    """Outcomes by the content of their requests; `made_by` is all else that decides them."""

    def __init__(self, cache: Path, made_by: Mapping[str, Any]) -> None:
        self._folder = cache / f"target-{key_of(made_by)[:16]}"

    def outcomes(
        self, requests: list[Request], decode: Callable[[list[Request]], Made]
    ) -> Iterator[tuple[Request, Outcome]]:
        """Yield outcomes that are stored, then the others by `decode`, each stored at once.

        Nobody waits while they are: of two processes that want the same meanwhile, a copy of this
        one too, both decode them.
        """
        with held(self._folder):
            known = {row.key: row for row in self._rows()}
            appender = Appender(self._folder / TOKENS)
        try:
            new = []
            for request in requests:
                if row := known.get(key_of_request(request)):
                    yield request, Outcome(row.tokens, row.stopped)
                else:
                    new.append(request)
            for request, outcome in decode(new) if new else ():
                if not outcome.failure:
                    row = _Row(key_of_request(request), outcome.tokens, outcome.stopped)
                    with held(self._folder):
                        appender.append(to_row(row))
                yield request, outcome
        finally:
            appender.close()

    def _rows(self) -> Iterator[_Row]:
        path = self._folder / TOKENS
        return read_rows(path, _Row) if path.is_file() else iter(())


def key_of_request(request: Request) -> str:
    """Return the SHA-256 of all of a request that the target alone reads."""
    prompt = request.prompt.contiguous().cpu().view(torch.uint8)
    digest = hashlib.sha256(prompt.numpy().tobytes())
    numbers = (request.min_tokens, request.max_tokens, request.prompt_tokens)
    digest.update(repr((request.id, request.seed, *request.prompt.shape, *numbers)).encode())
    return digest.hexdigest()


def made_by(
    sampling: SamplingConfig, target: CheckpointConfig, runtime: RuntimeConfig
) -> dict[str, Any]:
    """Return all that decides a target's tokens besides requests, as the key of their store."""
    return {
        "target": content_hash(Path(target.path)),
        "rows": plain(target.rows),
        "sampler": plain(sampling),
        "dtype": runtime.dtype.name,
        "kernels": kernel_label(runtime),
        "code": source_hash("decoding", "models", "native"),
    }
