"""Social-dilemma games in JAX, for Gymnasium, PettingZoo and Stable-Baselines3 too.

    import paxenv

    env, params = paxenv.make("IPD-v0")
    obs, state = env.reset(key, params)
    obs, state, rewards, done, info = env.step(key, state, actions, params)

Importing this package starts no JAX: games are strings until one is made.
"""

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from paxenv import catalogue, registration, registry
from paxenv.entry_points import add_game, discover, plugins
from paxenv.registry import games, make

if TYPE_CHECKING:
    from paxenv.adapters.pettingzoo_env import parallel_env
    from paxenv.adapters.trainers import sb3_vec_env
    from paxenv.auto_reset import AutoResetWrapper
    from paxenv.environment import Environment, EnvState, Frame
    from paxenv.gymnax_game import from_gymnax
    from paxenv.params import GameParams
    from paxenv.single_player import SinglePlayer
    from paxenv.testing import EnvCheckError, check_env
    from paxenv.trajectory import Replay, replay

#: In every discrete game action 0 cooperates and action 1 defects.
COOPERATE = 0
DEFECT = 1

__version__ = metadata.version("paxenv")

__all__ = [
    "COOPERATE",
    "DEFECT",
    "AutoResetWrapper",
    "EnvCheckError",
    "EnvState",
    "Environment",
    "Frame",
    "GameParams",
    "Replay",
    "SinglePlayer",
    "__version__",
    "check_env",
    "from_gymnax",
    "games",
    "make",
    "parallel_env",
    "plugins",
    "replay",
    "sb3_vec_env",
]

#: Names that need JAX or an optional package, and the modules they live in.
_LAZY = {
    "AutoResetWrapper": "paxenv.auto_reset",
    "EnvCheckError": "paxenv.testing",
    "EnvState": "paxenv.environment",
    "Environment": "paxenv.environment",
    "Frame": "paxenv.environment",
    "GameParams": "paxenv.params",
    "Replay": "paxenv.trajectory",
    "SinglePlayer": "paxenv.single_player",
    "check_env": "paxenv.testing",
    "from_gymnax": "paxenv.gymnax_game",
    "parallel_env": "paxenv.adapters.pettingzoo_env",
    "replay": "paxenv.trajectory",
    "sb3_vec_env": "paxenv.adapters.trainers",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'paxenv' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _register() -> None:
    for spec in catalogue.GAMES:
        registry.register(spec)
    discover("game", add_game)
    registration.register()


_register()
