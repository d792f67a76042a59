"""The length of an episode, in the words of Gymnasium and PettingZoo."""

import copy
from typing import Any

from gymnasium.envs.registration import EnvSpec

from paxenv import registry, scalars


def with_max_episode_steps(
    game_id: str, steps: int | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Returns a game's options under which an episode has at most `steps` steps.

    An episode is a trial, so all its inner episodes share the steps.

    Raises:
        ValueError: If the inner episodes cannot share them, or `num_inner_steps` says
            otherwise; the message names both.
    """
    if steps is None:
        return options
    env, _ = registry.make(game_id, **options)
    outer = env.num_outer_steps
    steps = scalars.whole(steps)
    whole = isinstance(steps, int) and not isinstance(steps, bool) and steps >= outer
    if not whole or steps % outer:
        raise ValueError(
            f"max_episode_steps must be a multiple of the {outer} inner episodes of a "
            f"trial, got {steps!r}"
            if outer > 1
            else f"max_episode_steps must be a whole number >= 1, got {steps!r}"
        )
    return _agreed("max_episode_steps", steps, outer, options)


def with_max_cycles(cycles: int | None, options: dict[str, Any]) -> dict[str, Any]:
    """Returns a game's options under which `num_inner_steps` is `cycles`.

    Raises:
        ValueError: If `num_inner_steps` is another number; the message names both.
    """
    return options if cycles is None else _agreed("max_cycles", cycles, 1, options)


class HasHorizon:
    """An environment of Gymnasium whose spec states its time limit."""

    native: tuple[Any, Any]
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """Gymnasium's spec, with the number of steps of the time limit."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = _with_horizon(spec, self.native[0])


def _with_horizon(spec: EnvSpec | None, env: Any) -> EnvSpec | None:
    """Returns a copy of a Gymnasium spec that states the time limit.

    A game whose horizon is an end of its own has no such number. An environment that is
    made again from the spec has a `TimeLimit` that truncates at the same step.
    """
    if spec is None or env.horizon != "truncate" or spec.max_episode_steps is not None:
        return spec
    spec = copy.copy(spec)
    spec.max_episode_steps = env.num_inner_steps * env.num_outer_steps
    return spec


def _agreed(
    name: str, steps: Any, num_outer_steps: int, options: dict[str, Any]
) -> dict[str, Any]:
    inner = steps if num_outer_steps == 1 else steps // num_outer_steps
    given = options.get("num_inner_steps")
    if given not in (None, inner):
        raise ValueError(
            f"{name}={steps!r} and num_inner_steps={given!r} differ: give one of them"
        )
    return {**options, "num_inner_steps": inner}
