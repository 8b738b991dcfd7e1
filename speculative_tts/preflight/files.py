"""Is a checkpoint folder whole: the files that a loader opens, the shards that an index names.

Each function gives what is wrong in a few words, None when all is here. Nothing is read but what
tells a cut download: a safetensors header, the end of a zip.
"""

import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open

from speculative_tts.evaluation.weights import present
from speculative_tts.models.weight_files import INDEX, SINGLE, Index


def files(folder: Path, *names: str) -> str | None:
    """The first of these files that is missing or cut; `a|b` is either."""
    if not folder.is_dir():
        return "missing"
    for name in names:
        path = present(folder, name)
        if path is None:
            return f"missing: {name.replace('|', ' or ')}"
        if _is_cut(path):
            return f"cut off: {path.relative_to(folder)}"
    return None


def shards(folder: Path) -> str | None:
    """Weights as transformers writes them: one file, or what the index names."""
    index = folder / INDEX
    if (folder / SINGLE).is_file() or not index.is_file():
        return files(folder, SINGLE)
    try:
        names = Index.read(index).files
    except ValueError:
        return f"cut off: {INDEX}"
    for number, name in enumerate(names, start=1):
        wrong = files(folder, name)
        if wrong is not None:
            return f"{wrong.partition(':')[0]}: shard {number} of {len(names)}"
    return None


def _is_cut(path: Path) -> bool:
    """Does it end too early, as far as its own index can tell?"""
    if path.stat().st_size == 0:
        return True
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="numpy"):
                return False
        except SafetensorError:
            return True
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"  # what torch.save writes; an older format has no index
    return is_zip and not zipfile.is_zipfile(path)
