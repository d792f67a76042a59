"""Networks are chosen by spaces and config, and read what a game shows."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_fakes import Seat, make_learner

from paxenv import spaces
from paxenv_agents.learners.ppo import PPO, PPOConfig, RecurrentPPOConfig
from paxenv_agents.learners.shapers import MFOSConfig, ShaperConfig
from paxenv_agents.networks import feed_forward

KEY = jax.random.key(0)
MANY = feed_forward.MAX_TABULATED + 1


def one_hot_box(n):
    return spaces.OneHot(n)


def index(n, start=0):
    return gymnasium.spaces.Discrete(n, start=start, dtype=np.int32)


def outputs(agent, observations):
    state, _ = make_learner(agent, 1)
    return feed_forward.apply(
        agent.network, state.params, observations, agent.observation_space
    )


@pytest.mark.parametrize("options", [{}, {"shared_torso": False}, {"hidden_sizes": ()}])
@pytest.mark.parametrize("n", [5, MANY])
def test_index_and_one_hot_observations_mean_the_same(options, n):
    states = jnp.arange(n).reshape(1, n)

    by_index = outputs(PPO.from_env(Seat(index(n)), **options), states)
    by_one_hot = outputs(
        PPO.from_env(Seat(one_hot_box(n)), **options),
        jax.nn.one_hot(states, n, dtype=jnp.int8),
    )

    assert by_index[0].shape == (1, n, 2)
    assert by_index[1].shape == (1, n)
    for a, b in zip(by_index, by_one_hot, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("space", [index(5), index(MANY), one_hot_box(5)])
def test_a_table_starts_uniform_and_holds_one_row_per_state(space):
    agent = PPO.from_env(Seat(space), tabular=True)
    state, _ = make_learner(agent, 1)
    n = feed_forward.num_features(space)

    assert jax.tree.map(jnp.shape, state.params) == {"logits": (n, 2), "values": (n,)}
    assert all(not leaf.any() for leaf in jax.tree.leaves(state.params))

    rows = {"logits": jnp.arange(2.0 * n).reshape(n, 2), "values": jnp.arange(1.0 * n)}
    observation = jnp.asarray(3)
    if isinstance(space, gymnasium.spaces.Box):
        observation = jax.nn.one_hot(observation, n, dtype=jnp.int8)
    logits, value = feed_forward.apply(agent.network, rows, observation, space)
    assert logits.tolist() == [6.0, 7.0]
    assert float(value) == 3.0


@pytest.mark.parametrize("options", [{}, {"tabular": True}, {"hidden_sizes": ()}])
def test_parameters_and_outputs_are_float32_when_the_user_enables_x64(options):
    with jax.enable_x64(True):
        agent = PPO.from_env(Seat(), **options)
        state, memory = jax.eval_shape(lambda: make_learner(agent, 1))
        _, _, moved = jax.eval_shape(agent.batch_policy, state, jnp.arange(1), memory)

    numbers = jax.tree.leaves((state.params, state.hyper, moved.extras))
    assert {str(x.dtype) for x in numbers} == {"float32"}


def test_a_space_that_starts_elsewhere_is_counted_from_its_start():
    agent = PPO.from_env(Seat(index(3, start=7)), tabular=True)
    rows = {"logits": jnp.arange(6.0).reshape(3, 2), "values": jnp.zeros(3)}

    logits, _ = feed_forward.apply(
        agent.network, rows, jnp.array([7, 9]), agent.observation_space
    )

    assert logits.tolist() == [[0.0, 1.0], [4.0, 5.0]]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 3, 4), (36,), ()])
@pytest.mark.parametrize("num_actions", [2, 5])
@pytest.mark.parametrize("shared_torso", [True, False])
def test_logits_have_the_size_of_the_action_space(shape, num_actions, shared_torso):
    """Never the width of some layer."""
    seat = Seat(
        gymnasium.spaces.Box(0, 255, shape, np.uint8),
        gymnasium.spaces.Discrete(num_actions),
    )
    agent = PPO.from_env(seat, shared_torso=shared_torso, hidden_sizes=(8,))

    logits, values = outputs(agent, jnp.full((6, 2, *shape), 255, jnp.uint8))

    assert logits.shape == (6, 2, num_actions)
    assert values.shape == (6, 2)
    assert np.isfinite(logits).all()
    assert logits.dtype == values.dtype == jnp.float32


def test_the_first_policy_is_nearly_uniform():
    logits, _ = outputs(PPO.from_env(Seat()), jnp.arange(5))

    np.testing.assert_allclose(jax.nn.softmax(logits), 0.5, atol=0.02)


def test_hidden_layers_are_orthogonal_with_gain_root_two():
    agent = PPO.from_env(Seat(), hidden_sizes=(16, 16))
    torso = make_learner(agent, 1)[0].params["actor"]["MLPTorso_0"]
    kernel = torso["Dense_1"]["kernel"]

    np.testing.assert_allclose(kernel.T @ kernel, 2 * np.eye(16), atol=1e-5)


def test_a_linear_policy_has_no_bias():
    agent = PPO.from_env(Seat(), hidden_sizes=(), shared_torso=True)
    params = make_learner(agent, 1)[0].params

    assert jax.tree.map(jnp.shape, params) == {
        "Dense_0": {"kernel": (5, 2)},
        "Dense_1": {"kernel": (5, 1)},
    }


def test_policy_and_value_are_two_networks_unless_a_torso_is_shared():
    """One torso for both learns CartPole far worse; shapers have their papers' one."""
    two = make_learner(PPO.from_env(Seat()), 1)[0].params
    one = make_learner(PPO.from_env(Seat(), shared_torso=True), 1)[0].params

    assert set(two) == {"actor", "critic"}
    assert set(one) == {"MLPTorso_0", "Dense_0", "Dense_1"}
    assert not RecurrentPPOConfig().shared_torso
    assert ShaperConfig().shared_torso
    assert MFOSConfig().shared_torso


def test_game_config_and_networks_may_be_given_by_position():
    classes = feed_forward.MLPActor, feed_forward.MLPCritic
    agent = PPO(Seat(), PPOConfig(learning_rate=0.125), *classes)

    assert agent == PPO.from_env(Seat(), {"learning_rate": 0.125}, *classes)
    assert agent.config.learning_rate == 0.125
    params = make_learner(agent, 1)[0].params
    assert set(params) == {"actor", "critic"}


def test_own_actor_and_critic_classes_are_used():
    agent = PPO.from_env(
        Seat(),
        None,
        feed_forward.MLPActor,
        feed_forward.MLPCritic,
        actor_cfg={"hidden_dims": [7]},
    )
    params = make_learner(agent, 1)[0].params

    assert params["actor"]["MLPTorso_0"]["Dense_0"]["kernel"].shape == (5, 7)
    assert params["critic"]["MLPTorso_0"]["Dense_1"]["kernel"].shape == (64, 64)
    assert hash(agent) == hash(
        PPO.from_env(
            Seat(), None, feed_forward.MLPActor, actor_cfg={"hidden_dims": [7]}
        )
    )


def test_spaces_that_networks_cannot_read_are_refused():
    space = gymnasium.spaces.Dict({"a": index(2)})
    with pytest.raises(ValueError, match="networks read Box and Discrete"):
        PPO.from_env(Seat(space))
    with pytest.raises(ValueError, match="Discrete actions"):
        PPO.from_env(Seat(index(5), one_hot_box(2)))
    image = gymnasium.spaces.Box(0, 1, (3, 3, 4), np.int8)
    with pytest.raises(ValueError, match="not one of finitely many states"):
        PPO.from_env(Seat(image), tabular=True)


def test_a_lookup_over_states_equals_the_network_on_features():
    features = gymnasium.spaces.Box(0, 1, (5,), np.int8)
    looked_up = PPO.from_env(Seat(one_hot_box(5)))
    computed = PPO.from_env(Seat(features))
    observations = jnp.eye(5, dtype=jnp.int8)[jnp.array([[0, 4], [2, 2], [3, 1]])]
    params = make_learner(looked_up, 1)[0].params

    by_rows = feed_forward.apply(
        looked_up.network, params, observations, looked_up.observation_space
    )
    directly = feed_forward.apply(computed.network, params, observations, features)

    for a, b in zip(by_rows, directly, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_table_needs_a_finite_number_of_states():
    with pytest.raises(ValueError, match="not one of finitely many states"):
        PPO.from_env(Seat(gymnasium.spaces.Box(0, 1, (36,), np.int8)), tabular=True)
