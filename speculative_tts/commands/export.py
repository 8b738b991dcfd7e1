"""Writes a draft for other libraries: transformers' assistant_model, vLLM's draft_model.

A Hugging Face folder with a model card, whose figures are those of scored runs (runs=): acceptance
by position, acceptance length, TV, word errors. What was not measured says so.
"""

import sys

from speculative_tts.commands import app, choices
from speculative_tts.schema.export import ExportConfig


def run(config: ExportConfig) -> int:
    """Write the folder; prints its files."""
    from speculative_tts.files import write_atomic
    from speculative_tts.training.card import card, runs_of
    from speculative_tts.training.export import VLLM, export

    out, runs = app.require_writable(config.out), runs_of(config)
    made = export(config)
    readme = out / "README.md"
    write_atomic(readme, card(config, made, runs))
    if made.biased:
        print(f"no {VLLM}: the head has a bias, for which vLLM has no class", file=sys.stderr)
    print("\n".join(map(str, [*made.files, readme])))
    return 0


main = app.command(
    "export",
    ExportConfig,
    run,
    examples=(
        "sst-export draft.path=runs/draft runs=runs out=runs/export licence=apache-2.0",
        "sst-export target=tiny_fine out=runs/export-fine",
        "sst-export draft=itself out=runs/export-target",
    ),
    implied=choices.DRAFT_OF_TARGET,
)

if __name__ == "__main__":
    sys.exit(main())
