"""Tells Gymnasium and PettingZoo of every registered game, by strings, without JAX."""

import gymnasium
import pettingzoo

from paxenv import registry
from paxenv.adapters import forking

GYMNASIUM = "paxenv.adapters.gymnasium_env:make_env"
VECTOR = "paxenv.adapters.vector_env:GymnasiumVectorEnv"
PARALLEL = "paxenv.adapters.pettingzoo_env:PettingZooEnv"

__all__ = ["forking", "register"]


def register() -> None:
    """Registers all games of `paxenv.registry` that were not registered before.

    Ids in lower case too: Gymnasium suggests nothing for them, since it compares with
    regard to case, while what they lead to raises an error that names the right id.

    `forking` is imported here because it must be told of every later fork.
    """
    games = list(registry.games())
    for game_id in (*games, *map(str.lower, games)):
        if game_id in gymnasium.registry:
            continue
        gymnasium.register(
            id=game_id,
            entry_point=GYMNASIUM,
            vector_entry_point=VECTOR,
            kwargs={"game_id": game_id},
        )
        # PettingZoo has had a registry since 1.27.
        if game_id in games and hasattr(pettingzoo, "register"):
            pettingzoo.register(
                "parallel", game_id, entry_point=PARALLEL, kwargs={"game_id": game_id}
            )
