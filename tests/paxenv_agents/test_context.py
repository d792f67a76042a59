"""What privileged learners are told: who plays, and games to try things out."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice, Fixed, Recorder, seated

from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.envs.iterated_tensor_game import IteratedTensorGame
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import context_of, play_trial
from runners.engine.experiment import Experiment, train_chunk

ALL = frozenset({"co_players", "play", "trajs"})


@dataclasses.dataclass(frozen=True)
class Spy(Recorder):
    """Reports what it is told; moves its own `params` by 100 so that all is visible."""

    told: ClassVar[frozenset[str]] = ALL

    @property
    def privileges(self):
        return self.told

    def update(self, traj, last_obs, state, memory, *, context):
        def one(context):
            other = context.co_players[1 - context.index]
            fresh = context.play(state.key, (None, None), 3)[context.index]
            return {
                "params": jnp.float32(other.state.params),
                "seen": context.trajs[1 - context.index].rewards.sum(),
                "fresh": fresh.rewards.sum(),
                "number": jnp.float32(context.opponent),
            }

        stats = jax.tree.map(lambda x: x.mean(), context.each(one))
        state = state.replace(params=state.params + 100, key=state.key)
        return state, memory, stats


class Blind(Spy):
    """Has the privilege to play, and no other."""

    told = frozenset({"play"})


def lineup(env, agents, num_games=2, **slots):
    seats = tuple(Slot(agent, (p,), **slots) for p, agent in enumerate(agents))
    return Lineup(env, seats, num_games)


def context(env, agents, num_games=2, index=0):
    seats = lineup(env, agents, num_games)
    states = tuple(agent.init_state(jax.random.key(0)) for agent in agents)
    none = (None,) * len(agents)
    told = context_of(seats, index, env.default_params, states, none)
    return told["context"]


def played(agents):
    """Returns a trial of three inner episodes of two steps in two games."""
    seats = lineup(agents[0], agents[1:], clock="inner")
    states = tuple(agent.init_state(jax.random.key(0)) for agent in agents[1:])
    lanes = jax.random.split(jax.random.key(0), 2)
    play = jax.jit(play_trial, static_argnums=0)
    return play(seats, agents[0].default_params, states, lanes, jnp.int32(0))


@pytest.mark.parametrize("seat", [0, 1])
def test_an_inner_update_sees_the_co_player_before_its_own_update(seat):
    """The co-player adds 1 at every boundary: 0, 1, 2 are seen, not 1, 2, 3. What it
    was paid is that of the episode: -1, 0 and -1 in each of 2 x 2 steps.
    """
    env = IteratedMatrixGame(2, 3)
    kinds = (Spy, Recorder) if seat == 0 else (Recorder, Spy)
    agents = tuple(seated(kind, env, player=p) for p, kind in enumerate(kinds))

    stats = played((env, *agents)).stats[seat]

    assert stats["params"].tolist() == [0, 1, 2]
    assert stats["seen"].tolist() == [-4.0, 0.0, -4.0]


@pytest.mark.slow
def test_trial_updates_of_one_episode_get_a_context():
    env = IteratedMatrixGame(2)
    slots = (
        Slot(seated(Spy, env), (0,)),
        Slot(seated(Recorder, env, player=1), (1,)),
    )
    experiment = Experiment(env, slots, num_games=2, chunk_size=2)
    start = experiment.init(jax.random.key(0), env.default_params)

    _, rows = train_chunk(experiment, start, 2)

    # Both cooperate at first; then the co-player defects and the spy does not.
    assert rows["train/player_1/params"].tolist() == [0, 1]
    assert rows["train/player_1/seen"].tolist() == [-4.0, 0.0]
    assert rows["train/player_1/fresh"].tolist() == [-6.0, -18.0]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_opponent"])
def test_each_opponent_is_a_context_of_its_own(shared):
    """Three opponents with 0 updates: numbers 0, 1, 2 have the mean 1."""
    env = IteratedMatrixGame(2)
    slots = (
        Slot(seated(Spy, env), (0,), per_opponent=not shared),
        Slot(seated(Recorder, env, player=1), (1,), per_opponent=True),
    )
    experiment = Experiment(env, slots, num_games=2, num_opponents=3, chunk_size=1)
    start = experiment.init(jax.random.key(0), env.default_params)

    state, rows = train_chunk(experiment, start, 1)

    # Who has a state for each opponent knows of one only.
    assert rows["train/player_1/number"].tolist() == [1.0 if shared else 0.0]
    assert rows["train/player_1/fresh"].tolist() == [-6.0]
    params = state.agents[0].params
    assert params.tolist() == (100 if shared else [100, 100, 100])


def test_games_tried_out_are_lanes_of_their_own():
    env = IteratedMatrixGame(20)
    told = context(env, (seated(Spy, env), seated(Dice, env, player=1)))

    first = told.play(jax.random.key(0), (None, None), 4)
    again = told.play(jax.random.key(0), (None, None), 4)
    other = told.play(jax.random.key(1), (None, None), 4)

    assert first[0].rewards.shape == (20, 4)
    assert first[1] is None  # it does not learn
    np.testing.assert_array_equal(first[0].rewards, again[0].rewards)
    assert (np.asarray(first[0].rewards) != np.asarray(other[0].rewards)).any()
    assert np.var(first[0].rewards.sum(0)) > 0


def test_games_tried_out_are_one_inner_episode_with_fresh_memories():
    env = IteratedMatrixGame(3, 5)
    spy = seated(Spy, env)
    slots = Slot(spy, (0,), clock="inner"), Slot(seated(Fixed, env, player=1), (1,))
    states = spy.init_state(jax.random.key(0)), slots[1].agent.init_state(0)
    told = context_of(Lineup(env, slots, 2), 0, env.default_params, states, (None,) * 2)

    sample = told["context"].play(jax.random.key(0), (None, None))[0]

    # The spy's value is 100 and the steps since its memory was opened.
    assert sample.behavior_values[:, 0].tolist() == [100, 101, 102]
    assert sample.truncations[:, 0].tolist() == [False, False, True]


def test_other_states_and_other_agents_can_be_tried_out():
    env = IteratedMatrixGame(1)
    recorder = seated(Recorder, env, player=1)
    told = context(env, (seated(Spy, env), recorder), num_games=1)
    defecting = recorder.init_state(jax.random.key(0)).replace(params=jnp.float32(1))
    fixed = seated(Fixed, env, action=1)

    as_they_are = told.play(jax.random.key(0), (None, None))[0]
    other_state = told.play(jax.random.key(0), (None, defecting))[0]
    other_agent = told.play(
        jax.random.key(0), (None, None), agents=(None, Dice.from_env(env, 1))
    )

    assert as_they_are.rewards.tolist() == [[-1.0]]
    assert other_state.rewards.tolist() == [[-3.0]]
    assert other_agent[0].rewards.item() in (-1.0, -3.0)
    assert fixed.privileges == frozenset()


def test_what_a_learner_has_no_privilege_for_is_not_told():
    env = IteratedMatrixGame(2)
    told = context(env, (seated(Blind, env), seated(Recorder, env, player=1)))

    assert told.play(jax.random.key(0), (None, None)) is not None
    with pytest.raises(ValueError, match=r"Blind has no privilege 'co_players'"):
        told.co_players  # noqa: B018
    with pytest.raises(ValueError, match=r"Blind has no privilege 'trajs'"):
        told.trajs  # noqa: B018


def test_nobody_else_gets_a_context():
    """`Recorder.update` takes no such keyword, and is called with none."""
    env = IteratedMatrixGame(2)
    agents = seated(Recorder, env), seated(Spy, env, player=1)

    assert context_of(lineup(env, agents), 0, None, (None, None), (None, None)) == {}


def test_all_players_of_a_larger_game_are_told_of():
    env = IteratedTensorGame(3, num_inner_steps=2)
    agents = (
        seated(Recorder, env),
        seated(Spy, env, player=1),
        seated(Fixed, env, player=2),
    )
    told = context(env, agents, index=1)

    assert [one.learns for one in told.co_players] == [True, True, False]
    assert [one.agent for one in told.co_players] == list(agents)
    assert told.play(jax.random.key(0), (None,) * 3)[0].rewards.shape == (2, 2)


def test_several_episodes_on_the_trial_clock_are_refused():
    env = IteratedMatrixGame(2, 3)
    agents = seated(Spy, env), seated(Fixed, env, player=1)

    with pytest.raises(ValueError, match="Spy looks at the next inner episode, and a"):
        lineup(env, agents, clock="trial")
