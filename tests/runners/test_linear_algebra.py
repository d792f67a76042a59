"""No program factorises a batch of matrices: on CPUs two such calls can hang it.

A batch of LAPACK calls takes threads of XLA's pool and waits, in that pool, until they
are done. So a learner's first weights, games and strategies of evolution come without
LAPACK, or with one matrix after another.
"""

import re

import jax
import jax.numpy as jnp
import pytest

from paxenv_agents.catalogue import AGENTS
from runners.config import load
from runners.engine.experiment import train_chunk
from runners.planning.plan import prepare
from runners.search.options import ESOptions
from runners.search.search import Search
from runners.search.strategies import STRATEGIES

LEARNERS = [spec.name for spec in AGENTS if spec.classifier.get("learns")]
SMALL = ("num_inner_steps=4", "num_envs=4", "num_seeds=2")
#: Their actions are numbers, those of a whole policy.
INFINITE = [spec.name for spec in AGENTS if spec.classifier["plays"] == "infinite"]
INFINITE += ["SAC"]
KEYS = jax.random.split(jax.random.key(0), 2)
CALL = re.compile(r"custom_call @((?:lapack|blas)_\w+|.*[Ss]olve\w*)\(.*\) -> (.*)")


def factorisations(function, *args):
    """Returns the linear algebra of a program: (call, largest rank of its results)."""
    text = jax.jit(function).lower(*args).as_text()
    return [
        (name, max(shape.count("x") for shape in re.findall(r"tensor<(.*?)>", results)))
        for name, results in CALL.findall(text)
    ]


def test_the_search_for_calls_finds_them():
    """A batch of matrices has three axes."""
    matrices = jnp.zeros((5, 4, 4))

    assert factorisations(jax.vmap(jnp.linalg.cholesky), matrices) == [
        ("lapack_spotrf_ffi", 3)
    ]
    assert factorisations(jnp.linalg.cholesky, matrices[0]) == [
        ("lapack_spotrf_ffi", 2)
    ]


@pytest.mark.parametrize("name", LEARNERS)
def test_two_learners_of_several_seeds_start_without_linear_algebra(name):
    experiment, params = prepared(name)

    assert factorisations(jax.vmap(experiment.init, (0, None)), KEYS, params) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_two_learners_of_several_seeds_train_without_linear_algebra(name):
    experiment, params = prepared(name)
    state = jax.eval_shape(jax.vmap(experiment.init, (0, None)), KEYS, params)

    def train(state):
        return jax.vmap(lambda one: train_chunk(experiment, one, 1))(state)

    assert factorisations(train, state) == []


def prepared(name):
    """Returns (experiment, params) of a learner against itself or a PPO."""
    env = "InfiniteMatrixGame" if name in INFINITE else "IPD"
    agents = f"agents=[{name}, {name if name in INFINITE else 'PPO'}]"
    plan = prepare(load([f"env={env}", agents, *SMALL]))
    return plan.experiment, plan.params


@pytest.mark.parametrize("name", STRATEGIES)
def test_searches_of_several_seeds_factorise_one_matrix_after_another(name):
    """A strategy of several sub-populations has a matrix for each of them."""
    search = Search(ESOptions(strategy=name, population_size=8, top_k=2))
    solution = jnp.zeros(12)

    def generations(key):
        def generation(state, k):
            members, state = search.ask(k, state, solution)
            return search.tell(k, state, members, jnp.sum(members, axis=1))

        return jax.lax.scan(generation, search.begin(key, solution), KEYS)

    calls = factorisations(jax.vmap(generations), KEYS)
    assert all(rank == 2 for _, rank in calls), calls
