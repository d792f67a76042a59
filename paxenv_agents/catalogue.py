"""The agents that ship with the package, by name: strings, so that nothing is imported.

The entries of `classifier` are `plays` (the kind of game), `memory_depth` (how many
past joint actions the agent looks at), `stochastic` (whether it draws) and `learns`.
"""

import math
from typing import Any

from paxenv_agents.registry import AgentSpec

AXELROD = "Axelrod, The Evolution of Cooperation (1984)"
PAX = "Willi et al., Pax: Scalable Opponent Shaping in JAX (2023)"
COIN = (
    "Lerer & Peysakhovich, Maintaining cooperation in complex social dilemmas using "
    "deep reinforcement learning (2017), for the game; the rule is this package's"
)
NOWAK_SIGMUND_1992 = "Nowak & Sigmund, Tit for tat in heterogeneous populations (1992)"
PAVLOV = (
    "Nowak & Sigmund, A strategy of win-stay, lose-shift that outperforms tit-for-tat "
    "in the Prisoner's Dilemma game (1993)"
)
ZERO_DETERMINANT = (
    "Press & Dyson, Iterated Prisoner's Dilemma contains strategies that dominate any "
    "evolutionary opponent (2012)"
)
PPO_PAPER = "Schulman et al., Proximal Policy Optimization Algorithms (2017)"
REINFORCE = (
    "Williams, Simple statistical gradient-following algorithms for connectionist "
    "reinforcement learning (1992)"
)

LOLA_PAPER = "Foerster et al., Learning with Opponent-Learning Awareness (2018)"
MFOS_PAPER = "Lu et al., Model-Free Opponent Shaping (2022)"
SHAPER_PAPER = "Khan et al., Scaling Opponent Shaping to High Dimensional Games (2024)"
GOOD_SHEPHERD = (
    "Balaguer et al., The Good Shepherd: An Oracle Agent for Mechanism Design (2022)"
)
N_PLAYERS = (
    "Axelrod (1984) for TitForTat; its forms for several others: Willi et al., Pax: "
    "Scalable Opponent Shaping in JAX (2023), and Souly et al., Leading the Pack: "
    "N-player Opponent Shaping (2023)"
)

_STRATEGIES = "paxenv_agents.strategies"


def _plays(plays: str, memory_depth: float, stochastic: bool = False) -> dict[str, Any]:
    return {"plays": plays, "memory_depth": memory_depth, "stochastic": stochastic}


def _vector(
    name: str, p: tuple[float, ...], p0: float, summary: str, source: str = AXELROD
) -> AgentSpec:
    """A deterministic memory-one strategy: P(cooperate) after CC, CD, DC, DD, START."""
    return AgentSpec(
        name,
        f"{_STRATEGIES}.memory_one:MemoryOne",
        {"p": p, "p0": p0},
        summary,
        source,
        _plays("matrix", memory_depth=1),
    )


def _constant(name: str, action: int, summary: str) -> AgentSpec:
    return AgentSpec(
        name,
        f"{_STRATEGIES}.constant:Constant",
        {"action": action},
        summary,
        AXELROD,
        _plays("matrix", memory_depth=0),
    )


def _logits(name: str, logits: tuple[float, ...], summary: str) -> AgentSpec:
    return AgentSpec(
        name,
        f"{_STRATEGIES}.constant:ConstantLogits",
        {"logits": logits},
        summary,
        PAX,
        _plays("infinite", memory_depth=0),
    )


def _coin(
    name: str, rule: str, kwargs: dict[str, Any], summary: str, source: str = PAX
) -> AgentSpec:
    return AgentSpec(
        name,
        f"{_STRATEGIES}.coin:{rule}",
        kwargs,
        summary,
        source,
        _plays("coin", memory_depth=0, stochastic=kwargs.get("tie") == "random"),
    )


def _tensor(name: str, rule: str, summary: str) -> AgentSpec:
    return AgentSpec(
        f"TitForTat{name}",
        f"{_STRATEGIES}.tensor:{rule}",
        {},
        summary,
        N_PLAYERS,
        _plays("tensor", memory_depth=1),
    )


def _learner(
    name: str,
    entry: str,
    summary: str,
    source: str,
    *,
    depth: float = 0,
    **options: Any,
) -> AgentSpec:
    classifier = {"learns": True, **_plays("any", depth, stochastic=True)}
    return AgentSpec(
        name, f"paxenv_agents.learners.{entry}", options, summary, source, classifier
    )


def _exact(name: str, summary: str, source: str) -> AgentSpec:
    classifier = {"learns": True, **_plays("infinite", memory_depth=1)}
    return AgentSpec(
        name, f"paxenv_agents.exact.agents:{name}", {}, summary, source, classifier
    )


AGENTS: tuple[AgentSpec, ...] = (
    # Any game.
    AgentSpec(
        "Random",
        f"{_STRATEGIES}.constant:Random",
        {},
        "Draws every action uniformly.",
        AXELROD,
        _plays("any", memory_depth=0, stochastic=True),
    ),
    # Matrix and tensor games of two actions.
    _constant("Altruistic", 0, "Always cooperates."),
    _constant("AllC", 0, "Always cooperates (another name of Altruistic)."),
    _constant("Defect", 1, "Always defects."),
    _constant("AllD", 1, "Always defects (another name of Defect)."),
    # Two-player matrix games of two actions.
    AgentSpec(
        "MemoryOne",
        f"{_STRATEGIES}.memory_one:MemoryOne",
        {},
        "Cooperates with the given probabilities p after CC, CD, DC, DD; p0 at first.",
        "Nowak & Sigmund, The evolution of stochastic strategies in the Prisoner's "
        "Dilemma (1990)",
        _plays("matrix", memory_depth=1, stochastic=True),
    ),
    _vector(
        "TitForTat",
        (1, 0, 1, 0),
        1,
        "Cooperates at first, then repeats the other's last action.",
    ),
    _vector(
        "SuspiciousTitForTat",
        (1, 0, 1, 0),
        0,
        "Defects at first, then repeats the other's last action.",
    ),
    _vector(
        "Grim",
        (1, 0, 0, 0),
        1,
        "Cooperates until the other defects, then defects to the end of the episode.",
        "Friedman, A non-cooperative equilibrium for supergames (1971)",
    ),
    _vector(
        "WinStayLoseShift",
        (1, 0, 0, 1),
        1,
        "Repeats its action after the other cooperated, else changes it.",
        PAVLOV,
    ),
    _vector(
        "Alternator",
        (0, 0, 1, 1),
        1,
        "Cooperates at first, then does the opposite of what it did last.",
        "Mittal & Deb, Optimal strategies of the iterated prisoner's dilemma problem "
        "for multiple conflicting objectives (2009)",
    ),
    AgentSpec(
        "GenerousTitForTat",
        f"{_STRATEGIES}.memory_one:GenerousTitForTat",
        {},
        "TitForTat that forgives a defection with probability `generosity`.",
        NOWAK_SIGMUND_1992,
        _plays("matrix", memory_depth=1, stochastic=True),
    ),
    AgentSpec(
        "ZeroDeterminant",
        f"{_STRATEGIES}.zero_determinant:ZeroDeterminant",
        {},
        "Enforces a linear relation of slope `chi` between both players' payoffs.",
        ZERO_DETERMINANT,
        _plays("matrix", memory_depth=1, stochastic=True),
    ),
    # Games of two actions and any number of players.
    _tensor(
        "StrictStay",
        "StrictStay",
        "Copies the others if they agree, else repeats its own last action.",
    ),
    _tensor(
        "StrictSwitch",
        "StrictSwitch",
        "Copies the others if they agree, else changes its own last action.",
    ),
    _tensor(
        "Cooperate",
        "UnlessAllDefect",
        "Copies the others if they agree, else cooperates.",
    ),
    _tensor(
        "Defect", "IfAllCooperate", "Copies the others if they agree, else defects."
    ),
    _tensor("Harsh", "IfAllCooperate", "Defects if any of the others defected."),
    _tensor("Soft", "Majority", "Defects if more than half of the others defected."),
    # The coin game, with two coins and five actions.
    _coin("OwnCoin", "OwnCoin", {}, "Walks to its own coin.", COIN),
    _coin("Dodger", "Dodger", {}, "Walks to its own coin round the other's.", COIN),
    _coin(
        "AnyCoin",
        "NearestCoin",
        {"tie": "own", "walk": "column_first"},
        "Walks to the nearer coin, at equal distances to its own.",
        COIN,
    ),
    _coin(
        "GoodGreedy",
        "NearestCoin",
        {"tie": "own"},
        "Walks to the nearer coin, at equal distances to its own.",
    ),
    _coin(
        "EvilGreedy",
        "NearestCoin",
        {"tie": "other"},
        "Walks to the nearer coin, at equal distances to the other's.",
    ),
    _coin(
        "RandomGreedy",
        "NearestCoin",
        {"tie": "random"},
        "Walks to the nearer coin, at equal distances to either.",
    ),
    _coin("Stay", "Stay", {}, "Never moves."),
    # The infinite matrix game.
    _logits("HyperAltruistic", (20, 20, 20, 20, 20), "Plays the policy of AllC."),
    _logits("HyperDefect", (-20, -20, -20, -20, -20), "Plays the policy of AllD."),
    _logits("HyperTFT", (20, -20, 20, -20, 20), "Plays the policy of TitForTat."),
    # Learners.
    _learner("PPO", "ppo:PPO", "Proximal policy optimisation.", PPO_PAPER),
    _learner(
        "Tabular",
        "ppo:PPO",
        "PPO with a row of logits and a value for each state.",
        PPO_PAPER,
        tabular=True,
    ),
    _learner(
        "RecurrentPPO",
        "ppo:RecurrentPPO",
        "PPO with a gated recurrent unit, trained through time.",
        PPO_PAPER,
        depth=math.inf,
    ),
    _learner(
        "PPO_memory",
        "ppo:RecurrentPPO",
        "RecurrentPPO under its name in Pax.",
        PPO_PAPER,
        depth=math.inf,
    ),
    _learner(
        "DQN",
        "dqn:DQN",
        "Deep Q-learning from replay.",
        "Mnih et al., Human-level control through deep reinforcement learning (2015)",
    ),
    _learner(
        "SAC",
        "sac:SAC",
        "Soft actor-critic from replay, over a Box.",
        "Haarnoja et al., Soft Actor-Critic Algorithms and Applications (2018)",
    ),
    _learner(
        "GoodShepherd",
        "ppo:PPO",
        "PPO for a whole trial: one policy without memory.",
        GOOD_SHEPHERD,
    ),
    _learner(
        "Shaper",
        "shapers:Shaper",
        "Recurrent PPO that remembers for a whole trial.",
        SHAPER_PAPER,
        depth=math.inf,
    ),
    _learner(
        "MFOS",
        "shapers:MFOS",
        "Recurrent PPO that a meta policy steers from episode to episode.",
        MFOS_PAPER,
        depth=math.inf,
    ),
    AgentSpec(
        "Hyper",
        "paxenv_agents.learners.hyper:Hyper",
        {},
        "PPO over the logits of a memory-one policy.",
        MFOS_PAPER,
        {"learns": True, **_plays("infinite", memory_depth=1, stochastic=True)},
    ),
    _learner("Naive", "naive:Naive", "REINFORCE with a learnt baseline.", REINFORCE),
    # Learners with exact gradients, in the infinite matrix game.
    _exact("NaiveExact", "Follows the exact gradient of its own value.", LOLA_PAPER),
    _exact(
        "LOLAExact",
        "Follows the exact gradient through the other's naive step.",
        LOLA_PAPER,
    ),
    _exact(
        "SOS",
        "LOLA that keeps the fixed points of naive learning.",
        "Letcher et al., Stable Opponent Shaping in Differentiable Games (2019)",
    ),
    _exact(
        "POLA",
        "LOLA by proximal steps, which limit the change of policies.",
        "Zhao et al., Proximal Learning with Opponent-Learning Awareness (2022)",
    ),
    _learner(
        "LOLA",
        "lola:LOLA",
        "Shapes its co-players by a gradient through their next steps.",
        "Foerster, Farquhar et al., DiCE: The Infinitely Differentiable Monte Carlo "
        "Estimator (2018)",
    ),
)
