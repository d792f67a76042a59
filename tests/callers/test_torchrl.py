"""TorchRL: its own check of specs, on every kind of environment, and rollouts."""

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
import torch
from pettingzoo.utils import parallel_to_aec
from torchrl.envs import (
    GymEnv,
    GymWrapper,
    PettingZooWrapper,
    SerialEnv,
    check_env_specs,
)

import paxenv

pytestmark = [
    pytest.mark.sb3,
    pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested"),
]
torch.set_num_threads(1)

GAMES = ("IPD", "CoinGame")


def parallel(game: str, **options: Any) -> PettingZooWrapper:
    return PettingZooWrapper(paxenv.parallel_env(game, max_cycles=4), **options)


KINDS: dict[str, Callable[[str], Any]] = {
    "id": lambda game: GymEnv(f"pax/{game}-v0"),
    "single": lambda game: GymWrapper(
        gymnasium.make(f"pax/{game}-v0", num_inner_steps=4)
    ),
    "vector": lambda game: GymWrapper(
        gymnasium.make_vec(
            f"pax/{game}-v0", num_envs=3, num_inner_steps=4, autoreset_mode="SameStep"
        )
    ),
    "parallel": lambda game: parallel(game, return_state=True),
    "agent cycle": lambda game: PettingZooWrapper(
        parallel_to_aec(paxenv.parallel_env(game, max_cycles=4)), use_mask=True
    ),
    "several": lambda game: SerialEnv(4, lambda: GymEnv(f"pax/{game}-v0")),
    "several parallel": lambda game: SerialEnv(2, lambda: parallel(game)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("game", GAMES)
def test_specs_hold_under_any_seed_and_over_the_end_of_an_episode(
    game: str, kind: str
) -> None:
    env = KINDS[kind](game)
    check_env_specs(env)
    env.set_seed(0 if kind.startswith("several") else 3_000_000_000)
    assert env.rollout(6, break_when_any_done=False).numel() > 0
    env.close()


def test_the_state_and_the_flags_are_those_of_the_game() -> None:
    env = parallel("IPD", return_state=True)
    env.set_seed(0)
    steps = env.rollout(10)
    assert steps["state"][0].tolist() == [0, 0, 0, 0, 1] * 2
    assert steps["next", "truncated"].flatten().tolist() == [False] * 3 + [True]
    assert not steps["next", "terminated"].any()
    welfare = steps["next", "player", "info", "metrics/welfare"][:, 0]
    rewards = steps["next", "player", "reward"].sum(dim=1).flatten()
    torch.testing.assert_close(welfare, rewards)
