"""Define a Qwen2 with a head bias, as CosyVoice 2 has; transformers' own drops it silently.

sst-export puts this file beside such weights: AutoModelForCausalLM.from_pretrained(folder,
trust_remote_code=True). It imports nothing of ours.
"""

from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM


class BiasedQwen2Config(Qwen2Config):  # type: ignore[no-untyped-call]
    """A configuration with its own type, so that nobody loads the model as Qwen2."""

    model_type = "biased_qwen2"


class BiasedQwen2ForCausalLM(Qwen2ForCausalLM):  # type: ignore[no-untyped-call]
    """A Qwen2 whose head has a bias, -inf for rows that are not speech."""

    config_class = BiasedQwen2Config

    def __init__(self, config: BiasedQwen2Config) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=True)
        self.post_init()  # type: ignore[no-untyped-call]
