"""Make the golden files of Orpheus, Maya1, Veena and Spark-TTS: python generate.py <folder>.

Weights are random and small, tokenizers are trained on a few invented sentences, and the ids of
tokens lie as in the published vocabularies: text, special tokens of the backbone, then speech.
Prompts are built here in the few steps of the authors' code (README.md names each place); logits,
greedy tokens and sampled scores are transformers' own, waves and codes those of the package `snac`.
Nothing of speculative_tts is imported.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from snac import SNAC
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

SENTENCES = [
    "The ferry leaves at seven, and nobody waits for the tide.",
    "Would you read it again, a little softer this time?",
    "Nine small boats lay in the harbour below the old mill.",
    "She said: keep the lamp lit until the rain has gone.",
]
TEXTS = {"plain": SENTENCES[0], "asked": "Would you wait at the mill?", "odd": "Rain; tide -- 42!"}
SIZE, SLOTS = 16, 7  # codes of a position, positions of a frame
LLAMA = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>"]
SPEAKERS = ["kavya", "agastya", "maitri", "vinaya"]
DESCRIPTION = "A calm voice in its thirties, warm and slow."
GLOBALS, SEMANTIC = 64, 96
SPARK = [
    *("<|task_tts|>", "<|start_content|>", "<|end_content|>", "<|start_global_token|>"),
    *("<|end_global_token|>", "<|start_semantic_token|>", "<|end_semantic_token|>"),
]


def tokenizer(folder: Path, special: list[str], speech: list[str], bos: str | None) -> None:
    """Train a byte-level BPE and add tokens in this order, as the checkpoints' files have them."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(SENTENCES, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made)
    wrapped.add_special_tokens({"additional_special_tokens": special})
    wrapped.add_tokens(speech)
    if bos is not None:
        wrapped.bos_token = bos
        pair = (bos, wrapped.convert_tokens_to_ids(bos))
        wrapped.backend_tokenizer.post_processor = processors.Sequence(
            [processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[pair])]
        )
    wrapped.save_pretrained(folder)


def llama(folder: Path, rows: int, seed: int) -> None:
    """Write a small Llama 3.2: llama3 RoPE that shows at these lengths, tied embeddings."""
    config = LlamaConfig(
        vocab_size=rows, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512,
        rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0,
            "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
        },
    )  # fmt: skip
    torch.manual_seed(seed)
    sharp(LlamaForCausalLM(config)).save_pretrained(folder)


def qwen(folder: Path, rows: int, seed: int) -> None:
    """Write a small Qwen2.5: biases of queries, keys and values, tied embeddings."""
    config = Qwen2Config(
        vocab_size=rows, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )  # fmt: skip
    torch.manual_seed(seed)
    sharp(Qwen2ForCausalLM(config)).save_pretrained(folder)


def sharp(model: torch.nn.Module) -> torch.nn.Module:
    """Draw all weights anew, large enough that logits differ by more than rounding."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.5 if "embed" in name else 0.15)
            else:
                weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


class Frames(LogitsProcessor):
    """Leave what a position of a frame may hold; the end comes after whole frames alone."""

    def __init__(self, prompt: int, first: int, size: int, slots: int, end: int) -> None:
        self.prompt, self.first, self.size, self.slots, self.end = prompt, first, size, slots, end

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        slot = (input_ids.shape[1] - self.prompt) % self.slots
        barred = torch.ones_like(scores, dtype=torch.bool)
        begin = self.first + slot * self.size
        barred[:, begin : begin + self.size] = False
        if slot == 0:
            barred[:, self.end] = False
        return scores.masked_fill(barred, -torch.inf)


def runs(model, prompt: list[int], end: int, frames: dict, sampler: dict) -> dict:
    """Return what transformers makes of a prompt: greedy and sampled, free and in frames."""
    ids, found = torch.tensor([prompt]), {}
    mask = torch.ones_like(ids)
    common = {"attention_mask": mask, "eos_token_id": end, "pad_token_id": end, "use_cache": True}
    shape = {"return_dict_in_generate": True, "output_scores": True}
    for name, processors_ in {
        "free": [],
        "frames": [Frames(len(prompt), **frames, end=end)],
    }.items():
        extra = {"logits_processor": LogitsProcessorList(processors_)}
        greedy = {"do_sample": False, "max_new_tokens": 3 * SLOTS + 2}
        found[f"{name}_greedy"] = model.generate(ids, **common, **extra, **greedy)[0].numpy()
        torch.manual_seed(5)
        drawn = {"do_sample": True, "max_new_tokens": SLOTS + 3, **sampler}
        made = model.generate(ids, **common, **extra, **drawn, **shape)
        found[f"{name}_sampled"] = made.sequences[0].numpy()
        found[f"{name}_scores"] = torch.cat(made.scores).numpy()
    with torch.no_grad():
        whole = torch.from_numpy(found["frames_greedy"])[None]
        found["logits"] = model(whole).logits[0, len(prompt) - 1 :].numpy()
    return found


def family(folder: Path, rows: dict, prompts: list[dict], frames: dict, sampler: dict) -> None:
    """Write a family's prompts and what its model makes of them."""
    names = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
    end, arrays = names.convert_tokens_to_ids(rows["end"]), {}
    for one in prompts[:2]:
        for key, value in runs(model, one["ids"], end, frames, sampler).items():
            arrays[f"{one['name']}/{key}"] = value
    about = {"rows": rows, "sampler": sampler, "frames": frames, "prompts": prompts}
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")
    np.savez_compressed(folder / "golden.npz", **arrays)


def prompts_alone(folder: Path, rows: dict, prompts: list[dict]) -> None:
    """Write the prompts of a family whose model differs from Orpheus' in nothing else."""
    folder.mkdir(exist_ok=True)
    about = {"model": "../orpheus/model", "rows": rows, "prompts": prompts}
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")


def orpheus(root: Path) -> None:
    """Write the three families of one layout; the first one's model is the others' too."""
    folder = root / "orpheus"
    speech = [f"<custom_token_{n}>" for n in range(10 + SLOTS * SIZE + 2)]
    others = [f"<spk_{name}>" for name in SPEAKERS]
    tokenizer(folder / "model", LLAMA, [*speech, *others], "<|begin_of_text|>")
    t = AutoTokenizer.from_pretrained(folder / "model")
    base = t.convert_tokens_to_ids("<custom_token_0>")  # 128256 in the published vocabulary
    sos, soh, eoh, soa = (base + n for n in (1, 3, 4, 5))
    eot = t.convert_tokens_to_ids("<|eot_id|>")  # 128009
    llama(folder / "model", len(t), 11)
    frames = {"first": base + 10, "size": SIZE, "slots": SLOTS}
    common = {
        "code": "<custom_token_{}>", "first": 10, "count": SLOTS * SIZE, "slots": SLOTS,
        "end": "<custom_token_2>", "assistant": "<custom_token_5><custom_token_1>",
        "chat": False, "date": None, "text_rows": False,
    }  # fmt: skip

    def official(text: str, voice: str) -> list[int]:  # the ids of OrpheusModel's prompt
        return [soh, *t(f"{voice}: {text}").input_ids, eot, eoh, soa, sos]

    known = ["tara", "leo"]
    prompts = [
        {"name": f"{name}_{voice}", "text": text, "speaker": voice, "ids": official(text, voice)}
        for voice in known
        for name, text in TEXTS.items()
    ]
    user = "<custom_token_3><|begin_of_text|>{speaker}: {text}<|eot_id|><custom_token_4>"
    rows = common | {"user": user, "speakers": known}
    sampler = {"temperature": 0.6, "top_k": 0, "top_p": 0.8, "repetition_penalty": 1.3}
    family(folder, rows, prompts, frames, sampler)

    def build_prompt(text: str) -> str:  # of Maya1's model card
        said = f'<description="{DESCRIPTION}"> {text}'
        soh_, eoh_, soa_, sos_, eot_ = (t.decode([i]) for i in (soh, eoh, soa, sos, eot))
        return soh_ + t.bos_token + said + eot_ + eoh_ + soa_ + sos_

    prompts = [
        {"name": name, "text": text, "speaker": DESCRIPTION, "ids": t(build_prompt(text)).input_ids}
        for name, text in TEXTS.items()
    ]
    spoken = '<|begin_of_text|><description="{speaker}"> {text}<|eot_id|>'
    user = f"<custom_token_3>{spoken}<custom_token_4>"
    rows = common | {"user": user, "bos": True}
    prompts_alone(root / "maya1", rows, prompts)

    def generate_speech(text: str, speaker: str) -> list[int]:  # of Veena's model card
        spoken = t.encode(f"<spk_{speaker}> {text}", add_special_tokens=False)
        return [soh, *spoken, eoh, soa, sos]

    prompts = [
        {"name": name, "text": text, "speaker": speaker, "ids": generate_speech(text, speaker)}
        for (name, text), speaker in zip(TEXTS.items(), SPEAKERS, strict=False)
    ]
    user = "<custom_token_3><spk_{speaker}> {text}<custom_token_4>"
    rows = common | {"user": user, "speakers": SPEAKERS, "ends": ["<custom_token_6>"]}
    prompts_alone(root / "veena", rows, prompts)


def spark(root: Path) -> None:
    """Write Spark-TTS: prompts by SparkTTS.process_prompt, with and without the voice's words."""
    folder = root / "spark"
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    speech = [f"<|bicodec_global_{n}|>" for n in range(GLOBALS)]
    speech += [f"<|bicodec_semantic_{n}|>" for n in range(SEMANTIC)]
    tokenizer(folder / "model", special, [*speech, *SPARK], None)
    t = AutoTokenizer.from_pretrained(folder / "model")
    qwen(folder / "model", len(t) + 3, 12)  # the published embedding is padded too
    drawn = np.random.default_rng(0)
    voice = drawn.integers(0, GLOBALS, 32).tolist()
    semantic = drawn.integers(0, SEMANTIC, 9).tolist()

    def process_prompt(text: str, prompt_text: str | None) -> str:
        globals_ = "".join(f"<|bicodec_global_{i}|>" for i in voice)
        inputs = ["<|task_tts|>", "<|start_content|>", prompt_text or "", text, "<|end_content|>"]
        inputs += ["<|start_global_token|>", globals_, "<|end_global_token|>"]
        if prompt_text is not None:
            inputs += ["<|start_semantic_token|>"]
            inputs += [f"<|bicodec_semantic_{i}|>" for i in semantic]
        return "".join(inputs)

    prompts = []
    for name, text in TEXTS.items():
        for words in (SENTENCES[2], None):
            ids = t([process_prompt(text, words)]).input_ids[0]
            start = [] if words else t.convert_tokens_to_ids(["<|start_semantic_token|>"])
            prompts.append({
                "name": f"{name}_{'words' if words else 'alone'}", "text": text,
                "prompt_text": words or "", "codes": semantic, "voice_codes": voice,
                "ids": [*ids, *start], "opened_here": bool(start),
            })  # fmt: skip
    rows = {
        "code": "<|bicodec_semantic_{}|>", "count": SEMANTIC, "end": "<|im_end|>", "chat": False,
        "user": "<|task_tts|><|start_content|>{text}<|end_content|>"
        "<|start_global_token|>{voice}<|end_global_token|>",
        "assistant": "<|start_semantic_token|>", "voice": "<|bicodec_global_{}|>", "date": None,
    }  # fmt: skip
    first = t.convert_tokens_to_ids("<|bicodec_semantic_0|>")
    frames = {"first": first, "size": SEMANTIC, "slots": 1}
    family(folder, rows, prompts, frames, {"temperature": 0.8, "top_k": 50, "top_p": 0.95})


def snac(root: Path) -> None:
    """Write a small SNAC of the published shape, codes of a wave, and waves of codes."""
    folder = root / "snac"
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "sampling_rate": 24000, "encoder_dim": 4, "encoder_rates": [2, 4, 8, 8],
        "decoder_dim": 32, "decoder_rates": [8, 8, 4, 2], "attn_window_size": None,
        "codebook_size": SIZE, "codebook_dim": 4, "vq_strides": [4, 2, 1], "noise": True,
        "depthwise": True,
    }  # fmt: skip
    torch.manual_seed(13)
    model = SNAC(**config).eval()
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    drawn = np.random.default_rng(1)
    wave = (0.2 * drawn.standard_normal(3 * 2048 + 700)).astype(np.float32)
    with torch.inference_mode():
        levels = [one[0].numpy() for one in model.encode(torch.from_numpy(wave)[None, None])]
    frames = drawn.integers(0, SIZE, (5, SLOTS))
    rows = (frames + SIZE * np.arange(SLOTS)).reshape(-1)  # what the LM says, from its first code
    codes_0, codes_1, codes_2 = [], [], []  # as orpheus_tts.decoder.convert_to_audio parts them
    for frame in frames.tolist():
        codes_0 += [frame[0]]
        codes_1 += [frame[1], frame[4]]
        codes_2 += [frame[2], frame[3], frame[5], frame[6]]
    codes = [torch.tensor([one]) for one in (codes_0, codes_1, codes_2)]
    torch.manual_seed(0)  # the decoder adds noise
    with torch.inference_mode():
        said = model.decode(codes)[0, 0].numpy()
    own = {f"level_{n}": one for n, one in enumerate(levels)}
    np.savez_compressed(folder / "snac.npz", wave=wave, rows=rows, said=said, **own)


if __name__ == "__main__":
    for make in (orpheus, spark, snac):
        make(Path(sys.argv[1]))
