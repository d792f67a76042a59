"""check_agent passes what keeps its promises and names the one that is broken."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import paxenv_agents
from paxenv import keys
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import Agent, AgentCheckError, check_agent, make_agent
from paxenv_agents.learners.naive import Naive
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.types import MemoryState, TrainingState

ENV = IteratedMatrixGame(4, 2)


@dataclasses.dataclass(frozen=True)
class Counter(Agent):
    """A learner whose one logit grows with the steps that its memory has counted."""

    learns = True

    @property
    def hidden_size(self):
        return 1

    def init_state(self, key):
        hyper = {"enabled": jnp.ones((), jnp.float32)}
        return TrainingState(params=jnp.float32(0.3), key=key, hyper=hyper)

    def init_memory(self, key, hidden):
        zero = jnp.zeros((), jnp.float32)
        return MemoryState(hidden, key, {"log_probs": zero, "values": zero})

    def log_probs(self, state, hidden):
        logit = state.params * hidden[..., 0]
        return jax.nn.log_softmax(jnp.stack([jnp.zeros_like(logit), logit], -1))

    def policy(self, state, obs, memory):
        log_probs = self.log_probs(state, memory.hidden)
        draw = keys.uniform(keys.words(memory.key, 1)[0])
        draw = 0.5 if self.greedy else draw
        action = (draw >= jnp.exp(log_probs[0])).astype(jnp.int32)
        extras = {"log_probs": log_probs[action], "values": memory.hidden[0]}
        key = jax.random.fold_in(memory.key, 1)
        return action, state, MemoryState(memory.hidden + 1, key, extras)

    def evaluate(self, state, sample):
        log_probs = self.log_probs(state, sample.hiddens)
        chosen = jnp.take_along_axis(log_probs, sample.actions[..., None], -1)[..., 0]
        return chosen, sample.hiddens[..., 0], jnp.zeros_like(chosen)

    def update(self, traj, last_obs, state, memory):
        params = state.params + 0.1 * state.hyper["enabled"]
        return state.replace(params=params), memory, {"loss": params}


class BadShape(Counter):
    def init_hidden(self, num_envs):
        return jnp.zeros((num_envs, 2), jnp.float32)


class ChangesState(Counter):
    def policy(self, state, obs, memory):
        action, state, memory = super().policy(state, obs, memory)
        return action, state.replace(params=state.params + 1), memory


class WeakMemory(Counter):
    def policy(self, state, obs, memory):
        action, state, memory = super().policy(state, obs, memory)
        extras = {**memory.extras, "values": jnp.asarray(0.0)}
        return action, state, memory.replace(extras=extras)


class DropsHidden(Counter):
    def end_inner_episode(self, state, memory):
        return memory.replace(hidden=())


class EmptyOpening(Counter):
    def reset_memory(self, memory, eval=False):
        return memory.replace(extras={}) if eval else memory


class OutOfSpace(Counter):
    def policy(self, state, obs, memory):
        action, state, memory = super().policy(state, obs, memory)
        return action + 1, state, memory


class FloatAction(Counter):
    def policy(self, state, obs, memory):
        action, state, memory = super().policy(state, obs, memory)
        return action.astype(jnp.float32), state, memory


class BatchedOtherwise(Counter):
    def batch_policy(self, state, obs, memory):
        action, state, memory = super().batch_policy(state, obs, memory)
        return 1 - action, state, memory


class OneLaneKey(Counter):
    def batch_init(self, key, hidden):
        state, memory = super().batch_init(key, hidden)
        return state, memory.replace(key=jnp.stack([key] * hidden.shape[0]))


class FixedSeed(Counter):
    def make_initial_state(self, key, init_hidden):
        return super().make_initial_state(jax.random.key(0), init_hidden)


class DrawsWhenGreedy(Counter):
    def policy(self, state, obs, memory):
        careless = dataclasses.replace(self, greedy=False)
        return Counter.policy(careless, state, obs, memory)


class KeyAtBoundary(Counter):
    def end_inner_episode(self, state, memory):
        return memory.replace(key=jax.random.fold_in(memory.key, 7))


class WrongRatio(Counter):
    def evaluate(self, state, sample):
        log_probs, values, entropies = super().evaluate(state, sample)
        return log_probs + 0.01, values, entropies


class FromTheStart(Counter):
    def evaluate(self, state, sample):
        counted = jnp.arange(float(len(sample.hiddens)))[:, None, None]
        hiddens = jnp.broadcast_to(counted, sample.hiddens.shape)
        return super().evaluate(state, sample._replace(hiddens=hiddens))


class LearnsNothing(Counter):
    def update(self, traj, last_obs, state, memory):
        return state, memory, {}


class AlwaysLearns(Counter):
    def update(self, traj, last_obs, state, memory):
        return state.replace(params=state.params + 0.1), memory, {}


class MovesFrozenKey(Counter):
    def update(self, traj, last_obs, state, memory):
        state, memory, stats = super().update(traj, last_obs, state, memory)
        return state.replace(key=jax.random.fold_in(state.key, 0)), memory, stats


class ChangesDtype(Counter):
    def update(self, traj, last_obs, state, memory):
        return state.replace(params=jnp.int32(1)), memory, {}


class ReportsNan(Counter):
    def update(self, traj, last_obs, state, memory):
        state, memory, _ = super().update(traj, last_obs, state, memory)
        return state, memory, {"loss": jnp.nan}


class Unequal(Counter):
    def __eq__(self, other):
        return self is other

    __hash__ = Counter.__hash__


class Unhashable(Counter):
    __hash__ = None


BROKEN = {
    Unhashable: "not hashable",
    Unequal: "is not equal to it",
    BadShape: r"init_hidden\(num_envs\) differs from float32 \[num_envs, H\]",
    ChangesState: "the training state after policy must agree",
    WeakMemory: r"memory that policy returns.extras\['values'\] differs .*True",
    DropsHidden: "end_inner_episode differs in structure",
    EmptyOpening: r"reset_memory\(eval=True\) differs in structure",
    OutOfSpace: r"the action 2 is not in Discrete\(2",
    FloatAction: "actions have dtype float32",
    BatchedOtherwise: "action, alone and among lanes, must agree",
    OneLaneKey: "all lanes of batch_init draw the same noise",
    FixedSeed: "key of make_initial_state does not change the noise",
    DrawsWhenGreedy: r"with greedy=True the action depends on memory\.key",
    KeyAtBoundary: "memory's key after end_inner_episode must agree",
    WrongRatio: "from a whole trial must agree",
    FromTheStart: "from the middle of an episode must agree",
    LearnsNothing: "update changes no parameter",
    AlwaysLearns: "enabled=0 does not keep the whole old state",
    MovesFrozenKey: "enabled=0 does not keep the whole old state",
    ChangesDtype: "state that update returns.params differs .*int32",
    ReportsNan: "update reports loss=nan",
}


@pytest.mark.slow
def test_agent_that_keeps_every_promise_passes():
    check_agent(Counter.from_env(ENV, 1), ENV, 1)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
def test_broken_promise_is_named(broken):
    with pytest.raises(AgentCheckError, match=BROKEN[broken]):
        check_agent(broken.from_env(ENV), ENV)


STRATEGIES = [
    (name, game)
    for game, names in {
        "matrix": ("Random", "AllD", "TitForTat", "GenerousTitForTat"),
        "coin": ("Random", "OwnCoin", "RandomGreedy"),
    }.items()
    for name in names
]
GAMES = {
    "matrix": IteratedMatrixGame(4, 2, observation="index"),
    "coin": CoinGame(4, num_outer_steps=2, egocentric=False),
}


@pytest.mark.parametrize(("name", "game"), STRATEGIES)
def test_strategy_passes(name, game):
    env = GAMES[game]
    check_agent(make_agent(name, env, player=1), env, player=1)


def test_strategy_passes_with_random_ends():
    env = IteratedMatrixGame(4, 2, random_ends=True)
    check_agent(make_agent("TitForTat", env), env, params=env.default_params)


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent",
    [
        PPO.from_env(ENV, PPOConfig(num_epochs=1, num_minibatches=2), player=1),
        PPO.from_env(ENV, PPOConfig(num_epochs=1, num_minibatches=1, tabular=True)),
        Naive.from_env(ENV),
    ],
    ids=["PPO", "tabular PPO", "Naive"],
)
def test_learner_passes(agent):
    check_agent(agent, ENV)


@pytest.mark.slow
def test_learner_passes_with_random_ends():
    env = IteratedMatrixGame(4, 2, random_ends=True)
    check_agent(Counter.from_env(env), env)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [IteratedMatrixGame(4, 2), CoinGame(4, num_outer_steps=2, observation="index")],
    ids=["matrix", "coin"],
)
def test_every_strategy_passes_where_it_can_play(env):
    agents = [make_agent(name, env) for name in paxenv_agents.registry.playable(env)]
    strategies = [agent for agent in agents if not agent.learns]
    assert len(strategies) >= 8
    for agent in strategies:
        check_agent(agent, env)


CLASSIFIED = {
    name: spec.classifier
    for name, spec in paxenv_agents.agents().items()
    if name != "MemoryOne" and spec.classifier.get("plays") in GAMES
}


@pytest.mark.parametrize("name", CLASSIFIED)
def test_classifier_says_whether_a_strategy_draws(name):
    env = GAMES[CLASSIFIED[name]["plays"]]
    agent = make_agent(name, env)
    state, memory = agent.make_initial_state(jax.random.key(0), agent.init_hidden(1)[0])
    obs, _ = env.reset(jax.random.key(1), env.default_params)
    _, _, after = jax.jit(agent.policy)(state, obs[0], memory)
    moved = jax.random.key_data(after.key) != jax.random.key_data(memory.key)
    assert bool(moved.any()) == CLASSIFIED[name]["stochastic"]
