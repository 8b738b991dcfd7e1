"""What the papers' experiments lack on this machine: weights, lists, judges, disk, GPU memory.

Folders are those of the configs below `models` and the working directory. Sizes are those of the
published files, rounded up.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from speculative_tts.checks.judges import judges
from speculative_tts.checks.table import Finding
from speculative_tts.models.families import family_of

GIB = 2**30
RUNS_GIB = 40  # audio and records of all experiments
GPU_GIB = 24  # LLaSA-8B in bfloat16 with its draft and caches: 16.1 + 2.6 + activations
LIST = "sst-prepare corpus=list {options} path=<LibriTTS> out=data/{name}"


@dataclass(frozen=True)
class Weights:
    """A folder below `models`: files that tell it, its size to download, how to get it."""

    folder: str
    paper: str
    files: tuple[str, ...]
    gib: float
    command: str


WEIGHTS = (
    Weights(
        "CosyVoice2-0.5B",
        "SSD",
        ("llm.pt", "CosyVoice-BlankEN/config.json", "speech_tokenizer_v2.onnx"),
        5,
        "modelscope download --model iic/CosyVoice2-0.5B --local_dir {place}",
    ),
    Weights(
        "Llasa-8B",
        "PCG",
        ("config.json", "tokenizer.json"),
        17,
        "hf download HKUSTAudio/Llasa-8B --local-dir {place}",
    ),
    Weights(
        "xcodec2-hf",
        "PCG",
        ("config.json",),
        4,
        "hf download HKUSTAudio/xcodec2-hf --local-dir {place}",
    ),
    Weights("valle", "MTP", ("config.json",), 0, "train VALL-E, or link yours to {place}"),
    Weights("uslm", "MTP", ("config.json",), 0, "train USLM, or link yours to {place}"),
    Weights(
        "speechtokenizer_hubert_avg",
        "MTP",
        ("config.json", "SpeechTokenizer.pt"),
        1,
        "hf download fnlp/SpeechTokenizer --include 'speechtokenizer_hubert_avg/*' "
        "--local-dir {models}",
    ),
)
LISTS = {  # name -> paper, options of sst-prepare
    "unicats_b": ("SSD", "list_file=testsetB_utt2prompt"),
    "test_clean_500": ("PCG", "format=random parts=[test-clean]"),
    "test_clean": ("MTP", "format=random rows=null parts=[test-clean]"),
}
DRAFTS = {  # folder -> paper, the command that makes it
    "runs/draft-cosyvoice2": ("SSD", "sst-train-draft recipe=cosyvoice2"),
    "runs/draft-llasa-8b": ("PCG", "sst-train-draft recipe=llasa_8b_subset"),
}


def paper(models: str) -> list[Finding]:
    """Everything the papers' experiments need, in the order in which one gets it."""
    weights = [_weights(one, Path(models)) for one in WEIGHTS]
    wanted = sum(one.gib for one, found in zip(WEIGHTS, weights, strict=True) if not found.here)
    drafts = [
        _made(folder, paper, command, here=_is_speech_lm(Path(folder)))
        for folder, (paper, command) in DRAFTS.items()
    ]
    lists = [_list(name, paper, options) for name, (paper, options) in LISTS.items()]
    heard = [
        one for one in judges(str(Path(models) / "judges")) if one.needed_by != "judges=offline"
    ]
    return [*weights, *drafts, *lists, *heard, _disk(Path(models), wanted), _gpu()]


def _weights(one: Weights, models: Path) -> Finding:
    place = models / one.folder
    lacking = [name for name in one.files if not (place / name).is_file()]
    state = "here" if not lacking else f"no {lacking[0]}"
    remedy = one.command.format(place=place, models=models) if lacking else ""
    return Finding(str(place), one.paper, here=not lacking, state=state, remedy=remedy)


def _list(name: str, needed_by: str, options: str) -> Finding:
    path = f"data/{name}/list.jsonl"
    command = LIST.format(options=options, name=name)
    return _made(path, needed_by, command, here=Path(path).is_file())


def _is_speech_lm(folder: Path) -> bool:
    """Is it a checkpoint that the loaders know? What tells one is written last."""
    try:
        return family_of(folder) is not None
    except ValueError:
        return False


def _made(path: str, needed_by: str, command: str, *, here: bool) -> Finding:
    remedy = "" if here else command
    return Finding(path, needed_by, here=here, state="here" if here else "missing", remedy=remedy)


def _disk(models: Path, weights: float) -> Finding:
    """Room for what is still to be downloaded and made, on the disk of `models`."""
    place = next(path for path in (models, *models.absolute().parents) if path.exists())
    free, needed = shutil.disk_usage(place).free / GIB, weights + RUNS_GIB
    remedy = (
        ""
        if free >= needed
        else f"make room, or give MODELS=<folder> on a disk of {needed:.0f} GiB"
    )
    state = f"{free:.0f} of {needed:.0f} GiB"
    return Finding("free disk", "all", here=free >= needed, state=state, remedy=remedy)


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        remedy = f"run on a machine with a GPU of {GPU_GIB} GiB"
        return Finding("GPU memory", "all", here=False, state="no GPU", remedy=remedy)
    memory = torch.cuda.get_device_properties(0).total_memory / GIB
    remedy = "" if memory >= GPU_GIB else "LLaSA-8B does not fit: target=llasa_3b draft=llasa_1b"
    state = f"{memory:.0f} of {GPU_GIB} GiB"
    return Finding("GPU memory", "all", here=memory >= GPU_GIB, state=state, remedy=remedy)
