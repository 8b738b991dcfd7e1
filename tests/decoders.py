"""Small random decoders as speech LMs, through the real loader."""

from collections.abc import Callable

import torch
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import State, build_decoder
from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.layout import SpeechLayout

HIDDEN, LAYERS, HEADS, KV_HEADS, WIDE, VOCAB = 32, 6, 4, 2, 48, 40
STOPS = (38, 39)
CPU = torch.device("cpu")
LAYOUT = SpeechLayout(
    n_codes=38,
    stop_ids=STOPS,
    speech_vocab_size=VOCAB,
    text_offset=VOCAB,
    words=(),
    sos_id=0,
    task_id=0,
    token_rate=25.0,
    sample_rate=16_000,
    sampling={},
)


def state(seed: int) -> State:
    """Random weights of a Qwen2-shaped checkpoint: logits of standard deviation 1.5, and layers
    that change the hidden states little enough for a draft of some layers to agree sometimes.
    """
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator) / columns**0.5

    out: State = {"embed": torch.randn(VOCAB, HIDDEN, generator=generator)}
    out["head"] = 1.5 * matrix(VOCAB, HIDDEN).T.contiguous()
    out["norm.weight"] = torch.ones(HIDDEN)
    size = HIDDEN // HEADS
    for layer in range(LAYERS):
        out |= layer_state(f"layers.{layer}.", matrix, HIDDEN, KV_HEADS * size, WIDE, out=0.4)
    return out


def layer_state(
    at: str, matrix: Callable[[int, int], Tensor], hidden: int, kv: int, wide: int, *, out: float
) -> State:
    """A Qwen2 layer's weights by name; `out` scales what it adds to the hidden states."""
    state: State = {}
    for name, rows in (("q", hidden), ("k", kv), ("v", kv)):
        state[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, hidden)
        state[f"{at}self_attn.{name}_proj.bias"] = matrix(1, rows)[0]
    state[f"{at}self_attn.o_proj.weight"] = out * matrix(hidden, hidden)
    state[f"{at}mlp.gate_proj.weight"] = matrix(wide, hidden)
    state[f"{at}mlp.up_proj.weight"] = matrix(wide, hidden)
    state[f"{at}mlp.down_proj.weight"] = out * matrix(hidden, wide)
    state[f"{at}input_layernorm.weight"] = 1 + matrix(1, hidden)[0]
    state[f"{at}post_attention_layernorm.weight"] = 1 + matrix(1, hidden)[0]
    return state


def build(weights: State, layers: tuple[int, ...] = tuple(range(LAYERS))) -> MergedVocabLM:
    """A speech LM of some of the layers: a layer-inherited draft where not all."""
    chosen = {key: value for key, value in weights.items() if not key.startswith("layers.")}
    for new, old in enumerate(layers):
        at = f"layers.{old}."
        chosen |= {
            f"layers.{new}.{key.removeprefix(at)}": value
            for key, value in weights.items()
            if key.startswith(at)
        }
    config = DecoderConfig(
        layers=len(layers),
        hidden=HIDDEN,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_dim=HIDDEN // HEADS,
        intermediate=WIDE,
        vocab_size=VOCAB,
        norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=512,
        qkv_bias=True,
    )
    decoder = build_decoder(
        config, chosen, dtype=torch.float32, device=CPU, prefix="", others=("embed", "head")
    )
    return MergedVocabLM(decoder, LAYOUT, weights["embed"], matrix(weights["head"]))


def requests(count: int, *, maximum: int = 40, seed: int = 0) -> list[Request]:
    """Ragged: prompts of 3 to 11 positions, minimum and maximum length differ."""
    generator = torch.Generator().manual_seed(seed)
    return [
        Request(
            id=f"utterance {row}",
            prompt=torch.randn(3 + (5 * row) % 9, HIDDEN, generator=generator),
            draft_prompt=None,
            min_tokens=row % 5,
            max_tokens=maximum - (7 * row) % 11,
            seed=seed,
        )
        for row in range(count)
    ]
