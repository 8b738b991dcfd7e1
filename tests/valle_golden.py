"""A VALL-E golden folder of any size, its expected values computed step by step without a cache."""

import json
import pathlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from speculative_tts.models.families.valle.checkpoint import Valle
from speculative_tts.models.families.valle.config import ValleConfig

SMALL = ValleConfig(dim=16, heads=2, layers=2, quantizers=3, n_codes=12, text_tokens=9)


def small_valle(config: ValleConfig = SMALL, seed: int = 3) -> Valle:
    """Random weights of some spread, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    valle = Valle.build(config)
    state = {
        name: torch.randn(tensor.shape, generator=generator) * (0.3 if tensor.ndim > 1 else 0.1)
        + (tensor.ndim == 1 and name.endswith((".weight", ".running_var", ".alpha")))
        if tensor.is_floating_point()
        else tensor
        for name, tensor in valle.state().items()
    }
    if config.share_embedding:
        for stage in range(config.quantizers - 2):
            tied = state[f"nar_audio_embeddings.{stage + 2}.word_embeddings.weight"]
            state[f"nar_predict_layers.{stage}.weight"] = tied
    valle.load_state(state)
    return valle


@dataclass(frozen=True)
class Greedy:
    """Codes [frames], and hidden states and logits of every step."""

    codes: torch.Tensor
    hidden: torch.Tensor
    logits: torch.Tensor


def greedy(valle: Valle, text: torch.Tensor, prompt: torch.Tensor) -> Greedy:
    """Layer 1 by full recomputation; text [1, n], prompt [frames]."""
    codes = prompt.tolist()
    states = []
    while True:
        states.append(valle.ar.hidden(text, torch.tensor([codes]))[0, -1])
        best = int(valle.ar.ar_predict_layer(states[-1]).argmax())
        if best == valle.config.eos_id or len(codes) - len(prompt) > 16 * text.shape[1]:
            break
        codes.append(best)
    hidden = torch.stack(states)
    found = torch.tensor(codes[len(prompt) :])
    return Greedy(found, hidden, valle.ar.ar_predict_layer(hidden))


@torch.no_grad()
def write_valle_golden(folder: Path, valle: Valle, *, heads: int = SMALL.heads) -> None:
    """The required files of the format, with a prompt of five codes and four text ids."""
    c = valle.config
    generator = torch.Generator().manual_seed(11)
    text = torch.randint(3, c.text_tokens, (1, 4), generator=generator)
    prompt = torch.randint(0, c.n_codes, (1, 5, c.quantizers), generator=generator)
    first = greedy(valle, text, prompt[0, :, 0])
    assert len(first.codes) > 1, "another seed"
    codes = valle.nar.infer(text, prompt, first.codes[None], enrolled=2, prefix_mode=1)
    *_, last = valle.nar.stage_logits(text, prompt, first.codes[None], prefix_mode=1)
    batch = (torch.cat([text, text.flip(1)]), torch.tensor([4, 3]))
    frames = (prompt.repeat(2, 1, 1), torch.tensor([5, 4]))
    forced = valle.ar(*batch, frames[0][..., 0], frames[1])
    nar = valle.nar(*batch, *frames, 1, 1)
    arrays = {
        "x": text,
        "y": prompt,
        "enroll_x_lens": torch.tensor([2]),
        "greedy_codes_prefix1": codes,
        "greedy_ar_logits": first.logits,
        "greedy_ar_hidden": first.hidden,
        "greedy_nar_logits_last": last[0],
        "tf_x": batch[0],
        "tf_x_lens": batch[1],
        "tf_y": frames[0],
        "tf_y_lens": frames[1],
        "tf_ar_inputs": forced.inputs,
        "tf_ar_targets": forced.targets,
        "tf_ar_logits": forced.logits,
        "tf_ar_hidden": forced.hidden,
        "tf_ar_loss_sum": forced.loss(),
        "tf_ar_top10": torch.tensor(forced.top10() * 9),
    }
    np.savez(folder / "main.npz", **{name: value.numpy() for name, value in arrays.items()})
    row = {"loss_sum": float(nar.loss()), "prefix_lens": [1], "metrics": {"t": nar.top10() * 9}}
    (folder / "info.json").write_text(json.dumps({"nar_teacher_forced": {"prefix1_stage1": row}}))
    write_checkpoint(folder / "checkpoint.pt", valle, heads=heads)


def write_checkpoint(path: Path, valle: Valle, *, heads: int | None = SMALL.heads) -> None:
    """As icefall writes it, with a path among the options."""
    options = {"nhead": heads} if heads else {}
    content = {"model": valle.state(), "exp_dir": pathlib.PosixPath("exp"), **options}
    torch.save({**content, "prefix_mode": 1, "optimizer": None}, path)
