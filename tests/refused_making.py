"""Mistakes in making models and data: what is appended to arguments that work -> part of the line.

{w} are the files of `bad_files`, {g} the golden ones, {t} is an empty folder.
"""

HEADS = "target.path={w}/target codes={w}/stores/good out={t}/heads n=2 steps=1 sequences=2"
OWN = "target.path={w}/target codec.path={w}/codec codes={w}/stores/good out={t}/own"
EXPORT = "target.path={w}/target draft.path={w}/draft out={t}/export"
DRAFT = "target.path={w}/target codes={w}/stores/good out={t}/draft layers=[0,1] steps=1"
GROUPS = "target.path={w}/target codec.path={w}/codec groups.cache={t}/c groups.mean_size=2"
BIGRAMS = "cache=transitions codec.path={w}/codec transitions.cache={t}/c"
IMPORT = "checkpoint={g}/uslm/checkpoint.pt symbols={g}/valle/text_symbols.k2symbols out={t}/v"

REFUSED_IN_MAKING: dict[str, tuple[str, dict[str, str]]] = {
    "precompute": (
        GROUPS,
        {
            "threads=0": "threads 0 is below 1",
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
            "layers=[[0]]": "layers [0] is no single value; give 0 or more",
            "losses.ce=0": "all loss weights are 0",
            "losses.kl=-1": "losses.kl -1.0 is below 0",
            "select=beauty": "select=beauty",
            "batch_size=1e12": "batch_size=1e12",
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
            "corpus=music": "corpus=music: no such choice",
            "corpus=libritts path=/nowhere codec.path={w}/codec parts=[a]": "/nowhere",
            "corpus=libritts parts=[]": "parts",
            "corpus=list path={w} list_file=/nowhere": "{w}",
            "corpus=features list_file={w}/list.jsonl": "is not what sst-prepare speaks with seed",
            "corpus=list format=pdf": "format=pdf",
            "corpus=list format=seedtts list_file={w}/bad_binary.jsonl": "l is not UTF-8",
            "corpus=list format=seedtts list_file={w}/list.jsonl": "list.jsonl:1: not a line of",
            "corpus=libritts path={w} parts=[a] job=2 jobs=2": "job 2 is not below jobs 2",
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
}
