"""`make test` holds calls against the shapes in signatures: would it find a wrong one?"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from shapes import checked
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling import randomness

ROOT = Path(__file__).parents[2]
VERIFY, DRAW = checked(AcceptanceRule.judge), checked(randomness.draw)
LAWS = torch.full((1, 3, 4), 0.25)
TOKENS = torch.zeros(1, 2, dtype=torch.int64)


def test_right_shapes_pass() -> None:
    verdict = VERIFY(Tolerance(), LAWS, LAWS[:, :2], TOKENS, TOKENS[:, 0], torch.zeros(1, 2, 2))
    assert verdict.accepted.shape == (1,)
    assert DRAW(LAWS, torch.zeros(1, 3, dtype=torch.float64)).shape == (1, 3)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("draft_probs", {1: LAWS[:, :1]}),
        ("draft_probs", {1: LAWS[:, :2, :3]}),
        ("drafted", {2: TOKENS.float()}),
        ("lengths", {3: TOKENS}),
        ("uniforms", {4: torch.zeros(1, 2)}),
    ],
)
def test_a_wrong_shape_is_found(what: str, change: dict[int, torch.Tensor]) -> None:
    given = [LAWS, LAWS[:, :2], TOKENS, TOKENS[:, 0], torch.zeros(1, 2, 2)]
    for place, wrong in change.items():
        given[place] = wrong
    with pytest.raises(TypeCheckError, match=r"checking the parameters of .*judge"):
        VERIFY(Tolerance(), *given)


def test_what_passed_vouches_for_no_other_shape() -> None:
    """Calls of a form that passed are not checked again; what is in a list is no part of it."""

    def ends(
        x: Float[Tensor, " n"], length: int, xs: list[Float[Tensor, " n"]]
    ) -> Float[Tensor, " n"]:
        return x[:length]

    call, four = checked(ends), torch.zeros(4)
    for _ in range(2):
        assert len(call(four, 4, xs=[four])) == 4
    with pytest.raises(TypeCheckError, match=r"checking the return value of .*ends"):
        call(four, 3, xs=[four])
    for wrong in (torch.zeros(3), torch.zeros(4, dtype=torch.int64), None):
        with pytest.raises(TypeCheckError, match=r"checking the parameters of .*ends: xs is"):
            call(four, 4, xs=[wrong])
    with pytest.raises(TypeCheckError, match=r"checking the parameters of .*ends: x is"):
        call(four[None], 4, [four])


@pytest.mark.whole
def test_the_makefiles_hook_finds_one_too() -> None:
    """Its flags, by a run of pytest whose only test calls with a wrong shape."""
    flags = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line[:5] == "CHECK"
    )
    test = ROOT / "tests" / "assets" / "wrong_shape.py"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(test)]
    plain = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert plain.returncode == 0, plain.stdout
    hooked = [*command, flags.split("=", 1)[1].split("#")[0].strip()]
    found = subprocess.run(hooked, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 1
    assert "jaxtyping.TypeCheckError" in found.stdout
