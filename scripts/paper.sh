#!/usr/bin/env bash
# Run a paper's own experiments on many GPUs, from corpus to tables: scripts/paper.sh ssd ray, scripts/paper.sh pcg slurm.
# ray: on the cluster at ADDRESS, which this machine is part of; slurm: as jobs that wait for each other. DRY=1 only prints the commands.
# docs/paper-scale.md lists the contents of models/ and data/, and the hours. An interrupted run continues when it is submitted again.
set -euo pipefail
cd "$(dirname "$0")/.."
paper=${1:?give ssd, pcg or mtp} by=${2:?give ray or slurm}
GPUS=${GPUS:-4} JOBS=${JOBS:-64} ADDRESS=${ADDRESS:-auto} BIN=${BIN:-.venv/bin}
train="$BIN/torchrun --nproc-per-node $GPUS -m speculative_tts.commands.train"

case $paper in # what is trained before the tables; make decodes, scores and reports
    ssd)
        prepare="$BIN/sst-prepare corpus=libritts path=data/LibriTTS codec=cosyvoice2 out=data/cosyvoice2"
        trainings=("${train}_draft recipe=cosyvoice2 steps=$((11200 / GPUS))")
        ;;
    pcg)
        prepare="$BIN/sst-prepare corpus=libriheavy path=data/Libriheavy audio=data/Libriheavy codec=xcodec2 out=data/llasa"
        trainings=("${train}_draft recipe=llasa_8b_subset steps=$((352000 / GPUS))")
        ;;
    mtp)
        prepare="$BIN/sst-prepare corpus=libritts path=data/LibriTTS codec=speechtokenizer out=data/speechtokenizer"
        trainings=(
            "$BIN/sst-import-valle fresh.codes=data/speechtokenizer/codes out=models/valle_start"
            "$BIN/sst-import-valle model=uslm checkpoint=models/USLM_libritts/USLM.pt symbols=models/USLM_libritts/unique_text_tokens.k2symbols out=models/uslm_start"
            "${train}_heads recipe=valle_heads joint.accumulate=$((GPUS < 4 ? 4 / GPUS : 1))"
            "${train}_heads recipe=uslm_heads joint.accumulate=$((GPUS < 4 ? 4 / GPUS : 1))"
            "$BIN/sst-precompute cache=transitions codec=speechtokenizer transitions.codes=data/speechtokenizer/codes export=models/speechtokenizer_hubert_avg_transitions"
        )
        ;;
    *) echo "$paper is none of ssd, pcg and mtp" >&2 && exit 2 ;;
esac

run() { if [ -n "${DRY:-}" ]; then printf '%s\n' "$*"; else "$@"; fi; }

tables() { # with the launcher's settings
    run make "$paper" SCALE=paper "LAUNCH=$1" "SCORING=$2"
}

after=""
submit() { # a Slurm job that begins when the last one ended well
    local options=$1 command=$2
    if [ -n "${DRY:-}" ]; then
        printf 'sbatch%s %s --wrap "%s"\n' "$after" "$options" "$command"
        after=" --dependency=afterok:$((${after##*:} + 1))"
    else
        # shellcheck disable=SC2086 # options are several words
        after=" --dependency=afterok:$(sbatch --parsable $after $options --wrap "$command")"
    fi
}

case $by in
    ray)
        run $prepare cluster=ray "cluster.address=$ADDRESS" cluster.num_gpus=1
        for one in "${trainings[@]}"; do run $one; done
        tables "hydra/launcher=ray hydra.launcher.address=$ADDRESS hydra.launcher.num_gpus=1" \
            "cluster=ray cluster.address=$ADDRESS cluster.num_gpus=1"
        ;;
    slurm)
        submit "--array=0-$((JOBS - 1)) --gres=gpu:1" "$prepare job=\$SLURM_ARRAY_TASK_ID jobs=$JOBS workers=1"
        for one in "${trainings[@]}"; do
            submit "$([[ $one == *torchrun* ]] && echo "--gres=gpu:$GPUS" || echo --gres=gpu:1)" "$one"
        done
        submit "--gres=gpu:1" "make $paper SCALE=paper 'LAUNCH=hydra/launcher=submitit_slurm hydra.launcher.gres=gpu:1'"
        ;;
    *) echo "$by is none of ray and slurm" >&2 && exit 2 ;;
esac
