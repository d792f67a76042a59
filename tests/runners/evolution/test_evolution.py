"""Populations around the trial engine: what members share, and what they are worth."""

import dataclasses
import functools
from typing import Any

import evolution_fakes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Fixed, Recorder, seated

import paxenv
from paxenv_agents import make_agent
from paxenv_agents.agent import Agent
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.types import TrainingState
from runners.engine import population
from runners.engine.experiment import Experiment, _train_chunk, rollout, train_chunk
from runners.search.evolution import Evolution
from runners.search.options import ESOptions
from runners.search.search import Search


@dataclasses.dataclass(frozen=True)
class Coin(Agent):
    """Defects with probability sigmoid(logit); has a useless parameter too."""

    learns = True

    def init_state(self, key):
        return TrainingState(params={"critic": jnp.ones(3), "logit": jnp.zeros(())})

    def policy(self, state, obs, memory):
        draw = jax.random.uniform(jax.random.fold_in(memory.key, 0))
        action = (draw < jax.nn.sigmoid(state.params["logit"])).astype(jnp.int32)
        extras = {"log_probs": jnp.float32(0), "values": state.params["critic"].sum()}
        return action, state, memory.replace(extras=extras)


def experiment(opponent=None, steps=(5, 3), slots=None, env="IPD-v0", **options):
    """Returns (experiment, params): a coin that is searched against a defector."""
    inner, outer = steps
    own = {k: options.pop(k) for k in ("num_games", "num_opponents") if k in options}
    whole = {
        k: options.pop(k)
        for k in ("objective", "common_random_numbers", "opponent_is")
        if k in options
    }
    if "opponent_is" in whole:
        whole["opponent"] = whole.pop("opponent_is")
    env, params = paxenv.make(env, num_inner_steps=inner, num_outer_steps=outer)
    if slots is None:
        other = opponent or Slot(seated(Fixed, env, 1, action=1), (1,))
        slots = (Slot(seated(Coin, env), (0,), clock="none"), other)
    search = Search(ESOptions(**{"population_size": 4, "top_k": 2, **options}))
    searches = tuple(search if isinstance(s.agent, Coin) else None for s in slots)
    made = Experiment(
        env,
        slots,
        outer=Evolution(searches, **whole),
        **{"num_games": 2, "chunk_size": 8, **own},
    )
    return made, params


def generation(made_and_params, logits, e=0):
    """Returns what members with these logits played as generation `e`."""
    made, params = made_and_params
    others = [None] * (len(made.slots) - 1)
    return evolution_fakes.generation(made, params, (jnp.asarray(logits), *others), e)


def begun(made, params):
    return jax.jit(made.init)(evolution_fakes.KEY, params)


@pytest.fixture(scope="module")
def against_a_defector():
    return experiment(steps=(20, 2), num_opponents=4, num_games=1)


def test_fitness_is_the_mean_reward_per_step_and_larger_is_better(against_a_defector):
    """Against a defector: -3 for a cooperator, -2 for a defector."""
    played = generation(against_a_defector, [-30.0, 30.0, -30.0, 30.0])
    np.testing.assert_allclose(played.fitness[0], [-3.0, -2.0, -3.0, -2.0], rtol=1e-6)
    assert played.fitness[1] is None


def test_duplicate_members_are_worth_the_same(against_a_defector):
    """By common random numbers."""
    fitness = generation(against_a_defector, [0.0] * 4).fitness[0]
    assert len(set(fitness.tolist())) == 1


@pytest.mark.slow
def test_without_common_random_numbers_duplicates_differ():
    made, params = experiment(steps=(20, 2), common_random_numbers=False)
    fitness = generation((made, params), [0.0, 0.0, 0.0, 0.0]).fitness[0]
    assert len(set(fitness.tolist())) > 1


def test_action_noise_is_new_in_each_generation_and_per_opponent(against_a_defector):
    played = [generation(against_a_defector, [0.0] * 4, e) for e in range(2)]
    assert played[0].fitness[0][0] != played[1].fitness[0][0]
    # [members * opponents, games, players]: the first member's opponents.
    assert len(set(played[0].episodes.returns[:4, 0, 0].tolist())) > 1


def test_permuted_members_have_permuted_fitness(against_a_defector):
    logits, order = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([2, 0, 3, 1])
    straight = generation(against_a_defector, logits).fitness[0]
    permuted = generation(against_a_defector, logits[order]).fitness[0]
    np.testing.assert_array_equal(np.asarray(straight)[order], permuted)


@pytest.mark.slow
def test_the_second_chunk_needs_no_compilation_of_its_own():
    """A learner's fresh state must not be weakly typed."""
    env, _ = paxenv.make("IPD-v0", num_inner_steps=4, num_outer_steps=2)
    tabular = make_agent("Tabular", env, player=1, num_minibatches=1)
    made, params = experiment(Slot(tabular, (1,), clock="inner", reset="trial"))
    state = begun(made, params)
    before = _train_chunk._cache_size()
    for _ in range(3):
        state, _ = train_chunk(made, state, 1)
    assert _train_chunk._cache_size() == before + 1


@pytest.mark.slow
def test_the_last_inner_episode_can_be_the_objective():
    """A learner that plays params mod 2 cooperates first, then defects."""
    env, _ = paxenv.make("IPD-v0", num_inner_steps=2, num_outer_steps=2)
    learner = Slot(seated(Recorder, env, 1), (1,), clock="inner", reset="trial")
    worth = {}
    for objective in ("mean", "last"):
        made, params = experiment(learner, steps=(2, 2), objective=objective)
        worth[objective] = generation((made, params), [30.0] * 4).fitness[0].tolist()
    # Against cooperation 0, against defection -2.
    assert worth == {"mean": [-1.0] * 4, "last": [-2.0] * 4}


@pytest.mark.slow
def test_opponents_start_anew_for_every_member_and_generation():
    env, _ = paxenv.make("IPD-v0", num_inner_steps=2, num_outer_steps=2)
    learner = Slot(seated(Recorder, env, 1), (1,), clock="inner", reset="trial")
    made, params = experiment(learner, steps=(2, 2))
    state, _ = train_chunk(made, begun(made, params), 2)
    assert float(state.agents[1].params) == 0.0
    played = generation((made, params), [30.0] * 4, e=1)
    assert played.fitness[0].tolist() == [-1.0] * 4


def test_evolution_finds_defection_and_logs_mean_returns():
    made, params = experiment(
        population_size=16, learning_rate=1.0, sigma_init=1.0, steps=(10, 1)
    )
    state, rows = train_chunk(made, begun(made, params), 8)
    assert float(state.agents[0].params["logit"]) > 2.0
    fitness = np.asarray(rows["train/player_1/fitness/mean"])
    assert -2.7 < fitness[0] < -2.3
    assert fitness[-1] > -2.2
    per_step = rows["episode/reward_per_step/player_1"]
    np.testing.assert_allclose(fitness, per_step, rtol=1e-6)
    # What no action depends on is not searched.
    assert state.agents[0].params["critic"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.slow
def test_one_chunk_is_as_good_as_many():
    made, params = experiment()
    whole, rows = train_chunk(made, begun(made, params), 4)
    state = begun(made, params)
    for _ in range(2):
        state, _ = train_chunk(made, state, 2)
    jax.tree.map(_assert_same, whole, state)
    assert np.isfinite(rows["train/player_1/fitness/mean"][:4]).all()


def _assert_same(a, b):
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_the_memory_of_a_generation_does_not_grow_with_the_inner_episodes():
    sizes = []
    for outer in (4, 400):
        env, params = paxenv.make("IPD-v0", num_inner_steps=10, num_outer_steps=outer)
        coin = Slot(seated(Coin, env), (0,), clock="none")
        learner = make_agent("Tabular", env, player=1, num_minibatches=2)
        other = Slot(learner, (1,), clock="inner", reset="trial")
        made, _ = experiment(steps=(10, outer), slots=(coin, other))
        state = begun(made, params)
        compiled = jax.jit(functools.partial(rollout, made)).lower(state).compile()
        analysis: Any = compiled.memory_analysis()
        sizes.append(analysis.temp_size_in_bytes)
    assert sizes[1] <= sizes[0] + 1024


@pytest.mark.slow
def test_several_searches_meet_member_against_member_or_against_the_mean():
    """Matching pennies are zero-sum, so members' worths mirror each other."""
    env, _ = paxenv.make("MatchingPennies-v0", num_inner_steps=4, num_outer_steps=1)
    slots = tuple(Slot(seated(Coin, env, p), (p,), clock="none") for p in (0, 1))
    fitness, steps = {}, {}
    for opponent in ("member", "mean"):
        made, params = experiment(
            slots=slots, steps=(4, 1), env="MatchingPennies-v0", opponent_is=opponent
        )
        played, _ = jax.jit(functools.partial(rollout, made))(begun(made, params))
        fitness[opponent] = [np.asarray(f) for f in played.play.fitness]
        steps[opponent] = made.steps_per_iteration
    np.testing.assert_array_equal(fitness["member"][0], -fitness["member"][1])
    assert steps == {"member": 4 * 2 * 4, "mean": 2 * 4 * 2 * 4}
    assert fitness["mean"][0].shape == (4,)


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        ({"clock": "inner"}, "must start anew in each trial"),
        ({"clock": "trial", "reset": "trial"}, "would never learn"),
    ],
)
def test_a_co_player_that_would_leak_or_never_learn_is_refused(slot, words):
    env, _ = paxenv.make("IPD-v0", num_inner_steps=2, num_outer_steps=2)
    with pytest.raises(ValueError, match=words):
        experiment(Slot(seated(Recorder, env, 1), (1,), **slot), steps=(2, 2))


def test_a_strategy_without_parameters_has_nothing_to_search():
    env, _ = paxenv.make("IPD-v0", num_inner_steps=2)
    tit_for_tat = make_agent("TitForTat", env, player=0)
    with pytest.raises(ValueError, match="nothing to search"):
        population.used_by_policy(tit_for_tat)


def test_only_the_policy_of_an_actor_critic_is_searched():
    env, _ = paxenv.make("IPD-v0")
    agent = make_agent("PPO", env, player=0, hidden_sizes=(16, 16))
    # 5 x 16 + 16, 16 x 16 + 16, 16 x 2 + 2: no value head.
    assert sum(leaf.size for leaf in population.shapes(agent)) == 402
    tabular = make_agent("Tabular", env, player=0)
    assert population.names(tabular) == ("logits",)
