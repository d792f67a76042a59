"""The games that ship with the package, by id."""

from paxenv.registry import GameSpec

GAMES: tuple[GameSpec, ...] = ()
