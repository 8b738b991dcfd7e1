"""Registry of speech LM families: recognise the family of a folder, and read it.

Everything above speaks *speech ids*: 0 .. n_codes - 1 are codec codes, then come stop ids, then
(where text rows may be emitted) the other rows. A family is recognised by the files it has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.assets import require
from speculative_tts.models.decoder.loading import stored_rows
from speculative_tts.models.decoder.weight_files import refuse_adapter
from speculative_tts.models.families import code_rows, cosyvoice
from speculative_tts.models.families.csm import config as csm
from speculative_tts.models.families.csm.layout import CsmLayout
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.families.csm.lm import code_embedding as csm_code_embedding
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.families.valle.checkpoint import MODEL_TYPE
from speculative_tts.models.families.valle.layout import read_layout
from speculative_tts.models.families.valle.lm import ValleLM, valle_code_embedding
from speculative_tts.models.families.valle.refine import ValleRefiner
from speculative_tts.models.layout import FILE
from speculative_tts.models.phones import read_layout as read_speech
from speculative_tts.models.speech_lm import Layout, Refiner, SpeechLM
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.typed import read_json


@dataclass(frozen=True)
class Family:
    """A family's functions to recognise and read a checkpoint in the folder config.path.

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


def _model_type(folder: Path) -> str | None:
    """Read config.json; empty if there is none or it says nothing."""
    try:
        return read_json(folder / "config.json").get("model_type")
    except ValueError:
        return None


TINY = Family(
    "tiny",
    f"config.json, model.safetensors and {FILE}",
    lambda folder: (folder / FILE).is_file(),
    lambda config: read_speech(Path(config.path)),
    lambda config, dtype, device, text_rows: MergedVocabLM.load(  # noqa: ARG005 - speech rows only
        Path(config.path), dtype=dtype, device=device
    ),
    lambda config: stored_rows(Path(config.path), read_speech(Path(config.path)).n_codes),
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
    code_rows.FILES,
    code_rows.found,
    lambda config: RowLayout.read(Path(config.path), config.rows),
    code_rows.RowLM.load,
    code_rows.code_embedding,
)
VALLE = Family(
    "VALL-E",
    f"config.json of model_type {MODEL_TYPE}, model.safetensors and {FILE} "
    "(sst-import-valle makes them of an official .pt file)",
    lambda folder: _model_type(folder) == MODEL_TYPE,
    lambda config: read_layout(Path(config.path)),
    lambda config, dtype, device, text_rows: ValleLM.load(  # noqa: ARG005 - speech rows only
        Path(config.path), dtype=dtype, device=device
    ),
    lambda config: valle_code_embedding(Path(config.path)),
    lambda config, **options: ValleRefiner.load(Path(config.path), **options),
)
CSM = Family(
    "CSM",
    csm.FILES,
    lambda folder: _model_type(folder) == csm.MODEL_TYPE,
    lambda config: CsmLayout.read(Path(config.path)),
    lambda config, dtype, device, text_rows: CsmLM.load(config, dtype=dtype, device=device),  # noqa: ARG005 - text is never emitted
    csm_code_embedding,
)
FAMILIES = (VALLE, CSM, TINY, COSYVOICE, ROWS)


def family_of(folder: Path) -> Family:
    """The family of a checkpoint folder; ValueError says what was looked for."""
    for family in FAMILIES:
        if family.found(require(folder)):
            return family
    refuse_adapter(folder)
    wanted = "; ".join(f"{family.name}: {family.files}" for family in FAMILIES)
    raise ValueError(f"{folder} holds no speech LM known here; looked for {wanted}")


def load_layout(config: CheckpointConfig) -> Layout:
    """Facts about a checkpoint's ids, without its weights."""
    return family_of(Path(config.path)).layout(config)


def load_speech_lm(
    config: CheckpointConfig, *, dtype: torch.dtype, device: torch.device, text_rows: bool = False
) -> SpeechLM:
    """The speech LM in the folder config.path; ValueError says what is wrong with it."""
    family = family_of(Path(config.path))
    return family.load(config, dtype=dtype, device=device, text_rows=text_rows)


def load_refiner(
    config: CheckpointConfig, *, dtype: torch.dtype, device: torch.device
) -> Refiner | None:
    """Load the model of further layers of codes; None for a family whose codec has one."""
    load = family_of(Path(config.path)).refiner
    return None if load is None else load(config, dtype=dtype, device=device)


def code_embedding(config: CheckpointConfig) -> Tensor:
    """Input embeddings of all codes as they are stored: [n_codes, hidden]."""
    return family_of(Path(config.path)).code_embedding(config)
