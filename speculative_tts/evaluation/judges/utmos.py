"""Rate naturalness by UTMOS22, the strong learner (Saeki et al., Interspeech 2022; MTP's judge).

The weights are those of SpeechMOS's release (one file, fairseq's names): wav2vec 2.0 base, a domain
and a judge embedding, a bidirectional LSTM and a projection, the mean over time, 2 x + 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Measure, Opinion
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.metric import opinion
from speculative_tts.evaluation.weights import PublishedModel, offline

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Wav2Vec2Config

FILE = "utmos22_strong_step7459_v1.pt"
URL = f"https://github.com/tarepan/SpeechMOS/releases/download/v1.0.0/{FILE}"

METRICS = {"utmos": opinion("utmos", "UTMOS", "utmos22_strong", "UTMOS22 strong")}


@dataclass(frozen=True)
class Utmos(Opinion, LocalModel):
    """UTMOS22 strong opinion score, 1 to 5."""

    metric: ClassVar = "utmos"
    published: ClassVar = PublishedModel(
        "utmos",
        "utmos22_strong",
        (f"{FILE}|mos/{FILE}",),
        f"curl -L --create-dirs -o {{folder}}/{FILE} {URL}",
        hub="k2-fsa/TTS_eval_models",
    )
    decoding: ClassVar[dict[str, Any]] = {"engine": "transformers", "dtype": "float32"}

    def load(self) -> Measure:
        """Load the model as a function from a wave to its score."""
        from speculative_tts.state_dicts import read_torch

        library = offline("transformers")
        state = read_torch(self.published.weights(self.place))
        return predictor(state, library.Wav2Vec2Config(), device=self.device)


def predictor(
    state: "Mapping[str, Tensor]", config: "Wav2Vec2Config", device: str = "cpu"
) -> Measure:
    """Build the predictor from a checkpoint's tensors; raise ValueError for another shape."""
    import torch
    from torch import nn

    from speculative_tts.evaluation.judges.fairseq import rename_tensors

    trunk = offline("transformers").Wav2Vec2Model(config)
    tensors = rename_tensors(state, "wav2vec2.")
    missing = [name for name in trunk.state_dict() if name not in tensors]
    if missing or "domain_emb" not in state:
        name = (missing or ["domain_emb"])[0]
        raise ValueError(f"{FILE} has no tensor for {name}; get {URL}")
    trunk.load_state_dict({name: tensors[name] for name in trunk.state_dict()})
    context = torch.cat([state["domain_emb"], state["judge_emb"]], 1)  # [1, features]
    units = state["blstm.weight_hh_l0"].shape[1]
    inputs = config.hidden_size + context.shape[1]
    blstm = nn.LSTM(inputs, units, batch_first=True, bidirectional=True)
    wide = len(state["projection.0.weight"])
    project = nn.Sequential(nn.Linear(2 * units, wide), nn.ReLU(), nn.Linear(wide, 1))
    heads: dict[str, nn.Module] = {"blstm.": blstm, "projection.": project}
    for prefix, module in heads.items():
        module.load_state_dict({n: state[prefix + n] for n in module.state_dict()})
    for module in (trunk, *heads.values()):
        module.to(device).eval()
    context = context.to(device)

    @torch.inference_mode()
    def measure(wave: Wave) -> float:
        frames = trunk(torch.from_numpy(wave).to(device)[None]).last_hidden_state
        joined = torch.cat([frames, context.expand(1, frames.shape[1], -1)], 2)
        return round(float(project(blstm(joined)[0]).mean() * 2 + 3), 6)

    return measure
