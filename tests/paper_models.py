"""All that the papers' runs read, shrunken, in the real layouts: weights, drafts, heads, lists.

Where a package of the papers is not installed here, a stand-in of the same interface is put on the
path: the speech tokenizer that CosyVoice's prompts need, the repository whose flow and vocoder make
its audio, and espeak.
"""

import shutil
import string
from pathlib import Path

import numpy as np
import soundfile
import torch
from cosyvoice_folders import write_official
from fake_models import tone
from safetensors.torch import save_file
from small_target import save_codes
from transformers import Xcodec2Config, Xcodec2Model
from valle_golden import small_valle

from speculative_tts.commands import precompute, train_draft
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.importing import write_folder
from speculative_tts.models.families.valle.text import Symbols
from speculative_tts.models.heads import HeadTensors, save_heads
from speculative_tts.records import ListItem, to_row, write_jsonl
from tests.unit.codecs.test_transformers_codecs import SIZES

GOLDEN = Path(__file__).parent / "golden"
COSYVOICE = """
import torch
class Frontend:
    def _extract_speech_feat(self, path):
        return torch.zeros(1, 100, 80), torch.tensor([100])
    def _extract_spk_embedding(self, path):
        return torch.zeros(1, 192)
class Flow:
    pre_lookahead_len = 3
    def inference(self, token):
        return token
class Model:
    hift_cache_dict = {}
    token_hop_len = 25
    flow = Flow()
    def token2wav(self, token, **_):
        token = self.flow.inference(token)
        return 0.1 * torch.sin(0.05 * torch.arange(960.0 * token.shape[1]))[None]
class AutoModel:
    def __init__(self, model_dir):
        self.frontend, self.model = Frontend(), Model()
"""
S3TOKENIZER = """
import torch
class Model:
    def to(self, device):
        return self
    def eval(self):
        return self
    def quantize(self, mel, lengths):
        count = mel.shape[2] // 4
        return torch.arange(count)[None] * 37 % 6561, torch.tensor([count])
def load_model(path):
    return Model()
"""
ESPEAK = """
class EspeakBackend:
    def __init__(self, language, **_):
        pass
    def phonemize(self, texts, **_):
        return ["_".join("|".join(word) for word in one.lower().split()) for one in texts]
"""


def write_stand_ins(folder: Path) -> None:
    """Modules for PYTHONPATH."""
    for package in ("cosyvoice", "cosyvoice/cli", "matcha", "hyperpyyaml", "phonemizer"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    (folder / "cosyvoice/cli/cosyvoice.py").write_text(COSYVOICE)
    (folder / "phonemizer/backend.py").write_text(ESPEAK)
    (folder / "phonemizer/separator.py").write_text("Separator = dict\n")
    (folder / "s3tokenizer.py").write_text(S3TOKENIZER)


def write_lists(root: Path) -> None:
    """Two utterances of two speakers, in each paper's list."""
    rng = np.random.default_rng(0)
    texts = ("hello there", "good morning")
    for index in range(2):
        soundfile.write(root / f"voice{index}.wav", tone(rng, seconds=1.0), 16_000)
    rows = [
        ListItem(
            f"{index}_1_2",
            text,
            f"../../voice{index}.wav",
            "good evening",
            speaker=str(index),
            reference_audio=f"../../voice{1 - index}.wav",
        )
        for index, text in enumerate(texts)
    ]
    for name in ("unicats_b", "test_clean_500", "test_clean"):
        write_jsonl(root / "data" / name / "list.jsonl", map(to_row, rows))


def write_models(root: Path) -> Path:
    """`root`/models, and the drafts in `root`/runs; returns the former."""
    models = root / "models"
    save_codes(root / "codes")
    write_ssd(root, models / "CosyVoice2-0.5B")
    write_pcg(root, models)
    write_mtp(root, models)
    return models


def write_ssd(root: Path, target: Path) -> None:
    write_official(target, 6561)
    save_file({"none": torch.zeros(1)}, target / "CosyVoice-BlankEN/model.safetensors")
    for name in ("speech_tokenizer_v2.onnx", "flow.pt", "hift.pt", "campplus.onnx"):
        (target / name).write_bytes(b"weights")
    draft(root, target, "cosyvoice2", "layers=[0,3]")


def write_pcg(root: Path, models: Path) -> None:
    shutil.copytree(GOLDEN / "llasa/model_8b_style", models / "Llasa-8B")
    torch.manual_seed(0)
    sizes = SIZES | {"quantization_levels": [4, 4, 4, 4]}
    Xcodec2Model(Xcodec2Config(**sizes)).save_pretrained(models / "xcodec2-hf")
    draft(root, models / "Llasa-8B", "llasa-8b", "layers=[0,1,3]")


def draft(root: Path, target: Path, name: str, layers: str) -> None:
    """As inherited, in the place that the experiments read."""
    where = [
        f"target.path={target}",
        f"codes={root / 'codes'}",
        f"out={root / 'runs/draft-'}{name}",
    ]
    assert train_draft.main([*where, layers, "steps=0", "dev_utterances=2"]) == 0


def write_mtp(root: Path, models: Path) -> None:
    codec = models / "speechtokenizer_hubert_avg"
    codec.mkdir()
    golden = GOLDEN / "speechtokenizer"
    shutil.copy(golden / "config_snake.json", codec / "config.json")
    shutil.copy(golden / "SpeechTokenizer_snake.pt", codec / "SpeechTokenizer.pt")
    counted = [f"codec.path={codec}", f"transitions.codes={root / 'codes'}"]
    counted += [f"transitions.cache={root / 'caches'}", f"export={codec}_transitions"]
    assert precompute.main(["cache=transitions", "codec=speechtokenizer", *counted]) == 0
    for seed, name in enumerate(("valle", "uslm")):
        write_valle(models / name, models / f"{name}_heads", seed)


def write_valle(folder: Path, heads: Path, seed: int) -> None:
    """Both models and eight heads, random; letters are phonemes."""
    shape = ValleConfig(dim=16, heads=2, layers=2, quantizers=8, n_codes=64, text_tokens=64)
    symbols = Symbols.of(["<eps>", "_", *string.ascii_lowercase])
    write_folder(small_valle(shape, seed), symbols, folder, "en-us")
    weight = 0.3 * torch.randn(8, 65, 16, generator=torch.Generator().manual_seed(seed))
    save_heads(heads, HeadTensors(weight), target=folder, about={"settings": {"n": 8}})
