"""Overviews of runs: their settings, progress and results."""

import dataclasses
import datetime
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paxenv.paths import local_path
from runners.config import ConfigError, experiment_of
from runners.config.reading import parse
from runners.storage import jsonl
from runners.storage.run_dir import RunDir, find_runs
from runners.storage.sinks import mean_over_seeds

#: Settings that do not change what is learnt: runs that differ only in them are
#: repetitions.
NOT_A_SETTING = (
    *("name", "description", "expected", "source", "bands", "seed", "num_seeds"),
    *("log_interval", "chunk_size", "exp_dir", "save_dir", "tensorboard", "wandb"),
    *("seeds_apart", "plot", "checkpoint_interval", "max_checkpoints"),
    *("keep_period", "non_finite"),
)


def settings_of(run: RunDir) -> dict[str, Any]:
    """Returns the settings of a run that affect what is learnt, under dotted names."""
    config = parse(run.config.read_text(encoding="utf-8"), str(run.config))
    return _flat({k: v for k, v in config.items() if k not in NOT_A_SETTING})


def differing(settings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns for each of several runs the settings that are not the same in all.

    A setting that a run lacks is "default".
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


#: The number that stands for a run: the first of these that it has.
KEY_METRICS = (
    "eval/mean_reward",
    "eval/sampled/episode/reward_per_step/player_1",
    "eval/greedy/episode/reward_per_step/player_1",
    "episode/mean_reward",
    "episode/reward_per_step/player_1",
    "episode/return/player_1",
)
CLOCK = ("iteration", "env_steps")


@dataclasses.dataclass(frozen=True)
class Overview:
    """The entry of a run in a list.

    Attributes:
        run: The run directory.
        experiment: The experiment.
        status: One of `runners.storage.run_dir.STATUSES`.
        name: The name that the user gave, if any.
        group: The group, if any.
        tags: The tags.
        seed: The seed of the run.
        num_seeds: Repetitions in the run.
        env_steps: Environment steps that each seed has taken and logged.
        metric: The name of `value`.
        value: The number that stands for the run, the mean over its seeds; None if
            it has none yet.
        started: When it began, UTC.
        seconds: From the beginning to the end; None before the end.
        differs: The settings in which it differs from the other listed runs of its
            experiment.
    """

    run: str
    experiment: str
    status: str
    name: str | None
    group: str | None
    tags: tuple[str, ...]
    seed: int
    num_seeds: int
    env_steps: int | None
    metric: str | None
    value: float | None
    started: str
    seconds: float | None
    differs: dict[str, Any] = dataclasses.field(default_factory=dict)


def overviews(runs: Sequence[RunDir]) -> list[Overview]:
    """Returns the entries of runs in a list, with the settings in which they differ."""
    rows = [overview(run) for run in runs]
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(experiment_of(row.experiment), []).append(i)
    for places in groups.values():
        if len(places) == 1:
            continue
        found = differing([settings_of(runs[i]) for i in places])
        for i, differs in zip(places, found, strict=True):
            rows[i] = dataclasses.replace(rows[i], differs=differs)
    return rows


def overview(run: RunDir) -> Overview:
    """Returns the entry of one run."""
    meta, last, results = run.read_meta(), last_metrics(run), _results(run)
    metric, value = _key_number({**last, **_means(results.get("metrics", {}))})
    return Overview(
        run=str(run.path),
        experiment=meta.get("experiment", ""),
        status=run.status(),
        name=meta.get("name"),
        group=meta.get("group"),
        tags=tuple(meta.get("tags", ())),
        seed=meta.get("seed", 0),
        num_seeds=meta.get("num_seeds", 1),
        env_steps=last.get("env_steps", results.get("env_steps_per_seed")),
        metric=metric,
        value=value,
        started=meta.get("started", ""),
        seconds=_seconds(meta),
    )


def details(run: RunDir) -> dict[str, Any]:
    """Returns everything about a run as plain data: `paxrun runs show --json`."""
    meta, shown = run.read_meta(), dataclasses.asdict(overview(run))
    config = parse(run.config.read_text(encoding="utf-8"), str(run.config))
    facts = ("device", "compile_seconds", "git_sha", "python", "versions", "argv")
    return {
        **shown,
        **{name: meta.get(name) for name in facts},
        "config": config,
        "results": _means(_results(run).get("metrics", {})),
        "last_metrics": {
            name: value if math.isfinite(value) else None
            for name, value in last_metrics(run).items()
        },
        "files": {
            path.relative_to(run.path).as_posix(): path.stat().st_size
            for path in sorted(run.path.rglob("*"))
            if path.is_file()
        },
    }


def last_metrics(run: RunDir) -> dict[str, Any]:
    """Returns the means over seeds of the last logged rows, `{}` without any."""
    if not run.metrics.is_file():
        return {}
    rows = jsonl.last_rows(run.metrics)
    numbers = [
        {name: v for name, v in row.items() if isinstance(v, float | int)}
        for row in rows
    ]
    means: dict[str, Any] = mean_over_seeds(numbers)
    means.pop("seed", None)
    clock = {name: rows[-1][name] for name in CLOCK if name in means}
    return {**clock, **{k: v for k, v in means.items() if k not in clock}}


def resolve(word: str, exp_dir: str | Path) -> list[RunDir]:
    """Returns the runs that a word means.

    Args:
        word: The path of a run, of a folder with runs, or the end of one run's path:
            its last six digits are enough.
        exp_dir: Where runs are looked for by the end of their path.

    Raises:
        ConfigError: If it means no run, or the ends of several.
    """
    if local_path(word).is_dir():
        found = find_runs(word)
        if not found:
            raise ConfigError(f"{word} holds no run: no folder in it has a meta.json")
        return found
    runs = find_runs(exp_dir)
    found = [run for run in runs if str(run.path).endswith(word)]
    if not found:
        raise ConfigError(
            f"no run is called {word!r} or ends so under {exp_dir}; `paxrun runs ls "
            f"--exp-dir {exp_dir}` lists {len(runs)}"
        )
    if len(found) > 1:
        names = ", ".join(str(run.path) for run in found[:5])
        raise ConfigError(f"{word!r} is the end of {len(found)} runs: {names}")
    return found


def resolve_one(word: str, exp_dir: str | Path) -> RunDir:
    """Returns the one run that a word means.

    Raises:
        ConfigError: If it means none or several.
    """
    found = resolve(word, exp_dir)
    if len(found) > 1:
        raise ConfigError(f"{word} holds {len(found)} runs: name one of them")
    return found[0]


def _results(run: RunDir) -> dict[str, Any]:
    """Returns the final numbers; none, with a warning, if their file is damaged."""
    try:
        return run.read_results()
    except ConfigError as error:
        warnings.warn(str(error), stacklevel=2)
        return {}


def _means(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the means of the metrics of `results.json`."""
    means = {
        name: value.get("mean") if isinstance(value, dict) else value
        for name, value in metrics.items()
    }
    return {name: value for name, value in means.items() if value is not None}


def _key_number(metrics: Mapping[str, float]) -> tuple[str | None, float | None]:
    for name in KEY_METRICS:
        if name in metrics:
            value = float(metrics[name])
            return name, value if math.isfinite(value) else None
    return None, None


def _seconds(meta: Mapping[str, Any]) -> float | None:
    if "started" not in meta or "ended" not in meta:
        return None
    ended = datetime.datetime.fromisoformat(meta["ended"])
    began = datetime.datetime.fromisoformat(meta["started"])
    return (ended - began).total_seconds()
