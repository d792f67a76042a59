"""The vector environment: one compiled call, three autoreset modes, three arrays."""

import copy
import pickle
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapter_cases import GAMES, assert_same, warnings_as_errors
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import paxenv
from paxenv import keys
from paxenv.adapters import lanes
from paxenv.adapters.vector_env import GymnasiumVectorEnv

STAG_HUNT = [[4, 4], [1, 3], [3, 1], [2, 2]]


def make(**kwargs: Any) -> GymnasiumVectorEnv:
    return gymnasium.make_vec("pax/IPD-v0", **kwargs)  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_game_stays_in_its_batched_spaces(game: str) -> None:
    """With warnings as errors, over several trials."""
    with warnings_as_errors():
        envs = gymnasium.make_vec(game, num_envs=3, num_inner_steps=4)
        envs.action_space.seed(0)
        obs, _ = envs.reset(seed=0)
        for _ in range(12):
            assert envs.observation_space.contains(obs)
            obs, rewards, terminated, truncated, _ = envs.step(
                envs.action_space.sample()
            )
            assert rewards.dtype == np.float32
            assert terminated.dtype == truncated.dtype == bool
            assert rewards.shape == terminated.shape == truncated.shape == (3,)


@pytest.mark.slow
def test_the_fast_path_is_our_batched_class_and_gets_the_keywords() -> None:
    """Payoff and horizon act in all modes; equal actions are paid equally."""
    options = {"num_envs": 8, "payoff": STAG_HUNT, "num_inner_steps": 7, "game": None}
    fast = make(**options)
    named = make(vectorization_mode="vector_entry_point", **options)
    sync = make(vectorization_mode="sync", **options)
    assert type(fast) is type(named) is GymnasiumVectorEnv
    assert isinstance(sync, gymnasium.vector.SyncVectorEnv)
    fast.action_space.seed(0)
    for envs in (fast, named, sync):
        envs.reset(seed=0)
    for t in range(1, 20):
        actions = fast.action_space.sample()
        steps = [envs.step(actions) for envs in (fast, named, sync)]
        for step in steps:
            np.testing.assert_array_equal(step[0], steps[0][0])
            np.testing.assert_array_equal(step[1], steps[0][1])
            assert step[3].all() == (t % 8 == 7)
    assert set(np.unique(steps[0][1])) <= {0.0, 1.0, 2.0, 3.0, 4.0}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["flat", "nested"])
def test_infos_equal_those_of_gymnasiums_own_vector_env(form: str) -> None:
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        ours = make(num_envs=2, num_inner_steps=2, autoreset_mode=mode, info=form)
        theirs = make(
            num_envs=2,
            num_inner_steps=2,
            info=form,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
        )
        assert_same_info(ours.reset(seed=0)[1], theirs.reset(seed=0)[1])
        for t in range(6):
            actions = np.array([t % 2, 1])
            assert_same_info(ours.step(actions)[-1], theirs.step(actions)[-1])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (AutoresetMode.NEXT_STEP, AutoresetMode.NEXT_STEP),
        ("NextStep", AutoresetMode.NEXT_STEP),
        ("SameStep", AutoresetMode.SAME_STEP),
        ("DISABLED", AutoresetMode.DISABLED),
    ],
)
def test_the_declared_mode_is_an_enum_instance(mode: Any, expected: Any) -> None:
    with warnings_as_errors():
        envs = make(num_envs=2, autoreset_mode=mode)
    assert envs.metadata["autoreset_mode"] is expected
    assert GymnasiumVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize(
    ("option", "value"),
    [("autoreset_mode", "Never"), ("arrays", "cupy"), ("num_envs", 0)],
)
def test_a_bad_option_is_named(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{option}.*{value}"):
        GymnasiumVectorEnv("IPD", **{"num_envs": 2, option: value})


def test_next_step_shows_the_final_observation_and_then_opens_a_trial() -> None:
    """D, D, C against AllC ends in CC; the action after it is not read."""
    envs = make(num_envs=2, num_inner_steps=3, opponent="AllC")
    envs.reset(seed=0)
    steps = [envs.step(np.full(2, action)) for action in (1, 1, 0)]
    assert [step[1].tolist() for step in steps] == [[0, 0], [0, 0], [-1, -1]]
    assert steps[-1][0].tolist() == [[1, 0, 0, 0, 0]] * 2
    assert steps[-1][3].all()
    obs, rewards, terminated, truncated, info = envs.step(np.full(2, 77))
    assert obs.tolist() == [[0, 0, 0, 0, 1]] * 2
    for array in (rewards, terminated, truncated):
        assert not array.any()
    assert not info["valid"].any()
    assert envs.step(np.full(2, 1))[0].tolist() == [[0, 0, 1, 0, 0]] * 2


def test_same_step_has_the_final_observation_in_info() -> None:
    """At done lanes alone, with the info of the step that ended them."""
    envs = make(
        num_envs=2, num_inner_steps=3, opponent="AllC", autoreset_mode="SameStep"
    )
    envs.reset(seed=0)
    for action in (1, 1):
        assert "final_obs" not in envs.step(np.full(2, action))[-1]
    obs, rewards, _, truncated, info = envs.step(np.zeros(2, int))
    assert truncated.all()
    assert rewards.tolist() == [-1.0, -1.0]
    assert obs.tolist() == [[0, 0, 0, 0, 1]] * 2
    assert [final.tolist() for final in info["final_obs"]] == [[1, 0, 0, 0, 0]] * 2
    assert info["_final_obs"].all()
    assert info["final_info"]["valid"].all()
    assert not info["valid"].any()
    np.testing.assert_array_equal(
        info["final_info"]["episode_metrics/returns"], [[-1, -7], [-1, -7]]
    )


@pytest.mark.slow
def test_masks_tell_which_lanes_have_ended() -> None:
    options = {"num_envs": 64, "random_ends": True, "autoreset_mode": "SameStep"}
    envs = make(continuation_prob=0.5, **options)
    envs.reset(seed=0)
    *_, terminated, truncated, info = envs.step(np.zeros(64, int))
    done = terminated | truncated
    assert 0 < done.sum() < 64
    np.testing.assert_array_equal(info["_final_obs"], done)
    np.testing.assert_array_equal(info["final_info"]["_episode_metrics/welfare"], done)
    assert [final is not None for final in info["final_obs"]] == done.tolist()


def test_without_autoreset_only_a_masked_reset_opens_a_lane() -> None:
    """A finished lane stays terminal, and stepping it raises."""
    envs = make(num_envs=3, num_inner_steps=2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.step(np.zeros(3, int))
    final, _, _, truncated, _ = envs.step(np.ones(3, int))
    assert truncated.all()
    with pytest.raises(ResetNeeded, match=r"\[0, 1, 2\] are over"):
        envs.step(np.zeros(3, int))
    mask = np.array([True, False, True])
    obs, info = envs.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(info["_valid"], mask)
    assert obs[mask].tolist() == [[0, 0, 0, 0, 1]] * 2
    np.testing.assert_array_equal(obs[1], final[1])
    with pytest.raises(ResetNeeded, match=r"\[1\] are over"):
        envs.step(np.zeros(3, int))
    envs.reset(options={"reset_mask": ~mask})
    assert envs.step(np.zeros(3, int))[1].tolist() == [-1.0] * 3
    assert envs.state.t.tolist() == [1, 1, 1]


def test_a_reset_zeroes_the_step_counter() -> None:
    """Horizon 10, 4 steps, reset: the next end is 10 steps away."""
    envs = make(num_envs=2, num_inner_steps=10)
    envs.reset(seed=0)
    for _ in range(4):
        envs.step(np.zeros(2, int))
    envs.reset()
    ends = [envs.step(np.zeros(2, int))[3].all() for _ in range(10)]
    assert ends == [False] * 9 + [True]


def test_max_episode_steps_is_the_length_of_a_trial() -> None:
    """Gymnasium's own word; the environment and its spec say the same."""
    envs = make(num_envs=2, max_episode_steps=3)
    assert envs.native[0].num_inner_steps == envs.spec.max_episode_steps == 3
    trial = make(num_envs=2, max_episode_steps=6, num_outer_steps=3)
    assert trial.native[0].num_inner_steps == 2
    assert trial.spec.max_episode_steps == 6
    assert make(num_envs=2).spec.max_episode_steps == 100
    with pytest.raises(ValueError, match=r"max_episode_steps.* 3 inner .*got 5"):
        make(num_envs=2, max_episode_steps=5, num_outer_steps=3)
    with pytest.raises(ValueError, match=r"max_episode_steps=3.*num_inner_steps=2"):
        make(num_envs=2, max_episode_steps=3, num_inner_steps=2)
    with pytest.raises(ValueError, match=r"whole number >= 1, got 0"):
        make(num_envs=2, max_episode_steps=0)


def test_a_mask_must_be_a_bool_for_each_lane() -> None:
    envs = make(num_envs=3)
    with pytest.raises(ResetNeeded, match="first reset"):
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"reset_mask .* \(3,\)"):
        envs.reset(options={"reset_mask": np.ones(2, bool)})


def test_seeding_opens_no_trial_by_itself() -> None:
    """No reset before the user's, and one reset makes one trial."""
    envs = make(num_envs=2)
    assert envs.state is None
    with pytest.raises(ResetNeeded, match="before the first reset"):
        envs.step(np.zeros(2, int))
    envs.reset(seed=0)
    assert envs._lanes.e.tolist() == [0, 0]
    envs.reset()
    assert envs._lanes.e.tolist() == [1, 1]


def test_seed_s_lane_1_is_seed_s_plus_1_lane_0() -> None:
    left, right = (gymnasium.make_vec("pax/CoinGame-v0", num_envs=2) for _ in range(2))
    for seed in (4, 2**31 - 1, 2**32 - 1):
        assert_same(left.reset(seed=seed)[0][1], right.reset(seed=seed + 1)[0][0])


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_what_is_no_seed_is_named(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed"):
        make(num_envs=2).reset(seed=seed)


@pytest.mark.slow
def test_episodes_of_one_seed_do_not_repeat() -> None:
    """400 trials of the coin game open with more than 300 layouts."""
    envs = gymnasium.make_vec(
        "pax/CoinGame-v0", num_envs=1, num_inner_steps=1, autoreset_mode="SameStep"
    )
    obs, _ = envs.reset(seed=0)
    layouts = {obs.tobytes()}
    for _ in range(399):
        layouts.add(envs.step(np.zeros(1, int))[0].tobytes())
    assert len(layouts) > 300


def test_an_action_outside_the_space_names_player_lane_and_value() -> None:
    """And changes nothing; fractions are never floored."""
    envs = make(num_envs=3, player=1)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"player 1's action .*2.* in lane 1"):
        envs.step(np.array([0, 2, 1]))
    with pytest.raises(ValueError, match=r"player 1's action .*0\.6.* in lane 2"):
        envs.step(np.array([0.0, 1.0, 0.6], np.float32))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        envs.step(np.zeros((3, 1), int))
    assert envs.state.t.tolist() == [0, 0, 0]
    assert envs.step([0.0, 1.0, 0.0])[1].tolist() == [-1.0, 0.0, -1.0]


@pytest.mark.slow
def test_arrays_are_fresh_and_writable() -> None:
    """In both directions."""
    envs, twin = (gymnasium.make_vec("pax/CoinGame-v0", num_envs=2) for _ in range(2))
    obs, _ = envs.reset(seed=0)
    twin.reset(seed=0)
    before = obs.copy()
    for action in range(3):
        step = envs.step(np.full(2, action))
        twin.step(np.full(2, action))
        assert all(array.flags.writeable for array in step[:4])
        assert all(x.flags.writeable for x in jax.tree.leaves(step[4]))
        for array in (*step[:4], *jax.tree.leaves(step[4])):
            array[...] = 1
    np.testing.assert_array_equal(obs, before)
    assert_same(envs.step(np.zeros(2, int)), twin.step(np.zeros(2, int)))


@pytest.mark.slow
def test_device_arrays_hold_the_same_numbers_as_copies() -> None:
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        options = {"num_envs": 4, "num_inner_steps": 3, "autoreset_mode": mode}
        copies, device = make(**options), make(arrays="jax", **options)
        assert_same(copies.reset(seed=0), jax.device_get(device.reset(seed=0)))
        for t in range(3):
            actions = np.array([0, 1, t % 2, 1 - t % 2])
            host, there = copies.step(actions), device.step(jnp.asarray(actions))
            assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(there))
            assert_same(host[:4], jax.device_get(there[:4]))
            for name in ("metrics/welfare", "_metrics/welfare", "metrics/cooperation"):
                assert_same(host[4][name], jax.device_get(there[4][name]))
            done = np.asarray(there[2] | there[3])
            for name in ("episode_metrics/welfare", "final_obs"):
                if name in there[4]:
                    np.testing.assert_array_equal(there[4][f"_{name}"], done)
        if mode is AutoresetMode.SAME_STEP:
            np.testing.assert_array_equal(
                np.stack(host[4]["final_obs"]), there[4]["final_obs"]
            )
        else:
            ended = jax.device_get(there[4]["episode_metrics/returns"])
            assert_same(host[4]["episode_metrics/returns"], ended)


def test_a_copy_plays_on_like_the_original() -> None:
    """By pickle and by deepcopy, without a compilation."""
    envs = gymnasium.make_vec("pax/IPD-v0", num_envs=3, opponent="Random")
    envs.reset(seed=3)
    envs.step(np.ones(3, int))
    compiled = lanes.play_many._cache_size()
    twins = [copy.deepcopy(envs), pickle.loads(pickle.dumps(envs))]
    expected = envs.step(np.zeros(3, int))
    for twin in twins:
        assert_same(twin.step(np.zeros(3, int)), expected)
    assert lanes.play_many._cache_size() == compiled


@pytest.mark.slow
def test_all_of_a_thousand_steps_repeat_under_a_seed() -> None:
    def run() -> list[Any]:
        envs = gymnasium.make_vec("pax/CoinGame-v0", num_envs=2)
        envs.action_space.seed(1)
        first = envs.reset(seed=5)
        return [first, *(envs.step(envs.action_space.sample()) for _ in range(1_000))]

    assert_same(run(), run())


@pytest.mark.slow
def test_stepping_compiles_once_whatever_the_payoff() -> None:
    for payoff in (
        [[3, 3], [0, 5], [5, 0], [1, 1]],
        [[-1, -1], [-3, 0], [0, -3], [-2, -2]],
    ):
        envs = make(num_envs=5, payoff=payoff, num_inner_steps=2)
        envs.reset(seed=0)
        if payoff[0][0] == 3:
            envs.step(np.zeros(5, int))
            compiled = lanes.play_many._cache_size()
        for _ in range(4):
            envs.step(np.zeros(5, int))
        envs.reset()
        envs.step(np.zeros(5, int))
    assert lanes.play_many._cache_size() == compiled


@pytest.mark.slow
@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="older XLA fuses worse")
def test_opening_a_trial_in_the_next_step_draws_no_further_random_numbers() -> None:
    """The generator's rounds in the compiled step are those of the step alone."""
    env, params = paxenv.make("CoinGame")
    opened = lanes.open_many(env, keys.lanes(0, 4), np.zeros(4, np.int32), params)
    actions = (np.zeros(4, np.int32), np.zeros(4, np.int32))
    rounds = [
        lanes.play_many.lower(env, mode, opened, actions, params)
        .compile()
        .as_text()
        .count(" xor(")
        for mode in (AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP)
    ]
    assert rounds[0] == rounds[1] > 0


def test_every_lane_has_its_picture() -> None:
    envs = make(num_envs=2, render_mode="ansi")
    envs.reset(seed=0)
    envs.step(np.array([0, 1]))
    first, second = envs.render()
    assert isinstance(first, str)
    assert first != second
    with pytest.raises(ValueError, match=r"rgb_array.*ansi"):
        make(num_envs=2, render_mode="human")


def assert_same_info(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if isinstance(value, dict):
            assert_same_info(value, theirs[name])
        elif value.dtype == object:
            assert [x is None for x in value] == [x is None for x in theirs[name]]
            for left, right in zip(value, theirs[name], strict=True):
                np.testing.assert_array_equal(left, right)
        else:
            np.testing.assert_array_equal(value, theirs[name])
