"""Meta-games with reinforcement learning outside: two clocks, one game."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import keys
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import PPO
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from runners.config import ConfigError, load
from runners.engine.experiment import train_chunk
from runners.planning.plan import prepare
from runners.session.training import program_of

#: Values start at 0, and advantages are sums of the rewards still to come.
PLAIN = {
    "tabular": True,
    "gamma": 1.0,
    "gae_lambda": 1.0,
    "normalise_advantages": False,
    "num_minibatches": 1,
    "learning_rate": 0.0,
}
STEPS, EPISODES, GAMES = 3, 2, 4


@dataclasses.dataclass(frozen=True)
class Telling(PPO):
    """PPO that reports its rewards and advantages, `[T, E]`."""

    def update(self, traj, last_obs, state, memory):
        batch = self.make_batch(traj, last_obs, state, memory)
        told = {"rewards": traj.rewards, "advantages": batch.advantages}
        return *super().update(traj, last_obs, state, memory)[:2], told


@pytest.mark.parametrize(
    "env",
    [
        IteratedMatrixGame(STEPS, EPISODES),
        pytest.param(
            CoinGame(STEPS, num_outer_steps=EPISODES, observation="index"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["IPD", "CoinGame"],
)
def test_a_reward_of_the_second_episode_reaches_the_first_one_outside_only(env):
    """In every game, whatever its rules say of an inner end."""
    outer = PPO.from_env(env, **PLAIN)
    inner = Telling.from_env(env, player=1, **PLAIN)
    lineup = Lineup(env, (Slot(outer), Slot(inner, (1,), clock="inner")), GAMES)
    states = tuple(a.init_state(jax.random.key(1)) for a in (outer, inner))

    trial = jax.jit(play_trial, static_argnums=0)(
        lineup, env.default_params, states, keys.lanes(3, GAMES), jnp.int32(0)
    )

    sample, last_obs, memory = trial.experiences[0]
    seen = outer.make_batch(sample, last_obs, states[0], memory).advantages
    whole = np.cumsum(np.asarray(sample.rewards)[::-1], axis=0)[::-1]
    np.testing.assert_allclose(seen, whole, atol=1e-5)

    told = jax.tree.map(np.asarray, trial.stats[1])
    assert told["rewards"].shape == (EPISODES, STEPS, GAMES)
    own = np.cumsum(told["rewards"][:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(told["advantages"], own, atol=1e-5)
    # The rewards that tell the two apart are there.
    assert (np.abs(told["rewards"][1]).sum(axis=0) > 0).any()
    assert (np.abs(whole[0] - np.cumsum(sample.rewards, axis=0)[STEPS - 1]) > 0).any()


def meta_game(*words):
    agents = (
        "agent1={name: Tabular, num_minibatches: 2, learning_rate: 0.1}",
        "agent2={name: Naive, learning_rate: 1.0, clock: inner, reset: trial}",
    )
    sizes = ("num_inner_steps=4", "num_outer_steps=3", "num_envs=2", "num_seeds=1")
    return prepare(load([*sizes, "total_timesteps=96", *agents, *words]))


def test_the_config_of_a_meta_game():
    """The inner learner plans one trial's updates, one for each opponent apart."""
    plan = meta_game("num_opponents=4", "agent2.learning_rate_end=0.0")

    outer, inner = plan.experiment.slots
    assert (outer.clock, outer.reset, outer.per_opponent) == ("trial", "never", False)
    assert (inner.clock, inner.reset, inner.per_opponent) == ("inner", "trial", True)
    assert inner.agent.config.num_updates == 3
    assert outer.agent.config.num_updates == plan.num_iterations == 1


@pytest.mark.parametrize("reset", ["sometimes", "0"])
def test_a_reset_that_is_none_is_refused(reset):
    with pytest.raises(ConfigError, match="reset must be"):
        meta_game(f"agent2.reset={reset}")


@pytest.mark.slow
def test_the_co_player_starts_afresh_in_every_trial_and_the_outer_learner_goes_on():
    plan = meta_game("total_timesteps=72", "num_opponents=1")
    state = program_of(plan).state
    # Program states have an axis of seeds.
    state = jax.tree.map(lambda x: x[0], state)
    counts = []
    for _ in range(3):
        state, _ = train_chunk(plan.experiment, state, 1)
        counts.append([int(agent.timesteps) for agent in state.agents])
    assert counts == [[24, 24], [48, 24], [72, 24]]
