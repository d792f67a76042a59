"""Strategies that look back one round at most, and the automata that they are.

They play games of two actions, 0 to cooperate and 1 to defect.
"""

import abc
import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from paxenv import keys, spaces
from paxenv_agents.agent import Agent
from paxenv_agents.registry import PairingError
from paxenv_agents.types import Acted, MemoryState, TrainingState

#: After CC, CD, DC and DD, and at the start.
MEMORY_ONE_STATES = 5


@dataclasses.dataclass(frozen=True)
class Automaton:
    """A Moore machine: it plays its state's output, then reads the other's action.

    It says what a strategy does when its own actions are carried out without error,
    which is what makes a pair of automata solvable exactly (`matches.exact_totals`).

    Attributes:
        outputs: The action played in each state.
        transitions: `transitions[state][other_action]` is the next state.
        initial: The state in which an inner episode opens.

    Raises:
        ValueError: If a transition or the initial state names no state.

    Source: Rubinstein, Finite Automata Play the Repeated Prisoner's Dilemma (1986).
    """

    outputs: tuple[int, ...]
    transitions: tuple[tuple[int, ...], ...]
    initial: int = 0

    def __post_init__(self) -> None:
        if len(self.transitions) != len(self.outputs):
            raise ValueError(
                f"{len(self.outputs)} outputs need as many rows of transitions, "
                f"got {len(self.transitions)}"
            )
        named = {self.initial, *(s for row in self.transitions for s in row)}
        unknown = sorted(named - set(range(len(self.outputs))))
        if unknown:
            raise ValueError(
                f"states must be in [0, {len(self.outputs)}), got {unknown}"
            )


def require_two_actions(action_space: gymnasium.Space) -> None:
    """Raises PairingError unless the actions are 0, cooperate, and 1, defect."""
    if not isinstance(action_space, gymnasium.spaces.Discrete) or action_space.n != 2:
        raise PairingError(
            "it needs a game of two actions, 0 = cooperate and 1 = defect, got the "
            f"action space {action_space}"
        )


@dataclasses.dataclass(frozen=True)
class MemoryOneRule(Agent):
    """A strategy that looks only at the last joint action, from its own side.

    Subclasses say with what probability they cooperate in each of the five states CC,
    CD, DC, DD and START (in CD it cooperated and the other defected). A rule of zeros
    and ones draws nothing; with `greedy`, 0.5 and more cooperates.

    Raises:
        PairingError: If the seat has not two actions and these five observations.
        ValueError: If a probability is outside [0, 1].
    """

    def __post_init__(self) -> None:
        require_two_actions(self.action_space)
        _require_last_joint_action(self.observation_space)
        vector = self.vector
        if len(vector) != MEMORY_ONE_STATES:
            raise ValueError(
                "p must hold four probabilities of cooperating, after CC, CD, DC and "
                f"DD, got {vector[:-1]}"
            )
        if not all(0.0 <= x <= 1.0 for x in vector):
            raise ValueError(
                f"probabilities of cooperating must be in [0, 1], got {vector}"
            )

    @property
    @abc.abstractmethod
    def vector(self) -> tuple[float, ...]:
        """P(cooperate) after CC, CD, DC, DD and at the start."""

    @property
    def deterministic(self) -> bool:
        """Whether the rule is of zeros and ones."""
        return all(x in (0.0, 1.0) for x in self.vector)

    @property
    def automaton(self) -> Automaton | None:
        """The rule as an automaton with one state for each observation, or None."""
        if not self.deterministic:
            return None
        outputs = tuple(int(1.0 - x) for x in self.vector)
        transitions = tuple((2 * own, 2 * own + 1) for own in outputs)
        return Automaton(outputs, transitions, initial=len(outputs) - 1)

    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        seen = spaces.decode_state(obs, self.observation_space)
        if self.greedy or self.deterministic:
            # A select of constants; a gather of five numbers is slower on a CPU.
            actions = [jnp.asarray(x < 0.5, jnp.int32) for x in self.vector]
            return jax.lax.select_n(seen, *actions), state, memory
        chances = [jnp.asarray(x, jnp.float32) for x in self.vector]
        draw = keys.uniform(keys.words(memory.key, 1)[0])
        action = (draw >= jax.lax.select_n(seen, *chances)).astype(jnp.int32)
        return action, state, memory.replace(key=keys.fold_in(memory.key, 1))


@dataclasses.dataclass(frozen=True)
class MemoryOne(MemoryOneRule):
    """The memory-one strategy of a given vector.

    Attributes:
        p: P(cooperate) after CC, CD, DC and DD, own action first.
        p0: P(cooperate) at the opening of an inner episode.

    Example:
        >>> tit_for_tat = MemoryOne.from_env(env, p=(1, 0, 1, 0), p0=1)

    Source: Nowak & Sigmund, The evolution of stochastic strategies in the Prisoner's
    Dilemma (1990).
    """

    _: dataclasses.KW_ONLY
    p: tuple[float, float, float, float]
    p0: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", tuple(float(x) for x in self.p))
        object.__setattr__(self, "p0", float(self.p0))
        super().__post_init__()

    @property
    def vector(self) -> tuple[float, ...]:
        return (*self.p, self.p0)


@dataclasses.dataclass(frozen=True)
class GenerousTitForTat(MemoryOneRule):
    """TitForTat that forgives a defection with a given probability.

    Attributes:
        generosity: P(cooperate) after the other defected. The default is the source's
            min(1 - (T - R) / (R - S), (R - P) / (T - P)) for the payoffs 3/0/5/1; for
            -1/-3/0/-2 that is 1/2.

    Source: Nowak & Sigmund, Tit for tat in heterogeneous populations (1992).
    """

    _: dataclasses.KW_ONLY
    generosity: float = 1 / 3

    @property
    def vector(self) -> tuple[float, ...]:
        return (1.0, float(self.generosity), 1.0, float(self.generosity), 1.0)


def _require_last_joint_action(observation_space: gymnasium.Space) -> None:
    """Raises PairingError unless observations are CC, CD, DC, DD and START."""
    try:
        num_states = spaces.num_states(observation_space)
    except ValueError:
        num_states = 0
    if num_states != MEMORY_ONE_STATES:
        raise PairingError(
            "it needs a two-player game that shows the last joint action as one of "
            f"{MEMORY_ONE_STATES} states, got the observation space {observation_space}"
        )
