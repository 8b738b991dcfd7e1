"""A target's laws of its own codes, as sst-own-codes keeps them and a draft's losses read them.

Kept is what the sampler reads, not what it makes: losses compare laws at a temperature, where
top-k, top-p and history have no part. Of a law the k likeliest tokens are kept, and the mass of all
others together, which a loss is told to be shared as the draft shares it. So KL falls short of the
whole law's by mass x KL among the others, its gradient is that of the k and their sum, and the
acceptance is above by the mass at most (at temperature 1; at another the mass of the others is the
draft's guess too).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Model

IDS, LOGS, REST = "law_ids", "law_logs", "law_rest"  # of a shard: flat lists
VOICE, VOICE_TEXT = "voice", "voice_text"  # the prompt whose codes have laws too
COLUMNS = (IDS, LOGS, REST, VOICE, VOICE_TEXT)
NARROW = 1 << 16  # ids below it take 16 bits


@dataclass(frozen=True)
class Laws:
    """Logarithms of the likeliest tokens' probabilities, and of the others' together."""

    ids: Int[Tensor, "*at k"]
    logs: Float[Tensor, "*at k"]
    rest: Float[Tensor, "*at"]  # NaN where no law was kept

    @classmethod
    def of(cls, logits: Float[Tensor, "n vocab"], k: int) -> "Laws":
        """The `k` likeliest tokens; all but one if there are fewer."""
        law = logits.float().log_softmax(-1)
        logs, ids = law.topk(min(k, law.shape[-1] - 1))
        return cls(ids, logs, law.scatter(-1, ids, -torch.inf).logsumexp(-1))

    @classmethod
    def read(cls, ids: np.ndarray, logs: np.ndarray, rest: np.ndarray) -> "Laws":
        """Of an utterance's columns."""
        k, numbers = len(ids) // len(rest), torch.from_numpy(ids.astype(np.int64))
        of, others = (torch.from_numpy(part.astype(np.float32)) for part in (logs, rest))
        return cls(numbers.view(-1, k), of.view(-1, k), others)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Its tensors."""
        return self.ids, self.logs, self.rest

    def at(self, places: Tensor) -> "Laws":
        """Some of them."""
        return Laws(*(part[places] for part in self.parts))

    def to(self, device: torch.device) -> "Laws":
        """The laws on `device`."""
        return Laws(*(part.to(device) for part in self.parts))

    def logits(self, like: Float[Tensor, "n vocab"]) -> Float[Tensor, "n vocab"]:
        """Logarithms of whole laws; what the others have is shared out as the logits `like`."""
        others = like.detach().float().scatter(-1, self.ids, -torch.inf).log_softmax(-1)
        return others.add_(self.rest[:, None]).scatter_(-1, self.ids, self.logs)


@torch.inference_mode()
def laws_of(model: Model, request: Request, voice: list[int], tokens: list[int], k: int) -> Laws:
    """The law of each code of the voice prompt and each token that was drawn, by one pass.

    What the decoding saw, on a CPU to the last bit: its logits do not depend on what is beside.
    """
    before = request.prompt[: len(request.prompt) - len(voice)]
    fed = torch.tensor([[*voice, *tokens[:-1]]], device=model.device)
    cache = model.cache(1, len(before) + fed.shape[1])
    first = model.prefill([before], cache)
    after = model.extend(fed, cache, torch.tensor([len(before)], device=model.device))
    return Laws.of(torch.cat([first, after[0]]), k)


def law_columns(laws: Laws, prompt: Prompt, vocab_size: int) -> dict[str, object]:
    """As a shard has them, with the prompt: half precision errs by 0.4 % at most above e^-16."""
    ids = laws.ids.cpu().numpy().astype(np.uint16 if vocab_size <= NARROW else np.uint32)
    logs, rest = (part.cpu().numpy().astype(np.float16) for part in (laws.logs, laws.rest))
    voice = np.array(prompt.codes, dtype=np.int32)
    kept = {IDS: ids.ravel(), LOGS: logs.ravel(), REST: rest}
    return {**kept, VOICE: voice, VOICE_TEXT: prompt.voice_text}
