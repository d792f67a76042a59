"""The options that learners from replay share, and the checks of their values."""

import dataclasses

from paxenv.wording import counted
from paxenv_agents import options

BUFFER_SIZE = 100_000
WARMUP_STEPS = 1_000


@dataclasses.dataclass(frozen=True)
class OffPolicyConfig:
    """Options that learners from replay share; `DQNConfig` explains each one."""

    learning_rate: float = 3e-4
    hidden_sizes: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    gamma: float = 0.99
    batch_size: int = 128
    buffer_size: int | None = None
    warmup_steps: int | None = None
    train_every: int = 1
    gradient_steps: int = 1
    target_every: int = 1
    tau: float = 0.005
    n_step: int = 1
    max_grad_norm: float | None = None
    adam_eps: float = 1e-8
    num_envs: int | None = None

    def __post_init__(self) -> None:
        options.check(self, RULES)
        object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        if self.capacity < self.n_step:
            raise ValueError(
                f"buffer_size={self.buffer_size} holds "
                f"{counted(self.capacity, 'step')} of "
                f"{counted(self.num_envs or 1, 'game')}, fewer than "
                f"n_step={self.n_step}"
            )

    @property
    def capacity(self) -> int:
        """The time steps that replay keeps, each of all games."""
        size = BUFFER_SIZE if self.buffer_size is None else self.buffer_size
        return size // (self.num_envs or 1)

    @property
    def warmup(self) -> int:
        """Environment steps of random actions."""
        return WARMUP_STEPS if self.warmup_steps is None else self.warmup_steps


RULES: dict[str, options.Rule] = {
    "learning_rate": options.WEIGHT,
    "hidden_sizes": options.WIDTHS,
    "activation": options.ACTIVATION,
    "gamma": options.SHARE,
    "batch_size": options.COUNT,
    "buffer_size": options.COUNT.or_none(),
    "warmup_steps": options.Rule(
        lambda x: x == 0 or options.is_count(x), "a whole number >= 0", optional=True
    ),
    "train_every": options.COUNT,
    "gradient_steps": options.COUNT,
    "target_every": options.COUNT,
    "tau": options.Rule(
        lambda x: options.is_real(x) and 0 < x <= 1, "a number in (0, 1]"
    ),
    "n_step": options.COUNT,
    "max_grad_norm": options.POSITIVE.or_none(),
    "adam_eps": options.POSITIVE,
    "num_envs": options.COUNT.or_none(),
    "epsilon_start": options.SHARE,
    "epsilon_end": options.SHARE,
    "epsilon_steps": options.COUNT,
    "double": options.FLAG,
    "huber_delta": options.POSITIVE.or_none(),
    "alpha": options.POSITIVE.or_none(),
    "target_entropy": options.Rule(options.is_real, "a finite number", optional=True),
}
