"""Make the golden files of CSM: python make_csm.py <folder>.

Weights are random and small, the tokenizer is trained on a few invented sentences; the chat
template writes what the published one writes. Prompts are CsmProcessor's, frames, logits, codes and
waves those of transformers' CsmForConditionalGeneration and its Mimi. Nothing of speculative_tts is
imported.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CsmConfig,
    CsmForConditionalGeneration,
    CsmProcessor,
    EncodecFeatureExtractor,
    MimiConfig,
    PreTrainedTokenizerFast,
)

SENTENCES = [
    "The ferry leaves at seven, and nobody waits for the tide.",
    "Would you read it again, a little softer this time?",
    "Nine small boats lay in the harbour below the old mill.",
]
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|AUDIO|>", "<|audio_eos|>"]
TEMPLATE = (
    "{% for message in messages %}{% for item in message['content'] %}"
    "{% if item['type'] == 'text' %}"
    "<|begin_of_text|>[{{ message['role'] }}]{{ item['text'] }}<|end_of_text|>"
    "{% else %}<|AUDIO|><|audio_eos|>{% endif %}{% endfor %}{% endfor %}"
)
CODEBOOKS, CODES, HEARD = 6, 19, 16  # of a frame; of a codebook; of them Mimi's
FRAMES, RATE = 9, 24_000
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "high_freq_factor": 0.5,
    "low_freq_factor": 0.125,
}  # fmt: skip


def processor(folder: Path) -> CsmProcessor:
    """Train a byte-level BPE, add the special tokens and save the processor."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(SENTENCES, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token=SPECIAL[1])
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    extractor = EncodecFeatureExtractor(feature_size=1, sampling_rate=RATE)
    whole = CsmProcessor(extractor, tokenizer, chat_template=TEMPLATE)
    whole.save_pretrained(folder)
    return whole


def talker(folder: Path, tokenizer: PreTrainedTokenizerFast) -> CsmForConditionalGeneration:
    """Write a small CSM: llama3 RoPE in both decoders, tied embeddings of codes, Mimi's shape."""
    ids = dict(zip(SPECIAL, tokenizer.convert_tokens_to_ids(SPECIAL), strict=True))
    codec = MimiConfig(
        hidden_size=16, num_filters=2, codebook_size=HEARD, codebook_dim=8,
        num_quantizers=CODEBOOKS, vector_quantization_hidden_dimension=8, upsample_groups=16,
        num_hidden_layers=1, intermediate_size=16, num_attention_heads=2, num_key_value_heads=2,
        sliding_window=16,
    )  # fmt: skip
    depth = {
        "num_codebooks": CODEBOOKS, "backbone_hidden_size": 40, "vocab_size": CODES,
        "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
        "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8,
        "max_position_embeddings": CODEBOOKS + 1,
        "rope_parameters": LLAMA3 | {"original_max_position_embeddings": 4},
    }  # fmt: skip
    config = CsmConfig(
        num_codebooks=CODEBOOKS, vocab_size=CODES, text_vocab_size=len(tokenizer), hidden_size=40,
        intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, audio_token_id=ids["<|AUDIO|>"],
        audio_eos_token_id=ids["<|audio_eos|>"], bos_token_id=ids["<|begin_of_text|>"],
        pad_token_id=ids["<|AUDIO|>"], codebook_pad_token_id=CODES - 1, codebook_eos_token_id=0,
        rope_parameters=LLAMA3 | {"original_max_position_embeddings": 16},
        depth_decoder_config=depth, codec_config=codec,
    )  # fmt: skip
    torch.manual_seed(21)
    model = CsmForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("codec_model."):
                continue
            if weight.ndim > 1:
                weight.normal_(0, 0.6 if "embed" in name else 0.2)
            else:
                weight.add_(0.2 * torch.randn_like(weight))
        for name, weight in model.codec_model.named_buffers():
            if name.endswith("embed_sum"):
                weight.normal_(0, 1)
    for one in (model.generation_config, model.depth_decoder.generation_config):
        one.do_sample, one.temperature, one.top_k = True, 0.9, 12
    model.generation_config.max_new_tokens = FRAMES
    model.save_pretrained(folder)
    return CsmForConditionalGeneration.from_pretrained(folder).eval()


@torch.no_grad()
def spoken(model: CsmForConditionalGeneration, inputs: dict) -> dict[str, np.ndarray]:
    """Return greedy frames, and along them the logits of every code, by passes over all."""
    greedy = {"do_sample": False, "depth_decoder_do_sample": False, "max_new_tokens": FRAMES}
    frames = model.generate(**inputs, **greedy)[0]
    read: list[torch.Tensor] = []  # of each pass, what the backbone is given
    looks = model.backbone_model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["inputs_embeds"]), with_kwargs=True
    )
    model(**inputs)
    looks.remove()
    (prompt,) = read
    fed = torch.cat([prompt, model.backbone_model.embed_tokens(frames[None])], 1)
    hidden = model.backbone_model(inputs_embeds=fed).last_hidden_state[0]
    hidden = hidden[prompt.shape[1] - 1 : -1]
    within = torch.nn.functional.pad(frames[:, :-1], (1, 0))
    depth = model.depth_decoder(input_ids=within, backbone_last_hidden_state=hidden).logits
    first = model.lm_head(hidden)[:, None]
    return {"frames": frames.numpy(), "logits": torch.cat([first, depth], 1).numpy()}


def main(root: Path) -> None:
    """Write the model, prompts and what the model says."""
    whole = processor(root / "model")
    model = talker(root / "model", whole.tokenizer)
    drawn = np.random.default_rng(2)
    wave = (0.2 * drawn.standard_normal(5 * 1920 + 700)).astype(np.float32)
    turn = {"role": "0", "content": [{"type": "text", "text": SENTENCES[2]}]}
    voice = {"role": "0", "content": [*turn["content"], {"type": "audio", "path": wave}]}
    prompts, arrays = [], {"wave": wave}
    with torch.no_grad():
        codes = model.codec_model.encode(torch.from_numpy(wave)[None, None]).audio_codes[0]
        arrays["codes"] = codes.numpy()
        arrays["heard"] = model.codec_model.decode(codes[None]).audio_values[0, 0].numpy()
    for name, text, before in (
        ("alone", SENTENCES[0], []),
        ("voice", SENTENCES[1], [voice]),
    ):
        said = {"role": "0", "content": [{"type": "text", "text": text}]}
        inputs = whole.apply_chat_template([*before, said], tokenize=True, return_dict=True)
        ids = inputs["input_ids"][0].tolist()
        prompts.append({"name": name, "text": text, "ids": ids})
        if before:
            prompts[-1]["prompt_text"] = SENTENCES[2]
        arrays |= {f"{name}/{key}": value for key, value in spoken(model, inputs).items()}
    about = {"prompts": prompts, "sampler": {"temperature": 0.9, "top_k": 12}}
    (root / "golden.json").write_text(json.dumps(about, indent=1) + "\n")
    np.savez_compressed(root / "golden.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
