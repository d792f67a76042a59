"""The named matrix games: their numbers, their sources and how each is recognised."""

import dataclasses
import difflib
import functools
import re
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from paxenv.payoff_parser import PayoffError

PayoffRows = tuple[tuple[tuple[float, float], ...], ...]


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named matrix game.

    Attributes:
        name: Its name, also the stem of its registered id.
        table: Rewards, `[A_0][A_1][2]`.
        ordering: What makes a payoff this game, in words.
        holds: Whether a payoff of this size, `[A_0, A_1, 2]`, is this game.
        source: Where the game, or these numbers, come from.
        aliases: Other names for it.
    """

    name: str
    table: PayoffRows
    ordering: str
    holds: Callable[[np.ndarray], bool]
    source: str
    aliases: tuple[str, ...] = ()

    @property
    def payoff(self) -> Float64[np.ndarray, "A_0 A_1 2"]:
        """Rewards as a new array, float64 `[A_0, A_1, 2]`."""
        return np.array(self.table, dtype=float)

    @property
    def num_actions(self) -> tuple[int, int]:
        """The number of actions of each player."""
        return len(self.table), len(self.table[0])


def find_preset(name: str) -> Preset | None:
    """Returns a named game, or None; `"pax/IPD-v0"` and aliases are names too."""
    return _BY_WORD.get(_word(name))


def preset(name: str) -> Preset:
    """Returns a named game; `"pax/IPD-v0"` and aliases are names too.

    Raises:
        PayoffError: If there is none; the message lists the closest name and all.
    """
    found = find_preset(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(_word(name), _BY_WORD, n=1, cutoff=0.5)
    hint = f"did you mean {_BY_WORD[near[0]].name!r}? " if near else ""
    raise PayoffError(
        f"there is no payoff named {name!r}; {hint}The names: {', '.join(PRESETS)}"
    )


def role_payoffs(
    payoff: Float64[np.ndarray, "2 2 2"],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns (R, S, T, P) of each player of a game of two actions, `[2, 2, 2]`."""
    one, two = payoff[..., 0].ravel(), payoff[..., 1].T.ravel()
    return tuple(map(float, one)), tuple(map(float, two))


def symmetric(
    reward: float, sucker: float, temptation: float, punishment: float
) -> PayoffRows:
    """Returns the payoff of a symmetric game of two actions, `[2][2][2]`."""
    return (
        ((reward, reward), (sucker, temptation)),
        ((temptation, sucker), (punishment, punishment)),
    )


def _both(order: Callable[..., bool], payoff: np.ndarray) -> bool:
    return all(order(*own) for own in role_payoffs(payoff))


def _prisoners_dilemma(r: float, s: float, t: float, p: float) -> bool:
    return t > r > p > s and 2 * r > t + s


def _chicken(r: float, s: float, t: float, p: float) -> bool:
    return t > r > s > p


def _stag_hunt(r: float, s: float, t: float, p: float) -> bool:
    return r > t >= p > s


def _deadlock(r: float, s: float, t: float, p: float) -> bool:
    return t > p > r > s


def _matching_pennies(payoff: np.ndarray) -> bool:
    (r, s, t, p), _ = role_payoffs(payoff)
    return _zero_sum(payoff) and min(r, p) > max(s, t)


def _battle_of_the_sexes(payoff: np.ndarray) -> bool:
    (r1, s1, t1, p1), (r2, s2, t2, p2) = role_payoffs(payoff)
    return r1 > p1 > max(s1, t1) and p2 > r2 > max(s2, t2)


def _pure_coordination(payoff: np.ndarray) -> bool:
    (r, s, t, p), other = role_payoffs(payoff)
    return other == (r, t, s, p) and r == p > max(s, t)


def _rock_paper_scissors(payoff: np.ndarray) -> bool:
    own = payoff[..., 0]
    beaten = (own[0, 1], own[1, 2], own[2, 0])
    return _zero_sum(payoff) and np.array_equal(own, -own.T) and max(beaten) < 0


def _zero_sum(payoff: np.ndarray) -> bool:
    return not payoff.sum(-1).any()


DILEMMA = "T > R > P > S and 2R > T + S for both players"
ANTI_COORDINATION = "T > R > S > P for both players"

_ALL = (
    Preset(
        "IPD",
        symmetric(-1.0, -3.0, 0.0, -2.0),
        DILEMMA,
        functools.partial(_both, _prisoners_dilemma),
        "Foerster et al., LOLA (2018), in years of prison; the dilemma: Rapoport & "
        "Chammah, Prisoner's Dilemma (1965)",
        ("PrisonersDilemma", "PD"),
    ),
    Preset(
        "AxelrodIPD",
        symmetric(3.0, 0.0, 5.0, 1.0),
        DILEMMA,
        functools.partial(_both, _prisoners_dilemma),
        "Axelrod, The Evolution of Cooperation (1984)",
        ("IPD3051",),
    ),
    Preset(
        "Chicken",
        symmetric(0.0, -1.0, 1.0, -100.0),
        ANTI_COORDINATION,
        functools.partial(_both, _chicken),
        "Lu et al., Model-Free Opponent Shaping (2022); the game: Rapoport & "
        "Chammah, The Game of Chicken (1966)",
    ),
    Preset(
        "StagHunt",
        symmetric(4.0, 1.0, 3.0, 2.0),
        "R > T >= P > S for both players",
        functools.partial(_both, _stag_hunt),
        "Skyrms, The Stag Hunt and the Evolution of Social Structure (2004)",
    ),
    Preset(
        "MatchingPennies",
        (((1.0, -1.0), (-1.0, 1.0)), ((-1.0, 1.0), (1.0, -1.0))),
        "a zero sum in which player 1 wants equal actions and player 2 different ones",
        _matching_pennies,
        "Shoham & Leyton-Brown, Multiagent Systems (2009), section 3.2",
        ("IMP", "MP"),
    ),
    Preset(
        "BattleOfTheSexes",
        (((3.0, 2.0), (0.0, 0.0)), ((0.0, 0.0), (2.0, 3.0))),
        "both players to prefer CC and DD to the rest, player 1 CC and player 2 DD",
        _battle_of_the_sexes,
        "Luce & Raiffa, Games and Decisions (1957), section 5.3",
        ("BoS", "BachOrStravinsky"),
    ),
    Preset(
        "HawkDove",
        symmetric(1.0, 0.0, 2.0, -1.0),
        ANTI_COORDINATION,
        functools.partial(_both, _chicken),
        "Maynard Smith & Price, The Logic of Animal Conflict (1973), with a prize V = "
        "2 and an injury C = 4: R = V/2, T = V, P = (V - C)/2",
    ),
    Preset(
        "Deadlock",
        symmetric(1.0, 0.0, 3.0, 2.0),
        "T > P > R > S for both players",
        functools.partial(_both, _deadlock),
        "Robinson & Goforth, The Topology of the 2x2 Games (2005)",
    ),
    Preset(
        "PureCoordination",
        (((1.0, 1.0), (0.0, 0.0)), ((0.0, 0.0), (1.0, 1.0))),
        "equal rewards, which are the same in CC and DD and lower elsewhere",
        _pure_coordination,
        "Shoham & Leyton-Brown, Multiagent Systems (2009), section 3.2",
        ("Coordination",),
    ),
    Preset(
        "RockPaperScissors",
        (
            ((0.0, 0.0), (-1.0, 1.0), (1.0, -1.0)),
            ((1.0, -1.0), (0.0, 0.0), (-1.0, 1.0)),
            ((-1.0, 1.0), (1.0, -1.0), (0.0, 0.0)),
        ),
        "a zero sum in which 1 beats 0, 2 beats 1 and 0 beats 2",
        _rock_paper_scissors,
        "Shoham & Leyton-Brown, Multiagent Systems (2009), section 3.2",
        ("RPS",),
    ),
)

#: Every preset by name.
PRESETS: dict[str, Preset] = {game.name: game for game in _ALL}


def _word(name: str) -> str:
    stem = re.sub(r"-v\d+$", "", name.strip().rpartition("/")[2])
    return re.sub(r"[\W_]", "", stem).lower()


_BY_WORD = {_word(n): game for game in _ALL for n in (game.name, *game.aliases)}
