"""Writes a draft for other libraries: transformers' assistant_model, vLLM's draft_model.

A Hugging Face folder with a model card, whose figures are those of scored runs (runs=): acceptance
by position, acceptance length, TV, word errors. What was not measured says so. draft.path of a
recurrent layer writes a folder for transformers' AutoModel, with which one drafts oneself.
"""

import sys
from pathlib import Path

from speculative_tts.commands import app, choices
from speculative_tts.schema.export import ExportConfig


def run(config: ExportConfig) -> int:
    """Write the folder and print the names of its files."""
    from speculative_tts.files import write_atomic
    from speculative_tts.training.card import find_scored_runs, make_card
    from speculative_tts.training.export import VLLM, export
    from speculative_tts.training.export_layer import export_layer, is_layer

    out, runs = app.require_writable(config.out), find_scored_runs(config)
    exported = (export_layer if is_layer(Path(config.draft.path)) else export)(config)
    readme = out / "README.md"
    write_atomic(readme, make_card(config, exported, runs))
    if exported.unserved:
        print(f"no {VLLM}: {exported.unserved}", file=sys.stderr)
    print("\n".join(map(str, [*exported.files, readme])))
    return 0


main = app.command(
    "export",
    ExportConfig,
    run,
    examples=(
        "sst-export draft.path=runs/draft runs=runs out=runs/export licence=apache-2.0",
        "sst-export target=tiny_fine out=runs/export-fine",
        "sst-export target=tiny_fine draft.path=tiny:target_fine_recurrent out=runs/export-layer",
        "sst-export draft=itself out=runs/export-target",
    ),
    implied=choices.DRAFT_OF_TARGET,
)

if __name__ == "__main__":
    sys.exit(main())
