"""One learner in games of one player: the common part of all views of training."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from paxenv import options
from paxenv.environment import Environment
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.types import TrainingState
from runners.engine.experiment import Experiment
from runners.engine.program import StagedProgram
from runners.session import progress
from runners.session.session import Session
from runners.storage.checkpoints import settings, tree
from runners.storage.checkpoints.files import (
    CheckpointError,
    DamagedError,
    NoCheckpointError,
    read_record,
)

#: The learner's place in checkpoints: of most programs, and of replay on the host.
PLACES = ("outer/agents/0/", "run/outer/agents/0/")

logger = logging.getLogger(__name__)


def experiment_of(
    agent: Agent, env: Environment, num_games: int, **more: Any
) -> Experiment:
    """Returns the endless play of a learner in games of one player.

    Args:
        agent: The learner.
        env: The game.
        num_games: Games at once.
        **more: Other fields of the experiment.

    Raises:
        ValueError: If a rollout does not split into minibatches.
    """
    steps = agent.rollout_length(num_games)
    agent.check_batch(steps, num_games)
    return Experiment(
        env=env, slots=(Slot(agent),), num_games=num_games, num_steps=steps, **more
    )


def shown(
    agent: Agent, env: Environment, total: int, *, asked: bool
) -> contextlib.AbstractContextManager[progress.Line]:
    """Shows a line of progress, as `progress.shown`."""
    game = getattr(env, "name", type(env).__name__)
    return progress.shown(f"{type(agent).__name__} in {game}", total, asked=asked)


def with_hyper(
    agent: Agent, state: TrainingState, name: str, value: Any, said: str | None = None
) -> TrainingState:
    """Returns a training state with another hyperparameter.

    Args:
        agent: The learner, whose config knows the range.
        state: The training state; its hyperparameters may have leading axes.
        name: The hyperparameter.
        value: Its new value.
        said: The name in messages; None: `name`.

    Raises:
        ValueError: If the config refuses the value.
    """
    config = getattr(agent, "config", None)
    number = options.number_of(config, name, said or name, value)
    new = jnp.full_like(state.hyper[name], number)
    return state.replace(hyper={**state.hyper, name: new})


@dataclasses.dataclass(frozen=True)
class LearnerSettings:
    """The settings of a training, and those that a resumed training may change.

    Attributes:
        agent: The learner as it was given, without a plan of its updates.
        values: All settings, as `settings.settings_of` returns them.
        free: Names of settings, or of groups of them, that may differ.
        cure: A remedy if other settings differ, a whole clause for the message.
    """

    agent: Agent
    values: dict[str, Any]
    free: tuple[str, ...]
    cure: str

    def facts(self) -> dict[str, Any]:
        """Returns the facts about the training for the record of every checkpoint."""
        name = type(self.agent).__name__
        seed = self.values["seed"]
        return {settings.SETTINGS: self.values, "agent": name, "seed": seed}

    def changes(self, path: Path, *, change_rates: bool) -> list[settings.Difference]:
        """Returns the settings that differ from those of a checkpoint.

        Args:
            path: The checkpoint.
            change_rates: Whether numbers of the agent's config may differ.

        Raises:
            CheckpointError: If a setting differs that must not change.
        """
        return settings.changed(
            read_record(path).meta,
            self.values,
            origin=path,
            free=self.free,
            rates=self.agent.traced_options if change_rates else (),
            cure=self._cure,
        )

    @property
    def _cure(self) -> str:
        return f"{self.cure}{settings.how_to_change(self.agent.traced_options)}"

    def restore(
        self,
        session: Session,
        program: StagedProgram,
        paths: Sequence[Path],
        *,
        change_rates: bool,
        check: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """Continues from the first undamaged checkpoint.

        Args:
            session: The session that continues.
            program: The program that the session advances.
            paths: Checkpoints, the preferred one first.
            change_rates: Whether numbers of the agent's config may differ; they then
                replace those of the checkpoint, and a warning says so.
            check: Raises if a checkpoint does not fit for another reason.

        Raises:
            CheckpointError: If it belongs to another training; names what differs.
        """
        changes: list[settings.Difference] = []

        def fits(path: Path) -> None:
            changes[:] = self.changes(path, change_rates=change_rates)
            check(path)

        try:
            record = session.restore_first_whole(paths, check=fits)
        except (NoCheckpointError, DamagedError):
            raise
        except CheckpointError as error:
            # Without settings, only shapes can show what differs.
            told = str(error)
            told = told if self._cure in told else f"{told}. {self._cure}"
            raise CheckpointError(told) from error
        if changes:
            told = "; ".join(map(str, changes))
            logger.warning("going on from step %d with %s", record["env_steps"], told)
            learner = program.state.agents[0]
            program.set_agents({0: settings.with_rates(learner, self.agent, changes)})


def saved_params(path: Path, params: PyTree) -> PyTree:
    """Returns the parameters in a checkpoint of one learner in one seed.

    Args:
        path: The checkpoint.
        params: Parameters of the same shapes, leaves `[1, ...]`.

    Raises:
        CheckpointError: If they belong to other networks; names the entries.
    """
    entries = read_record(path).entries
    before = next((p for p in PLACES if any(n.startswith(p) for n in entries)), "")
    leaves = tree.named_leaves({"params": params})
    named = {f"{before}{name}": x for name, x in leaves.items()}
    weights = f"{before}params"
    saved = {n: e for n, e in entries.items() if f"{n}/".startswith(f"{weights}/")}
    tree.check_entries(saved, tree.entries(named), path)
    stored = tree.read_arrays(path, list(named))
    arrays = [tree.like(leaf, stored[name]) for name, leaf in named.items()]
    return jax.tree.unflatten(jax.tree.structure(params), arrays)
