"""Any N-player game as a one-player game: the other seats are played by agents."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import PRNGKeyArray, PyTree

from paxenv import keys
from paxenv.environment import Environment, Frame, checked_player, native, where
from paxenv.metrics import Accumulator
from paxenv.types import Flag, Info, Picture, Reward, Statistics
from paxenv.wording import counted
from paxenv.wrapped_state import WrappedState

#: Seed of the co-players' training states where `make_params` is given none.
CO_PLAYER_SEED = 0


class SinglePlayerParams(struct.PyTreeNode):
    """Numbers of the game and of its co-players.

    Attributes:
        game: The game's own params.
        co_players: One training state for each co-player, in player order.
    """

    game: PyTree
    co_players: PyTree


class SinglePlayerState(WrappedState):
    """Everything that changes while a trial is played against the co-players.

    Attributes:
        env: The game's state.
        observations: What all players see, in player order.
        memories: One memory for each co-player, in player order.
        learning: State of the co-players that learn within the trial; () if none does.
    """

    observations: tuple[PyTree, ...]
    memories: tuple[PyTree, ...]
    learning: PyTree = ()


@dataclasses.dataclass(frozen=True)
class SinglePlayer:
    """Shows one seat of a game; agents play the other seats inside its step.

    It has the interface of an `Environment` of one player. Its key goes to the game
    unchanged and the co-players' keys are folded from it, so a trial equals that of
    the game itself when the co-players' actions are fed to it.

    In addition to the game's own entries, `info` holds

    * `opponent_action`: the action of the co-player (two players), or a tuple of the
      actions of the co-players, in player order;
    * `rewards`: the rewards of all players, a tuple in player order;
    * `obs_before`: the observations of all players before the step, for the game's
      statistics.

    Attributes:
        env: The game, of two or more players.
        player: The seat that is shown, from 0.
        co_players: The agents at the other seats, in player order.
        learning: How they learn within a trial, such as a `LearningCoPlayers` of
            `paxenv_agents.engine.learning_co_players`; None: not at all.
    """

    env: Environment
    player: int = 0
    co_players: tuple[Any, ...] = ()
    learning: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "co_players", tuple(self.co_players))
        num_players = native(self.env).num_players
        if num_players < 2:
            raise ValueError(
                f"{self.env.name or self.env} has one player already: use it as it is"
            )
        if not 0 <= self.player < num_players:
            raise ValueError(
                f"player must be in [0, {num_players}), got {self.player!r}"
            )
        if len(self.co_players) != num_players - 1:
            raise ValueError(
                f"{self.env.name or self.env} has "
                f"{counted(num_players, 'player')} and needs "
                f"{counted(num_players - 1, 'co_player')}, got {len(self.co_players)}"
            )
        for seat, agent in zip(self.seats, self.co_players, strict=True):
            if agent.action_space != self.env.action_space(seat):
                raise ValueError(
                    f"the co-player at seat {seat} acts in {agent.action_space}, "
                    f"its seat in {self.env.action_space(seat)}"
                )

    @property
    def name(self) -> str:
        """The game's name."""
        return self.env.name

    @property
    def num_players(self) -> int:
        """1: observations, actions and rewards are bare values."""
        return 1

    @property
    def num_inner_steps(self) -> int:
        """Steps of an inner episode."""
        return self.env.num_inner_steps

    @property
    def num_outer_steps(self) -> int:
        """Inner episodes of a trial."""
        return self.env.num_outer_steps

    @property
    def random_ends(self) -> bool:
        """Whether inner episodes may end at random."""
        return self.env.random_ends

    @property
    def horizon(self) -> str:
        """Whether reaching the cap truncates or terminates."""
        return self.env.horizon

    @property
    def seats(self) -> tuple[int, ...]:
        """The co-players' seats, in player order."""
        return tuple(p for p in range(self.env.num_players) if p != self.player)

    @property
    def default_params(self) -> SinglePlayerParams:
        """The game's default numbers and fresh co-players."""
        return self.make_params(self.env.default_params)

    def make_params(
        self, game_params: PyTree, co_states: Sequence[Any] | None = None
    ) -> SinglePlayerParams:
        """Returns the numbers of the game and of its co-players.

        Args:
            game_params: The game's own params.
            co_states: One training state for each co-player, in player order. None:
                fresh ones, that of seat p from
                `keys.player(jax.random.key(CO_PLAYER_SEED), p)`.

        Raises:
            ValueError: If there is not one state for each co-player.
        """
        if co_states is None:
            key = jax.random.key(CO_PLAYER_SEED)
            fresh = [
                _initial(agent, keys.player(key, seat))[0]
                for seat, agent in zip(self.seats, self.co_players, strict=True)
            ]
            return SinglePlayerParams(game=game_params, co_players=tuple(fresh))
        if len(co_states) != len(self.co_players):
            raise ValueError(
                f"expected {len(self.co_players)} co_states, got {len(co_states)}"
            )
        return SinglePlayerParams(game=game_params, co_players=tuple(co_states))

    def params_axes(self, **axes: int) -> SinglePlayerParams:
        """Returns `vmap` axes: the game's params named are batched, the rest shared."""
        return SinglePlayerParams(game=self.env.params_axes(**axes), co_players=None)

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns the seat's observation space; the only player is 0."""
        return self.env.observation_space(self._seat(player))

    def action_space(self, player: int = 0) -> gymnasium.Space:
        """Returns the seat's action space; the only player is 0."""
        return self.env.action_space(self._seat(player))

    def joint_action(
        self, action: PyTree, opponent_action: PyTree
    ) -> tuple[PyTree, ...]:
        """Returns the joint action of this seat's and `info["opponent_action"]`."""
        others = (opponent_action,) if len(self.seats) == 1 else opponent_action
        return (*others[: self.player], action, *others[self.player :])

    def reset(
        self, key: PRNGKeyArray, params: SinglePlayerParams
    ) -> tuple[PyTree, SinglePlayerState]:
        """Opens a trial and returns (observation, state); see `Environment.reset`."""
        key = keys.typed(key)
        observations, env_state = self.env.reset(key, params.game)
        opened = (
            agent.reset_memory(_initial(agent, keys.player(key, seat))[1])
            for seat, agent in zip(self.seats, self.co_players, strict=True)
        )
        memories = tuple(
            agent.observe_params(memory, params.game, seat)
            for seat, agent, memory in zip(
                self.seats, self.co_players, opened, strict=True
            )
        )
        state = SinglePlayerState(env_state, observations, memories)
        if self.learning is not None:
            state = state.replace(learning=self.learning.open(self, key, state, params))
        return observations[self.player], state

    def step(
        self,
        key: PRNGKeyArray,
        state: SinglePlayerState,
        action: PyTree,
        params: SinglePlayerParams,
    ) -> tuple[PyTree, SinglePlayerState, Reward, Flag, Info]:
        """Plays one action in the flat view; see `Environment.step`."""
        obs, state, reward, done, info = self._play(
            self.env.step, key, state, action, params
        )
        if self.num_outer_steps > 1:
            boundary = info["inner_done"] & ~done
            state = self._end_inner_episode(boundary, state, params)
        return obs, state, reward, done, info

    def step_inner(
        self,
        key: PRNGKeyArray,
        state: SinglePlayerState,
        action: PyTree,
        params: SinglePlayerParams,
    ) -> tuple[PyTree, SinglePlayerState, Reward, Flag, Info]:
        """Plays one action in the nested view; see `Environment.step_inner`."""
        return self._play(self.env.step_inner, key, state, action, params)

    def begin_episode(
        self, key: PRNGKeyArray, state: SinglePlayerState, params: SinglePlayerParams
    ) -> tuple[PyTree, SinglePlayerState]:
        """Opens the next inner episode; see `Environment.begin_episode`."""
        observations, env_state = self.env.begin_episode(key, state.env, params.game)
        goes_on = jnp.asarray(state.outer_t < self.num_outer_steps)
        opened = state.replace(env=env_state, observations=observations)
        opened = self._end_inner_episode(goes_on, opened, params)
        return observations[self.player], where(goes_on, opened, state)

    def metrics_init(self) -> Accumulator:
        """Returns the game's empty statistics."""
        return self.env.metrics_init()

    def metrics_update(
        self, acc: Accumulator, obs_before: PyTree, action: PyTree, info: Info
    ) -> Accumulator:
        """Returns the statistics of all players with one step added."""
        del obs_before
        joint_action = self.joint_action(action, info["opponent_action"])
        return self.env.metrics_update(acc, info["obs_before"], joint_action, info)

    def metrics_final(self, acc: Accumulator) -> Statistics:
        """Returns the game's named statistics."""
        return self.env.metrics_final(acc)

    def logged(self, info: Info) -> dict[str, Any]:
        """Returns what the game reports of a step, of all its players."""
        return self.env.logged(info)

    def render_ansi(self, frame: Frame) -> str:
        """Returns the whole game as text; see `game_frame`."""
        return self.env.render_ansi(self.game_frame(frame))

    def render_rgb(self, frame: Frame) -> Picture:
        """Returns the whole game as a picture; see `game_frame`."""
        return self.env.render_rgb(self.game_frame(frame))

    def game_frame(self, frame: Frame) -> Frame:
        """Returns the game's frame from one of ours.

        `frame.actions` and `frame.rewards` must be all players' (`joint_action`,
        `info["rewards"]`) or None.
        """
        return frame._replace(
            state=frame.state.env,
            obs=frame.state.observations,
            params=frame.params.game,
        )

    def _play(
        self,
        step: Callable[..., Any],
        key: jax.Array,
        state: SinglePlayerState,
        action: Any,
        params: SinglePlayerParams,
    ) -> tuple[Any, SinglePlayerState, jax.Array, jax.Array, dict[str, Any]]:
        key = keys.typed(key)
        others, memories = self._co_play(key, state, self._co_states(state, params))
        opponent_action = others[0] if len(others) == 1 else others
        observations, env_state, rewards, done, info = step(
            key, state.env, self.joint_action(action, opponent_action), params.game
        )
        after = SinglePlayerState(env_state, observations, memories, state.learning)
        if self.learning is not None:
            after = self.learning.learn(self, state, after, others, rewards, info)
        info = {
            **info,
            "final_obs": info["final_obs"][self.player],
            "opponent_action": opponent_action,
            "rewards": rewards,
            "obs_before": state.observations,
        }
        state = where(info["valid"], after, state)
        return observations[self.player], state, rewards[self.player], done, info

    def _co_play(
        self, key: jax.Array, state: SinglePlayerState, co_states: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Returns the co-players' actions and memories; each keeps its memory's key."""
        actions, memories = [], []
        for i, seat in enumerate(self.seats):
            before = state.memories[i]
            action, _, memory = self.co_players[i].policy(
                co_states[i],
                state.observations[seat],
                before.replace(key=keys.player(key, seat)),
            )
            actions.append(action)
            memories.append(memory.replace(key=before.key))
        return tuple(actions), tuple(memories)

    def _co_states(self, state: SinglePlayerState, params: SinglePlayerParams) -> Any:
        """Returns the training states with which the co-players act."""
        if self.learning is None:
            return params.co_players
        return self.learning.states(state.learning)

    def _end_inner_episode(
        self, boundary: jax.Array, state: SinglePlayerState, params: SinglePlayerParams
    ) -> SinglePlayerState:
        ended = tuple(
            agent.end_inner_episode(co_state, memory)
            for agent, co_state, memory in zip(
                self.co_players,
                self._co_states(state, params),
                state.memories,
                strict=True,
            )
        )
        return state.replace(memories=where(boundary, ended, state.memories))

    def _seat(self, player: int) -> int:
        checked_player(player, 1)
        return self.player


def _initial(agent: Any, key: jax.Array) -> tuple[Any, Any]:
    """Returns an agent's training state and its memory of one game."""
    return agent.make_initial_state(key, agent.init_hidden(1)[0])
