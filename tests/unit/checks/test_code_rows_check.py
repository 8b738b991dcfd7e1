"""The golden checks of frames of codes pass on their files, and fail on damaged ones."""

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speculative_tts.checks import code_rows, snac
from speculative_tts.commands import check as command
from speculative_tts.commands import decode
from speculative_tts.schema.common import RowsConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "rows"
SMALL = {"count", "speakers", "max_length", "max_tokens", "min_tokens"}  # of golden models
SAMPLER = {"temperature", "top_k", "top_p", "repetition_penalty"}


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["orpheus", "maya1", "veena", "spark"])
def test_every_case_is_within_its_tolerance(name: str) -> None:
    rows = list(code_rows.check(GOLDEN / name))
    assert [row for row in rows if not row.passed] == []
    assert len(rows) == (20 if name in ("orpheus", "spark") else 3)


def test_codes_and_waves_of_snac_are_the_packages() -> None:
    rows = list(snac.check(GOLDEN / "snac"))
    assert len(rows) == 4
    assert [row for row in rows if not row.passed] == []


@pytest.mark.parametrize("name", ["orpheus", "maya1", "veena", "spark"])
def test_the_shipped_configuration_is_the_one_of_the_golden_files(name: str) -> None:
    """Its names, prompt and frames; and the sampler where a model was sampled."""
    golden = read(GOLDEN / name / "golden.json")
    told, shipped = golden["rows"], decode.main.compose([f"target={name}"]).target.rows
    plain = RowsConfig()
    for field in fields(RowsConfig):
        if field.name in SMALL | SAMPLER | {"bos", "text_rows"}:
            continue
        expected = told.get(field.name, getattr(plain, field.name))
        assert getattr(shipped, field.name) == expected, field.name
    for key, value in golden.get("sampler", {}).items():
        assert getattr(shipped, key) == value
    assert shipped.text_rows is (name == "spark")


@pytest.mark.parametrize(
    ("damage", "case"),
    [
        (lambda about: about["prompts"][0]["ids"].pop(), "prompt plain_tara, ids"),
        (lambda about: about["rows"].update(slots=1), "plain_tara: greedy, frames"),
        (lambda about: about["sampler"].update(top_p=0.5), "plain_tara: sampler, frames"),
        (lambda about: about["sampler"].pop("repetition_penalty"), "plain_tara: sampler, free"),
    ],
)
def test_a_fault_is_found(damage: Any, case: str, tmp_path: Path) -> None:
    """A wrong prompt, no frames, another nucleus, a sampler without its penalty."""
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN / "orpheus", folder)
    about = read(folder / "golden.json")
    damage(about)
    (folder / "golden.json").write_text(json.dumps(about))
    assert case in {row.case for row in code_rows.check(folder) if not row.passed}


ARRAYS: dict[str, tuple[Any, str]] = {
    "no sequence": (lambda a, of: a.pop(f"{of}/frames_greedy"), "no 'plain_tara/frames_greedy'"),
    "no tokens": (lambda a, of: a.pop(f"{of}/free_sampled"), "no 'plain_tara/free_sampled'"),
    "narrow": (
        lambda a, of: a.update({f"{of}/logits": a[f"{of}/logits"][:, 5:]}),
        "plain_tara/logits has [0-9]+ columns, the model",
    ),
    "short": (
        lambda a, of: a.update({f"{of}/frames_greedy": a[f"{of}/frames_greedy"][:-4]}),
        "plain_tara/frames_greedy must be the prompt and",
    ),
}
ABOUT: dict[str, tuple[Any, str]] = {
    "no sampler": (lambda about: about.pop("sampler"), "no 'sampler'"),
    "no temperature": (lambda about: about["sampler"].pop("temperature"), "temperature is missing"),
    "a row too high": (
        lambda about: about["prompts"][0]["ids"].append(10**6),
        "ids of prompt plain_tara must be rows of the model",
    ),
    "no object": (lambda about: [about], "holds no object"),
    "a key of rows misspelt": (  # was ignored: the default was checked in its place
        lambda about: about["rows"].update(slot=7),
        'golden.json: "slot" is no key here; did you mean slots?',
    ),
    "a key misspelt": (
        lambda about: about.update(samplr={}),
        'golden.json: "samplr" is no key here; did you mean sampler?',
    ),
    "a prompt's key misspelt": (
        lambda about: about["prompts"][0].update(voice_code=[1]),
        'golden.json: "voice_code" is no key here; did you mean voice_codes?',
    ),
}


@pytest.mark.parametrize("name", [*ARRAYS, *ABOUT])
def test_a_folder_out_of_format_is_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of these but the list ended in a KeyError or IndexError with its traceback."""
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN / "orpheus", folder)
    if name in ARRAYS:
        arrays = dict(np.load(folder / "golden.npz"))
        change, message = ARRAYS[name]
        change(arrays, "plain_tara")
        np.savez(folder / "golden.npz", **arrays)
    else:
        about = read(folder / "golden.json")
        change, message = ABOUT[name]
        changed = change(about)
        about = changed if isinstance(changed, list) else about
        (folder / "golden.json").write_text(json.dumps(about))
    assert command.main(["target=orpheus", f"golden={folder}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(message, line)
    assert ";" in line


def test_waves_with_other_noise_are_found(tmp_path: Path) -> None:
    """The decoder's noise matters, or nobody would see that it is drawn."""
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN / "snac", folder)
    arrays = dict(np.load(folder / "snac.npz"))
    arrays["rows"][0] ^= 1
    arrays["level_2"][0] ^= 1
    np.savez(folder / "snac.npz", **arrays)
    missed = [row.case for row in snac.check(folder) if not row.passed]
    assert missed == ["codes of a wave, level 2", "wave of codes"]
