"""The single environment keeps Gymnasium's contract, and refuses what it must."""

import copy
import pickle
from typing import Any

import cloudpickle
import gymnasium
import jax
import numpy as np
import pytest
from adapter_cases import GAMES, assert_same, warnings_as_errors
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from paxenv.adapters import lanes
from paxenv.adapters.gymnasium_env import GymnasiumEnv


@pytest.mark.parametrize("game", GAMES)
def test_every_game_passes_the_checker_with_warnings_as_errors(game: str) -> None:
    """50 random steps give NumPy arrays in their space, floats, bools."""
    with warnings_as_errors():
        env = gymnasium.make(game)
        check_env(env.unwrapped)
        env.action_space.seed(0)
        obs, info = env.reset(seed=0)
        for _ in range(50):
            obs, reward, terminated, truncated, info = env.step(
                env.action_space.sample()
            )
            assert isinstance(obs, np.ndarray | np.int64)
            assert env.observation_space.contains(obs)
            assert type(reward) is float
            assert type(terminated) is bool
            assert type(truncated) is bool
            for value in _leaves(info):
                assert isinstance(value, np.ndarray | int | float | bool)
            if terminated or truncated:
                env.reset()


def test_the_reward_and_the_final_observation_of_the_last_step_are_kept() -> None:
    """D, D, C against AllC ends in CC, and every step is paid."""
    env = gymnasium.make("pax/IPD-v0", opponent="AllC", num_inner_steps=3)
    env.reset(seed=0)
    steps = [env.step(action) for action in (1, 1, 0)]
    assert [reward for _, reward, *_ in steps] == [0.0, 0.0, -1.0]
    assert [step[3] for step in steps] == [False, False, True]
    assert steps[-1][0].tolist() == [1, 0, 0, 0, 0]
    assert "final_obs" not in steps[-1][-1]


def test_the_opponent_defaults_to_tit_for_tat() -> None:
    env = gymnasium.make("pax/IPD-v0")
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (1, 0, 0)]
    assert [info["opponent_action"] for info in infos] == [0, 1, 0]


def test_info_has_one_structure_at_reset_and_at_steps() -> None:
    """And flags tell a time limit from an end of the game."""
    env = gymnasium.make("pax/IPD-v0", num_inner_steps=2)
    _, opening = env.reset(seed=0)
    *_, first = env.step(0)
    _, _, terminated, truncated, last = env.step(0)
    totals = {name for name in last if name.startswith("episode_metrics/")}
    assert totals
    assert opening.keys() == first.keys() == last.keys() - totals
    assert [info["valid"] for info in (opening, first, last)] == [False, True, True]
    assert (terminated, truncated) == (False, True)
    ended = gymnasium.make("pax/IPD-v0", num_inner_steps=1, horizon="terminate")
    ended.reset(seed=0)
    assert ended.step(0)[2:4] == (True, False)


def test_the_end_reports_totals_of_the_whole_trial() -> None:
    env = gymnasium.make("pax/IPD-v0", num_inner_steps=2, num_outer_steps=2)
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (1, 1, 0, 0)]
    assert [info["inner_truncated"] for info in infos] == [False, True, False, True]
    assert all("episode_metrics/returns" not in info for info in infos[:-1])
    metrics = {
        name.removeprefix("episode_metrics/"): value
        for name, value in infos[-1].items()
    }
    # DC, DD, then CC, CC: the opponent opens each inner episode with C.
    np.testing.assert_allclose(metrics["returns"], [-4.0, -7.0])
    assert metrics["welfare"] == -11.0
    np.testing.assert_array_equal(metrics["cooperation"], [2.0, 3.0])
    assert metrics["cooperation_rate/player_1"] == 0.5


def test_info_holds_no_dictionaries_unless_they_are_asked_for() -> None:
    """TorchRL makes a tensor of every entry."""
    flat = gymnasium.make("pax/IPD-v0", num_inner_steps=1)
    nested = gymnasium.make("pax/IPD-v0", num_inner_steps=1, info="nested")
    assert flat.reset(seed=0)[1]["metrics/welfare"] == 0.0
    assert nested.reset(seed=0)[1]["metrics"]["welfare"] == 0.0
    plain, inside = flat.step(0)[-1], nested.step(0)[-1]
    assert not any(isinstance(value, dict) for value in plain.values())
    assert plain["metrics/welfare"] == inside["metrics"]["welfare"] == -2.0
    assert plain["episode_metrics/welfare"] == inside["episode_metrics"]["welfare"]
    with pytest.raises(ValueError, match=r"info must be one of .* got 'deep'"):
        gymnasium.make("pax/IPD-v0", info="deep")


def test_an_unknown_keyword_is_an_error_of_type_and_of_value() -> None:
    """TorchRL tries `frameskip` and reads the message of a TypeError."""
    message = r"unexpected keyword argument 'frameskip'.*Its options: .*num_inner_steps"
    for id in ("pax/IPD-v0", "pax/CoinGame-v0", "pax/CartPole-v1"):
        with pytest.raises(TypeError, match=message):
            gymnasium.make(id, frameskip=1)
        with pytest.raises(ValueError, match=message):
            gymnasium.make_vec(id, num_envs=1, frameskip=1)


def test_the_spec_says_when_time_is_up() -> None:
    """And what is made again from it is cut at the same step, by the same flag."""
    env = gymnasium.make("pax/IPD-v0", num_inner_steps=2, num_outer_steps=2)
    assert env.spec.max_episode_steps == 4
    again = gymnasium.make(env.spec)
    for made in (env, again):
        made.reset(seed=0)
        assert [made.step(0)[2:4] for _ in range(4)] == [(False, False)] * 3 + [
            (False, True)
        ]
    end = gymnasium.make("pax/IPD-v0", num_inner_steps=2, horizon="terminate")
    assert end.spec.max_episode_steps is None
    assert gymnasium.make("pax/IPD-v0", max_episode_steps=3).spec.max_episode_steps == 3


def test_payoff_and_player_are_those_asked_for() -> None:
    payoff = [[3, 6], [0, 10], [5, 0.5], [1, 2]]
    env = gymnasium.make(
        "pax/IPD-v0", payoff=payoff, player=1, opponent="Defect", num_inner_steps=5
    )
    env.reset(seed=0)
    obs, reward, *_ = env.step(0)
    # Player 0 defects, we cooperate: row DC pays us 0.5, and we see CD.
    assert reward == 0.5
    assert obs.tolist() == [0, 1, 0, 0, 0]


def test_index_observations_are_int64_scalars() -> None:
    env = gymnasium.make("pax/IPD-v0", observation="index")
    obs, _ = env.reset(seed=0)
    assert type(obs) is np.int64
    assert obs == 4
    assert env.observation_space.contains(obs)


@pytest.mark.parametrize("action", [2, -1, 0.6, 1.9, np.float32(0.5), None, "C", [0]])
def test_an_action_outside_the_space_changes_nothing(action: object) -> None:
    """Fractions are never floored."""
    env = gymnasium.make("pax/IPD-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="player 0's action"):
        env.step(action)
    assert env.state.t == 0
    assert env.step(1)[1] == 0.0


def test_whole_floats_are_actions() -> None:
    """As in the native game."""
    env = gymnasium.make("pax/IPD-v0", opponent="AllC").unwrapped
    env.reset(seed=0)
    assert env.step(np.float32(1))[1] == 0.0
    assert env.step(np.array(0.0))[1] == -1.0


def test_the_same_seed_gives_the_same_trial_and_the_next_reset_a_new_one() -> None:
    """Without a seed the resets after a seeded one are new but reproducible."""
    env = gymnasium.make("pax/CoinGame-v0")
    openings = [
        [env.reset(seed=seed)[0], env.reset()[0], env.reset()[0]] for seed in (7, 7, 8)
    ]
    assert_same(openings[0], openings[1])
    assert any(
        not np.array_equal(a, b) for a, b in zip(openings[0], openings[2], strict=True)
    )
    assert not np.array_equal(openings[0][0], openings[0][1])


def test_a_reset_in_the_middle_of_a_trial_goes_on_to_the_next() -> None:
    env = gymnasium.make("pax/CoinGame-v0")
    env.reset(seed=7)
    untouched = env.reset()[0]
    env.reset(seed=7)
    env.step(0)
    assert_same(env.reset()[0], untouched)


def test_an_unseeded_environment_draws_its_seed_and_tells_it() -> None:
    first, second = (gymnasium.make("pax/CoinGame-v0").unwrapped for _ in range(2))
    obs, _ = first.reset()
    second.reset()
    assert first.np_random_seed != second.np_random_seed
    assert_same(second.reset(seed=first.np_random_seed)[0], obs)


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_what_is_no_seed_is_named(seed: Any) -> None:
    env = gymnasium.make("pax/IPD-v0").unwrapped
    with pytest.raises(ValueError, match=str(seed)):
        env.reset(seed=seed)


def test_all_of_a_thousand_steps_repeat_under_a_seed() -> None:
    def run() -> list[object]:
        env = gymnasium.make("pax/CoinGame-v0", num_inner_steps=16)
        env.action_space.seed(1)
        seen: list[object] = [env.reset(seed=5)]
        for _ in range(1_000):
            seen.append(env.step(env.action_space.sample()))
            if seen[-1][2] or seen[-1][3]:  # type: ignore[index]
                seen.append(env.reset())
        return seen

    assert_same(run(), run())


def test_observations_are_fresh_and_writable() -> None:
    """Stepping leaves old ones alone, writing to them leaves us alone."""
    env, twin = (gymnasium.make("pax/CoinGame-v0").unwrapped for _ in range(2))
    kept, _ = env.reset(seed=0)
    twin.reset(seed=0)
    before = kept.copy()
    for action in (0, 1, 2):
        env.step(action)
        twin.step(action)
    np.testing.assert_array_equal(kept, before)
    assert kept.flags.writeable
    kept[...] = 9
    assert_same(env.step(3)[:4], twin.step(3)[:4])


def test_stepping_a_trial_that_is_over_raises() -> None:
    env = gymnasium.make("pax/IPD-v0", num_inner_steps=1).unwrapped
    with pytest.raises(ResetNeeded, match="before the first reset"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(ResetNeeded, match="after the end"):
        env.step(0)


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda env: pickle.loads(pickle.dumps(env)),
        lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
    ],
    ids=["deepcopy", "pickle", "cloudpickle"],
)
def test_a_copy_plays_on_like_the_original(copied: object) -> None:
    """With its horizon, its state and its generator, without a compilation."""
    env = gymnasium.make("pax/IPD-v0", num_inner_steps=7, opponent="Random")
    env.reset(seed=3)
    for _ in range(3):
        env.step(1)
    compiled = lanes.play_one._cache_size()
    twin = copied(env)  # type: ignore[operator]
    steps = [(env.step(0), twin.step(0)) for _ in range(4)]
    for original, other in steps:
        assert_same(original, other)
    assert steps[-1][1][3]
    assert_same(env.reset(), twin.reset())
    assert lanes.play_one._cache_size() == compiled


def test_spaces_of_two_environments_are_seeded_apart() -> None:
    """Spaces are copies, and the same object at every call."""
    left, right = (gymnasium.make("pax/CoinGame-v0") for _ in range(2))
    assert left.action_space is left.action_space
    left.action_space.seed(1)
    right.action_space.seed(2)
    draws = [
        [int(env.action_space.sample()) for _ in range(100)] for env in (left, right)
    ]
    left.action_space.seed(1)
    assert draws[0] != draws[1]
    assert [int(left.action_space.sample()) for _ in range(100)] == draws[0]


@pytest.mark.parametrize("game", GAMES)
def test_discrete_spaces_start_at_zero(game: str) -> None:
    env = GymnasiumEnv(game)
    for space in (env.observation_space, env.action_space):
        if isinstance(space, gymnasium.spaces.Discrete):
            assert space.start == 0
    assert env.native[0].num_players == 1


@pytest.mark.parametrize("game", ["pax/IPD-v0", "pax/CoinGame-v0"])
def test_pictures_change_with_the_game_and_text_is_text(game: str) -> None:
    """Also right after a reset and on the last step."""
    env = gymnasium.make(game, render_mode="rgb_array", num_inner_steps=3)
    env.reset(seed=0)
    images = [env.render()]
    for action in (1, 0, 1):
        env.step(action)
        images.append(env.render())
    assert all(image.dtype == np.uint8 for image in images)
    assert all(image.ndim == 3 and image.shape[-1] == 3 for image in images)
    assert any(not np.array_equal(images[0], image) for image in images[1:])
    text = gymnasium.make(game, render_mode="ansi")
    text.reset(seed=0)
    assert isinstance(text.render(), str)


def test_render_modes_are_checked() -> None:
    """Human is refused, no mode warns, closing twice is fine."""
    with pytest.raises(ValueError, match=r"rgb_array.*ansi.*human"):
        gymnasium.make("pax/IPD-v0", render_mode="human")
    env = gymnasium.make("pax/IPD-v0", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None
    env.close()
    env.close()


def test_rendering_does_not_disturb_the_trial() -> None:
    plain = gymnasium.make("pax/CoinGame-v0")
    drawn = gymnasium.make("pax/CoinGame-v0", render_mode="rgb_array")
    assert_same(plain.reset(seed=1), drawn.reset(seed=1))
    for action in (0, 1, 2, 3, 0):
        drawn.render()
        assert_same(plain.step(action), drawn.step(action))


@pytest.mark.slow
def test_stepping_imports_no_plotting_library(run_python) -> None:
    printed = run_python(
        "import sys, gymnasium, paxenv\n"
        "env = gymnasium.make('pax/IPD-v0', opponent='AllC')\n"
        "env.reset(seed=0); env.step(1)\n"
        "print('matplotlib' in sys.modules, 'pygame' in sys.modules)"
    )
    assert printed == "False False"


def test_standing_still_moves_nobody_and_only_the_clock() -> None:
    env = gymnasium.make(
        "pax/CoinGame-v0", opponent="Stay", num_inner_steps=6
    ).unwrapped
    stay = env.native[0].env.action_space(0).n - 1
    env.reset(seed=0)
    places = [_places(env.state)]
    for step in range(1, 6):
        env.step(stay)
        places.append(_places(env.state))
        assert env.state.inner_t == step
    assert all(np.array_equal(place, places[0]) for place in places)


def test_a_loop_in_the_manner_of_clean_rl_runs_unchanged() -> None:
    """SyncVectorEnv of thunks with episode statistics: -1 a step for CC."""

    def make_env(seed: int) -> object:
        def thunk() -> gymnasium.Env:
            env = gymnasium.make("pax/IPD-v0", num_inner_steps=5)
            env = gymnasium.wrappers.RecordEpisodeStatistics(env)
            env.action_space.seed(seed)
            return env

        return thunk

    envs = gymnasium.vector.SyncVectorEnv([make_env(i) for i in range(3)])  # type: ignore
    obs, _ = envs.reset(seed=1)
    returns: list[float] = []
    for _ in range(24):
        obs, *_, infos = envs.step(np.zeros(3, int))
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
    assert obs.shape == (3, 5)
    assert returns == [-5.0] * 12


def _leaves(info: dict) -> list:
    leaves = []
    for value in info.values():
        if isinstance(value, dict):
            leaves += _leaves(value)
        else:
            leaves += value if isinstance(value, tuple) else [value]
    return leaves


def _places(state: Any) -> np.ndarray:
    parts = [np.ravel(np.asarray(x)) for x in jax.tree.leaves(state.env.game)]
    return np.concatenate(parts)
