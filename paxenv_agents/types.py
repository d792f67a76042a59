"""Types that agents, games' runners and experiments share, each defined once."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Key, Num, UInt32


class TrainingState(struct.PyTreeNode):
    """All that training changes, and acting never. Fixed strategies leave it empty.

    Attributes:
        params: Numbers of the policy.
        opt_state: State of the optimiser.
        key: Key of the learner's own draws, advanced by `update` alone.
        timesteps: Environment steps learnt from. int32 scalar.
        hyper: Traced hyperparameters by name, float32 scalars: schedules, samplers
            and searches write here.
        replay: Experience kept for later updates (`paxenv_agents.learners.replay`),
            part of what is checkpointed. Learners that keep none leave it empty.
    """

    params: Any = ()
    opt_state: Any = ()
    key: Any = ()
    timesteps: Any = ()
    hyper: Any = struct.field(default_factory=dict)
    replay: Any = ()

    @property
    def step(self) -> Any:
        """Environment steps learnt from, by the name that other libraries use."""
        return self.timesteps

    @property
    def rng(self) -> Any:
        """The key, by the name that other libraries use."""
        return self.key


class MemoryState(struct.PyTreeNode):
    """What an agent carries from step to step in one game (batched: many games).

    Attributes:
        hidden: `[H]`, everything that a loss must restore; H may be 0.
        key: The lane's key. `policy` draws from `fold_in(key, 0)` and returns
            `fold_in(key, 1)`; engines write the scheduled key before every call.
        extras: For learners `log_probs` and `values`, the behaviour of the last call.
    """

    hidden: Any
    key: Any = ()
    extras: Any = struct.field(default_factory=dict)


class Sample(NamedTuple):
    """A learner's experience, time-major: leaves are `[T, E, ...]`.

    A trial of K inner episodes is `[K * T, E, ...]`. E is opponents x seats x games,
    games fastest. Flags are on the learner's own clock.

    Attributes:
        observations: What the agent saw.
        actions: What it did.
        rewards: What it was paid; 0 where not valid.
        behavior_log_probs: Log-probability of the action when it was taken.
        behavior_values: Value estimate when the action was taken.
        dones: Whether the step terminated the learner's episode.
        hiddens: Hidden state before the step, `[T, E, H]` (or the first, `[1, E, H]`).
        truncations: Whether a time limit cut the learner's episode at this step.
        final_values: Value of the observation to which a truncated step led; 0
            elsewhere.
        valid: Whether the step was played. Other steps have no reward and no weight in
            losses, and count in no mean.
        inner_ends: Whether this was the last valid step of an inner episode.
        final_obs: The observation to which the step led, only for agents that store it.
    """

    observations: Any
    actions: Any
    rewards: Any
    behavior_log_probs: Any
    behavior_values: Any
    dones: Any
    hiddens: Any
    truncations: Any = None
    final_values: Any = None
    valid: Any = None
    inner_ends: Any = None
    final_obs: Any = None

    def with_flags(self) -> "Sample":
        """Returns the sample with those flags that it may leave out.

        Then every step was played, none was cut, and no inner episode ended.
        """
        no = jnp.zeros(self.rewards.shape, bool)
        usual = {
            "truncations": no,
            "final_values": no.astype(jnp.float32),
            "valid": ~no,
            "inner_ends": no,
        }
        left_out = {n: x for n, x in usual.items() if getattr(self, n) is None}
        return self._replace(**left_out)


#: A key: a typed one, or the two words of an old one.
KeyLike = Key[Array, ""] | UInt32[Array, "2"]
Stats = dict[str, jax.Array]
#: Numbers of a learner that may change from update to update, float32 scalars by name.
Hyperparameters = dict[str, jax.Array]
#: What `policy` returns: an action, the training state as it was, and the memory.
Acted = tuple[Num[Array, "*action"], TrainingState, MemoryState]
#: What `evaluate` returns and losses read: log-probabilities, values and entropies.
Terms = tuple[Float[Array, "T E"], Float[Array, "T E"], Float[Array, "T E"]]
