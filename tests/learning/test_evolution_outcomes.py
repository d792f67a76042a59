"""Evolution finds what is published: acceptance row E2, at the quick sizes."""

import pytest

import paxenv_agents
from runners.config import load
from runners.evaluating import Evaluation
from runners.launch import program_of
from runners.loop import Loop
from runners.plan import prepare


def rewards(name, *words):
    """Returns both players' rewards per step after the quick size of an experiment."""
    plan = prepare(load([name, "quick=true", "num_seeds=1", *words]))
    program = program_of(plan)
    Loop(program, plan.num_iterations).run()
    metrics = Evaluation(plan).play(program.state.agents)
    return [metrics[f"episode/reward_per_step/player_{p}"].item() for p in (1, 2)]


@pytest.mark.full
def test_a_shaper_gets_more_than_cooperation_and_than_its_opponent():
    """E2: the mean of the search, against 16 learners that it has not met.

    One run came to -0.91 and -1.74. Mutual cooperation is -1.
    """
    if "Shaper" not in paxenv_agents.agents():
        pytest.skip("the agent Shaper is not installed")
    agent = ("agent1=Shaper", "agent1.gru_size=16", "agent1.hidden_sizes=[]")
    size = ("num_opponents=2", "num_generations=80")
    shaper, learner = rewards("ipd/shaper_v_tabular", *agent, *size)
    assert shaper > -1.0
    assert learner < shaper


@pytest.mark.slow
def test_where_nobody_learns_within_a_trial_both_populations_defect():
    """The stage game's one equilibrium, -2 a step; one run came to -1.998, -2.001."""
    for reward in rewards("ipd/evo_v_evo"):
        assert -2.1 < reward < -1.9
