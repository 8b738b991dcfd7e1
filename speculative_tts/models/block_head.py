"""The laws of a block drafter's tokens: its head over speech ids, biased by the token before.

DFlash says each law at once. DSpark adds w2 f(w1[token before]) to the logits, where f may look at
the state of the place (`gated`) and remember the places before it (`rnn`), so that a block's tokens
are drawn one after another though its layers run once.
"""

import torch
from torch import Tensor

from speculative_tts.models.block_draft import Taken
from speculative_tts.models.block_files import BlockConfig
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.families.code_lm import CodeLM


class BlockHead:
    """Turns a block's states into logits over the target's speech ids."""

    def __init__(
        self, config: BlockConfig, take: Taken, rows: Tensor | None, target: CodeLM, order: Tensor
    ) -> None:
        """rows: of the target's vocabulary, by draft token; order: by speech id."""
        self.vocab, self._target, self._order = len(order), target, order
        self._ids, columns = matched(rows, order)
        hidden, drafts = config.layers.hidden, config.draft_vocab
        self._own: Matrix | None = None
        if rows is not None or take.has("lm_head.weight"):
            self._own = matrix(take.table("lm_head.weight", drafts, hidden)[columns].T)
        self.inputs = _Inputs(config, take, target, order)
        self.markov = None
        if config.markov is not None:
            self.markov = _Markov(config, take, columns)

    def logits(self, states: Tensor) -> Tensor:
        """float32 logits of states [batch, places, hidden], over what can be drafted."""
        if self._own is None:
            return self._target.logits(states.to(self._target.decoder.dtype))
        flat = self._own.in_float32(states.flatten(0, 1).to(self._own.fed))
        return flat.view(*states.shape[:2], -1)

    def spread(self, logits: Tensor) -> Tensor:
        """Return logits [batch, drafted ids] over all speech ids: -inf of those never drafted."""
        if self._ids is None:
            return logits
        whole = logits.new_full((len(logits), self.vocab), -torch.inf)
        return whole.index_copy(1, self._ids, logits)

    def row(self, ids: Tensor) -> Tensor:
        """Return the vocabulary rows of speech ids."""
        return self._order[ids]


class Chain:
    """The laws of one round's tokens, asked for one after another."""

    def __init__(self, head: BlockHead, states: Tensor, first: int) -> None:
        """states: of all places of the blocks; first: the place that says the first law."""
        self._head, self._states = head, states
        self._first = self._place = first
        self._logits = head.logits(states[:, first:])
        self._memory: Tensor | None = None
        self._unsaid = range(first)  # places before the first law, which a memory passes too

    def __call__(self, before: Tensor) -> Tensor:
        """Return logits [batch, vocab] of the token behind `before`, speech ids [batch]."""
        head, place = self._head, self._place
        logits = self._logits[:, place - self._first]
        if head.markov is not None:
            rows = head.row(before)
            for unsaid in self._unsaid:
                _, self._memory = head.markov(rows, self._states[:, unsaid], self._memory)
            self._unsaid = range(0)
            bias, self._memory = head.markov(rows, self._states[:, place], self._memory)
            logits = logits + bias
        self._place += 1
        return head.spread(logits)


class _Markov:
    """A low-rank bias of a law by the token before."""

    def __init__(self, config: BlockConfig, take: Taken, columns: Tensor | slice) -> None:
        at, rank, hidden = "markov_head.", config.markov_rank, config.layers.hidden
        self._kind = config.markov
        self._table = take.table(f"{at}markov_w1.weight", config.layers.vocab_size, rank)
        out = take.table(f"{at}markov_w2.weight", config.draft_vocab, rank)
        self._out = matrix(out[columns].T)
        if config.markov == "gated":
            self._gate = take.matrix(f"{at}gate_proj.weight", rank, hidden + rank, bias=True)
        elif config.markov == "rnn":
            wide = 2 * rank + hidden
            self._joint = take.matrix(f"{at}joint_proj.weight", 3 * rank, wide, bias=True)

    def __call__(
        self, rows: Tensor, states: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the bias [batch, drafted ids] after tokens of these rows, and the new memory."""
        token = self._table[rows].float()
        states = states.float()
        if self._kind == "gated":
            both = torch.cat([states, token], -1).to(self._gate.fed)
            token = self._gate.in_float32(both).sigmoid() * token
        elif self._kind == "rnn":
            memory = torch.zeros_like(token) if memory is None else memory
            wide = torch.cat([memory, token, states], -1).to(self._joint.fed)
            gate, candidate, said = self._joint.in_float32(wide).chunk(3, -1)
            gate = gate.sigmoid()
            memory = gate * memory + (1 - gate) * candidate.tanh()
            token = said.tanh()
        return self._out.in_float32(token.to(self._out.fed)), memory


class _Inputs:
    """Return the inputs of a block's places: the newest token's embedding, then the mask's."""

    def __init__(self, config: BlockConfig, take: Taken, target: CodeLM, order: Tensor) -> None:
        self._target, self._table = target, None
        if take.has("embed_tokens.weight"):  # the target's own, which older files repeat
            shape = config.layers.vocab_size, config.layers.hidden
            whole = take.table("embed_tokens.weight", *shape)
            self._table, self._mask = whole[order], whole[config.mask]
        else:
            self._mask = target.prompt([config.mask])[0]
        self._masks = config.block - 1

    def __call__(self, newest: Tensor) -> Tensor:
        """Return [batch, block, hidden] for the newest tokens, speech ids [batch]."""
        first = self._target.embed(newest) if self._table is None else self._table[newest]
        masks = self._mask.to(first.dtype).expand(len(first), self._masks, -1)
        return torch.cat([first[:, None], masks], 1)


def matched(rows: Tensor | None, order: Tensor) -> tuple[Tensor | None, Tensor]:
    """Return the speech ids that can be drafted (None: all) and their draft tokens.

    rows: of the target's vocabulary by draft token, None where the two are the same; order: by
    speech id.
    """
    if rows is None:
        return None, order
    id_of = {row: index for index, row in enumerate(order.tolist())}
    pairs = [(id_of[row], token) for token, row in enumerate(rows.tolist()) if row in id_of]
    if not pairs:
        raise ValueError(
            "the block drafter's vocabulary has none of the target's codes; "
            "give a drafter that was trained on speech"
        )
    both = torch.tensor(pairs, device=order.device)
    return both[:, 0], both[:, 1]
