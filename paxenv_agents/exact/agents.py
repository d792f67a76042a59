"""Learners of the infinite matrix game that follow exact gradients, by their names."""

import abc
import dataclasses
from typing import Annotated, Any, ClassVar, Literal, Self

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from paxenv import payoffs, spaces
from paxenv.environment import Environment
from paxenv.options import (
    Count,
    Rule,
    Weight,
    check,
    documented,
    is_real,
    one_of,
    option,
)
from paxenv.params import as_floats
from paxenv_agents import structure
from paxenv_agents.exact import gradients, proximal, training
from paxenv_agents.exact.games import memory_one
from paxenv_agents.exact.training import Method
from paxenv_agents.learners.learner import Learner
from paxenv_agents.registry import PairingError
from paxenv_agents.types import (
    Acted,
    Hyperparameters,
    KeyLike,
    MemoryState,
    Sample,
    Stats,
    Terms,
    TrainingState,
)

OpenShare = Annotated[
    float, Rule(lambda x: is_real(x) and 0 < x < 1, "a number in (0, 1)")
]

STATES = ("CC", "CD", "DC", "DD", "START")
NUM_LOGITS = len(STATES)
#: Where in `memory.hidden` the flags are, behind the logits.
OPENED, SEEN = NUM_LOGITS, NUM_LOGITS + 1
#: Logits of the other's that float32 probabilities tell apart end below this.
MAX_LOGIT = 20.0


@documented
@dataclasses.dataclass(frozen=True)
class ExactConfig:
    """Options that exact learners share."""

    learning_rate: Weight = option(
        1.0,
        "Step size delta of the agent's own steps, for values that are sums of "
        "discounted rewards and not means.",
    )
    init_scale: Weight = option(
        1.0, "Standard deviation of the first logits; the outcome depends on it."
    )

    def __post_init__(self) -> None:
        check(self)


@dataclasses.dataclass(frozen=True)
class ExactLearner(Learner, abc.ABC):
    """A memory-one policy of the infinite matrix game that follows exact gradients.

    It plays five logits. At every step it sees what both played at the step before,
    as probabilities, and moves its logits by its rule in the game between its own
    logits and the other's. So a game of T steps holds T steps of learning, the last
    of which is made by `update`: T steps of one inner episode, T inner episodes of
    one step, and T trials of one step are the same numbers.

    * `state.params` are the logits with which every game of a trial opens.
    * `memory.hidden` holds the current logits of this game, a flag for whether there
      are any, and a flag for whether the next observation is of a pair that this game
      has played.
    * `memory.extras` holds the payoff, the own column first, and the discount, as
      `observe_params` was told them.
    * `update` takes the step from the last pair, and the mean over the games.

    Its own logits are never inferred from probabilities. Those of the other player are,
    because look-ahead steps are taken in logits. Beyond a logit of about 16 a float32
    probability says only that the logit is large, and larger logits than 20 are taken
    as 20.

    With `hyper["enabled"]` at 0 the agent does not learn, also within a game. A slot
    that does not learn still adapts within an episode, and forgets it after the trial.

    Attributes:
        config: Static options.
        adapts: Whether it may meet a second step of an inner episode. If not, `policy`
            holds no gradients, which halves the time of a compile, and plays NaN there.

    Raises:
        PairingError: If the seat is not one of the infinite matrix game.
    """

    config: Any = ExactConfig()
    adapts: bool = True

    hyper: ClassVar[tuple[str, ...]] = ("learning_rate",)

    def __post_init__(self) -> None:
        seat, action = self.observation_space, self.action_space
        boxes = all(isinstance(s, gymnasium.spaces.Box) for s in (seat, action))
        shapes = ((2 * NUM_LOGITS,), (NUM_LOGITS,))
        if not boxes or (seat.shape, action.shape) != shapes:
            raise PairingError(
                "it needs the infinite matrix game, which shows both players' "
                f"{NUM_LOGITS} probabilities and takes {NUM_LOGITS} logits; got the "
                f"spaces {seat} and {action}"
            )
        self.check_config(self.config)

    @classmethod
    def for_seat(cls, env: Environment, player: int, **fields: Any) -> Self:
        """Returns the agent; it adapts only if an episode has several steps."""
        adapts = getattr(env, "num_inner_steps", 2) > 1
        return super().for_seat(env, player, **{"adapts": adapts, **fields})

    @abc.abstractmethod
    def method(self, hyper: Hyperparameters) -> Method:
        """Returns how the own logits are learnt, in the game of player 0's values.

        Args:
            hyper: Traced options; the own rate is 0 where nothing is to be learnt.
        """

    @property
    def stores_hiddens(self) -> Literal["first"]:
        return "first"

    @property
    def hidden_size(self) -> int:
        """The logits and two flags."""
        return NUM_LOGITS + 2

    def init_params(self, key: KeyLike) -> Float[Array, " logits"]:
        logits = jax.random.normal(key, (NUM_LOGITS,))
        return jnp.float32(self.config.init_scale) * logits.astype(jnp.float32)

    def init_opt_state(self, params: PyTree) -> tuple[()]:
        """Returns nothing: its steps need no memory."""
        del params
        return ()

    def init_memory(
        self, key: Key[Array, ""], hidden: Float[Array, " H"]
    ) -> MemoryState:
        memory = super().init_memory(key, hidden)
        # Without a call of `observe_params` the policy is NaN from the second step on.
        unknown = {
            "payoff": jnp.full((4, 2), jnp.nan, jnp.float32),
            "gamma": jnp.zeros((), jnp.float32),
        }
        return memory.replace(extras={**memory.extras, **unknown})

    def observe_params(
        self, memory: MemoryState, params: Any, player: Int[Array, ""] | int
    ) -> MemoryState:
        """Returns the memory with the payoff as this seat sees it, and the discount.

        Raises:
            ValueError: If the numbers have no payoff or no discount.
        """
        if not (hasattr(params, "payoff_matrix") and hasattr(params, "gamma")):
            raise ValueError(
                f"{type(self).__name__} learns from `payoff_matrix` and `gamma` of the "
                f"infinite matrix game, got {type(params).__name__}"
            )
        cells = payoffs.as_cells(as_floats(params.payoff_matrix), (2, 2))
        # What is CD to player 1 is DC to player 2.
        mirrored = cells[jnp.array([0, 2, 1, 3])][:, ::-1]
        own = jnp.where(jnp.asarray(player) == 0, cells, mirrored)
        extras = {
            **memory.extras,
            "payoff": own.astype(jnp.float32),
            "gamma": jnp.asarray(params.gamma, jnp.float32),
        }
        return memory.replace(extras=extras)

    @structure.compiled_method
    def policy(self, state: TrainingState, obs: PyTree, memory: MemoryState) -> Acted:
        """Learns from the last pair, if there is one, and plays the logits.

        The action is clipped to its Box; the logits are not.
        """
        if self.adapts:
            logits = self._moved(state, obs, memory)
        else:
            logits = jnp.where(
                memory.hidden[SEEN] > 0, jnp.nan, _own(state, memory.hidden)
            )
        space = self.action_space
        assert isinstance(space, gymnasium.spaces.Box)
        action = jnp.clip(logits, space.low, space.high).astype(spaces.dtype_of(space))
        hidden = jnp.concatenate((logits, jnp.ones(2, jnp.float32)))
        return action, state, memory.replace(hidden=hidden)

    batch_policy = structure.compiled_method(Learner.batch_policy)

    def end_inner_episode(
        self, state: TrainingState, memory: MemoryState
    ) -> MemoryState:
        """Keeps the logits; the opening observation shows no pair to learn from."""
        return memory.replace(hidden=memory.hidden.at[SEEN].set(0.0))

    def evaluate(self, state: TrainingState, sample: Sample) -> Terms:
        """Returns zeros: the policy draws nothing and estimates no value."""
        del state
        zeros = jnp.zeros_like(sample.behavior_log_probs)
        return zeros, zeros, zeros

    @structure.compiled_method
    def update(
        self, traj: Sample, last_obs: PyTree, state: TrainingState, memory: MemoryState
    ) -> tuple[TrainingState, MemoryState, Stats]:
        """Learns from the last pair of every game and keeps the mean of the logits."""
        logits = jax.vmap(self._moved, in_axes=(None, 0, 0))(state, last_obs, memory)
        mean = logits.mean(0)
        timesteps = state.timesteps + jnp.sum(traj.valid, dtype=jnp.int32)
        learnt = state.replace(params=mean, timesteps=timesteps)
        flags = jnp.array([1.0, 0.0], jnp.float32)
        hidden = jnp.broadcast_to(jnp.concatenate((mean, flags)), memory.hidden.shape)
        enabled = state.hyper["enabled"] > 0
        stats = {"step_length": jnp.linalg.norm(mean - state.params)}
        stats |= {
            f"cooperation/{name}": jax.nn.sigmoid(mean[i])
            for i, name in enumerate(STATES)
        }
        state, hidden = jax.tree.map(
            lambda new, old: jnp.where(enabled, new, old),
            (learnt, hidden),
            (state, memory.hidden),
        )
        return state, memory.replace(hidden=hidden), stats

    def rollout_length(self, num_games: int) -> int:
        """Raises ValueError: it learns in trials, not in endless play."""
        raise ValueError(
            f"{type(self).__name__} learns at every step of a trial and not in endless "
            "play: `paxrun rl` trains it"
        )

    def _moved(
        self, state: TrainingState, obs: PyTree, memory: MemoryState
    ) -> jax.Array:
        """Returns the logits of one game after what `obs` shows."""
        hidden, told = memory.hidden, memory.extras
        own = _own(state, hidden)
        learns = (hidden[SEEN] > 0) & (state.hyper["enabled"] > 0)
        # At the rate 0 a method that iterates stops at once.
        rate = jnp.where(learns, state.hyper["learning_rate"], 0.0)
        params = own, bounded_logits(obs[NUM_LOGITS:])
        values = memory_one(told["payoff"], told["gamma"])
        method = self.method({**state.hyper, "learning_rate": rate})
        after = method(values, params, 0)
        return jnp.where(learns, after, own).astype(jnp.float32)


def _own(state: TrainingState, hidden: jax.Array) -> jax.Array:
    """Returns the logits of a game: those that it has come to, or those at first."""
    return jnp.where(hidden[OPENED] > 0, hidden[:NUM_LOGITS], state.params)


def bounded_logits(
    probabilities: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    """Returns the logits of probabilities, within `MAX_LOGIT` of 0."""
    bound = np.float32(MAX_LOGIT)
    logits = jnp.log(probabilities) - jnp.log1p(-probabilities)
    return jnp.clip(logits, -bound, bound)


@dataclasses.dataclass(frozen=True)
class NaiveExact(ExactLearner):
    """Ascends its own value, as if the other player did not learn.

    Source: Foerster et al., LOLA (2018), section 3.
    """

    def method(self, hyper: Hyperparameters) -> Method:
        return training.naive(hyper["learning_rate"])


@documented
@dataclasses.dataclass(frozen=True)
class LOLAExactConfig(ExactConfig):
    """Options of `LOLAExact`."""

    lookahead_rate: Weight = option(
        1.0, "Step size eta of the step that the other player is expected to take."
    )
    form: Annotated[str, one_of(*gradients.FORMS)] = option(
        "taylor",
        'Published form of the gradient: `"taylor"`, `"full"` or `"lookahead"`; see '
        "`paxenv_agents.exact.gradients.lola`.",
    )


@dataclasses.dataclass(frozen=True)
class LOLAExact(ExactLearner):
    """Ascends its own value through the naive step that it makes the other take.

    Source: Foerster et al., Learning with Opponent-Learning Awareness (2018).
    """

    config: Any = LOLAExactConfig()

    hyper: ClassVar[tuple[str, ...]] = ("learning_rate", "lookahead_rate")

    def method(self, hyper: Hyperparameters) -> Method:
        return training.lola(
            hyper["learning_rate"], hyper["lookahead_rate"], self.config.form
        )


@documented
@dataclasses.dataclass(frozen=True)
class SOSConfig(ExactConfig):
    """Options of `SOS`."""

    lookahead_rate: Weight = option(
        1.0, "Step size of the steps that all players are expected to take."
    )
    a: OpenShare = option(0.5, "How far shaping may turn the joint direction.")
    b: OpenShare = option(
        0.1, "Norm of the joint naive gradient below which shaping fades."
    )


@dataclasses.dataclass(frozen=True)
class SOS(ExactLearner):
    """Stable Opponent Shaping: LOLA that stays where naive learning would stay.

    Its share of shaping is computed as if both players learnt by SOS.

    Source: Letcher et al., Stable Opponent Shaping in Differentiable Games (2019).
    """

    config: Any = SOSConfig()

    hyper: ClassVar[tuple[str, ...]] = ("learning_rate", "lookahead_rate")

    def method(self, hyper: Hyperparameters) -> Method:
        config = self.config
        return training.sos(
            hyper["learning_rate"], hyper["lookahead_rate"], config.a, config.b
        )


@documented
@dataclasses.dataclass(frozen=True)
class POLAConfig(ExactConfig):
    """Options of `POLA`; `paxenv_agents.exact.proximal.pola` explains the steps."""

    learning_rate: float = option(0.3, "Step size of the outer ascent.")
    init_scale: float = option(0.1, "Standard deviation of the first logits.")
    lookahead_rate: Weight = option(5.0, "Step size of the inner ascent.")
    outer_beta: Weight = option(
        0.1, "Weight of the divergence from the agent's own policy before the update."
    )
    inner_beta: Weight = option(
        0.0, "Weight of the other player's divergence from its policy."
    )
    outer_steps: Count = option(1000, "Largest number of steps of the outer ascent.")
    inner_steps: Count = option(1, "Number of steps of the inner ascent.")


@dataclasses.dataclass(frozen=True)
class POLA(ExactLearner):
    """Proximal LOLA: steps measured in policies, each solved by an ascent of its own.

    Source: Zhao et al., Proximal Learning with Opponent-Learning Awareness (2022).
    """

    config: Any = POLAConfig()

    hyper: ClassVar[tuple[str, ...]] = (
        *("learning_rate", "lookahead_rate", "outer_beta", "inner_beta"),
    )

    def method(self, hyper: Hyperparameters) -> Method:
        return proximal.pola(
            hyper["learning_rate"],
            hyper["lookahead_rate"],
            outer_beta=hyper["outer_beta"],
            inner_beta=hyper["inner_beta"],
            outer_steps=self.config.outer_steps,
            inner_steps=self.config.inner_steps,
        )
