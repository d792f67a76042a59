"""What an `OnPolicyRunner` tells of its iterations, one by one and in rows."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from runners.joined_rows import JoinedRows
from runners.metric_names import EPISODE_COUNT, is_of_episodes
from runners.on_policy.names import named
from runners.program import Rows


class Statistics:
    """The iterations since the last row, and the last episodes that ended."""

    def __init__(self, env: Any, *, components: bool) -> None:
        """Begins with nothing.

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

        Means over episodes are of the last iteration in which any ended, and over the
        last 100; NaN before the first.
        """
        stats = self.of(rows)
        if stats.get(EPISODE_COUNT) == 0:
            stats |= {name: x for name, x in self._ended.items() if name in stats}
        latest = {name: x[0] for name, x in self._joined.latest(rows).items()}
        return {**stats, **named(latest)}

    def add(self, rows: Rows) -> dict[str, float]:
        """Takes iterations into the next row, and returns `current` of them."""
        count = rows[EPISODE_COUNT][0]
        if count.any():
            of_last = self.of(rows, int(np.flatnonzero(count)[-1]))
            self._ended = {n: x for n, x in of_last.items() if is_of_episodes(n)}
        stats = self.current(rows)
        self._joined.add(rows)
        return stats

    def take_row(self) -> dict[str, float]:
        """Returns the row of the iterations since the last one, and forgets them."""
        row = {name: x[0] for name, x in self._joined.take().items()}
        return named(row, components=self._components)

    def saved(self) -> dict[str, Any]:
        """Returns everything as JSON values, of a size that does not grow."""
        ended = {n: None if math.isnan(x) else x for n, x in self._ended.items()}
        return {"joined": self._joined.saved(), "ended": ended}

    def load(self, saved: Mapping[str, Any] | None) -> None:
        """Goes on from what `saved` returned; None begins with nothing."""
        saved = saved or {"joined": None, "ended": {}}
        self._joined.load(saved["joined"])
        self._ended = {
            name: math.nan if x is None else x for name, x in saved["ended"].items()
        }
