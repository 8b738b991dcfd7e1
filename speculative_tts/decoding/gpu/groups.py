"""Sums over groups of tokens, by kernels (`decoding.rules.group.Group` is the reference)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from speculative_tts.decoding.gpu.arguments import Accepted, GroupMembers, Residuals, TokenShares
from speculative_tts.decoding.gpu.launch import launch

SIZE, MEMBERS = 64, 16  # groups or tokens of a program, and members that it reads at a time


@dataclass(frozen=True)
class GroupSums:
    """A rule's memberships by token and by group, scores and totals in float32."""

    token_offsets: Tensor
    token_groups: Tensor
    group_offsets: Tensor
    group_tokens: Tensor
    levels: Tensor  # float64, where each membership's share of its token ends
    scores: Tensor
    totals: Tensor
    alone: Tensor  # bool: a token whose only group has no other
    most_groups: int  # of a token

    @classmethod
    def of(cls, memberships: Mapping[str, Tensor], most_groups: int) -> "GroupSums":
        """Make them of a rule's native form; reads nothing of the device."""
        given = dict(memberships)
        scores, totals = given.pop("scores").float(), given.pop("total").float()
        counts, sizes = given["token_offsets"].diff(), given["group_offsets"].diff()
        first = given["token_groups"][given["token_offsets"][:-1].long()].long()
        alone = (counts == 1) & (sizes[first] == 1)
        return cls(**given, scores=scores, totals=totals, alone=alone, most_groups=most_groups)

    def coarse(self, probs: Tensor) -> Tensor:
        """Return the groups' distributions [batch, n, groups] of probs [batch, n, vocab]."""
        batch, n, vocab = probs.shape
        groups = len(self.scores)
        out = probs.new_empty(batch, n, groups)
        launch(
            "groups.coarse_kernel", (batch * n, -(-groups // SIZE)),
            probs, GroupMembers(self.group_offsets, self.group_tokens, self.totals, self.scores),
            out, vocab, groups, SIZE=SIZE, MEMBERS=MEMBERS,
        )  # fmt: skip
        return out

    def residual(
        self, laws: tuple[Tensor, Tensor], coarse: tuple[Tensor, Tensor], made: Accepted
    ) -> Tensor:
        """Return the mass [batch, vocab] of the token after the accepted ones."""
        batch, number, vocab = laws[1].shape
        out = laws[0].new_empty(batch, vocab)
        shares = TokenShares(
            self.token_offsets, self.token_groups, self.totals, self.scores, self.alone
        )
        launch(
            "groups.residual_kernel", (batch, -(-vocab // SIZE)),
            Residuals(*laws, *coarse, number, vocab, len(self.scores)), made, shares, out,
            SIZE=SIZE, MEMBERS=MEMBERS,
        )  # fmt: skip
        return out
