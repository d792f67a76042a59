"""What a learner outside a meta-game wins from naive learners inside."""

import numpy as np
import pytest

from runners.config import load
from runners.planning.plan import prepare
from runners.session.training import program_of

ITERATIONS, LAST = 60, 20


def rewards(*words):
    """Returns player 1's reward a step in each iteration, `[iterations]`."""
    plan = prepare(load(["imp/shaper_v_nl_rl", "num_seeds=1", *words]))
    rows = program_of(plan).run(ITERATIONS)
    first, second = (rows[f"episode/reward_per_step/player_{p}"] for p in (1, 2))
    np.testing.assert_allclose(first, -second, atol=1e-5)
    return np.asarray(first)[0]


@pytest.mark.slow
def test_a_shaper_beats_a_naive_learner_that_nobody_else_beats():
    """With a gradient outside: two naive learners get 0.

    Three seeds gave 0.30, 0.31 and 0.28 in iterations 26 to 50, then 0.29, 0.41 and
    0.48 in 51 to 75; half of the least is the threshold.
    """
    won = rewards()

    assert abs(won[:2].mean()) < 0.1
    assert won[-LAST:].mean() > 0.15
