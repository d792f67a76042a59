"""How a slot learns: numbers drawn at a fresh start, and a hard stop."""

import dataclasses
import zlib

import jax
import jax.numpy as jnp

Hyper = dict[str, jax.Array]

#: The entry of `hyper` that holds a drawn stop.
STOP = "stop_after"


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A number between two bounds.

    Attributes:
        low: The lower bound; equal to `high`, it is the number itself.
        high: The upper bound.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(
                f"bounds must be [low, high], got [{self.low}, {self.high}]"
            )

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a float32 scalar; consumes the key."""
        low, high = jnp.float32(self.low), jnp.float32(self.high)
        if self.low == self.high:
            return low
        return jnp.clip(jax.random.uniform(key, minval=low, maxval=high), low, high)


@dataclasses.dataclass(frozen=True)
class LogUniform(Uniform):
    """A number whose logarithm is uniform between those of two positive bounds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"log_uniform needs bounds > 0, got {self.low}")

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a float32 scalar; consumes the key."""
        low, high = jnp.float32(self.low), jnp.float32(self.high)
        if self.low == self.high:
            return low
        exponent = jax.random.uniform(key, minval=jnp.log(low), maxval=jnp.log(high))
        return jnp.clip(jnp.exp(exponent), low, high)


@dataclasses.dataclass(frozen=True)
class UniformStop:
    """The number of inner episodes in which a learner learns, drawn from 1 to all.

    Attributes:
        num_outer_steps: Inner episodes of a trial.
    """

    num_outer_steps: int

    def __call__(self, key: jax.Array) -> jax.Array:
        """Returns a whole number in [1, num_outer_steps] as a float32 scalar."""
        stop = jax.random.randint(key, (), 1, self.num_outer_steps + 1)
        return stop.astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class DrawnNumbers:
    """A slot's `sampler`: numbers drawn whenever it starts afresh.

    Each has a key of its own by its name, so another one beside it changes nothing.

    Attributes:
        draws: Pairs (entry of `hyper`, how it is drawn).
    """

    draws: tuple[tuple[str, Uniform | UniformStop], ...]

    def __call__(self, key: jax.Array, hyper: Hyper) -> Hyper:
        """Returns `hyper` with the drawn numbers."""
        drawn = {
            name: draw(jax.random.fold_in(key, zlib.crc32(name.encode())))
            for name, draw in self.draws
        }
        return {**hyper, **drawn}


@dataclasses.dataclass(frozen=True)
class HardStop:
    """A slot's `schedule`: it learns in the first inner episodes of a trial only.

    Attributes:
        after: Their number; None: what `UniformStop` has drawn into `hyper`.
    """

    after: int | None = None

    def __call__(self, hyper: Hyper, k: jax.Array) -> Hyper:
        """Returns `hyper` as it is in inner episode `k`."""
        after = hyper[STOP] if self.after is None else self.after
        enabled = jnp.where(k < after, hyper["enabled"], 0.0)
        return {**hyper, "enabled": enabled}
