#!/usr/bin/env bash
# Everything that only a GPU can show, in ten minutes at most: `make gpu`, or scripts/gpu_first.sh where there is no .venv.
# Each part has a limit and goes on after the one before failed; what it wrote until then is kept.
#   OUT=runs/gpu   logs and runs       RESULTS=results/bench   tables
#   CODES=folder   speech codes of the sentences' corpus: also trains a draft, two minutes more
#   PYTHON, BIN    an interpreter, and the folder of its sst-* commands
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

decode() { # folder, overrides: few utterances by systems of the fine target, which is dear beside its drafters
    part "decode_${1//\//_}" 60 "$BIN/sst-decode" target=tiny_fine limit=12 out="$OUT/decode/$1" "${@:2}"
}

"$PYTHON" -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "no GPU that torch can see")' || exit 2
nvidia-smi >"$OUT/nvidia_smi.txt" 2>&1

# no:benchmark: a plugin that some images bring does not go with -n
part tests 165 "$PYTHON" -m pytest -q -p no:benchmark -p no:cacheprovider -rf tests/gpu tests/unit/models/gpu tests/unit/decoding/gpu
part bench 240 "$BIN/sst-bench" gpu=true tokens=400 out="$RESULTS"
decode gpu method=target,exact,ssd timing=12 runtime=gpu
decode float32 method=target,exact,ssd timing=0 runtime=gpu runtime.dtype=float32
decode cpu method=target,exact,ssd timing=12 runtime=cpu
part table 15 "$PYTHON" scripts/gpu_table.py "$OUT/decode" "$RESULTS"
if [[ -n ${CODES:-} ]]; then
    part train 120 "$BIN/sst-train-draft" recipe=paper target=sentences codes="$CODES" "layers=[0,1,2,4,8,22,23]" train_layers=7 train_embeddings=false steps=50 eval_every=50 dev_utterances=24 device=cuda dtype=bfloat16 out="$OUT/draft"
fi
echo "in all $SECONDS s; failed: ${failed[*]:-none}"
((${#failed[@]} == 0))
