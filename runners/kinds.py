"""The runners in one table: what each does, what it needs, and how it is documented."""

import dataclasses
from collections.abc import Mapping
from typing import Any

DEFAULT_LEARNER = "PPO"


@dataclasses.dataclass(frozen=True)
class RunnerKind:
    """A runner, as configs, plans, reports and the command line need it.

    Attributes:
        name: Its name in a config, and that of its command.
        does: What it does, to be read after its name.
        help: The text of `paxrun NAME --help`.
        trains: Whether anybody learns from one iteration to the next.
        evolves: Whether the iteration is a generation, in which agents are searched.
        endless: Whether player 1 alone learns, in play without an end, to whom the
            other players are a part of the game.
        outer: Whether it is a loop one level above training, which trains agents in
            order to evaluate them.
        section: The section of a config that it alone reads.
        only: Settings that it does not have, and the one value that they may have.
        num_evaluations: Number of evaluations of a run whose config gives no interval;
            0: one at the end.
        min_eval_games: Least number of games of an evaluation, unless the config gives
            it.
        base: The settings below a command line that names no experiment; None: those of
            the default experiment, or of the game that is asked for.
        words: The words that its command adds if neither a game nor an experiment is
            named.
    """

    name: str
    does: str
    help: str
    _: dataclasses.KW_ONLY
    trains: bool = True
    evolves: bool = False
    endless: bool = False
    outer: bool = False
    section: str | None = None
    only: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_evaluations: int = 0
    min_eval_games: int = 1
    base: Mapping[str, Any] | None = None
    words: tuple[str, ...] = ()

    @property
    def needs_a_learner(self) -> bool:
        """Whether a run without a learning agent has nothing to do."""
        return self.trains and not self.evolves

    def reads(self, section: str) -> bool:
        """Whether a section of the config that one runner alone reads is its own."""
        return self.section == section


#: Games of an evaluation, at least, where a rollout may be of a single game.
_ENOUGH_GAMES = 32
_NOT_OUTER = {"num_seeds": 1, "num_devices": 1, "fsdp_devices": 1, "eval_interval": 0}

KINDS = {
    kind.name: kind
    for kind in (
        RunnerKind(
            "rl",
            "trains all agents that learn",
            """Train agents by reinforcement learning.

            EXPERIMENT is a stored one, such as ipd/ppo_v_tft (the default); `paxrun
            list experiments` shows all. KEY=VALUE changes a setting:
            num_inner_steps=50, agent1.learning_rate=0.01.
            """,
        ),
        RunnerKind(
            "evo",
            "searches the parameters of player 1, or of several, by evolution, against "
            "others who may learn within each trial",
            """Search an agent's parameters by an evolution strategy.

            Every member of a population plays a trial against opponents that start
            anew and may learn within it. Player 1 is searched unless an agent has `es`.
            EXPERIMENT is a stored one, such as ipd/gs_v_tabular; settings are
            es.strategy=CMA_ES, es.sigma_init=0.1 and so on; `paxrun list es` shows the
            strategies.
            """,
            evolves=True,
            section="es",
            num_evaluations=20,
        ),
        RunnerKind(
            "eval",
            "plays without learning between trials",
            """Play agents against each other without learning.

            Strategies, saved agents (--model-path for player 1, --run-dir for all
            agents of a run), or both. Actions are sampled unless --deterministic.
            """,
            trains=False,
        ),
        RunnerKind(
            "sarl",
            "trains player 1, while the others are a part of the game and do not learn",
            """Train one agent by reinforcement learning.

            Player 1 learns, in rollouts of agent1.n_steps steps of endless play; the
            other players are a part of its game and do not learn. EXPERIMENT is a
            stored one, such as sarl/cartpole_ppo; or choose: --env CartPole, --env IPD
            --agent1 DQN.
            """,
            endless=True,
            min_eval_games=_ENOUGH_GAMES,
        ),
        RunnerKind(
            "online",
            "trains player 1 as `sarl` does, then evaluates it",
            """Train one agent, then evaluate it.

            Player 1 learns for total_timesteps steps; the other players are a part of
            its game and do not learn. Without a game it is CartPole.
            """,
            endless=True,
            outer=True,
            only=_NOT_OUTER,
            min_eval_games=_ENOUGH_GAMES,
            base={"num_envs": 8, "agents": [{"name": DEFAULT_LEARNER}]},
            words=("env=CartPole",),
        ),
        RunnerKind(
            "es",
            "searches by evolution around such training",
            """Search by evolution around training.

            Every individual begins with a copy of the same agent, with its own
            parameters, hyperparameters or numbers of the game, trains, and is
            evaluated. EXPERIMENT is a stored one, such as sarl/cartpole_es (the
            default).
            """,
            endless=True,
            outer=True,
            section="search",
            only=_NOT_OUTER,
            min_eval_games=_ENOUGH_GAMES,
            base={
                "num_envs": 8,
                "total_timesteps": 10_240,
                "agents": [{"name": DEFAULT_LEARNER}],
            },
            words=("sarl/cartpole_es",),
        ),
    )
}
#: The runner that alone reads a section of a config.
READ_BY = {kind.section: kind for kind in KINDS.values() if kind.section is not None}


def described() -> str:
    """Returns what the runners do, in one sentence."""
    return "; ".join(f"`{kind.name}` {kind.does}" for kind in KINDS.values()) + "."
