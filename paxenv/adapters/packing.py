"""Packs many arrays into few, as each one that crosses a call costs microseconds."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, PyTree, UInt

#: Stands for the dtype of random keys, whose bits are packed.
KEY = "key"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one leaf lies.

    Attributes:
        block: Index of its block.
        start: First element in the block.
        stop: One past the last element.
        dtype: Name of its dtype, `KEY` for random keys.
        shape: Its shape.
    """

    block: int
    start: int
    stop: int
    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a pytree was packed; static, so that it comes out of `jax.jit` for free.

    Attributes:
        treedef: The structure.
        slots: Where each leaf lies.
    """

    treedef: Any
    slots: tuple[Place, ...]


class Packed(struct.PyTreeNode):
    """A pytree of arrays as a few flat arrays.

    Attributes:
        blocks: One array of unsigned integers for each size of item.
        layout: Where the leaves lie in the blocks.
    """

    blocks: tuple[UInt[Array, " items"], ...]
    layout: Layout = struct.field(pytree_node=False)

    def unpack(self) -> PyTree:
        """Returns the pytree, traced or on the device."""
        leaves = [
            _leaf(self.blocks[slot.block][slot.start : slot.stop], slot)
            for slot in self.layout.slots
        ]
        return jax.tree.unflatten(self.layout.treedef, leaves)

    def read(self) -> PyTree:
        """Returns the pytree on the host, in fresh, writable NumPy arrays.

        It must hold no random keys.
        """
        blocks = [np.array(block) for block in self.blocks]
        leaves = [
            blocks[slot.block][slot.start : slot.stop]
            .view(slot.dtype)
            .reshape(slot.shape)
            for slot in self.layout.slots
        ]
        return jax.tree.unflatten(self.layout.treedef, leaves)


def pack(tree: PyTree) -> Packed:
    """Returns a pytree of arrays in as few arrays as possible.

    Leaves are grouped by the size of their items, not by dtype: their bits are kept.
    """
    leaves, treedef = jax.tree.flatten(tree)
    parts: dict[int, list[jax.Array]] = {}
    slots = []
    for leaf in leaves:
        bits, dtype = _bits(jnp.asarray(leaf))
        size = bits.dtype.itemsize
        start = sum(part.size for part in parts.setdefault(size, []))
        parts[size].append(bits.ravel())
        slots.append((size, start, start + bits.size, dtype, bits.shape))
    sizes = sorted(parts)
    blocks = tuple(jnp.concatenate(parts[size]) for size in sizes)
    placed = tuple(Place(sizes.index(size), *rest) for size, *rest in slots)
    return Packed(blocks, Layout(treedef, placed))


def _bits(leaf: jax.Array) -> tuple[jax.Array, str]:
    """Returns a leaf as unsigned integers, and the name of its dtype."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf), KEY
    unsigned = jnp.dtype(f"uint{8 * leaf.dtype.itemsize}")
    if leaf.dtype == bool:
        return leaf.astype(unsigned), "bool"
    return jax.lax.bitcast_convert_type(leaf, unsigned), leaf.dtype.name


def _leaf(bits: jax.Array, slot: Place) -> jax.Array:
    bits = bits.reshape(slot.shape)
    if slot.dtype == KEY:
        return jax.random.wrap_key_data(bits)
    if slot.dtype == "bool":
        return bits.astype(bool)
    return jax.lax.bitcast_convert_type(bits, jnp.dtype(slot.dtype))
