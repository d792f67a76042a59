"""Chunks, stages and single iterations are the same computation."""

import bits
import numpy as np
import pytest

import paxenv
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.registry import make_agent
from runners.engine.experiment import Experiment
from runners.engine.program import CompiledProgram, initial_state, run_keys

SMALL = PPOConfig(hidden_sizes=(8,), num_epochs=2, num_minibatches=2)


def cart_pole(num_seeds=1):
    env, params = paxenv.make("CartPole-v1")
    agent = PPO.from_env(env, SMALL)
    experiment = Experiment(
        env, (Slot(agent),), num_games=4, num_steps=16, chunk_size=8
    )
    keys = run_keys(3, num_seeds)
    return CompiledProgram(experiment, initial_state(experiment, keys, params))


def dilemma(num_seeds=1):
    env, params = paxenv.make("IPD-v0", num_inner_steps=8)
    agent = PPO.from_env(env, SMALL)
    other = make_agent("TitForTat", env, player=1)
    experiment = Experiment(
        env, (Slot(agent), Slot(other, (1,))), num_games=4, chunk_size=8
    )
    keys = run_keys(3, num_seeds)
    return CompiledProgram(experiment, initial_state(experiment, keys, params))


@pytest.mark.slow
@pytest.mark.fused
@pytest.mark.parametrize("make", [cart_pole, dilemma])
def test_fused_stepped_and_single_iterations_give_the_same_bits(make):
    fused, single, stepped = (make() for _ in range(3))
    rows = fused.run(5)
    singles = [single.run(1) for _ in range(5)]
    steps = [stepped.rollout() | stepped.update() for _ in range(5)]
    bits.assert_same(fused.state, single.state)
    bits.assert_same(fused.state, stepped.state)
    for name, values in rows.items():
        for others in (singles, steps):
            joined = np.concatenate([row[name] for row in others], axis=1)
            np.testing.assert_array_equal(values, joined, err_msg=name)
    assert fused.iteration == stepped.iteration == 5
    assert fused.env_steps == 5 * fused.experiment.steps_per_iteration


@pytest.mark.slow
def test_seeds_in_one_program_are_those_of_their_own_programs():
    both, first = cart_pole(num_seeds=2), cart_pole()
    together, alone = both.run(3), first.run(3)
    for name, values in alone.items():
        np.testing.assert_allclose(together[name][:1], values, rtol=1e-4, atol=1e-5)
    assert (
        together["train/player_1/entropy"][0] != together["train/player_1/entropy"][1]
    ).all()


@pytest.mark.slow
def test_a_program_copies_what_it_is_given():
    program = cart_pole()
    given = program.state
    other = CompiledProgram(program.experiment, given)
    other.run(1)
    assert int(given.iteration[0]) == 0
    program.run(1)
    bits.assert_same(program.state, other.state)


def test_an_update_without_a_rollout_is_refused():
    with pytest.raises(RuntimeError, match=r"call rollout\(\) first"):
        cart_pole().update()
    with pytest.raises(ValueError, match=r"in \[1, 8\]"):
        cart_pole().run(9)
