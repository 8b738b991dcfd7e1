"""Each rule's closed forms by algebra, against its paper's formulas in plain floats.

Parametrised by the registry, so that a rule without a case in `rule_laws` fails.
"""

import pytest
import torch
from hypothesis import given
from rule_laws import CASES, shipped_rules
from test_relaxed_rules import TIGHT, floats, laws
from torch import Tensor


@pytest.mark.parametrize("name", shipped_rules())
@given(laws, laws)
def test_closed_forms_are_the_papers(name: str, target: Tensor, draft: Tensor) -> None:
    for case in CASES[name]:
        accepted, drawn = case.masses(target.tolist(), draft.tolist())
        found, passed = (
            of(target, draft) for of in (case.rule.output_law, case.rule.acceptance_probability)
        )
        torch.testing.assert_close(found, floats(accepted) + floats(drawn), atol=TIGHT, rtol=0)
        torch.testing.assert_close(found.sum(), torch.tensor(1.0).double(), atol=TIGHT, rtol=0)
        assert float(passed) == pytest.approx(sum(accepted), abs=TIGHT)
