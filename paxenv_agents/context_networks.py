"""Recurrent networks whose memories meet: games against one co-player share context."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn

from paxenv_agents import networks
from paxenv_agents.agent import GAMES
from paxenv_agents.recurrent_networks import RecurrentActorCritic


class Alone(nn.Module):
    """A game keeps to itself."""

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        return hidden


class Average(nn.Module):
    """Half of a hidden state is the mean over the games; one game keeps its own."""

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
        if not in_company():
            return hidden
        return hidden / 2 + jax.lax.pmean(hidden, GAMES) / 2


class Attention(nn.Module):
    """Half of a hidden state is what it reads in those of all games, its own too.

    One head over the games, between two layer norms over the features. There is no
    position, so the order of the games does not matter.

    Source: Vaswani et al., Attention Is All You Need (2017), section 3.2; among games
    against one co-player: Khan et al., Scaling Opponent Shaping to High Dimensional
    Games (2024).
    """

    @nn.compact
    def __call__(self, hidden: jax.Array) -> jax.Array:
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


class ContextActorCritic(RecurrentActorCritic):
    """A recurrent policy and value whose hidden states meet before each step.

    Called under `jax.vmap(..., axis_name="games")`; elsewhere a game is alone.

    Attributes:
        context: A key of `CONTEXTS`.
    """

    context: str = "nothing"

    def setup(self) -> None:
        """Makes the layers; each cell has a context of its own."""
        super().setup()
        self.contexts = [CONTEXTS[self.context]() for _ in self.cells]

    def step(self, hidden: jax.Array, encoded: tuple[jax.Array, ...]) -> jax.Array:
        """Returns the hidden state `[..., H]` after one more step."""
        parts = jnp.split(hidden, len(self.cells), axis=-1)
        mixed = [mix(part) for mix, part in zip(self.contexts, parts, strict=True)]
        return super().step(jnp.concatenate(mixed, axis=-1), encoded)


class ModelFreeShaperNetwork(nn.Module):
    """Three recurrent units: of the policy, of the value, and of what steers both.

    The hidden state is `[policy | value | meta | th]`. The heads read the first two
    units, each multiplied by `th`, which only `steered` changes.

    Source: Lu et al., Model-Free Opponent Shaping (2022), appendix on architectures.

    Attributes:
        num_outputs: Outputs of the policy's head.
        num_scales: Learnt numbers that follow them, as in `networks.WithScales`.
        gru_size: Units of each of the three.
        hidden_dims: Widths of each encoder; none gives the features to the units.
        activation: A name in `networks.ACTIVATIONS`.
        context: A key of `CONTEXTS`, for each of the three units.
        image: How observations that are images are seen.
    """

    num_outputs: int
    num_scales: int = 0
    gru_size: int = 16
    hidden_dims: Sequence[int] = (64,)
    activation: str = "tanh"
    context: str = "nothing"
    image: networks.Image | None = None

    def setup(self) -> None:
        """Makes the layers; their names are those of the saved parameters."""
        torso = networks.MLPTorso
        widths = tuple(self.hidden_dims), self.activation
        self.encoders = [networks.seen(torso(*widths), self.image) for _ in range(3)]
        self.cells = [nn.GRUCell(self.gru_size) for _ in range(3)]
        self.contexts = [CONTEXTS[self.context]() for _ in range(3)]
        self.steering = nn.Dense(self.gru_size)
        self.policy_head = networks.head(self.num_outputs, networks.POLICY_SCALE, True)
        self.value_head = networks.head(1, networks.VALUE_SCALE, True)
        if self.num_scales:
            zeros = nn.initializers.zeros_init()
            self.scales = self.param("scales", zeros, (self.num_scales,), jnp.float32)

    def __call__(
        self, hidden: jax.Array, features: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns (outputs `[..., A]`, value `[...]`, next hidden `[..., 4 * G]`)."""
        hidden = self.step(hidden, self.encode(features))
        self.steered(hidden)  # So that `init` makes its parameters too.
        return *self.outputs(hidden), hidden

    def encode(self, features: jax.Array) -> tuple[jax.Array, ...]:
        """Returns what each unit reads of features `[..., F]`."""
        return tuple(encoder(features) for encoder in self.encoders)

    def step(self, hidden: jax.Array, encoded: tuple[jax.Array, ...]) -> jax.Array:
        """Returns the hidden state after one more step; `th` is as it was."""
        *parts, th = jnp.split(hidden, 4, axis=-1)
        after = [
            cell(mix(part), x)[0]
            for cell, mix, part, x in zip(
                self.cells, self.contexts, parts, encoded, strict=True
            )
        ]
        return jnp.concatenate([*after, th], axis=-1)

    def steered(self, hidden: jax.Array) -> jax.Array:
        """Returns the next `th`, `[..., G]`: a sigmoid of what the meta unit holds."""
        meta = jnp.split(hidden, 4, axis=-1)[2]
        return jax.nn.sigmoid(self.steering(meta))

    def outputs(self, hidden: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns (outputs of the policy `[..., A]`, value `[...]`)."""
        actor, critic, _, th = jnp.split(hidden, 4, axis=-1)
        policy = self.policy_head(th * actor)
        if self.num_scales:
            policy = networks.followed_by(policy, self.scales)
        return policy, self.value_head(th * critic)[..., 0]


def in_company() -> bool:
    """Whether the caller runs over an axis of games that play together."""
    try:
        jax.lax.axis_size(GAMES)
    except NameError:
        return False
    return True
