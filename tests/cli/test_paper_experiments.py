"""The papers' experiments fill the papers' reports (that each composes, test_configs tests)."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from experiment_points import names, points
from settings_read import read_of

from speculative_tts.commands.decode import main
from speculative_tts.commands.help import options
from speculative_tts.commands.train_draft import main as train_draft
from speculative_tts.reporting import paper as papers
from speculative_tts.reporting.experiments import PAPERS_OWN, TINY, Scale
from speculative_tts.reporting.needs import choose, matches
from speculative_tts.reporting.runs import Found, Run, flatten
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.schema.common import Device, DType, Similarity
from speculative_tts.schema.decode import Repetition, System

pytestmark = pytest.mark.whole

SEARCHED, AT_SPEED, ELSEWHERE = 77.0, 3.0, 2.0  # a mean size; acceptance lengths
SEARCHES = ("table1", "table3")  # the others take the nearest of all runs
PAPERS = ("ssd", "pcg", "mtp")
PCG = [name for name in options("experiment") if name.startswith("pcg/")]


@pytest.mark.parametrize(
    ("experiment", "target", "lookahead", "data"),
    [
        ("ssd/paper_table1", "models/CosyVoice2-0.5B", 3, "unicats_b"),
        ("pcg/paper_table1", "models/Llasa-8B", 3, "test_clean_500"),
        ("mtp/paper_table2", "models/uslm", 3, "test_clean"),
    ],
)
def test_settings(experiment: str, target: str, lookahead: int, data: str) -> None:
    config = main.compose([f"experiment={experiment}"])
    assert (config.target.path, config.lookahead, config.data.name) == (target, lookahead, data)
    assert (config.runtime.device, config.runtime.dtype) == (Device.cuda, DType.bfloat16)
    assert config.limit is None


PINNED = {  # how a paper sampled, and the checkpoints of its time
    "ssd": ({"CosyVoice2-0.5B"}, {"top_k": 25, "top_p": 0.8, "temperature": 1.0}),
    "pcg": ({"Llasa-8B"}, {"top_k": 0, "top_p": 1.0, "temperature": 0.8}),
    "mtp": ({"VALL-E", "USLM"}, {"top_p": 1.0, "temperature": None}),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_own_experiments_are_pinned_to_its_date(paper: str) -> None:
    """SSD's sampled as CosyVoice 2's code does since February 2026; the paper is of May 2025."""
    targets, sampler = PINNED[paper]
    for name in names(paper, PAPERS_OWN):
        config = main.compose([f"experiment={name}"])
        assert config.target.name in targets, name
        assert {key: getattr(config.sampling, key) for key in sampler} == sampler, name
        assert (config.sampling.ras_window is not None) is (paper == "ssd"), name
        if paper == "ssd":
            assert config.sampling.ras_variant is Repetition.redraw_eos, name
        text = (Path("configs/experiment") / f"{name}.yaml").read_text(encoding="utf-8")
        assert "# Pinned to the paper (arXiv " in text, name


def test_pcg_rules() -> None:
    matched = main.compose(["experiment=pcg/paper_matched"])
    assert (matched.rule.name, matched.match, matched.lookahead) == ("group", "0.3", 3)
    swap = main.compose(["experiment=pcg/paper_table2"])
    assert (swap.system, swap.rule.groups.source) == (System.swap, Similarity.embedding)


def test_pcg_samples_as_its_paper() -> None:
    """All sampled from the top 50 of a head cut to codes; the paper has a temperature alone."""
    for name in PCG:
        sampling = main.compose([f"experiment={name}"]).sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.8, 0, 1.0), name
        assert sampling.text_rows is True
        cut = main.compose([f"experiment={name}", "sampling=llasa_speech_rows"]).sampling
        assert (cut.temperature, cut.top_k, cut.text_rows) == (0.8, 50, False)


def test_pcg_has_the_papers_seeds_and_sizes() -> None:
    """Three seeds everywhere (figure 3 had one); group sizes 1, 4.5 and 10.3 (it was 10)."""
    grids = {name: points(name) for name in PCG}
    assert {frozenset(p["seed"] for p in grid) for grid in grids.values()} == {frozenset({0, 1, 2})}
    for table in ("figure2", "table2"):
        sizes = {p["rule"]["groups"]["mean_size"] for p in grids[f"pcg/paper_{table}"]}
        assert {1, 4.5, 10.3} < sizes
    (match,) = {p["match"] for p in grids["pcg/paper_table3"]}
    assert match == "size:10.3"


@pytest.mark.parametrize("system", ["valle", "uslm"])
def test_mtp_has_the_recordings_row_beside_the_papers(system: str) -> None:
    """Table I prints ground truth: UTMOS 4.14, WER 2.9, CER 0.8."""
    methods = {p["system"] for p in points(f"mtp/paper_table1_{system}")}
    assert "reference" in methods
    published = papers.published(f"mtp_table1_{system}")
    assert [published.value("truth", name) for name in ("utmos", "wer", "cer")] == [4.14, 2.9, 0.8]


@pytest.mark.parametrize("scale", [TINY, PAPERS_OWN], ids=["tiny", "papers"])
@pytest.mark.parametrize("paper", PAPERS)
def test_the_experiments_fill_the_report_and_make_nothing_else(paper: str, scale: Scale) -> None:
    """Every row and point has a run, and every run is in a table or figure."""
    report = REPORTS[paper](scale)
    found = Found(Path("runs"), runs(paper, scale))
    hidden = {run.name: run for run in found.runs}
    for definition in (*report.tables, *report.figures):
        needs = definition.needs()
        filled = choose(found, needs).filled
        assert needs.keys() == filled.keys(), definition.name
        for key, need in needs.items():
            shown = [run for run in found.runs if matches(run.config, need.where)]
            if need.nearest is not None:
                shown = list(filled[key])
                if definition.name in SEARCHES:
                    assert {run.config["rule.groups.mean_size"] for run in shown} == {SEARCHED}
            for run in shown:
                hidden.pop(run.name, None)
    assert not hidden


@cache
def runs(paper: str, scale: Scale) -> tuple[Run, ...]:
    """What the paper's experiments at a scale would leave: a run a point."""
    configs = [config for name in names(paper, scale) for config in points(name)]
    assert configs
    return tuple(run(config, str(number)) for number, config in enumerate(configs))


def run(config: dict[str, Any], name: str) -> Run:
    """A scored run; the search for a speed ends at a mean size that nothing else has."""
    at_speed = config["rule"].get("beta") == 0.3
    if config["match"] is not None:
        at_speed, config["rule"]["groups"]["mean_size"] = True, SEARCHED
    length = AT_SPEED if at_speed else ELSEWHERE
    return Run(
        Path(name),
        flatten(read_of(config)),
        {"metrics": {name: {"value": length} for name in ("acceptance_length", "speedup")}},
        {},
    )


@pytest.mark.parametrize(
    ("recipe", "sequences", "utterances"),
    [("cosyvoice2", 32, 354_780), ("llasa_8b_subset", 256, 11_200_000)],
)
def test_recipes_see_their_corpus_once(recipe: str, sequences: int, utterances: int) -> None:
    """On the GPUs that the recipe names: one, and eight."""
    config = train_draft.compose([f"recipe={recipe}"])
    per_process = config.batch_size * config.accumulate
    assert sequences % per_process == 0
    assert config.steps * sequences == pytest.approx(utterances, rel=0.02)
    assert config.save_every == config.eval_every == 1000
    assert config.warmup <= config.steps / 20
    assert config.learning_rate <= 5e-4  # AdamW's on inherited layers; the default is Muon's
