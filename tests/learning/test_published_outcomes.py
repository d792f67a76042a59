"""Learners reach the published outcomes of the prisoner's dilemma.

Of ten seeds each eight must pass. Continuous integration trains two, which both must.
The bands leave room for a policy that still explores at one step in a hundred.
Evaluated by sampled actions after training.
"""

import numpy as np
import pytest

from runners.config import load
from runners.planning.plan import prepare
from runners.session.evaluation import Evaluation
from runners.session.loop import Loop
from runners.session.training import program_of

#: How many seeds are trained, and how many of them must pass.
SEEDS = [
    pytest.param(2, 2, marks=pytest.mark.slow),
    pytest.param(10, 8, marks=pytest.mark.full),
]


def trained(name, num_seeds, total_timesteps):
    """Trains a stored experiment and returns its evaluation, `[seeds]` by name."""
    words = [name, f"num_seeds={num_seeds}", f"total_timesteps={total_timesteps}"]
    plan = prepare(load(words))
    program = program_of(plan)
    Loop(program, plan.num_iterations).run()
    return Evaluation(plan).play(program.state.agents).metrics


def passed(name, num_seeds, total_timesteps, reward, cooperation):
    """Returns how many seeds end with player 1 inside both bands."""
    metrics = trained(name, num_seeds, total_timesteps)
    rewards = metrics["episode/reward_per_step/player_1"]
    rates = metrics["env/cooperation_rate/player_1"]
    inside = (rewards >= reward[0]) & (rewards <= reward[1])
    inside &= (rates >= cooperation[0]) & (rates <= cooperation[1])
    return int(np.sum(inside))


@pytest.mark.parametrize(("num_seeds", "enough"), SEEDS)
@pytest.mark.parametrize(
    ("name", "reward", "cooperation"),
    [
        ("tabular_v_tft", (-1.05, -0.98), (0.95, 1.0)),
        ("tabular_v_all_d", (-2.1, -1.98), (0.0, 0.1)),
        ("tabular_v_all_c", (-0.1, 0.0), (0.0, 0.1)),
        ("tabular_v_tabular", (-2.1, -1.9), (0.0, 0.2)),
        ("ppo_v_tft", (-1.05, -0.98), (0.95, 1.0)),
        ("ppo", (-2.1, -1.9), (0.0, 0.2)),
    ],
)
def test_a_learner_finds_the_best_reply(name, reward, cooperation, num_seeds, enough):
    """Cooperation with TitForTat, defection against AllD, AllC and itself."""
    assert passed(f"ipd/{name}", num_seeds, 600_000, reward, cooperation) >= enough
