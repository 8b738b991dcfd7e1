"""Name what kernels take together, an argument each, without torch and Triton.

A field of a kernel's argument is a tensor's first number, or a number; what a kernel may lack is
None, with which it is compiled for itself. Constants of a kernel (`tl.constexpr`) are tuples too.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class LogitRows(NamedTuple):
    """Logits of a pass and what makes distributions of them; a row is a position of an utterance.

    Ids that are barred are impossible at positions before an utterance's minimum.
    """

    logits: "Tensor"  # float32 [batch * new, vocab]
    positions: "Tensor"  # int64 [batch * new]
    minimum: "Tensor"  # int64 [batch]
    barred: "Tensor"  # bool [vocab]
    vocab: int
    new: int
    temperature: float


class PartCandidates(NamedTuple):
    """The likeliest ids of each part of each row, of which kernels choose.

    An id is -1 where a part has fewer. stats: each part's highest logit and its sum of exponents.
    """

    scores: "Tensor"  # float32 [rows, width], logits
    ids: "Tensor"  # int32 [rows, width]
    stats: "Tensor"  # float32 [rows, parts, 2]
    width: int
    parts: int


class Choice(NamedTuple):
    """Constants of a choice among candidates."""

    top: int  # ids that are chosen
    few: int  # at least top, a power of two
    wide: int  # at least the candidates of a row, a power of two


class Penalised(NamedTuple):
    """Ids of the prompt and spoken ones, of which a repetition penalty makes less."""

    prompted: "Tensor"  # bool [batch, vocab]
    history: "Tensor"  # int64 [batch, capacity]
    seen: "Tensor"  # uint8 [rows, vocab] of scratch memory
    capacity: int
    penalty: float


class FrameSlots(NamedTuple):
    """The first id after the range of each of a frame's positions; the last ones end the speech."""

    slot_ends: "Tensor"  # int32 [slots]
    slots: int


class Repetitions(NamedTuple):
    """When repetition-aware sampling draws again: an id is `often` in the window before it."""

    history: "Tensor"  # int64 [batch, capacity]
    capacity: int
    top_p: float
    often: float


class RecentWindow(NamedTuple):
    """Constants of repetition-aware sampling; `again`: the token is drawn without the repeated."""

    window: int
    places: int  # at least window, a power of two
    parts: int  # at least a row's parts, a power of two
    tile: int  # ids that are read at a time
    again: bool


class RowArguments(NamedTuple):
    """Tensors of a `BatchState`, of which kernels read and change what they need."""

    tokens: "Tensor"  # int64 [batch, capacity]
    committed: "Tensor"  # int64 [batch], how many tokens are
    done: "Tensor"  # bool [batch]
    limit: "Tensor"  # int64 [batch]
    ends: "Tensor"  # bool [vocab + 1]
    uniforms: "Tensor"  # float64 [batch, capacity, DRAWS]
    capacity: int


class Cut(NamedTuple):
    """Constants by which a draw cuts a vocabulary into lines."""

    lines: int  # that are read at a time
    line: int  # ids of a line
    every: int  # at least all lines, a power of two


class DrawnLaws(NamedTuple):
    """Distributions that tokens are drawn from, and scratch memory of draws."""

    probs: "Tensor"  # float32 [batch, vocab]
    sums: "Tensor"  # float64
    vocab: int


class InputTensors(NamedTuple):
    """The fields of `batch.Inputs`, int64."""

    ids: "Tensor"  # [batch, number]
    start: "Tensor"  # [batch]
    positions: "Tensor"  # [batch, ahead]
    room: "Tensor"  # [batch]
    newest: "Tensor"  # [batch]


class InputSizes(NamedTuple):
    """Positions of a pass: `number` from `offset` after the newest, then those ahead."""

    offset: int
    number: int
    ahead: int
    lookahead: int
    vocab: int


class NextInputs(NamedTuple):
    """Inputs of the pass after a drafted token, int64 [batch] all."""

    drafted: "Tensor"  # how many tokens are drafted at most
    ids: "Tensor"
    start: "Tensor"  # place in a cache
    position: "Tensor"


class Judging(NamedTuple):
    """Distributions of drafted tokens, or of groups of tokens (`classes`), and the tokens."""

    target: "Tensor"  # float32 [batch, number + 1, classes]
    draft: "Tensor"  # float32 [batch, number, classes]
    fed: "Tensor"  # int64 [batch, number + 1], the newest token and the drafted ones
    drafted: "Tensor"  # int64 [batch], how many of those are drafts
    classes: int
    number: int


class TokenGroups(NamedTuple):
    """The groups of each token, in lists from an offset to the next token's."""

    offsets: "Tensor"  # int32 [vocab + 1]
    groups: "Tensor"  # int32
    levels: "Tensor"  # float64, where each membership's share of its token ends
    most: int  # of a token


class JudgingConstants(NamedTuple):
    """Constants of the kernel that accepts drafted tokens."""

    size: int  # at least the drafted tokens, a power of two
    block: bool  # a rule that judges whole drafts
    members: int  # of a token's groups that are read at a time
    tile: int  # classes that are read at a time


class Accepted(NamedTuple):
    """Decision about each row's draft, [batch] all."""

    accepted: "Tensor"  # int64
    drafted: "Tensor"  # int64
    scale: "Tensor"  # float32, what the draft's probabilities are divided by


class NextMass(NamedTuple):
    """Distributions that the token after the accepted ones is drawn from.

    It is `mass`, and if there is none of it the target's; without `mass` the residual of target and
    draft; without these two, `mass`.
    """

    target: "Tensor | None"  # float32 [batch, number + 1, vocab]
    draft: "Tensor | None"  # float32 [batch, number, vocab]
    mass: "Tensor | None"  # float32 [batch, vocab]
    number: int
    vocab: int


class TallySums(NamedTuple):
    """Sums of a `Tally`: what became of rounds, drafted and accepted tokens by their depth."""

    tally: "Tensor"  # int64 [batch, 4 + 2 lookahead]
    lookahead: int


class DraftLaws(NamedTuple):
    """Distributions of a draft's tokens."""

    laws: "Tensor"  # float32 [batch, number, vocab]
    number: int
    vocab: int


class PromptIds(NamedTuple):
    """Ids of prompts, each at the end of its row."""

    heard: "Tensor"  # int64 [batch, before]
    before: int


class Matches(NamedTuple):
    """Longest and shortest match of newest tokens that counts."""

    longest: int
    shortest: int


class GroupMembers(NamedTuple):
    """The tokens of each group, in lists from an offset to the next group's."""

    offsets: "Tensor"  # int32 [groups + 1]
    tokens: "Tensor"  # int32
    totals: "Tensor"  # float32 [vocab], of scores of a token's groups
    scores: "Tensor"  # float32 [groups]


class Residuals(NamedTuple):
    """Distributions of tokens and of groups, target's and draft's, of which a residual is made."""

    target: "Tensor"  # float32 [batch, number + 1, vocab]
    draft: "Tensor"  # float32 [batch, number, vocab]
    coarse_target: "Tensor"  # float32 [batch, number + 1, groups]
    coarse_draft: "Tensor"  # float32 [batch, number, groups]
    number: int
    vocab: int
    groups: int


class TokenShares(NamedTuple):
    """The groups of each token, in lists from an offset to the next token's, and their scores."""

    offsets: "Tensor"  # int32 [vocab + 1]
    memberships: "Tensor"  # int32
    totals: "Tensor"  # float32 [vocab], of scores of a token's groups
    scores: "Tensor"  # float32 [groups]
    alone: "Tensor"  # bool [vocab]: its only group has no other token
