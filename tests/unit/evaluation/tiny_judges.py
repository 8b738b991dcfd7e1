"""Randomly initialised checkpoints of the papers' judges' own classes, a few thousand weights each.

Tokenizers and front ends are made from vocabularies written here; nothing comes from a hub.
"""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    HubertConfig,
    HubertForCTC,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    WavLMConfig,
    WavLMForXVector,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

LETTERS = "|ETAONIHSRDLUMWCFGYPBVK'XJQZ"
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|translate|>", "<|transcribe|>"]
SPECIAL += ["<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
CONVOLUTIONS: dict[str, Any] = {
    "conv_dim": (8, 8),
    "conv_kernel": (400, 3),
    "conv_stride": (160, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
TRUNK: dict[str, Any] = CONVOLUTIONS | {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def front_end(folder: Path, *, normalise: bool = True) -> None:
    """preprocessor_config.json of the wav2vec 2.0 family."""
    Wav2Vec2FeatureExtractor(do_normalize=normalise).save_pretrained(folder)


def hubert(folder: Path, **options: Any) -> Path:
    """A HubertForCTC that spells random letters; `options` of its trunk."""
    folder.mkdir(parents=True)
    names = ["<pad>", "<s>", "</s>", "<unk>", *LETTERS]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    Wav2Vec2CTCTokenizer(str(folder / "vocab.json")).save_pretrained(folder)
    front_end(folder)
    torch.manual_seed(0)
    HubertForCTC(HubertConfig(vocab_size=len(names), **TRUNK | options)).save_pretrained(folder)
    return folder


def xvector(folder: Path, **sizes: Any) -> Path:
    """A WavLMForXVector; `sizes` replace those of its TDNN."""
    folder.mkdir(parents=True)
    front_end(folder)
    torch.manual_seed(0)
    tdnn: dict[str, Any] = {"tdnn_dim": (8, 8), "tdnn_kernel": (3, 1), "tdnn_dilation": (1, 1)}
    config = WavLMConfig(xvector_output_dim=12, **(tdnn | sizes), **TRUNK)
    WavLMForXVector(config).save_pretrained(folder)
    return folder


def whisper(folder: Path) -> Path:
    """A WhisperForConditionalGeneration whose vocabulary is bytes, special tokens, timestamps."""
    folder.mkdir(parents=True)
    stamps = [f"<|{0.02 * i:.2f}|>" for i in range(1501)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: i for i, name in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = WhisperTokenizer(tokenizer_object=tokenizer)
    wrapped.add_special_tokens({"additional_special_tokens": SPECIAL})
    wrapped.add_tokens(stamps)
    wrapped.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=8).save_pretrained(folder)
    ids = {name: wrapped.convert_tokens_to_ids(name) for name in SPECIAL}
    end = ids["<|endoftext|>"]
    layers = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    wide = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_mel_bins": 8}
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=len(wrapped),
            pad_token_id=end,
            bos_token_id=end,
            eos_token_id=end,
            decoder_start_token_id=ids["<|startoftranscript|>"],
            suppress_tokens=None,
            begin_suppress_tokens=None,
            max_target_positions=32,
            **layers,
            **heads,
            **wide,
        )
    )
    model.save_pretrained(folder)
    path = folder / "generation_config.json"
    settings = json.loads(path.read_text()) | {
        "is_multilingual": True,
        "lang_to_id": {"<|en|>": ids["<|en|>"]},
        "task_to_id": {name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "max_length": 24,
        "_from_model_config": False,  # else transformers drops the ids above
    }
    path.write_text(json.dumps(settings))
    return folder
