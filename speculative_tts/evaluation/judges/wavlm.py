"""Compare voices by WavLM-large with an ECAPA head, UniSpeech's checkpoint (PCG's Sim-O).

The checkpoint of seed-tts-eval, F5-TTS and ZipVoice: `wavlm_large_finetune.pth` holds WavLM-large
in fairseq's names, weights of its 25 hidden layers, and ECAPA-TDNN. PCG names no checkpoint; its
level (44) fits this one, and not `wavlm-base-plus-sv` (about 90).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import BatchJudge, Measures
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.similarity import FLOOR, VoiceComparison, to_numbers
from speculative_tts.evaluation.weights import PublishedModel, offline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from transformers import WavLMConfig

FILE = "wavlm_large_finetune.pth"
TRUNK = "feature_extract.model."
LARGE: dict[str, Any] = {  # WavLM-large, as microsoft/wavlm-large's config.json has it
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "conv_bias": False,
}


@dataclass(frozen=True)
class WavlmLarge(VoiceComparison, BatchJudge, LocalModel):
    """WavLM-large and ECAPA-TDNN embeddings of 256 numbers."""

    published: ClassVar = PublishedModel(
        "wavlm",
        "wavlm_large_finetune",
        (f"{FILE}|speaker_similarity/{FILE}",),
        f"hf download k2-fsa/TTS_eval_models speaker_similarity/{FILE} --local-dir {{folder}}",
        hub="k2-fsa/TTS_eval_models",
    )
    decoding: ClassVar = {"engine": "transformers", "dtype": "float32", "floor": FLOOR}

    def load_many(self) -> Measures:
        """Load the model as a function from waves to their embeddings."""
        from speculative_tts.state_dicts import read_torch

        library = offline("transformers")
        state = read_torch(self.published.weights(self.place))
        return encoder(state.get("model", state), library.WavLMConfig(**LARGE), device=self.device)


def encoder(
    state: "Mapping[str, Tensor]", config: "WavLMConfig", device: str = "cpu", **sizes: int
) -> Measures:
    """Build the encoder from a checkpoint's tensors; `sizes` are `ecapa.Ecapa`'s if not default.

    Raise ValueError, naming a tensor, for a checkpoint of another shape.
    """
    import torch

    from speculative_tts.evaluation.judges.ecapa import Ecapa
    from speculative_tts.evaluation.judges.fairseq import rename_tensors

    trunk = offline("transformers").WavLMModel(config)
    head = Ecapa(config.num_hidden_layers + 1, config.hidden_size, **sizes)
    own = {name for name in state if not name.startswith(("feature_extract.", "loss_calculator."))}
    for module, tensors in (
        (trunk, rename_tensors(state, TRUNK)),
        (head, {name: state[name] for name in own}),
    ):
        missing = [name for name in module.state_dict() if name not in tensors]
        if missing:
            raise ValueError(
                f"{FILE} has no tensor for {missing[0]}; give UniSpeech's WavLM-large + ECAPA "
                "checkpoint (judges.wavlm=<its folder>)"
            )
        module.load_state_dict({name: tensors[name] for name in module.state_dict()})
        module.to(device).eval()

    @torch.inference_mode()
    def embed(waves: Sequence[Wave]) -> list[list[float]]:
        samples = [torch.from_numpy(wave).to(device) for wave in waves]
        normal = [torch.nn.functional.layer_norm(one, one.shape) for one in samples]
        lengths = torch.tensor([len(one) for one in normal])
        frames = trunk._get_feat_extract_output_lengths(lengths).tolist()
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        padded = torch.nn.utils.rnn.pad_sequence(normal, batch_first=True)
        visible = {"attention_mask": mask.to(device)} if len(waves) > 1 else {}
        with warnings.catch_warnings():  # transformers mixes two kinds of masks
            warnings.filterwarnings("ignore", "Support for mismatched key_padding_mask")
            layers = torch.stack(trunk(padded, output_hidden_states=True, **visible).hidden_states)
        # The head gets each wave alone: its convolutions would reach into the padding.
        return [
            to_numbers(head(layers[:, index : index + 1, :count])[0].cpu())
            for index, count in enumerate(frames)
        ]

    return embed
