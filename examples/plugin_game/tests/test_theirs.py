"""The package's own tests, run after it is installed."""

import jax
import pytest
from theirs.game import make

import paxenv


@pytest.mark.parametrize("num_players", [2, 3])
def test_game_keeps_the_promises_of_paxenv(num_players):
    env, params = make(4, 2, num_players=num_players, random_ends=True)
    paxenv.check_env(env, params)


def test_giving_alone_costs_what_the_pool_does_not_return():
    env, params = make(3, failure_prob=0.0)
    _, state = env.reset(jax.random.key(0), params)
    _, _, rewards, _, _ = env.step(jax.random.key(1), state, (0, 1), params)
    assert [float(r) for r in rewards] == pytest.approx([0.8, 1.8])


def test_plugins_are_registered():
    refused = [p for p in paxenv.plugins() if p.distribution == "theirs" and p.refused]
    assert refused == []
    assert paxenv.make("theirs/Game-v0", num_players=3)[0].num_players == 3
