"""The public conformance test finds what it says it finds."""

import dataclasses
import types

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice as DicePlayer
from game_fakes import Counting, CountingParams, Dice

import paxenv
from paxenv.environment import Environment
from paxenv.single_player import SinglePlayer
from paxenv.testing import EnvCheckError, check_env

SHORT = {"num_inner_steps": 3, "num_outer_steps": 2}


@pytest.mark.parametrize("id", list(paxenv.games()))
def test_every_registered_game_passes(id):
    """No exceptions list; carries agree in shape, dtype and weak type."""
    assert check_env(*paxenv.make(id, **SHORT)) is None


@pytest.mark.slow
@pytest.mark.parametrize("id", list(paxenv.games()))
def test_every_registered_game_passes_with_random_ends(id):
    env, params = paxenv.make(id, random_ends=True, continuation_prob=0.5, **SHORT)
    assert check_env(env, params) is None


@pytest.mark.parametrize(
    "env",
    [
        Counting(3, 2),
        Counting(5, 3, players=4, random_ends=True),
        Counting(2, horizon="terminate"),
        Dice(4, 2, random_ends=True),
        Dice(1),
    ],
)
def test_correct_game_passes(env):
    params = env.default_params
    assert check_env(env, params) is None
    assert check_env(env) is None


@pytest.mark.slow
def test_one_seat_of_a_game_passes():
    env = Counting(3, 2, players=3, random_ends=True)
    agents = (DicePlayer.from_env(env, 0), DicePlayer.from_env(env, 2))
    single = SinglePlayer(env, 1, agents)
    assert check_env(single, single.default_params) is None


def test_spaces_are_not_reseeded():
    env = Counting(2)
    env.action_space(0).seed(0)
    expected = [int(env.action_space(0).sample()) for _ in range(20)]
    env.action_space(0).seed(0)
    check_env(env)
    assert [int(env.action_space(0).sample()) for _ in range(20)] == expected


class Broken(Counting):
    """A game whose subclasses break one promise each."""


class ObservationOutsideItsSpace(Broken):
    promise = r"player 0's observation of step 0 is not in Box"

    def make_observation_space(self, player):
        return gymnasium.spaces.Box(0, 0, (2,), np.int32)


class ObservationOfAnotherDtype(Broken):
    promise = "has dtype int32, not its space's int8"

    def make_observation_space(self, player):
        return gymnasium.spaces.Box(0, 100, (2,), np.int8)


class StepAndResetDifferInDtype(Broken):
    promise = "the observations of step.* differs from reset"

    def step_game(self, draws, game, actions, params):
        obs, *rest = super().step_game(draws, game, actions, params)
        return jax.tree.map(lambda x: x.astype(jnp.float32), obs), *rest


class OpeningStateIsWeaklyTyped(Broken):
    promise = (
        r"the state of step.* differs from reset.*weak type.*jnp\.asarray\(0\.5, jnp"
    )

    def reset_game(self, draws, params):
        obs, _ = super().reset_game(draws, params)
        return obs, jnp.asarray(0)

    def step_game(self, draws, game, actions, params):
        return super().step_game(draws, jnp.int32(game), actions, params)


class SpaceIsNewAtEveryCall(Broken):
    promise = r"observation_space\(0\) is a new object"

    def observation_space(self, player=0):
        return self.make_observation_space(player)


class ActionBoxIsUnbounded(Broken):
    promise = "infinite bounds"

    def make_action_space(self, player):
        return gymnasium.spaces.Box(-np.inf, np.inf, (), np.float32)


class ReturnsNaN(Broken):
    promise = "player 1's rewards are not finite"

    def step_game(self, draws, game, actions, params):
        obs, game, rewards, *rest = super().step_game(draws, game, actions, params)
        return obs, game, (rewards[0], jnp.nan), *rest


class ForgetsAReward(Broken):
    promise = "the rewards of step and JAX's float scalar differ in structure"

    def step_game(self, draws, game, actions, params):
        obs, game, rewards, *rest = super().step_game(draws, game, actions, params)
        return obs, game, rewards[:1], *rest


class DoneNeverComes(Broken):
    promise = "done must be true exactly once in a trial, was 0 times"

    def step(self, *args):
        obs, state, rewards, _, info = super().step(*args)
        return obs, state, rewards, jnp.zeros((), bool), info


class DoneStaysUp(Broken):
    promise = "a flag is up on a step that ended nothing"

    def step(self, *args):
        obs, state, rewards, _, info = super().step(*args)
        return obs, state, rewards, state.outer_t == self.num_outer_steps, info


class BothFlags(Broken):
    promise = "both terminated and truncated"

    def step(self, *args):
        *rest, info = super().step(*args)
        info["truncated"] = info["terminated"] = info["inner_done"]
        return *rest, info


class PaysAfterTheEnd(Broken):
    promise = "after the end paid"

    def step(self, *args):
        obs, state, rewards, done, info = super().step(*args)
        return obs, state, (rewards[0] + 1, rewards[1]), done, info


class MovesAfterTheEnd(Broken):
    promise = "t does not count the valid steps"

    def step(self, key, state, actions, params):
        t = state.t + 1
        obs, state, *rest = super().step(key, state, actions, params)
        return obs, state.replace(t=t), *rest


class FinalObsIsTheNextOpening(Broken):
    promise = "the nested view's info"

    def step(self, *args):
        obs, state, rewards, done, info = super().step(*args)
        return obs, state, rewards, done, {**info, "final_obs": obs}


class InfoLacksFinalObs(Broken):
    promise = r"the info of step lacks \['final_obs'\]"

    def step(self, *args):
        *rest, info = super().step(*args)
        del info["final_obs"]
        return *rest, info


class NestedViewPaysMore(Broken):
    promise = "the nested view's rewards"

    def step_inner(self, *args):
        obs, state, rewards, *rest = super().step_inner(*args)
        return obs, state, (rewards[0] + 1, rewards[1]), *rest


class BeginEpisodeRestartsTheTrial(Broken):
    promise = "begin_episode"

    def begin_episode(self, key, state, params):
        return self.reset(key, params)


class EagerDiffersFromJit(Broken):
    promise = "the first step without jit"

    def step_game(self, draws, game, actions, params):
        obs, game, rewards, *rest = super().step_game(draws, game, actions, params)
        bonus = 0.0 if isinstance(game, jax.core.Tracer) else 1.0
        return obs, game, (rewards[0] + bonus, rewards[1]), *rest


class StatisticsChangeType(Broken):
    promise = "metrics_update.* differs from metrics_init"

    def metrics_init(self):
        return super().metrics_init().replace(totals=jnp.int32(0))

    def metrics_update(self, acc, obs_before, actions, info):
        return acc.replace(totals=acc.totals + 0.5)


@pytest.mark.parametrize(
    "broken", Broken.__subclasses__(), ids=lambda broken: broken.__name__
)
def test_broken_promise_is_named(broken):
    with pytest.raises(EnvCheckError, match=broken.promise):
        check_env(broken(3, 2), CountingParams(limit=999.0))


def test_params_that_are_no_arrays_are_named():
    with pytest.raises(EnvCheckError, match=r"params\.limit must be an array, got 3"):
        check_env(Counting(3), CountingParams(limit=3))


def test_unhashable_game_is_named():
    @dataclasses.dataclass(frozen=True)
    class Unhashable(Counting):
        table: list = dataclasses.field(default_factory=list)

    with pytest.raises(EnvCheckError, match="not hashable"):
        check_env(Unhashable(3))


def test_game_that_is_not_equal_to_its_copy_is_named():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Identity(Counting):
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    with pytest.raises(EnvCheckError, match="same options is not equal"):
        check_env(Identity(3))


def test_every_game_is_an_environment_or_says_what_it_lacks():
    assert issubclass(Counting, Environment)
    with pytest.raises(ValueError, match=r"expected a game.*got str"):
        check_env("IPD-v0", ())
    plain = types.SimpleNamespace(num_players=2)
    with pytest.raises(EnvCheckError, match="Namespace is not a frozen dataclass"):
        check_env(plain, ())
