"""The public conformance test of agents."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv import keys, missing, spaces
from paxenv.environment import Environment
from paxenv.single_player import SinglePlayer
from paxenv_agents.agent import Agent
from paxenv_agents.engine.game_batch import where_games
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import context_of
from paxenv_agents.strategies.constant import Random
from paxenv_agents.types import MemoryState, Sample, TrainingState

#: Tolerances between two ways to compute the same numbers.
RTOL, ATOL = 1e-4, 1e-5


class AgentCheckError(AssertionError):
    """An agent breaks a promise; the message names it."""


def same_avals(what: str, got: PyTree, whose: str, expected: PyTree) -> None:
    """Raises unless two trees agree in structure, shape, dtype and weak type."""
    if jax.tree.structure(got) != jax.tree.structure(expected):
        raise AgentCheckError(
            f"{what} differs in structure from {whose}: {jax.tree.structure(got)} and "
            f"{jax.tree.structure(expected)}"
        )
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        if _aval(a) != _aval(b):
            raise AgentCheckError(
                f"{what}{jax.tree_util.keystr(path)} differs from {whose}: {_aval(a)} "
                f"and {_aval(b)} (shape, dtype, weak type)"
            )


def equal(got: PyTree, expected: PyTree) -> bool:
    """Returns whether two trees of one structure hold the same bits."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(_host(a), _host(b)) for a, b in pairs)


def close(what: str, got: PyTree, expected: PyTree) -> None:
    """Raises unless two trees of one structure hold the same numbers, nearly."""
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        if not np.allclose(_host(a), _host(b), rtol=RTOL, atol=ATOL):
            raise AgentCheckError(f"{what} must agree: got {a}, expected {b}")


def _aval(x: Any) -> tuple[Any, Any, bool]:
    return x.shape, x.dtype, bool(getattr(x, "weak_type", False))


def _host(x: Any) -> np.ndarray:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(x))
    return np.asarray(x)


#: Keys that are tried to find out whether a policy draws.
NUM_KEYS = 64


class _Case(NamedTuple):
    """An agent at its seat, freshly made for `[E]` games."""

    agent: Agent
    env: Any
    player: int
    params: Any
    key: jax.Array
    state: TrainingState
    memory: MemoryState


class _Played(NamedTuple):
    """A trial: `sample` is `[T, E, ...]`, with all hidden states."""

    sample: Sample
    last_obs: Any
    memory: MemoryState


def check_agent(
    agent: Agent,
    env: Environment | SinglePlayer,
    player: int = 0,
    params: PyTree = None,
    *,
    seed: int = 0,
    num_envs: int = 8,
) -> None:
    """Plays one trial against random actions and checks every promise of an agent.

    The promises: the agent is hashable and equal to one built alike; its initial state
    and memory have the shapes asked for; acting leaves the training state as it was,
    keeps the memory's structure, shapes, dtypes and weak types, and gives actions in
    the action space; jitted, vmapped and scanned calls agree (of an agent that
    `mixes_games`: games in another order are played alike); a policy that draws does
    so differently in each lane and from each seed, and with `greedy` not at all;
    crossing a boundary and opening a trial keep the memory's structure.

    And of a learner: if it learns on policy, `evaluate` gives the stored
    log-probabilities and values back before the first update (ratio 1), also from the
    middle of an episode; `update` keeps the structure and changes the parameters (if
    it reports `gradient_steps`, then only where these are more than 0), and with
    `enabled=0` nothing.

    Args:
        agent: The agent.
        env: The game; build it with few steps, since a whole trial is played.
        player: The agent's seat.
        params: The game's numbers; None: `env.default_params`.
        seed: Seed of the agent, the game and the other players' actions.
        num_envs: Games played at once; a learner's minibatches must divide them.

    Raises:
        AgentCheckError: If a promise is broken.
    """
    _check_static(agent)
    agent = agent.sized(num_envs)
    key = keys.of_seed(seed)
    params = env.default_params if params is None else params
    hidden = agent.init_hidden(num_envs)
    expected = jax.ShapeDtypeStruct((num_envs, agent.hidden_size), jnp.float32)
    same_avals("init_hidden(num_envs)", hidden, "float32 [num_envs, H]", expected)
    state, memory = jax.jit(agent.batch_init)(key, hidden)
    told = agent.batch_observe_params(memory, params, player)
    same_avals(
        "the memory that observe_params returns", told, "the memory it took", memory
    )
    case = _Case(agent, env, player, params, key, state, told)
    _check_structures(case)
    played = jax.jit(_play, static_argnums=(0, 1, 2))(*case)
    _check_actions(case, played)
    _check_agreement(case, played)
    _check_noise(case, played)
    if agent.learns and agent.on_policy:
        _check_evaluate(case, played)
    if agent.learns:
        _check_update(case, played)


def _check_static(agent: Agent) -> None:
    again = copy.deepcopy(agent)
    try:
        same = again == agent and hash(again) == hash(agent)
    except TypeError as error:
        raise AgentCheckError(f"the agent is not hashable: {error}") from error
    if not same:
        raise AgentCheckError("an agent built with the same options is not equal to it")


def _check_structures(case: _Case) -> None:
    """Checks everything that tracing alone can tell, without a step of play."""
    agent, one_hidden = case.agent, case.agent.init_hidden(1)[0]
    state, memory = jax.eval_shape(agent.make_initial_state, case.key, one_hidden)
    same_avals("memory.hidden", memory.hidden, "the hidden state given", one_hidden)
    same_avals("batch_init's state", case.state, "make_initial_state", state)
    lane = jax.eval_shape(lambda m: jax.tree.map(lambda x: x[0], m), case.memory)
    same_avals("a lane of batch_init's memory", lane, "make_initial_state", memory)
    obs, _ = jax.eval_shape(case.env.reset, case.key, case.params)
    obs = obs if case.env.num_players == 1 else obs[case.player]
    _, after, moved = jax.eval_shape(agent.policy, state, obs, memory)
    same_avals("the state that policy returns", after, "the state it took", state)
    same_avals("the memory that policy returns", moved, "the memory it took", memory)
    crossed = jax.eval_shape(agent.end_inner_episode, state, memory)
    same_avals("end_inner_episode", crossed, "the memory it took", memory)
    for eval in (False, True):
        opened = jax.eval_shape(lambda m, e=eval: agent.reset_memory(m, eval=e), memory)
        same_avals(f"reset_memory(eval={eval})", opened, "the memory it took", memory)


def _play(
    agent: Agent,
    env: Any,
    player: int,
    params: Any,
    key: jax.Array,
    state: TrainingState,
    memory: MemoryState,
) -> _Played:
    """Plays one trial in E games in the flat view, the other seats drawing actions."""
    num_envs = memory.hidden.shape[0]
    episode_keys = jax.vmap(keys.episode, (None, 0))(key, jnp.arange(num_envs))
    alone = env.num_players == 1

    def seat(values: Any) -> Any:
        return values if alone else values[player]

    def step(carry: Any, _x: None) -> Any:
        obs, env_state, memory = carry
        step_keys = jax.vmap(keys.step)(episode_keys, env_state.t)
        action, _, after = agent.batch_policy(state, seat(obs), memory)
        joint_action = action
        if not alone:
            others = _drawn_actions(env, step_keys)
            joint_action = (*others[:player], action, *others[player + 1 :])
        next_obs, env_state, rewards, done, info = jax.vmap(env.step, (0, 0, 0, None))(
            step_keys, env_state, joint_action, params
        )
        after = where_games(info["valid"], after, memory)
        ends = info["truncated"] & done
        value = agent.batch_value(state, seat(info["final_obs"]), after)
        sample = Sample(
            observations=seat(obs),
            actions=action,
            rewards=seat(rewards),
            behavior_log_probs=after.extras.get("log_probs"),
            behavior_values=after.extras.get("values"),
            dones=info["terminated"] & done,
            hiddens=memory.hidden,
            truncations=ends,
            final_values=jnp.where(ends, value, 0.0),
            valid=info["valid"],
            inner_ends=info["inner_done"],
            final_obs=seat(info["final_obs"]) if agent.stores_final_obs else None,
        )
        crossed = agent.batch_end_inner(state, after)
        boundary = info["inner_done"] & ~done
        return (next_obs, env_state, where_games(boundary, crossed, after)), sample

    obs, env_state = jax.vmap(env.reset, (0, None))(
        jax.vmap(keys.reset)(episode_keys), params
    )
    length = env.num_inner_steps * env.num_outer_steps
    carry, sample = jax.lax.scan(step, (obs, env_state, memory), None, length)
    return _Played(sample, seat(carry[0]), carry[2])


def _drawn_actions(env: Any, step_keys: jax.Array) -> list[jax.Array]:
    """Returns random actions `[E, ...]` of every player."""
    drawn = []
    for p in range(env.num_players):
        agent = Random.from_env(env, p)
        player_keys = jax.vmap(keys.player, (0, None))(step_keys, p)
        memory = MemoryState(agent.init_hidden(step_keys.shape[0]), player_keys)
        # It never looks, so anything of the right length serves as observations.
        drawn.append(agent.batch_policy(TrainingState(), memory.hidden, memory)[0])
    return drawn


def _check_actions(case: _Case, played: _Played) -> None:
    space = case.env.action_space(case.player)
    actions = np.asarray(played.sample.actions)
    if actions.dtype != spaces.dtype_of(space):
        raise AgentCheckError(
            f"actions have dtype {actions.dtype}, those of {space} have {space.dtype}"
        )
    for action in actions.reshape(-1, *actions.shape[2:]):
        if not space.contains(np.asarray(action, space.dtype)):
            raise AgentCheckError(f"the action {action} is not in {space}")


def _check_agreement(case: _Case, played: _Played) -> None:
    """Checks single-lane calls against the scan over all lanes."""
    agent, state = case.agent, case.state
    if agent.mixes_games:
        _check_order(case, played)
        return
    memory, observations = _lane(case.memory, 0), _lane(played.sample.observations, 1)
    policy = jax.jit(agent.policy)
    for t in range(min(3, case.env.num_inner_steps)):
        obs = jax.tree.map(lambda x, t=t: x[t], observations)
        action, after, memory = policy(state, obs, memory)
        close("the training state after policy", after, state)
        seen = played.sample.actions[t, 0]
        close(f"step {t}'s action, alone and among lanes,", action, seen)
    ended = agent.end_inner_episode(state, memory)
    close("the memory's key after end_inner_episode", ended.key, memory.key)


def _check_order(case: _Case, played: _Played) -> None:
    """Checks that games in another order are played alike, each in its own place."""
    agent, sample = case.agent, played.sample
    middle = case.env.num_inner_steps // 2
    obs = jax.tree.map(lambda x: x[middle], sample.observations)
    memory = case.memory.replace(hidden=sample.hiddens[middle])
    act = jax.jit(agent.batch_policy)
    action, _, after = act(case.state, obs, memory)
    obs, memory = jax.tree.map(lambda x: x[::-1], (obs, memory))
    got, _, moved = act(case.state, obs, memory)
    got, moved = jax.tree.map(lambda x: x[::-1], (got, moved))
    close("the actions of games in another order", got, action)
    close("the memories of games in another order", moved, after)


def _check_noise(case: _Case, played: _Played) -> None:
    agent, state = case.agent, case.state
    observations = _lane(played.sample.observations, 1)
    hidden = agent.init_hidden(NUM_KEYS)
    lane_keys = jax.random.split(case.key, NUM_KEYS)

    def keyed() -> MemoryState:
        return jax.vmap(agent.init_memory)(lane_keys, hidden).replace(key=lane_keys)

    def varies(agent: Agent, open_lanes: Callable[[], MemoryState]) -> bool:
        """Returns whether lanes ever do different things in the same place."""

        def act(obs: Any, memory: MemoryState) -> jax.Array:
            same = jax.tree.map(lambda x: jnp.stack([x] * NUM_KEYS), obs)
            return agent.batch_policy(state, same, memory)[0]

        act_all = jax.jit(jax.vmap(act, (0, None)))
        actions = np.asarray(act_all(observations, jax.jit(open_lanes)()))
        return bool((actions != actions[:, :1]).any())

    if varies(dataclasses.replace(agent, greedy=True), keyed):
        raise AgentCheckError("with greedy=True the action depends on memory.key")
    if not varies(agent, keyed):
        return
    if not varies(agent, lambda: agent.batch_init(case.key, hidden)[1]):
        raise AgentCheckError("all lanes of batch_init draw the same noise")
    make = jax.vmap(agent.make_initial_state)
    if not varies(agent, lambda: make(lane_keys, hidden)[1]):
        raise AgentCheckError("the key of make_initial_state does not change the noise")


def _check_evaluate(case: _Case, played: _Played) -> None:
    for name in ("log_probs", "values"):
        if name not in case.memory.extras:
            raise AgentCheckError(f"a learner's memory.extras must hold {name!r}")
    middle = case.env.num_inner_steps // 2
    for start, where in ((0, "a whole trial"), (middle, "the middle of an episode")):
        sample = jax.tree.map(lambda x, s=start: x[s:], played.sample)
        expected = (sample.behavior_log_probs, sample.behavior_values)
        log_probs, values, entropies = jax.jit(case.agent.evaluate)(
            case.state, _as_stored(case.agent, sample)
        )
        got, expected = jax.tree.map(
            lambda x, valid=sample.valid: jnp.where(valid, x, 0.0),
            ((log_probs, values), expected),
        )
        close(f"evaluate's (log_probs, values) from {where}", got, expected)
        same_avals("evaluate's entropies", entropies, "its log_probs", log_probs)


def _as_stored(agent: Agent, sample: Sample) -> Sample:
    if agent.stores_hiddens == "first":
        return sample._replace(hiddens=sample.hiddens[:1])
    return sample


def _check_update(case: _Case, played: _Played) -> None:
    agent, state, memory = case.agent, case.state, played.memory
    sample = _as_stored(agent, played.sample)
    update = jax.jit(functools.partial(_flagged_update, case))
    after, new_memory, stats = update(sample, played.last_obs, state, memory)
    stats = missing.on_host(stats)
    same_avals("the state that update returns", after, "the state it took", state)
    same_avals("the memory that update returns", new_memory, "what it took", memory)
    idle = float(stats.get("gradient_steps", 1)) == 0
    for name, value in () if idle else stats.items():
        if not np.isfinite(value).all():
            raise AgentCheckError(f"update reports {name}={value}, which is not finite")
    if not idle and equal(after.params, state.params):
        raise AgentCheckError("update changes no parameter")
    if "enabled" not in state.hyper:
        raise AgentCheckError("a learner's state.hyper must hold 'enabled'")
    off = {**state.hyper, "enabled": jnp.zeros_like(state.hyper["enabled"])}
    frozen = state.replace(hyper=off)
    kept, _, _ = update(sample, played.last_obs, frozen, memory)
    if not equal(kept, frozen):
        raise AgentCheckError("update with enabled=0 does not keep the whole old state")


def _flagged_update(case: _Case, *experience: Any) -> Any:
    state, memory, stats = _update(case, *experience)
    return state, memory, missing.flagged(stats)


def _update(case: _Case, sample: Sample, last_obs: Any, state: Any, memory: Any) -> Any:
    """Updates; who has privileges is told of co-players that draw their actions."""
    agent, env, player = case.agent, case.env, case.player
    if not agent.privileges:
        return agent.update(sample, last_obs, state, memory)
    slots = tuple(
        Slot(agent if p == player else Random.from_env(env, p), (p,), clock="inner")
        for p in range(env.num_players)
    )
    lineup = Lineup(env, slots, memory.hidden.shape[0])
    own = [p == player for p in range(env.num_players)]
    states = tuple(state if mine else TrainingState() for mine in own)
    samples = tuple(sample if mine else None for mine in own)
    told = context_of(lineup, player, case.params, states, samples)
    return agent.update(sample, last_obs, state, memory, **told)


def _lane(tree: Any, axis: int) -> Any:
    return jax.tree.map(lambda x: jax.lax.index_in_dim(x, 0, axis, False), tree)
