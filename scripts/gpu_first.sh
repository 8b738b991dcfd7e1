#!/usr/bin/env bash
# Everything that only a GPU can show, in ten minutes at most: `make gpu`, or scripts/gpu_first.sh where there is no .venv.
# Each part has a limit and goes on after the one before failed; what it wrote until then is kept.
#   OUT=runs/gpu   logs and runs       RESULTS=results/bench   tables
#   CODES=folder   speech codes of the sentences' corpus: also trains a draft, two minutes more
#   PYTHON, BIN    an interpreter, and the folder of its sst-* commands; WORKERS, of the tests
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python} BIN=${BIN:-.venv/bin} OUT=${OUT:-runs/gpu} RESULTS=${RESULTS:-results/bench}
mkdir -p "$OUT"
failed=()

part() { # name, seconds, command: its output in a log of its own
    local name=$1 seconds=$2 begin=$SECONDS
    shift 2
    timeout --kill-after=5 "$seconds" "$@" >"$OUT/$name.txt" 2>&1 || failed+=("$name ($?)")
    tail -n 2 "$OUT/$name.txt"
    echo "$name: $((SECONDS - begin)) s, $OUT/$name.txt"
}

# Few utterances by systems of the fine target, which is dear beside its drafters.
LIST="target=tiny_fine method=target,exact,ssd"
decode() { # folder, overrides
    part "decode_$1" 50 "$BIN/sst-decode" $LIST limit=12 out="$OUT/decode/$1" "${@:2}"
}

compiling() { # what is timed later, beside the tests: it finds its kernels compiled then; tiles of a busy GPU are not kept
    export XDG_CACHE_HOME=$OUT/busy
    "$BIN/sst-bench" gpu=true tokens=12 out="$OUT/busy" &
    for how in "runtime=gpu" "runtime=gpu runtime.dtype=float32" "runtime=cpu"; do
        "$BIN/sst-decode" $LIST limit=2 timing=1 out="$OUT/busy" $how
    done
    wait
}

"$PYTHON" -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "no GPU that torch can see")' || exit 2
nvidia-smi >"$OUT/nvidia_smi.txt" 2>&1
export -f compiling
export BIN OUT LIST

# What failed when it last ran, alone and before anything else; a checker of memory where there is one.
heads() {
    local one=("$PYTHON" -m pytest -q -p no:benchmark -p no:cacheprovider -rf tests/gpu/test_cuda_graphs.py -k)
    "${one[@]}" "kind21 or kind22 or first_rounds" || return
    ! command -v compute-sanitizer || timeout 30 compute-sanitizer --tool memcheck --error-exitcode 1 "${one[@]}" "kind22 and captured_rounds"
}
export -f heads
export PYTHON
part heads 60 bash -c heads

setsid timeout --kill-after=5 140 bash -c compiling >"$OUT/compiling.txt" 2>&1 &
compiler=$!
# no:benchmark: a plugin that some images bring does not go with -n. Names of failures come last: they want their time.
part tests 140 "$PYTHON" -m pytest -q -p no:benchmark -p no:cacheprovider ${WORKERS:+-n "$WORKERS"} -rf tests/gpu tests/unit/models/gpu tests/unit/decoding/gpu
kill -- "-$compiler" 2>/dev/null
wait "$compiler"

part bench 240 "$BIN/sst-bench" gpu=true tokens=400 out="$RESULTS"
decode gpu timing=12 runtime=gpu
decode float32 timing=0 runtime=gpu runtime.dtype=float32
decode cpu timing=12 runtime=cpu
part table 10 "$PYTHON" scripts/gpu_table.py "$OUT/decode" "$RESULTS"
if [[ -n ${CODES:-} ]]; then
    part train 120 "$BIN/sst-train-draft" recipe=paper target=sentences codes="$CODES" "layers=[0,1,2,4,8,22,23]" train_layers=7 train_embeddings=false steps=50 eval_every=50 dev_utterances=24 device=cuda dtype=bfloat16 out="$OUT/draft"
fi
echo "in all $SECONDS s; failed: ${failed[*]:-none}"
((${#failed[@]} == 0))
