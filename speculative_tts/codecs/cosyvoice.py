"""Provide CosyVoice's codec: speech tokens computed here, audio by the official repository.

Tokens come from speech_tokenizer_v2.onnx (v3 for CosyVoice 3) in the model folder: through the PyPI
package s3tokenizer when it is installed, else through onnxruntime; on a GPU if the library finds
one. The official flow and vocoder make the audio. They need the speaking voice: its tokens, mel
frames and speaker embedding. So the waves of prompts are stored by their codes; those of a corpus
are not.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import soundfile
import soxr
import torch
from torch import Tensor

from speculative_tts.codecs.audio import UnfitWaveError, Wave

N_CODES = 6561
TOKENIZERS = ("speech_tokenizer_v2.onnx", "speech_tokenizer_v3.onnx")
YAMLS = (("cosyvoice2.yaml", "cosyvoice.yaml"), ("cosyvoice3.yaml",))  # of each tokenizer
SAMPLES = 960  # per code at 24 kHz: two mel frames of 480
TOKENIZER_RATE, LONGEST = 16_000, 30.0  # Hz, seconds
BANDS, WINDOW, HOP = 128, 400, 160
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")  # of onnxruntime, best first
AUDIO = (  # files that the official classes open besides the LM's; the last before llm.pt
    *("flow.pt", "hift.pt", "campplus.onnx"),
    "CosyVoice-BlankEN/model.safetensors",
)
# CosyVoice's requirements.txt would replace torch and transformers; this command keeps them.
HOW = (
    "git clone --recursive https://github.com/FunAudioLLM/CosyVoice && "
    "pip install -c <(pip list --format=freeze) HyperPyYAML conformer diffusers gdown inflect "
    "librosa lightning modelscope openai-whisper pyworld torchaudio torchcodec wget x-transformers "
    "&& export PYTHONPATH=$PWD/CosyVoice:$PWD/CosyVoice/third_party/Matcha-TTS"
)


class CosyVoiceCodec:
    """CosyVoice's codec: 24 kHz, 25 codes per second, spoken with an encoded prompt's voice."""

    sample_rate = 24_000
    token_rate = 25.0
    n_codes = N_CODES
    n_layers = 1

    def __init__(self, folder: Path, tokenizer: Path) -> None:
        self._folder, self._tokenizer_file = folder, tokenizer
        self._prompts: dict[bytes, np.ndarray] = {}
        self._voices: dict[bytes, dict[str, Tensor]] = {}
        self.flow_seconds: float | None = 0.0  # spent in the official flow; None: unknown

    @classmethod
    def load(cls, folder: Path) -> "CosyVoiceCodec":
        """Open a released folder; ValueError without a speech tokenizer or with mixed versions."""
        return cls(folder, find_tokenizer(folder))

    def encode(self, wave: np.ndarray) -> np.ndarray:
        """Encode a mono wave at 24 kHz; raise UnfitWaveError above 30 s, the official limit."""
        seconds = len(wave) / self.sample_rate
        if seconds > LONGEST:
            raise UnfitWaveError(
                f"{seconds:.1f} s of speech is above the tokenizer's {LONGEST:.0f} s; cut it"
            )
        narrow = soxr.resample(wave.astype(np.float32), self.sample_rate, TOKENIZER_RATE)
        return np.asarray(self._tokens(log_mel(torch.from_numpy(narrow))), dtype=np.int64)

    def encode_prompt(self, wave: np.ndarray) -> np.ndarray:
        """Encode a prompt, and store its voice for `decode_as`.

        A last code with less than two mel frames is cut off, for the LM as for the flow: the
        official frontend keeps min(mel frames // 2, codes), and mel frames are whole hops of the
        wave. With that code the LM would continue half a sound, unlike the official one.
        """
        codes = self.encode(wave)[: len(wave) // SAMPLES]
        self._prompts[codes.tobytes()] = wave
        return codes

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Decode the codes of a prompt with that prompt's own voice."""
        return self.decode_as(codes, codes)

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
        """Decode codes with the voice of a prompt that this codec encoded.

        Raise ValueError when the official repository is missing, or the prompt was never encoded.
        """
        return _Speaking(self.official.model, self._voice(prompt_codes)).piece(codes, ended=True)

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> "_Speaking":
        """Start an utterance in pieces, cut as by the official `tts` with `stream=True`."""
        return _Speaking(self.official.model, self._voice(prompt_codes), chunk, stream=True)

    def _voice(self, codes: np.ndarray) -> dict[str, Tensor]:
        """Return a prompt's inputs for flow and vocoder, with two mel frames per code."""
        codes = np.asarray(codes, dtype=np.int64)
        key = codes.tobytes()
        if key in self._voices:
            return self._voices[key]
        if key not in self._prompts:
            raise ValueError(
                "these codes are not of a prompt that this codec encoded, so that their voice is "
                "not known; encode_prompt the audio first"
            )
        frontend = self.official.frontend
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "prompt.wav")  # the official functions read a file
            soundfile.write(path, self._prompts[key], self.sample_rate)
            mel, _ = frontend._extract_speech_feat(path)
            speaker = frontend._extract_spk_embedding(path)
        length = min(mel.shape[1] // 2, len(codes))
        self._voices[key] = {
            "prompt_token": torch.as_tensor(codes[:length], dtype=torch.int32)[None],
            "prompt_feat": mel[:, : 2 * length],
            "embedding": speaker,
        }
        return self._voices[key]

    @cached_property
    def official(self) -> Any:
        """Load the official model, which makes audio, at its first use."""
        try:
            from cosyvoice.cli import cosyvoice
        except ImportError as error:
            raise ValueError(f"audio needs the official CosyVoice ({error}); {HOW}") from error
        build = getattr(cosyvoice, "AutoModel", None) or cosyvoice.CosyVoice2
        try:
            official = build(model_dir=str(self._folder))
        except Exception as error:  # it opens many packages, which raise many types
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(
                f"the official CosyVoice does not open {self._folder} ({reason}); it needs "
                f"{', '.join(AUDIO)} there, and beside its clone: {HOW}"
            ) from error
        flow = getattr(official.model, "flow", None)
        if hasattr(flow, "inference"):
            flow.inference = self._timed(flow.inference)  # type: ignore[union-attr]
        else:
            self.flow_seconds = None
        return official

    def _timed(self, flow: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the flow to count its seconds: `token2wav` runs it and then the vocoder."""

        def inference(*given: Any, **named: Any) -> Any:
            begin = _now()
            mel = flow(*given, **named)
            self.flow_seconds = (self.flow_seconds or 0.0) + _now() - begin
            return mel

        return inference

    def _tokens(self, mel: Tensor) -> list[int]:
        """Return the codes of log-mel frames [128, frames]."""
        try:
            import s3tokenizer  # noqa: F401
        except ImportError:
            return self._by_onnxruntime(mel)
        device = _device()
        lengths = torch.tensor([mel.shape[1]], device=device)
        codes, count = self.s3.quantize(mel[None].to(device), lengths)
        tokens: list[int] = codes[0, : int(count[0])].tolist()
        return tokens

    @cached_property
    def s3(self) -> Any:
        """Load the tokeniser of s3tokenizer at its first use."""
        import s3tokenizer

        return s3tokenizer.load_model(str(self._tokenizer_file)).to(_device()).eval()

    def _by_onnxruntime(self, mel: Tensor) -> list[int]:
        session = self.session
        names = [entry.name for entry in session.get_inputs()]
        length = np.array([mel.shape[1]], dtype=np.int32)
        (codes, *_) = session.run(None, {names[0]: mel[None].numpy(), names[1]: length})
        tokens: list[int] = np.asarray(codes).reshape(-1).tolist()
        return tokens

    @cached_property
    def session(self) -> Any:
        """Open the official tokeniser at its first use. Raises ValueError without onnxruntime."""
        try:
            import onnxruntime
        except ImportError as error:
            raise ValueError(
                "speech tokens need s3tokenizer or onnxruntime; "
                "pip install 'speculative_tts[papers]'"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        available = onnxruntime.get_available_providers()
        return onnxruntime.InferenceSession(
            str(self._tokenizer_file),
            options,
            providers=[one for one in PROVIDERS if one in available],
        )


class _Speaking:
    """Speak one utterance by the official flow and vocoder, which store the seams of pieces.

    A piece ends at a whole block of prompt and speech, so the first is longer by the missing part
    of the prompt's last block; the flow looks `pre_lookahead_len` codes ahead
    (`CosyVoice2Model.tts`).
    """

    def __init__(
        self,
        model: Any,
        voice: dict[str, Tensor],
        chunk: int | None = None,
        *,
        stream: bool = False,
    ) -> None:
        self._model, self._voice, self._name = model, voice, f"speculative_tts {uuid4()}"
        self._options = {"stream": True} if stream else {}
        self._sent = 0
        if stream:
            self._chunk = chunk or int(model.token_hop_len)
            self._pad = -voice["prompt_token"].shape[1] % self._chunk
        model.hift_cache_dict[self._name] = None

    @property
    def _ahead(self) -> int:
        return int(self._model.flow.pre_lookahead_len)

    def strides(self) -> Iterator[int]:
        """See `pieces.Speaking`."""
        return chain([self._pad + self._chunk + self._ahead], repeat(self._chunk))

    def ready(self, codes: np.ndarray, *, ended: bool = False) -> Iterator[Wave]:
        """See `pieces.Speaking`."""
        while not ended:
            end = self._sent + self._chunk + (0 if self._sent else self._pad)
            if len(codes) < end + self._ahead:
                return
            yield self.piece(codes[: end + self._ahead], ended=False)
            self._sent = end
        if len(codes):
            yield self.piece(codes, ended=True)

    def piece(self, codes: np.ndarray, *, ended: bool) -> Wave:
        """Return the audio of the codes that were not sent yet."""
        try:
            wave = self._model.token2wav(
                token=torch.as_tensor(codes, dtype=torch.int32)[None],
                **self._voice,
                token_offset=self._sent,
                uuid=self._name,
                finalize=ended,
                **self._options,
            )
        finally:
            if ended:
                self._model.hift_cache_dict.pop(self._name, None)
        audio: Wave = wave.detach().float().cpu().numpy().reshape(-1)
        return audio


def find_tokenizer(folder: Path) -> Path:
    """Find the speech tokenizer of the version in the folder's yaml, or the only one present.

    Both versions have the same number of codes, so that the wrong one would go unnoticed. Raise
    ValueError when there is none, or not the required one.
    """
    present = [name for name in TOKENIZERS if (folder / name).is_file()]
    yamls = [[name for name in names if (folder / name).is_file()] for names in YAMLS]
    named = [name for name, own in zip(TOKENIZERS, yamls, strict=True) if own]
    fitting = [name for name in present if name in named or not named]
    if len(fitting) == 1 and len(named) <= 1:
        return folder / fitting[0]
    if not present:
        raise ValueError(
            f"no speech tokenizer in {folder}; looked for {' or '.join(named or TOKENIZERS)}; "
            "download the whole released model"
        )
    raise ValueError(
        f"{folder} mixes CosyVoice 2 and 3: it has {', '.join([*chain(*yamls), *present])}; "
        "download one model into a folder of its own"
    )


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def log_mel(wave: Tensor) -> Tensor:
    """Compute Whisper's log-mel frames of a 16 kHz wave, 100 per second: float32 [128, frames].

    Source: Radford et al., 2022, and openai/whisper audio.py (Slaney mels, log10, 8 decades).
    """
    from transformers.audio_utils import mel_filter_bank

    window = torch.hann_window(WINDOW)
    spectrum = torch.stft(wave, WINDOW, HOP, window=window, return_complex=True)
    power = spectrum[:, :-1].abs().square()
    bank = mel_filter_bank(
        WINDOW // 2 + 1, BANDS, 0.0, TOKENIZER_RATE / 2, TOKENIZER_RATE, "slaney", "slaney"
    )
    log = (torch.from_numpy(bank).float().T @ power).clamp(min=1e-10).log10()
    return (torch.maximum(log, log.max() - 8.0) + 4.0) / 4.0
