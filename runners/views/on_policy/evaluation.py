"""Where an `OnPolicyRunner` is evaluated: never in the games in which it learns."""

import dataclasses
from typing import Any

import gymnasium
from gymnasium.vector import (
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorWrapper,
)

from paxenv_agents.agent import Agent
from runners.engine.devices import count
from runners.engine.program import evaluation_keys
from runners.engine.statistics import summarise
from runners.session.evaluation import greedy_statistics, play_on_host
from runners.views.on_policy.setup import make_game

#: What `make_vec` adds to the keywords of one game.
VECTOR_KWARGS = (
    *("num_envs", "vectorization_mode", "vector_kwargs", "wrappers"),
    *("autoreset_mode", "arrays"),
)
#: Wrappers of vector environments that change what an agent sees or does.
CHANGING = (VectorObservationWrapper, VectorActionWrapper)


class Evaluation:
    """Where an agent is evaluated; never the environment in which it learns.

    Attributes:
        game: A native game, or a plain Gymnasium environment.
        params: Numbers of a native game.
    """

    def __init__(self, env: Any, params: Any, eval_env: Any, seed: int) -> None:
        """Finds the place.

        Args:
            env: What is trained in, as `make_game` returns it.
            params: Its numbers.
            eval_env: Another native game as `make_game` takes it, or a plain Gymnasium
                environment; None: the same game afresh.
            seed: The run's seed.

        Raises:
            ValueError: If it does not go with `env`.
        """
        self._seed = seed
        self.game: Any = None
        self.params: Any = None
        self._owned = False
        if not isinstance(env, VectorEnv):
            same = eval_env is None
            self.game, self.params = (env, params) if same else make_game(eval_env)
            if isinstance(self.game, VectorEnv):
                raise ValueError("eval_env of a native game is a native game")
            return
        if eval_env is not None and not isinstance(eval_env, gymnasium.Env):
            raise ValueError(
                "eval_env of a vector environment is a plain gymnasium.Env, got "
                f"{eval_env!r}"
            )
        self.game = eval_env
        self._envs = env

    def elsewhere(self, env: Any) -> "Evaluation":
        """Returns the evaluation of the same run in another place, as `eval_env`."""
        trained = self.game if self.params is not None else self._envs
        return Evaluation(trained, self.params, env, self._seed)

    def play(
        self, agent: Agent, state: Any, n_episodes: int, env_steps: int
    ) -> dict[str, float]:
        """Returns the statistics of episodes, by name.

        The same state gives the same numbers: keys and seeds follow from the run's
        seed and the environment steps so far.

        Raises:
            ValueError: If the environment that is trained in does not say how another
                one is made.
        """
        n_episodes = count("num_episodes", n_episodes)
        (key,) = evaluation_keys(self._seed, env_steps=env_steps)
        if self.params is not None:
            return greedy_statistics(
                agent, state, self.game, self.params, key, n_episodes
            )
        greedy = dataclasses.replace(agent, greedy=True)
        stats = play_on_host(greedy, state, self._opened(), key, n_episodes)
        return {name: float(x) for name, x in summarise(stats).items()}

    def close(self) -> None:
        """Closes the environment, if it was made here."""
        if self._owned:
            self.game.close()

    def _opened(self) -> gymnasium.Env:
        if self.game is None:
            try:
                made, why = _another(self._envs), None
            except (gymnasium.error.Error, ValueError) as error:
                # Such as of a wrapper that keeps no record of its arguments.
                made, why = None, error
            if made is None:
                raise ValueError(
                    f"{self._envs} does not say how one of its games is made again: "
                    "give a plain gymnasium.Env that shows and takes the same, "
                    "OnPolicyRunner(..., eval_env=env) or eval(n, env=env)"
                ) from why
            self.game, self._owned = made, True
        return self.game


def _another(envs: VectorEnv) -> gymnasium.Env | None:
    """Returns a new game like those of a vector environment, None if it cannot."""
    inner = envs
    while isinstance(inner, VectorWrapper):
        if isinstance(inner, CHANGING):
            return None
        inner = inner.env
    if inner.spec is not None:
        game = gymnasium.make(_of_one_game(inner.spec))
        for wrapper in inner.spec.kwargs.get("wrappers") or ():
            game = wrapper(game)
        return game
    makers: Any = getattr(inner, "env_fns", None)
    if not makers:
        return None
    made, playing = makers[0](), getattr(inner, "envs", ())
    if not any(made is env for env in playing):
        return made
    # The function gives the very game that is being played.
    return None if made.spec is None else gymnasium.make(made.spec)


def _of_one_game(spec: Any) -> Any:
    """Returns a vector environment's spec without what `make_vec` adds to it."""
    kwargs = {k: v for k, v in spec.kwargs.items() if k not in VECTOR_KWARGS}
    limit = kwargs.pop("max_episode_steps", spec.max_episode_steps)
    return dataclasses.replace(spec, kwargs=kwargs, max_episode_steps=limit)
