"""Environments of gymnax itself, as games for our trainers."""

import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
import runners
from paxenv import keys
from paxenv_agents import PPOConfig, make_agent

pytestmark = pytest.mark.sb3


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Catch-bsuite"])
def test_an_environment_of_gymnax_keeps_every_promise(id: str) -> None:
    env, params = gymnax.make(id)
    paxenv.check_env(*paxenv.from_gymnax(env, params, num_inner_steps=12))


def test_steps_are_those_of_gymnax_until_the_pole_falls() -> None:
    theirs, params = gymnax.make("CartPole-v1")
    env, numbers = paxenv.from_gymnax(theirs, params)
    lane_key = keys.episode(keys.lane(3), 0)
    _, state = env.reset(keys.reset(lane_key), numbers)
    step = jax.jit(env.step)
    _, expected = theirs.reset_env(keys.own(keys.reset(lane_key), 0), params)
    over, steps = False, 0
    while not over and steps < 40:
        steps += 1
        key = keys.step(lane_key, state.t)
        obs, state, reward, done, info = step(key, state, 1, numbers)
        seen, expected, paid, over, _ = theirs.step_env(key, expected, 1, params)
        np.testing.assert_allclose(obs, seen, rtol=1e-5, atol=1e-6)
        assert float(reward) == float(paid)
        assert bool(done) == bool(info["terminated"]) == bool(over)
    assert over


def test_train_ppo_and_evaluate_take_it() -> None:
    env, params = paxenv.from_gymnax(*gymnax.make("CartPole-v1"))
    config = runners.RunnerConfig(
        total_timesteps=64, num_envs=2, eval_every=64, eval_episodes=2, plot=False
    )
    ppo = PPOConfig(n_steps=16, num_minibatches=1, num_epochs=1, hidden_sizes=(4,))
    assert runners.train_ppo(env, params, runner_config=config, ppo_config=ppo)


def test_its_numbers_can_be_vmapped() -> None:
    env, params = paxenv.from_gymnax(*gymnax.make("CartPole-v1"))
    many = params.replace(gravity=jnp.array([9.8, 3.7]))
    key = jax.random.key(0)
    _, state = env.reset(key, params)
    axes = env.params_axes(gravity=0)
    step = jax.vmap(functools.partial(env.step, key, state, 1), in_axes=(axes,))
    obs = step(many)[0]
    assert obs.shape == (2, 4)


def test_elsewhere_the_error_names_the_way() -> None:
    env, params = gymnax.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"paxenv\.from_gymnax\(env\)"):
        runners.train_ppo(
            env,
            params,
            ppo_config=PPOConfig(),
            runner_config=runners.RunnerConfig(),
        )
    with pytest.raises(ValueError, match=r"paxenv\.from_gymnax\(env\)"):
        make_agent("PPO", env)
