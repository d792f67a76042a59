"""All seats of a game as a PettingZoo parallel environment."""

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Num, PyTree
from pettingzoo import ParallelEnv

from paxenv import registry
from paxenv.adapters import horizons, infos, pictures
from paxenv.adapters.actions import checked_action
from paxenv.adapters.forking import StaysUnforked, check_not_forked
from paxenv.adapters.stream import Stream, as_observation, as_space, joined_space
from paxenv.types import Info, Picture


class PettingZooEnv(StaysUnforked, ParallelEnv):
    """A game in which the caller plays every seat, in dictionaries by agent.

    Agents are `"player_0"`, `"player_1"`, ... An episode is a trial, its trajectory
    that of `paxenv.replay(*env.native, seed, 0, actions)`. A `reset` without a seed
    opens the next trial of the seed, also in the middle of a trial. All agents have the
    same info, as in `GymnasiumEnv`, with `episode_metrics/...` at all times, 0 until
    the trial has ended: TorchRL reads the same entries at every step.

    Args:
        game_id: Id of the game, such as `"CoinGame"`.
        max_cycles: Another name of `num_inner_steps`.
        info: `"flat"` for infos without dictionaries inside, or `"nested"`.
        render_mode: None, `"rgb_array"` or `"ansi"`.
        **options: Options of the game; see `paxenv.make`.

    Raises:
        ValueError: If an argument is refused; the message names the value.
        RuntimeError: In a process forked from one that uses JAX; so do a reset, a
            step and a picture of an environment that was carried into one.
    """

    metadata = {"name": "paxenv", "is_parallelizable": True, **pictures.METADATA}

    def __init__(
        self,
        game_id: str,
        *,
        max_cycles: int | None = None,
        info: str = "flat",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_not_forked()
        self.render_mode = pictures.check_render_mode(render_mode)
        options = horizons.with_max_cycles(max_cycles, options)
        self.native = registry.make(game_id, **_without_opponent(options))
        self.metadata = {**self.metadata, "name": registry.find(game_id).id}
        env, params = self.native
        self.possible_agents = [f"player_{p}" for p in range(env.num_players)]
        self.agents: list[str] = []
        seats = range(env.num_players)
        self.observation_spaces = self._by_agent(
            [as_space(env.observation_space(p)) for p in seats]
        )
        self.action_spaces = self._by_agent(
            [as_space(env.action_space(p)) for p in seats]
        )
        self._stream = Stream(env, params, info, fixed=True)

    def observation_space(self, agent: str) -> gymnasium.Space:
        """Returns an agent's observation space, the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space:
        """Returns an agent's action space, the same object at every call."""
        return self.action_spaces[agent]

    @property
    def native_state(self) -> PyTree:
        """The native state, None before the first reset."""
        return self._stream.state

    @property
    def np_random_seed(self) -> int | None:
        """The seed of the trials, None before the first reset."""
        return self._stream.seed

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, PyTree], dict[str, Info]]:
        """Opens a trial: trial 0 of `seed`, or the next one of the last seed.

        The first reset without a seed draws one; `np_random_seed` tells which.
        """
        del options
        obs, info = self._stream.open(seed)
        self.agents = list(self.possible_agents)
        return self._observations(obs), self._infos(info)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, PyTree],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """Plays one joint action.

        Raises:
            ValueError: If an agent is missing or unknown, or its action is not in its
                action space; names the agent, and nothing changes.
            gymnasium.error.ResetNeeded: Before the first reset and after the end.
        """
        self._stream.check_open()
        joint_action = self._joint_action(actions)
        obs, rewards, terminated, truncated, info = self._stream.play(joint_action)
        if self._stream.over:
            self.agents = []
        return (
            self._observations(obs),
            self._by_agent([float(r) for r in self._per_player(rewards)]),
            dict.fromkeys(self.possible_agents, bool(terminated)),
            dict.fromkeys(self.possible_agents, bool(truncated)),
            self._infos(info),
        )

    @functools.cached_property
    def state_space(self) -> gymnasium.spaces.Box:
        """The space of `state`."""
        seats = range(self.native[0].num_players)
        return joined_space([self.native[0].observation_space(p) for p in seats])

    def state(self) -> Num[np.ndarray, " features"]:
        """Returns all players' observations in one vector, for centralised critics.

        The players' observations follow each other in player order, each flattened;
        an index is one number. Also after the end of a trial.

        Raises:
            gymnasium.error.ResetNeeded: Before the first reset.
        """
        parts = [np.ravel(leaf) for leaf in jax.tree.leaves(self._stream.obs)]
        return np.concatenate(parts).astype(self.state_space.dtype)

    def render(self) -> Picture | str | None:
        """Returns the game: an image, uint8 `[height, width, 3]`, or text."""
        frame = self._stream.frame()
        return pictures.picture(self.native[0], frame, self.render_mode, self)

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def _joint_action(self, actions: dict[str, Any]) -> Any:
        missing = [a for a in self.agents if actions.get(a) is None]
        surplus = [a for a in actions if a not in self.agents]
        if missing or surplus:
            raise ValueError(
                f"step needs one action for each of {self.agents}; "
                + (f"missing: {missing}" if missing else f"unknown: {surplus}")
            )
        checked = tuple(
            checked_action(actions[a], self.action_spaces[a], a) for a in self.agents
        )
        return checked[0] if self.native[0].num_players == 1 else checked

    def _per_player(self, values: Any) -> Any:
        return (values,) if self.native[0].num_players == 1 else values

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))

    def _observations(self, obs: Any) -> dict[str, Any]:
        return self._by_agent([as_observation(o) for o in self._per_player(obs)])

    def _infos(self, info: dict[str, Any]) -> dict[str, Any]:
        """Returns the same info for all agents, each with arrays of its own."""
        return {
            agent: infos.plain(jax.tree.map(np.copy, info))
            for agent in self.possible_agents
        }


def parallel_env(id: str, **kwargs: Any) -> PettingZooEnv:
    """Makes a game as a PettingZoo parallel environment.

    Args:
        id: Id of the game, such as `"CoinGame-v0"`.
        **kwargs: `max_cycles`, `info`, `render_mode` and options of the game.

    Example:
        >>> env = paxenv.parallel_env("IPD", max_cycles=10)
        >>> observations, infos = env.reset(seed=0)
        >>> while env.agents:
        ...     actions = {a: env.action_space(a).sample() for a in env.agents}
        ...     observations, rewards, terminated, truncated, infos = env.step(actions)
    """
    return PettingZooEnv(id, **kwargs)


def _without_opponent(options: dict[str, Any]) -> dict[str, Any]:
    for name in ("opponent", "player"):
        if options.get(name) is not None:
            raise ValueError(
                f"{name}={options[name]!r}: a parallel environment seats no opponent, "
                "every agent is played by the caller"
            )
    return {k: v for k, v in options.items() if k not in ("opponent", "player")}
