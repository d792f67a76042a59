"""What tells runs apart: the settings in which their configs differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from runners.config.documents import parse
from runners.run_dir import RunDir

#: Settings that do not change what is learnt: runs that differ only in them are
#: repetitions.
NOT_A_SETTING = (
    *("name", "description", "expected", "source", "bands", "seed", "num_seeds"),
    *("log_interval", "chunk_size", "exp_dir", "save_dir", "tensorboard", "wandb"),
    *("seeds_apart", "plot", "checkpoint_interval", "max_checkpoints"),
    *("keep_period", "non_finite"),
)


def settings_of(run: RunDir) -> dict[str, Any]:
    """Returns what a run's config says of what is learnt, under dotted names."""
    config = parse(run.config.read_text(encoding="utf-8"), str(run.config))
    return _flat({k: v for k, v in config.items() if k not in NOT_A_SETTING})


def differing(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns of each of several settings what is not the same in all of them.

    A setting that is missing is there as "default".
    """
    every = sorted({name for one in settings for name in one})
    names = [n for n in every if len({repr(one.get(n)) for one in settings}) > 1]
    return [{name: one.get(name, "default") for name in names} for one in settings]


def in_words(settings: Mapping[str, Any]) -> str:
    """Returns settings as one writes them on a command line."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings under dotted names; agents are counted from 1."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if key == "agents":
            agents = {f"agent{i + 1}": agent for i, agent in enumerate(value)}
            flat |= _flat(agents, prefix)
        elif isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
