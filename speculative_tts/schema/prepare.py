"""Settings of sst-prepare, sst-precompute and sst-import-valle."""

from dataclasses import dataclass, field
from enum import Enum

from speculative_tts.schema.common import (
    CheckpointConfig,
    ClusterConfig,
    CodecConfig,
    Device,
    GroupsConfig,
    TransitionsConfig,
)
from speculative_tts.schema.fields import (
    Count,
    Few,
    Many,
    ReadPath,
    Seed,
    Several,
    Threads,
    Whole,
    WrittenPath,
)


class Corpus(Enum):
    """The data that sst-prepare makes."""

    tiny = "tiny"  # spoken by Flite: codec, codes, dev and test list
    sentences = "sentences"  # any English sentence, spoken by Flite
    libritts = "libritts"  # codes of LibriTTS, read by lhotse
    libriheavy = "libriheavy"  # codes of Libriheavy, read by lhotse
    voices = "voices"  # the dev list's strings, each by every voice of the shipped test list
    fresh = "fresh"  # new strings and voice prompts, spoken by Flite
    registered = "registered"  # others, on which the claims' verdicts are taken
    registered2 = "registered2"  # others again, of a second registration
    # the tiny test or dev list with codes of the features that its recordings were made of
    features = "features"
    list = "list"  # a published test list as rows of this package


class ListFormat(Enum):
    """Published test lists."""

    unicats = "unicats"  # UniCATS test sets A and B: `utterance prompt` a line (LibriTTS ids)
    f5 = "f5"  # F5-TTS's cross-sentence list: six columns (LibriSpeech ids)
    seedtts = "seedtts"  # seed-tts-eval's meta.lst: id|prompt text|prompt wav|text[|wav]
    random = "random"  # no list: random utterances and prompts of the corpus (PCG)


@dataclass
class PrepareConfig:
    """sst-prepare: a corpus; the makers' `corpora.tiny.TinyCorpusRecipe` adds fixed settings."""

    corpus: Corpus = Corpus.tiny  # corpus=<name> also chooses the defaults of the others
    path: ReadPath | None = None  # where the corpus is: the folder with dev-clean, test-clean, ...
    # folders of LibriTTS, or libriheavy_cuts_<part>.jsonl.gz; for a list: where its ids are sought
    parts: list[str] = field(default_factory=list)
    audio: ReadPath | None = None  # Libriheavy: folder of the Libri-Light recordings; null: path
    codec: CodecConfig = field(default_factory=CodecConfig)  # the target's tokenizer
    shard_size: Count = 1000  # utterances of a Parquet shard
    job: Whole = 0  # this process makes shards job, job + jobs, ...: job=0,1,2,3 jobs=4
    jobs: Count = 1  # over how many processes or machines the shards are spread
    format: ListFormat = ListFormat.unicats  # of list_file
    list_file: ReadPath | None = None  # the published list; of corpus=features the tiny one
    rows: Count | None = 500  # utterances of format=random, strings of corpus=voices; null: all
    keep_leaks: bool = False  # keep rows that are their own prompt
    allow_missing: bool = False  # leave out rows whose audio or text is missing
    strict: bool = False  # format=random: stop at files that are no readable audio

    # of corpus=sentences, folders of texts: WordNet, a SWORD text, or .txt files
    texts: list[str] = field(default_factory=lambda: ["/usr/share/wordnet", "/usr/share/sword"])
    voices: list[str] = field(default_factory=lambda: ["slt"])  # Flite's, one after the other
    sentences: Many = 30000  # that each voice speaks, of those there are
    n_takes: Many = 9000  # utterances to speak
    n_fine_takes: Whole = 13000  # further ones, which the small target does not hear
    n_codes: Several = 2048  # entries of the codec's codebook
    n_fine_codes: Several = 8192  # entries of the fine target's, codec_fine
    # of the postnet of each codec that is not there yet, three minutes of a core; 0: none
    postnet_steps: Whole = 4000
    test_rows_per_speaker: Few = 8  # utterances of each speaker in the test list
    dev_rows_per_speaker: Few = 4  # utterances of each speaker in the dev list
    workers: Threads = 2  # processes of cluster=local
    cluster: ClusterConfig = field(default_factory=ClusterConfig)  # who shares shards out
    seed: Seed = 1  # of words, takes and codec
    out: WrittenPath = "data/tiny"  # features/, codec/, codes/, dev/ and test/ go here


class Cache(Enum):
    """The cache that sst-precompute makes."""

    groups = "groups"  # acoustic similarity groups
    transitions = "transitions"  # how probable a code is after another


@dataclass
class PrecomputeConfig:
    """sst-precompute: caches that many runs of one target share."""

    cache: Cache = Cache.groups
    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transitions: TransitionsConfig = field(default_factory=TransitionsConfig)
    # who shares out the shards that cache=transitions counts
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    # write the counts of cache=transitions alone, compressed, here too
    export: WrittenPath | None = None
    device: Device = Device.cpu
    threads: Threads = 2  # of torch


class Origin(Enum):
    """The authors of a checkpoint of this shape."""

    valle = "valle"  # lifeiteng/vall-e
    uslm = "uslm"  # 0nutation/USLM

    @property
    def label(self) -> str:
        """The name that people use."""
        return {"valle": "VALL-E", "uslm": "USLM"}[self.value]


@dataclass
class FreshConfig:
    """Settings of untrained weights."""

    codes: ReadPath | None = None  # make untrained weights, for the texts and codes of this store
    dim: Count = 1024  # width of AR and NAR
    layers: Count = 12  # of each
    n_codes: Count = 1024  # of each layer of codes
    seed: Seed = 0  # of the weights


@dataclass
class ImportConfig:
    """sst-import-valle: an official VALL-E or USLM checkpoint, or a fresh one to train."""

    checkpoint: ReadPath | None = None  # the .pt file of training, such as best-valid-loss.pt
    # the unique_text_tokens.k2symbols that it was trained with
    symbols: ReadPath | None = None
    fresh: FreshConfig = field(default_factory=FreshConfig)
    model: Origin | None = None  # valle or uslm; null: what the file says, else valle
    heads: Count | None = None  # attention heads; null: what the file says, else 16
    # of the NAR: 0, 1, 2 or 4; null: what the file says, else 1; of USLM 0, whatever it says
    prefix_mode: Whole | None = None
    phonemes: str = "en-us"  # espeak's language
    out: WrittenPath = "models/valle"  # the folder
