"""Prepares a corpus: the tiny one (speech, codec, codes, lists), codes of a real one, a test list.

corpus=tiny: Flite speaks random word strings in the voices of several speakers; strings and some
speakers of the lists are never trained on; needs the `flite` program and the extra `tiny`.
corpus=sentences: Flite speaks English sentences of WordNet and the World English Bible (Debian
packages flite, wordnet-base, sword-text-web); one of 40 is kept for lists.
corpus=libritts, libriheavy: speech codes by the target's tokenizer, in Parquet shards (extra
`corpora`). corpus=list: a published test list joined with the recordings. corpus=voices: held-out
strings, each by every voice of the shipped list. corpus=fresh, registered, registered2: new strings
from new voice prompts, on which nothing was trained or chosen (need `flite`). corpus=features: the
tiny test list, or list_file=data/tiny/dev/list.jsonl, with codes of the features that its
recordings were made of, for sst-decode method=codec (needs `flite`). A run that was cut off
continues, but of corpus=features.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from speculative_tts.cluster import workers
from speculative_tts.commands import app
from speculative_tts.schema.prepare import Corpus, ListFormat, PrepareConfig

SHIPPED_LIST = "tiny:testset/list.jsonl"


def run(config: PrepareConfig) -> int:
    """Make what `config.corpus` says under `config.out`."""
    return PREPARE[config.corpus](config, app.require_writable(config.out))


def _tiny(config: PrepareConfig, out: Path) -> int:
    from speculative_tts_makers.corpora import tiny

    tiny.prepare_tiny(tiny.TinyCorpusRecipe(**vars(config)), out)
    return 0


def _sentences(config: PrepareConfig, out: Path) -> int:
    from speculative_tts_makers.corpora.sentence_codes import prepare_sentences

    prepare_sentences(config, out)
    return 0


def _codes(config: PrepareConfig, out: Path) -> int:
    from speculative_tts.corpora import libriheavy, libritts
    from speculative_tts.corpora.extract import Extraction, extract

    if not config.parts:
        raise ValueError("parts is empty; give parts=[train-clean-100,dev-clean]")
    how = Extraction(
        codec=config.codec.name,
        codec_path=Path(config.codec.path),
        shard_size=config.shard_size,
        what={"corpus": config.corpus.name, "parts": config.parts},
        job=config.job,
        jobs=config.jobs,
        allow_missing=config.allow_missing,
    )
    if config.corpus is Corpus.libritts:
        root = libritts.find_root(config.path)
        found = libritts.utterances(root, config.parts, out / "manifests", config.workers)
    else:
        found = libriheavy.utterances(config.path, config.audio, config.parts)
    with workers(config.cluster, config.workers) as many:
        dropped = extract(found, how, out / "codes", many)
    for line in dropped.lines():
        print(line)
    print(f"{out / 'codes'}: codes of {config.corpus.name} by {config.codec.name}")
    return 0


def _list(config: PrepareConfig, out: Path) -> int:
    from speculative_tts.corpora import libritts, listing
    from speculative_tts.corpora.published import SOURCES, read_published
    from speculative_tts.typed import write_json

    root = None if config.format is ListFormat.seedtts else libritts.find_root(config.path)
    there = libritts.parts_of(root) if root is not None else []
    if absent := [part for part in config.parts if root is not None and part not in there]:
        raise ValueError(f"{root} has no {absent[0]}; it has {', '.join(there)}")
    parts = config.parts or there
    unreadable: list[str] = []
    if config.format is ListFormat.random:
        assert root is not None
        seconds, unreadable = listing.recordings(root, parts)
        beside, rows = root, listing.draw(seconds, config.rows, config.seed)
    else:
        if config.list_file is None:
            raise ValueError(f"list_file is not set; get it from {SOURCES[config.format]}")
        path = Path(config.list_file)
        beside, rows = path.parent, read_published(path, config.format)
    made = listing.join(rows, root, parts, beside, keep_leaks=config.keep_leaks)
    made.unreadable.extend(unreadable)
    allowed = {"allow_missing": config.allow_missing, "strict": config.strict}
    for line in listing.write(made, out / "list.jsonl", **allowed):
        print(line)
    facts = {"format": config.format.name, "rows": len(made.items), "seed": config.seed}
    source = {"list_file": config.list_file, "leaks": made.leaks, "missing": made.missing}
    write_json(out / "list.json", facts | source | {"unreadable": made.unreadable})
    print(f"{out / 'list.jsonl'}: {len(made.items)} rows")
    return 0


def _voices(config: PrepareConfig, out: Path) -> int:
    from speculative_tts.assets import resolve
    from speculative_tts.records import read_list
    from speculative_tts_makers.corpora.voices import write_voices

    path = out / "list.jsonl"
    print(f"{path}: {write_voices(read_list(resolve(SHIPPED_LIST)), config, path)} rows")
    return 0


def _unseen(config: PrepareConfig, out: Path) -> int:
    from speculative_tts_makers.corpora.unseen import write_unseen

    print(f"{write_unseen(config, out)}: new strings and prompts")
    return 0


def _features(config: PrepareConfig, out: Path) -> int:
    from speculative_tts.codecs.registry import load_codec
    from speculative_tts.codecs.tiny import WorldCodec
    from speculative_tts.records import read_list
    from speculative_tts_makers.corpora.given import write_given

    codec = load_codec(config.codec.name, Path(config.codec.path))
    if not isinstance(codec, WorldCodec):
        raise ValueError(
            f"codec={config.codec.name} has other features than the tiny recordings; "
            "give codec=tiny, tiny_fine or tiny_residual"
        )
    path, items = out / "list.jsonl", read_list(Path(config.list_file or SHIPPED_LIST))
    print(f"{path}: {write_given(items, config, codec, path)} rows")
    return 0


PREPARE: dict[Corpus, Callable[[PrepareConfig, Path], int]] = {
    Corpus.tiny: _tiny,
    Corpus.sentences: _sentences,
    Corpus.libritts: _codes,
    Corpus.libriheavy: _codes,
    Corpus.list: _list,
    Corpus.voices: _voices,
    Corpus.fresh: _unseen,
    Corpus.registered: _unseen,
    Corpus.registered2: _unseen,
    Corpus.features: _features,
}

main = app.command(
    "prepare",
    PrepareConfig,
    run,
    examples=(
        "sst-prepare",
        "sst-prepare n_takes=200 n_fine_takes=0 out=data/small",
        "sst-prepare corpus=libritts path=corpora/LibriTTS codec=speechtokenizer workers=8",
        "sst-prepare corpus=libritts path=corpora/LibriTTS cluster=ray cluster.address=auto",
        "sst-prepare corpus=list path=corpora/LibriTTS list_file=testsetB_utt2prompt",
        "sst-prepare corpus=features",
        "sst-prepare corpus=list format=random rows=500 parts=[test-clean] path=corpora/LibriTTS",
    ),
    first=(
        *("corpus", "path", "parts", "list_file", "format"),
        *("rows", "codec", "out", "workers", "seed"),
    ),
    shorthand=app.CLUSTER,
)

if __name__ == "__main__":
    sys.exit(main())
