"""The base class of all games: the clock, the flags and the two views of a trial.

A trial is `num_outer_steps` inner episodes of `num_inner_steps` steps. A game writes
only its rules; everything about time is written here, once.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from paxenv import keys, scalars, spaces
from paxenv.metrics import Accumulator, reported_metrics
from paxenv.types import Count, Flag, Info, Picture, Rewards, Statistics

HORIZONS = ("truncate", "terminate")


class Frame(NamedTuple):
    """One moment of one game, for pictures; every leaf is on the host, unbatched.

    Attributes:
        state: The state after the last step.
        obs: The observations that belong to it.
        actions: The last joint action, None right after a reset.
        rewards: What it paid, None right after a reset.
        params: The game's numbers.
    """

    state: PyTree
    obs: PyTree
    actions: PyTree
    rewards: PyTree
    params: PyTree


class EnvState(struct.PyTreeNode):
    """Everything that changes while a trial is played.

    Attributes:
        inner_t: Steps taken in this inner episode; parked at `num_inner_steps` once
            it has ended and none was opened since. int32 scalar.
        outer_t: Inner episodes that have ended. int32 scalar.
        t: Valid steps of the trial. int32 scalar.
        game: The game's own state, `()` where there is none.
    """

    inner_t: Count
    outer_t: Count
    t: Count
    game: PyTree = ()


@dataclasses.dataclass(frozen=True)
class Environment(abc.ABC):
    """A game: static shapes and options here, numbers in params, the rest in state.

    Subclasses are frozen dataclasses with hashable fields, so that a game can be a
    static argument of `jax.jit`. With N players, observations, actions and rewards
    are tuples in player order; with one player they are bare values.

    Attributes:
        num_inner_steps: Steps of an inner episode, or with `random_ends` the most steps
            that it may have.
        num_outer_steps: Inner episodes of a trial.
        random_ends: Whether each step ends the inner episode with probability
            `1 - params.continuation_prob`.
        horizon: `"truncate"` if reaching the cap is a time limit, `"terminate"` if
            it is an end of the game.
    """

    num_inner_steps: int
    num_outer_steps: int = 1
    _: dataclasses.KW_ONLY
    random_ends: bool = False
    horizon: str = "truncate"

    name: ClassVar[str] = ""
    #: Whether experiments report the metrics of `step_game` by their means; a game
    #: whose accumulator has something better to say of them sets False.
    reports_metrics: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scalars.settle(self)
        for field in ("num_inner_steps", "num_outer_steps"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{field} must be a whole number >= 1, got {value!r}")
        if not isinstance(self.random_ends, bool):
            raise ValueError(f"random_ends must be a bool, got {self.random_ends!r}")
        if self.horizon not in HORIZONS:
            raise ValueError(f"horizon must be one of {HORIZONS}, got {self.horizon!r}")

    # What a game writes.

    @property
    @abc.abstractmethod
    def num_players(self) -> int:
        """The number of players."""

    @property
    @abc.abstractmethod
    def default_params(self) -> Any:
        """The numbers of the game as published."""

    @abc.abstractmethod
    def make_observation_space(self, player: int) -> gymnasium.Space:
        """Returns a new observation space for one player."""

    @abc.abstractmethod
    def make_action_space(self, player: int) -> gymnasium.Space:
        """Returns a new action space for one player."""

    def draw(self, key: Key[Array, ""]) -> PyTree:
        """Returns all random numbers of one step and of one reset, from `key`.

        `step_game` and `reset_game` must not use the same words. The default is for
        games without chance.
        """
        del key
        return ()

    @abc.abstractmethod
    def reset_game(self, draws: Any, params: PyTree) -> tuple[PyTree, PyTree]:
        """Opens an inner episode and returns (observations, game state)."""

    @abc.abstractmethod
    def step_game(
        self, draws: Any, game: Any, actions: Any, params: PyTree
    ) -> tuple[PyTree, PyTree, Rewards, Flag, Info]:
        """Plays one joint action by the rules.

        Returns:
            (observations, game state, rewards, terminated, metrics). `terminated` is
            a bool scalar: an end by the game's own rules, never by time. `metrics`
            maps names to numbers of this transition, which experiments report
            (`logged`); the names `reward_components` and `log` are lifted into `info`.
        """

    def metrics_init(self) -> Accumulator:
        """Returns empty statistics of one game of a trial."""
        return Accumulator(totals={}, carry=())

    def metrics_update(
        self, acc: Accumulator, obs_before: PyTree, actions: PyTree, info: Info
    ) -> Accumulator:
        """Returns `acc` with one step added; steps that are not valid add nothing."""
        del obs_before, actions, info
        return acc

    def metrics_final(self, acc: Accumulator) -> Statistics:
        """Returns named statistics; `acc.totals` may be a sum over games."""
        del acc
        return {}

    def logged(self, info: Info) -> dict[str, Any]:
        """Returns what experiments report of a step by its mean over an episode.

        That is what `step_game` gives under `log` and, if `reports_metrics`, its other
        metrics: scalars, and one number for each player, as a tuple or an array
        `[num_players]`. Arrays of other shapes stay in `info` alone.

        Args:
            info: That of one step of one game.
        """
        metrics = info["metrics"] if self.reports_metrics else {}
        reported = reported_metrics(metrics, self.num_players)
        return {**reported, **info.get("log", {})}

    def render_ansi(self, frame: Frame) -> str:
        """Returns one game as text."""
        raise NotImplementedError(f"{self.name} has no text picture")

    def render_rgb(self, frame: Frame) -> Picture:
        """Returns one game as a picture, uint8 `[height, width, 3]`."""
        raise NotImplementedError(f"{self.name} has no picture")

    # What every game has.

    @functools.cached_property
    def _observation_spaces(self) -> tuple[gymnasium.Space, ...]:
        return tuple(self.make_observation_space(p) for p in range(self.num_players))

    @functools.cached_property
    def _action_spaces(self) -> tuple[gymnasium.Space, ...]:
        return tuple(self.make_action_space(p) for p in range(self.num_players))

    def observation_space(self, player: int = 0) -> gymnasium.Space:
        """Returns a player's observation space, the same object at every call."""
        return self._observation_spaces[self._checked_player(player)]

    def action_space(self, player: int = 0) -> gymnasium.Space:
        """Returns a player's action space, the same object at every call."""
        return self._action_spaces[self._checked_player(player)]

    def params_axes(self, **axes: int) -> Any:
        """Returns `vmap` axes for params: those named are batched, the rest shared.

        Example:
            >>> env.params_axes(payoff_matrix=0)  # 20 payoff tables, one compile
        """
        names = [field.name for field in dataclasses.fields(self.default_params)]
        unknown = sorted(set(axes) - set(names))
        if unknown:
            raise ValueError(f"unknown params {unknown}: this game has {names}")
        return type(self.default_params)(**{name: axes.get(name) for name in names})

    def reset(self, key: PRNGKeyArray, params: PyTree) -> tuple[PyTree, EnvState]:
        """Opens a trial and returns (observations, state).

        Args:
            key: `keys.reset(episode_key)`, or any key; it is only folded.
            params: The game's numbers.
        """
        zero = jnp.zeros((), jnp.int32)
        obs, game = self.reset_game(self.draw(keys.typed(key)), params)
        return obs, EnvState(inner_t=zero, outer_t=zero, t=zero, game=game)

    def step(
        self, key: PRNGKeyArray, state: EnvState, actions: PyTree, params: PyTree
    ) -> tuple[PyTree, EnvState, Rewards, Flag, Info]:
        """Plays one joint action in the flat view: inner episodes follow each other.

        Does not reset after the trial: a step after its end changes nothing, pays 0,
        sets no flag, and returns an observation without meaning.

        Args:
            key: `keys.step(episode_key, state.t)`, or any key; it is only folded.
            state: The state before the step.
            actions: One action for each player. Whole-number floats are accepted by
                discrete games; a fractional one makes the step's rewards NaN.
            params: The game's numbers.

        Returns:
            (observations, state, rewards, done, info). `done` is true exactly once,
            at the end of the trial. `info` has a fixed structure: bool scalars
            `terminated` and `truncated` (how the inner episode ended, never both),
            `inner_done` (either), `valid` (this was a real step), then `final_obs`
            (the observations to which the transition led, which differ from those
            returned only where the next inner episode was opened), `metrics`, and where
            a game has them `reward_components` and `log`.

        Raises:
            ValueError: At trace time, if an action has the wrong shape.
        """
        key = keys.typed(key)
        draws = self.draw(key)
        obs, state, rewards, done, info = self._transition(
            key, draws, state, actions, params
        )
        if self.num_outer_steps > 1:
            opening, game = self.reset_game(draws, params)
            opened = state.replace(inner_t=jnp.zeros((), jnp.int32), game=game)
            boundary = info["inner_done"] & ~done
            obs = where(boundary, opening, obs)
            state = where(boundary, opened, state)
        return obs, state, rewards, done, info

    def begin_episode(
        self, key: PRNGKeyArray, state: EnvState, params: PyTree
    ) -> tuple[PyTree, EnvState]:
        """Opens the next inner episode in the nested view, unless the trial is over.

        Args:
            key: `keys.begin(episode_key, state.t)`.
            state: The state after an inner episode has ended.
            params: The game's numbers.

        Returns:
            (observations, state); after the trial's end the state is unchanged and
            the observations have no meaning.
        """
        obs, game = self.reset_game(self.draw(keys.typed(key)), params)
        opened = state.replace(inner_t=jnp.zeros((), jnp.int32), game=game)
        return obs, where(state.outer_t < self.num_outer_steps, opened, state)

    def step_inner(
        self, key: PRNGKeyArray, state: EnvState, actions: PyTree, params: PyTree
    ) -> tuple[PyTree, EnvState, Rewards, Flag, Info]:
        """Plays one joint action in the nested view: never crosses a boundary.

        As `step`, but after an inner episode has ended it is a no-op until
        `begin_episode` opens the next one.
        """
        key = keys.typed(key)
        return self._transition(key, self.draw(key), state, actions, params)

    def _transition(
        self, key: jax.Array, draws: Any, state: EnvState, actions: Any, params: PyTree
    ) -> tuple[Any, EnvState, Any, jax.Array, dict[str, Any]]:
        actions, whole = self._checked_actions(actions)
        obs, game, rewards, terminated, metrics = self.step_game(
            draws, state.game, actions, params
        )
        valid = state.inner_t < self.num_inner_steps
        inner_t = state.inner_t + 1
        if self.random_ends:
            chance = keys.uniform(keys.words(keys.random_end(key), 1)[0])
            terminated = terminated | (chance >= params.continuation_prob)
        at_cap = inner_t == self.num_inner_steps
        if self.horizon == "terminate":
            terminated, at_cap = terminated | at_cap, jnp.zeros((), bool)
        terminated = terminated & valid
        truncated = at_cap & ~terminated & valid
        inner_done = terminated | truncated
        after = EnvState(
            inner_t=jnp.where(inner_done, self.num_inner_steps, inner_t),
            outer_t=state.outer_t + inner_done,
            t=state.t + 1,
            game=game,
        )
        done = inner_done & (after.outer_t == self.num_outer_steps)
        rewards = jax.tree.map(
            lambda r: jnp.where(valid, _default_float(r, whole), 0.0), rewards
        )
        metrics = jax.tree.map(
            lambda m: jnp.where(valid, m, jnp.zeros_like(m)), metrics
        )
        info = {
            "terminated": terminated,
            "truncated": truncated,
            "inner_done": inner_done,
            "valid": valid,
            "final_obs": obs,
            **{k: metrics.pop(k) for k in ("reward_components", "log") if k in metrics},
            "metrics": metrics,
        }
        return obs, where(valid, after, state), rewards, done, info

    def _checked_player(self, player: int) -> int:
        return checked_player(player, self.num_players)

    def _checked_actions(self, actions: Any) -> tuple[Any, jax.Array | bool]:
        """Returns the actions in their spaces' dtypes, and whether all are whole."""
        if self.num_players == 1:
            return _checked_action(0, actions, self.action_space(0))
        if not isinstance(actions, tuple | list) or len(actions) != self.num_players:
            raise ValueError(
                f"expected a tuple of {self.num_players} actions in player order, "
                f"got {type(actions).__name__}"
                + (f" of {len(actions)}" if isinstance(actions, tuple | list) else "")
            )
        checked, whole = [], True
        for player, action in enumerate(actions):
            action, is_whole = _checked_action(
                player, action, self.action_space(player)
            )
            checked.append(action)
            whole = is_whole if whole is True else whole & is_whole
        return tuple(checked), whole


def checked_player(player: int, num_players: int) -> int:
    """Returns the number of a player.

    Raises:
        TypeError: If it is no whole number, such as params: the spaces of a game do not
            depend on them.
        ValueError: If there is no such player.
    """
    if isinstance(player, bool) or not isinstance(player, int | np.integer):
        raise TypeError(
            f"expected the number of a player, got {type(player).__name__}: spaces do "
            "not depend on params, write env.observation_space(0), env.action_space(0)"
        )
    if not 0 <= player < num_players:
        raise ValueError(f"player must be in [0, {num_players}), got {player!r}")
    return int(player)


def native(env: Any) -> Any:
    """Returns a native game.

    Raises:
        ValueError: If it is none; the message says how to make one of it.
    """
    if hasattr(env, "num_players"):
        return env
    name = type(env).__name__
    if hasattr(env, "step_env") and hasattr(env, "reset_env"):
        raise ValueError(
            f"{name} is an environment in the manner of gymnax: "
            "env, params = paxenv.from_gymnax(env) makes a game of one player of it"
        )
    raise ValueError(
        f"expected a game, such as env of env, params = paxenv.make(...), got {name}"
    )


def where(condition: Flag | bool, x: PyTree, y: PyTree) -> PyTree:
    """Returns the pytree `x` where a bool scalar holds and the pytree `y` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), x, y)


def _checked_action(
    player: int, action: Any, space: gymnasium.Space
) -> tuple[jax.Array, jax.Array | bool]:
    action = jnp.asarray(action)
    if action.shape != space.shape:
        raise ValueError(
            f"player {player}'s action must have shape {space.shape}, got "
            f"{action.shape}: one game takes one action, use jax.vmap for many"
        )
    if not isinstance(space, gymnasium.spaces.Discrete):
        return action.astype(spaces.dtype_of(space)), True
    index = action.astype(jnp.int32)
    if jnp.issubdtype(action.dtype, jnp.floating):
        return index, action == index
    return index, True


def _default_float(reward: jax.Array, whole: jax.Array | bool) -> jax.Array:
    """Returns a reward as JAX's default float, NaN where an action was fractional."""
    reward = jnp.asarray(reward, jnp.result_type(float))
    return reward if whole is True else jnp.where(whole, reward, jnp.nan)
