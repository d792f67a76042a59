"""Coin games of the literature, and how to make one by name."""

from collections.abc import Mapping
from typing import Any

from paxenv import payoff_parser, registry
from paxenv.envs.coin_game import CoinGame, EnvParams
from paxenv.game import make_game, makes

_ONE_COIN = {
    "num_actions": 4,
    "coins": "single",
    "spawn": "off_agents",
    "egocentric": False,
    "view": "shared",
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Two coins, rewards of all steps paid.
    "pax": {"num_inner_steps": 16},
    # As published: the last step of an inner episode pays nothing and ends the game.
    "pax2022": {
        "num_inner_steps": 16,
        "boundary_reward": "zero",
        "horizon": "terminate",
    },
    # Rutherford et al., JaxMARL (2023), release 0.2.
    "jaxmarl0.2": {
        "num_inner_steps": 10,
        "num_outer_steps": 10,
        "egocentric": False,
        "boundary_reward": "zero",
        "horizon": "terminate",
    },
    # Lu et al., Model-Free Opponent Shaping (2022), the symmetric game: 15 steps of
    # play and a step in which the board is redrawn.
    "mfos2022": {
        "num_inner_steps": 16,
        "num_outer_steps": 16,
        "num_actions": 4,
        "egocentric": False,
        "layout": "CHW",
        "reset_consumes_step": True,
        "extra_planes": True,
        "horizon": "terminate",
    },
    # Foerster et al., Learning with Opponent-Learning Awareness (2018): red wins ties.
    "lola2018": {
        **_ONE_COIN,
        "num_inner_steps": 150,
        "start_overlap": False,
        "tie": "first",
        "layout": "CHW",
        "horizon": "terminate",
    },
    # Zhao et al., Proximal Learning with Opponent-Learning Awareness (2022).
    "pola2022": {**_ONE_COIN, "num_inner_steps": 50, "layout": "flat_CHW"},
}


@makes(CoinGame, EnvParams)
def make(
    preset: str = "pax", *, payoff: Any = None, **options: Any
) -> tuple[CoinGame, EnvParams]:
    """Makes a coin game and returns `(env, params)`.

    Args:
        preset: A key of `PRESETS`; `"pax"` is the default game.
        payoff: Another name for `payoff_matrix`, which may also be text.
        **options: Arguments of `CoinGame`, which win over the preset's, and fields of
            `EnvParams`.

    Raises:
        ValueError: If the preset or an option is unknown or has a bad value.
        PayoffError: If the payoff is not a table of 2x3 numbers; a ValueError.

    Example:
        >>> env, params = make("lola2018", num_inner_steps=20)
    """
    if preset not in PRESETS:
        near = registry.closest(str(preset), list(PRESETS))
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"there is no coin game preset {preset!r}{hint}; "
            f"presets: {', '.join(PRESETS)}"
        )
    if payoff is not None:
        if "payoff_matrix" in options:
            raise ValueError("payoff and payoff_matrix mean the same: give one of them")
        options["payoff_matrix"] = payoff
    if "payoff_matrix" in options:
        options["payoff_matrix"] = payoff_parser.parse_table(
            options["payoff_matrix"], (2, 3), form="2x3 such as [[1,1,-2],[1,1,-2]]"
        )
    return make_game(CoinGame, EnvParams, {**PRESETS[preset], **options})
