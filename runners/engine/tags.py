"""Tags that are folded into a run's key, so that no two uses share numbers.

Under the run's key of a seed lie

- `LANES`, `AGENTS`, `OUTER` and `SAMPLERS`: lanes, initial agents, the outer optimiser,
  and the draws of samplers. Under each of them lies the trial, then the opponent, then
  the lowest player;
- `EVALUATION`: all evaluations, see `evaluation_key`;
- `LEARNER`: the learner's own draws in an inner loop.

Under the key of a generation of `ESRunner`, which lies under `OUTER`, lie `ASK`,
`TELL`, `TRAIN`, `EVALUATE` and `AGAIN`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

LANES, AGENTS, OUTER, SAMPLERS, EVALUATION, _PERIODIC, LEARNER = range(7)
ASK, TELL, TRAIN, EVALUATE, AGAIN = range(5)


def evaluation_key(
    run_key: Key[Array, ""], env_steps: int | None = None
) -> Key[Array, ""]:
    """Returns the key of an evaluation, which never meets a key of training.

    Args:
        run_key: The run's key of one seed; only folded.
        env_steps: Steps after which it takes place; None: at the end of the run. Two
            evaluations have different keys, the same one always the same.
    """
    key = jax.random.fold_in(run_key, EVALUATION)
    if env_steps is None:
        return key
    key = jax.random.fold_in(key, _PERIODIC)
    return jax.random.fold_in(key, jnp.uint32(env_steps % 2**32))
