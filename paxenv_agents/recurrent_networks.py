"""A policy and a value that remember: encoders, gated recurrent units, and heads."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from paxenv_agents import initial_weights, networks
from paxenv_agents.context_networks import CONTEXTS


class RecurrentActorCritic(nn.Module):
    """Features and a hidden state to a policy and a value.

    `encode` has no memory and takes a whole sequence at once, `step` carries the hidden
    state on by one step, and `outputs` reads it. Hidden states of games that are called
    under `jax.vmap(..., axis_name="games")` meet before each step.

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
    image: networks.Image | None = None
    context: str = "nothing"

    @property
    def num_units(self) -> int:
        """Pairs of an encoder and a cell."""
        return 1 if self.shared_torso else 2

    def setup(self) -> None:
        """Makes the layers; their names are those of the saved parameters."""
        torsos = range(self.num_units)
        widths = tuple(self.hidden_dims), self.activation
        torso = networks.MLPTorso
        self.encoders = [networks.seen(torso(*widths), self.image) for _ in torsos]
        # The default of `GRUCell` draws the same law by LAPACK.
        recurrent = initial_weights.orthogonal()
        self.cells = [
            nn.GRUCell(self.gru_size, recurrent_kernel_init=recurrent) for _ in torsos
        ]
        self.contexts = [CONTEXTS[self.context]() for _ in torsos]
        self.policy_head = networks.head(self.num_outputs, networks.POLICY_SCALE, True)
        self.value_head = networks.head(1, networks.VALUE_SCALE, True)
        if self.num_scales:
            zeros = nn.initializers.zeros_init()
            self.scales = self.param("scales", zeros, (self.num_scales,), jnp.float32)

    def __call__(
        self, hidden: jax.Array, features: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns (outputs `[..., A]`, value `[...]`, next hidden `[..., H]`)."""
        hidden = self.step(hidden, self.encode(features))
        return *self.outputs(hidden), hidden

    def encode(self, features: jax.Array) -> tuple[jax.Array, ...]:
        """Returns what each cell reads of features `[..., F]`."""
        return tuple(encoder(features) for encoder in self.encoders)

    def step(self, hidden: jax.Array, encoded: tuple[jax.Array, ...]) -> jax.Array:
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

    def outputs(self, hidden: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns (outputs of the policy `[..., A]`, value `[...]`)."""
        policy = self.policy_head(hidden[..., : self.gru_size])
        if self.num_scales:
            policy = networks.followed_by(policy, self.scales)
        # With one cell both heads read the same units.
        return policy, self.value_head(hidden[..., -self.gru_size :])[..., 0]


class ModelFreeShaperNetwork(RecurrentActorCritic):
    """Three recurrent units: of the policy, of the value, and of what steers both.

    The hidden state is `[policy | value | meta | th]`. The heads read the first two
    units, each multiplied by `th`, which only `steered` changes. Attributes are those
    of `RecurrentActorCritic`; `shared_torso` has no meaning here.

    Source: Lu et al., Model-Free Opponent Shaping (2022), appendix on architectures.
    """

    @property
    def num_units(self) -> int:
        return 3

    def setup(self) -> None:
        """Makes the layers; their names are those of the saved parameters."""
        super().setup()
        self.steering = nn.Dense(self.gru_size)

    def __call__(
        self, hidden: jax.Array, features: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns (outputs `[..., A]`, value `[...]`, next hidden `[..., 4 * G]`)."""
        outputs, value, after = super().__call__(hidden, features)
        self.steered(after)  # So that `init` makes its parameters too.
        return outputs, value, after

    def step(self, hidden: jax.Array, encoded: tuple[jax.Array, ...]) -> jax.Array:
        """Returns the hidden state after one more step; `th` is as it was."""
        units, th = jnp.split(hidden, [self.num_units * self.gru_size], axis=-1)
        return jnp.concatenate([super().step(units, encoded), th], axis=-1)

    def steered(self, hidden: jax.Array) -> jax.Array:
        """Returns the next `th`, `[..., G]`: a sigmoid of what the meta unit holds."""
        meta = jnp.split(hidden, 4, axis=-1)[2]
        return jax.nn.sigmoid(self.steering(meta))

    def outputs(self, hidden: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns (outputs of the policy `[..., A]`, value `[...]`)."""
        actor, critic, _, th = jnp.split(hidden, 4, axis=-1)
        # The policy's head reads the first units, the value's the last.
        return super().outputs(jnp.concatenate([th * actor, th * critic], axis=-1))
