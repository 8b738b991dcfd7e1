"""Base of drafters that read the target's own states and remember nothing else."""

from copy import copy
from typing import Generic, Self, TypeVar

from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.drafter import PerRow, States, picked

Owner = TypeVar("Owner")


class NewestStates(Generic[Owner]):
    """A `Drafting` but for `propose`: keeps the states that the newest tokens were drawn from."""

    def __init__(self, drafter: Owner) -> None:
        self._drafter = drafter
        self.hidden: Tensor | None = None

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`: there is nothing before the first state."""

    def row(self, index: int) -> Self:
        """See `Drafting`."""
        assert self.hidden is not None
        one = copy(self)
        one.hidden = self.hidden[index : index + 1]
        return one

    def observe(self, hidden: States, accepted: PerRow) -> None:
        """Keep the state that the newest token was drawn from."""
        newest = picked(hidden, accepted)
        self.hidden = newest if self.hidden is None else self.hidden.copy_(newest)
