"""The public conformance test of games."""

import copy
import dataclasses
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from paxenv import keys, spaces
from paxenv.environment import Environment, native
from paxenv.single_player import SinglePlayer
from paxenv.wording import counted

#: What to do about a weak type.
CURE = (
    ". A weak type comes from a Python number: give every array its dtype, as in "
    "jnp.asarray(0.5, jnp.float32) or jnp.where(condition, x, 0).astype(jnp.float32)"
)
#: Steps that are taken after the end of the trial.
OVERTIME = 3
#: Tolerances between ways to compute the same step.
RTOL, ATOL = 1e-5, 1e-6

_FLAGS = ("terminated", "truncated", "inner_done", "valid")
_COMPOSITE = (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)


class EnvCheckError(AssertionError):
    """A game breaks a promise; the message names it."""


class _Step(NamedTuple):
    """What one step returned, or with a leading axis `[T]`, each of T steps."""

    obs: Any
    state: Any
    rewards: Any
    done: Any
    info: Any


class _Trial(NamedTuple):
    """One trial and a few steps more, on the host.

    Attributes:
        opening: (observations, state) of the reset.
        flat: What `step` returned, `[T, ...]`.
        inner: What `step_inner` returned from the same states, `[T, ...]`.
        opened: (observations, state) of `begin_episode` after each `step_inner`.
    """

    opening: Any
    flat: _Step
    inner: _Step
    opened: Any


def check_env(
    env: Environment | SinglePlayer, params: PyTree = None, *, seed: int = 0
) -> None:
    """Plays one whole trial with random actions and checks every promise of a game.

    The promises: the game is hashable and equal to one built alike; its params are
    arrays; values are in their spaces, in the spaces' dtypes; reset and step agree in
    structure, shape, dtype and weak type, so that `jax.lax.scan` works; eager, jitted
    and vmapped steps agree; an inner episode never terminates and truncates at once;
    `done` comes exactly once, and later steps change nothing and pay 0; `final_obs`
    is what a transition led to; the flat and the nested view agree; statistics can be
    scanned.

    Works for games of any number of players and for `SinglePlayer`. Build the game
    with few steps, since all `num_inner_steps * num_outer_steps` are played.

    Args:
        env: The game.
        params: Its numbers; None: `env.default_params`.
        seed: Seed of the lane and of the actions.

    Raises:
        EnvCheckError: If a promise is broken.
        ValueError: If `env` is no native game at all.
    """
    game = native(env)
    params = game.default_params if params is None else params
    _check_static(env)
    _check_params(params)
    _check_spaces(env)
    actions = _random_actions(env, seed)
    _check_avals(env, params, jax.tree.map(lambda a: a[0], actions))
    episode_key = keys.episode(keys.lane(seed), 0)
    trial = _host(jax.jit(_play, static_argnums=0)(env, params, episode_key, actions))
    _check_values(env, trial)
    _check_clock(env, trial.flat)
    _check_overtime(trial)
    _check_final_obs(trial)
    _check_views(trial)
    _check_eager_and_vmap(env, params, episode_key, actions, trial)


def _check_static(env: Any) -> None:
    if not dataclasses.is_dataclass(env):
        raise EnvCheckError(f"{type(env).__name__} is not a frozen dataclass")
    again = dataclasses.replace(env)  # type: ignore[type-var]
    try:
        same = again == env and hash(again) == hash(env)
    except TypeError as error:
        raise EnvCheckError(f"the game is not hashable: {error}") from error
    if not same:
        raise EnvCheckError("a game built with the same options is not equal to it")


def _check_params(params: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not isinstance(leaf, jax.Array):
            raise EnvCheckError(
                f"params{jax.tree_util.keystr(path)} must be an array, got {leaf!r}"
            )


def _check_spaces(env: Any) -> None:
    for p in range(env.num_players):
        for kind in ("observation_space", "action_space"):
            space = getattr(env, kind)(p)
            if not isinstance(space, gymnasium.Space):
                raise EnvCheckError(f"{kind}({p}) is not a gymnasium.Space: {space!r}")
            if getattr(env, kind)(p) is not space:
                raise EnvCheckError(f"{kind}({p}) is a new object at every call")
        space = env.action_space(p)
        if isinstance(space, gymnasium.spaces.Box) and not space.is_bounded():
            raise EnvCheckError(f"action_space({p}) has infinite bounds: {space}")


def _random_actions(env: Any, seed: int) -> Any:
    """Returns joint actions `[T, ...]` for one trial and its overtime."""
    length = env.num_inner_steps * env.num_outer_steps + OVERTIME
    per_player = []
    for p in range(env.num_players):
        space = copy.deepcopy(env.action_space(p))
        space.seed(seed + p)
        per_player.append(
            jnp.asarray(np.stack([space.sample() for _ in range(length)]))
        )
    return per_player[0] if env.num_players == 1 else tuple(per_player)


def _check_avals(env: Any, params: Any, actions: Any) -> None:
    key = jax.random.key(0)
    opening = jax.eval_shape(env.reset, key, params)
    obs, state = opening
    raw = jax.eval_shape(env.reset, jax.random.PRNGKey(0), params)
    _same_avals("reset with a raw key", raw, "reset", opening)
    opened = jax.eval_shape(env.begin_episode, key, state, params)
    _same_avals("begin_episode", opened, "reset", opening)
    for name in ("step", "step_inner"):
        step = _Step(*jax.eval_shape(getattr(env, name), key, state, actions, params))
        _check_step_avals(name, step, obs, state, env.num_players)
        acc = jax.eval_shape(env.metrics_init)
        after = jax.eval_shape(env.metrics_update, acc, obs, actions, step.info)
        _same_avals("metrics_update", after, "metrics_init", acc)
        jax.eval_shape(env.metrics_final, acc)


def _check_step_avals(
    name: str, step: _Step, obs: Any, state: Any, num_players: int
) -> None:
    _same_avals(f"the observations of {name}", step.obs, "reset", obs)
    _same_avals(f"the state of {name}", step.state, "reset", state)
    missing = {*_FLAGS, "final_obs", "metrics"} - set(step.info)
    if missing:
        raise EnvCheckError(f"the info of {name} lacks {sorted(missing)}")
    _same_avals("info['final_obs']", step.info["final_obs"], "reset", obs)
    scalar = jax.ShapeDtypeStruct((), jnp.bool_)
    _same_avals("done", step.done, "a bool scalar", scalar)
    for flag in _FLAGS:
        _same_avals(f"info[{flag!r}]", step.info[flag], "a bool scalar", scalar)
    reward = jax.ShapeDtypeStruct((), jnp.result_type(float))
    rewards = reward if num_players == 1 else (reward,) * num_players
    _same_avals(f"the rewards of {name}", step.rewards, "JAX's float scalar", rewards)


def _same_avals(what: str, got: Any, whose: str, expected: Any) -> None:
    """Raises unless two trees agree in structure, shape, dtype and weak type."""
    if jax.tree.structure(got) != jax.tree.structure(expected):
        raise EnvCheckError(
            f"{what} and {whose} differ in structure: {jax.tree.structure(got)} and "
            f"{jax.tree.structure(expected)}"
        )
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        if _aval(a) != _aval(b):
            cure = CURE if _aval(a)[:2] == _aval(b)[:2] else ""
            raise EnvCheckError(
                f"{what}{jax.tree_util.keystr(path)} differs from {whose}: "
                f"{_aval(a)} and {_aval(b)} (shape, dtype, weak type){cure}"
            )


def _aval(x: Any) -> tuple[Any, Any, bool]:
    return x.shape, x.dtype, bool(getattr(x, "weak_type", False))


def _play(env: Any, params: Any, episode_key: jax.Array, actions: Any) -> _Trial:
    def advance(state: Any, joint_action: Any) -> Any:
        key = keys.step(episode_key, state.t)
        flat = _Step(*env.step(key, state, joint_action, params))
        inner = _Step(*env.step_inner(key, state, joint_action, params))
        begin_key = keys.begin(episode_key, inner.state.t)
        opened = env.begin_episode(begin_key, inner.state, params)
        return flat.state, (flat, inner, opened)

    opening = env.reset(keys.reset(episode_key), params)
    return _Trial(opening, *jax.lax.scan(advance, opening[1], actions)[1])


def _first_step(env: Any, params: Any, episode_key: jax.Array, actions: Any) -> _Step:
    _, state = env.reset(keys.reset(episode_key), params)
    key = keys.step(episode_key, state.t)
    return _Step(*env.step(key, state, actions, params))


def _host(tree: Any) -> Any:
    """Returns a tree as NumPy arrays, with keys as their data."""
    return jax.tree.map(
        lambda x: np.asarray(
            jax.random.key_data(x)
            if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
            else x
        ),
        tree,
    )


def _check_values(env: Any, trial: _Trial) -> None:
    for p in range(env.num_players):
        space = env.observation_space(p)

        def seat(values: Any, p: int = p) -> Any:
            return values if env.num_players == 1 else values[p]

        _check_member(
            f"player {p}'s opening observation", seat(trial.opening[0]), space
        )
        observations = (seat(trial.flat.obs), seat(trial.flat.info["final_obs"]))
        for name, values in zip(
            ("observation", "final_obs"), observations, strict=True
        ):
            for t in range(len(trial.flat.done)):
                value = jax.tree.map(lambda x, t=t: x[t], values)
                _check_member(f"player {p}'s {name} of step {t}", value, space)
        if not np.isfinite(seat(trial.flat.rewards)).all():
            raise EnvCheckError(f"player {p}'s rewards are not finite")


def _check_member(what: str, value: Any, space: gymnasium.Space) -> None:
    if not isinstance(space, _COMPOSITE):
        dtype = spaces.dtype_of(space)
        if value.dtype != dtype:
            raise EnvCheckError(
                f"{what} has dtype {value.dtype}, not its space's {dtype}"
            )
        value = np.asarray(value)
    if not space.contains(value):
        raise EnvCheckError(f"{what} is not in {space}: {value}")


def _check_clock(env: Any, flat: _Step) -> None:
    terminated, truncated, inner_done, valid = (flat.info[flag] for flag in _FLAGS)
    if (terminated & truncated).any():
        raise EnvCheckError("a step both terminated and truncated its inner episode")
    if (inner_done != (terminated | truncated)).any():
        raise EnvCheckError("inner_done is not terminated or truncated")
    if (flat.done & ~inner_done).any() or (inner_done & ~valid).any():
        raise EnvCheckError("a flag is up on a step that ended nothing")
    if flat.done.sum() != 1:
        raise EnvCheckError(
            f"done must be true exactly once in a trial, was {flat.done.sum()} times"
        )
    if inner_done.sum() != env.num_outer_steps:
        raise EnvCheckError(
            f"a trial must have "
            f"{counted(env.num_outer_steps, 'inner episode')}, had "
            f"{inner_done.sum()}"
        )
    if (flat.state.outer_t != np.cumsum(inner_done)).any():
        raise EnvCheckError("outer_t does not count the inner episodes that ended")
    if (flat.state.t != np.cumsum(valid)).any():
        raise EnvCheckError("t does not count the valid steps of the trial")


def _check_overtime(trial: _Trial) -> None:
    end = int(np.argmax(trial.flat.done))
    last = jax.tree.map(lambda x: x[end], trial.flat.state)
    for t in range(end + 1, len(trial.flat.done)):
        late = jax.tree.map(lambda x, t=t: x[t], trial.flat)
        if any(late.info[flag] for flag in _FLAGS) or late.done:
            raise EnvCheckError("a step after the end of the trial raised a flag")
        if any(reward != 0 for reward in jax.tree.leaves(late.rewards)):
            raise EnvCheckError(f"a step after the end paid {late.rewards}, not 0")
        _close("the state after the end of the trial", late.state, last)


def _check_final_obs(trial: _Trial) -> None:
    boundary = trial.flat.info["inner_done"] & ~trial.flat.done
    obs, final = trial.flat.obs, trial.flat.info["final_obs"]
    _close(
        "final_obs away from boundaries", _rows(final, ~boundary), _rows(obs, ~boundary)
    )


def _check_views(trial: _Trial) -> None:
    flat, inner, valid = trial.flat, trial.inner, trial.flat.info["valid"]
    _close("the nested view's info", _rows(inner.info, valid), _rows(flat.info, valid))
    _close("the nested view's rewards", inner.rewards, flat.rewards)
    _close("the nested view's done", inner.done, flat.done)
    _close(
        "the nested view's obs",
        _rows(inner.obs, valid),
        _rows(inner.info, valid)["final_obs"],
    )
    going_on = ~flat.info["inner_done"]
    _close(
        "the nested view's state",
        _rows(inner.state, going_on),
        _rows(flat.state, going_on),
    )
    boundary = flat.info["inner_done"] & ~flat.done
    _close(
        "begin_episode",
        _rows(trial.opened, boundary),
        _rows((flat.obs, flat.state), boundary),
    )
    _close(
        "the state that begin_episode returns after the end",
        _rows(trial.opened[1], flat.done),
        _rows(flat.state, flat.done),
    )


def _check_eager_and_vmap(
    env: Any, params: Any, episode_key: jax.Array, actions: Any, trial: _Trial
) -> None:
    first = jax.tree.map(lambda x: x[0], trial.flat)
    joint_action = jax.tree.map(lambda a: a[0], actions)
    eager = _first_step(env, params, episode_key, joint_action)
    _close("the first step without jit", _host(eager), first)
    episodes = jnp.stack([episode_key, jax.random.fold_in(episode_key, 1)])
    batched = jax.jit(jax.vmap(_first_step, (None, None, 0, None)), static_argnums=0)
    lanes = _host(batched(env, params, episodes, joint_action))
    _close("the first step under vmap", jax.tree.map(lambda x: x[0], lanes), first)


def _rows(tree: Any, mask: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[mask], tree)


def _close(what: str, got: Any, expected: Any) -> None:
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        if not np.allclose(a, b, rtol=RTOL, atol=ATOL, equal_nan=True):
            raise EnvCheckError(
                f"{what}{jax.tree_util.keystr(path)} does not agree: "
                f"got {a}, expected {b}"
            )
