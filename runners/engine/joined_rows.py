"""Several iterations as one row, which summarises all of them.

The rule by which metrics are joined depends on their kind:

* counts of episodes and of gradient steps are summed;
* means over episodes are means over all episodes that ended, each counted once, and
  extremes are the extremes of all;
* statistics of a game (`env/cooperation_rate/player_1`) follow from its summed counts;
* `rollout/*` are means over the iterations;
* reports of updates are those of the last update that took a gradient step.
"""

import base64
import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Shaped

from paxenv.environment import Environment
from paxenv.missing import flagged, on_host
from paxenv.single_player import SinglePlayer
from runners.engine.metric_names import (
    EPISODE_COUNT,
    EPISODE_GROUPS,
    GRADIENT_STEPS,
    group,
)
from runners.engine.program import Rows
from runners.engine.rows import FINITE, LATEST, NOT_LOGGED, TOTALS, WINDOW

_PER_STEP = "episode/reward_per_step/"
#: Metrics by name.
Row = dict[str, Shaped[np.ndarray, " seeds"]]


class JoinedRows:
    """The iterations since the last logged row, and the last 100 episodes.

    Sums are taken one iteration after the other, so they depend neither on the chunks
    in which iterations arrive nor on checkpoints: `saved` and `load` are exact.
    """

    def __init__(self, env: Environment | SinglePlayer | None = None) -> None:
        """Begins without iterations.

        Args:
            env: The native game, whose statistics follow from its counts; None: no
                statistics of a game.
        """
        self._env = env
        self._window: np.ndarray | None = None
        self._totals: dict[str, np.ndarray] = {}
        self._forget()

    def _forget(self) -> None:
        self._length = 0
        self._sums: dict[str, np.ndarray] = {}
        # A single iteration is a row as it is.
        self._single: Rows | None = None

    @property
    def length(self) -> int:
        """Iterations since the last row."""
        return self._length

    def add(self, rows: Rows) -> None:
        """Adds iterations in their order; leaves are `[seeds, iterations, ...]`."""
        if LATEST in rows:
            self._window = _pushed(self._window, rows[LATEST])
        rows = {name: x for name, x in rows.items() if name not in NOT_LOGGED}
        new = next(iter(rows.values())).shape[1]
        if self._length == 0 and new == 1 and not self._totals:
            self._single, self._length = rows, 1
            return
        if self._single is not None:
            self._fold(self._single)
            self._single = None
        self._fold(rows)
        self._length += new

    def take(self) -> Row:
        """Returns the row of all added iterations, `[seeds]` by name, and clears them.

        Where no episode has ended, means over episodes are NaN, and the counts of the
        game are kept for the next row.
        """
        row = {**self._row(), **self.latest()}
        count = row.get(EPISODE_COUNT)
        if count is not None and self._length:
            if self._single is not None and not count.all():
                self._fold_totals(self._single)
            for total in self._totals.values():
                total[count > 0] = 0.0
            if count.all():
                self._totals = {}
        self._forget()
        return row

    def latest(self, rows: Rows | None = None) -> Row:
        """Returns means over the last 100 episodes, fewer at first, NaN before.

        Args:
            rows: Iterations to include without adding them.
        """
        window = self._window
        if rows is not None and LATEST in rows:
            window = _pushed(window, rows[LATEST])
        if window is None:
            return {}
        there = ~np.isnan(window[..., -1])
        count = there.sum(1)
        sums = np.where(there[..., None], window, 0.0).astype(np.float64).sum(1)
        means = np.where(
            count[:, None] > 0, sums / np.maximum(count, 1)[:, None], np.nan
        )
        named = {
            f"episode/return_last_{WINDOW}/player_{p + 1}": means[:, p]
            for p in range(means.shape[1] - 1)
        }
        return {**named, f"episode/length_last_{WINDOW}": means[:, -1]}

    # State for checkpoints.

    def saved(self) -> dict[str, Any]:
        """Returns everything as JSON values, of a size that does not grow."""
        return {
            "length": self._length,
            "window": None if self._window is None else _packed(self._window),
            "sums": _all_packed(self._sums),
            "totals": _all_packed(self._totals),
            "single": None if self._single is None else _all_packed(self._single),
        }

    def load(self, saved: Mapping[str, Any] | None) -> None:
        """Continues from what `saved` returned; None begins anew."""
        if saved is None:
            self._window, self._totals = None, {}
            self._forget()
            return
        window, single = saved["window"], saved["single"]
        self._length = int(saved["length"])
        self._window = None if window is None else _unpacked(window)
        self._sums = _all_unpacked(saved["sums"])
        self._totals = _all_unpacked(saved["totals"])
        self._single = None if single is None else _all_unpacked(single)

    # The joining of iterations.

    def _fold(self, rows: Rows) -> None:
        count = rows.get(EPISODE_COUNT)
        for name, x in rows.items():
            if name.startswith((TOTALS, _PER_STEP)):
                continue
            old = self._sums.get(name)
            if _is_extreme(name):
                of_all = name == FINITE
                lowest = of_all or "return_min" in name
                self._sums[name] = _extreme(
                    old, x, None if of_all else count, lowest=lowest
                )
            elif _is_summed(name):
                self._sums[name] = _added(old, x)
            elif group(name) in EPISODE_GROUPS and count is not None:
                # A mean over no episode is NaN and has weight 0.
                self._sums[name] = _added(old, np.where(count > 0, x * count, 0.0))
            elif group(name) == "rollout":
                self._sums[name] = _added(old, x)
            else:
                self._sums[name] = _last(old, x, _steps_of(name, rows))
        self._fold_totals(rows)

    def _fold_totals(self, rows: Rows) -> None:
        for name, x in rows.items():
            if name.startswith(TOTALS):
                self._totals[name] = _added(self._totals.get(name), x)

    def _row(self) -> dict[str, np.ndarray]:
        if self._single is not None:
            return {
                name: x[:, 0]
                for name, x in self._single.items()
                if not name.startswith(TOTALS)
            }
        row, count = {}, self._sums.get(EPISODE_COUNT)
        for name, x in self._sums.items():
            if group(name) == "rollout":
                row[name] = x / self._length
            elif name == FINITE or _is_summed(name):
                row[name] = x
            elif _is_extreme(name) and count is not None:
                row[name] = np.where(count > 0, x, np.nan)
            elif group(name) in EPISODE_GROUPS and count is not None:
                row[name] = np.where(count > 0, x / np.maximum(count, 1), np.nan)
            else:
                row[name] = x
        for name in [n for n in row if n.startswith("episode/return/")]:
            seat = name.removeprefix("episode/return/")
            row[_PER_STEP + seat] = row[name] / row["episode/length"]
        if self._totals and self._env is not None:
            row |= _named(self._env, self._totals)
        return row


def _is_summed(name: str) -> bool:
    return name == EPISODE_COUNT or name.endswith(GRADIENT_STEPS)


def _is_extreme(name: str) -> bool:
    return name == FINITE or name.startswith(
        ("episode/return_min/", "episode/return_max/")
    )


def _steps_of(name: str, rows: Rows) -> np.ndarray | None:
    """Returns the gradient steps of a metric's update, None if they are unknown."""
    for other, steps in rows.items():
        update = other.removesuffix(GRADIENT_STEPS)
        if update != other and name.startswith(f"{update}/"):
            return steps
    return None


def _added(total: np.ndarray | None, x: np.ndarray) -> np.ndarray:
    """Returns the sum over iterations, one after the other, in double precision."""
    if total is None:
        total = np.zeros((x.shape[0], *x.shape[2:]))
    both = np.concatenate([total[:, None], x.astype(np.float64)], axis=1)
    return np.add.accumulate(both, axis=1)[:, -1]


def _extreme(
    old: np.ndarray | None, x: np.ndarray, count: np.ndarray | None, *, lowest: bool
) -> np.ndarray:
    """Returns the lowest or the highest; infinite before the first episode."""
    if count is not None:
        x = np.where(count > 0, x, np.inf if lowest else -np.inf)
    # A NaN of a broken episode is not hidden.
    best = x.min(1) if lowest else x.max(1)
    if old is None:
        return best
    return np.minimum(old, best) if lowest else np.maximum(old, best)


def _last(
    old: np.ndarray | None, x: np.ndarray, steps: np.ndarray | None
) -> np.ndarray:
    """Returns the last value, or the old one where no gradient step was taken."""
    last = x[:, -1]
    if steps is None:
        return last
    taken = steps > 0
    index = taken.shape[1] - 1 - np.argmax(taken[:, ::-1], axis=1)
    learnt = x[np.arange(len(x)), index]
    if old is not None:
        learnt = np.where(taken.any(1), learnt, old)
    return np.where(taken[:, -1] | ~np.isnan(last), last, learnt)


def _pushed(window: np.ndarray | None, latest: np.ndarray) -> np.ndarray:
    """Returns the window after later episodes, `[seeds, WINDOW, C]`."""
    later = latest.reshape(len(latest), -1, latest.shape[-1])
    if window is None:
        window = np.full((len(later), WINDOW, later.shape[-1]), np.nan, np.float32)
    there = ~np.isnan(later[..., -1])
    if not there.any():
        return window
    return np.stack(
        [
            np.concatenate([before, new[ended]])[-WINDOW:]
            for before, new, ended in zip(window, later, there, strict=True)
        ]
    )


@functools.partial(jax.jit, static_argnums=0)
def _statistics(
    env: Environment | SinglePlayer, leaves: list[jax.Array]
) -> dict[str, Any]:
    opening = env.metrics_init()
    structure = jax.tree.structure(opening.totals)

    def named(leaves: list[jax.Array]) -> dict[str, Any]:
        totals = jax.tree.unflatten(structure, leaves)
        return flagged(env.metrics_final(opening.replace(totals=totals)))

    return jax.vmap(named)(leaves)


def _named(
    env: Environment | SinglePlayer, totals: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns a game's statistics from its counts, `env/<name>`, `[seeds]`."""
    shapes = jax.tree.leaves(jax.eval_shape(env.metrics_init).totals)
    leaves = []
    for i, shape in enumerate(shapes):
        total = totals[f"{TOTALS}{i}"]
        fits = shape.dtype != np.int32 or np.abs(total).max(initial=0) < 2**31
        leaves.append(total.astype(shape.dtype if fits else np.float32))
    named = on_host(_statistics(env, leaves))
    return {f"env/{name}": x for name, x in named.items()}


def _packed(x: np.ndarray) -> dict[str, Any]:
    """Returns an array as JSON values, bit for bit."""
    data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode("ascii")
    return {"dtype": str(x.dtype), "shape": list(x.shape), "data": data}


def _unpacked(packed: Mapping[str, Any]) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(packed["data"]), packed["dtype"])
    return data.reshape(packed["shape"]).copy()


def _all_packed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: _packed(np.asarray(x)) for name, x in arrays.items()}


def _all_unpacked(packed: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: _unpacked(x) for name, x in packed.items()}
