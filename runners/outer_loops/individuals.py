"""The individuals of a search, grouped by the programs that train them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paxenv_agents.types import TrainingState
from runners.outer_loops import inner_loop, targets
from runners.outer_loops.handle import AgentHandle
from runners.outer_loops.inner_loop import InnerLoop
from runners.outer_loops.outer_config import ESConfig
from runners.outer_loops.population import (
    FITNESS,
    Judged,
    Parent,
    Trial,
    judge_some,
    judge_together,
    score,
)
from runners.outer_loops.search_space import SearchSpace, Solution

#: Options of an agent, by name: a program each.
Options = tuple[tuple[str, Any], ...]


class Individuals:
    """Trains and evaluates populations.

    Attributes:
        env_steps: Environment steps of all individuals that mattered so far.
    """

    def __init__(
        self, config: ESConfig, handle: AgentHandle, space: SearchSpace, key: jax.Array
    ) -> None:
        """Takes what all individuals have in common; compiles nothing yet.

        Args:
            config: How they train.
            handle: Their agent and game.
            space: What of these a solution says.
            key: From which fresh agents are made where shapes change.
        """
        self.env_steps = 0
        self._config, self._space, self._key = config, space, key
        self._agent, self._env = handle.unplanned, handle.env
        self._num_envs = handle.num_envs
        self._loops: dict[Options, InnerLoop] = {(): handle.loop}

    def judge(
        self, parent: Parent, members: Solution, count: int | None = None
    ) -> Judged:
        """Returns what became of a population.

        Args:
            parent: What every individual begins with.
            members: Solutions, leaves `[population, ...]`.
            count: How many matter, from the first; None: all. The others' statistics
                have no meaning.
        """
        count = self._config.population_size if count is None else count
        if not self._space.options:
            trial = self._trial(())
            self._spend(trial, count)
            return judge_together(trial, parent, self._budget(trial), members)
        groups: dict[Options, list[int]] = {}
        for i in range(count):
            own = self._space.option_values(jax.tree.map(lambda x, i=i: x[i], members))
            groups.setdefault(own, []).append(i)
        parts = [self._group(parent, members, *group) for group in groups.items()]
        return _joined(parts, list(groups.values()))

    def _group(
        self, parent: Parent, members: Solution, own: Options, indices: list[int]
    ) -> Judged:
        trial = self._trial(own)
        self._spend(trial, len(indices))
        padded = np.zeros(self._config.population_size, np.int32)
        padded[: len(indices)] = indices
        parent = parent._replace(learner=self.parent_of(own, parent.learner))
        return judge_some(
            *(trial, parent, self._budget(trial), members),
            *(jnp.asarray(padded), jnp.int32(len(indices))),
        )

    def loop(self, own: Options) -> InnerLoop:
        """Returns the inner loop of individuals with these options."""
        if own not in self._loops:
            agent = self._agent
            for name, value in own:
                agent = targets.with_option(agent, name, value)
            self._loops[own] = inner_loop.make_loop(
                agent,
                self._env,
                num_envs=self._num_envs,
                num_steps=self._config.num_steps_per_iteration,
                hooks=self._loops[()].hooks,
                num_episodes=self._config.eval_episodes,
                deterministic=self._config.deterministic,
            )
        return self._loops[own]

    def parent_of(self, own: Options, parent: TrainingState) -> TrainingState:
        """Returns the parent; a fresh one where options change its shapes."""
        if not own:
            return parent
        key = jax.random.fold_in(self._key, 1)
        fresh = inner_loop.fresh_learner(self.loop(own), key)
        shapes = [
            (jax.tree.structure(x), [leaf.shape for leaf in jax.tree.leaves(x)])
            for x in (fresh, parent)
        ]
        return parent if shapes[0] == shapes[1] else fresh

    def _trial(self, own: Options) -> Trial:
        return Trial(
            loop=self.loop(own),
            space=self._space,
            trains=self._config.train_agent,
            own_game=self._config.evaluate_in == "own",
            repeats=self._config.repeats,
        )

    def _budget(self, trial: Trial) -> jax.Array:
        return jnp.int32(trial.loop.iterations(self._config.num_steps_per_iteration))

    def _spend(self, trial: Trial, individuals: int) -> None:
        if trial.trains:
            steps = int(self._budget(trial)) * trial.loop.steps_per_iteration
            self.env_steps += individuals * trial.repeats * steps


def _joined(parts: list[Judged], groups: list[list[int]]) -> Judged:
    """Returns the parts of a population as one."""
    whole = parts[0]
    statistics = {name: np.array(x) for name, x in whole.statistics.items()}
    steps = np.array(whole.steps)
    for part, indices in zip(parts[1:], groups[1:], strict=True):
        for name, x in part.statistics.items():
            statistics[name][indices] = np.asarray(x)[indices]
        steps[indices] = np.asarray(part.steps)[indices]
    tops = [float(score(part.statistics[FITNESS]).max()) for part in parts]
    best = parts[int(np.argmax(tops))]
    return Judged(
        statistics={name: jnp.asarray(x) for name, x in statistics.items()},
        steps=jnp.asarray(steps),
        learner=best.learner,
        hooks=best.hooks,
    )
