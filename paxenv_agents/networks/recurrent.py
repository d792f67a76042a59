"""Networks with a memory, and rules for how long it lasts."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from paxenv_agents.agent import GAMES
from paxenv_agents.networks import feed_forward

#: What is remembered, and a part of it.
Hidden = Float[Array, "*batch H"]
Part = Float[Array, " part"]
#: What each cell reads of what is seen.
Encoded = tuple[Float[Array, "*batch W"], ...]


class Alone(nn.Module):
    """A hidden state does not depend on other games."""

    @nn.compact
    def __call__(self, hidden: Hidden) -> Hidden:
        return hidden


class Average(nn.Module):
    """Half of a hidden state is the mean over the games; one game keeps its own."""

    @nn.compact
    def __call__(self, hidden: Hidden) -> Hidden:
        if not in_company():
            return hidden
        return hidden / 2 + jax.lax.pmean(hidden, GAMES) / 2


class Attention(nn.Module):
    """Half of a hidden state is what attention reads in those of all games.

    One head over the games, between two layer norms over the features. There is no
    position, so the order of the games does not matter.

    Source: Vaswani et al., Attention Is All You Need (2017), section 3.2; among games
    against one co-player: Khan et al., Scaling Opponent Shaping to High Dimensional
    Games (2024).
    """

    @nn.compact
    def __call__(self, hidden: Hidden) -> Hidden:
        size = hidden.shape[-1]
        seen = nn.LayerNorm(name="norm_in")(hidden)
        query, key, value = (
            nn.Dense(size, use_bias=False, name=name)(seen)
            for name in ("query", "key", "value")
        )
        if in_company():
            keys, values = (jax.lax.all_gather(x, GAMES) for x in (key, value))
        else:
            keys, values = key[None], value[None]
        # keys and values: [games, ..., H]
        scores = jnp.sum(query * keys, axis=-1) / jnp.sqrt(jnp.float32(size))
        weights = jax.nn.softmax(scores, axis=0)[..., None]
        read = nn.Dense(size, name="out")(jnp.sum(weights * values, axis=0))
        read = nn.LayerNorm(name="norm_out")(read + hidden)
        return hidden / 2 + nn.Dense(size, name="mixed")(read) / 2


#: What a hidden state becomes before each recurrent step.
CONTEXTS: dict[str, type[nn.Module]] = {
    "nothing": Alone,
    "avg": Average,
    "att": Attention,
}


def in_company() -> bool:
    """Whether the caller runs over an axis of games that play together."""
    try:
        jax.lax.axis_size(GAMES)
    except NameError:
        return False
    return True


class RecurrentActorCritic(nn.Module):
    """Features and a hidden state to a policy and a value.

    `encode` has no memory and takes a whole sequence at once, `step` advances the
    hidden state by one step, and `outputs` reads it. Under
    `jax.vmap(..., axis_name="games")` the context mixes the hidden states of the games
    before each step.

    Source of the cell: Cho et al., Learning Phrase Representations using RNN
    Encoder-Decoder (2014).

    Attributes:
        num_outputs: Outputs of the policy's head.
        num_scales: Learnt numbers that follow them, as in `networks.WithScales`.
        gru_size: Units of a cell.
        hidden_dims: Widths of an encoder; none gives the features to the cell.
        activation: A name in `networks.ACTIVATIONS`.
        shared_torso: One encoder and cell with two heads, or a pair for each head.
        image: How observations that are images are seen.
        context: A key of `CONTEXTS`; each cell has one of its own.
    """

    num_outputs: int
    num_scales: int = 0
    gru_size: int = 64
    hidden_dims: Sequence[int] = (64,)
    activation: str = "tanh"
    shared_torso: bool = True
    image: feed_forward.Image | None = None
    context: str = "nothing"

    @property
    def num_units(self) -> int:
        """Pairs of an encoder and a cell."""
        return 1 if self.shared_torso else 2

    @property
    def hidden_size(self) -> int:
        """Length H of a hidden state."""
        return self.num_units * self.gru_size

    def policy_params(self, params: PyTree) -> PyTree:
        """Returns the parameters without those that only the value reads."""
        skipped = {"value_head"}
        if self.num_units > 1:
            skipped |= {"encoders_1", "cells_1", "contexts_1"}
        return {name: x for name, x in params.items() if name not in skipped}

    def setup(self) -> None:
        """Makes the layers; their names are those of the saved parameters."""
        torsos = range(self.num_units)
        widths = tuple(self.hidden_dims), self.activation
        torso = feed_forward.MLPTorso
        self.encoders = [feed_forward.seen(torso(*widths), self.image) for _ in torsos]
        # The default of `GRUCell` draws the same distribution by LAPACK.
        recurrent = feed_forward.orthogonal()
        self.cells = [
            nn.GRUCell(self.gru_size, recurrent_kernel_init=recurrent) for _ in torsos
        ]
        self.contexts = [CONTEXTS[self.context]() for _ in torsos]
        self.policy_head = feed_forward.head(
            self.num_outputs, feed_forward.POLICY_SCALE, True
        )
        self.value_head = feed_forward.head(1, feed_forward.VALUE_SCALE, True)
        if self.num_scales:
            zeros = nn.initializers.zeros_init()
            self.scales = self.param("scales", zeros, (self.num_scales,), jnp.float32)

    def __call__(
        self, hidden: Hidden, features: Float[Array, "*batch F"]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"], Hidden]:
        """Returns (outputs `[..., A]`, value `[...]`, next hidden `[..., H]`)."""
        hidden = self.step(hidden, self.encode(features))
        return *self.outputs(hidden), hidden

    def encode(self, features: Float[Array, "*batch F"]) -> Encoded:
        """Returns what each cell reads of features `[..., F]`."""
        return tuple(encoder(features) for encoder in self.encoders)

    def step(self, hidden: Hidden, encoded: Encoded) -> Hidden:
        """Returns the hidden state `[..., H]` after one more step."""
        parts = jnp.split(hidden, len(self.cells), axis=-1)
        return jnp.concatenate(
            [
                cell(mix(part), x)[0]
                for cell, mix, part, x in zip(
                    self.cells, self.contexts, parts, encoded, strict=True
                )
            ],
            axis=-1,
        )

    def outputs(
        self, hidden: Hidden
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
        """Returns (outputs of the policy `[..., A]`, value `[...]`)."""
        policy = self.policy_head(hidden[..., : self.gru_size])
        if self.num_scales:
            policy = feed_forward.followed_by(policy, self.scales)
        # With one cell both heads read the same units.
        return policy, self.value_head(hidden[..., -self.gru_size :])[..., 0]


#: Hidden states of the policy, the value and the meta unit, then `th`.
NUM_PARTS = 4


class ModelFreeShaperNetwork(RecurrentActorCritic):
    """Three recurrent units: of the policy, of the value, and of the meta policy.

    The hidden state is `[policy | value | meta | th]`. The heads read the first two
    units, each multiplied by `th`, which only `steered` changes. Attributes are those
    of `RecurrentActorCritic`; `shared_torso` has no meaning here.

    Source: Lu et al., Model-Free Opponent Shaping (2022), appendix on architectures.
    """

    @property
    def num_units(self) -> int:
        return 3

    @property
    def hidden_size(self) -> int:
        return NUM_PARTS * self.gru_size

    def setup(self) -> None:
        """Makes the layers; their names are those of the saved parameters."""
        super().setup()
        self.steering = nn.Dense(self.gru_size)

    def __call__(
        self, hidden: Hidden, features: Float[Array, "*batch F"]
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"], Hidden]:
        """Returns (outputs `[..., A]`, value `[...]`, next hidden `[..., 4 * G]`)."""
        outputs, value, after = super().__call__(hidden, features)
        self.steered(after)  # So that `init` makes its parameters too.
        return outputs, value, after

    def step(self, hidden: Hidden, encoded: Encoded) -> Hidden:
        """Returns the hidden state after one more step; `th` is as it was."""
        units, th = jnp.split(hidden, [self.num_units * self.gru_size], axis=-1)
        return jnp.concatenate([super().step(units, encoded), th], axis=-1)

    def steered(self, hidden: Hidden) -> Float[Array, "*batch G"]:
        """Returns the next `th`, `[..., G]`: a sigmoid of what the meta unit holds."""
        meta = jnp.split(hidden, NUM_PARTS, axis=-1)[2]
        return jax.nn.sigmoid(self.steering(meta))

    def outputs(
        self, hidden: Hidden
    ) -> tuple[Float[Array, "*batch A"], Float[Array, "*batch"]]:
        """Returns (outputs of the policy `[..., A]`, value `[...]`)."""
        actor, critic, _, th = jnp.split(hidden, NUM_PARTS, axis=-1)
        # The policy's head reads the first units, the value's the last.
        return super().outputs(jnp.concatenate([th * actor, th * critic], axis=-1))


class Memory(abc.ABC):
    """How long a hidden state is remembered. Rules are static and hashable."""

    def opening(self, module: RecurrentActorCritic) -> Float[Array, " H"]:
        """Returns the hidden state `[H]` with which a trial opens."""
        return jnp.zeros(module.hidden_size, jnp.float32)

    @abc.abstractmethod
    def next_episode(
        self, module: RecurrentActorCritic, params: PyTree, hidden: Part
    ) -> Part:
        """Returns the hidden state `[H]` with which the next inner episode opens.

        Args:
            module: The network.
            params: Its parameters.
            hidden: The hidden state at the end of the episode, `[H]`.
        """


@dataclasses.dataclass(frozen=True)
class OfEpisode(Memory):
    """A hidden state is 0 at the opening of every inner episode."""

    def next_episode(
        self, module: RecurrentActorCritic, params: PyTree, hidden: Part
    ) -> Part:
        return jnp.zeros_like(hidden)


@dataclasses.dataclass(frozen=True)
class OfTrial(Memory):
    """A hidden state is 0 only at the opening of a trial."""

    def next_episode(
        self, module: RecurrentActorCritic, params: PyTree, hidden: Part
    ) -> Part:
        return hidden


@dataclasses.dataclass(frozen=True)
class Steered(Memory):
    """M-FOS: the meta unit's state gives `th`, and the other two units are cleared.

    In the first inner episode of a trial `th` is 1.

    Attributes:
        of_meta: Whether the meta unit remembers for the trial, or is cleared too.
    """

    of_meta: Memory

    def opening(self, module: RecurrentActorCritic) -> Float[Array, " H"]:
        size = module.gru_size
        empty = jnp.zeros((NUM_PARTS - 1) * size, jnp.float32)
        return jnp.concatenate([empty, jnp.ones(size, jnp.float32)])

    def next_episode(
        self, module: RecurrentActorCritic, params: PyTree, hidden: Part
    ) -> Part:
        steered: Any = module.apply({"params": params}, hidden, method="steered")
        actor, critic, meta, _ = jnp.split(hidden, NUM_PARTS, axis=-1)
        meta = self.of_meta.next_episode(module, params, meta)
        parts = jnp.zeros_like(actor), jnp.zeros_like(critic), meta
        return jnp.concatenate([*parts, cast(jax.Array, steered)], axis=-1)
