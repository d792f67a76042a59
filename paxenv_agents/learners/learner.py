"""What all learners share: options, traced numbers, and a step of the optimiser."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from paxenv import keys
from paxenv.options import with_overrides
from paxenv_agents.agent import Agent, WrongConfigError
from paxenv_agents.ops import policy_gradient
from paxenv_agents.types import Hyperparameters, KeyLike, MemoryState, TrainingState


@dataclasses.dataclass(frozen=True)
class Learner(Agent):
    """An agent with options, whose parameters an optimiser moves.

    Numbers that may change in training are in `state.hyper`, float32 scalars that
    schedules, samplers and searches overwrite without a recompilation; `enabled` is
    among them.

    Attributes:
        config: Static options, a `config_class`.
    """

    config: Any = None

    learns: ClassVar[bool] = True
    #: The class of the options: that of the default of `config`.
    config_class: ClassVar[Any] = None
    #: Options that begin in `state.hyper`, where training may change them.
    hyper: ClassVar[tuple[str, ...]] = ()
    #: Options that only enter arithmetic, beside those in `state.hyper`.
    arithmetic: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        default = vars(cls).get("config")
        if dataclasses.is_dataclass(default) and "config_class" not in vars(cls):
            cls.config_class = type(default)

    @property
    def traced_options(self) -> tuple[str, ...]:
        return (*self.initial_hyper(), *self.arithmetic)

    def initial_hyper(self) -> Hyperparameters:
        """Returns the traced hyperparameters as the config sets them."""
        return self.traced(*self.hyper)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Raises ValueError if the options are those of another learner."""
        if not isinstance(config, cls.config_class):
            takes = cls.config_class.__name__
            raise WrongConfigError(cls.__name__, takes, config)

    @classmethod
    def fields_of(cls, config: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields of the learner that `from_env` was asked for.

        Args:
            config: A `config_class`, a mapping of options by name, or None for the
                defaults.
            options: `greedy`, and options by name; they win.

        Raises:
            ValueError: If an option is unknown or refused, or of another learner.
        """
        greedy = options.pop("greedy", False)
        if isinstance(config, Mapping):
            config, options = None, {**config, **options}
        config = cls.config_class() if config is None else config
        cls.check_config(config)
        config = with_overrides(config, options)
        return {"config": config, "greedy": greedy}

    def optimiser(self) -> optax.GradientTransformation:
        """Returns the optimiser; its updates are scaled by the learning rate later."""
        return optax.scale_by_adam(eps=self.config.adam_eps)

    def traced(self, *options: str) -> Hyperparameters:
        """Returns options as traced numbers, None as infinity, and `enabled` as 1."""
        numbers = {name: getattr(self.config, name) for name in options}
        numbers["enabled"] = 1.0
        return {
            name: jnp.asarray(jnp.inf if x is None else x, jnp.float32)
            for name, x in numbers.items()
        }

    def init_params(self, key: KeyLike) -> PyTree:
        """Returns fresh parameters, None if the learner has none; consumes the key."""
        del key
        return ()

    def init_opt_state(self, params: PyTree) -> PyTree:
        """Returns the opening state of the optimiser of these parameters."""
        return self.optimiser().init(params)

    def init_state(self, key: KeyLike) -> TrainingState:
        key = keys.typed(key)
        params = self.init_params(jax.random.fold_in(key, 0))
        return TrainingState(
            params=params,
            opt_state=self.init_opt_state(params),
            key=jax.random.fold_in(key, 1),
            timesteps=jnp.zeros((), jnp.int32),
            hyper=self.initial_hyper(),
        )

    def init_memory(
        self, key: Key[Array, ""], hidden: Float[Array, " H"]
    ) -> MemoryState:
        zero = jnp.zeros((), jnp.float32)
        extras = {"log_probs": zero, "values": zero}
        return MemoryState(hidden=hidden, key=keys.typed(key), extras=extras)

    def descended(
        self,
        hyper: Hyperparameters,
        params: PyTree,
        opt_state: PyTree,
        grads: PyTree,
        rate: Float[Array, ""],
    ) -> tuple[PyTree, PyTree, Float[Array, ""]]:
        """Returns (params, opt_state, gradient norm) after a step of the optimiser.

        Args:
            hyper: Its `max_grad_norm` is the norm at which gradients are clipped.
            params: The parameters before the step.
            opt_state: State of the optimiser.
            grads: Of the loss, shaped as `params`.
            rate: Learning rate of this step.
        """
        norm = policy_gradient.global_norm(grads)
        shrink = jnp.minimum(1.0, hyper["max_grad_norm"] / norm)
        grads = jax.tree.map(lambda g: g * shrink, grads)
        updates, opt_state = self.optimiser().update(grads, opt_state, params)
        params = jax.tree.map(lambda p, u: p - rate * u, params, updates)
        return params, opt_state, norm


Scalar = float | Float[Array, ""]


def linear(start: Scalar, end: Scalar, share: Scalar) -> Float[Array, ""]:
    """Returns the value after `share` of the way: `start` at 0, `end` from 1 on.

    Both ends are met exactly, and nothing lies outside them.
    """
    share = jnp.clip(jnp.asarray(share, jnp.float32), 0.0, 1.0)
    return start * (1.0 - share) + end * share


def share_of_steps(step: int | Int[Array, ""], num_steps: Scalar) -> Float[Array, ""]:
    """Returns how far step number `step` is: 0 at the first, 1 at the last step.

    A plan of a single step stays at 0.
    """
    return jnp.asarray(step, jnp.float32) / jnp.maximum(num_steps - 1, 1)
