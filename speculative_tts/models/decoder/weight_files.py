"""Find the files that hold a Hugging Face folder's weights: one, or the shards of an index."""

from dataclasses import dataclass
from pathlib import Path

from speculative_tts.typed import read_json, typed

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER, PICKLED = "adapter_config.json", "pytorch_model*.bin"
COPY = "copy it from the checkpoint again"


def refuse_adapter(folder: Path) -> None:
    """Raise ValueError for a folder with an adapter: its base would speak without it."""
    if (folder / ADAPTER).is_file():
        raise ValueError(
            f"{folder} holds an adapter ({ADAPTER}), which is not applied here; merge it "
            "(peft: model.merge_and_unload().save_pretrained(<folder>)) and give that folder"
        )


@dataclass(frozen=True)
class Index:
    """The index of sharded weights: it names the file of each tensor."""

    weight_map: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Index":
        """Read an index file; ValueError with file, fault and remedy for another one."""
        index = typed(cls, read_json(path, COPY), path)
        odd = sorted({name for name in index.weight_map.values() if Path(name).name != name})
        if odd or not index.weight_map:
            what = f"names {odd[0]!r}, no file beside it" if odd else "names no tensor"
            raise ValueError(f"{path} {what}; {COPY}")
        return index

    @property
    def files(self) -> list[str]:
        """Names of the shards."""
        return sorted(set(self.weight_map.values()))


def weight_files(folder: Path) -> list[Path]:
    """Return a checkpoint's safetensors files; ValueError if there are none, or an adapter's."""
    refuse_adapter(folder)
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        return [folder / name for name in Index.read(folder / INDEX).files]
    if any(folder.glob(PICKLED)):
        raise ValueError(
            f"{folder} has its weights in {PICKLED}, which may run code; save them as {SINGLE} "
            "(transformers: from_pretrained(<folder>).save_pretrained(<folder>))"
        )
    raise ValueError(f"no {SINGLE} in {folder}; give a folder with config.json and {SINGLE}")
