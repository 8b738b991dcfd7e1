"""Load a target for training heads: its trunk, and its own head cut to speech ids."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from speculative_tts.models.families.registry import VALLE, family_of, load_layout
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.families.valle.ar import ValleAR
from speculative_tts.models.families.valle.checkpoint import load_valle, save_valle
from speculative_tts.models.families.valle.nar import ValleNAR
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.training.checkpoint import (
    build_model,
    read_checkpoint,
    refuse_talker,
    write_draft,
)
from speculative_tts.training.data.pairs import IGNORED, first_code


@dataclass(frozen=True)
class TrainableTrunk:
    """A target's trunk and its own head, which has a row for each speech id among others."""

    model: nn.Module  # all parameters of trunk and head
    hidden: Callable[[Tensor], Tensor]  # ids [batch, length] -> hidden states [batch, length, dim]
    head: nn.Linear
    rows: slice | Tensor  # of the head, by speech id
    stop_id: int
    export: Callable[[Path, dict[str, Any]], None]  # writes the trained target, with its settings
    nar: ValleNAR | None = None  # of a VALL-E

    def own(self, hidden: Tensor) -> Tensor:
        """Return the own head's logits over speech ids."""
        return nn.functional.linear(hidden, self.weight, self.bias)

    @property
    def transformer(self) -> PreTrainedModel:
        """The model, where it is one of transformers'; ValueError where not."""
        if not isinstance(self.model, PreTrainedModel):
            raise ValueError(
                "gradient_checkpointing=true needs a model of transformers, this is a VALL-E; "
                "leave it out, and lower joint.frames if memory is short"
            )
        return self.model

    @property
    def weight(self) -> Tensor:
        """The head's speech rows: [vocab, hidden]."""
        return self.head.weight[self.rows]

    @property
    def embedding(self) -> Tensor:
        """Embeddings of speech ids: [vocab, hidden]; ValueError for a target without a table."""
        if not isinstance(self.model, PreTrainedModel):
            raise ValueError(
                "a VALL-E is not fed rows of an embedding alone, as kind=recurrent needs; "
                "give kind=linear or kind=residual"
            )
        table: Any = self.model.get_input_embeddings()
        rows: Tensor = table.weight[self.rows]
        return rows

    @property
    def bias(self) -> Tensor | None:
        """The head's bias at the speech rows, if it has one."""
        bias: Tensor | None = self.head.bias
        return None if bias is None else bias[self.rows]

    def speech_ids(self, targets: Tensor) -> Tensor:
        """Return the targets of a batch as speech ids, IGNORED where nothing is learnt."""
        if isinstance(self.rows, slice):
            return targets
        ids = torch.full((self.head.out_features,), IGNORED)
        ids[self.rows] = torch.arange(len(self.rows))
        return torch.where(
            targets == IGNORED, IGNORED, ids.to(targets.device)[targets.clamp(min=0)]
        )


def load_trunk(config: CheckpointConfig, dtype: torch.dtype = torch.float32) -> TrainableTrunk:
    """Load the trunk of a target of any family; `dtype` is of transformers' models."""
    target = Path(config.path)
    layout, family = load_layout(config), family_of(target)
    if isinstance(layout, RowLayout):
        return _transformers(target, dtype, layout.order(text_rows=False), *layout.stop_ids)
    refuse_talker(layout, target)
    assert isinstance(layout, SpeechLayout)
    if family is VALLE:
        return _valle(target, layout)
    return _transformers(target, dtype, slice(layout.speech_vocab_size), layout.eos_id)


def _transformers(
    target: Path, dtype: torch.dtype, rows: slice | Tensor, stop_id: int
) -> TrainableTrunk:
    source, tensors = read_checkpoint(target)
    model: Any = build_model(source, tensors, dtype)

    def hidden(ids: Tensor) -> Tensor:
        states: Tensor = model.model(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def export(folder: Path, settings: dict[str, Any]) -> None:
        trained = {
            name: value.to(tensors[name].dtype)
            for name, value in model.state_dict().items()
            if name in tensors
        }
        about = {"heads": settings, "layers": list(range(source["num_hidden_layers"]))}
        write_draft(folder, target, source, tensors | trained, about)

    return TrainableTrunk(model, hidden, model.get_output_embeddings(), rows, stop_id, export)


def _valle(target: Path, layout: SpeechLayout) -> TrainableTrunk:
    """Load the AR of a VALL-E; `export` also writes the NAR in its state at that time."""
    valle, begin = load_valle(target), first_code(layout)
    ar = valle.ar
    if ar.config.prepend_bos:
        raise ValueError(
            f"{target} begins audio with an id of its own; heads are trained of VALL-E "
            "checkpoints without prepend_bos"
        )

    def export(folder: Path, settings: dict[str, Any]) -> None:  # noqa: ARG001 - heads.json has them
        ar.cpu()
        valle.nar.cpu()
        save_valle(valle, folder)
        layout.save(folder)

    rows = slice(layout.speech_vocab_size)
    hidden = partial(hidden_states, ar, begin=begin)
    nar = valle.nar if valle.config.quantizers > 1 else None
    return TrainableTrunk(ar, hidden, ar.ar_predict_layer, rows, layout.eos_id, export, nar)


def hidden_states(ar: ValleAR, ids: Tensor, begin: int) -> Tensor:
    """Return the final hidden states of ids [batch, length] whose code 0 is `begin`; zero at text.

    The result is [batch, length, dim].
    """
    is_code, is_text = ids >= begin, (ids >= 0) & (ids < begin)
    texts, codes = (
        [row[mask] for row, mask in zip(ids, masks, strict=True)] for masks in (is_text, is_code)
    )
    text = pad_sequence(texts, batch_first=True)
    audio = pad_sequence([row - begin for row in codes], batch_first=True)

    def is_padding(rows: list[Tensor], width: int) -> Tensor:
        lengths = torch.tensor([len(row) for row in rows], device=ids.device)
        return torch.arange(width, device=ids.device) >= lengths[:, None]

    silent = is_padding(codes, audio.shape[1])
    states = ar.hidden(text, audio, is_padding(texts, text.shape[1]), silent)
    out = states.new_zeros(*ids.shape, states.shape[-1])
    out[is_code] = states[~silent]
    return out
