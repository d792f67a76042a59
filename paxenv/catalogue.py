"""The games that ship with the package, by id: strings, so that nothing is imported."""

from paxenv.registry import GameSpec

_MATRIX_GAME = "paxenv.envs.iterated_matrix_game:make"


def _matrix_game(
    name: str, game: str, summary: str, opponent: str = "TitForTat"
) -> GameSpec:
    """A named payoff of the iterated matrix game."""
    return GameSpec(f"pax/{name}-v0", _MATRIX_GAME, {"game": game}, opponent, summary)


def _classic_control(id: str, module: str, summary: str) -> GameSpec:
    """A game of one player."""
    entry_point = f"paxenv.envs.classic_control.{module}:make"
    return GameSpec(f"pax/{id}", entry_point, opponent="", summary=summary)


GAMES: tuple[GameSpec, ...] = (
    _matrix_game("IPD", "IPD", "iterated prisoner's dilemma, -1 -3 0 -2"),
    _matrix_game("AxelrodIPD", "AxelrodIPD", "iterated prisoner's dilemma, 3 0 5 1"),
    _matrix_game("Chicken", "Chicken", "chicken: a crash costs 100"),
    _matrix_game(
        "StagHunt", "StagHunt", "stag hunt: cooperating pays most, defecting is safe"
    ),
    _matrix_game("MatchingPennies", "MatchingPennies", "matching pennies, zero-sum"),
    _matrix_game("IMP", "MatchingPennies", "iterated matching pennies"),
    _matrix_game(
        "BattleOfTheSexes", "BattleOfTheSexes", "coordination with opposed preferences"
    ),
    _matrix_game("HawkDove", "HawkDove", "hawk-dove, a mild form of chicken"),
    _matrix_game("Deadlock", "Deadlock", "defection is best for both"),
    _matrix_game(
        "PureCoordination", "PureCoordination", "coordination on either of two actions"
    ),
    _matrix_game(
        "RockPaperScissors",
        "RockPaperScissors",
        "rock, paper, scissors, zero-sum",
        "Random",
    ),
    GameSpec(
        "pax/IteratedMatrixGame-v0",
        _MATRIX_GAME,
        opponent="Random",
        summary="any two-player payoff: 4x2 table or A x B x 2 tensor",
    ),
    GameSpec(
        "pax/InfiniteMatrixGame-v0",
        "paxenv.envs.infinite_matrix_game:make",
        opponent="HyperTFT",
        summary="discounted value of two memory-one policies, exact",
    ),
    GameSpec(
        "pax/IteratedTensorGame-v0",
        "paxenv.envs.iterated_tensor_game:make",
        opponent="Random",
        summary="N players, two actions each or any payoff tensor",
    ),
    GameSpec(
        "pax/CoinGame-v0",
        "paxenv.envs.coin_presets:make",
        opponent="GoodGreedy",
        summary="coins on a 3x3 torus; presets of the published games",
    ),
    _classic_control("CartPole-v1", "cart_pole", "balance a pole on a cart"),
    _classic_control("Acrobot-v1", "acrobot", "swing two links above a bar"),
    _classic_control("MountainCar-v0", "mountain_car", "swing a car up a hill"),
    _classic_control("Pendulum-v1", "pendulum", "swing up and hold, by a torque"),
)
