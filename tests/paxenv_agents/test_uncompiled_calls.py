"""Learners' methods that are called without `jit` compile at the first call only."""

import jax
import jax.monitoring
import jax.numpy as jnp
import pytest

from paxenv.envs.classic_control.pendulum import Pendulum
from paxenv.envs.infinite_matrix_game import InfiniteMatrixGame
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv_agents import make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import context_of
from paxenv_agents.types import Sample

NUM_STEPS, NUM_GAMES = 4, 4
DILEMMA, LOGITS = IteratedMatrixGame(4, 2), InfiniteMatrixGame(4, 1)
SMALL = {"hidden_sizes": (4,)}
PASSES = {**SMALL, "num_epochs": 2, "num_minibatches": 2}
CELLS = {**PASSES, "gru_size": 4}
REPLAY = {**SMALL, "batch_size": 4, "warmup_steps": 4, "buffer_size": 64}
LEARNERS = {
    "PPO": (DILEMMA, PASSES),
    "Tabular": (DILEMMA, {"num_epochs": 2, "num_minibatches": 2}),
    "Naive": (DILEMMA, SMALL),
    "RecurrentPPO": (DILEMMA, CELLS),
    "GoodShepherd": (DILEMMA, PASSES),
    "Shaper": (DILEMMA, CELLS),
    "MFOS": (DILEMMA, CELLS),
    "DQN": (DILEMMA, REPLAY),
    "SAC": (Pendulum(4), REPLAY),
    "Hyper": (LOGITS, PASSES),
    "LOLA": (DILEMMA, SMALL),
    "NaiveExact": (LOGITS, {}),
    "LOLAExact": (LOGITS, {}),
    "SOS": (LOGITS, {}),
    "POLA": (LOGITS, {"outer_steps": 2, "inner_steps": 2}),
}
COMPILED = "/jax/core/compile/backend_compile_duration"


class Compiles:
    """Counts the programs that JAX compiles, or reads from its cache."""

    def __init__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self)

    def __call__(self, event, duration, **_):
        self.count += event == COMPILED

    def of(self, function):
        """Returns how many programs a call compiles."""
        before = self.count
        jax.block_until_ready(function())
        return self.count - before


@pytest.fixture(scope="module")
def compiles():
    return Compiles()


def calls(name):
    """Returns the methods of a learner by name, each a function without arguments."""
    env, options = LEARNERS[name]
    agent = make_agent(name, env, player=0, **options).sized(NUM_GAMES)
    params, key = env.default_params, jax.random.key(0)
    obs, _ = jax.vmap(env.reset, (0, None))(jax.random.split(key, NUM_GAMES), params)
    obs = obs if env.num_players == 1 else obs[0]
    hidden = agent.init_hidden(NUM_GAMES)
    state, memory = agent.batch_init(key, hidden)
    memory = agent.batch_observe_params(memory, params, 0)
    action, _, _ = agent.batch_policy(state, obs, memory)
    no, zeros = (jnp.zeros((NUM_STEPS, NUM_GAMES), t) for t in (bool, jnp.float32))

    def rows(x):
        return jnp.broadcast_to(x, (NUM_STEPS, *x.shape))

    first = agent.stores_hiddens == "first"
    traj = Sample(
        observations=rows(obs),
        actions=rows(action),
        rewards=zeros + 1,
        behavior_log_probs=zeros,
        behavior_values=zeros,
        dones=no,
        hiddens=memory.hidden[None] if first else rows(memory.hidden),
        truncations=no,
        final_values=zeros,
        valid=~no,
        inner_ends=no,
        final_obs=rows(obs) if agent.stores_final_obs else None,
    )
    told = {}
    if agent.privileges:
        other = make_agent("Naive", env, player=1)
        slots = Slot(agent, (0,), clock="inner"), Slot(other, (1,), clock="inner")
        states = state, other.init_state(key)
        lineup = Lineup(env, slots, NUM_GAMES)
        told = context_of(lineup, 0, params, states, (traj, traj))
    lane = jax.tree.map(lambda x: x[0], memory)
    methods = {
        "make_initial_state": lambda: agent.make_initial_state(key, hidden[0]),
        "batch_init": lambda: agent.batch_init(key, hidden),
        "policy": lambda: agent.policy(state, obs[0], lane),
        "batch_policy": lambda: agent.batch_policy(state, obs, memory),
        "value": lambda: agent.value(state, obs[0], lane),
        "batch_value": lambda: agent.batch_value(state, obs, memory),
        "evaluate": lambda: agent.evaluate(state, traj),
        "end_inner_episode": lambda: agent.end_inner_episode(state, lane),
        "batch_end_inner": lambda: agent.batch_end_inner(state, memory),
        "reset_memory": lambda: agent.reset_memory(lane),
        "batch_reset": lambda: agent.batch_reset(memory),
        "batch_observe_params": lambda: agent.batch_observe_params(memory, params, 0),
        "update": lambda: agent.update(traj, obs, state, memory, **told),
    }
    if not agent.on_policy:
        del methods["evaluate"]
    return methods


QUICK = "PPO", "Tabular", "Naive"


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in LEARNERS],
)
def test_a_second_call_of_a_method_compiles_nothing(compiles, name):
    again = {}
    for method, call in calls(name).items():
        compiles.of(call)
        again[method] = compiles.of(call)
    assert again == dict.fromkeys(again, 0)
