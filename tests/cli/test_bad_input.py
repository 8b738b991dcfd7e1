"""What a user can get wrong, over all commands: one line with value and remedy, exit code 2.

Nothing is left behind, nothing hangs, and nobody sees a traceback. `bad_files` has what keys may be
pointed at. A case is `command: arguments -> parts of the line`; {w} are the files, {t} is empty.
"""

import importlib
import json
import shutil
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_files import CODECS, LISTS, TARGETS, write_world

from speculative_tts.commands.app import Command
from speculative_tts.training.data.columns import FOLDER

SECONDS = 300  # of a busy machine; a hang is longer
ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MODELS = "target.path={w}/target draft.path={w}/draft codec.path={w}/codec data.path={w}/list.jsonl"
DECODE = f"{MODELS} out={{t}}/runs limit=1 runtime.warmup=0 instrument=0"
SPEAK = f"{MODELS} text=one out={{t}}/x.wav runtime.warmup=0"
BENCH = f"{MODELS} out={{t}}/bench limit=1 tokens=2 steps=1 transformers=false"
HEADS = "target.path={w}/target codes={w}/stores/good out={t}/heads n=2 steps=1 sequences=2"
OWN = "target.path={w}/target codec.path={w}/codec codes={w}/stores/good out={t}/own"
EXPORT = "target.path={w}/target draft.path={w}/draft out={t}/export"
DRAFT = "target.path={w}/target codes={w}/stores/good out={t}/draft layers=[0,1] steps=1"
GROUPS = "target.path={w}/target codec.path={w}/codec groups.cache={t}/c groups.mean_size=2"
BIGRAMS = "cache=transitions codec.path={w}/codec transitions.cache={t}/c"
IMPORT = "checkpoint={g}/uslm/checkpoint.pt symbols={g}/valle/text_symbols.k2symbols out={t}/v"

# what is appended to a command that would work -> what the one line must say
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "decode": (
        DECODE,
        {
            "drafter=recurrent": "target_recurrent does not exist; give",
            "drafter=recurrent drafter.path={w}/target": "make it with sst-train-heads kind=rec",
            "lookahead=three": "lookahead three is no number; give 1 to 1000, or auto",
            "lookahead=1.5": "lookahead=1.5",
            "lookahead=": "lookahead is no number; give 1 to 1000, or auto",
            "rule=foo": "rule=foo: no such choice; there are ",
            "experiment=": "experiment=: no such choice; there are ",
            "experiment=frontier rule=foo": "rule=foo: no such choice; there are divergence",
            "method=ssd rule.k=5": "give rule=top or rule=neighbours",
            "seed=range(1,0)": "seed=range(1,0) has no value; give at least one",
            "chunk=0": "chunk 0 is below 1; give 1 or more, or null",
            "target.path=/nowhere": "/nowhere does not exist; give",
            "target.path={w}/list.jsonl": "list.jsonl",
            "target.path={w}/stores": "stores holds no speech LM known here; looked for",
            "target.path=tiny:nothing": "tiny:nothing is not shipped; give",
            "target.path={w}/targets/no_embedding": "no 48 rows of model.embed_tokens.weight",
            "target.path={w}/targets/no_head": "no tensor lm_head.weight; config.json and weights",
            # was once an IndexError, at the first prompt
            "target.path={w}/targets/short_embedding": "no 48 rows of model.embed_tokens.weight",
            "target.path={w}/targets/short_head": "has no 41 rows of lm_head.weight",
            "draft.path=tiny:draft": "give draft=<its own>, train one from this target",
            # before its groups are made
            "rule=group rule.groups.cache={t}/c draft.path=tiny:draft": "give draft=<its own>",
            "codec.path=tiny:codec": "they do not belong together, give codec=",
            "codec.path=/nowhere": "/nowhere does not exist; give",
            "codec.name=mp3": "codec 'mp3' is unknown; known here: codes, cosyvoice",
            "data.path=/nowhere": "data.path: /nowhere does not exist; give a path that does",
            "data.path={w}/target": "target is no test list; give data.path=",
            "data.path={w}/lists.fifo": "lists.fifo is no test list; give data.path=",
            "out=/dev/null/x": "output folder /dev/null/x is not writable",
            "out={w}/list.jsonl": "list.jsonl",
            "runtime.threads=1000000": "threads 1000000 is above 1024; give 1 to 1024",
            "runtime.device=tpu": "runtime.device=tpu",
            "runtime.dtype=int8": "runtime.dtype=int8",
            "runtime.device=cuda": "runtime.device=cuda needs a GPU that torch can see",
            "limit=99999999999999999999": "is not a finite number below 2^53",
            "rule.beta=2": "rule.beta 2.0 is above 1; give 0 to 1",
            "sampling.temperature=-1": "temperature -1.0 is below 0; give 0 or more, or null",
            "sampling.top_p=0": "top_p 0.0 is not above 0; give more than 0, up to 1",
            "sampling.min_tokens_per_word=900": "above max_tokens_per_word",
            "rule=group rule.groups.cache=/proc/c": "cache folder /proc/c is not writable",
            "rule=group rule.groups.theta=2": "theta 2.0 is above 1",
            "rule=group rule.groups.theta=0.5 rule.groups.mean_size=4": "both given; leave one out",
            "rule=group rule.groups.mean_size=99 rule.groups.cache={t}/c": "is outside [1, 40]",
            "rule=group rule.groups.path=/nowhere": "/nowhere",
            "rule=group rule.groups.path={w}/target": "target",
            "system=multi_token heads.path=/nowhere": "/nowhere does not exist; give",
            "system=multi_token viterbi.mode=none heads.path={w}/target": "make heads with",
            "system=multi_token viterbi.mode=none heads.path=null": "heads.path is not set;",
            "system=swap": "system=swap swaps within groups",
            "system=swap rule=group source=/nowhere": "/nowhere is no finished run",
            "match=fast": "match",
            "match=length:x": "match",
            "rule=typical match=length:2": "match=length:2 searches a rule's setting",
            "rule=typical rule.block=true": "give rule=exact or rule=group",
            "rule=null": "is null or a number; give a name, such as rule=exact",
            "drafter=null": "is null or a number; give a name, such as rule=exact",
            "drafter=5": "is null or a number; give a name, such as rule=exact",
            "drafter=foo": "block, codebooks, frequent, heads, lm",
            "drafter.entropy=nan": "drafter.entropy nan is not a finite number",
            "drafter=lookup drafter.entropy=1": "give drafter=lm",
            "drafter=lookup drafter.shortest=5": "above drafter.longest 3; lower the one",
            "drafter=heads": "target_heads does not exist; give",
            "seed=1,x": "seed=x: Value 'x'",
            "hydra/launcher=ray hydra.launcher.num_cpus=-1 seed=1,2": (
                "hydra.launcher.num_cpus -1.0 is not above 0; give more than 0, or null"
            ),
            **{
                f"target.path={{w}}/targets/{name} draft.path={{w}}/targets/{name}": "; "
                for name in TARGETS
            },
            **{f"codec.path={{w}}/codecs/{name}": "; " for name in CODECS},
            **{f"data.path={{w}}/bad_{name}.jsonl": "; " for name in LISTS},
        },
    ),
    "speak": (
        SPEAK,
        {
            "text=": "the text is empty; give some of",
            "text=quantum,leap": "unknown words: quantum, leap; this model speaks",
            "text=42": "unknown words: four; this model speaks",
            "text=???": "text is not set",
            "prompt=nobody": "prompt nobody is neither a file nor a speaker; speakers: s0, s1",
            "prompt={w}/empty.wav prompt_text=two": "empty.wav is not readable audio",
            "prompt={w}/torn.wav prompt_text=two": "torn.wav is not readable audio",
            "prompt={w}/short.wav prompt_text=two": "short.wav is silent",
            "prompt={w}/long.wav prompt_text=two": "long.wav is 600 s long, above 60; give",
            "prompt={w}/nothing.wav prompt_text=two": "holds no samples",
            "prompt={w}/click.wav prompt_text=two": "below one speech token",
            "prompt={w}/silent.wav": "silent.wav is silent: it has no voice to follow; give",
            "prompt={w}/silent.wav prompt_text=two": "silent.wav is silent: it has no",
            "prompt={w}/nan.wav prompt_text=two": "holds samples that are NaN or infinite",
            "prompt=s1 prompt_text=two": "speaker s1's words are in the list; leave",
            "prompt={w}/list.jsonl prompt_text=two": "is not readable audio",
            "prompt={w}/fifo prompt_text=two": "is neither a file nor a speaker",
            "prompt={w}/target prompt_text=two": "is neither a file nor a speaker",
            "prompt_text=two": "give it too, prompt=<a wav>",
            "prompt={w}/prompt0.wav prompt_text=quantum": "unknown words: quantum",
            "prompt={w}/prompt0.wav prompt_text=two out={w}/prompt0.wav": "give another out",
            "encoding=raw": "encoding=raw is for speech written while it is made; add stream=true",
            "stream=true encoding=mp3": "encoding=mp3",
            "stream=true chunk=0": "chunk 0 is below 1; give 1 or more, or null",
            "stream=true player=nothing_there": '"nothing_there" does not start',
            "out=-": "out=- is for speech written while it is made; add stream=true",
            "chunk=5": "chunk is for speech written while it is made; add stream=true",
            "player=aplay": "player is for speech written while it is made; add stream=true",
            "stream=true out=/dev/null/x.wav": "/dev/null/x.wav cannot be written",
            "stream=true player=false": 'player "false" ended with 1; try it on',
            "out=/dev/null/x.wav": "/dev/null/x.wav cannot be written (not a",
            "out={w}": "cannot be written (it is a folder); give the name of a file",
            "out={t}/x.mp3": "x.mp3 would hold a wav: .mp3 is not written here; give out={t}/x.wav",
            "stream=true out={t}/x.FLAC": ".FLAC is not written here; give out={t}/x.wav",
            "out={t}": "it is a folder",
            "runtime.threads=1e6": "threads",
            "data.path={w}/bad_twice.jsonl": "id a is there twice; give each row its own",
        },
    ),
    "bench": (
        BENCH,
        {
            "steps=0": "steps 0 is below 1; give 1 or more",
            "draws=100000000": "draws 100000000 is above 100000; give 0 to 100000",
            "runtime.device=cuda": "runtime.device=cuda needs a GPU that torch can see",
            "random=gpt9": "random 'gpt9' is unknown; known: cosyvoice2, llasa_1b, llasa_8b",
            "data.path={w}/bad_prompt_torn.jsonl": "torn.wav is not readable audio",
            "data.path={w}/bad_object.jsonl": "bad_object.jsonl:1: id is missing",
            "target.path={w}/targets/hidden_1": "heads of 0 dimensions",
            "out={w}/list.jsonl": "list.jsonl",
        },
    ),
    "precompute": (
        GROUPS,
        {
            "threads=0": "threads 0 is below 1",
            "groups.theta=nan groups.mean_size=null": "theta nan is not a finite number",
            "groups.theta=-1": "theta -1.0 is not above -1",
            "groups.theta=1.5": "groups.theta 1.5 is above 1; give more than -1, up to 1",
            "groups.theta=0.5": "are both given; leave one out",
            "groups.mean_size=41": "mean_size 41.0 is outside [1, 40]",
            "groups.weights=even": "groups.weights=even",
            "groups.source=text": "groups.source=text",
            "groups.cache={w}/list.jsonl": "choose another with groups.cache=<path>",
            "groups.path=/nowhere": "/nowhere",
            "device=cuda": "device=cuda needs a GPU",
            "target.path={w}/targets/weights_empty": "copy it again",
            "target.path={w}/targets/speech_list": "is not a JSON object but []",
            "codec.path={w}/codecs/json_list": "is not a JSON object but []",
            "codec.path=tiny:codec": "has 2048 codes, target",
            **{
                f"groups.weights=unigram groups.unigram={{w}}/stores/{name}": said
                for name, said in {
                    "none": "no Parquet shards in {w}/stores/none; give groups.unigram=",
                    "torn": "is no shard of codes",
                    "far_code": "has code 999, the target only 41 ids; give",
                    "negative_code": "has code -1, the target only 41 ids; give",
                    "no_codes": "is no shard of codes",
                    "text_codes": "is no shard of codes",
                    "empty_codes": "has no code to learn from; give groups.unigram=",
                }.items()
            },
        },
    ),
    "own_codes": (
        OWN,
        {
            "codes=/nowhere": "no folder /nowhere of codes; run sst-prepare first",
            "codes={w}/stores/none": "give codes=<codes of sst-prepare>",
            "codes={w}/stores/torn": "is no shard of codes",
            **{
                f"codes={{w}}/stores/{name}": said
                for name, said in {
                    "no_codes": "is no shard of codes",
                    "text_codes": "is no shard of codes",
                    "empty_codes": "has no code of any utterance; make the codes with",
                    "far_code": "has code 999, the target only 40 codes; make",
                    "negative_code": "has code -1, the target only 40 codes; make",
                    "unknown_word": "train-0000.parquet: unknown words: quantum, leap",
                }.items()
            },
            "target.path={w}/targets/weights_nan": "no law for token 0: logits are NaN",
            "limit=0": "limit 0 is below 1; give 1 or more, or null",
            "job=5 jobs=2": "job 5 is not below jobs 2; give 0 to 1, or more jobs",
            "target.path=/nowhere": "/nowhere does not exist; give",
            "out={w}/list.jsonl": "list.jsonl",
        },
    ),
    "export": (
        EXPORT,
        {
            "lookahead=0": "lookahead 0 is below 1; give 1 to 1000",
            "runs=/nowhere": "runs=/nowhere is not a folder; run sst-decode",
            "runs={w}/stores": "holds no run; run sst-decode out={w}/stores first",
            "draft.path=/nowhere": "/nowhere does not exist; give",
            "draft.path={w}/targets/config_list": "is not a JSON object but []",
            "draft.path={w}/targets/weights_torn": "copy it again",
            "draft.path=tiny:draft": "give draft=<its own>, train one from this target",
            "draft.path=tiny:target_heads": "holds heads, no model without its target",
            "out={w}/list.jsonl": "list.jsonl",
        },
    ),
    "precompute transitions": (
        BIGRAMS,
        {
            "transitions.strength=0": "strength 0.0 is not above 0; give more than 0",
            "transitions.smoothing=rough": "transitions.smoothing=rough",
            "transitions.smoothing=floor transitions.strength=2": "2.0 is not in (0, 1)",
            "transitions.path={w}/target": "names a cache that is there; leave it null",
            "transitions.codes={w}/stores/none": "make them with sst-prepare",
            "transitions.codes={w}/stores/torn transitions.workers=1": "is no shard of codes",
            "transitions.codes={w}/stores/no_codes transitions.workers=1": "has no column codes",
            "transitions.codes={w}/stores/far_code transitions.workers=1": "has code 999",
            "transitions.codes={w}/stores/text_codes transitions.workers=1": "is no shard of codes",
            "transitions.codes=/nowhere": "/nowhere",
            "cache=words": "cache=words",
            "transitions.codes={w}/stores/good export={w}/list.jsonl": "with export=<path>",
            "transitions.codes={w}/stores/good transitions.column=x transitions.workers=1": (
                "has no column x; it has id,"
            ),
        },
    ),
    "train_heads": (
        HEADS,
        {
            "n=1": "n 1 is below 2; give 2 to 100000",
            "learning_rate=0": "learning_rate 0.0 is not above 0; give more than 0",
            "learning_rate=nan": "learning_rate nan is not a finite number",
            "batch_size=1000000000000": "is above 1000000; give 1 to 1000000",
            "optimiser=sgd": "optimiser=sgd",
            "device=cuda": "device=cuda needs a GPU that torch can see",
            "kind=round": "kind=round",
            "width=3": "own_drafts are of kind=recurrent, this is kind=linear",
            "losses.kl=1": "own_drafts are of kind=recurrent, this is kind=linear",
            "blocks=2": "own_drafts are of kind=recurrent, this is kind=linear",
            "kind=recurrent train_trunk=true": "on a frozen trunk; leave train_trunk out",
            "optimiser=muon": "optimiser=muon is of kind=recurrent, this is kind=linear",
            "codes_from=target own=/nowhere": "there is no /nowhere; make it with sst-own-codes",
            "codes_from=mix train_trunk=true own=/nowhere": "make it with sst-own-codes or give",
            "kind=recurrent own_drafts=true": "this is codes_from=recorded; give codes_from=target",
            "kind=recurrent losses.ce=0": "all loss weights are 0",
            "kind=recurrent target.path={w}/valle": "give kind=linear or kind=residual",
            "codes=/nowhere": "no folder /nowhere of codes; run sst-prepare first",
            "target.path=/nowhere": "/nowhere does not exist; give",
            "target.path={w}/targets/config_list": "is not a JSON object but []",
            "target.path={w}/targets/weights_torn": "copy it again",
            "out={w}/list.jsonl": "list.jsonl",
            **{
                f"codes={{w}}/stores/{name}": said
                for name, said in {
                    "none": "run sst-prepare first",
                    "torn": "is no shard of codes",
                    "unknown_word": "unknown words: quantum, leap",
                    "far_code": "has code 999, the target only 40 codes",
                    "negative_code": "has code -1, the target only 40 codes",
                    "no_codes": "is no shard of codes",
                    "text_codes": "is no shard of codes",
                    "empty_codes": "has no code of any utterance; make the codes with",
                }.items()
            },
        },
    ),
    "train_draft": (
        DRAFT,
        {
            "recipe=recurrent": "recipe=recurrent sets kind, which is no key here: it is",
            "layers=[0,9]": "layer 9 is not in the target, its layers are 0 to 2",
            "device=cuda": "device=cuda needs a GPU that torch can see; use device=cpu",
            "warmup=-1": "warmup -1 is below 0",
            "layers=[-1]": "layers -1 is below 0; give 0 or more",
            "layers=0": "layers=0: a list is wanted; give layers=[0]",
            "layers=[a]": "layers",
            "layers=[[0]]": "layers holds [0]; give a list of plain values",
            "learning_rate=-1": "learning_rate -1.0 is not above 0",
            "losses.ce=0": "all loss weights are 0",
            "losses.kl=-1": "losses.kl -1.0 is below 0",
            "losses.tv=nan": "losses.tv nan is not a finite number",
            "select=beauty": "select=beauty",
            "batch_size=1e12": "batch_size=1e12",
            "batch_size=1000000000000": "is above 1000000; give 1 to 1000000",
            "codes={w}/stores/empty_codes": "train-0000.parquet has no code of any utterance; make",
            "codes={w}/stores/torn": "is no shard of codes",
            "codes=/nowhere": "no folder /nowhere of codes",
            "init=/nowhere": "/nowhere",
            "target.path={w}/valle": "model_type 'valle' cannot be inherited; supported",
        },
    ),
    "train_target": (
        "prepared={w} out={t}/target",
        {
            "": "has no codes/; run sst-prepare, or give prepared=<folder>",
            "prepared=/nowhere": "/nowhere has no codes/",
            "matrix_lr=nan": "matrix_lr nan is not a finite number below 2^53; give more than 0",
            "other_lr=0": "other_lr 0.0 is not above 0",
            "steps=0": "steps 0 is below 1",
            "acoustic_pull=2": "acoustic_pull 2.0 is above 1; give 0 to 1",
            "valle.dim=0": "valle.dim 0 is below 1",
            "architecture=rnn": "architecture=rnn",
            "codes_of=codec_x": "has no codes_x/; run sst-prepare",
            "family=tiny_fine": "has no codes_fine/; run sst-prepare",
            "family=dog": "family=dog: no such choice; there are sentences, tiny_fine, valle",
        },
    ),
    "prepare": (
        "out={t}/data",
        {
            "n_takes=0": "n_takes 0 is below 1; give 1 to 1000000",
            "n_takes=1000000000": "n_takes 1000000000 is above 1000000",
            "corpus=music": "corpus=music: no such choice",
            "corpus=libritts path=/nowhere codec.path={w}/codec parts=[a]": "/nowhere",
            "corpus=libritts parts=[]": "parts",
            "corpus=list path={w} list_file=/nowhere": "{w}",
            "corpus=features list_file={w}/list.jsonl": "is not what sst-prepare speaks with seed",
            "corpus=list format=pdf": "format=pdf",
            "corpus=list format=seedtts list_file={w}/bad_binary.jsonl": "l is not UTF-8",
            "corpus=list format=seedtts list_file={w}/list.jsonl": "list.jsonl:1: not a line of",
            "corpus=libritts path={w} parts=[a] job=3 jobs=2": "job 3 is not below jobs 2",
            "cluster.num_cpus=0": "cluster.num_cpus 0.0 is not above 0",
            "cluster=foo": "cluster.name=foo",
        },
    ),
    "import_valle": (
        IMPORT,
        {
            "heads=0": "heads 0 is below 1; give 1 or more, or null",
            "heads=3": "3 heads do not divide",
            "heads=4 prefix_mode=3": "prefix_mode 3 is unknown; known",
            "checkpoint={w}/prompt0.wav": "prompt0.wav is not readable as a checkpoint",
            "checkpoint={w}/empty.wav": "empty.wav is not readable as a checkpoint",
            "checkpoint={w}/list.jsonl": "list.jsonl is not readable as a checkpoint (it is torn",
            "checkpoint={w}/fifo": "fifo not found; give a .pt file",
            "checkpoint={w}": "{w} not found; give a .pt file",
            "checkpoint={w}/target": "{w}/target not found; give a .pt file",
            "checkpoint={w}/stores/tensors.pt heads=2": "the checkpoint has no tensor ar_text",
            "checkpoint=/nowhere": "/nowhere not found; give a .pt file",
            "symbols={w}/prompt0.wav heads=4": "prompt0.wav is not UTF-8",
            "symbols={w}/list.jsonl heads=4": "list.jsonl:1 is not '<symbol> <number>'; copy",
            "symbols={w}/fifo heads=4": "fifo not found; it belongs to the checkpoint",
            "symbols=/nowhere heads=4": "/nowhere not found; it belongs to the checkpoint",
            "checkpoint=null": "checkpoint=None, symbols=",
            "checkpoint=null symbols=null fresh.codes={w}/stores/torn": "is no shard of codes",
            "checkpoint=null symbols=null fresh.codes={w}/stores/good": "is no shard of codes",
            "checkpoint=null symbols=null fresh.codes={w}/stores/none": "run sst-prepare, or give",
            "checkpoint=null symbols=null fresh.codes={w}/stores/good fresh.dim=0": "fresh.dim 0",
        },
    ),
    "eval": (
        "runs={w} metrics=[wer] workers=1 cache={t}/cache",
        {
            "": "holds no run (a folder with records.jsonl); run sst-decode first",
            "runs=/nowhere": "runs=/nowhere is not a folder; run sst-decode first",
            "metrics=[beauty] list={w}/audio.jsonl": "beauty is unknown; use",
            "metrics=wer": "metrics=wer: a list is wanted; give metrics=[wer]",
            "draws=100000000": "draws 100000000 is above 100000; give 0 to 100000",
            "draws=-1": "draws -1 is below 0",
            "baseline=/nowhere": "baseline=/nowhere is not a folder",
            "list={w}/audio.jsonl baseline={w}/target": "has no scores.jsonl; run sst-eval runs=",
            "list={w}/audio.jsonl out={w}/list.jsonl": "choose another with out=<path>",
            "judges=dog": "judges=dog: no such choice; there are mtp",
            "judges.recogniser=ear": "judges.recogniser=ear",
            "list=/nowhere": "list=/nowhere not found; give a JSONL file",
            "list={w}/lists.fifo": "lists.fifo not found; give a JSONL file",
            **{
                f"list={{w}}/bad_{name}.jsonl": f"bad_{name}.jsonl"
                for name in ("empty", "text", "torn", "null", "object", "binary", "latin", "no_id")
            },
        },
    ),
    "report": (
        "runs={w} out={t}/results",
        {
            "runs={w}/stores": "stores holds no run; run sst-decode",
            "runs=/nowhere": "runs=/nowhere is not a folder; run sst-decode",
            "paper=bible": "bible",
            "paper=frontier runs={w}/stores": "stores holds no run; run sst-decode",
            "paper=claims runs={t}": "holds no run; run sst-decode",
            "paper=SSD": "paper=SSD has no report; use ssd, pcg,",
            "out={w}/list.jsonl": "list.jsonl",
            "page=maybe": "page=maybe",
        },
    ),
    "check": (
        "golden={w}",
        {
            "": "target.name is not set; give target.name=<value>",
            "target=wavenet": "'wavenet' has no golden check; known: cosyvoice2",
            "target=valle golden=/nowhere": "folder /nowhere not found; give golden=<folder>",
            "target=valle golden={w}/fifo": "fifo not found; give golden=<folder>",
            "target=valle": "main.npz not found; give golden=<folder>",
            "target=valle golden=???": "golden is not set",
            "target=llasa": "expected.json not found; give golden=<folder>",
            "target=cosyvoice2": "cases.json not found; give golden=<folder>",
            "target=viterbi": "viterbi.npz not found; give golden=<folder>",
            "target=uslm": "main.npz not found; give golden=<folder>",
            "what=all": "what=all",
            "only=[bible]": "bible",
        },
    ),
    "listen": (
        "folder={t}/listening runs={w}",
        {
            "": "what is not set; give one of make, serve, score, power",
            "what=all": "what=all",
            "make folder={w}/list.jsonl": "choose another with folder=<path>",
            "make raters=0": "raters 0 is below 1; give 1 to 1000",
            "make checks=101": "checks 101 is above 100",
            "make loudness=nan": "loudness nan is not a finite number",
            "serve": "no file {t}/listening/key.json; sst-listen make",
            "serve port=70000": "port 70000 is above 65535",
            "score": "no file {t}/listening/key.json; sst-listen make",
            "power difference=0": "difference 0.0 is not above 0",
            "power noise=nan": "noise nan is not a finite number",
            "make runs=/nowhere": "runs=/nowhere is not a folder; run sst-decode first",
            "make runs={w}/stores": "stores holds no run (a folder with records.jsonl)",
        },
    ),
}
TABLE = [
    (command.partition(" ")[0], f"{base} {change}", said)
    for command, (base, changes) in CASES.items()
    for change, said in changes.items()
]


def tried() -> Iterator[object]:
    """Yield the cases; of what several commands say in the same words `make test` takes the first.

    That a number beyond its limits is refused is tested for every number by
    `tests/unit/test_limits.py`; here stands one of each command and of each group of its settings.
    """
    seen: set[tuple[str, str]] = set()
    for command, arguments, said in TABLE:
        kind = (arguments if said == "; " else "", said)
        marks = [pytest.mark.whole] if kind in seen else []
        seen.add(kind)
        yield pytest.param(command, arguments, said, marks=marks)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_world(tmp_path_factory.mktemp("w"))
    row = {"id": "a", "text": "one", "audio": "prompt0.wav"}
    (root / "audio.jsonl").write_text(json.dumps(row) + "\n")
    return root


@pytest.fixture
def _limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A case that hangs fails instead."""

    def hang(*_: object) -> None:
        pytest.fail(f"still running after {SECONDS} s")

    monkeypatch.delenv("SST_DEBUG", raising=False)
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def command_of(name: str) -> Command[object]:
    main: Command[object] = importlib.import_module(f"speculative_tts.commands.{name}").main
    return main


def everything(folder: Path) -> set[Path]:
    """What is in a folder, but for the locks of trainings that read its codes."""
    return {path for path in folder.rglob("*") if not {FOLDER, ".lock"} & set(path.parts)}


def test_the_table_is_long_and_has_every_command() -> None:
    assert len(TABLE) >= 200
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    names = {name.removeprefix("sst-").replace("-", "_") for name in scripts}
    assert {command for command, _, _ in TABLE} == names


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(("command", "arguments", "said"), [*tried()])
def test_one_line_exit_code_2_and_nothing_left(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    arguments: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"w": world, "t": tmp_path, "g": GOLDEN}
    before = everything(world)
    main = command_of(command)
    assert main([argument.format(**names) for argument in last(arguments)]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line and "%|" not in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{main.program}: error: ")
    assert said.format(**names) in lines[0]
    assert "Traceback" not in lines[0]
    assert "SST_DEBUG" not in lines[0]  # what is said of an error of another library
    assert everything(tmp_path) == set()
    assert everything(world) == before


def last(arguments: str) -> list[str]:
    """The arguments, of a key that is there twice the last."""
    return list({one.partition("=")[0]: one for one in arguments.split()}.values())


# What is written into a finished, scored run -> what sst-eval and sst-report say of it.
RUNS = {
    ("records.jsonl", '{"text": "one"}\n'): ":1: id is missing; give text in quotes",
    ("records.jsonl", '{"id": 5}\n'): ":1: id is 5; give text in quotes",
    ("records.jsonl", "[1]\n"): ":1 is not a JSON object but [1]; give one a line",
    ("records.jsonl", "\udcff\n"): ":1 is not a JSON object",
    ("config.json", "[]"): "config.json is not a JSON object but []; make the run again",
    ("config.json", "{"): "config.json is not a JSON object",
}
REPORTED = {
    **RUNS,
    ("records.jsonl", '{"text": "one"}\n'): ":1: id is missing; make the file again",
    ("records.jsonl", '{"id": 5}\n'): "",
    ("summary.json", "[]"): "summary.json is not a JSON object but []; make the run again",
    ("summary.json", "{}"): "summary.json: run is missing; give an object",
    ("summary.json", '{"run": 5}'): "summary.json: run is 5; give an object",
    ("provenance.json", "[]"): "provenance.json is not a JSON object but []",
    ("scores.jsonl", '{"a": 1}\n'): "scores.jsonl:1: id is missing; make the file again",
}


@pytest.fixture(scope="module")
def scored(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run, decoded and scored."""
    out = tmp_path_factory.mktemp("scored") / "runs"
    made = DECODE.replace("limit=1", "limit=2").replace("{t}/runs", str(out))
    assert command_of("decode")([a.format(w=world, t="") for a in made.split()]) == 0
    assert command_of("eval")([f"runs={out}", "metrics=[wer]", "workers=1", "grammar=words"]) == 0
    return out


@pytest.fixture
def broken(request: pytest.FixtureRequest, scored: Path, tmp_path: Path) -> Path:
    """A copy of `scored` with a file of the run replaced: (name, content)."""
    file, content = request.param
    runs = shutil.copytree(scored, tmp_path / "runs")
    (run,) = runs.glob("spec*")
    (run / file).write_text(content, errors="surrogateescape")
    return runs


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(("broken", "said"), RUNS.items(), indirect=["broken"])
def test_a_broken_run_is_not_scored(
    broken: Path, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = everything(broken)
    assert command_of("eval")([f"runs={broken}", "metrics=[wer]", "workers=1"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line
    assert everything(broken) == before


@pytest.mark.usefixtures("_limited", "blank_figures")
@pytest.mark.parametrize(("broken", "said"), REPORTED.items(), indirect=["broken"])
def test_a_broken_run_is_left_out_of_reports(
    broken: Path, tmp_path: Path, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One emptied file once ended sst-report, which left half of its tables behind."""
    out = tmp_path / "out"
    code = command_of("report")([f"runs={broken}", f"out={out}", "page=false", "paper=ssd"])
    told = capfd.readouterr().err
    assert code in (0, 2)
    assert "Traceback" not in told
    assert said in told
    assert (code == 0) == out.exists()


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize("name", ["object", "text_unknown", "prompt_empty", "prompt_torn"])
def test_a_rejected_list_leaves_no_run_to_be_scored(
    world: Path, scored: Path, tmp_path: Path, name: str
) -> None:
    """An empty run was left behind, which sst-eval found without any utterance: exit code 1."""
    runs = shutil.copytree(scored, tmp_path / "runs")
    before = everything(runs)
    asked = DECODE.replace("{t}/runs", str(runs)).format(w=world)
    assert command_of("decode")([*asked.split(), f"data.path={world}/bad_{name}.jsonl"]) == 2
    assert everything(runs) == before
    assert command_of("eval")([f"runs={runs}", "metrics=[wer]", "workers=1"]) == 0


@pytest.mark.usefixtures("_limited")
def test_takes_too_few_for_the_codec_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`sst-prepare n_takes=3` ended in a traceback of the clustering library."""
    few = ["n_takes=3", "n_fine_takes=0", "workers=1", f"out={tmp_path}"]
    assert command_of("prepare")(few) == 2
    told = capfd.readouterr().err
    assert "tokens of speech are too few for n_codes=2048; give fewer codes or more takes" in told
    assert "Traceback" not in told


@pytest.mark.usefixtures("_limited", "blank_figures")
def test_an_emptied_clip_is_made_again_and_reports_go_on(
    world: Path, scored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It killed sst-report, and sst-decode said of its run `done already`."""
    runs = shutil.copytree(scored, tmp_path / "runs")
    clip = min(runs.glob("*/audio/*.wav"))
    whole = clip.read_bytes()
    clip.write_bytes(b"")
    assert command_of("report")([f"runs={runs}", f"out={tmp_path / 'out'}"]) == 0
    made = DECODE.replace("limit=1", "limit=2").replace("{t}/runs", str(runs))
    assert command_of("decode")([a.format(w=world, t="") for a in made.split()]) == 0
    assert clip.read_bytes() == whole
