"""CSM as the decoding loops see it: a stream of codes, one position a codebook of a frame.

The backbone is fed a frame, as the sum of its codes' embeddings, and says the first code of the
next. The depth decoder says the others: its positions are the backbone's state, then the frame's
codes so far; each codebook has a head of its own. So a frame costs one pass of the backbone and one
of the depth decoder for every further code, unless several are verified at once.

A state is the hidden state that a code is drawn from, padded to one width, and in its last place
which codebook it is of (`codebooks`: none, the speech has ended). It ends with a frame of which all
codes but the last are the end's, as transformers' generate has it; that frame is not spoken.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.models.decoder.cache import Cache
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import (
    State,
    build_decoder,
    read_state,
    stored_rows,
    tensor_of,
)
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.families.csm.config import TalkerConfig
from speculative_tts.models.families.csm.layout import CsmLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import FromStates
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.texts import some

BACKBONE, DEPTH, CODEC = "backbone_model.", "depth_decoder.model.", "codec_model."
HEAD, HEADS, TEXT = "lm_head.weight", "depth_decoder.codebooks_head.weight", "embed_text_tokens"
CODES = f"{BACKBONE}embed_tokens.embed_audio_tokens.weight"
WITHIN = f"{DEPTH}embed_tokens.weight"  # stored once where both decoders have one table
PROJECTION = f"{DEPTH}inputs_embeds_projector.weight"


@dataclass
class Talk:
    """One utterance's caches.

    Frames take the depth decoder's two rows in turn, so that a draft that runs into the next frame
    leaves what is cached of this one; the backbone's newest states lie beside them.
    """

    capacity: int
    prompt: int = field(init=False)  # positions of the backbone
    ids: Int64[Tensor, " fed"] = field(init=False)
    frames: Cache = field(init=False)
    within: tuple[Cache, Cache] = field(init=False)
    states: Float[Tensor, "2 hidden"] = field(init=False)

    def begin(self, model: "CsmLM", prompt: int) -> None:
        """Make room for a prompt of so many positions and the codes after it."""
        c = model.config
        self.prompt = prompt
        self.ids = torch.zeros(self.capacity, dtype=torch.int64)
        frames = prompt + 1 + (self.capacity - prompt) // c.codebooks
        self.frames = model.backbone.cache(1, min(frames, c.backbone.max_positions))
        both = model.depth.cache(2, c.codebooks)
        self.within = (both.row(0), both.row(1))
        self.states = torch.zeros(2, c.backbone.hidden)


@dataclass(frozen=True)
class TalkCache:
    """The caches of a batch."""

    talks: tuple[Talk, ...]

    def row(self, index: int) -> "TalkCache":
        """Return one row as a batch of 1 in the same tensors."""
        return TalkCache(self.talks[index : index + 1])


@dataclass(frozen=True)
class Weights:
    """The matrices beside both decoders' layers."""

    text: Float[Tensor, "rows hidden"]
    codes: Float[Tensor, "ids hidden"]  # of the backbone's frames
    within: Float[Tensor, "ids hidden"]  # of the codes that the depth decoder is fed
    project: Matrix  # from what it is fed to its width
    heads: tuple[Matrix, ...]  # of each codebook


class CsmLM(FromStates):
    """Feeds codes to both decoders; returns states, and logits over the codes of all codebooks.

    Rows are fed one after the other: each is at a codebook of its own.
    """

    def __init__(
        self, layout: CsmLayout, backbone: Decoder, depth: Decoder, weights: Weights
    ) -> None:
        self.layout, self.config = layout, layout.config
        self.backbone, self.depth, self.weights = backbone, depth, weights
        self.vocab_size, self.device = layout.speech_vocab_size, backbone.device
        self.width = max(backbone.config.hidden, depth.config.hidden)

    @classmethod
    def load(cls, config: CheckpointConfig, *, dtype: torch.dtype, device: torch.device) -> "CsmLM":
        """Load a folder as transformers writes it; ValueError says what does not fit."""
        if device.type != "cpu":
            raise ValueError(
                f"{config.path} is decoded on a CPU alone: its two decoders take turns that the "
                "host decides; give runtime.device=cpu"
            )
        folder = Path(config.path)
        layout, state = CsmLayout.read(folder), read_state(folder)
        state = {name: t for name, t in state.items() if not name.startswith(CODEC)}
        backbone, depth = (
            build_decoder(
                sizes, {name: t for name, t in state.items() if name.startswith(prefix)},
                dtype=dtype, device=device, prefix=prefix, others=(CODES, WITHIN, PROJECTION),
                where=folder,
            )
            for sizes, prefix in (
                (layout.config.backbone, BACKBONE),
                (layout.config.depth, DEPTH),
            )
        )  # fmt: skip
        weights = _weights(layout.config, state, dtype, folder)
        return cls(layout, backbone, depth, weights)

    @property
    def step_bytes(self) -> int:
        """Return the bytes of weights that a code costs: a frame's passes over its codes."""
        w, n = self.weights, self.config.codebooks

        def layers(decoder: Decoder) -> int:
            return sum(one.nbytes for layer in decoder.layers for one in layer.matrices())

        depth = (layers(self.depth) + w.project.nbytes) * (n - 1)
        return (layers(self.backbone) + depth + sum(head.nbytes for head in w.heads)) // n

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the prompt's rows; ValueError says why it cannot be spoken."""
        return self.layout.prompt_ids(prompt)

    def prompt(self, rows: list[int]) -> Float[Tensor, "length hidden"]:
        """Return the backbone's inputs of a prompt's rows."""
        c, inputs, at = self.config, [], 0
        ends = c.end + c.size * torch.arange(c.codebooks)
        while at < len(rows):
            if rows[at] >= c.text_rows:
                codes = torch.tensor(rows[at : at + c.codebooks]) - c.text_rows
                inputs.append(self.weights.codes[codes].sum(0))
                at += c.codebooks
                continue
            end = rows[at] == c.audio_end
            inputs.append(self.weights.codes[ends].sum(0) if end else self.weights.text[rows[at]])
            at += 1
        return torch.stack(inputs)

    def speech_ids(self, rows: list[int]) -> list[int]:
        """Return the codes among a prompt's rows."""
        return [row - self.config.text_rows for row in rows if row >= self.config.text_rows]

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:  # noqa: ARG002
        """Raise ValueError: a prompt is whole frames, and codes come one by one."""
        raise ValueError(
            "a target with a depth decoder is not decoded uncached; give method=target"
        )

    def cache(self, batch: int, capacity: int) -> TalkCache:
        """Return storage for `batch` rows of up to `capacity` positions, prompt and codes."""
        return TalkCache(tuple(Talk(capacity) for _ in range(batch)))

    def prefill_hidden(self, prompts: list[Tensor], cache: TalkCache) -> Tensor:
        """Run the prompts; return the states of the first code, [batch, width + 1]."""
        states = []
        for prompt, talk in zip(prompts, cache.talks, strict=True):
            talk.begin(self, len(prompt))
            states.append(self._said(talk, prompt, 0, 0))
        return torch.stack(states)

    def extend_hidden(
        self, ids: Tensor, cache: TalkCache, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed codes [batch, new] at positions start [batch]; return states [batch, keep, dim]."""
        rows = zip(cache.talks, ids, start.tolist(), strict=True)
        states = [self._fed(talk, codes, first - talk.prompt) for talk, codes, first in rows]
        return torch.stack(states)[:, -(keep or ids.shape[1]) :]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [..., vocab] of states: of its codebook's ids, -inf elsewhere."""
        c, flat = self.config, hidden.flatten(0, -2)
        out = torch.full((len(flat), self.vocab_size), -torch.inf)
        books = flat[:, -1].long()
        for book in sorted({*books.tolist()}):
            rows = books == book
            if book == c.codebooks:
                out[rows, self.layout.stop_ids[0]] = 0.0
                continue
            head = self.weights.heads[book]
            at = slice(book * c.size, (book + 1) * c.size)
            out[rows, at] = head.in_float32(flat[rows, : head.shape[0]].to(head.fed))
        return out.view(*hidden.shape[:-1], -1)

    def within(self, ids: Tensor) -> Tensor:
        """Return the depth decoder's inputs [..., hidden] of codes [...]."""
        fed = self.weights.project(F.embedding(ids.flatten(), self.weights.within))
        return fed.view(*ids.shape, -1)

    def _fed(self, talk: Talk, ids: Tensor, first: int) -> Tensor:
        """Feed codes [new] from output position `first` on; return a state after each."""
        c, end = self.config, first + len(ids)
        talk.ids[first:end] = ids.clamp(max=c.codes - 1)  # an end may be fed after a row's end
        states, at = [], first
        while at < end:
            frame, book = divmod(at, c.codebooks)
            last = (frame + 1) * c.codebooks - 1
            if at == last:
                codes = talk.ids[frame * c.codebooks : at + 1]
                fed = self.weights.codes[codes].sum(0, keepdim=True)
                states.append(self._said(talk, fed, talk.prompt + frame, frame + 1)[None])
                at += 1
            else:
                upto = min(end, last)
                states.append(self._deeper(talk, frame, book, upto - at))
                at = upto
        return torch.cat(states)

    def _said(self, talk: Talk, inputs: Tensor, start: int, frame: int) -> Tensor:
        """Run the backbone; return the state of a frame's first code, and keep it for the frame."""
        at = torch.tensor([start])
        hidden = self.backbone.extend(inputs[None], talk.frames, at, keep=1)[:, -1]
        talk.states[frame % 2] = hidden[0]
        return self._states(hidden, torch.zeros(1))[0]

    def _deeper(self, talk: Talk, frame: int, book: int, number: int) -> Tensor:
        """Feed `number` codes of a frame to the depth decoder, the first of them code `book`.

        Before code 0 it is fed the backbone's state, in the same pass.
        """
        c, begin = self.config, frame * self.config.codebooks
        fed = self.within(talk.ids[begin + book : begin + book + number])
        at = book + 1
        if book == 0:
            state = talk.states[frame % 2].to(self.weights.project.fed)[None]
            fed, at = torch.cat([self.weights.project(state), fed]), 0
        cache = talk.within[frame % 2]
        hidden = self.depth.extend(fed[None], cache, torch.tensor([at]), keep=number)[0]
        books = torch.arange(book + 1, book + 1 + number)
        ends = c.end + c.size * torch.arange(c.codebooks - 1)
        if torch.equal(talk.ids[begin : begin + c.codebooks - 1], ends):
            books[books == c.codebooks - 1] = c.codebooks
        return self._states(hidden, books)

    def _states(self, hidden: Tensor, books: Tensor) -> Tensor:
        """Pad hidden states [codes, hidden] to one width, and write whose codebook's they are."""
        padded = F.pad(hidden.float(), (0, self.width - hidden.shape[1]))
        return torch.cat([padded, books[:, None].float()], 1)


def code_embedding(config: CheckpointConfig) -> Tensor:
    """Return the stored input embeddings of all codes: [n_codes, hidden]."""
    folder = Path(config.path)
    codes = CsmLayout.read(folder).n_codes
    try:
        return stored_rows(folder, codes, CODES)
    except ValueError:
        return stored_rows(folder, codes, WITHIN)


def _weights(config: TalkerConfig, state: State, dtype: torch.dtype, folder: Path) -> Weights:
    """Return the matrices beside the layers, in the format of the weights."""
    wide, deep, codes = config.backbone.hidden, config.depth.hidden, config.codes
    tables = {
        f"{TEXT}.weight": (config.text_rows, wide),
        CODES: (codes, wide),
        WITHIN: (codes, wide),
        PROJECTION: (deep, wide),
        HEAD: (config.size, wide),
        HEADS: (config.codebooks - 1, deep, config.size),
    }
    both = {CODES: state.get(CODES, state.get(WITHIN)), WITHIN: state.get(WITHIN, state.get(CODES))}
    given = state | {name: tensor for name, tensor in both.items() if tensor is not None}
    known = (*tables, f"{BACKBONE}layers.", f"{BACKBONE}norm.", f"{DEPTH}layers.", f"{DEPTH}norm.")
    if odd := [name for name in state if not name.startswith(known)]:
        raise ValueError(
            f"{folder} holds tensors that CSM does not have: {some(odd)}; "
            "config.json and weights do not belong together"
        )
    text, frames, within, project, first, others = (
        tensor_of(given, name, shape, folder).to(dtype) for name, shape in tables.items()
    )
    heads = (matrix(first.T), *(matrix(one) for one in others))
    return Weights(text, frames, within, matrix(project.T), heads)
