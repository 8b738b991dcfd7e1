"""Read Hugging Face checkpoints (config.json, safetensors) into the native decoder."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.decoder.packed import SCALE, require_plain, unpack, unpacked
from speculative_tts.models.decoder.stack import DecoderLayer
from speculative_tts.models.decoder.weight_files import COPY, INDEX, SINGLE, Index, weight_files
from speculative_tts.state_dicts import opened
from speculative_tts.texts import some
from speculative_tts.typed import read_json

State = dict[str, Tensor]
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
RECOMPUTED = ".rotary_emb.inv_freq"  # what older files hold beside weights: config.json says it
logger = logging.getLogger(__name__)


def read_state(folder: Path, whole: Collection[str] = ()) -> State:
    """Read all tensors of a checkpoint's files, unpacked, as plain floating-point numbers.

    Those named in `whole` are ids, and integers.

    Raises ValueError for a file that is unreadable, a tensor that is there twice or not at all,
    and weights that are quantised in a way that is not read here.
    """
    state: State = {}
    for file in weight_files(folder):
        tensors = read_tensors(file)
        if twice := sorted(state.keys() & tensors.keys()):
            raise ValueError(f"{file}: {twice[0]} is in another shard too; {COPY}")
        state |= tensors
    index = folder / INDEX
    named = () if (folder / SINGLE).is_file() else Index.read(index).weight_map
    if lacking := [name for name in named if name not in state]:
        raise ValueError(f"{index} names {some(lacking)}, which no shard has; {COPY}")
    plain = {name: t for name, t in unpack(state).items() if not name.endswith(RECOMPUTED)}
    require_plain(folder, plain, whole)
    return plain


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as it fits what `read_state` gives, whose numbers are plain."""
    config = read_json(folder / "config.json", "give a folder with config.json and weights")
    return {key: value for key, value in config.items() if key != "quantization_config"}


def read_tensors(file: Path) -> State:
    """Read all tensors of a safetensors file as stored; raise ValueError if it is unreadable."""
    with opened(file) as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118


def tensor_names(file: Path) -> list[str]:
    """Return what a safetensors file holds; raise ValueError if it is cut or unreadable."""
    with opened(file) as tensors:
        return list(tensors.keys())


def stored_rows(folder: Path, rows: int | Tensor, name: str = EMBEDDING) -> Tensor:
    """Read rows of one matrix of a checkpoint in the stored precision: its first, or those named.

    Reads this tensor alone. Raises ValueError when it is not there, or too short.
    """
    for file in weight_files(folder):
        with opened(file) as tensors:
            if name in tensors.keys():  # noqa: SIM118
                wanted = torch.arange(rows) if isinstance(rows, int) else rows
                first, needed = int(wanted.min()), int(wanted.max()) + 1
                kept: Tensor = tensors.get_slice(name)[first:needed]
                if len(kept) < needed - first:
                    raise ValueError(f"{file}: {name} has {first + len(kept)} rows, not {needed}")
                if kept.dtype is torch.int8 and name + SCALE in tensors.keys():  # noqa: SIM118
                    scale = tensors.get_slice(name + SCALE)[first:needed]
                    kept = unpacked(kept, scale, name)
                require_plain(file, {name: kept})
                return kept[wanted - first]
    raise ValueError(
        f"no tensor {name} in {folder}; give target.path=<folder with model.safetensors>"
    )


def tensor_of(state: State, name: str, shape: tuple[int, ...], where: object) -> Tensor:
    """Return a tensor; raise ValueError if it is missing, or not of the shape by config.json."""
    if name not in state:
        raise ValueError(
            f"{where} has no tensor {name}; config.json and weights do not belong together"
        )
    if tuple(state[name].shape) != shape:
        raise ValueError(
            f"{where}: {name} is {tuple(state[name].shape)}, config.json says {shape}; "
            "they do not belong together"
        )
    return state[name]


def head_of(config: DecoderConfig, state: State, folder: Path) -> Tensor:
    """Return the output head: the embedding itself if they are tied.

    ValueError when there is none.
    """
    name = EMBEDDING if config.tied and not stored_apart(state, folder) else HEAD
    if name not in state:
        raise ValueError(
            f"{folder} has no tensor {name}; config.json and weights do not belong together"
        )
    return state[name]


def stored_apart(state: State, folder: Path) -> bool:
    """Return True if a checkpoint that ties embedding and head has a head of its own all the same.

    It may store both (LLaSA-3B). Equal ones are one; if they differ, the stored head counts, as in
    transformers 5, and a warning says so.
    """
    embedding, head = state.get(EMBEDDING), state.get(HEAD)
    if head is None or (embedding is not None and torch.equal(head, embedding)):
        return False
    logger.warning(
        "%s: config.json ties embedding and head, but both are stored and differ; "
        "the stored head is used",
        folder,
    )
    return True


def state_matrices(config: DecoderConfig, state: State, folder: Path) -> tuple[Tensor, Tensor]:
    """Embedding and head, [rows, hidden] each; ValueError when one is missing or cut."""
    shape = (config.vocab_size, config.hidden)
    both = state | {HEAD: head_of(config, state, folder)}
    return tensor_of(both, EMBEDDING, shape, folder), tensor_of(both, HEAD, shape, folder)


def build_decoder(
    config: DecoderConfig,
    state: State,
    *,
    dtype: torch.dtype,
    device: torch.device,
    prefix: str = "model.",
    others: Collection[str] = (EMBEDDING, HEAD),
    where: object = "the checkpoint",
) -> Decoder:
    """Build the decoder of a state dict whose layer keys begin with `prefix`.

    Raises ValueError, which begins with `where`, naming a missing or odd tensor, or those that
    nobody reads: they are neither the decoder's nor among `others`, which the caller reads.
    """
    read = _Reader(state, prefix, dtype, device, where)
    layers = [_layer(config, read, index) for index in range(config.layers)]
    gain = read.vector("norm.weight", config.hidden) * config.hidden**0.5
    if unused := [name for name in state if name not in read.taken and name not in others]:
        raise ValueError(
            f"{where} holds tensors that this model does not have: {some(unused)}; "
            "config.json and weights do not belong together"
        )
    return Decoder(config, layers, gain)


class _Reader:
    """Takes tensors out of a state dict, with their shape checked."""

    def __init__(
        self, state: State, prefix: str, dtype: torch.dtype, device: torch.device, where: object
    ) -> None:
        self._state, self._prefix, self._where = state, prefix, where
        self._dtype, self._device = dtype, device
        self.taken: set[str] = set()

    def matrix(
        self,
        rows: Mapping[str, int],
        columns: int,
        biased: bool,
        gain: str | None = None,
        heads: "_Heads | None" = None,
    ) -> Matrix:
        """Stack [rows, columns] matrices by name as one, with their biases if they are `biased`.

        Each input is scaled by sqrt(columns) and the gain of the norm before it (`Decoder._normed`
        leaves both to us).
        """
        weight = self._stacked(rows, "weight", columns)
        if gain is not None:
            weight = weight.float() * self._take(gain, (columns,)).float() * columns**0.5
        parts = [weight, *([self._stacked(rows, "bias")] if biased else [])]
        own = [part if heads is None else heads(part) for part in parts]
        weight, *bias = (part.to(self._device, self._dtype) for part in own)
        return matrix(weight.T, bias[0] if bias else None)

    def _stacked(self, rows: Mapping[str, int], kind: str, *columns: int) -> Tensor:
        return torch.cat([self._take(f"{name}.{kind}", (n, *columns)) for name, n in rows.items()])

    def gains(self, names: list[str], heads: "_Heads", width: int) -> Tensor:
        """Return the gains of the norms of each query and key head, in float32."""
        return heads.gains(*(self._take(name, (width,)) for name in names)).to(self._device)

    def vector(self, name: str, size: int) -> Tensor:
        return self._take(name, (size,)).to(self._device, self._dtype)

    def _take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        key = self._prefix + name
        self.taken.add(key)
        return tensor_of(self._state, key, shape, self._where)


class _Heads:
    """Puts the rows of a [q; k; v] projection in the order `Decoder` computes in.

    RoPE's partners i and i + head_dim / 2 come to lie side by side in queries and keys (their
    product does not change), and queries are scaled by head_dim ** -0.5, unless a norm of each
    head follows: then its gains are.
    """

    def __init__(self, c: DecoderConfig) -> None:
        self._config = c
        self._pairs = torch.arange(c.head_dim).view(2, -1).T.flatten()
        starts = torch.arange(c.heads + c.kv_heads)[:, None] * c.head_dim
        turned = (starts + self._pairs).flatten()
        total = (c.heads + 2 * c.kv_heads) * c.head_dim
        self._order = torch.cat([turned, torch.arange(len(turned), total)])
        self._scale = torch.ones(total)
        if not c.head_norms:
            self._scale[: c.heads * c.head_dim] = c.head_dim**-0.5

    def __call__(self, rows: Tensor) -> Tensor:
        """Return rows ([out, in] or [out]) in float32 and in the new order."""
        turned = rows[self._order].float()
        return turned * self._scale.view(-1, *[1] * (rows.ndim - 1))

    def gains(self, of_queries: Tensor, of_keys: Tensor) -> Tensor:
        """Return the norms' gains [head_dim] as `decoder.Layer` has them, one row a head."""
        c, both = self._config, torch.stack([of_queries, of_keys]).float()[:, self._pairs]
        both[1] *= c.head_dim**0.5  # the queries' times head_dim ** -0.5, the attention scale: 1
        return both.repeat_interleave(torch.tensor([c.heads, c.kv_heads]), 0)


def _layer(c: DecoderConfig, read: _Reader, index: int) -> DecoderLayer:
    at, attention, mlp = f"layers.{index}.", f"layers.{index}.self_attn.", f"layers.{index}.mlp."
    q, kv, heads = c.heads * c.head_dim, c.kv_heads * c.head_dim, _Heads(c)
    qkv = {f"{attention}q_proj": q, f"{attention}k_proj": kv, f"{attention}v_proj": kv}
    gate_up = dict.fromkeys((f"{mlp}gate_proj", f"{mlp}up_proj"), c.intermediate)
    norms = [f"{attention}{n}_norm.weight" for n in "qk"]
    return DecoderLayer(
        qkv=read.matrix(qkv, c.hidden, c.qkv_bias, f"{at}input_layernorm.weight", heads),
        out=read.matrix({f"{attention}o_proj": c.hidden}, q, c.out_bias),
        gate_up=read.matrix(gate_up, c.hidden, c.mlp_bias, f"{at}post_attention_layernorm.weight"),
        down=read.matrix({f"{mlp}down_proj": c.hidden}, c.intermediate, c.mlp_bias),
        gains=read.gains(norms, heads, c.head_dim) if c.head_norms else None,
    )
