"""CosyVoice 2 and 3: their checkpoints as a merged vocabulary, their ids, limits and sampler.

Two layouts are read. The official folder has llm.pt (a flat state dict of `Qwen2LM`, also as it
comes from training with `epoch` and `step` in it), CosyVoice-BlankEN/ (configuration and tokenizer
of the backbone; its weights are another model's and are not read) and cosyvoice2.yaml (sampler). A
Hugging Face folder has text and speech in one vocabulary and names speech rows <|s_0|> and so on
(examples/grpo of the official repository). Both become rows in the order: speech ids, text ids,
and for CosyVoice 2 <sos> and <task>, which CosyVoice 3 keeps among its speech rows.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import (
    EMBEDDING,
    HEAD,
    State,
    head_of,
    read_config,
    read_state,
)
from speculative_tts.models.families.cosyvoice_files import (
    Version,
    is_merged,
    is_official,
    merged_ids,
    official_state,
    read_settings,
    version_of,
)
from speculative_tts.models.families.cosyvoice_text import END_OF_PROMPT, TextTokenizer
from speculative_tts.models.families.merged_vocab import BIAS, MergedVocabLM
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.typed import read_json

BACKBONE = "CosyVoice-BlankEN"
FILES = f"llm.pt (or llm.safetensors) and {BACKBONE}/"


@dataclass(frozen=True)
class CosyVoiceLayout(SpeechLayout):
    """Layout of a CosyVoice checkpoint's ids; text limits are per text id, not per word."""

    version: int = 2
    end_id: int = 0  # end of speech
    fill_id: int = 0  # "more text, please", where text and speech alternate
    mix_ratio: tuple[int, int] = (5, 15)  # text ids and speech ids of a block there
    barred_ids: tuple[int, ...] = ()  # impossible before the minimum length; others are not
    tokenizer: TextTokenizer | None = field(default=None, compare=False, repr=False)
    instruction: str = ""  # before every prompt's text that has no end of prompt

    def instructed(self, instruction: str | None) -> "CosyVoiceLayout":
        """This layout with an instruction, CosyVoice 3's. ValueError where it does not fit."""
        if instruction is None:
            return self
        if self.version != 3:
            raise ValueError(
                f"target.instruction {instruction!r} is for CosyVoice 3, the target is CosyVoice "
                f"{self.version}; leave it out"
            )
        if not instruction.endswith(END_OF_PROMPT):
            raise ValueError(
                f"target.instruction {instruction!r} does not end with {END_OF_PROMPT}; add it"
            )
        return replace(self, instruction=instruction)

    @property
    def eos_id(self) -> int:
        """End of speech."""
        return self.end_id

    @property
    def shared(self) -> dict[str, object]:
        """Facts that a draft must share with its target."""
        return super().shared | {"CosyVoice version": self.version}

    def encode(self, text: str) -> list[int]:
        """Ids of the text tokenizer, special tokens such as [laughter] included."""
        assert self.tokenizer is not None
        return self.tokenizer.ids(text)

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Rows of the prompt's text and then the text. ValueError when there is nothing to say."""
        own = self.encode(text)
        if not own:
            raise ValueError("the text is empty; give something to say")
        if END_OF_PROMPT not in prompt_text + text:
            prompt_text = self.instruction + prompt_text
        ids = self.encode(prompt_text) + own if prompt_text else own
        self.check_text(ids)
        return [self.text_offset + id_ for id_ in ids]

    @property
    def end_of_prompt(self) -> int:
        """Text id that ends an instruction."""
        assert self.tokenizer is not None
        return self.tokenizer.id_of(END_OF_PROMPT)

    def check_text(self, ids: list[int]) -> None:
        """CosyVoice 3 wants an end of prompt among its text ids; ValueError says so."""
        if self.version == 3 and self.end_of_prompt not in ids:
            raise ValueError(
                f"no {END_OF_PROMPT} in the text of a CosyVoice 3 model; give "
                f"target.instruction='You are a helpful assistant.{END_OF_PROMPT}', as "
                "target=cosyvoice3 does"
            )

    def text_length(self, text: str) -> int:
        """Text ids of a text, without its prompt's."""
        return len(self.encode(text))


@dataclass(frozen=True)
class Checkpoint:
    """A CosyVoice checkpoint as a merged-vocabulary one: config.json, state dict, what ids mean.

    The state dict has Hugging Face's names; `lm_head` has rows for speech ids only.
    """

    config: dict[str, Any]
    state: State
    layout: CosyVoiceLayout


def found(folder: Path) -> bool:
    """True if this folder is a CosyVoice checkpoint, official or merged."""
    return is_official(folder) or is_merged(folder)


def read_layout(folder: Path) -> CosyVoiceLayout:
    """Read the layout without reading weights. ValueError says what is missing."""
    if not is_official(folder):
        return _merged_layout(folder, merged_ids(folder))
    version, state = _official(folder)
    return _official_layout(folder, version, state)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Configuration, weights and layout. ValueError when files are missing or do not fit."""
    return _read_official(folder) if is_official(folder) else _read_merged(folder)


def load(
    folder: Path, *, dtype: torch.dtype, device: torch.device, instruction: str | None = None
) -> MergedVocabLM:
    """The speech LM of a folder, in the native decoder."""
    checkpoint = read_checkpoint(folder)
    config, layout = DecoderConfig.from_dict(checkpoint.config), checkpoint.layout
    layout = layout.instructed(instruction)
    return MergedVocabLM.of(
        config, checkpoint.state, layout, dtype=dtype, device=device, where=folder
    )


def code_embedding(folder: Path) -> Tensor:
    """Stored input embeddings of all codes: [n_codes, hidden]."""
    if not is_official(folder):
        merged = _read_merged(folder)
        return merged.state[EMBEDDING][: merged.layout.n_codes].contiguous()
    version, state = _official(folder)
    table = state["speech_embedding.weight"]
    return table[: len(table) - version.extra].contiguous()


def _official(folder: Path) -> tuple[Version, State]:
    state = official_state(folder)
    return version_of(folder, state), state


def _read_official(folder: Path) -> Checkpoint:
    version, state = _official(folder)
    config = read_json(_backbone(folder))
    _check_layers(folder, DecoderConfig.from_dict(config, _backbone(folder)).layers, state)
    rows = [state["speech_embedding.weight"], state["llm.model.model.embed_tokens.weight"]]
    if version.number == 2:
        rows.append(state["llm_embedding.weight"])
    own = "llm.model.model."
    merged = {
        "model." + name.removeprefix(own): tensor
        for name, tensor in state.items()
        if name.startswith(own) and name != f"{own}embed_tokens.weight"
    }
    merged[EMBEDDING] = torch.cat([table.to(rows[0].dtype) for table in rows])
    merged[HEAD] = state["llm_decoder.weight"]
    if version.number == 2:
        merged[BIAS] = state["llm_decoder.bias"]
    config |= {"vocab_size": len(merged[EMBEDDING]), "tie_word_embeddings": False}
    return Checkpoint(config, merged, _official_layout(folder, version, state))


def _backbone(folder: Path) -> Path:
    path = folder / BACKBONE / "config.json"
    if not path.is_file():
        raise ValueError(
            f"no {BACKBONE}/config.json in {folder}; looked for {FILES}; copy that folder from "
            "the released model (its model.safetensors is not needed)"
        )
    return path


def _check_layers(folder: Path, layers: int, state: State) -> None:
    numbers = {m[1] for name in state if (m := re.search(r"\.layers\.(\d+)\.", name))}
    if len(numbers) != layers:
        raise ValueError(
            f"llm of {folder} has {len(numbers)} layers, its {BACKBONE}/config.json says {layers}; "
            "they do not belong together"
        )


def _official_layout(folder: Path, version: Version, state: State) -> CosyVoiceLayout:
    _backbone(folder)
    speech = len(state["speech_embedding.weight"])
    text = len(state["llm.model.model.embed_tokens.weight"])
    tokenizer = TextTokenizer(folder / BACKBONE, version.special)
    return _layout(folder, version, speech, text, tokenizer)


def _layout(
    folder: Path, version: Version, speech: int, text: int, tokenizer: TextTokenizer
) -> CosyVoiceLayout:
    """`speech` and `text` are numbers of rows."""
    codes = speech - version.extra
    settings = read_settings(folder)
    marks = (speech + text, speech + text + 1) if version.number == 2 else (codes, codes + 2)
    return CosyVoiceLayout(
        n_codes=codes,
        stop_ids=tuple(range(codes, speech)),
        speech_vocab_size=speech,
        text_offset=speech,
        words=(),
        sos_id=marks[0],
        task_id=marks[1],
        token_rate=settings.token_rate,
        sample_rate=settings.sample_rate,
        sampling=settings.sampling,
        version=version.number,
        end_id=codes + version.eos,
        fill_id=codes + version.fill,
        mix_ratio=settings.mix_ratio,
        barred_ids=(codes,),  # of CosyVoice 3 too, whose end of speech is the next id
        tokenizer=tokenizer,
    )


def _merged_layout(folder: Path, ids: tuple[Version, Tensor, int]) -> CosyVoiceLayout:
    version, rows, text = ids
    marks = 2 if version.number == 2 else 0
    return _layout(folder, version, len(rows) - text - marks, text, TextTokenizer(folder, ()))


def _read_merged(folder: Path) -> Checkpoint:
    """Rows of the one vocabulary brought into our order; the head cut to its speech rows."""
    ids = merged_ids(folder)
    layout = _merged_layout(folder, ids)
    config = read_config(folder)
    state, rows = read_state(folder), ids[1]
    head = head_of(DecoderConfig.from_dict(config, folder / "config.json"), state, folder)
    size = min(len(head), len(state.get(EMBEDDING, head[:0])))
    if int(rows.max()) >= size:
        raise ValueError(
            f"the tokenizer of {folder} has token {int(rows.max())}, its weights {size} rows; "
            "they do not belong together"
        )
    speech = rows[: layout.speech_vocab_size]
    merged = {**state, EMBEDDING: state[EMBEDDING][rows], HEAD: head[speech]}
    if BIAS in state:
        merged[BIAS] = state[BIAS][speech]
    config |= {"vocab_size": len(rows), "tie_word_embeddings": False}
    return Checkpoint(config, merged, layout)


def with_layers(model: MergedVocabLM, layers: list[int]) -> MergedVocabLM:
    """A draft of some of a model's layers, untrained; it shares the model's memory."""
    return MergedVocabLM(model.decoder.some(layers), model.layout, model.embedding, model.head)
