"""What the adapter tests share: all games, strict warnings, comparisons."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import paxenv

#: Every game that ships with the package.
GAMES = tuple(id for id in paxenv.games() if id.startswith("pax/"))

#: Advice of the conformance suites that some games rightly do not follow.
ADVISORY = (
    # Image-like observations that are not uint8 or too small for a standard network.
    r".*(observation is an image|Box observation space is an image|image is smaller).*",
    # Actions in units of the game, and boxes that are open on one side.
    r".*(symmetric and normalized|Box .* space (minimum|maximum) value is).*",
)


@contextmanager
def warnings_as_errors() -> Iterator[None]:
    """Turns every warning but `ADVISORY` into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in ADVISORY:
            warnings.filterwarnings("ignore", message=message)
        yield


def assert_same(left: Any, right: Any) -> None:
    """Asserts that two structures of numbers are equal, bit for bit; NaN equals NaN."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def at(tree: Any, t: int) -> Any:
    """Returns entry `t` of the leading axis of every leaf."""
    return jax.tree.map(lambda x: np.asarray(x)[t], tree)
