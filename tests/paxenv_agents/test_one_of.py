"""One of several agents, drawn anew at the opening of each trial."""

import jax
import jax.numpy as jnp
import numpy as np

import paxenv
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.one_of import OneOf
from paxenv_agents.engine.play import play_trial
from paxenv_agents.registry import make_agent


def test_the_engine_plays_whole_trials_as_the_member_that_was_drawn():
    """64 games: each member in some of them, and never both in one."""
    env, params = paxenv.make("IPD", num_inner_steps=5, observation="index")
    members = tuple(make_agent(name, env, player=1) for name in ("AllC", "AllD"))
    one_of = OneOf.from_env(env, player=1, members=members)
    first = make_agent("AllC", env)
    lineup = Lineup(env, (Slot(first, (0,)), Slot(one_of, (1,))), num_games=64)
    states = tuple(s.agent.init_state(jax.random.key(0)) for s in lineup.slots)
    lanes = jax.random.split(jax.random.key(1), 64)
    trial = play_trial(lineup, params, states, lanes, jnp.int32(0))
    returns = np.asarray(trial.returns)[0, 0]
    assert set(returns.tolist()) == {-5.0, -15.0}
    assert 16 < (returns == -5).sum() < 48
