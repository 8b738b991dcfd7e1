"""Check that a checkpoint folder is whole: the files of its loader, the shards of its index.

Each function returns the fault in a few words, or None. Only what reveals a cut download is read: a
safetensors header, the end of a zip.
"""

import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open

from speculative_tts.evaluation.weights import present
from speculative_tts.models.decoder.weight_files import INDEX, SINGLE, Index


def files(folder: Path, *names: str) -> str | None:
    """Name the first of these files that is missing or cut; `a|b` is either."""
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
    """Check weights as transformers writes them: one file, or the shards of an index."""
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
    """Return True if a file ends earlier than its own index says."""
    if path.stat().st_size == 0:
        return True
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="numpy"):
                return False
        except SafetensorError:
            return True
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"  # torch.save's format; the older one has no index
    return is_zip and not zipfile.is_zipfile(path)
