"""Run the cells of a notebook, and store their outputs in it: text, and figures as small pictures.

    python scripts/run_notebook.py docs/tutorial.ipynb

The cells run without Jupyter, in an empty folder. Audio players are left out, because sound makes
the file large. The documentation shows the notebook; a test runs the same cells.
"""

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def run(cells: list[dict[str, Any]]) -> None:
    """Run every code cell in turn, in the current folder, and store the outputs in the cells."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _run("".join(cell["source"]), f"<cell {number}>", names)
        cell["execution_count"] = number
        cell["outputs"] = list(_outputs(printed.getvalue(), value, number))


def _run(source: str, name: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line, if that is an expression."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None


def _outputs(printed: str, value: Any, number: int) -> Iterator[dict[str, Any]]:
    import matplotlib.pyplot as plt

    if printed:
        lines = printed.splitlines(keepends=True)
        yield {"name": "stdout", "output_type": "stream", "text": lines}
    for figure in map(plt.figure, plt.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}
    plt.close("all")
    if value is not None:
        yield {
            "data": {"text/plain": [repr(value)]},
            "execution_count": number,
            "metadata": {},
            "output_type": "execute_result",
        }


def main(path: Path) -> None:
    """Run a notebook and write it again."""
    import matplotlib as mpl

    mpl.use("Agg")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run(notebook["cells"])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
