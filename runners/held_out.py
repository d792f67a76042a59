"""A finished run's agents against co-players that they were not trained with."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.config import ConfigError
from runners.config.overrides import parse_words, split_words
from runners.config_of_run import config_of_run
from runners.launch import program_of
from runners.plan import Plan, prepare
from runners.plan_evaluation import play_once
from runners.rows import FINITE
from runners.summary import Estimate, estimates

AS_TRAINED = "as trained"


@dataclasses.dataclass(frozen=True)
class Variation:
    """One change from training, and how the agents fare.

    Attributes:
        setting: `KEY=VALUE` words, or `AS_TRAINED`.
        plan: What is played.
        metrics: The game's metrics over seeds; empty before it was played.
    """

    setting: str
    plan: Plan
    metrics: dict[str, Estimate] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data."""
        metrics = {name: value.as_dict() for name, value in self.metrics.items()}
        return {"setting": self.setting, "metrics": metrics}


def variations(
    run_dir: str | Path, vary: Sequence[str], words: Sequence[str] = (), **options: Any
) -> tuple[Variation, ...]:
    """Returns the plans of a run as trained, and with each change by itself.

    Args:
        run_dir: A finished run.
        vary: One text of `KEY=VALUE` words for each change, such as
            `agent2.learning_rate=0.1` or `agent2=Naive agent2.learning_rate=1`. Spaces
            within brackets and quotes belong to a value.
        words: `KEY=VALUE` for all of them.
        options: Settings by key for all of them.

    Raises:
        ConfigError: If a setting does not fit; nothing has been played then.
    """
    found = []
    for setting in (AS_TRAINED, *vary):
        changed = [] if setting == AS_TRAINED else split_words(setting)
        empty = setting != AS_TRAINED and not changed
        if empty or parse_words(changed).experiment is not None:
            raise ConfigError(f"--vary {setting!r}: changes are written KEY=VALUE")
        config = config_of_run(
            str(run_dir), [*words, *changed], {"runner": "eval", **options}
        )
        found.append(Variation(setting, prepare(config)))
    return tuple(found)


def played(variation: Variation) -> Variation:
    """Returns a variation with its metrics, after one evaluation of every seed."""
    metrics, _ = play_once(program_of(variation.plan))
    metrics = {name: v for name, v in metrics.items() if name != FINITE}
    return dataclasses.replace(variation, metrics=estimates(metrics))
