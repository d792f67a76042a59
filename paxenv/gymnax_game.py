"""Environments in the manner of gymnax as native games of one player."""

import copy
import dataclasses
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, Num, PyTree

from paxenv import keys, spaces
from paxenv.environment import Environment
from paxenv.game import game
from paxenv.types import Flag, Info

LIMIT = "max_steps_in_episode"
COMPOSITE = (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)


@game
class GymnaxGame(Environment):
    """A game whose rules are the `reset_env` and `step_env` of another object.

    Make one by `from_gymnax`, which says what is taken over and what is not.

    Attributes:
        source: The environment.
        observations: What is seen.
        actions: What can be done.
        dtypes: Names of the dtypes of the leaves of its state.
    """

    _: dataclasses.KW_ONLY
    source: Any
    observations: gymnasium.Space = dataclasses.field(hash=False)
    actions: gymnasium.Space = dataclasses.field(hash=False)
    dtypes: tuple[str, ...]

    num_players = 1  # pyright: ignore

    @property
    def name(self) -> str:  # pyright: ignore
        """What the environment calls itself."""
        return str(getattr(self.source, "name", type(self.source).__name__))

    @property
    def default_params(self) -> PyTree:
        """The environment's default numbers, as arrays."""
        return _arrays(getattr(self.source, "default_params", ()))

    def make_observation_space(self, player: int) -> gymnasium.Space:
        del player
        return copy.deepcopy(self.observations)

    def make_action_space(self, player: int) -> gymnasium.Space:
        del player
        return copy.deepcopy(self.actions)

    def draw(self, key: Key[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
        """Returns one key of the game's own for its opening, and one for a step."""
        return keys.own(key, 0), keys.own(key, 1)

    def reset_game(self, draws: Any, params: PyTree) -> tuple[PyTree, PyTree]:
        obs, state = self.source.reset_env(draws[0], params)
        return self._seen(obs), self._kept(state)

    def step_game(
        self, draws: Any, game: PyTree, actions: PyTree, params: PyTree
    ) -> tuple[PyTree, PyTree, Num[Array, ""], Flag, Info]:
        obs, state, reward, ended = self.source.step_env(
            draws[1], game, actions, params
        )[:4]
        ended = jnp.reshape(ended, ()).astype(bool)
        if not hasattr(self.source, "is_truncated") and hasattr(params, LIMIT):
            # Before gymnax 1.0 this one flag was up at the time limit too.
            ended = ended & (state.time < getattr(params, LIMIT))
        return self._seen(obs), self._kept(state), jnp.reshape(reward, ()), ended, {}

    def _seen(self, obs: Any) -> Any:
        """Returns an observation in the dtype of its space."""
        if isinstance(self.observations, COMPOSITE):
            return jax.tree.map(_strong, obs)
        return _strong(jnp.asarray(obs), spaces.dtype_of(self.observations))

    def _kept(self, state: Any) -> Any:
        """Returns a state in the dtypes that a step gives: a scan needs that."""
        leaves, tree = jax.tree.flatten(state)
        cast = [_strong(x, d) for x, d in zip(leaves, self.dtypes, strict=True)]
        return jax.tree.unflatten(tree, cast)


def from_gymnax(
    env: Any, params: PyTree = None, *, num_inner_steps: int | None = None
) -> tuple[GymnaxGame, PyTree]:
    """Makes a native game of one player from an environment of gymnax, or one like it.

    What is needed of `env` are `reset_env(key, params)`, `step_env(key, state, action,
    params)`, `observation_space(params)` and `action_space(params)`. Its `step`, which
    opens the next episode by itself, and its info are not used.

    An end by `step_env` terminates an episode. The time limit truncates it: after
    `num_inner_steps` steps, which are `params.max_steps_in_episode` where params have
    it. Environments of gymnax before 1.0 raise one flag for both, so an episode that
    ends by the rules in the very last step counts as truncated there. The limit is
    fixed when the game is made; other numbers of `params` may be varied and vmapped.

    Args:
        env: The environment. Two games of one object are equal and share a compile.
        params: Its numbers; None: `env.default_params`.
        num_inner_steps: The time limit, if `params` have none or a later one.

    Returns:
        (game, params), as `paxenv.make` does, with all numbers as arrays.

    Raises:
        ValueError: If `env` is not of this kind, or there is no time limit.

    Example:
        >>> env, params = paxenv.from_gymnax(gymnax.environments.CartPole())
        >>> train_ppo(env, params, runner_config)
    """
    needed = ("reset_env", "step_env", "observation_space", "action_space")
    missing = [name for name in needed if not callable(getattr(env, name, None))]
    if missing:
        raise ValueError(
            f"{type(env).__name__} is not like an environment of gymnax: it has no "
            f"{', '.join(missing)}"
        )
    if params is None:
        params = getattr(env, "default_params", ())
    actions = _space(env.action_space(params))
    numbers = _arrays(params)
    made = GymnaxGame(
        _time_limit(env, params, num_inner_steps),
        source=env,
        observations=_space(env.observation_space(params)),
        actions=actions,
        dtypes=_dtypes(env, numbers, actions),
    )
    return made, numbers


def _time_limit(env: Any, params: Any, given: int | None) -> int:
    own = getattr(params, LIMIT, None)
    own = None if own is None else int(own)
    if given is None and own is None:
        raise ValueError(
            f"{type(env).__name__} has no params.{LIMIT}: say after how many steps an "
            "episode is cut, from_gymnax(env, params, num_inner_steps=...)"
        )
    if given is not None and own is not None and given > own:
        raise ValueError(
            f"num_inner_steps={given} is later than params.{LIMIT}={own}: raise that"
        )
    return own if given is None else given  # type: ignore[return-value]


def _dtypes(env: Any, params: Any, actions: gymnasium.Space) -> tuple[str, ...]:
    """Returns the dtypes of the state that a step leads to, without a computation."""

    def stepped() -> Any:
        key = jax.random.key(0)
        state = jax.tree.map(_strong, env.reset_env(key, params)[1])
        action = jnp.zeros(actions.shape or (), spaces.dtype_of(actions))
        return env.step_env(key, state, action, params)[1]

    return tuple(str(leaf.dtype) for leaf in jax.tree.leaves(jax.eval_shape(stepped)))


def _space(space: Any) -> gymnasium.Space:
    """Returns a space of gymnax, or one like it, as one of Gymnasium."""
    if isinstance(space, gymnasium.Space):
        return space
    if hasattr(space, "spaces"):
        parts = space.spaces
        if isinstance(parts, dict):
            return gymnasium.spaces.Dict({k: _space(s) for k, s in parts.items()})
        return gymnasium.spaces.Tuple([_space(s) for s in parts])
    if hasattr(space, "low"):
        dtype = np.dtype(space.dtype)
        low, high = (
            np.broadcast_to(np.asarray(end), space.shape).astype(dtype)
            for end in (space.low, space.high)
        )
        return gymnasium.spaces.Box(low, high, tuple(space.shape), dtype.type)
    if hasattr(space, "n"):
        return gymnasium.spaces.Discrete(int(space.n), dtype=np.int32)
    raise ValueError(f"the space {space!r} has neither n, nor low and high, nor spaces")


def _arrays(params: Any) -> Any:
    return jax.tree.map(_strong, params)


def _strong(value: Any, dtype: Any = None) -> jax.Array:
    """Returns an array of its own dtype or another, never one of a weak type."""
    array = jnp.asarray(value)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    return jax.lax.convert_element_type(array, array.dtype if dtype is None else dtype)
