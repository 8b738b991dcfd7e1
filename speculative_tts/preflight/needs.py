"""List everything that the runs of each paper read: its place, its faults, and how to get it.

Folders are those of the configs below `models` and the working directory. The loaders say which
files make a thing whole. Sizes are of the published files or of what is made, rounded up.
"""

import importlib.util
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from speculative_tts.caches.store import MANIFEST
from speculative_tts.caches.transitions import ABOUT, COUNTS
from speculative_tts.codecs import cosyvoice as cosyvoice_codec
from speculative_tts.codecs import speechtokenizer
from speculative_tts.codecs.xcodec2 import Xcodec2
from speculative_tts.corpora.libriheavy import MANIFEST as CUTS
from speculative_tts.corpora.libritts import parts_of
from speculative_tts.models import heads
from speculative_tts.models.families.cosyvoice import BACKBONE
from speculative_tts.models.families.cosyvoice_files import WEIGHTS, YAML_NAMES, is_official
from speculative_tts.models.families.registry import VALLE, family_of
from speculative_tts.models.layout import FILE
from speculative_tts.preflight.files import files, shards
from speculative_tts.records import read_list
from speculative_tts.schema.evaluate import Paper
from speculative_tts.typed import read_json

Lacking = Callable[[], str | None]


@dataclass(frozen=True)
class Requirement:
    """One needed thing: its name, fault (None: it is here), remedy, and disk space.

    `made_of` are needed only while it does not exist.
    """

    item: str
    lacking: Lacking
    command: str
    gib: float = 0.0
    made_of: tuple["Requirement", ...] = ()

    def states(self) -> Iterator[tuple["Requirement", str | None]]:
        """Yield what it must be made of, if it does not exist, then itself; each with its fault."""
        lacking = self.lacking()
        if lacking is not None:
            for source in self.made_of:
                yield from source.states()
        yield self, lacking


def needs(models: Path) -> dict[Paper, list[Requirement]]:
    """Return the needs of each paper's runs, in the order in which to get them."""
    return {Paper.ssd: _ssd(models), Paper.pcg: _pcg(models), Paper.mtp: _mtp(models)}


def _ssd(models: Path) -> list[Requirement]:
    target = models / "CosyVoice2-0.5B"
    return [
        Requirement(
            str(target), partial(_cosyvoice, target), _get("FunAudioLLM/CosyVoice2-0.5B", target), 5
        ),
        Requirement(
            "onnxruntime or s3tokenizer",
            partial(_packages, "onnxruntime|s3tokenizer"),
            "pip install onnxruntime",
        ),
        Requirement(
            "CosyVoice's own code",
            partial(_packages, "cosyvoice.cli.cosyvoice", "matcha", "hyperpyyaml"),
            cosyvoice_codec.HOW,
        ),
        Requirement(
            "runs/draft-cosyvoice2",
            partial(_speech_lm, Path("runs/draft-cosyvoice2")),
            f"sst-train-draft recipe=cosyvoice2 target.path={_word(target)}",
            5,  # states of 40 M parameters, the export
            (_codes("cosyvoice2", f"{LIBRITTS_TO} codec=cosyvoice2", target, LIBRITTS, 1),),
        ),
        _list("unicats_b", "list_file=testsetB_utt2prompt"),
    ]


def _pcg(models: Path) -> list[Requirement]:
    target, codec = models / "Llasa-8B", models / "xcodec2-hf"
    return [
        Requirement(
            str(target), partial(_speech_lm, target), _get("HKUSTAudio/Llasa-8B", target), 17
        ),
        Requirement(str(codec), partial(_xcodec2, codec), _get(Xcodec2.download, codec), 4),
        Requirement(
            "runs/draft-llasa-8b",
            partial(_speech_lm, Path("runs/draft-llasa-8b")),
            f"sst-train-draft recipe=llasa_8b_subset target.path={_word(target)}",
            130,  # three states of 36 GB, columns of the codes
            (_codes("llasa", f"{LIBRIHEAVY_TO} codec=xcodec2", codec, LIBRIHEAVY, 20),),
        ),
        _list("test_clean_500", "format=random parts=[test-clean]"),
    ]


def _mtp(models: Path) -> list[Requirement]:
    codec = models / "speechtokenizer_hubert_avg"
    transitions = models / "speechtokenizer_hubert_avg_transitions"
    options = f"{LIBRITTS_TO} codec=speechtokenizer"
    codes = _codes("speechtokenizer", options, codec, LIBRITTS, 3)
    found = [
        Requirement(
            str(codec),
            partial(files, codec, speechtokenizer.CONFIG, speechtokenizer.WEIGHTS),
            "hf download fnlp/SpeechTokenizer --include 'speechtokenizer_hubert_avg/*' "
            f"--local-dir {_word(models)}",
            1,
        ),
        Requirement(
            str(transitions),
            partial(_transitions, transitions),
            "sst-precompute cache=transitions codec=speechtokenizer "
            f"codec.path={_word(codec)} transitions.codes=data/speechtokenizer/codes "
            f"export={_word(transitions)}",
            made_of=(codes,),
        ),
        _list("test_clean", "format=random rows=null parts=[test-clean]"),
    ]
    for name, start in (("valle", _fresh(models, codes)), ("uslm", _published(models))):
        target, own = models / name, models / f"{name}_heads"
        command = (
            f"sst-train-heads recipe={name}_heads target.path={_word(start.item)} "
            f"target_out={_word(target)} out={_word(own)}"
        )
        made = Requirement(str(target), partial(_valle, target), command, 11, (start, codes))
        found += [made, Requirement(str(own), partial(_heads, own, target), command)]
    return found


def _fresh(models: Path, codes: Requirement) -> Requirement:
    """Return the need of untrained VALL-E weights over these codes; none are published."""
    start = models / "valle_start"
    command = f"sst-import-valle fresh.codes={codes.item} out={_word(start)}"
    return Requirement(str(start), partial(_valle, start), command, 2, (codes,))


def _published(models: Path) -> Requirement:
    """Return the need of USLM's published file."""
    start, source = models / "uslm_start", models / "USLM_libritts"
    names = ("USLM.pt", "unique_text_tokens.k2symbols")
    command = f"hf download fnlp/USLM --include 'USLM_libritts/*' --local-dir {_word(models)}"
    published = Requirement(str(source), partial(files, source, *names), command, 5)
    command = (
        f"sst-import-valle model=uslm checkpoint={_word(source / names[0])} "
        f"symbols={_word(source / names[1])} out={_word(start)}"
    )
    return Requirement(str(start), partial(_valle, start), command, 2, (published,))


def _get(repository: str, place: Path) -> str:
    return f"hf download {repository} --local-dir {_word(place)}"


def _word(path: str | Path) -> str:
    return shlex.quote(str(path))


def _list(name: str, options: str) -> Requirement:
    path = f"data/{name}/list.jsonl"
    command = f"sst-prepare corpus=list {options} path=data/LibriTTS out=data/{name}"
    return Requirement(path, partial(_recordings, Path(path)), command, made_of=(TEST_CLEAN,))


def _codes(name: str, options: str, codec: Path, corpus: Requirement, gib: float) -> Requirement:
    """Return the need of training codes in data/<name>."""
    path = Path("data") / name / "codes"
    command = f"sst-prepare {options} codec.path={_word(codec)} out={path.parent}"
    return Requirement(str(path), partial(_shards_of, path), command, gib, (corpus,))


def _libritts(item: str, gib: float, *parts: str) -> Requirement:
    folder = Path("data/LibriTTS")
    command = (
        f"for part in {' '.join(parts)}; do curl -L https://www.openslr.org/resources/60/"
        "$part.tar.gz | tar xz -C data; done"
    )
    return Requirement(f"{folder}, {item}", partial(_parts, folder, parts), command, gib)


def _parts(folder: Path, parts: tuple[str, ...]) -> str | None:
    absent = [part for part in parts if part not in parts_of(folder)]
    return f"missing: {absent[0]}" if absent else None


def _shards_of(folder: Path) -> str | None:
    """Check the codes of both splits that a training reads."""
    absent = [split for split in ("train", "dev") if not any(folder.glob(f"{split}-*.parquet"))]
    return f"missing: {absent[0]}" if absent else None


TEST_CLEAN = _libritts("test", 2, "test-clean")
TRAINING = ("train-clean-100", "train-clean-360", "train-other-500", "dev-clean", "dev-other")
LIBRITTS = _libritts("training", 80, *TRAINING)
LIBRITTS_TO = "corpus=libritts path=data/LibriTTS"
LIBRIHEAVY_TO = "corpus=libriheavy path=data/Libriheavy audio=data/Libriheavy"
LIBRIHEAVY = Requirement(  # its recordings, which the manifests name, are not checked
    "data/Libriheavy",
    partial(files, Path("data/Libriheavy"), *(CUTS.format(part=part) for part in ("large", "dev"))),
    "hf download pkufool/libriheavy --repo-type dataset --local-dir data/Libriheavy, and its "
    "recordings by the README of facebookresearch/libri-light",
    3_010,
)


def _speech_lm(folder: Path) -> str | None:
    """Check a speech LM: that a family claims the folder, and that its weights are whole."""
    try:
        family_of(folder)
    except ValueError:
        return "missing"
    return files(folder, "|".join(WEIGHTS)) if is_official(folder) else shards(folder)


def _cosyvoice(folder: Path) -> str | None:
    """Check CosyVoice's LM, tokenizers, and the files that the official classes open."""
    text = f"{BACKBONE}/vocab.json|{BACKBONE}/tokenizer.json"
    own = ("|".join(WEIGHTS), f"{BACKBONE}/config.json", text, "|".join(YAML_NAMES))
    return files(folder, *own, "|".join(cosyvoice_codec.TOKENIZERS), *cosyvoice_codec.AUDIO)


def _xcodec2(folder: Path) -> str | None:
    wrong = files(folder, "config.json") or shards(folder)
    if wrong is None and _json(folder / "config.json").get("model_type") != Xcodec2.model_type:
        return f"no {Xcodec2.model_type}"
    return wrong


def _valle(folder: Path) -> str | None:
    """Check config.json, weights and speech.json of a VALL-E folder."""
    wrong = files(folder, "config.json", FILE) or shards(folder)
    return "no VALL-E" if wrong is None and not VALLE.found(folder) else wrong


def _heads(folder: Path, target: Path) -> str | None:
    """Check that a folder has heads and that they belong to this target."""
    wrong = files(folder, heads.DESCRIPTION, heads.WEIGHTS)
    if wrong is None and _valle(target) is None:
        own = _json(folder / heads.DESCRIPTION).get("target") == heads.target_hash(target)
        return None if own else "of other weights"
    return wrong


def _transitions(folder: Path) -> str | None:
    """Check exported counts of transitions, or a cache."""
    return None if (folder / MANIFEST).is_file() else files(folder, ABOUT, COUNTS)


def _recordings(path: Path) -> str | None:
    """Check a list and the audio that it names."""
    try:
        items = read_list(path)
    except ValueError:
        return "missing"
    wanted = {audio for one in items for audio in (one.prompt_audio, one.reference_audio) if audio}
    absent = sum(not Path(audio).is_file() for audio in wanted)
    return f"missing: {absent} of {len(wanted)} recordings" if absent else None


def _packages(*modules: str) -> str | None:
    """Name the modules that Python does not find; `a|b` is either."""
    for names in modules:
        if not any(_is_found(name) for name in names.split("|")):
            return "missing" if "|" in names else f"missing: {names.partition('.')[0]}"
    return None


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def _json(path: Path) -> dict[str, object]:
    """Read a JSON object; empty if the file is none."""
    try:
        return read_json(path)
    except ValueError:
        return {}
