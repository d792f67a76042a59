"""Saved agents come back as they were, or say what does not fit."""

import dataclasses
import hashlib
import json

import gymnasium
import jax
import numpy as np
import pytest
from flax import serialization
from learner_fakes import Seat, make_learner

from paxenv_agents import Agent, TrainingState
from paxenv_agents.learners.ppo import PPO
from paxenv_agents.networks import feed_forward
from paxenv_agents.weights import (
    WeightsError,
    describe_agent,
    load_agent,
    load_params,
    save_agent,
)


@pytest.fixture(scope="module")
def agent():
    return PPO.from_env(Seat(), tabular=True, gamma=0.96, max_grad_norm=None)


@pytest.fixture
def saved(agent, tmp_path):
    state, _ = make_learner(agent, 1)
    params = jax.tree.map(
        lambda x: jax.random.normal(jax.random.key(1), x.shape), state.params
    )
    path = save_agent(tmp_path / "models" / "player1", agent, params, {"env": "IPD"})
    return path, params


def rewrite(path, **entries):
    """Changes entries of the saved parameters, None removes one; the digest follows."""
    params = {**serialization.msgpack_restore(path.read_bytes()), **entries}
    data = serialization.msgpack_serialize(
        {name: x for name, x in params.items() if x is not None}
    )
    path.write_bytes(data)
    sidecar = path.with_suffix(".json")
    record = json.loads(sidecar.read_text())
    record["sha256"] = hashlib.sha256(data).hexdigest()
    sidecar.write_text(json.dumps(record))


@dataclasses.dataclass(frozen=True)
class Logits(Agent):
    """A learner whose parameters are one array."""

    width: int = 2

    def init_state(self, key):
        return TrainingState(params=jax.numpy.zeros((5, self.width)))

    def policy(self, state, obs, memory):
        return jax.numpy.argmax(state.params[obs]), state, memory


def test_parameters_that_are_one_array_come_back(tmp_path):
    params = np.arange(10, dtype=np.float32).reshape(5, 2)
    agent = Logits.from_env(Seat())

    path = save_agent(tmp_path / "logits", agent, params)

    np.testing.assert_array_equal(load_params(path, agent), params)
    with pytest.raises(
        WeightsError, match=r"value has shape \(5, 2\), expected \(5, 3\)"
    ):
        load_params(path, Logits.from_env(Seat(), width=3))


@pytest.mark.parametrize("suffix", ["", ".msgpack", ".json"])
def test_an_agent_comes_back_with_its_config_and_weights(saved, agent, suffix):
    path, params = saved

    loaded, state = load_agent(path.with_suffix(suffix), Seat(), player=1)

    assert loaded == agent
    jax.tree.map(np.testing.assert_array_equal, state.params, params)
    assert int(state.timesteps) == 0
    assert load_agent(path, Seat(), greedy=True)[0].greedy


def test_the_sidecar_is_plain_json_that_names_the_agent(saved):
    path, _ = saved

    record = json.loads(path.with_suffix(".json").read_text())

    assert path.name == "player1.msgpack"
    assert record["agent"] == "PPO"
    assert record["config"]["gamma"] == 0.96
    assert record["config"]["hidden_sizes"] == [64, 64]
    assert record["meta"] == {"env": "IPD"}
    assert describe_agent(path) == record


def test_nothing_but_the_two_files_is_left(saved):
    path, _ = saved
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "player1.json",
        "player1.msgpack",
    ]


def test_entries_that_do_not_fit_are_refused_by_name(saved):
    path, _ = saved
    rewrite(path, values=None, bias=np.zeros(3), logits=np.zeros((5, 3)))

    message = (
        r"values is missing; bias is surplus; "
        r"logits has shape \(5, 3\), expected \(5, 2\)"
    )
    with pytest.raises(WeightsError, match=message):
        load_agent(path, Seat())


def test_weights_of_another_game_are_refused(saved):
    path, _ = saved
    seat = Seat(gymnasium.spaces.Discrete(9))

    with pytest.raises(
        WeightsError, match=r"logits has shape \(5, 2\), expected \(9, 2"
    ):
        load_agent(path, seat)


def test_a_damaged_file_is_refused(saved):
    path, _ = saved
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    with pytest.raises(WeightsError, match="its digest differs"):
        load_agent(path, Seat())


def test_a_missing_file_is_named(saved):
    path, _ = saved
    path.with_suffix(".json").unlink()

    with pytest.raises(FileNotFoundError, match=r"player1\.json: a saved agent is two"):
        load_agent(path, Seat())


def test_an_agent_with_its_own_networks_needs_to_be_made_first(tmp_path):
    own = PPO.from_env(
        Seat(), actor_class=feed_forward.MLPActor, actor_cfg={"hidden_dims": [4]}
    )
    state, _ = make_learner(own, 1)
    path = save_agent(tmp_path / "own", own, state.params)

    with pytest.raises(WeightsError, match="load_params"):
        load_agent(path, Seat())
    jax.tree.map(np.testing.assert_array_equal, load_params(path, own), state.params)


def test_a_name_with_a_dot_is_kept(agent, tmp_path):
    state, _ = make_learner(agent, 1)

    assert save_agent(tmp_path / "run.v1", agent, state.params).name == "run.v1.msgpack"
