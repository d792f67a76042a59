"""What learners from replay share: when they learn, from what, and what they refuse."""

import dataclasses
import functools
import itertools
import re

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from learner_fakes import Seat, make_learner

import paxenv
from paxenv.options import written
from paxenv_agents import PairingError, check_agent, make_agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners.dqn import DQN, DQNConfig
from paxenv_agents.learners.sac import SAC, SACConfig
from paxenv_agents.testing import equal
from paxenv_agents.types import Sample
from runners.cli import cli
from runners.engine.experiment import Experiment, train_chunk

BOX = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
SEATS = {
    DQN: Seat(observation=BOX),
    SAC: Seat(observation=BOX, action=gymnasium.spaces.Box(-2.0, 2.0, (2,))),
}
SMALL = {
    "hidden_sizes": (4,),
    "batch_size": 8,
    "buffer_size": 64,
    "warmup_steps": 0,
    "learning_rate": 0.01,
}
BOTH = pytest.mark.parametrize("learner", [DQN, SAC])
TARGET = {DQN: "target", SAC: "target_critics"}


def make(learner, **options):
    return learner.from_env(SEATS[learner], **{**SMALL, **options})


def played(learner, shape, seed=0, **fields):
    """Random experience `[T, E]`, without ends."""
    draw, no = np.random.default_rng(seed), jnp.zeros(shape, bool)

    def views():
        return jnp.asarray(draw.uniform(-1, 1, (*shape, 3)), jnp.float32)

    if learner is DQN:
        actions = jnp.asarray(draw.integers(2, size=shape), jnp.int32)
    else:
        actions = jnp.asarray(draw.uniform(-2, 2, (*shape, 2)), jnp.float32)
    zeros = jnp.zeros(shape, jnp.float32)
    sample = Sample(
        observations=views(),
        actions=actions,
        rewards=jnp.asarray(draw.normal(size=shape), jnp.float32),
        behavior_log_probs=zeros,
        behavior_values=zeros,
        dones=no,
        hiddens=jnp.zeros((*shape, 0)),
        truncations=no,
        final_values=zeros,
        valid=~no,
        inner_ends=no,
        final_obs=views(),
    )
    return sample._replace(**fields)


@functools.partial(jax.jit, static_argnums=0)
def update(agent, sample, state, memory):
    return agent.update(sample, sample.final_obs[-1], state, memory)


def updates(agent, learner, num_steps, times, hyper=None):
    """Returns the states before and after each update by `num_steps` of one game."""
    state, memory = make_learner(agent, agent.config.num_envs or 1)
    state = state.replace(hyper={**state.hyper, **(hyper or {})})
    states, stats = [state], []
    for i in range(times):
        sample = played(learner, (num_steps, agent.config.num_envs or 1), seed=i)
        state, memory, report = update(agent, sample, state, memory)
        states.append(state)
        stats.append(report)
    return states, stats


# When.


@pytest.mark.slow
@BOTH
def test_target_and_gradient_steps_keep_their_own_intervals(learner):
    """Training every 10, the target every 15 steps; it moves at 15, 30, 45."""
    agent = make(learner, train_every=10, target_every=15, tau=1.0)
    assert agent.rollout_length(1) == 5

    states, stats = updates(agent, learner, 5, 10)

    targets = [state.params[TARGET[learner]] for state in states]
    target_moved = [not equal(a, b) for a, b in itertools.pairwise(targets)]
    steps = 5 * np.arange(1, 11)
    assert steps[target_moved].tolist() == [15, 30, 45]
    trained = [float(x["gradient_steps"]) > 0 for x in stats]
    assert steps[trained].tolist() == [10, 20, 30, 40, 50]
    assert [int(s.timesteps) for s in states[1:]] == steps.tolist()


@pytest.mark.slow
@BOTH
def test_each_due_target_update_is_taken_however_many_games(learner):
    """Eight steps at once: the target moves eight times, as one game would move it."""
    agent = make(learner, num_envs=8, tau=0.1)
    state, memory = make_learner(agent, 8)
    still = {**state.hyper, "learning_rate": jnp.float32(0)}
    name = TARGET[learner]
    away = jax.tree.map(lambda x: x + 1, state.params[name])
    state = state.replace(hyper=still, params={**state.params, name: away})

    after, _, stats = update(agent, played(learner, (1, 8)), state, memory)

    assert int(stats["gradient_steps"]) == 8
    left = jax.tree.map(
        lambda new, old: new - (old - 1), after.params[name], state.params[name]
    )
    for leaf in jax.tree.leaves(left):
        np.testing.assert_allclose(leaf, 0.9**8, atol=1e-5)


@pytest.mark.slow
@BOTH
def test_many_updates_and_one_long_one_take_the_same_turns(learner):
    options = {"train_every": 4, "target_every": 6, "gradient_steps": 2, "tau": 1.0}
    agent = make(learner, warmup_steps=7, **options)

    _, short = updates(agent, learner, 2, 12)
    _, long = updates(agent, learner, 24, 1)

    # Turns at 8, 12, 16, 20 and 24: those of the warm-up are not made up for.
    total = sum(int(x["gradient_steps"]) for x in short)
    assert total == int(long[0]["gradient_steps"]) == 10


@pytest.mark.slow
@BOTH
def test_nothing_is_learnt_in_the_warm_up(learner):
    agent = make(learner, warmup_steps=20)

    states, stats = updates(agent, learner, 5, 4)

    assert [int(x["gradient_steps"]) for x in stats] == [0, 0, 0, 1]
    assert equal(states[3].params, states[0].params)
    assert not equal(states[4].params, states[3].params)
    assert np.isnan(float(stats[2]["q_mean"]))
    assert np.isfinite(float(stats[3]["q_mean"]))
    assert [int(x["replay_size"]) for x in stats] == [5, 10, 15, 20]


@pytest.mark.slow
@BOTH
def test_a_learner_that_is_switched_off_keeps_its_whole_state(learner):
    agent = make(learner)

    states, _ = updates(agent, learner, 5, 2, {"enabled": jnp.float32(0)})

    assert equal(states[0], states[2])


@BOTH
def test_steps_that_were_not_played_are_not_counted(learner):
    agent = make(learner)
    state, memory = make_learner(agent, 1)
    nobody = jnp.zeros((5, 1), bool)

    after, _, stats = update(
        agent, played(learner, (5, 1), valid=nobody), state, memory
    )

    assert int(after.timesteps) == int(stats["gradient_steps"]) == 0
    assert equal(after.params, state.params)


@pytest.mark.slow
@BOTH
def test_an_old_state_is_readable_after_an_update(learner):
    """An update consumes nothing of the state that it was given."""
    states, _ = updates(make(learner), learner, 4, 1)

    assert all(np.isfinite(x).all() for x in jax.tree.leaves(states[0].params))
    assert int(states[0].replay.filled) == 0
    assert int(states[1].replay.filled) == 4


@pytest.mark.slow
@BOTH
def test_traced_numbers_change_without_a_new_compilation(learner):
    """The rate, the discount and the target's share may follow a schedule."""
    agent = make(learner, num_envs=2)
    compiled = jax.jit(agent.update)
    state, memory = make_learner(agent, 2)
    sample = played(learner, (2, 2))
    for i in range(4):
        numbers = {"learning_rate": 0.01 / (1 + i), "gamma": 0.9, "tau": 0.1 * (1 + i)}
        traced = {name: jnp.float32(x) for name, x in numbers.items()}
        state = state.replace(hyper={**state.hyper, **traced})
        state, memory, stats = compiled(sample, sample.final_obs[-1], state, memory)
    assert compiled._cache_size() == 1
    assert float(stats["learning_rate"]) == pytest.approx(0.0025)


# Seeds.

GAMES = {DQN: "CartPole-v1", SAC: "Pendulum-v1"}


@functools.cache
def experiment(learner):
    env, params = paxenv.make(GAMES[learner])
    agent = learner.from_env(env, **{**SMALL, "warmup_steps": 4})
    return Experiment(
        env, (Slot(agent),), num_games=2, num_steps=2, chunk_size=8
    ), params


def trained(learner, seed):
    game, params = experiment(learner)
    start = game.init(jax.random.key(seed), params)
    return jax.jit(train_chunk, static_argnums=0)(game, start, 8)


@pytest.mark.slow
@BOTH
def test_a_seed_decides_everything(learner):
    """Another seed changes what is played and learnt, an equal one not a bit."""
    (one, rows), (again, same_rows), (other, _) = (
        trained(learner, seed) for seed in (0, 0, 1)
    )
    assert equal(one, again)
    assert all(np.array_equal(rows[n], same_rows[n], equal_nan=True) for n in rows)
    a, b = one.agents[0], other.agents[0]
    assert not equal(a.params, b.params)
    assert not equal(a.replay.rows.observations, b.replay.rows.observations)


# Refusals.

PAIRINGS = [
    ("SAC", "IPD", "SAC plays a Box of floats, got Discrete"),
    ("SAC", "CartPole-v1", "SAC plays a Box of floats, got Discrete"),
    ("DQN", "InfiniteMatrixGame", "DQN plays Discrete actions, got Box"),
    ("DQN", "Pendulum-v1", "DQN plays Discrete actions, got Box"),
]


@pytest.mark.parametrize(("name", "game", "reason"), PAIRINGS)
def test_a_seat_that_cannot_be_played_is_refused(name, game, reason):
    """With the reason, and with those that can."""
    env, _ = paxenv.make(game)
    with pytest.raises(PairingError, match=reason) as refusal:
        make_agent(name, env)
    able = str(refusal.value).split("Agents that can: ")[1].split(", ")
    assert {"PPO", "Random"} <= set(able)
    assert name not in able


@pytest.mark.parametrize(("name", "game"), [("SAC", "IPD"), ("DQN", "Pendulum-v1")])
def test_the_command_line_refuses_it_too(name, game):
    """As an error of usage, before anything runs."""
    words = ["sarl", "--env", game, "--agent1", name, "--dry-run"]

    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 2
    assert f"{name} cannot play" in result.output
    assert "Agents that can: " in result.output


@BOTH
def test_another_number_of_games_is_refused(learner):
    agent = make(learner)
    state, memory = make_learner(agent, 3)
    with pytest.raises(ValueError, match=r"keeps steps of 1 game, got 3: agent\.sized"):
        agent.update(played(learner, (1, 3)), None, state, memory)
    assert agent.sized(3).config.num_envs == 3


@pytest.mark.parametrize(
    ("name", "value", "claim"),
    [
        ("tau", 0.0, "a number in (0, 1]"),
        ("warmup_steps", -1, "a whole number >= 0"),
        ("buffer_size", 0, "a whole number >= 1"),
        ("train_every", 0, "a whole number >= 1"),
        ("epsilon_end", 1.5, "a number in [0, 1]"),
        ("double", 1, "True or False"),
    ],
)
def test_a_refused_value_is_named(name, value, claim):
    message = re.escape(f"{name} must be {claim}, got {value!r}")
    with pytest.raises(ValueError, match=message):
        DQNConfig(**{name: value})


def test_a_buffer_too_small_for_a_window_is_refused():
    with pytest.raises(ValueError, match="buffer_size=7 holds 1 step of 4 games"):
        DQNConfig(buffer_size=7, num_envs=4, n_step=2)


# Options.

#: What runners read: how many games are played, and `None` for their own numbers.
OF_RUNNERS = {"num_envs"}
TOGGLES = {
    "learning_rate": 0.02,
    "hidden_sizes": (6,),
    "activation": "tanh",
    "gamma": 0.5,
    "batch_size": 5,
    "buffer_size": 3,
    "warmup_steps": 10,
    "train_every": 2,
    "gradient_steps": 2,
    "target_every": 2,
    "tau": 1.0,
    "n_step": 2,
    "max_grad_norm": 1e-3,
    "adam_eps": 1.0,
}
#: Options that end up in the state: one compiled update serves them all.
TRACED = {"learning_rate", "gamma", "tau", "max_grad_norm", "epsilon_start"}
OWN = {
    DQN: {
        "epsilon_start": 0.0,
        "epsilon_end": 1.0,
        "epsilon_steps": 5,
        "double": False,
        "huber_delta": 0.01,
    },
    SAC: {"alpha": 0.5, "target_entropy": 1.0},
}
CASES = [
    *((DQN, name) for name in {**TOGGLES, **OWN[DQN]}),
    *((SAC, name) for name in {**TOGGLES, **OWN[SAC]}),
]


@functools.cache
def learnt(learner, **options):
    """Returns what three updates make of one start, and how random actions are."""
    agent = make(learner, **options)
    state, memory = make_learner(agent, 1)
    static = {n: x for n, x in options.items() if n not in TRACED}
    for seed in range(3):
        sample = played(learner, (4, 1), seed)
        state, memory, _ = update(make(learner, **static), sample, state, memory)
    return state.params, agent.epsilon(state) if learner is DQN else ()


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "name"), CASES)
def test_every_option_changes_what_is_learnt(learner, name):
    """Three updates from one start; nothing else differs."""
    plain = learnt(learner)
    toggled = learnt(learner, **{name: {**TOGGLES, **OWN[learner]}[name]})

    same_shapes = jax.tree.map(jnp.shape, plain) == jax.tree.map(jnp.shape, toggled)
    assert not same_shapes or not equal(plain, toggled)


@pytest.mark.parametrize("learner", OWN)
def test_no_option_is_left_out_of_the_toggle_test(learner):
    fields = {field.name for field in dataclasses.fields(learner.config_class)}
    assert {*TOGGLES, *OWN[learner], *OF_RUNNERS} == fields


def test_the_tables_of_options_are_complete_and_right():
    def rows(config):
        found = re.findall(r"^    ([a-z_]+) +(\S.*?)  ", config.__doc__, re.MULTILINE)
        return {name: default for name, default in found if name != "option"}

    for config in (DQNConfig, SACConfig):
        fields = dataclasses.fields(config)
        assert rows(config) == {f.name: written(f.default) for f in fields}
    own = {"alpha", "target_entropy"}
    changed = {
        f.name: f.default
        for f in dataclasses.fields(SACConfig)
        if f.name not in own and f.default != getattr(DQNConfig(), f.name)
    }
    assert changed == {
        "learning_rate": 1e-3,
        "hidden_sizes": (256, 256),
        "batch_size": 256,
        "max_grad_norm": None,
    }


# The protocol.

SEATED = [
    ("DQN", "IPD", {"num_inner_steps": 4, "num_outer_steps": 2}, {}),
    ("DQN", "IPD", {"num_inner_steps": 4, "observation": "index"}, {"n_step": 2}),
    ("DQN", "CoinGame", {"num_inner_steps": 4}, {}),
    ("DQN", "CartPole-v1", {"num_inner_steps": 4}, {}),
    ("SAC", "Pendulum-v1", {"num_inner_steps": 4}, {}),
    ("SAC", "InfiniteMatrixGame", {"num_inner_steps": 4}, {}),
]


#: One game for each learner; the others are looked at less often.
EACH_SEATED = [
    case if i in (0, 4) else pytest.param(*case, marks=pytest.mark.slow)
    for i, case in enumerate(SEATED)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "game", "options", "own"), EACH_SEATED)
def test_learner_keeps_every_promise(name, game, options, own):
    env, params = paxenv.make(game, **options)
    check_agent(make_agent(name, env, **{**SMALL, **own}), env, params=params)
