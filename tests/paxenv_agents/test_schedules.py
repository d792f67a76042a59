"""Straight lines between two set values."""

import jax.numpy as jnp
import numpy as np
import pytest

from paxenv_agents.learners import learner


def test_a_line_meets_both_ends_exactly_and_stays_between():
    line = [float(learner.linear(3e-4, 1e-5, k / 7)) for k in range(-2, 12)]

    assert line[0] == line[2] == np.float32(3e-4)
    assert line[9] == line[-1] == np.float32(1e-5)
    assert min(line) >= np.float32(1e-5)
    np.testing.assert_allclose(np.diff(line[2:10]), (1e-5 - 3e-4) / 7, rtol=1e-3)


@pytest.mark.parametrize(("step", "share"), [(0, 0.0), (3, 0.5), (6, 1.0)])
def test_the_last_planned_step_is_the_end(step, share):
    got = learner.share_of_steps(jnp.asarray(step, jnp.int32), 7)

    assert float(got) == pytest.approx(share)


def test_a_plan_of_one_step_stays_at_the_start():
    assert float(learner.share_of_steps(0, 1)) == 0.0
