"""Agents as static arguments: which options decide a program, and which are traced."""

import dataclasses

import compiles
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv.single_player import SinglePlayer
from paxenv_agents import structure
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.one_of import OneOf
from paxenv_agents.exact.agents import LOLAExact
from paxenv_agents.learners.dqn import DQN
from paxenv_agents.learners.lola import LOLA
from paxenv_agents.learners.ppo import PPO
from paxenv_agents.learners.sac import SAC
from paxenv_agents.registry import make_agent

IPD, _ = paxenv.make("IPD-v0", num_inner_steps=4)
X = np.float32(2.0)
PENDULUM, _ = paxenv.make("Pendulum-v1")
INFINITE, _ = paxenv.make("InfiniteMatrixGame-v0", num_inner_steps=4)


def ppo(**options):
    return PPO.from_env(IPD, player=0, **options)


@pytest.mark.parametrize(
    "agents",
    [
        (ppo(), ppo(learning_rate=0.1, gamma=0.5, clip_epsilon=0.1)),
        (ppo(), ppo(max_grad_norm=9)),
        (ppo(num_updates=5), ppo(num_updates=6)),
        (ppo(learning_rate_end=0.0, num_updates=5),) * 2,
        tuple(
            ppo(entropy_coeff_end=0.0, entropy_coeff_horizon=steps)
            for steps in (100, 200)
        ),
        (SAC.from_env(PENDULUM, alpha=0.1), SAC.from_env(PENDULUM, alpha=0.2)),
        tuple(SAC.from_env(PENDULUM, target_entropy=x) for x in (-1.0, -2.0)),
        (DQN.from_env(IPD), DQN.from_env(IPD, epsilon_end=0.5, tau=1)),
        (LOLA.from_env(IPD), LOLA.from_env(IPD, lr_in=3.0)),
        (LOLAExact.from_env(INFINITE), LOLAExact.from_env(INFINITE, lookahead_rate=9)),
    ],
)
def test_agents_that_differ_in_numbers_have_one_structure(agents):
    one, other = (structure.of(agent) for agent in agents)
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_sizes": (8,)},
        {"num_epochs": 2},
        {"normalise_advantages": False},
        # None is no number: it decides what is computed.
        {"max_grad_norm": None},
        {"entropy_coeff_end": 0.0, "num_updates": 4},
    ],
)
def test_options_that_decide_a_program_stay_in_the_structure(options):
    assert structure.of(ppo()) != structure.of(ppo(**options))


def test_what_was_split_is_merged_again():
    agent = ppo(learning_rate=0.25, max_grad_norm=None, learning_rate_end=0.5)
    slot = Slot(agent, players=(0,))
    parts = structure.split(slot)
    merged = structure.merge(*parts)
    assert merged == dataclasses.replace(slot)
    assert merged.agent.config.max_grad_norm is None
    assert merged.agent.config.learning_rate == 0.25


def test_agents_within_agents_and_games_are_found():
    def game(rate):
        learner = PPO.from_env(IPD, player=1, learning_rate=rate)
        members = (make_agent("TitForTat", IPD, player=1), learner)
        opponent = OneOf.from_env(IPD, player=1, members=members)
        return SinglePlayer(IPD, 0, (opponent,))

    one, other = structure.split(game(0.5)), structure.split(game(0.25))
    assert one[0] == other[0]
    assert structure.merge(*other).co_players[0].members[1].config.learning_rate == 0.25


def test_one_program_computes_with_each_number():
    @structure.jit("agent")
    def doubled(agent, x):
        return agent.config.learning_rate * x, agent.initial_hyper()["learning_rate"]

    for rate in (0.5, 0.25, 4.0):
        product, hyper = doubled(ppo(learning_rate=rate), jnp.float32(2.0))
        assert (float(product), float(hyper)) == (2.0 * rate, rate)
    assert doubled._cache_size() == 1


def test_a_lowered_program_takes_other_numbers():
    @structure.jit("agent", donate=("x",))
    def times(agent, x):
        return agent.config.learning_rate * x

    run = times.lower(ppo(learning_rate=0.5), jnp.float32(2.0)).compile()
    assert float(run(ppo(learning_rate=3.0), jnp.float32(2.0))) == 6.0


def test_more_options_of_jit_do_not_compile_anew():
    @structure.jit("agent")
    def times(agent, x):
        return agent.config.learning_rate * x

    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def product(rate):
        program = times.with_options(out_shardings=place)
        return program.lower(ppo(learning_rate=rate), X).compile()(
            ppo(learning_rate=rate), X
        )

    assert float(product(0.5)) == 1.0
    with compiles.counted() as seen:
        assert float(product(3.0)) == 6.0
    assert len(seen) == 0
