"""Hyper: a policy over memory-one policies, for the infinite matrix game."""

import dataclasses

import jax
import jax.numpy as jnp

from paxenv.options import documented
from paxenv_agents.learners.policy_gradient import PolicyGradient
from paxenv_agents.learners.ppo import PPOConfig
from paxenv_agents.networks.distributions import (
    ClippedGaussian,
    Distribution,
    for_space,
)
from paxenv_agents.registry import PairingError

NUM_LOGITS = 5


@documented
@dataclasses.dataclass(frozen=True)
class HyperConfig(PPOConfig):
    """Options of Hyper: those of `PPOConfig` except three that are fixed.

    `action_scale`, `action_bound` and `tabular` are fixed: standard deviations are
    state-independent, and logits are not squashed.
    """

    learning_rate: float = 0.002
    hidden_sizes: tuple[int, ...] = (16,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("action_scale", "action_bound", "tabular"):
            if getattr(self, name) != getattr(PPOConfig, name):
                raise ValueError(
                    f"{name} must be {getattr(PPOConfig, name)!r} for Hyper, whose "
                    "logits are normal with a standard deviation of their own each"
                )


class LogitGaussian(ClippedGaussian):
    """Independent normal logits in their own unit; only the Box's bounds clip them."""

    @property
    def _centre(self) -> jax.Array:
        return jnp.zeros(len(self.low), jnp.float32)

    @property
    def _half(self) -> jax.Array:
        return jnp.ones(len(self.low), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Hyper(PolicyGradient):
    """PPO whose action is a memory-one policy: five logits of cooperating.

    It observes the probabilities of the last pair of policies, its own first, and draws
    its next logits from a diagonal normal distribution. A network computes the means;
    the standard deviations, 0.5 at first, depend on no observation. The logits are not
    squashed. With `greedy` they are the means: searched by evolution, this is the exact
    form of model-free opponent shaping.

    Raises:
        PairingError: If the seat is not one of the infinite matrix game.

    Source: Lu et al., Model-Free Opponent Shaping (2022), section 4.

    Example:
        >>> env, params = paxenv.make("InfiniteMatrixGame-v0", num_inner_steps=100)
        >>> agent = Hyper.from_env(env, player=0, gamma=0.96)
    """

    config: HyperConfig = HyperConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = self.observation_space.shape, self.action_space.shape
        if shapes != ((2 * NUM_LOGITS,), (NUM_LOGITS,)):
            raise PairingError(
                f"it needs the infinite matrix game, which shows {2 * NUM_LOGITS} "
                f"probabilities and takes {NUM_LOGITS} logits, got "
                f"{self.observation_space} and {self.action_space}"
            )

    @property
    def distribution(self) -> Distribution:
        box = for_space(self.action_space, self.config.action_scale, "scaled")
        if not isinstance(box, ClippedGaussian):
            raise PairingError(f"it needs a Box of logits, got {self.action_space}")
        return LogitGaussian(**dataclasses.asdict(box))
