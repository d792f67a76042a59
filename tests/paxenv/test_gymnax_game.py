"""Environments in the manner of gymnax, written as its users write them."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import paxenv
import runners
from paxenv import keys, registry
from paxenv.environment import native

KEY = jax.random.key(0)


@struct.dataclass
class WalkParams:
    goal: float = 3.0
    max_steps_in_episode: int = 4


@struct.dataclass
class WalkState:
    place: jax.Array
    time: int


class Walk:
    """A walk to the right; one flag is up at the goal and at the time limit."""

    default_params = WalkParams()

    def observation_space(self, params: Any) -> Any:
        high = params.goal + params.max_steps_in_episode
        return SimpleNamespace(low=-1.0, high=high, shape=(1,), dtype=jnp.float32)

    def action_space(self, params: Any) -> Any:
        return SimpleNamespace(n=2, shape=(), dtype=jnp.int32)

    def reset_env(self, key: Any, params: Any) -> Any:
        place = jnp.float32(jax.random.bernoulli(key))
        return place[None], WalkState(place, 0)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = WalkState(state.place + action, state.time + 1)
        ended = (state.place >= params.goal) | (
            state.time >= params.max_steps_in_episode
        )
        return state.place[None], state, jnp.array(action), ended, {"discount": 0.0}


class LaterWalk(Walk):
    """As gymnax has been since 1.0: the flag of `step_env` is of the goal alone."""

    def is_truncated(self, state: Any, params: Any) -> Any:
        return state.time >= params.max_steps_in_episode

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, _, info = super().step_env(key, state, action, params)
        return obs, state, reward, state.place >= params.goal, info


def flags(game: Any, params: Any, actions: list[int]) -> list[tuple[bool, bool]]:
    """Returns (terminated, truncated) of each step."""
    _, state = game.reset(KEY, params)
    ends = []
    for action in actions:
        _, state, _, _, info = game.step(KEY, state, action, params)
        ends.append((bool(info["terminated"]), bool(info["truncated"])))
    return ends


def test_a_check_of_one_that_is_no_game_yet_says_how_one_is_made() -> None:
    with pytest.raises(ValueError, match="from_gymnax"):
        paxenv.check_env(Walk(), Walk().default_params)


@pytest.mark.parametrize("kind", [Walk, LaterWalk])
def test_it_keeps_every_promise_of_a_native_game(kind: type) -> None:
    paxenv.check_env(*paxenv.from_gymnax(kind()))


def test_spaces_and_numbers_are_those_of_the_environment() -> None:
    game, params = paxenv.from_gymnax(Walk())
    assert game.name == "Walk"
    assert game.observation_space(0) == gymnasium.spaces.Box(-1, 7, (1,), np.float32)
    assert game.action_space(0) == gymnasium.spaces.Discrete(2, dtype=np.int32)
    assert params.goal.dtype == jnp.float32
    assert not params.goal.weak_type
    assert (game.num_inner_steps, game.num_players) == (4, 1)


@pytest.mark.parametrize("kind", [Walk, LaterWalk])
@pytest.mark.parametrize("start", [0, 1])
def test_a_goal_terminates_and_the_time_limit_truncates(kind: type, start: int) -> None:
    """The goal is 2 steps away from where a walk starts under KEY or under none."""
    game, params = paxenv.from_gymnax(kind())
    opening = game.reset(KEY, params)[0]
    params = params.replace(goal=opening[0] + 2.0)
    going, over, cut = (False, False), (True, False), (False, True)
    assert flags(game, params, [1, 1]) == [going, over]
    assert flags(game, params, [start, 0, 0, 0]) == [going, going, going, cut]


def test_the_opening_and_the_step_draw_from_keys_of_their_own() -> None:
    game, params = paxenv.from_gymnax(Walk())
    obs, _ = game.reset(KEY, params)
    expected = Walk().reset_env(keys.own(KEY, 0), params)[0]
    np.testing.assert_array_equal(obs, expected)
    draws = [jax.random.key_data(key).tolist() for key in game.draw(KEY)]
    assert [x for pair in draws for x in pair] == keys.words(KEY, 4).tolist()


def test_a_time_limit_is_needed_and_may_be_earlier_than_the_environments() -> None:
    class WithoutLimit(LaterWalk):
        default_params: Any = ()

        def observation_space(self, params: Any) -> Any:
            return gymnasium.spaces.Box(-1, 9, (1,), np.float32)

        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            return super().step_env(key, state, action, WalkParams())

    with pytest.raises(
        ValueError, match=r"WithoutLimit has no params\.max_steps_in_ep"
    ):
        paxenv.from_gymnax(WithoutLimit())
    game, _ = paxenv.from_gymnax(WithoutLimit(), num_inner_steps=9)
    assert game.num_inner_steps == 9
    assert paxenv.from_gymnax(Walk(), num_inner_steps=2)[0].num_inner_steps == 2
    with pytest.raises(ValueError, match=r"num_inner_steps=5 is later than .*=4"):
        paxenv.from_gymnax(Walk(), num_inner_steps=5)
    with pytest.raises(ValueError, match=r"object is not like .* it has no reset_env"):
        paxenv.from_gymnax(object())


def test_elsewhere_the_error_names_the_way() -> None:
    with pytest.raises(ValueError, match=r"Walk is .* gymnax: .*paxenv\.from_gymnax"):
        native(Walk())
    with pytest.raises(ValueError, match=r"from_gymnax"):
        paxenv.check_env(Walk())
    with pytest.raises(ValueError, match=r"from_gymnax"):
        paxenv.SinglePlayer(Walk())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a game, .* got object"):
        native(object())


def test_a_space_asks_for_a_player_and_not_for_params() -> None:
    env, params = paxenv.make("IPD")
    with pytest.raises(
        TypeError, match=r"number of a player, got EnvParams: .*space\(0"
    ):
        env.observation_space(params)
    with pytest.raises(TypeError, match="number of a player, got EnvParams"):
        env.action_space(params)


def test_whole_episodes_of_it_are_evaluated() -> None:
    """A player who always walks is paid 1 a step, for three steps or for two."""
    game, params = paxenv.from_gymnax(Walk())
    found = runners.evaluate(
        *(lambda state, obs: jnp.int32(1), None, game, params),
        n_episodes=16,
        max_steps=9,
        rng=KEY,
    )
    assert float(found.mean_return) == float(found.mean_length)
    assert 2.0 < float(found.mean_return) < 3.0


def make_walk(**options: Any) -> tuple[Any, Any]:
    """What the entry point of a plugin names."""
    return paxenv.from_gymnax(Walk(), **options)


@pytest.mark.slow
def test_a_run_trains_in_the_game_that_a_plugin_makes_of_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 steps of two games, and an evaluation; the time limit is of four steps."""
    monkeypatch.setattr(registry, "_GAMES", dict(registry.games()))
    registry.register(registry.GameSpec("theirs/Walk-v0", f"{__name__}:make_walk"))
    outcome = runners.run(
        *("runner=sarl", "env=theirs/Walk-v0", "agent1=PPO", "num_seeds=1"),
        *("agent1.n_steps=8", "agent1.num_minibatches=1", "agent1.num_epochs=1"),
        *("agent1.hidden_sizes=[4]", "num_envs=2", "total_timesteps=16"),
        *("plot=false", "tensorboard=false"),
        run_dir=tmp_path / "run",
    )
    assert outcome.num_iterations == 1
    assert outcome.plan.env.num_inner_steps == 4
    paid = outcome.measured["episode/return/player_1"].mean
    assert 0.0 <= paid <= 4.0
