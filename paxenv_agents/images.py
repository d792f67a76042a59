"""Images among observations: which they are, and the convolutions that read them."""

import dataclasses

import gymnasium
import jax
import numpy as np
from flax import linen as nn

from paxenv_agents import initial_weights

#: Where convolutional layers of a relu network start.
_GAIN = 2.0**0.5


@dataclasses.dataclass(frozen=True)
class Image:
    """How an image is seen.

    Attributes:
        shape: Height, width, channels.
        scale: What a pixel is divided by.
        channels: Output channels of each convolution.
        kernel_size: Height and width of each convolution; edges are padded.
    """

    shape: tuple[int, int, int]
    scale: float
    channels: tuple[int, ...]
    kernel_size: int


def image(
    space: gymnasium.Space, channels: tuple[int, ...], kernel_size: int
) -> Image | None:
    """Returns how observations of a space are seen if they are images, else None.

    A Box of three axes is an image, height first and channels last. Pixels of uint8
    are divided by 255. Without convolutions an image is a flat list of numbers.
    """
    is_box = isinstance(space, gymnasium.spaces.Box)
    if not is_box or len(space.shape) != 3 or not channels:
        return None
    height, width, depth = space.shape
    scale = 255.0 if space.dtype == np.uint8 else 1.0
    return Image((height, width, depth), scale, tuple(channels), kernel_size)


class OnImage(nn.Module):
    """A network of features that reads what convolutions make of an image.

    Reads the pixels as features `[..., H * W * C]`, as `networks.features` gives them.

    Attributes:
        network: What reads the features `[..., H * W * channels[-1]]`.
        image: How the image is seen.
    """

    network: nn.Module
    image: Image

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array | tuple[jax.Array, ...]:
        batch = features.shape[:-1]
        # [..., F] -> [..., H, W, C]
        seen = features.reshape(*batch, *self.image.shape) / self.image.scale
        for channels in self.image.channels:
            kernel = (self.image.kernel_size,) * 2
            init = initial_weights.orthogonal(_GAIN)
            seen = nn.relu(nn.Conv(channels, kernel, kernel_init=init)(seen))
        return self.network(seen.reshape(*batch, -1))  # type: ignore[operator]


def seen(network: nn.Module, image: Image | None) -> nn.Module:
    """Returns the network, behind convolutions if what it reads is an image."""
    return network if image is None else OnImage(network, image)
