"""Any N-player game with its seats drawn anew for every trial."""

import dataclasses
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from paxenv import keys
from paxenv.environment import Environment
from paxenv.metrics import Accumulator
from paxenv.types import Flag, Info, Rewards
from paxenv.wrapped_state import WrappedState


class ShuffledState(WrappedState):
    """State of a trial and who sits where in it.

    Attributes:
        env: The game's state.
        seats: The seat of each role, int32 `[N]`.
    """

    seats: Int[Array, " players"]


@dataclasses.dataclass(frozen=True)
class ShuffledPlayers:
    """Gives each role a seat of the game, drawn for every trial and every game.

    Players are roles here: observations, actions and rewards are in the order of the
    roles, from the opening of a trial to its end. `info["seats"]` holds the seat of
    each role; all other entries of `info` and the game's statistics are in the order
    of the seats.

    Attributes:
        env: A game whose players all have the same spaces.

    Raises:
        ValueError: If two players have different spaces.
    """

    env: Environment

    def __post_init__(self) -> None:
        for player in range(1, self.env.num_players):
            for spaces_of in (self.env.observation_space, self.env.action_space):
                if spaces_of(player) != spaces_of(0):
                    raise ValueError(
                        f"players of {self.env.name} cannot be shuffled: player "
                        f"{player + 1} has {spaces_of(player)}, player 1 {spaces_of(0)}"
                    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def observation_space(self, player: int) -> gymnasium.Space:
        """Returns the observation space, that of all players."""
        return self.env.observation_space(player)

    def action_space(self, player: int) -> gymnasium.Space:
        """Returns the action space, that of all players."""
        return self.env.action_space(player)

    def reset(self, key: PRNGKeyArray, params: PyTree) -> tuple[PyTree, ShuffledState]:
        """Opens a trial with other seats; see `Environment.reset`."""
        key = keys.typed(key)
        obs, env_state = self.env.reset(key, params)
        order = jax.random.permutation(keys.seating(key), self.env.num_players)
        seats = order.astype(jnp.int32)
        return by_role(seats, obs), ShuffledState(env_state, seats)

    def step(
        self, key: PRNGKeyArray, state: ShuffledState, actions: PyTree, params: PyTree
    ) -> tuple[PyTree, ShuffledState, Rewards, Flag, Info]:
        """Plays one joint action in the flat view; see `Environment.step`."""
        return self._played(self.env.step, key, state, actions, params)

    def step_inner(
        self, key: PRNGKeyArray, state: ShuffledState, actions: PyTree, params: PyTree
    ) -> tuple[PyTree, ShuffledState, Rewards, Flag, Info]:
        """Plays one joint action in the nested view; see `Environment.step_inner`."""
        return self._played(self.env.step_inner, key, state, actions, params)

    def begin_episode(
        self, key: PRNGKeyArray, state: ShuffledState, params: PyTree
    ) -> tuple[PyTree, ShuffledState]:
        """Opens the next inner episode; see `Environment.begin_episode`."""
        obs, env_state = self.env.begin_episode(key, state.env, params)
        return by_role(state.seats, obs), state.replace(env=env_state)

    def metrics_update(
        self, acc: Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> Accumulator:
        """Returns the game's statistics, by seat, with one step added."""
        seats = info["seats"]
        return self.env.metrics_update(
            acc, by_seat(seats, obs_before), by_seat(seats, actions), info
        )

    def _played(
        self, step: Any, key: Any, state: ShuffledState, actions: Any, params: PyTree
    ) -> tuple[PyTree, ShuffledState, Rewards, Flag, Info]:
        seats = state.seats
        obs, env_state, rewards, done, info = step(
            key, state.env, by_seat(seats, actions), params
        )
        final_obs = by_role(seats, info["final_obs"])
        info = {**info, "final_obs": final_obs, "seats": seats}
        after = state.replace(env=env_state)
        return by_role(seats, obs), after, by_role(seats, rewards), done, info


def by_role(
    seats: Int[Array, " players"], values: tuple[PyTree, ...]
) -> tuple[PyTree, ...]:
    """Returns values in the order of the roles from values in that of the seats."""
    return _picked(seats, values)


def by_seat(
    seats: Int[Array, " players"], values: tuple[PyTree, ...]
) -> tuple[PyTree, ...]:
    """Returns values in the order of the seats from values in that of the roles."""
    return _picked(jnp.argsort(seats), values)


def _picked(order: jax.Array, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns `values[order[i]]` for every i."""
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *values)
    return tuple(
        jax.tree.map(lambda x, i=i: x[order[i]], stacked) for i in range(len(values))
    )
