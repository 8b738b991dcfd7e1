"""Which family of speech LM a folder holds, and how it is read: the one place that knows them all.

Everything above speaks *speech ids*: 0 .. n_codes - 1 are codec codes, then come stop ids, then
(where text rows may be emitted) the other rows. A family is recognised by the files it has.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from speculative_tts.models import cosyvoice, llasa
from speculative_tts.models.layout import FILE, SpeechLayout
from speculative_tts.models.loading import stored_rows
from speculative_tts.models.merged_vocab import MergedVocabLM
from speculative_tts.models.valle.checkpoint import MODEL_TYPE
from speculative_tts.models.valle.layout import read_layout
from speculative_tts.models.valle.lm import ValleLM, valle_code_embedding
from speculative_tts.models.valle.refine import ValleRefiner
from speculative_tts.schema import CheckpointConfig


class Layout(Protocol):
    """Facts about a checkpoint's ids, its prompt and the sampler it was made for."""

    @property
    def n_codes(self) -> int:
        """Size of the codec's codebook."""
        ...

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Speech ids that end an utterance."""
        ...

    @property
    def speech_vocab_size(self) -> int:
        """Codes and stop ids."""
        ...

    @property
    def sampling(self) -> dict[str, float]:
        """The checkpoint's own sampler: keys of a SamplingConfig."""
        ...

    @property
    def shared(self) -> dict[str, object]:
        """What a draft must have in common with its target, by name."""
        ...

    def width(self, *, text_rows: bool) -> int:
        """Ids that the head has: all that can be emitted."""
        ...

    def order(self, *, text_rows: bool) -> Tensor:
        """Row of the checkpoint's vocabulary of each id: int64 [width]."""
        ...

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Ids of the texts. Raises ValueError for a text that cannot be spoken."""
        ...

    def prompt_ids(self, text: str, prompt_text: str, prompt_codes: Iterable[int]) -> list[int]:
        """All before the first new token, as rows of the checkpoint's vocabulary."""
        ...

    def limits(
        self, text: str, prompt_length: int, minimum: float, maximum: float
    ) -> tuple[int, int]:
        """Fewest and most new tokens for a text; minimum and maximum are per word (or text id).

        `prompt_length` is the prompt's, in positions.
        """
        ...


class SpeechLM(Protocol):
    """A loaded speech LM of any family; a `decoding.batch.Model` with its prompt."""

    @property
    def layout(self) -> Layout:
        """Facts about ids and prompt."""
        ...

    @property
    def vocab_size(self) -> int:
        """Speech ids, stop ids included."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that a step reads."""
        ...

    def prompt(self, text: str, prompt_text: str, prompt_codes: Tensor) -> Tensor:
        """The embedded prompt, [length, hidden]."""
        ...

    def prompt_ids(self, text: str, prompt_text: str, prompt_codes: Tensor) -> list[int]:
        """The prompt as rows of the checkpoint's vocabulary."""
        ...

    def speech_ids(self, rows: list[int]) -> list[int]:
        """Speech ids of those rows of a prompt that have one."""
        ...

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """A prompt, as `prefill` reads it, with speech ids [new] behind."""
        ...

    def cache(self, batch: int, capacity: int) -> Any:
        """Storage for `batch` rows of up to `capacity` positions."""
        ...

    def prefill(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """Run the prompts; logits of the first token, [batch, vocab]."""
        ...

    def extend(self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None) -> Tensor:
        """Feed ids [batch, new] at positions start [batch]; logits of the last `keep` of them."""
        ...

    def prefill_hidden(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """`prefill` without the head: final hidden states, [batch, hidden]."""
        ...

    def extend_hidden(
        self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """`extend` without the head: final hidden states, [batch, keep, hidden]."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """The head: float32 logits over speech ids of final hidden states [..., hidden]."""
        ...


class Refiner(Protocol):
    """Makes all layers of codes from the first, which is what the LM emits."""

    @property
    def n_layers(self) -> int:
        """Layers of codes that come out."""
        ...

    def __call__(
        self, text: str, prompt_text: str, prompt_codes: Tensor, first: list[int]
    ) -> Tensor:
        """Codes [layers, tokens] for a prompt of codes [layers, prompt]."""
        ...


@dataclass(frozen=True)
class Family:
    """How checkpoints of one family are recognised and read; functions get config.path resolved.

    `load` takes dtype, device and text_rows (may rows that are no speech id be emitted) as
    keywords. `code_embedding` gives stored input embeddings of all codes, [n_codes, hidden].
    `refiner` loads what fills further layers of codes, where a family has it.
    """

    name: str
    files: str  # what a folder of this family has, for messages
    found: Callable[[Path], bool]
    layout: Callable[[CheckpointConfig], Layout]
    load: Callable[..., SpeechLM]
    code_embedding: Callable[[CheckpointConfig], Tensor]
    refiner: Callable[..., Refiner] | None = None


def _tiny_layout(config: CheckpointConfig) -> SpeechLayout:
    return SpeechLayout.from_folder(Path(config.path))


def _load_tiny(config: CheckpointConfig, **options: Any) -> MergedVocabLM:
    return MergedVocabLM.load(
        Path(config.path), dtype=options["dtype"], device=options["device"]
    )  # its head has speech rows only, whatever text_rows


def _tiny_code_embedding(config: CheckpointConfig) -> Tensor:
    return stored_rows(Path(config.path), _tiny_layout(config).n_codes)


def _valle_layout(config: CheckpointConfig) -> SpeechLayout:
    return read_layout(Path(config.path))


def _load_valle(config: CheckpointConfig, **options: Any) -> ValleLM:
    return ValleLM.load(Path(config.path), dtype=options["dtype"], device=options["device"])


def _model_type(folder: Path) -> str | None:
    """What config.json says, if there is one that says anything."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config.get("model_type") if isinstance(config, dict) else None


TINY = Family(
    "tiny",
    f"config.json, model.safetensors and {FILE}",
    lambda folder: (folder / FILE).is_file(),
    _tiny_layout,
    _load_tiny,
    _tiny_code_embedding,
)
COSYVOICE = Family(
    "cosyvoice",
    f"{cosyvoice.FILES}; or a tokenizer with <|s_0|>, <|sos|> and <|task_id|>",
    cosyvoice.found,
    lambda config: cosyvoice.read_layout(Path(config.path)).instructed(config.instruction),
    lambda config, dtype, device, text_rows: cosyvoice.load(  # noqa: ARG005 - speech rows only
        Path(config.path), dtype=dtype, device=device, instruction=config.instruction
    ),
    lambda config: cosyvoice.code_embedding(Path(config.path)),
)
ROWS = Family(
    "code rows (LLaSA, NeuTTS)",
    llasa.FILES,
    llasa.found,
    llasa.read_layout,
    llasa.load,
    llasa.code_embedding,
)
VALLE = Family(
    "VALL-E",
    f"config.json of model_type {MODEL_TYPE}, model.safetensors and {FILE} "
    "(sst-import-valle makes them of an official .pt file)",
    lambda folder: _model_type(folder) == MODEL_TYPE,
    _valle_layout,
    _load_valle,
    lambda config: valle_code_embedding(Path(config.path)),
    lambda config, **options: ValleRefiner.load(Path(config.path), **options),
)
FAMILIES = (VALLE, TINY, COSYVOICE, ROWS)


def family_of(folder: Path) -> Family:
    """The family of a checkpoint folder; ValueError says what was looked for."""
    if not folder.is_dir():
        raise ValueError(
            f"checkpoint folder {folder} not found; "
            "give target.path=<folder> or draft.path=<folder>"
        )
    for family in FAMILIES:
        if family.found(folder):
            return family
    wanted = "; ".join(f"{family.name}: {family.files}" for family in FAMILIES)
    raise ValueError(f"{folder} holds no speech LM known here; looked for {wanted}")


def load_layout(config: CheckpointConfig) -> Layout:
    """Facts about a checkpoint's ids, without its weights."""
    return family_of(Path(config.path)).layout(config)


def load_speech_lm(
    config: CheckpointConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    text_rows: bool = False,
) -> SpeechLM:
    """The speech LM in the folder config.path; ValueError says what is wrong with it."""
    family = family_of(Path(config.path))
    return family.load(config, dtype=dtype, device=device, text_rows=text_rows)


def load_refiner(
    config: CheckpointConfig, *, dtype: torch.dtype, device: torch.device
) -> Refiner | None:
    """What fills further layers of codes; None for a family whose codec has one layer."""
    load = family_of(Path(config.path)).refiner
    return None if load is None else load(config, dtype=dtype, device=device)


def code_embedding(config: CheckpointConfig) -> Tensor:
    """Input embeddings of all codes as they are stored: [n_codes, hidden]."""
    return family_of(Path(config.path)).code_embedding(config)
