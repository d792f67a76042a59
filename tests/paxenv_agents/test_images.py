"""Images are read by convolutions, chosen by the space of observations alone."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner

from paxenv.envs.coin_game import CoinGame
from paxenv_agents import MFOS, PPO, RecurrentPPO, Shaper, check_agent, make_agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.networks import feed_forward
from runners.engine.experiment import Experiment, train_chunk

IMAGE = gymnasium.spaces.Box(0, 255, (3, 4, 2), np.uint8)
BOARD = gymnasium.spaces.Box(0, 1, (3, 3, 4), np.int8)
CELLS = {"hidden_sizes": (8,), "gru_size": 6}


def convolutions(params):
    """Returns the shapes of all kernels of four axes."""
    shapes = [x.shape for x in jax.tree.leaves(params)]
    return sorted(s for s in shapes if len(s) == 4)


@pytest.mark.parametrize(
    ("agent_class", "options", "copies"),
    [
        (PPO, {}, 2),
        (PPO, {"shared_torso": True}, 1),
        (RecurrentPPO, CELLS, 2),
        (RecurrentPPO, {**CELLS, "shared_torso": True}, 1),
        (Shaper, {**CELLS, "context": "avg"}, 1),
        (MFOS, CELLS, 3),
    ],
)
def test_every_learner_sees_an_image_through_convolutions(agent_class, options, copies):
    """And its logits are as many as its actions, whatever the channels."""
    seat = Seat(IMAGE, gymnasium.spaces.Discrete(5))
    agent = agent_class.from_env(seat, conv_channels=(7, 9), **options)
    state, memory = jax.eval_shape(lambda: make_learner(agent, 1))

    first, second = (3, 3, 2, 7), (3, 3, 7, 9)
    assert convolutions(state.params) == [first] * copies + [second] * copies

    seen = jax.ShapeDtypeStruct((3, 4, 2), jnp.uint8)
    hidden = jax.ShapeDtypeStruct(memory.hidden.shape[1:], jnp.float32)
    law, value, _ = jax.eval_shape(agent.forward, state.params, seen, hidden)
    assert law.outputs.shape == (5,)
    assert value.shape == ()


@pytest.mark.parametrize(
    ("space", "options"),
    [
        (gymnasium.spaces.Box(0, 1, (36,), np.int8), {}),
        (gymnasium.spaces.Box(0, 1, (6, 6), np.int8), {}),
        (gymnasium.spaces.Discrete(5), {}),
        (BOARD, {"conv_channels": ()}),
    ],
)
def test_other_observations_have_no_convolutions(space, options):
    agent = PPO.from_env(Seat(space), **options)
    state, _ = jax.eval_shape(lambda: make_learner(agent, 1))
    assert convolutions(state.params) == []


def test_a_convolution_sees_neighbours_and_no_other_cell():
    """One 3x3 layer: the far corner of a 4x4 image is out of sight of the near one."""
    space = gymnasium.spaces.Box(0, 1, (4, 4, 1), np.float32)
    image = feed_forward.image(space, (1,), 3)

    class Corner(feed_forward.nn.Module):
        def __call__(self, features):
            return features[..., 0]

    network = feed_forward.seen(Corner(), image)
    features = jnp.ones(16)
    variables = network.init(jax.random.key(0), features)
    kernel = jnp.ones_like(variables["params"]["Conv_0"]["kernel"])
    variables["params"]["Conv_0"]["kernel"] = kernel

    gradient = jax.grad(lambda x: network.apply(variables, x))(features)

    expected = np.zeros((4, 4))
    expected[:2, :2] = 1
    assert gradient.reshape(4, 4).tolist() == expected.tolist()


def test_pixels_are_divided_by_255_and_other_numbers_are_not():
    assert feed_forward.image(IMAGE, (4,), 3).scale == 255.0
    assert feed_forward.image(BOARD, (4,), 3).scale == 1.0


def test_gradient_reaches_every_convolution():
    agent = PPO.from_env(Seat(BOARD, gymnasium.spaces.Discrete(5)))
    state, _ = make_learner(agent, 1)
    draw = np.random.default_rng(0)
    seen = jnp.asarray(draw.integers(2, size=(16, 3, 3, 4)), jnp.int8)

    def spread(params):
        outputs, values = feed_forward.apply(agent.network, params, seen, BOARD)
        return (outputs**2).sum() + (values**2).sum()

    gradient = jax.jit(jax.grad(spread))(state.params)
    kernels = [x for x in jax.tree.leaves(gradient) if x.ndim == 4]
    assert len(kernels) == 4
    assert all(np.abs(x).max() > 1e-6 for x in kernels)


@pytest.mark.slow
def test_every_promise_is_kept_on_the_board_of_the_coin_game():
    env = CoinGame(3, layout="HWC")
    check_agent(PPO.from_env(env, num_minibatches=1), env)


@pytest.mark.slow
def test_ppo_trains_on_the_board_of_the_coin_game():
    """Every convolution moves, and no loss is NaN."""
    env = CoinGame(4, layout="HWC")
    agent = PPO.from_env(env, num_minibatches=1, num_epochs=1, hidden_sizes=(8,))
    slots = Slot(agent, (0,)), Slot(make_agent("Stay", env, player=1), (1,))
    experiment = Experiment(env, slots, num_games=8, chunk_size=2)
    before = experiment.init(jax.random.key(0), env.default_params)

    after, rows = train_chunk(experiment, before, 2)

    assert np.isfinite(rows["train/player_1/loss/total"]).all()
    moved = jax.tree.map(
        lambda a, b: bool((a != b).any()),
        before.agents[0].params,
        after.agents[0].params,
    )
    assert all(jax.tree.leaves(moved))
