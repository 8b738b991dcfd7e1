"""Losses of the tiny VALL-E: the AR with probes and multi-token heads, one stage of the NAR."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from speculative_tts.models.valle.ar import ValleAR
from speculative_tts.models.valle.modules import padding
from speculative_tts.models.valle.nar import ValleNAR, draw_prefix
from speculative_tts.training.batches import IGNORED
from speculative_tts.training.target import Probes
from speculative_tts.training.valle_batches import ValleBatch

Logged = dict[str, Tensor]


class Extras(nn.Module):
    """What is trained with the AR but is no part of it: probes, and heads 2, 3, ..

    `probes` read the audio rows' final states. `neighbours` read the text rows early on: absolute
    positions make it slow to learn which word comes next, unless text rows know their neighbours.
    """

    def __init__(self, dim: int, word_classes: int, further: int, classes: int) -> None:
        super().__init__()
        self.probes = Probes(dim, word_classes)
        self.neighbours = nn.Linear(dim, 2 * word_classes)
        self.predictions = nn.Parameter(
            torch.empty(further, classes, dim).uniform_(-1, 1) * dim**-0.5
        )


def ar_losses(
    model: ValleAR, extras: Extras, batch: ValleBatch, some: slice
) -> tuple[Tensor, Tensor, Float[Tensor, " heads"], Logged]:
    """Of a batch, means over positions in nats: the AR's own, all probes' and each further head's.

    The further heads see the positions `some` of all. Also returns what to log.
    """
    hidden, early = states(model, batch)
    spoken = batch.targets[..., 0] != IGNORED
    audio: Float[Tensor, "n dim"] = hidden[spoken]
    targets: Int64[Tensor, "n heads"] = batch.targets[spoken]
    own = cross_entropy(model.ar_predict_layer(audio), targets[:, 0])
    current = cross_entropy(extras.probes.current(audio), batch.current_word[spoken])
    guesses, words = extras.probes.following(audio), batch.next_word[spoken]
    following = cross_entropy(guesses, words)
    neighbours = neighbour_losses(extras.neighbours(early), batch.neighbours)
    further = further_losses(extras.predictions, audio[some], targets[some, 1:])
    logged = {
        "loss": own,
        "current_word_loss": current,
        "next_word_loss": following,
        "neighbour_loss": neighbours,
        "next_word_accuracy": (guesses.argmax(-1) == words).float().mean(),
        "head_losses": further,
    }
    return own, current + following + neighbours, further, logged


def states(
    model: ValleAR, batch: ValleBatch
) -> tuple[Float[Tensor, "batch frames dim"], Float[Tensor, "batch text dim"]]:
    """Final states of audio rows, and states of text rows after the first third of the layers."""
    layers = model.ar_decoder.layers
    early: list[Tensor] = []
    hook = layers[max(0, len(layers) // 3 - 1)].register_forward_hook(
        lambda _module, _inputs, output: early.append(output)
    )
    size = batch.text.shape[1]
    hidden = model.hidden(
        batch.text,
        batch.codes[..., 0],
        padding(batch.text_lengths, size),
        padding(batch.code_lengths, batch.codes.shape[1]),
    )
    hook.remove()
    return hidden, early[0][:, :size]


def neighbour_losses(
    logits: Float[Tensor, "batch text classes"], neighbours: Int64[Tensor, "batch text 2"]
) -> Tensor:
    """Naming the words before and after every text id; the sum of both means."""
    known = neighbours[..., 0] != IGNORED
    before, after = logits[known].chunk(2, -1)
    labels = neighbours[known]
    return cross_entropy(before, labels[:, 0]) + cross_entropy(after, labels[:, 1])


def further_losses(
    weights: Float[Tensor, "heads classes dim"],
    states: Float[Tensor, "n dim"],
    targets: Int64[Tensor, "n heads"],
) -> Float[Tensor, " heads"]:
    """Cross entropy of each head, means over positions."""
    heads, classes, _ = weights.shape
    if heads == 0:
        return states.new_zeros(0)
    logits = (states @ weights.flatten(0, 1).T).view(len(states) * heads, classes)
    nats = cross_entropy(logits, targets.flatten(), reduction="none")
    return nats.view(-1, heads).mean(0)


def nar_losses(model: ValleNAR, batch: ValleBatch, seed: int, step: int) -> tuple[Tensor, Logged]:
    """Mean loss over predicted frames of one stage: stages in turn, the prompt's length drawn."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    stage = 1 + step % len(model.nar_predict_layers)
    prefix = draw_prefix(batch.code_lengths, generator)
    result = model(batch.text, batch.text_lengths, batch.codes, batch.code_lengths, stage, prefix)
    loss: Tensor = result.loss() / batch.code_lengths.sum()
    return loss, {"loss": loss, f"layer_{stage + 1}_loss": loss}
