"""Evaluation: agents play in games and keys of their own, and nobody learns.

`Evaluation` lets all agents of a plan play trials together. `play_episodes` lets one
agent play whole episodes of a native game, each as the first trial of a lane of its own
and to its end, so that short ones do not count more than long ones; `play_on_host` does
so on the host. Keys follow `runners.engine.tags.evaluation_key`.
"""

import dataclasses
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv import keys
from paxenv.auto_reset import AutoResetWrapper
from paxenv.environment import native
from paxenv_agents import structure
from paxenv_agents.agent import Agent
from paxenv_agents.engine.game_batch import (
    GameBatch,
    across,
    open_games,
    where_games,
)
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.step import play_step
from paxenv_agents.types import MemoryState
from runners.engine.devices import count
from runners.engine.program import (
    CompiledProgram,
    evaluation_keys,
    initial_state,
    with_agents,
)
from runners.engine.rows import CURVES, FINITE, finite
from runners.engine.statistics import EpisodeStats, summarise
from runners.planning.plan import Plan, evaluation
from runners.session.models import with_models
from runners.session.runner_config import OnePlayerGame, params_of

#: Most steps of an episode on the host, where the environment names no limit.
MAX_STEPS = 100_000


class Evaluated(NamedTuple):
    """The measurements of one evaluation.

    Attributes:
        metrics: `[seeds]` by name.
        curves: Rewards per step `[seeds, opponents, inner episodes, players]`; None
            where the program keeps none.
    """

    metrics: dict[str, np.ndarray]
    curves: np.ndarray | None


class Evaluation:
    """Plays the agents of a plan without learning, in games and keys of their own."""

    def __init__(self, plan: Plan) -> None:
        """Takes a plan of training; compiles nothing yet."""
        self.plan = evaluation(plan)
        self._program: CompiledProgram | None = None
        self._starts: tuple | None = None

    def play(self, agents: tuple, env_steps: int | None = None) -> Evaluated:
        """Plays the agents once and returns the measurements.

        A seed whose agents hold a NaN gets NaN for everything: their policies have no
        meaning.

        Args:
            agents: Training states in the order of the slots, leaves `[seeds, ...]`.
            env_steps: Environment steps after which the evaluation takes place, for
                keys of its own; None at the end of the run.
        """
        config = self.plan.config
        run_keys = evaluation_keys(config.seed, config.num_seeds, env_steps)
        state = initial_state(self.plan.experiment, run_keys, self.plan.params)
        if self._starts is None:
            self._starts = with_models(self.plan, state).starts
        slots = self.plan.experiment.slots
        # Who starts anew in each trial brings nothing from training.
        given = {i: a for i, a in enumerate(agents) if slots[i].reset_interval != 1}
        state = with_agents(state, given).replace(starts=self._starts)
        if self._program is None:
            self._program = CompiledProgram(self.plan.experiment, state)
        else:
            self._program.load(state)
        return play_once(self._program)


def play_once(program: CompiledProgram) -> Evaluated:
    """Runs one iteration; a seed whose agents are not finite has NaN everywhere."""
    rows = {name: values[:, 0] for name, values in program.run(1).items()}
    curves = rows.pop(CURVES, None)
    if curves is not None:
        broken = rows[FINITE] != 1
        curves = np.where(broken[:, None, None, None], np.nan, curves)
    return Evaluated(meaningful(rows), curves)


def meaningful(metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns metrics `[seeds]` with NaN for seeds whose agents are not finite."""
    broken = metrics[FINITE] != 1
    return {
        name: values if name == FINITE else np.where(broken, np.nan, values)
        for name, values in metrics.items()
    }


class _Games(NamedTuple):
    """Games in play, and their steps so far (an int32 scalar)."""

    batch: GameBatch
    stats: EpisodeStats
    num_steps: jax.Array


def greedy_statistics(
    agent: Agent,
    state: PyTree,
    env: OnePlayerGame,
    env_params: PyTree,
    key: jax.Array,
    n_episodes: int,
) -> dict[str, float]:
    """Returns `summarise` of whole episodes of the greedy agent, as Python numbers.

    Compiled once for equal agents and games. The arguments are those of
    `evaluate_agent`; an episode goes on to the game's own limit.
    """
    stats = _play_compiled(
        dataclasses.replace(agent, greedy=True),
        *(state, env, env_params, key),
        n_episodes=n_episodes,
        max_steps=env.num_inner_steps * env.num_outer_steps,
    )
    return {name: float(x) for name, x in summarise(stats).items()}


def play_episodes(
    agent: Agent,
    state: PyTree,
    env: OnePlayerGame,
    env_params: PyTree,
    key: jax.Array,
    *,
    n_episodes: int,
    max_steps: int,
) -> EpisodeStats:
    """Plays `n_episodes` episodes side by side until the last one has ended.

    Pure; compile it with `agent`, `env`, `n_episodes` and `max_steps` static. The
    arguments are those of `evaluate_agent`.
    """
    n_episodes = count("n_episodes", n_episodes)
    max_steps = count("max_steps", max_steps)
    # Every lane plays one trial: what opens the next one would never be seen.
    game = native(env.env if isinstance(env, AutoResetWrapper) else env)
    _check_seat(agent, game)
    env_params = params_of(game, env_params)
    lanes = keys.folds(keys.typed(key), n_episodes)
    episode_keys = jax.vmap(keys.episode, (0, None))(lanes, 0)
    lineup = Lineup(game, (Slot(agent, clock="none"),), n_episodes)
    batch = open_games(lineup, env_params, (state,), episode_keys, evaluates=True)
    games = _Games(batch, _no_steps(state, n_episodes), jnp.zeros((), jnp.int32))

    def goes_on(games: _Games) -> jax.Array:
        return games.stats.unfinished.any() & (games.num_steps < max_steps)

    def step(games: _Games) -> _Games:
        return _step(lineup, state, env_params, episode_keys, games)

    return jax.lax.while_loop(goes_on, step, games).stats


_play_compiled = structure.jit("agent", "env", "n_episodes", "max_steps")(play_episodes)


def _no_steps(state: Any, num_games: int) -> EpisodeStats:
    """Returns the statistics of episodes that have just opened."""
    never = jnp.zeros(num_games, bool)
    broken = never | _holds_nan(state)
    zeros = jnp.zeros(num_games, jnp.result_type(float))
    return EpisodeStats(
        returns=jnp.where(broken, jnp.nan, zeros),
        lengths=jnp.zeros(num_games, jnp.int32),
        truncated=never,
        unfinished=~never,
        broken=broken,
    )


def _step(
    lineup: Lineup, state: Any, env_params: Any, episode_keys: jax.Array, games: _Games
) -> _Games:
    env, batch, old = lineup.env, games.batch, games.stats
    step_keys = jax.vmap(keys.step)(episode_keys, batch.env_state.t)
    # After a trial has ended the game stands still, pays 0 and raises no flag.
    step = play_step(lineup, env_params, (state,), batch, step_keys, env.step)
    valid, done, (reward,) = step.info["valid"], step.done, step.rewards
    broken = valid & _games_with_nan((step.taken, step.memories), valid.shape[0])
    stats = EpisodeStats(
        returns=jnp.where(broken, jnp.nan, old.returns + reward),
        lengths=old.lengths + valid,
        truncated=old.truncated | (done & step.info["truncated"]),
        unfinished=old.unfinished & ~done,
        broken=old.broken | broken,
    )
    memories = step.memories
    if env.num_outer_steps > 1:
        crossed = across(lineup, (state,), memories)
        memories = where_games(step.info["inner_done"], crossed, memories)
    batch = batch.replace(env_state=step.env_state, obs=step.obs, memories=memories)
    return _Games(batch, stats, games.num_steps + 1)


def _check_seat(agent: Agent, env: Any) -> None:
    if native(env).num_players != 1:
        raise ValueError(
            f"an evaluation plays games of one player, {env.name or env} has "
            f"{env.num_players}: seat the others by SinglePlayer(env, player, "
            "co_players)"
        )
    if agent.action_space != env.action_space(0):
        raise ValueError(
            f"{type(agent).__name__} acts in {agent.action_space}, the game takes "
            f"{env.action_space(0)}"
        )


def _floats(tree: Any) -> list[jax.Array]:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]


def _holds_nan(tree: Any) -> jax.Array:
    found = jnp.zeros((), bool)
    for leaf in _floats(tree):
        found |= jnp.isnan(leaf).any()
    return found


def _games_with_nan(tree: Any, num_games: int) -> jax.Array:
    found = jnp.zeros(num_games, bool)
    for leaf in _floats(tree):  # [E, ...]
        found |= jnp.isnan(leaf.reshape(num_games, -1)).any(1)
    return found


def play_on_host(
    agent: Agent, state: PyTree, env: gymnasium.Env, key: jax.Array, n_episodes: int
) -> EpisodeStats:
    """Plays episodes one after the other, each to its end.

    Args:
        agent: Who plays.
        state: Its training state.
        env: A plain environment.
        key: Only folded; episode i draws from `fold_in(key, i)`, its seed too.
        n_episodes: How many.
    """
    limit = getattr(env.spec, "max_episode_steps", None) or MAX_STEPS
    played = [
        _episode(agent, state, env, jax.random.fold_in(key, i), limit)
        for i in range(n_episodes)
    ]
    broken = jnp.full(n_episodes, ~finite(state.params))
    returns, lengths, truncated, unfinished = (
        jnp.asarray(np.array(column)) for column in zip(*played, strict=True)
    )
    return EpisodeStats(
        returns=jnp.where(broken, jnp.nan, returns),
        lengths=lengths,
        truncated=truncated,
        unfinished=unfinished,
        broken=broken,
    )


def _episode(
    agent: Agent, state: PyTree, env: gymnasium.Env, key: jax.Array, limit: int
) -> tuple[float, int, bool, bool]:
    """Returns (return, length, truncated, unfinished) of one episode."""
    seed = int(jax.random.bits(jax.random.fold_in(key, limit), dtype=jnp.uint32) >> 1)
    obs, _ = env.reset(seed=seed)
    memory = agent.init_memory(key, agent.init_hidden(1)[0])
    memory = agent.batch_reset(jax.tree.map(lambda x: x[None], memory), True)
    total = 0.0
    for t in range(limit):
        seen = np.asarray(obs)[None]
        actions, memory = act_on_host(
            agent, state, seen, memory, jax.random.fold_in(key, t)
        )
        obs, reward, terminated, truncated, _ = env.step(np.asarray(actions)[0])
        total += float(reward)
        if terminated or truncated:
            return total, t + 1, bool(truncated and not terminated), False
    return total, limit, False, True


@structure.jit("agent")
def act_on_host(
    agent: Agent, state: PyTree, obs: PyTree, memory: MemoryState, key: jax.Array
) -> tuple[jax.Array, MemoryState]:
    """Returns (actions, memories after them) of games, whose keys are folded here."""
    scheduled = memory.replace(key=keys.folds(key, memory.hidden.shape[0]))
    actions, _, after = agent.batch_policy(state, obs, scheduled)
    return actions, after.replace(key=memory.key)
