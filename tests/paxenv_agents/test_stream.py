"""Endless play: what rollouts cut apart is what uncut play would be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice, Fixed, Recorder, seated

import paxenv
from paxenv import keys
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.stream import open_stream, play_steps

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
KEY = jax.random.key(3)


def lineup(num_inner_steps=3, num_outer_steps=1, num_games=2, **options):
    env = IteratedMatrixGame(num_inner_steps, num_outer_steps, **options)
    slots = (
        Slot(seated(Recorder, env), (0,)),
        Slot(seated(Dice, env, 1), (1,)),
    )
    return Lineup(env, slots, num_games)


def opened(table):
    states = tuple(s.agent.init_state(KEY) for s in table.slots)
    lanes = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(table.num_games))
    return states, open_stream(table, PARAMS, states, lanes), lanes


def rolled(table, states, stream, *lengths):
    """Plays rollouts of these lengths; returns all their samples and the last one."""
    samples, rollouts = [], []
    for length in lengths:
        rollout = jax.jit(play_steps, static_argnums=(0, 4))(
            table, PARAMS, states, stream, length
        )
        stream = rollout.stream
        samples.append(rollout.experiences[0].sample)
        rollouts.append(rollout)
    return jax.tree.map(lambda *xs: jnp.concatenate(xs), *samples), rollouts


@pytest.mark.slow
def test_a_rollout_in_pieces_equals_the_rollout_in_one_bit_for_bit():
    table = lineup(num_inner_steps=3)
    states, stream, _ = opened(table)
    whole, _ = rolled(table, states, stream, 8)
    parts, _ = rolled(table, states, stream, 1, 5, 2)
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_a_stream_plays_the_trials_of_replay_one_after_the_other():
    table = lineup(num_inner_steps=3, num_outer_steps=2)
    states, stream, lanes = opened(table)
    rollout = play_steps(table, PARAMS, states, stream, 15)
    sample = rollout.experiences[0].sample
    for game in range(2):
        zeros = jnp.zeros(15, jnp.int32)
        dice = []
        for n in range(15):
            step_key = keys.step(keys.episode(lanes[game], n // 6), n % 6)
            word = jax.random.key_data(jax.random.fold_in(keys.player(step_key, 1), 0))[
                0
            ]
            dice.append(int(word & 1))
        played = paxenv.replay(
            table.env, PARAMS, actions=(zeros, jnp.array(dice)), lane_key=lanes[game]
        )
        np.testing.assert_array_equal(sample.rewards[:, game], played.rewards[0])


def test_learners_see_ends_of_trials_and_their_inner_ends():
    table = lineup(num_inner_steps=2, num_outer_steps=2)
    states, stream, _ = opened(table)
    sample = play_steps(table, PARAMS, states, stream, 9).experiences[0].sample
    np.testing.assert_array_equal(sample.inner_ends[:, 0], [0, 1, 0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(sample.truncations[:, 0], [0, 0, 0, 1, 0, 0, 0, 1, 0])
    assert not sample.dones.any()
    assert sample.valid.all()


def test_a_cut_is_valued_with_the_memory_before_the_boundary():
    table = lineup(num_inner_steps=2)
    states, stream, _ = opened(table)
    rollout = play_steps(table, PARAMS, states, stream, 4)
    sample = rollout.experiences[0].sample
    # The recorder's value is 100 + its steps so far; nothing clears them in a stream.
    np.testing.assert_array_equal(sample.final_values[:, 0], [0, 102, 0, 104])
    crossed = rollout.experiences[0].memory.hidden
    np.testing.assert_array_equal(crossed, [[4, 2], [4, 2]])


def test_a_horizon_that_terminates_is_an_end_without_a_value():
    table = lineup(num_inner_steps=2, horizon="terminate")
    states, stream, _ = opened(table)
    sample = play_steps(table, PARAMS, states, stream, 4).experiences[0].sample
    np.testing.assert_array_equal(sample.dones[:, 0], [0, 1, 0, 1])
    assert not sample.final_values.any()


def test_returns_are_of_whole_episodes_across_rollouts():
    """An accumulator neither leaks over an end nor starts anew at a rollout."""
    env = IteratedMatrixGame(5)
    slots = (Slot(seated(Recorder, env), (0,)), Slot(seated(Fixed, env, 1), (1,)))
    table = Lineup(env, slots, 1)
    states, stream, _ = opened(table)
    _, rollouts = rolled(table, states, stream, 4, 4, 4, 4, 4)
    counts = [int(r.episodes.count.sum()) for r in rollouts]
    returns = [float(r.episodes.returns[0, 0]) for r in rollouts]
    assert counts == [0, 1, 1, 1, 1]
    np.testing.assert_allclose(returns, [0.0, -5.0, -5.0, -5.0, -5.0])
    assert [int(r.episodes.length.sum()) for r in rollouts] == [0, 5, 5, 5, 5]
    assert [int(r.episodes.truncated.sum()) for r in rollouts] == [0, 1, 1, 1, 1]


@pytest.mark.slow
def test_the_games_statistics_count_every_step_of_a_rollout_once():
    table = lineup(num_inner_steps=3, num_games=4)
    states, stream, _ = opened(table)
    _, rollouts = rolled(table, states, stream, 5, 7)
    visits = [int(r.totals["visits"][0].sum()) for r in rollouts]
    assert visits == [20, 28]


@pytest.mark.slow
def test_equal_lanes_draw_alike_and_other_lanes_do_not():
    table = lineup(num_inner_steps=16, num_games=2)
    states, stream, _ = opened(table)
    sample = play_steps(table, PARAMS, states, stream, 16).experiences[0].sample
    again = play_steps(table, PARAMS, states, stream, 16).experiences[0].sample
    np.testing.assert_array_equal(sample.rewards, again.rewards)
    assert (sample.rewards[:, 0] != sample.rewards[:, 1]).any()
