"""Episodes of a Gymnasium vector environment, summed in NumPy while they are played."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from runners.rows import LATEST, WINDOW

_PARTS = {"reward_components": "reward_components", "log": "env"}


class HostEpisodes:
    """Sums of the episodes in play, and of those that ended since the last row.

    Sums go on over any number of rows, and a time limit ends an episode as well as the
    rules do.
    """

    def __init__(self, num_games: int) -> None:
        self._lengths = np.zeros(num_games, np.int64)
        self._returns = np.zeros(num_games)
        self._parts: dict[str, np.ndarray] = {}
        self._ended: list[dict[str, float]] = []

    def add(
        self,
        rewards: np.ndarray,
        parts: Mapping[str, np.ndarray],
        played: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Adds one step of every game.

        Args:
            rewards: `[E]`.
            parts: What `parts_of` found in the step's infos.
            played: Whether the game was played in this step, bool `[E]`.
            terminated: Whether its rules ended the episode, bool `[E]`.
            truncated: Whether time did, bool `[E]`.
        """
        self._lengths += played
        self._returns += np.where(played, rewards, 0.0)
        for name, values in parts.items():
            total = self._parts.setdefault(name, np.zeros(len(self._lengths)))
            total += np.where(played, values, 0.0)
        for i in np.flatnonzero(played & (terminated | truncated)):
            self._end(i, truncated=bool(truncated[i] and not terminated[i]))

    def _end(self, i: Any, *, truncated: bool) -> None:
        length = int(self._lengths[i])
        episode = {
            "return": float(self._returns[i]),
            "length": float(length),
            "truncated": float(truncated),
        }
        for name, total in self._parts.items():
            # What a game logs is a state of it: the mean over the steps.
            steps = length if name.startswith("env/") else 1
            episode[name] = float(total[i]) / steps
            total[i] = 0.0
        self._ended.append(episode)
        self._lengths[i], self._returns[i] = 0, 0.0

    def row(self) -> dict[str, Any]:
        """Returns the metrics of the episodes that ended since the last call.

        The names are those of native games. Means are NaN where none has ended. The
        last episodes are there one by one too, as `LATEST`.
        """
        ended, self._ended = self._ended, []
        returns = [episode["return"] for episode in ended]
        lengths = [episode["length"] for episode in ended]
        nan = float("nan")
        latest = np.full((WINDOW, 2), nan, np.float32)
        for at, episode in enumerate(reversed(ended[-WINDOW:]), 1):
            latest[-at] = episode["return"], episode["length"]
        return {
            LATEST: latest,
            "episode/count": len(ended),
            "episode/length": _mean(lengths),
            "episode/truncated": _mean([episode["truncated"] for episode in ended]),
            "episode/return/player_1": _mean(returns),
            "episode/return_min/player_1": min(returns, default=nan),
            "episode/return_max/player_1": max(returns, default=nan),
            "episode/reward_per_step/player_1": (
                sum(returns) / sum(lengths) if ended else nan
            ),
            **{
                name: _mean([episode.get(name, 0.0) for episode in ended])
                for name in self._parts
            },
        }


def parts_of(
    infos: Mapping[str, Any], num_games: int, ended: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns parts of rewards and log entries of one step, `[E]` by metric name.

    Args:
        infos: Of a vector environment: `reward_components` and `log` by name, as
            dicts or as `log/name`, one number or one for each game. Where a game has
            been reset in the step that ended it, its own infos are in `final_info`.
        num_games: E.
        ended: Whether the game's episode ended in this step, bool `[E]`.
    """
    found = _parts(infos, num_games)
    final: Any = infos.get("final_info")
    if isinstance(final, Mapping):
        last = _parts(final, num_games)
        for name in {**found, **last}:
            before = found.get(name, np.zeros(num_games))
            found[name] = np.where(ended, last.get(name, 0.0), before)
    return found


def _parts(infos: Mapping[str, Any], num_games: int) -> dict[str, np.ndarray]:
    found = {}
    for key, shown in _PARTS.items():
        inside = f"{key}/"
        flat = {k.removeprefix(inside): infos[k] for k in infos if k.startswith(inside)}
        for name, values in _entries({**flat, **(infos.get(key) or {})}):
            array = np.asarray(values, np.float64)
            found[f"{shown}/{name}"] = np.broadcast_to(array, (num_games,))
    return found


def _entries(tree: Mapping[str, Any], before: tuple[str, ...] = ()) -> Any:
    """Yields (name, values) of a nested dict; names with `_` in front are masks."""
    for key, value in tree.items():
        if str(key).startswith("_") and str(key)[1:] in tree:
            continue
        path = (*before, str(key).strip("/"))
        if isinstance(value, Mapping):
            yield from _entries(value, path)
        else:
            yield "/".join(path), value


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
