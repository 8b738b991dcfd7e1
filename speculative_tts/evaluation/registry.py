"""List all metrics, and build the judges that a configuration asks for.

A new metric is a file with its judge and its `METRICS`, and a line in `JUDGES` and `METRICS` here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from speculative_tts.evaluation import efficiency, similarity, wer
from speculative_tts.evaluation.judge import Judge
from speculative_tts.evaluation.judges import dnsmos, utmos
from speculative_tts.evaluation.judges.conformer import Conformer
from speculative_tts.evaluation.judges.eres2net import Eres2Net
from speculative_tts.evaluation.judges.faster_whisper import FasterWhisper
from speculative_tts.evaluation.judges.ge2e import Ge2e
from speculative_tts.evaluation.judges.hubert import Hubert
from speculative_tts.evaluation.judges.openai_whisper import OpenaiWhisper
from speculative_tts.evaluation.judges.paraformer import Paraformer
from speculative_tts.evaluation.judges.pocketsphinx import Pocketsphinx, choose_grammar
from speculative_tts.evaluation.judges.seedtts import SeedTtsWhisper
from speculative_tts.evaluation.judges.wavlm import WavlmLarge
from speculative_tts.evaluation.judges.whisper import Whisper
from speculative_tts.evaluation.judges.xvector import XVector
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.sources import Source
from speculative_tts.schema.evaluate import Encoder, EvalConfig, JudgesConfig, Recogniser

Model = TypeVar("Model", bound=LocalModel)
Maker = Callable[[Source, EvalConfig], Judge]


def build_local(kind: type[Model], config: JudgesConfig) -> Model:
    """Build a judge with its model's folder; raise ValueError for a folder of another model."""
    given = getattr(config, kind.published.key, None)
    folder = kind.published.find(given, config.models)
    place = Path(folder).absolute() if folder else None  # workers may start elsewhere
    return kind(folder=place, device=config.device.name, models=config.models)


def pocketsphinx(source: Source, config: EvalConfig) -> Pocketsphinx:
    """Build Pocketsphinx with the grammar chosen by the source's texts."""
    chosen = choose_grammar(config.grammar, (s.text for s in source.samples), source.words)
    return Pocketsphinx(chosen, source.words)


RECOGNISERS: dict[Recogniser, Maker] = {
    Recogniser.pocketsphinx: pocketsphinx,
    Recogniser.faster_whisper: lambda _, config: FasterWhisper(config.judges.weights),
    Recogniser.whisper: lambda _, config: build_local(Whisper, config.judges),
    Recogniser.openai_whisper: lambda _, config: build_local(OpenaiWhisper, config.judges),
    Recogniser.seedtts: lambda _, config: build_local(SeedTtsWhisper, config.judges),
    Recogniser.paraformer: lambda _, config: build_local(Paraformer, config.judges),
    Recogniser.hubert: lambda _, config: build_local(Hubert, config.judges),
    Recogniser.conformer: lambda _, config: build_local(Conformer, config.judges),
}
ENCODERS: dict[Encoder, Maker] = {
    Encoder.ge2e: lambda _, __: Ge2e(),
    Encoder.eres2net: lambda _, config: build_local(Eres2Net, config.judges),
    Encoder.wavlm: lambda _, config: build_local(WavlmLarge, config.judges),
    Encoder.xvector: lambda _, config: build_local(XVector, config.judges),
}
JUDGES: dict[str, Maker] = {
    "wer": lambda source, config: RECOGNISERS[config.judges.recogniser](source, config),
    "similarity": lambda source, config: ENCODERS[config.judges.encoder](source, config),
    "dnsmos": lambda _, __: dnsmos.Dnsmos(),
    "utmos": lambda _, config: build_local(utmos.Utmos, config.judges),
}
METRICS: dict[str, Metric] = {  # in the order of captions and lists
    **wer.METRICS,
    **similarity.METRICS,
    **dnsmos.METRICS,
    **utmos.METRICS,
    **efficiency.METRICS,
}
