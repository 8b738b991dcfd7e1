"""Base of drafters that read the target's own states and remember nothing else."""

from typing import Generic, TypeVar

from torch import Tensor

from speculative_tts.decoding.batch import ByRow, Request
from speculative_tts.decoding.drafters.drafter import PerRow, States, picked

Owner = TypeVar("Owner")


class NewestStates(ByRow, Generic[Owner]):
    """A `Drafting` but for `propose`: keeps the states that the newest tokens were drawn from."""

    by_row = ("hidden",)

    def __init__(self, drafter: Owner) -> None:
        self._drafter = drafter
        self.hidden: Tensor | None = None

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`: there is nothing before the first state."""

    def observe(self, hidden: States, accepted: PerRow) -> None:
        """Keep the state that the newest token was drawn from."""
        newest = picked(hidden, accepted)
        self.hidden = newest if self.hidden is None else self.hidden.copy_(newest)
