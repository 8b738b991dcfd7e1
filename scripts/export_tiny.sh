#!/usr/bin/env bash
# Copy what `make tiny-models` made into the package, where commands find it as tiny:codec, tiny:target, ...
set -euo pipefail
cd "$(dirname "$0")/.."
assets=speculative_tts/assets/tiny
mkdir -p "$assets"/{codec,target,draft,testset}
cp data/tiny/codec/* "$assets/codec/"
cp runs/target/target/* "$assets/target/"
cp runs/draft/{config.json,model.safetensors,speech.json} "$assets/draft/"
cp -r data/tiny/test/{prompts,references} "$assets/testset/"
cp data/tiny/test/list.jsonl "$assets/testset/"
du -sh "$assets"
