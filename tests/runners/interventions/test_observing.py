"""Payoffs that are shown, and games in which a player is blind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Fixed, Recorder, seated

import paxenv
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from runners.config import ConfigError, load
from runners.engine.experiment import train_chunk
from runners.engine.interventions import (
    BlindGames,
    InTurn,
    PayoffNoise,
    PayoffSampler,
    PayoffShown,
    blind_games,
)
from runners.planning.plan import prepare

PAYOFF = [[-1, -1], [-3, 0], [0, -3], [-2, -2]]
PARAMS = EnvParams(payoff_matrix=PAYOFF)
START = (0, 0, 0, 0, 1)


def experience(observe, num_games=3, params=PARAMS):
    env = IteratedMatrixGame(3)
    slots = (
        Slot(seated(Recorder, env), (0,), observe=observe),
        Slot(seated(Fixed, env, 1), (1,)),
    )
    states = tuple(slot.agent.init_state(jax.random.key(0)) for slot in slots)
    lanes = jax.vmap(jax.random.key)(np.arange(num_games))
    lineup = Lineup(env, slots, num_games)
    return play_trial(lineup, params, states, lanes, np.int32(0)).experiences[0]


def test_the_payoff_shown_is_the_one_that_is_paid():
    """What is appended equals the game's payoff, in every game and step."""
    drawn = PayoffSampler(PayoffNoise(-0.5, 0.5), players=(1,))(
        jax.random.key(3), PARAMS
    )
    sample = experience(PayoffShown(), params=drawn).sample
    assert sample.observations.shape == (3, 3, 5 + 8)
    shown = np.asarray(sample.observations)[..., 5:]
    np.testing.assert_array_equal(
        shown, np.broadcast_to(np.asarray(drawn.payoff_matrix).ravel(), shown.shape)
    )
    # Player 1 cooperates against cooperation: it is paid the first number it sees.
    np.testing.assert_array_equal(sample.rewards, shown[..., 0])


@pytest.mark.parametrize("num_blind", [0, 2])
def test_the_first_games_show_start_and_the_others_what_was_played(num_blind):
    sample, last_obs, _ = experience(BlindGames(num_blind, START))
    states = np.argmax(sample.observations, -1)
    for game in range(3):
        expected = [4, 4, 4] if game < num_blind else [4, 0, 0]
        np.testing.assert_array_equal(states[:, game], expected)
    assert (np.argmax(last_obs, -1) == 4).sum() == num_blind


def test_a_blind_player_still_sees_the_payoff():
    both = InTurn((BlindGames(1, START), PayoffShown()))
    seen = np.asarray(experience(both).sample.observations)
    np.testing.assert_array_equal(np.argmax(seen[:, 0, :5], -1), [4, 4, 4])
    np.testing.assert_array_equal(seen[0, 0, 5:], np.ravel(PAYOFF))


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["rl", "eval"])
def test_an_agents_observation_space_follows_from_what_it_is_shown(runner):
    words = ("agent1.show_payoff=true", "agent1.blind_games=1", f"runner={runner}")
    plan = prepare(load(["ipd/ppo_v_tft", "num_envs=2", "num_inner_steps=5", *words]))
    agent = plan.experiment.slots[0].agent
    assert agent.observation_space.shape == (13,)
    _, rows = train_chunk(
        plan.experiment, plan.experiment.init(jax.random.key(0), plan.params), 1
    )
    assert np.isfinite(rows["episode/return/player_1"][0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env=CartPole", "agent1={name: PPO, show_payoff: true}"], "no payoff table"),
        (["agent1.show_payoff=true", "env.observation=index"], "leave out observation"),
        (
            ["agent1.blind_games=3", "num_envs=2"],
            "blind_games=3 is more than the 2 games that num_envs says",
        ),
        (["env=CoinGame", "agent1={name: PPO, blind_games: 1}"], "shows no START"),
    ],
)
def test_what_cannot_be_shown_is_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        prepare(load(words))


def test_a_blind_player_of_the_infinite_game_sees_one_half_everywhere():
    env, params = paxenv.make("InfiniteMatrixGame", num_inner_steps=2)
    blind = blind_games(1, env, params, 0)
    obs, state = env.reset(jax.random.key(0), params)
    actions = tuple(jnp.full(5, 2.0) for _ in range(2))
    obs, *_ = env.step(jax.random.key(1), state, actions, params)
    assert float(jnp.abs(obs[0] - 0.5).min()) > 0.3
    assert blind(obs[0], params, jnp.int32(0), 0).tolist() == [0.5] * 10
    assert blind(obs[0], params, jnp.int32(1), 0).tolist() == obs[0].tolist()
