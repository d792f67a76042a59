"""Opponents that learn within the trial, in the single-agent adapters."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv import keys
from paxenv_agents.agent import Agent
from paxenv_agents.engine.learning_co_players import opening_key
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial

STEPS, EPISODES, SEED = 6, 3, 5


@dataclasses.dataclass(frozen=True)
class Script(Agent):
    """Plays what it is told at each step of the trial; hidden[0] counts the steps."""

    actions: tuple[int, ...] = ()

    hidden_size = 1  # type: ignore[assignment]

    def policy(self, state, obs, memory):
        t = memory.hidden[0].astype(jnp.int32)
        action = jnp.array(self.actions)[t]
        return action, state, memory.replace(hidden=memory.hidden + 1)


def options(name="Naive", **more):
    return {
        "opponent": name,
        "opponent_learns": True,
        "num_inner_steps": STEPS,
        "num_outer_steps": EPISODES,
        **more,
    }


def native_trial(env, actions, seed=SEED, e=0):
    """The trial of `play_trial` in which player 1 plays `actions`."""
    single, params = env.native
    (co_player,) = single.co_players
    game = single.env
    script = Script(
        game.observation_space(0), game.action_space(0), tuple(map(int, actions))
    )
    lane_keys = keys.lanes(seed, 1)
    reset_key = keys.reset(keys.episode(lane_keys[0], e))
    state = co_player.init_state(opening_key(reset_key, 1))
    slots = (Slot(script, (0,)), Slot(co_player, (1,), clock="inner"))
    play = jax.jit(play_trial, static_argnums=0)
    return play(
        Lineup(game, slots, 1),
        params.game,
        (script.init_state(lane_keys[0]), state),
        lane_keys,
        jnp.int32(e),
    )


def stepped(env, actions, seed=SEED):
    env.reset(seed=seed)
    steps = [env.step(action) for action in actions]
    rewards = np.array([step[1] for step in steps])
    others = np.array([step[4]["rewards"][1] for step in steps])
    assert [step[3] for step in steps] == [False] * (len(steps) - 1) + [True]
    return rewards, others


@pytest.mark.parametrize(
    "name",
    [
        "Naive",
        pytest.param("PPO", marks=pytest.mark.slow),
        pytest.param("RecurrentPPO", marks=pytest.mark.slow),
    ],
)
def test_the_opponent_learns_as_in_the_native_trial(name):
    """Same actions: the same rewards, and the same parameters to 1e-5."""
    agent = paxenv_agent(name)
    env = gymnasium.make("pax/IPD-v0", **options(agent)).unwrapped
    actions = np.random.default_rng(0).integers(0, 2, STEPS * EPISODES)
    rewards, others = stepped(env, actions)
    trial = native_trial(env, actions)
    returns = np.asarray(trial.returns)[:, :, 0]
    per_episode = np.stack([rewards, others], -1).reshape(EPISODES, STEPS, 2).sum(1)
    np.testing.assert_allclose(per_episode, returns, atol=1e-5)
    learnt, native = env.state.learning.states[0], trial.states[1]
    assert int(learnt.timesteps) == STEPS * EPISODES
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        learnt.params,
        native.params,
    )


@pytest.mark.slow
def test_an_episode_that_ends_at_random_teaches_what_was_played():
    random_ends = {"random_ends": True, "continuation_prob": 0.7}
    made = options(paxenv_agent("Naive"), **random_ends)
    env = gymnasium.make("pax/IPD-v0", **made).unwrapped
    env.reset(seed=SEED)
    actions, over = [], False
    while not over:
        actions.append(len(actions) % 2)
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    assert len(actions) < STEPS * EPISODES
    trial = native_trial(env, [*actions, 0])
    learnt = env.state.learning.states[0]
    assert int(learnt.timesteps) == len(actions) == int(trial.lengths.sum())
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        learnt.params,
        trial.states[1].params,
    )


def paxenv_agent(name):
    from paxenv_agents import make_agent

    env, _ = paxenv.make("IPD-v0", num_inner_steps=STEPS, num_outer_steps=EPISODES)
    small = {"learning_rate": 0.1, "num_minibatches": 1, "hidden_sizes": (4,)}
    if name == "RecurrentPPO":
        small["gru_size"] = 3
    if name == "Naive":
        small = {"learning_rate": 0.5, "tabular": True}
    return make_agent(name, env, 1, **small)


@pytest.mark.slow
def test_every_trial_begins_with_a_new_opponent():
    env = gymnasium.make("pax/IPD-v0", **options(small_ppo())).unwrapped

    def opening(seed):
        env.reset(seed=seed)
        return jax.tree.map(np.asarray, env.state.learning.states[0].params)

    first, second, again = opening(SEED), opening(None), opening(SEED)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    same = jax.tree.map(np.array_equal, first, second)
    assert not all(jax.tree.leaves(same))


def small_ppo():
    return paxenv_agent("PPO")


def test_a_trained_opponent_begins_every_trial_as_it_was_given():
    agent = paxenv_agent("Naive")
    given = agent.init_state(jax.random.key(9))
    given = given.replace(params=jax.tree.map(lambda x: x + 0.25, given.params))
    env = gymnasium.make("pax/IPD-v0", **options((agent, given))).unwrapped
    for seed in (SEED, None):
        env.reset(seed=seed)
        opened = env.state.learning.states[0].params
        jax.tree.map(np.testing.assert_array_equal, opened, given.params)
        for _ in range(STEPS):
            env.step(1)
        changed = jax.tree.map(
            np.array_equal, env.state.learning.states[0].params, given.params
        )
        assert not all(jax.tree.leaves(changed))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_lane_of_many_learns_as_the_single_game(mode):
    agent = paxenv_agent("Naive")
    envs = gymnasium.make_vec(
        "pax/IPD-v0", num_envs=3, autoreset_mode=mode, **options(agent)
    )
    total = STEPS * EPISODES
    actions = np.random.default_rng(1).integers(0, 2, (total - 1, 3))
    envs.reset(seed=SEED)
    rewards = np.stack([envs.step(a)[1] for a in actions])
    for lane in range(3):
        env = gymnasium.make("pax/IPD-v0", **options(agent)).unwrapped
        env.reset(seed=SEED + lane)
        alone = [env.step(action)[1] for action in actions[:, lane]]
        np.testing.assert_allclose(rewards[:, lane], alone, atol=1e-6)
        jax.tree.map(
            lambda a, b, lane=lane: np.testing.assert_allclose(a[lane], b, atol=1e-5),
            envs.unwrapped.state.learning.states[0].params,
            env.state.learning.states[0].params,
        )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"opponent": "TitForTat"}, "TitForTat does not learn: name a learner"),
        ({"opponent": ["Naive", "PPO"]}, "OneOf does not learn"),
        ({"num_outer_steps": 1}, "there must be 2 or more"),
        ({"opponent": "RecurrentPPO"}, "num_minibatches"),
    ],
)
def test_an_opponent_that_cannot_learn_is_refused(more, message):
    with pytest.raises(ValueError, match=message):
        gymnasium.make("pax/IPD-v0", **{**options(), **more})


def test_a_game_of_one_player_has_no_opponent_that_learns():
    with pytest.raises(ValueError, match="takes no opponent"):
        gymnasium.make("pax/CartPole-v1", opponent_learns=True)
