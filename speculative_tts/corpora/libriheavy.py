"""Read Libriheavy: cuts of Libri-Light recordings with their book text, in lhotse's manifests.

A part's manifest is `libriheavy_cuts_<part>.jsonl.gz`. Its recordings are named relative to the
folder of Libri-Light. Of a cut's two texts the first is used (cased, punctuated).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from speculative_tts.corpora.utterance import Utterance, lhotse

MANIFEST = "libriheavy_cuts_{part}.jsonl.gz"


def utterances(folder: str | None, audio: str | None, parts: list[str]) -> Iterator[Utterance]:
    """Yield all cuts of the parts, in the manifests' order; ValueError without a manifest."""
    if folder is None:
        raise ValueError(f"path is not set; give path=<folder of {MANIFEST.format(part='small')}>")
    manifests = [Path(folder) / MANIFEST.format(part=part) for part in parts]
    for manifest in manifests:
        if not manifest.is_file():
            raise ValueError(
                f"{manifest} not found; get it with: hf download pkufool/libriheavy "
                f"--repo-type dataset --local-dir {folder}"
            )
    return _cuts(manifests, parts, Path(audio or folder))


def _cuts(manifests: list[Path], parts: list[str], root: Path) -> Iterator[Utterance]:
    for manifest, part in zip(manifests, parts, strict=True):
        for cut in _read(manifest):
            if not cut.supervisions:
                raise ValueError(f"{manifest}: cut {cut.id} has no text; take its line out")
            speech = cut.supervisions[0]
            texts = (speech.custom or {}).get("texts") or [speech.text]
            yield Utterance(
                id=str(cut.id).replace("/", "_"),
                speaker=str(speech.speaker),
                split=part.partition("_")[0] if part.startswith(("dev", "test")) else "train",
                text=str(texts[0]),
                audio=str(root / cut.recording.sources[0].source),
                start=float(cut.start),
                seconds=float(cut.duration),
            )


def _read(manifest: Path) -> Iterator[Any]:
    """Yield the cuts of a manifest; ValueError names it if it is torn or of another kind."""
    try:
        yield from lhotse("cut").CutSet.from_jsonl_lazy(manifest)
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, OSError) as error:
        raise ValueError(f"{manifest} is no manifest of cuts ({error!r}); get it again") from error
