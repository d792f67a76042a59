"""Co-players that learn within a trial, inside the step of a one-player game.

They do one step at a time what `play_trial` does with slots on the inner clock, so that
any agent, written in JAX or not, can play against learners.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Key, PyTree

from paxenv import keys
from paxenv.environment import where
from paxenv.single_player import SinglePlayer, SinglePlayerParams, SinglePlayerState
from paxenv_agents.agent import Agent
from paxenv_agents.types import Sample, TrainingState

#: Folded into a co-player's key at the opening of a trial: its training state.
TRAINING_STATE = 3


class Learning(struct.PyTreeNode):
    """The co-players' training states, and the experience for their next update.

    Attributes:
        states: Training states, in player order.
        samples: Their experience of the inner episode in play, `[T, 1, ...]`; None for
            those that do not learn.
    """

    states: tuple[TrainingState, ...]
    samples: tuple[Sample | None, ...]


@dataclasses.dataclass(frozen=True)
class LearningCoPlayers:
    """Lets the learners among co-players update at the end of every inner episode.

    At the end of an inner episode the values after a time limit are computed, and then
    the updates, all from the states before it; `SinglePlayer` then carries the memories
    into the next one. Every trial begins anew.

    Attributes:
        resets: For each co-player whether it begins a trial with a new training state,
            drawn from its key at the opening; else with that of the game's params.
    """

    resets: tuple[bool, ...]

    def open(
        self,
        game: SinglePlayer,
        key: Key[Array, ""],
        state: SinglePlayerState,
        params: SinglePlayerParams,
    ) -> Learning:
        """Returns what a trial begins with.

        Args:
            game: The `SinglePlayer`.
            key: The key of the reset; only folded.
            state: The game's state at the opening.
            params: The game's params.
        """
        states = []
        for i, (seat, agent) in enumerate(
            zip(game.seats, game.co_players, strict=True)
        ):
            given = params.co_players[i]
            if self.resets[i]:
                given = agent.init_state(opening_key(key, seat))
            states.append(given)
        samples = tuple(
            _empty(game, agent, own, state.observations[seat], state.memories[i])
            if agent.learns
            else None
            for i, (seat, agent, own) in enumerate(
                zip(game.seats, game.co_players, states, strict=True)
            )
        )
        return Learning(tuple(states), samples)

    def states(self, learning: Learning) -> tuple[TrainingState, ...]:
        """Returns the training states with which the co-players act."""
        return learning.states

    def learn(
        self,
        game: SinglePlayer,
        before: SinglePlayerState,
        after: SinglePlayerState,
        actions: tuple[PyTree, ...],
        rewards: tuple[PyTree, ...],
        info: dict[str, Any],
    ) -> SinglePlayerState:
        """Returns the state after a step with the experience kept, and learnt from.

        Args:
            game: The `SinglePlayer`.
            before: Its state before the step.
            after: Its state after the step, before memories cross a boundary.
            actions: The actions of the co-players.
            rewards: The rewards of all players.
            info: The game's own info of the step.
        """
        learning: Learning = before.learning
        states, samples = list(learning.states), list(learning.samples)
        memories = list(after.memories)
        for i, (seat, agent) in enumerate(
            zip(game.seats, game.co_players, strict=True)
        ):
            sample = learning.samples[i]
            if sample is None:
                continue
            row = _row(agent, before, after, i, seat, actions[i], rewards[seat], info)
            sample = _with_row(agent, sample, row, before.env.inner_t)
            last_obs = info["final_obs"][seat]

            def update(args: Any, agent: Any = agent) -> Any:
                return _update(agent, *args)

            states[i], memories[i], samples[i] = when(
                info["inner_done"],
                update,
                (states[i], memories[i], sample, last_obs),
            )
        return after.replace(
            memories=tuple(memories),
            learning=Learning(tuple(states), tuple(samples)),
        )


def opening_key(reset_key: Key[Array, ""], seat: int) -> Key[Array, ""]:
    """Returns the key from which a co-player's training state is drawn in a trial."""
    return keys.fold_in(keys.player(keys.typed(reset_key), seat), TRAINING_STATE)


def when(due: Bool[Array, ""], f: Callable[[PyTree], PyTree], args: PyTree) -> PyTree:
    """Returns `f(args)` where it is due, else the first parts of `args`, as many.

    One branch is run, also under one `vmap`: it asks whether it is due anywhere.

    Args:
        due: bool scalar.
        f: Pure; returns a tuple shaped as the first parts of `args`.
        args: A tuple.
    """
    num_outputs = len(jax.eval_shape(f, args))

    @jax.custom_batching.custom_vmap
    def choose(due: jax.Array, args: Any) -> Any:
        return jax.lax.cond(due, f, lambda a: a[:num_outputs], args)

    @choose.def_vmap
    def choose_many(axis_size: int, batched: Any, due: jax.Array, args: Any) -> Any:
        def spread(x: jax.Array, has_axis: bool) -> jax.Array:
            return x if has_axis else jnp.broadcast_to(x, (axis_size, *jnp.shape(x)))

        due = spread(due, batched[0])
        args = jax.tree.map(spread, args, batched[1])

        def some(args: Any) -> Any:
            return jax.vmap(where)(due, jax.vmap(f)(args), args[:num_outputs])

        out = jax.lax.cond(jnp.any(due), some, lambda a: a[:num_outputs], args)
        return out, jax.tree.map(lambda _: True, out)

    return choose(due, args)


def _update(
    agent: Any, state: Any, memory: Any, sample: Sample, last_obs: PyTree
) -> tuple[Any, Any, Sample]:
    """Returns (state, memory, sample without rows) after an update."""
    value = agent.value(state, last_obs, memory)
    assert sample.truncations is not None
    learnt_from = sample._replace(
        final_values=jnp.where(sample.truncations, value, 0.0).astype(jnp.float32)
    )
    game = jax.tree.map(lambda x: x[None], (last_obs, memory))
    after, game_memory, _ = agent.update(learnt_from, game[0], state, game[1])
    memory = jax.tree.map(lambda x: x[0], game_memory)
    empty = sample._replace(valid=jnp.zeros_like(sample.valid))
    return after, memory, empty


def _row(
    agent: Any,
    before: Any,
    after: Any,
    index: int,
    seat: int,
    action: Any,
    reward: Any,
    info: dict[str, Any],
) -> Sample:
    """Returns one step of a co-player as a sample without axes."""
    memory = after.memories[index]
    return Sample(
        observations=before.observations[seat],
        actions=action,
        rewards=reward,
        behavior_log_probs=memory.extras["log_probs"],
        behavior_values=memory.extras["values"],
        dones=info["terminated"],
        hiddens=before.memories[index].hidden,
        truncations=info["truncated"],
        final_values=jnp.zeros((), jnp.float32),
        valid=info["valid"],
        inner_ends=info["terminated"] | info["truncated"],
        final_obs=info["final_obs"][seat] if agent.stores_final_obs else None,
    )


def _with_row(agent: Any, sample: Sample, row: Sample, t: jax.Array) -> Sample:
    """Returns a sample `[T, 1, ...]` with its row `t` set."""

    def put(kept: jax.Array, x: Any) -> jax.Array:
        return kept.at[t, 0].set(jnp.asarray(x, kept.dtype))

    after = jax.tree.map(put, sample._replace(hiddens=None), row._replace(hiddens=None))
    hiddens = put(sample.hiddens, row.hiddens)
    if agent.stores_hiddens == "first":
        opening = sample.hiddens.at[0, 0].set(row.hiddens)
        hiddens = jnp.where(t == 0, opening, sample.hiddens)
    return after._replace(hiddens=hiddens)


def _empty(game: Any, agent: Any, state: Any, obs: PyTree, memory: Any) -> Sample:
    """Returns a sample of one inner episode in which no step was played."""
    steps = game.num_inner_steps
    action = jax.eval_shape(agent.policy, state, obs, memory)[0]

    def rows(x: Any, length: int = steps) -> Any:
        return jax.tree.map(
            lambda leaf: jnp.zeros((length, 1, *jnp.shape(leaf)), leaf.dtype), x
        )

    number = jax.ShapeDtypeStruct((), jnp.float32)
    flag = jax.ShapeDtypeStruct((), jnp.bool_)
    reward = jax.ShapeDtypeStruct((), jnp.result_type(float))
    return Sample(
        observations=rows(obs),
        actions=rows(action),
        rewards=rows(reward),
        behavior_log_probs=rows(number),
        behavior_values=rows(number),
        dones=rows(flag),
        hiddens=rows(memory.hidden, 1 if agent.stores_hiddens == "first" else steps),
        truncations=rows(flag),
        final_values=rows(number),
        valid=rows(flag),
        inner_ends=rows(flag),
        final_obs=rows(obs) if agent.stores_final_obs else None,
    )


def check(
    agents: tuple[Agent, ...], num_inner_steps: int, num_outer_steps: int, named: str
) -> None:
    """Raises ValueError if co-players cannot learn within the trials of a game.

    Args:
        agents: The co-players.
        num_inner_steps: Steps of an inner episode.
        num_outer_steps: Inner episodes of a trial.
        named: The users' name for them.
    """
    if not any(agent.learns for agent in agents):
        raise ValueError(
            f"opponent_learns=True, but {named} does not learn: name a learner, such "
            "as 'Naive' or 'PPO'"
        )
    if num_outer_steps < 2:
        raise ValueError(
            "opponent_learns=True with num_outer_steps=1: an opponent learns between "
            "the inner episodes of a trial, so there must be 2 or more"
        )
    for agent in agents:
        if agent.learns and getattr(agent, "privileges", ()):
            raise ValueError(
                f"{type(agent).__name__} learns from more than its own experience, "
                "which a one-player game has not"
            )
        if agent.learns:
            agent.check_batch(num_inner_steps, 1)
