"""Evaluation: whole episodes, their keys, and what is never reported as a number."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice as DicePlayer
from engine_fakes import Fixed
from game_fakes import Counting, Dice

import paxenv
import paxenv_agents
import runners
from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv.single_player import SinglePlayer
from paxenv_agents.agent import Agent
from paxenv_agents.engine.one_of import OneOf
from paxenv_agents.types import TrainingState
from runners.engine.statistics import EpisodeStats, summarise

CART_POLE, CART_POLE_PARAMS = paxenv.make("CartPole-v1")
DICE, DICE_PARAMS = Dice(4), Dice(4).default_params
KEY = jax.random.key(7)


def balance(gains, obs):
    """Pushes to the side to which the pole falls: `gains` weigh the coordinates."""
    return (jnp.dot(gains, obs) > 0).astype(jnp.int32)


def push_left(agent_state, obs):
    return jnp.int32(0)


BALANCING = jnp.array([0.1, 0.5, 2.0, 2.0])


PLAY = jax.jit(
    runners.play_episodes,
    static_argnames=("agent", "env", "n_episodes", "max_steps"),
)


def against_dice(player=0, payoff=((-1, -1), (-3, 0), (0, -3), (-2, -2))):
    """Returns five steps against a player who draws, as a one-player game."""
    env = IteratedMatrixGame(5)
    single = SinglePlayer(env, player, (DicePlayer.from_env(env, 1 - player),))
    return single, single.make_params(EnvParams(payoff_matrix=payoff))


def play(agent, env, params, n_episodes=3, max_steps=20, state=None, key=KEY):
    state = TrainingState() if state is None else state
    return PLAY(
        agent, state, env, params, key, n_episodes=n_episodes, max_steps=max_steps
    )


# What an evaluation reports.


def test_balanced_pole_stands_for_the_whole_time():
    metrics = runners.jit_evaluate(
        balance,
        BALANCING,
        CART_POLE,
        CART_POLE_PARAMS,
        n_episodes=4,
        max_steps=600,
        rng=KEY,
    )
    assert tuple(float(x) for x in metrics) == (500.0, 0.0, 500.0)
    assert metrics._fields == ("mean_return", "std_return", "mean_length")


def test_episodes_count_equally_however_short():
    """Pushed to one side, poles fall after 8, 9 or 10 steps; each counts once."""
    agent = Fixed.from_env(CART_POLE, action=0)
    stats = play(agent, CART_POLE, CART_POLE_PARAMS, n_episodes=16)
    lengths = np.asarray(stats.lengths)
    assert set(lengths) == {8, 9, 10}
    np.testing.assert_array_equal(stats.returns, lengths)
    metrics = runners.jit_evaluate(
        push_left,
        (),
        CART_POLE,
        CART_POLE_PARAMS,
        n_episodes=16,
        max_steps=20,
        rng=KEY,
    )
    np.testing.assert_allclose(metrics.mean_return, lengths.mean(), rtol=1e-6)
    np.testing.assert_allclose(metrics.std_return, lengths.std(), rtol=1e-5)
    np.testing.assert_allclose(metrics.mean_length, lengths.mean(), rtol=1e-6)


def test_step_limit_leaves_episodes_unfinished():
    agent = Fixed.from_env(CART_POLE, action=0)
    stats = play(agent, CART_POLE, CART_POLE_PARAMS, n_episodes=16, max_steps=9)
    lengths = np.asarray(stats.lengths)
    assert set(lengths) == {8, 9}
    assert np.asarray(stats.unfinished).any()
    assert not np.asarray(stats.unfinished)[lengths == 8].any()
    assert not np.asarray(stats.truncated).any()


def test_time_limit_of_the_game_is_told_from_its_ends():
    env, params = paxenv.make("CartPole-v1", num_inner_steps=9)
    stats = play(Fixed.from_env(env, action=0), env, params, n_episodes=16)
    lengths = np.asarray(stats.lengths)
    assert set(lengths) == {8, 9}
    assert np.asarray(stats.truncated)[lengths == 9].any()
    assert not np.asarray(stats.truncated)[lengths == 8].any()
    assert not np.asarray(stats.unfinished).any()


def test_names_of_the_log_follow_from_the_episodes():
    stats = EpisodeStats(
        returns=jnp.array([1.0, 3.0, 8.0, 0.0]),
        lengths=jnp.array([2, 4, 5, 5]),
        truncated=jnp.array([False, True, False, False]),
        unfinished=jnp.array([False, False, True, False]),
        broken=jnp.zeros(4, bool),
    )
    named = {name: float(x) for name, x in summarise(stats).items()}
    assert named == {
        "eval/mean_reward": 3.0,
        "eval/std_reward": pytest.approx(9.5**0.5),
        "eval/min_reward": 0.0,
        "eval/max_reward": 8.0,
        "eval/mean_length": 4.0,
        "eval/n_episodes": 4.0,
        "eval/truncated_fraction": 0.5,
        "mean_eval_reward": 3.0,
    }


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7])
def test_mean_lies_between_the_smallest_and_the_largest(value):
    """Also where the sum of equal float32 returns is rounded."""
    stats = EpisodeStats(
        returns=jnp.full(7, value, jnp.float32),
        lengths=jnp.ones(7, jnp.int32),
        truncated=jnp.zeros(7, bool),
        unfinished=jnp.zeros(7, bool),
        broken=jnp.zeros(7, bool),
    )
    named = summarise(stats)
    assert named["eval/mean_reward"] == named["eval/max_reward"] == jnp.float32(value)


# Where the keys come from.


def test_episode_is_trial_0_of_a_lane_folded_from_the_key():
    env, params = against_dice()
    agent = DicePlayer.from_env(env)
    returns = play(agent, env, params).returns
    for i in range(3):
        lane_key = jax.random.fold_in(KEY, i)
        episode = keys.episode(lane_key, 0)
        obs, state = env.reset(keys.reset(episode), params)
        total = 0.0
        for t in range(5):
            key = keys.step(episode, t)
            memory = agent.init_memory(keys.player(key, 0), jnp.zeros(0))
            action, _, _ = agent.policy(TrainingState(), obs, memory)
            obs, state, reward, _, _ = env.step(key, state, action, params)
            total += float(reward)
        np.testing.assert_allclose(returns[i], total, rtol=1e-6)


def test_episode_does_not_depend_on_how_many_are_played():
    """Lane i draws the same however many lanes there are."""
    env, params = against_dice()
    agent = DicePlayer.from_env(env)
    few = play(agent, env, params, n_episodes=2).returns
    many = play(agent, env, params, n_episodes=64).returns
    np.testing.assert_array_equal(few, many[:2])
    assert len(set(np.asarray(many).tolist())) > 5


def test_endless_stream_is_evaluated_as_its_first_trial():
    wrapped = AutoResetWrapper(DICE)
    agent = DicePlayer.from_env(DICE)
    bare = play(agent, DICE, DICE_PARAMS, n_episodes=5)
    stream = play(agent, wrapped, DICE_PARAMS, n_episodes=5)
    for a, b in zip(bare, stream, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.asarray(stream.lengths).tolist() == [4] * 5


def test_raw_and_typed_keys_mean_the_same():
    agent = DicePlayer.from_env(DICE)
    typed = play(agent, DICE, DICE_PARAMS).returns
    raw = play(agent, DICE, DICE_PARAMS, key=jax.random.PRNGKey(7)).returns
    np.testing.assert_array_equal(typed, raw)


def test_evaluated_player_and_co_player_draw_apart():
    """In the second seat too, both of them play the lowest bit of their own key."""
    env, params = against_dice(player=1, payoff=((1, 1), (0, 0), (0, 0), (1, 1)))
    stats = play(DicePlayer.from_env(env), env, params, n_episodes=32)
    # One point for every match: not always, not never.
    assert 1.0 < float(stats.returns.mean()) < 4.0


@pytest.mark.slow
def test_function_with_a_key_draws_anew_at_every_step():
    @runners.KeyedActFn
    def coin(agent_state, obs, key):
        return (jax.random.key_data(key)[0] & 1).astype(jnp.int32)

    stats = runners.jit_evaluate(
        coin, (), DICE, DICE_PARAMS, n_episodes=64, max_steps=9, rng=KEY
    )
    sampled = play(DicePlayer.from_env(DICE), DICE, DICE_PARAMS, n_episodes=64)
    np.testing.assert_allclose(stats.mean_return, sampled.returns.mean(), rtol=1e-6)
    assert float(stats.std_return) > 0.0


# Agents.


@dataclasses.dataclass(frozen=True)
class Alternating(Agent):
    """Plays its step number mod 2; its memory counts steps, from 0 in each episode."""

    hidden_size = 1  # type: ignore[assignment]

    def policy(self, state, obs, memory):
        action = (memory.hidden[0] % 2).astype(jnp.int32)
        return action, state, memory.replace(hidden=memory.hidden + 1.0)

    def end_inner_episode(self, state, memory):
        return memory.replace(hidden=jnp.zeros(1))


def test_memory_is_carried_through_an_episode():
    env, params = paxenv.make("IPD-v0", num_inner_steps=5)
    co_player = Fixed.from_env(env, 1, action=0)
    single = SinglePlayer(env, 0, (co_player,))
    metrics = runners.evaluate_agent(
        Alternating.from_env(single),
        TrainingState(),
        single,
        single.make_params(params),
        KEY,
        n_episodes=2,
        max_steps=9,
    )
    # Cooperates three times for -1, defects twice for 0.
    assert float(metrics.mean_return) == -3.0


def test_agent_hears_of_inner_ends():
    env, params = paxenv.make("IPD-v0", num_inner_steps=3, num_outer_steps=2)
    single = SinglePlayer(env, 0, (Fixed.from_env(env, 1, action=0),))
    agent = Alternating.from_env(single)
    stats = play(agent, single, single.make_params(params))
    # C D C, and again: without the end it would be C D C D C D, for -3.
    assert np.asarray(stats.returns).tolist() == [-4.0] * 3
    assert np.asarray(stats.lengths).tolist() == [6] * 3


@pytest.fixture(scope="module")
def ppo():
    agent = paxenv_agents.make_agent("PPO", CART_POLE, hidden_sizes=(8,))
    state, _ = agent.make_initial_state(jax.random.key(1), jnp.zeros(0))
    return agent, state


@pytest.mark.slow
def test_function_of_an_agent_is_its_greedy_policy(ppo):
    agent, state = ppo
    act_fn = runners.agent_act_fn(agent)
    greedy = dataclasses.replace(agent, greedy=True)
    _, memory = agent.make_initial_state(KEY, jnp.zeros(0))
    obs = jnp.array([0.0, 0.1, -0.1, 0.3])
    assert act_fn(state, obs) == greedy.policy(state, obs, memory)[0]
    stats = play(greedy, CART_POLE, CART_POLE_PARAMS, state=state, max_steps=50)
    metrics = runners.jit_evaluate(
        act_fn,
        state,
        CART_POLE,
        CART_POLE_PARAMS,
        n_episodes=3,
        max_steps=50,
        rng=KEY,
    )
    np.testing.assert_allclose(metrics.mean_return, stats.returns.mean(), rtol=1e-6)
    np.testing.assert_allclose(metrics.mean_length, stats.lengths.mean(), rtol=1e-6)


def test_evaluation_leaves_the_training_state_as_it_was(ppo):
    """Not one bit of it changes."""
    agent, state = ppo
    before = [np.asarray(x).tobytes() for x in jax.tree.leaves(_data(state))]
    play(agent, CART_POLE, CART_POLE_PARAMS, state=state)
    assert before == [np.asarray(x).tobytes() for x in jax.tree.leaves(_data(state))]


def _data(state):
    return state.replace(key=jax.random.key_data(state.key))


def test_equal_agents_compile_once(ppo):
    agent, state = ppo
    again = paxenv_agents.make_agent("PPO", CART_POLE, hidden_sizes=(8,))
    num_compiled = runners.jit_evaluate._cache_size  # type: ignore[attr-defined]
    before = num_compiled()
    for one in (agent, again):
        env, params = paxenv.make("CartPole-v1")
        runners.jit_evaluate(
            runners.agent_act_fn(one),
            state,
            env,
            params,
            n_episodes=2,
            max_steps=11,
            rng=KEY,
        )
    assert num_compiled() == before + 1


def test_agent_with_a_memory_is_no_function_of_the_observation():
    with pytest.raises(ValueError, match=r"Alternating has a memory.*evaluate_agent"):
        runners.agent_act_fn(Alternating.from_env(CART_POLE))


# What is never reported as a number.


def test_nan_in_the_state_makes_the_metrics_nan():
    broken = BALANCING.at[2].set(jnp.nan)
    metrics = runners.jit_evaluate(
        balance,
        broken,
        CART_POLE,
        CART_POLE_PARAMS,
        n_episodes=2,
        max_steps=20,
        rng=KEY,
    )
    assert np.isnan(metrics).all()


def test_policy_of_nan_logits_is_not_reported_as_playing_action_0(ppo):
    """Infinite weights give NaN logits, though no weight is NaN."""
    agent, state = ppo
    grown = jax.tree.map(lambda x: jnp.full_like(x, jnp.inf), state.params)
    infinite = state.replace(params=grown)
    stats = play(agent, CART_POLE, CART_POLE_PARAMS, state=infinite)
    assert np.asarray(stats.broken).all()
    named = summarise(stats)
    assert named.pop("eval/n_episodes") == 3
    assert np.isnan(list(named.values())).all()


@pytest.mark.slow
def test_infinite_hyperparameter_is_no_fault():
    agent = paxenv_agents.make_agent("PPO", CART_POLE, max_grad_norm=None)
    state, _ = agent.make_initial_state(jax.random.key(1), jnp.zeros(0))
    assert state.hyper["max_grad_norm"] == jnp.inf
    stats = play(agent, CART_POLE, CART_POLE_PARAMS, state=state, max_steps=5)
    assert not np.asarray(stats.broken).any()
    assert np.isfinite(np.asarray(stats.returns)).all()


# What is refused.


def test_game_of_two_players_is_refused():
    env = Counting(3)
    with pytest.raises(ValueError, match="Counting has 2: seat the others by Single"):
        runners.jit_evaluate(
            push_left,
            (),
            env,
            env.default_params,
            n_episodes=2,
            max_steps=3,
            rng=KEY,
        )


def test_agent_of_another_action_space_is_refused():
    env, params = paxenv.make("Pendulum-v1")
    with pytest.raises(ValueError, match=r"Fixed acts in Discrete.*takes Box"):
        play(Fixed.from_env(CART_POLE, action=0), env, params)


@pytest.mark.parametrize("name", ["n_episodes", "max_steps"])
def test_evaluation_needs_an_episode_and_a_step(name):
    numbers = {"n_episodes": 1, "max_steps": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number >= 1, got 0"):
        runners.jit_evaluate(push_left, (), DICE, DICE_PARAMS, rng=KEY, **numbers)


def test_a_mixture_plays_each_episode_as_the_member_that_was_drawn():
    env, params = paxenv.make("IPD-v0", num_inner_steps=3)
    other = paxenv_agents.make_agent("AllC", env, player=1)
    single = SinglePlayer(env, 0, (other,))
    members = tuple(
        paxenv_agents.make_agent(name, env, player=0) for name in ("AllC", "AllD")
    )
    mixture = OneOf.from_env(single, members=members)
    key = jax.random.key(0)
    state = mixture.init_state(key)
    stats = play(mixture, single, single.make_params(params), 40, state=state)
    # Three rounds of -1 as AllC, of 0 as AllD.
    assert set(np.asarray(stats.returns).tolist()) == {-3.0, 0.0}
