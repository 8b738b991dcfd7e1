"""What a table's title and caption say of its runs."""

from pathlib import Path

from speculative_tts.reporting.captions import _seeds, of_what
from speculative_tts.reporting.runs import Run


def run(seed: int, *others: int, **config: object) -> Run:
    """Return a run of one seed, or of several."""
    settings = {"target.name": "tiny_fine", "data.name": "tiny", "sampling.temperature": 0.8}
    own = settings | {key.replace("__", "."): value for key, value in config.items()}
    ones = [Run(Path(f"run-s{one}"), own | {"seed": one}, {}, {}) for one in (seed, *others)]
    return Run(Path("run"), ones[0].config, {}, {}, tuple(ones) if others else ())


def test_a_title_names_what_all_runs_share() -> None:
    """Six pages of one title differed by sampler, list or target."""
    assert of_what([run(0), run(1)]) == " (tiny_fine, list tiny, temperature 0.8, all codes)"
    assert of_what([run(0), run(0, data__name="dev")]) == " (tiny_fine, temperature 0.8, all codes)"
    spoken = run(0, target__name=None, sampling__temperature=None)
    assert of_what([run(0), spoken]) == of_what([run(0)])
    assert of_what([]) == ""


def test_rows_of_fewer_seeds_are_counted() -> None:
    """A page of three seeds had one of its target, whose difference seemed to be of three."""
    assert _seeds([run(0, 1, 2), run(0, 1, 2)]) == "seeds 0, 1, 2"
    assert (
        _seeds([run(0, 1, 2), run(0), run(0)]) == "seeds 0, 1, 2 (2 rows: seed 0 alone, see Runs)"
    )
    spoken = run(0, sampling__temperature=None)
    assert _seeds([run(0, 1, 2), spoken]) == "seeds 0, 1, 2"
