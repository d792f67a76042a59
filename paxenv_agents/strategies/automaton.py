"""Finite automata, the exact form of a deterministic strategy of a two-player game."""

import dataclasses


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
