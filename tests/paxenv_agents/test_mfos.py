"""M-FOS: a meta policy sets th at every inner end, and is learnt through it."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat

import paxenv
from paxenv import keys
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import MFOS, check_agent, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial
from paxenv_agents.types import Sample

G = 6
SMALL = {"hidden_sizes": (8,), "gru_size": G, "num_epochs": 1, "num_minibatches": 1}
META = ("encoders_2", "cells_2", "steering")


def opened(agent, num_games):
    """Returns (state, memory of `num_games` games)."""
    return jax.jit(agent.batch_init)(jax.random.key(0), agent.init_hidden(num_games))


def learner(env, **options):
    return MFOS.from_env(env, **{**SMALL, **options})


@pytest.mark.parametrize(
    ("env", "options"),
    [
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (IteratedMatrixGame(4, 2), {}),
                (IteratedMatrixGame(4, 2), {"context": "avg"}),
                (CoinGame(3, num_outer_steps=2, layout="HWC"), {}),
                (
                    paxenv.make("Pendulum-v1", num_inner_steps=3, num_outer_steps=2)[0],
                    {"context": "avg", "meta_memory": "episode"},
                ),
            )
        ),
    ],
)
def test_every_promise_is_kept(env, options):
    """Ratio 1 over inner ends, where th changes, and from the middle of an episode."""
    check_agent(learner(env, **options), env)


@pytest.mark.parametrize(
    ("meta_memory", "kept"),
    [("trial", 0.25), pytest.param("episode", 0.0, marks=pytest.mark.slow)],
)
def test_an_inner_end_sets_th_by_what_the_meta_unit_holds(meta_memory, kept):
    agent = learner(IteratedMatrixGame(4, 2), meta_memory=meta_memory)
    state, memory = opened(agent, 2)
    assert memory.hidden.tolist() == [[0.0] * 3 * G + [1.0] * G] * 2
    held = jnp.repeat(jnp.array([-1.0, 0.5, 0.25, 0.125]), G)

    ended = agent.batch_end_inner(state, memory.replace(hidden=jnp.stack([held] * 2)))

    layer = state.params["steering"]
    th = jax.nn.sigmoid(0.25 * layer["kernel"].sum(axis=0) + layer["bias"])
    for hidden in np.asarray(ended.hidden):
        np.testing.assert_allclose(hidden[: 2 * G], 0.0)
        np.testing.assert_allclose(hidden[2 * G : 3 * G], kept)
        np.testing.assert_allclose(hidden[3 * G :], th, rtol=1e-6)
    reset = agent.batch_reset(ended)
    np.testing.assert_array_equal(reset.hidden, memory.hidden)


@pytest.mark.slow
@pytest.mark.parametrize("end", [1, 4])
def test_what_is_played_after_an_inner_end_depends_on_the_meta_policy(end):
    """Without an engine: a sequence of 5 steps with an end after one of them."""
    agent = learner(Seat(gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)))
    state, memory = opened(agent, 2)
    draw = np.random.default_rng(0)
    nothing = dict.fromkeys(Sample._fields)
    sample = Sample(
        **{
            **nothing,
            "observations": jnp.asarray(draw.integers(5, size=(5, 2)), jnp.int32),
            "actions": jnp.asarray(draw.integers(2, size=(5, 2)), jnp.int32),
            "hiddens": memory.hidden[None],
            "inner_ends": jnp.zeros((5, 2), bool).at[end].set(True),
        }
    )

    def last(params):
        log_probs, values, _ = agent.evaluate(state.replace(params=params), sample)
        return (log_probs + values)[-1].sum()

    gradient = jax.jit(jax.grad(last))(state.params)

    for name in META:
        largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient[name]))
        assert largest > 1e-7 if end == 1 else largest == 0.0


@functools.cache
def played(num_outer_steps, **options):
    """Returns (agent, state, what it saw of a trial against a learner)."""
    env = IteratedMatrixGame(4, num_outer_steps)
    agent, naive = learner(env, **options), make_agent("Naive", env, player=1)
    slots = Slot(agent, (0,)), Slot(naive, (1,), clock="inner")
    states = tuple(a.init_state(jax.random.key(1)) for a in (agent, naive))
    play = jax.jit(functools.partial(play_trial, Lineup(env, slots, num_games=8)))
    trial = play(env.default_params, states, keys.lanes(0, 8), jnp.int32(0))
    return agent, states[0], trial.experiences[0]


def policy_gradient(agent, state, experience):
    """Returns the gradient of PPO's policy loss by the name of the layer."""
    sample, last_obs, memory = experience
    batch = agent.make_batch(sample, last_obs, state, memory)

    def loss(params):
        return agent.loss(params, state, batch, jnp.float32(0.0))[1]["loss/policy"]

    gradient = jax.jit(jax.grad(loss))(state.params)
    return {
        name: max(float(jnp.abs(x).max()) for x in jax.tree.leaves(tree))
        for name, tree in gradient.items()
    }


@pytest.mark.slow
def test_the_gradient_of_the_loss_reaches_the_meta_policy():
    """Th entered the published loss as a number, and this gradient was 0."""
    gradient = policy_gradient(*played(3))

    assert all(gradient[name] > 1e-7 for name in META)


@pytest.mark.slow
def test_with_one_inner_episode_there_is_nothing_to_steer():
    gradient = policy_gradient(*played(1))

    assert all(gradient[name] == 0.0 for name in META)
    assert gradient["cells_0"] > 1e-7


@pytest.mark.slow
def test_an_update_moves_every_parameter_of_the_meta_policy():
    agent, state, experience = played(3)
    sample, last_obs, memory = experience

    after, _, _ = jax.jit(agent.update)(sample, last_obs, state, memory)

    for name in META:
        moved = jax.tree.map(
            lambda a, b: bool((a != b).all()), state.params[name], after.params[name]
        )
        assert all(jax.tree.leaves(moved)), name


@pytest.mark.slow
def test_th_stays_through_an_episode_and_changes_at_its_end():
    agent, state, experience = played(3)
    memory = opened(agent, 8)[1]
    act = jax.jit(agent.batch_policy)
    ths = []
    for t in range(8):
        _, _, memory = act(state, experience.sample.observations[t], memory)
        ths.append(memory.hidden[:, 3 * G :])
        if t == 3:
            memory = agent.batch_end_inner(state, memory)

    assert all((th == 1.0).all() for th in ths[:4])
    assert all((th == ths[4]).all() for th in ths[4:])
    assert ((ths[4] > 0) & (ths[4] < 1)).all()


@pytest.mark.slow
def test_policy_parameters_leave_out_the_value():
    agent, state, _ = played(3)
    assert set(state.params) - set(agent.policy_params(state.params)) == {
        "value_head",
        "encoders_1",
        "cells_1",
    }


def test_a_shared_torso_is_refused_and_so_is_another_meta_memory():
    seat = Seat(gymnasium.spaces.Discrete(5))
    with pytest.raises(ValueError, match="shared_torso must be True for M-FOS"):
        MFOS.from_env(seat, shared_torso=False)
    with pytest.raises(ValueError, match=r"meta_memory must be one of .* 'run'"):
        MFOS.from_env(seat, meta_memory="run")
