"""How co-players respond to one forced action: play with it and without it."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from paxenv import COOPERATE
from paxenv_agents import structure
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.engine.probed import Probed
from runners.config import ConfigError
from runners.engine.experiment import Experiment, RunState, rollout
from runners.engine.lanes import map_axis
from runners.engine.program import evaluation_keys, initial_state, with_agents
from runners.planning.plan import Plan
from runners.session import models


@dataclasses.dataclass(frozen=True)
class Response:
    """Rates of action 0 (in dilemmas: cooperation) around one forced action.

    Attributes:
        offsets: Steps after the forced one, `[window]`; below 0 they come before it.
        forced: With the forced action, `[seeds, window, players]`.
        free: Without it, with the same random numbers.
        at: The forced step, from 0.
    """

    offsets: np.ndarray
    forced: np.ndarray
    free: np.ndarray
    at: int

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data: means over seeds, by player."""
        rates = {"forced": self.forced.mean(0), "free": self.free.mean(0)}
        return {
            "at": self.at,
            "offsets": self.offsets.tolist(),
            **{
                name: {f"player_{p + 1}": r[:, p].tolist() for p in range(r.shape[1])}
                for name, r in rates.items()
            },
        }


def probe(plan: Plan, *, player: int, at: int, action: int, window: int) -> Response:
    """Plays every game twice, with and without one forced action.

    Nobody learns. Both times the same random numbers are drawn, so that play is equal
    up to the forced step.

    Args:
        plan: An evaluation; its trials have one inner episode.
        player: The forced player, from 1.
        at: The step of the forced action, from 0.
        action: The forced action.
        window: Steps before and after it that are returned, as far as the episode has
            them.

    Raises:
        ConfigError: If there is no such player or step, or the action does not fit.
    """
    check(plan, player=player, at=at)
    env = plan.env
    forced = _rates(plan, functools.partial(_forced, player - 1, at, action))
    free = _rates(plan, lambda slot: Probed.of(slot.agent))
    steps = slice(max(at - window, 0), at + window + 1)
    offsets = np.arange(env.num_inner_steps)[steps] - at
    return Response(offsets, forced[:, steps], free[:, steps], at)


def check(plan: Plan, *, player: int, at: int) -> None:
    """Raises ConfigError if a plan has no such player or step, or several episodes."""
    env = plan.env
    if env.num_players == 1:
        raise ConfigError(
            f"a probe shows how others answer, and {plan.game.id} has one player"
        )
    if not 1 <= player <= env.num_players:
        raise ConfigError(
            f"player must be in 1 to {env.num_players} of {plan.game.id}, got {player}"
        )
    if not 0 <= at < env.num_inner_steps:
        raise ConfigError(
            f"the step must be in [0, {env.num_inner_steps}), the inner episode, got "
            f"{at}"
        )
    if env.num_outer_steps != 1:
        raise ConfigError(
            f"a probe is of one inner episode: write num_outer_steps=1 instead of "
            f"{env.num_outer_steps}"
        )


def _forced(player: int, at: int, action: int, slot: Slot) -> Probed:
    if player not in slot.players:
        return Probed.of(slot.agent)
    if len(slot.players) > 1:
        raise ConfigError(
            f"player {player + 1} shares its agent with players "
            f"{[p + 1 for p in slot.players]}: give it one of its own"
        )
    try:
        return Probed.of(slot.agent, at=at, action=action)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _rates(plan: Plan, probed: Any) -> np.ndarray:
    """Returns rates of action 0, `[seeds, steps, players]`."""
    slots = tuple(
        dataclasses.replace(slot, agent=probed(slot), clock="trial", per_opponent=False)
        for slot in plan.experiment.slots
    )
    experiment = dataclasses.replace(plan.experiment, slots=slots)
    config = plan.config
    keys = evaluation_keys(config.seed, config.num_seeds)
    state = initial_state(experiment, keys, plan.params)
    state = with_agents(state, models.load_models(plan))
    return np.asarray(_cooperation(experiment, state))


@structure.jit("experiment")
def _cooperation(experiment: Experiment, state: RunState) -> jax.Array:
    def one(state: RunState) -> jax.Array:
        played, _ = rollout(experiment, state)
        return _of_players(experiment, played.play.experiences)

    return map_axis(one, (0,), state.iteration.shape[0])(state)


def _of_players(experiment: Experiment, experiences: Any) -> jax.Array:
    rates: dict[int, jax.Array] = {}
    games = experiment.num_games
    for slot, experience in zip(experiment.slots, experiences, strict=True):
        # [O, T, S * E]
        chose = experience.sample.actions == COOPERATE
        for seat, p in enumerate(slot.players):
            own = chose[..., seat * games : (seat + 1) * games]
            rates[p] = own.mean(axis=(0, 2))
    return jax.numpy.stack([rates[p] for p in sorted(rates)], axis=-1)
