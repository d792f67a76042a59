"""Tags that are folded into a run's key, so that no two uses share random numbers.

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
from jaxtyping import Array, Int, Key

#: In place of a player in the keys of samplers: the params of the game.
PARAMS = 2**16
LANES, AGENTS, OUTER, SAMPLERS, EVALUATION, _PERIODIC, LEARNER = range(7)
ASK, TELL, TRAIN, EVALUATE, AGAIN = range(5)


def slot_key(
    run_key: Key[Array, ""],
    tag: int,
    trial: Int[Array, ""],
    opponent: Int[Array, ""],
    player: int,
) -> Key[Array, ""]:
    """Returns the key of a player's draws at the opening of a trial.

    Args:
        run_key: The run's key of one seed; only folded.
        tag: `AGENTS` or `SAMPLERS`.
        trial: The number of the trial.
        opponent: The number of the opponent.
        player: The lowest player of a slot, or `PARAMS`.
    """
    key = jax.random.fold_in(jax.random.fold_in(run_key, tag), trial)
    return jax.random.fold_in(jax.random.fold_in(key, opponent), player)


def evaluation_key(
    run_key: Key[Array, ""], env_steps: int | None = None
) -> Key[Array, ""]:
    """Returns the key of an evaluation, which differs from all keys of training.

    Args:
        run_key: The run's key of one seed; only folded.
        env_steps: Environment steps before the evaluation; None: the one at the end of
            the run. The key depends only on the run and this number.
    """
    key = jax.random.fold_in(run_key, EVALUATION)
    if env_steps is None:
        return key
    key = jax.random.fold_in(key, _PERIODIC)
    return jax.random.fold_in(key, jnp.uint32(env_steps % 2**32))
