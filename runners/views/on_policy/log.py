"""The logs of an `OnPolicyRunner`: TensorBoard and JSON lines."""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runners.engine.joined_rows import JoinedRows
from runners.engine.metric_names import EPISODE_COUNT, group, is_of_episodes
from runners.engine.program import Rows
from runners.engine.rows import WINDOW, is_metric
from runners.storage.jsonl import JsonLines, read_rows
from runners.storage.sinks import Position, Sink, numbers
from runners.storage.tensorboard import PATTERN, TensorBoard

ROWS = "metrics.jsonl"
#: Prefix of the folders into which the logs of earlier trainings are moved.
EARLIER = "earlier_"

logger = logging.getLogger(__name__)


class OnPolicyLog:
    """The files of one `log_dir`, opened at the first row."""

    def __init__(self, folder: Path | None) -> None:
        """Makes a log that has written nothing; without a folder it never writes."""
        self._folder = folder
        self._sinks: list[Sink] = []
        self._resume_from: Position | None = None
        self._started = False

    def write(self, position: Position, metrics: Mapping[str, float]) -> None:
        """Writes a row of metrics, which `flush` hands to the file system."""
        for sink in self._opened():
            sink.log(position.env_steps, position.iteration, metrics)

    def resume(self, position: Position) -> bool:
        """Continues from a position; later rows are removed from the files.

        Returns:
            Whether the files hold the row of the position's iteration.
        """
        self.close()
        self._resume_from, self._started = position, True
        path = None if self._folder is None else self._folder / ROWS
        if path is None or not path.is_file():
            return False
        return any(
            row.get("iteration") == position.iteration
            and any(group(name) == "train" for name in row)
            for row in read_rows(path)
        )

    def flush(self) -> None:
        """Hands over everything logged so far."""
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        """Closes the files; another row opens them again."""
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.close()

    def _opened(self) -> list[Sink]:
        if self._folder is None or self._sinks:
            return self._sinks
        self._folder.mkdir(parents=True, exist_ok=True)
        start, self._resume_from = self._resume_from, None
        if not self._started:
            _put_aside(self._folder)
        self._started = True
        self._sinks = [
            JsonLines(self._folder / ROWS, resume_from=start),
            TensorBoard(self._folder, resume_from=start, copies_vs_iteration=True),
        ]
        return self._sinks


def _put_aside(folder: Path) -> None:
    """Moves the logs of another training in a folder into a sub-folder."""
    old = [path for path in (folder / ROWS, *folder.glob(PATTERN)) if path.is_file()]
    if not old:
        return
    number = 1 + sum(path.is_dir() for path in folder.glob(f"{EARLIER}*"))
    place = folder / f"{EARLIER}{number}"
    place.mkdir()
    for path in old:
        path.rename(place / path.name)
    logger.warning("the log of the training before is in %s", place)


_PLAYER = "player_1"
#: Names by the engine's names; others in `train/player_1/` lose the player only.
_NAMES = {
    f"train/{_PLAYER}/loss/policy": ("train/policy_loss",),
    f"train/{_PLAYER}/loss/value": ("train/value_loss",),
    f"train/{_PLAYER}/loss/total": ("train/total_loss",),
    f"train/{_PLAYER}/entropy": ("train/entropy_loss",),
    f"train/{_PLAYER}/advantage_mean": ("stats/advantage_mean",),
    f"train/{_PLAYER}/advantage_std": ("stats/advantage_std",),
    f"train/{_PLAYER}/value_mean": ("stats/value_mean",),
    f"train/{_PLAYER}/return_mean": ("stats/returns_mean",),
    f"rollout/reward/{_PLAYER}": ("rollout/mean_reward",),
    f"rollout/value/{_PLAYER}": ("rollout/mean_value",),
    f"episode/return/{_PLAYER}": (
        "episode/mean_reward",
        "rollout/mean_episode_reward",
    ),
    f"episode/return_min/{_PLAYER}": ("episode/min_reward",),
    f"episode/return_max/{_PLAYER}": ("episode/max_reward",),
    f"episode/reward_per_step/{_PLAYER}": ("episode/reward_per_step",),
    "episode/length": ("episode/mean_length",),
    "episode/truncated": ("episode/truncated_fraction",),
    "episode/count": ("episode/count", "rollout/completed_episodes"),
    f"episode/return_last_{WINDOW}/{_PLAYER}": (f"episode/mean_reward_last_{WINDOW}",),
    f"episode/length_last_{WINDOW}": (f"episode/mean_length_last_{WINDOW}",),
}
#: Negated, since it is shown as a loss that is minimised.
_NEGATED = f"train/{_PLAYER}/entropy"
#: Metrics between players, of which there is only one.
_SOCIAL = ("episode/welfare", "episode/equality")


def named(metrics: Mapping[str, Any], *, components: bool = True) -> dict[str, float]:
    """Returns metrics under the names of an `OnPolicyRunner`.

    A mean over episodes is NaN where none has ended.

    Args:
        metrics: Numbers by the engine's names.
        components: Whether parts of rewards are shown.
    """
    shown = {}
    for name, value in numbers(
        {n: x for n, x in metrics.items() if is_metric(n)}
    ).items():
        if name in _SOCIAL or (not components and group(name) == "reward_components"):
            continue
        value = -value if name == _NEGATED else value
        # One NaN object for all, so that equal metrics compare equal.
        value = math.nan if math.isnan(value) else value
        own = name.replace(f"train/{_PLAYER}/", "train/", 1)
        shown |= dict.fromkeys(_NAMES.get(name, (own,)), value)
    return shown


#: Lists of `learn`'s history, by the metric that each of them holds.
HISTORY = {
    "episode_rewards": "episode/mean_reward",
    "episode_lengths": "episode/mean_length",
    "policy_losses": "train/policy_loss",
    "value_losses": "train/value_loss",
}


class History:
    """The part of `learn`'s result with one entry for each iteration, as lists."""

    def __init__(self) -> None:
        self.lists: dict[str, list[float]] = {
            name: [] for name in ("iterations", "timesteps", *HISTORY)
        }

    def add(self, iteration: int, env_steps: int, stats: Mapping[str, float]) -> None:
        """Adds one iteration; NaN stands for missing values."""
        self.lists["iterations"].append(iteration)
        self.lists["timesteps"].append(env_steps)
        for name, metric in HISTORY.items():
            self.lists[name].append(stats.get(metric, float("nan")))


class Statistics:
    """The iterations since the last row, and the last episodes that ended."""

    def __init__(self, env: Any, *, components: bool) -> None:
        """Begins without iterations.

        Args:
            env: The native game; None on the host.
            components: Whether parts of rewards are shown.
        """
        self._components = components
        self._joined = JoinedRows(env)
        self._ended: dict[str, float] = {}

    @property
    def has_row(self) -> bool:
        """Whether there are iterations that are in no row yet."""
        return self._joined.length > 0

    def of(self, rows: Rows, index: int = -1) -> dict[str, float]:
        """Returns one iteration; means over episodes are NaN where none has ended."""
        one = {name: x[0, index] for name, x in rows.items()}
        return named(one, components=self._components)

    def current(self, rows: Rows) -> dict[str, float]:
        """Returns the last iteration of rows that are not added yet.

        Means over episodes are those of the last iteration in which any ended, and
        those of the last 100 episodes; NaN before the first.
        """
        stats = self.of(rows)
        if stats.get(EPISODE_COUNT) == 0:
            stats |= {name: x for name, x in self._ended.items() if name in stats}
        latest = {name: x[0] for name, x in self._joined.latest(rows).items()}
        return {**stats, **named(latest)}

    def add(self, rows: Rows) -> dict[str, float]:
        """Adds iterations to the next row, and returns `current` of them."""
        count = rows[EPISODE_COUNT][0]
        if count.any():
            of_last = self.of(rows, int(np.flatnonzero(count)[-1]))
            self._ended = {n: x for n, x in of_last.items() if is_of_episodes(n)}
        stats = self.current(rows)
        self._joined.add(rows)
        return stats

    def take_row(self) -> dict[str, float]:
        """Returns the row of the iterations since the last one, and clears them."""
        row = {name: x[0] for name, x in self._joined.take().items()}
        return named(row, components=self._components)

    def saved(self) -> dict[str, Any]:
        """Returns everything as JSON values, of a size that does not grow."""
        ended = {n: None if math.isnan(x) else x for n, x in self._ended.items()}
        return {"joined": self._joined.saved(), "ended": ended}

    def load(self, saved: Mapping[str, Any] | None) -> None:
        """Continues from what `saved` returned; None begins anew."""
        saved = saved or {"joined": None, "ended": {}}
        self._joined.load(saved["joined"])
        self._ended = {
            name: math.nan if x is None else x for name, x in saved["ended"].items()
        }
