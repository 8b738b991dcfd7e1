"""No modules import each other in a circle, so the package can be read from the bottom up."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports anywhere, for type checkers alone too."""
    graph = grimp.build_graph(
        "speculative_tts", "speculative_tts_benchmarks", "speculative_tts_makers", cache_dir=None
    )
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_no_modules_import_each_other(imports: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"import nothing back: {' <- '.join(error.args[1])}")


def test_a_circle_would_be_found(imports: dict[str, set[str]]) -> None:
    """Also one that an import inside a function closes, as `cluster` has."""
    back = imports["speculative_tts.workers"] | {"speculative_tts.cluster"}
    assert "speculative_tts.ray_workers" in imports["speculative_tts.cluster"]
    with pytest.raises(CycleError):
        TopologicalSorter(imports | {"speculative_tts.workers": back}).prepare()
