#!/usr/bin/env bash
# Copy the models of `make tiny-models` into the package, where commands find them as tiny:codec, tiny:target, ...
set -euo pipefail
cd "$(dirname "$0")/.."
assets=speculative_tts/assets/tiny
mkdir -p "$assets"/{codec,codec_transitions,target_heads,target_recurrent,target_fine_recurrent,codec_residual,codec_residual_transitions,target,draft,codec_fine,target_fine,draft_fine,valle,valle_heads,testset,codec_sentences,target_sentences,target_sentences_recurrent,draft_sentences,testset_sentences}
cp data/tiny/codec/* "$assets/codec/"
cp data/tiny/codec_residual/* "$assets/codec_residual/"
cp runs/target/target/* "$assets/target/"
cp runs/valle-more/target/* "$assets/valle/"
cp runs/valle-more/heads/* "$assets/valle_heads/"
cp runs/heads/packed/heads.{json,safetensors} "$assets/target_heads/"
cp runs/recurrent/packed/recurrent.{json,safetensors} "$assets/target_recurrent/"
cp runs/recurrent-fine/packed/recurrent.{json,safetensors} "$assets/target_fine_recurrent/"
cp runs/transitions/* "$assets/codec_transitions/"
cp runs/transitions_residual/* "$assets/codec_residual_transitions/"
cp runs/draft/{config.json,model.safetensors,speech.json,inheritance.json} "$assets/draft/"
cp data/tiny/codec_fine/* "$assets/codec_fine/"
cp runs/fine-new/packed/* "$assets/target_fine/"
cp runs/draft-paper/packed/* "$assets/draft_fine/"
cp data/sentences/codec/* "$assets/codec_sentences/"
cp runs/sentences/target/* "$assets/target_sentences/"
cp runs/recurrent-sentences/packed/recurrent.{json,safetensors} "$assets/target_sentences_recurrent/"
cp runs/draft-sentences/packed/* "$assets/draft_sentences/"
cp -r data/sentences/test/prompts "$assets/testset_sentences/"
sed 's/, "reference_audio": "[^"]*"//' data/sentences/test/list.jsonl > "$assets/testset_sentences/list.jsonl"
cp -r data/tiny/test/{prompts,references} "$assets/testset/"
cp data/tiny/test/list.jsonl "$assets/testset/"
du -sh "$assets"
