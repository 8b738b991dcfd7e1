"""Transcribe with Whisper (SSD's judge is large-v3): greedy, English, its own English normaliser.

transformers runs it. Audio above 30 s is transcribed in successive windows with timestamps, as
Whisper's own long-form decoding does, without its temperature fallback. Other front ends
(openai-whisper, faster-whisper) give other text for the same weights, so the summary names this
one.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import BatchJudge, Measures
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import WEIGHTS, PublishedModel, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber
from speculative_tts.pretrained import AGAIN, read_pretrained
from speculative_tts.typed import read_json, typed

WINDOW = 30 * SAMPLE_RATE  # samples of one window
NORMALISER = "normalizer.json"  # British to American spelling
SIZES = {
    (384, 4): "tiny",
    (512, 6): "base",
    (768, 12): "small",
    (1024, 24): "medium",
    (1280, 32): "large",
}
"""OpenAI's names by width and layers of the encoder."""

MULTILINGUAL, V3_MELS = 51_865, 128  # fewest ids of those that know other languages; large-v3's


@dataclass(frozen=True)
class Whisper(Transcriber, BatchJudge, LocalModel):
    """Whisper of any size; the preset's is large-v3."""

    published: ClassVar = PublishedModel(
        "whisper",
        "whisper-large-v3",
        ("config.json", "preprocessor_config.json", "tokenizer.json|vocab.json", WEIGHTS),
        "hf download openai/whisper-large-v3 --local-dir {folder} --exclude '*.msgpack' "
        "--exclude '*fp32*'",
        hub="openai/whisper-large-v3",
    )
    one_numeral: ClassVar = True
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "transformers",
        "language": "en",
        "task": "transcribe",
        "beam": 1,
        "sampling": False,
        "long_form": "sequential above 30 s",
        "label": "Whisper, greedy, its English normaliser",
    }

    @property
    def id(self) -> str:
        """The size that the folder's configuration states; the published name without one."""
        if self.folder is None:
            return super().id
        try:
            path = self.folder / "config.json"
            stored = typed(_Sizes, read_json(path), path)
        except ValueError:  # `load` will say so
            return f"whisper-{self.folder.name}"
        return f"whisper-{size_name(*astuple(stored))}"

    @property
    def options(self) -> dict[str, Any]:
        """Weights, device and decoding, the number format and the normaliser's spelling table."""
        spelling = (self.place / NORMALISER).is_file()
        return super().options | {
            "dtype": "float16" if self.device == "cuda" else "float32",
            "normaliser": "whisper English" + ("" if spelling else " without its spelling table"),
        }

    def normaliser(self) -> Normaliser:
        """Return Whisper's English normaliser: numbers, contractions, spelling."""
        path = self.place / NORMALISER
        table = typed(_Spelling, {"table": read_json(path)}, path).table if path.is_file() else {}
        module = offline("transformers.models.whisper.english_normalizer")
        normalise = module.EnglishTextNormalizer(table)
        return lambda text: str(normalise(text))

    def load_many(self) -> Measures:
        """Load the model as a function of waves; one longer than a window is transcribed alone."""
        import torch

        library = offline("transformers")

        dtype = torch.float16 if self.device == "cuda" else torch.float32
        processor = library.WhisperProcessor.from_pretrained(self.place, local_files_only=True)
        kind = library.WhisperForConditionalGeneration
        model = read_pretrained(kind, self.place, AGAIN, others=True, dtype=dtype)
        model = model.to(self.device).eval()
        # English-only weights refuse to be told what they speak.
        several = getattr(model.generation_config, "is_multilingual", True)
        spoken = {"language": "en", "task": "transcribe"} if several else {}

        @torch.inference_mode()
        def transcribe(waves: Sequence[Wave]) -> list[str]:
            long = len(waves[0]) > WINDOW
            features = processor.feature_extractor(
                [*waves], sampling_rate=SAMPLE_RATE, return_tensors="pt", **_front_end(long)
            )
            tokens = model.generate(
                features.input_features.to(self.device, dtype),
                attention_mask=features.attention_mask.to(self.device),
                do_sample=False,
                num_beams=1,
                return_timestamps=long,
                **spoken,
            )
            texts = processor.batch_decode(tokens, skip_special_tokens=True)
            return [str(text).strip() for text in texts]

        return lambda waves: apart(waves, transcribe)


@dataclass(frozen=True)
class _Sizes:
    """The keys of Whisper's config.json that tell its size."""

    d_model: int | None = None
    encoder_layers: int | None = None
    vocab_size: int | None = None
    num_mel_bins: int | None = None


@dataclass(frozen=True)
class _Spelling:
    table: dict[str, str]


def size_name(
    width: int | None, layers: int | None, vocabulary: int | None, mels: int | None
) -> str:
    """OpenAI's name of weights of this size; other sizes are named by their numbers."""
    size = SIZES.get((width or 0, layers or 0))
    if size is None:
        return f"{width}x{layers}"
    if size == "large":
        return f"large{'-v3' if mels == V3_MELS else ''}"
    return size if (vocabulary or 0) >= MULTILINGUAL else f"{size}.en"


def apart(waves: Sequence[Wave], transcribe: Measures) -> list[str]:
    """Transcribe waves of one window together, longer ones one by one."""
    short = [wave for wave in waves if len(wave) <= WINDOW]
    together = iter(transcribe(short) if short else [])
    return [next(together) if len(w) <= WINDOW else transcribe([w])[0] for w in waves]


def _front_end(long: bool) -> dict[str, Any]:
    """Return the front end's options for one window of 30 s, or for all of a longer wave."""
    if not long:
        return {"return_attention_mask": True}
    return {"return_attention_mask": True, "truncation": False, "padding": "longest"}
