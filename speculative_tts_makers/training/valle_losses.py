"""Compute the tiny VALL-E's losses: the AR with probes and heads, and one stage of the NAR."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from speculative_tts.models.families.valle.ar import ValleAR, prefix_mask
from speculative_tts.models.families.valle.modules import Attention, TransformerLayer, padding
from speculative_tts.models.families.valle.nar import ValleNAR
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts_makers.training.layered import ValleBatch
from speculative_tts_makers.training.target import Probes

Logged = dict[str, Tensor]


class Extras(nn.Module):
    """Modules trained with the AR that are no part of it: probes, and heads 2, 3, ..

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
    """Return mean losses in nats: the AR's own, all probes' together and each further head's.

    The further heads see the positions `some`. The last item has the values to log.
    """
    inner = capture_states(model, batch)
    spoken = batch.targets[..., 0] != IGNORED
    audio: Float[Tensor, "n dim"] = inner.final[spoken]
    targets: Int64[Tensor, "n heads"] = batch.targets[spoken]
    logits = model.ar_predict_layer(audio)
    own = cross_entropy(logits, targets[:, 0])
    hits = (logits.detach().argmax(-1) == targets[:, 0]).float().mean()
    current = cross_entropy(extras.probes.current(audio), batch.current_word[spoken])
    guesses, words = extras.probes.following(audio), batch.next_word[spoken]
    following = cross_entropy(guesses, words)
    neighbours = neighbour_losses(extras.neighbours(inner.early), batch.neighbours)
    guidance = guidance_loss(middle_layer(model).self_attn, inner.middle, batch)
    further, further_hits = further_losses(extras.predictions, audio[some], targets[some, 1:])
    logged = {
        "loss": own,
        "current_word_loss": current,
        "next_word_loss": following,
        "neighbour_loss": neighbours,
        "guidance_loss": guidance,
        "next_word_accuracy": (guesses.argmax(-1) == words).float().mean(),
        "head_losses": further,
        "head_accuracies": torch.cat([hits[None], further_hits]),  # the AR's own first
    }
    return own, current + following + neighbours + guidance, further, logged


@dataclass(frozen=True)
class InnerStates:
    """States inside a pass of the AR that the losses read."""

    final: Float[Tensor, "batch frames dim"]  # audio rows, after the last norm
    early: Float[Tensor, "batch text dim"]  # text rows, after the first third of the layers
    middle: Float[Tensor, "batch rows dim"]  # text and audio rows, where the middle layer attends


def capture_states(model: ValleAR, batch: ValleBatch) -> InnerStates:
    """Run the AR, teacher-forced, and capture the states that the losses read."""
    layers = model.ar_decoder.layers
    parts = {"early": layers[max(0, len(layers) // 3 - 1)], "middle": middle_layer(model).norm1}
    captured: dict[str, Tensor] = {}

    def capture(name: str, output: Tensor) -> None:
        captured[name] = output

    hooks = [
        part.register_forward_hook(lambda _m, _i, output, name=name: capture(name, output))
        for name, part in parts.items()
    ]
    size = batch.text.shape[1]
    final = model.hidden(batch.text, batch.codes[..., 0], *_padding(batch))
    for hook in hooks:
        hook.remove()
    return InnerStates(final, captured["early"][:, :size], captured["middle"])


def middle_layer(model: ValleAR) -> TransformerLayer:
    """Return the middle layer: half of the layers work before two of its heads look for words."""
    layer = model.ar_decoder.layers[len(model.ar_decoder.layers) // 2]
    assert isinstance(layer, TransformerLayer)
    return layer


def guidance_loss(
    attention: Attention, middle: Float[Tensor, "batch rows dim"], batch: ValleBatch
) -> Tensor:
    """Return the loss that teaches two heads to attend to the word spoken and to the next one.

    It is minus the mean log weight on the right word, as in guided attention (Tachibana et al.,
    2018) with known word boundaries, so that attention learns at once what it would find out late.
    """
    texts, heads = batch.text.shape[1], batch.places.shape[2]
    rows, dim = middle.shape[1], middle.shape[2]
    size = dim // attention.heads
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    own = slice(0, heads * size)
    keys_at = slice(dim, dim + heads * size)
    queries = linear(middle[:, texts:], weight[own], bias[own])
    keys = linear(middle, weight[keys_at], bias[keys_at])
    shape = (len(middle), -1, heads, size)
    scores = torch.einsum("bthd,bshd->bths", queries.reshape(shape), keys.reshape(shape))
    visible = prefix_mask(texts, rows, middle.device)[None, texts:, None]
    visible = visible & ~torch.cat(_padding(batch), 1)[:, None, None]
    scores = (scores * size**-0.5).masked_fill(~visible, -torch.inf)
    known = batch.places != IGNORED
    return cross_entropy(scores[known], batch.places[known])


def _padding(batch: ValleBatch) -> tuple[Tensor, Tensor]:
    """Return the masks of text rows and of audio rows that are padding."""
    return (
        padding(batch.text_lengths, batch.text.shape[1]),
        padding(batch.code_lengths, batch.codes.shape[1]),
    )


def neighbour_losses(
    logits: Float[Tensor, "batch text classes"], neighbours: Int64[Tensor, "batch text 2"]
) -> Tensor:
    """Return the mean losses of naming the words before and after every text id, summed."""
    known = neighbours[..., 0] != IGNORED
    before, after = logits[known].chunk(2, -1)
    labels = neighbours[known]
    return cross_entropy(before, labels[:, 0]) + cross_entropy(after, labels[:, 1])


def further_losses(
    weights: Float[Tensor, "heads classes dim"],
    states: Float[Tensor, "n dim"],
    targets: Int64[Tensor, "n heads"],
) -> tuple[Float[Tensor, " heads"], Float[Tensor, " heads"]]:
    """Return cross entropy (nats) and accuracy of each head, means over positions."""
    heads, classes, _ = weights.shape
    if heads == 0:
        return states.new_zeros(0), states.new_zeros(0)
    logits = (states @ weights.flatten(0, 1).T).view(len(states) * heads, classes)
    nats = cross_entropy(logits, targets.flatten(), reduction="none")
    hits = (logits.detach().argmax(-1) == targets.flatten()).float()
    return nats.view(-1, heads).mean(0), hits.view(-1, heads).mean(0)


def nearby(
    books: Float[Tensor, "layers codes features"], spread: float
) -> Float[Tensor, "layers codes codes"]:
    """Return each layer's label distributions [codes, codes]: a Gaussian of codebook distances.

    Its variance is `spread` times the mean square of the layer's codes.
    """
    squares = torch.cdist(books, books).square()
    scale = books.square().sum(-1).mean(-1)[:, None, None]
    return (-squares / (2 * spread * scale)).softmax(-1)


def nar_losses(
    model: ValleNAR,
    batch: ValleBatch,
    stage: int,
    prefix: int,
    near: Float[Tensor, "layers codes codes"],
) -> tuple[Tensor, Logged]:
    """Return the mean loss over the frames that one stage predicts after the first `prefix`.

    Labels are spread over the codes that sound like the right one. A residual is hard to foresee:
    the single likeliest code is often farther from it than no code at all would be; the code that
    is likeliest to be near is not.
    """
    result = model(batch.text, batch.text_lengths, batch.codes, batch.code_lengths, stage, prefix)
    known = result.targets != result.logits.shape[-1]
    logits, right = result.logits[known], result.targets[known]
    loss = cross_entropy(logits, near[stage][right])
    return loss, {f"layer_{stage + 1}_loss": loss}
