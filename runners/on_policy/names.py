"""Metrics of one learner by the names that `OnPolicyRunner` shows."""

import math
from collections.abc import Mapping
from typing import Any

from runners.metric_names import group
from runners.rows import WINDOW, is_metric
from runners.sinks import numbers

_PLAYER = "player_1"
#: From the engine's names; what follows `train/player_1/` otherwise keeps its name.
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
#: A loss that is minimised: minus the entropy.
_NEGATED = f"train/{_PLAYER}/entropy"
#: Between players, of which there is one.
_SOCIAL = ("episode/welfare", "episode/equality")


def named(metrics: Mapping[str, Any], *, components: bool = True) -> dict[str, float]:
    """Returns metrics by the names of this runner.

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
        # One and the same NaN, so that equal metrics compare equal.
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
    """What `learn` returns of every iteration, as lists of equal length."""

    def __init__(self) -> None:
        self.lists: dict[str, list[float]] = {
            name: [] for name in ("iterations", "timesteps", *HISTORY)
        }

    def add(self, iteration: int, env_steps: int, stats: Mapping[str, float]) -> None:
        """Adds one iteration; NaN stands for what it has no value of."""
        self.lists["iterations"].append(iteration)
        self.lists["timesteps"].append(env_steps)
        for name, metric in HISTORY.items():
            self.lists[name].append(stats.get(metric, float("nan")))
