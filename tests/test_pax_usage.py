"""The usage that Pax's README and runner page show, with literal results."""

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
import paxenv_agents
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.types import Sample

EXAMPLES = Path(__file__).parent.parent / "examples"
PAYOFF = [[2, 2], [0, 3], [3, 0], [1, 1]]


def example(name):
    return runpy.run_path(str(EXAMPLES / name))


@pytest.fixture(scope="module")
def env_and_params():
    return IteratedMatrixGame(num_inner_steps=5), EnvParams(payoff_matrix=PAYOFF)


def test_reset_gives_two_values_and_step_five(env_and_params):
    env, params = env_and_params
    key = jax.random.key(0)

    obs, state = env.reset(key, params)
    after = env.step(key, state, (paxenv.COOPERATE, paxenv.DEFECT), params)

    assert [o.tolist() for o in obs] == [[0, 0, 0, 0, 1]] * 2
    obs, state, rewards, done, info = after
    assert [o.argmax().item() for o in obs] == [1, 2]
    assert int(state.inner_t) == 1
    assert [float(r) for r in rewards] == [0.0, 3.0]
    assert not bool(done)
    assert not bool(info["inner_done"])


def test_a_loop_until_done_plays_one_episode():
    assert example("pax_readme.py")["play_one_game"]() == 15.0


def test_two_games_of_fifty_steps_in_a_scan():
    rewards = example("pax_readme.py")["play_many_games"](2, 50)

    np.testing.assert_array_equal(rewards, np.ones((50, 2)))


def test_a_game_runs_under_pmap(env_and_params):
    env, params = env_and_params
    devices = jax.local_device_count()
    keys = jax.random.split(jax.random.key(0), devices)
    defect = jnp.full((devices,), paxenv.DEFECT)

    _, state = jax.pmap(env.reset, in_axes=(0, None))(keys, params)
    _, _, rewards, _, _ = jax.pmap(env.step, in_axes=(0, 0, 0, None))(
        keys, state, (defect, defect), params
    )

    np.testing.assert_array_equal(rewards[0], np.ones(devices))


@pytest.mark.slow
def test_one_training_state_acts_in_many_games():
    actions = example("pax_readme.py")["use_an_agent"](8)

    assert actions.shape == (8,)
    assert set(actions.tolist()) == {paxenv.COOPERATE, paxenv.DEFECT}


def test_batch_methods_map_memories_and_share_the_state(env_and_params):
    env, params = env_and_params
    agent = paxenv_agents.make_agent("Tabular", env, player=0)
    state, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(3))
    obs, _ = jax.vmap(env.reset, (0, None))(
        jax.random.split(jax.random.key(1), 3), params
    )

    actions, after, memory = agent.batch_policy(state, obs[0], memory)
    opened = agent.batch_reset(memory, eval=False)

    assert actions.shape == (3,)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    # Two actions, no preference yet: every log-probability is log(1/2).
    np.testing.assert_allclose(
        memory.extras["log_probs"], np.full(3, np.log(0.5)), atol=1e-6
    )
    assert memory.extras["values"].shape == (3,)
    assert memory.hidden.shape == opened.hidden.shape == (3, agent.hidden_size)


def test_a_sample_has_the_seven_fields_in_order():
    assert Sample._fields[:7] == (
        "observations",
        "actions",
        "rewards",
        "behavior_log_probs",
        "behavior_values",
        "dones",
        "hiddens",
    )


@pytest.fixture(scope="module")
def runner():
    """The hand-written runner of the example, on a game of 4 steps, with 3 games."""
    env, params = paxenv.make("IPD", num_inner_steps=4)
    agents = (
        paxenv_agents.make_agent("Tabular", env, player=0, num_minibatches=1),
        paxenv_agents.make_agent("TitForTat", env, player=1),
    )
    module = example("custom_runner.py")
    return module["Runner"](env, params, agents, num_envs=3), module["Carry"]


def test_the_step_of_a_hand_written_runner_is_a_scan_body(runner):
    runner, make_carry = runner
    keys = jax.random.split(jax.random.key(0), 3)
    obs, env_state = jax.vmap(runner.env.reset, (0, None))(keys, runner.params)
    states, memories = zip(
        *(a.batch_init(jax.random.key(1), a.init_hidden(3)) for a in runner.agents),
        strict=True,
    )
    carry = make_carry(keys, obs, states, memories, env_state)

    after, samples = jax.lax.scan(runner.step, carry, None, 4)

    assert len(samples) == 2
    for sample in samples:
        assert sample.observations.shape == (4, 3, 5)
        assert sample.rewards.shape == (4, 3)
    # TitForTat does what the other did one step before.
    np.testing.assert_array_equal(samples[1].actions[1:], samples[0].actions[:-1])
    assert after.env_state.t.tolist() == [4, 4, 4]


@pytest.mark.slow
def test_an_outer_loop_of_rollout_and_update_is_one_compiled_scan(runner):
    runner, _ = runner

    states, rewards = jax.jit(runner.run, static_argnums=1)(jax.random.key(0), 3)

    assert rewards.shape == (3, 2)
    assert int(states[0].timesteps) == 3 * 4 * 3
    assert np.isfinite(rewards).all()


@pytest.mark.slow
def test_a_hand_written_runner_learns_to_cooperate_with_titfortat():
    """PPO's last reward a step is within 0.02 of mutual cooperation, -1."""
    module = example("custom_runner.py")
    env, params = paxenv.make("IPD", num_inner_steps=50)
    agents = (
        paxenv_agents.make_agent("PPO", env, player=0),
        paxenv_agents.make_agent("TitForTat", env, player=1),
    )
    runner = module["Runner"](env, params, agents, num_envs=32)

    _, rewards = jax.jit(runner.run, static_argnums=1)(jax.random.key(0), 200)

    np.testing.assert_allclose(rewards[-1], [-1.0, -1.0], atol=0.02)
