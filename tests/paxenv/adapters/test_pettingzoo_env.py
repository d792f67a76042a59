"""The parallel environment keeps PettingZoo's contract, and refuses what it must."""

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pettingzoo
import pytest
from adapter_cases import GAMES, assert_same, warnings_as_errors
from gymnasium.error import ResetNeeded
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.utils import parallel_to_aec

import paxenv


@pytest.mark.parametrize("game", GAMES)
def test_every_game_passes_the_api_test_with_warnings_as_errors(
    game: str, capsys: pytest.CaptureFixture
) -> None:
    """And 200 random steps have exactly the acting agents as keys."""
    with warnings_as_errors():
        env = paxenv.parallel_env(game, max_cycles=16)
        parallel_api_test(env, num_cycles=50)
        env.reset(seed=0)
        for _ in range(200):
            acting = list(env.agents)
            step = env.step({a: env.action_space(a).sample() for a in acting})
            assert all(list(part) == acting for part in step)
            for agent in acting:
                assert env.observation_space(agent).contains(step[0][agent])
                assert type(step[1][agent]) is float
                assert type(step[2][agent]) is type(step[3][agent]) is bool
            if not env.agents:
                env.reset()
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize("game", ["IPD-v0", "CoinGame-v0"])
def test_the_agent_cycle_made_of_it_passes_too(
    game: str, capsys: pytest.CaptureFixture
) -> None:
    def parallel() -> Any:
        return paxenv.parallel_env(game, max_cycles=8)

    with warnings_as_errors():
        api_test(parallel_to_aec(parallel()), num_cycles=30)
        seed_test(lambda: parallel_to_aec(parallel()), num_cycles=8)
        parallel_seed_test(parallel, num_cycles=8)
    assert "Passed" in capsys.readouterr().out


def test_all_of_two_hundred_steps_repeat_under_a_seed() -> None:
    """The library's own test stops after one step; here twelve episodes end."""

    def run() -> list[Any]:
        env = paxenv.parallel_env("CoinGame-v0", num_inner_steps=16)
        for i, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(i)
        seen: list[Any] = [env.reset(seed=5)]
        for _ in range(200):
            seen.append(env.step({a: env.action_space(a).sample() for a in env.agents}))
            if not env.agents:
                seen.append(env.reset())
        return seen

    assert_same(run(), run())


def test_the_last_step_has_all_agents_and_then_none_is_alive() -> None:
    env = paxenv.parallel_env("IPD", max_cycles=3)
    env.reset(seed=0)
    for _ in range(3):
        step = env.step({"player_0": 0, "player_1": 1})
    assert all(list(part) == ["player_0", "player_1"] for part in step)
    assert step[1] == {"player_0": -3.0, "player_1": 0.0}
    assert step[3] == {"player_0": True, "player_1": True}
    assert step[4]["player_0"]["episode_metrics/welfare"] == -9.0
    assert env.agents == []
    with pytest.raises(ResetNeeded, match="after the end"):
        env.step({"player_0": 0, "player_1": 1})
    env.reset()
    assert env.agents == ["player_0", "player_1"]


def test_infos_have_the_same_entries_from_the_reset_to_the_end() -> None:
    """TorchRL makes room for those of the reset; totals are 0 until the end."""
    env = paxenv.parallel_env("IPD", max_cycles=2)
    infos = [env.reset(seed=0)[1]["player_0"]]
    for _ in range(2):
        infos.append(env.step({"player_0": 0, "player_1": 1})[4]["player_0"])
    assert infos[0].keys() == infos[1].keys() == infos[2].keys()
    totals = [info["episode_metrics/welfare"] for info in infos]
    assert totals == [0.0, 0.0, -6.0]
    assert [np.shape(i["episode_metrics/returns"]) for i in infos] == [(2,)] * 3
    # The step's own results have these names.
    assert not {"terminated", "truncated", "reward", "done"} & set(infos[0])


def test_agents_and_spaces_are_known_before_the_first_reset() -> None:
    """And each call gives the same space."""
    env = paxenv.parallel_env("CoinGame")
    assert env.possible_agents == ["player_0", "player_1"]
    assert env.max_num_agents == 2
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
    with pytest.raises(ResetNeeded, match="before the first reset"):
        env.step({"player_0": 0, "player_1": 0})


def test_agents_are_seeded_apart() -> None:
    env = paxenv.parallel_env("CoinGame")

    def draws() -> list[list[int]]:
        for seed, agent in enumerate(env.possible_agents, start=1):
            env.action_space(agent).seed(seed)
        return [
            [int(env.action_space(agent).sample()) for _ in range(100)]
            for agent in env.possible_agents
        ]

    first = draws()
    assert first[0] != first[1]
    assert draws() == first


@pytest.mark.parametrize(
    ("actions", "named"),
    [
        ({"player_0": 0}, "player_1"),
        ({"player_0": 0, "player_1": 0, "player_9": 0}, "player_9"),
        ({"player_0": 0, "player_1": None}, "player_1"),
        ({"player_0": 5, "player_1": 0}, r"player_0's action 5"),
        ({"player_0": 0, "player_1": 0.5}, r"player_1's action 0\.5"),
    ],
)
def test_a_bad_joint_action_names_the_agent_and_changes_nothing(
    actions: dict, named: str
) -> None:
    env = paxenv.parallel_env("IPD")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=named):
        env.step(actions)
    assert env.native_state.t == 0


def test_a_seed_repeats_and_a_reset_without_one_goes_on() -> None:
    env = paxenv.parallel_env("CoinGame")
    runs = [
        [
            env.reset(seed=s)[0],
            env.step({"player_0": 0, "player_1": 1})[0],
            env.reset()[0],
        ]
        for s in (7, 7, 8)
    ]
    assert_same(runs[0], runs[1])
    assert any(
        not np.array_equal(a["player_0"], b["player_0"])
        for a, b in zip(runs[0], runs[2], strict=True)
    )
    assert not np.array_equal(runs[0][0]["player_0"], runs[0][2]["player_0"])


def test_an_unseeded_environment_draws_its_seed_and_tells_it() -> None:
    env, twin = (paxenv.parallel_env("CoinGame") for _ in range(2))
    obs, _ = env.reset()
    assert_same(twin.reset(seed=env.np_random_seed)[0], obs)


def test_what_it_returns_is_fresh_and_writable() -> None:
    """Each agent's arrays are its own."""
    env, twin = (paxenv.parallel_env("CoinGame") for _ in range(2))
    actions = {"player_0": 0, "player_1": 1}
    obs, infos = env.reset(seed=0)
    twin.reset(seed=0)
    for array in jax.tree.leaves((obs, infos)):
        if isinstance(array, np.ndarray):
            array[...] = 9
    step = env.step(actions)
    kept = copy.deepcopy(step)
    assert_same(step, twin.step(actions))
    env.step(actions)
    assert_same(step, kept)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]
)
def test_a_copy_plays_on_like_the_original(copied: Any) -> None:
    env = paxenv.parallel_env("CoinGame", max_cycles=5)
    actions = {"player_0": 0, "player_1": 1}
    env.reset(seed=3)
    env.step(actions)
    twin = copied(env)
    for _ in range(4):
        assert_same(env.step(actions), twin.step(actions))
    assert twin.agents == []
    assert_same(env.reset(), twin.reset())


def test_the_state_is_what_all_players_see_in_one_vector() -> None:
    """For critics of all of them, which PettingZoo's users expect."""
    env = paxenv.parallel_env("IPD", max_cycles=2)
    with pytest.raises(ResetNeeded, match="before the first reset"):
        env.state()
    env.reset(seed=0)
    assert env.state().tolist() == [0, 0, 0, 0, 1] * 2
    assert env.state_space.shape == (10,)
    for _ in range(2):
        env.step({"player_0": 0, "player_1": 1})
        assert env.state().tolist() == [0, 1, 0, 0, 0, 0, 0, 1, 0, 0]
        assert env.state_space.contains(env.state())
    assert parallel_to_aec(env).state_space is not None
    index = paxenv.parallel_env("IPD", observation="index")
    index.reset(seed=0)
    assert index.state().tolist() == [4, 4]
    assert index.state_space.contains(index.state())


def test_max_cycles_is_another_name_of_num_inner_steps() -> None:
    assert paxenv.parallel_env("IPD", max_cycles=7).native[0].num_inner_steps == 7
    with pytest.raises(ValueError, match=r"max_cycles=7.*num_inner_steps=8"):
        paxenv.parallel_env("IPD", max_cycles=7, num_inner_steps=8)


@pytest.mark.parametrize("option", [{"opponent": "TitForTat"}, {"player": 1}])
def test_no_opponent_is_seated(option: dict) -> None:
    with pytest.raises(ValueError, match="seats no opponent"):
        paxenv.parallel_env("IPD", **option)


def test_pettingzoos_own_registry_makes_the_games() -> None:
    env = pettingzoo.make("parallel", "pax/IPD-v0", max_cycles=3)
    assert env.metadata["name"] == "pax/IPD-v0"
    env.reset(seed=0)
    ends = [env.step({"player_0": 0, "player_1": 0})[3]["player_0"] for _ in range(3)]
    assert ends == [False, False, True]


def test_pictures_need_a_mode_and_text_is_text() -> None:
    env = paxenv.parallel_env("CoinGame", render_mode="ansi")
    env.reset(seed=0)
    assert isinstance(env.render(), str)
    image = paxenv.parallel_env("CoinGame", render_mode="rgb_array")
    image.reset(seed=0)
    image.step({"player_0": 0, "player_1": 1})
    assert image.render().dtype == np.uint8
    with pytest.raises(ValueError, match=r"rgb_array.*ansi.*human"):
        paxenv.parallel_env("CoinGame", render_mode="human")
    env.close()
    env.close()


class Stub:
    """Two agents that end on step 2, one by one or together."""

    possible_agents = ("player_0", "player_1")

    def __init__(self, terminated: dict, truncated: dict) -> None:
        self.flags = terminated, truncated
        self.agents: list[str] = []
        self.resets = self.t = 0

    def reset(self) -> tuple[dict, dict]:
        self.agents, self.t = list(self.possible_agents), 0
        self.resets += 1
        return {}, {}

    def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]:
        self.t += 1
        over = self.t == 2
        ends = [
            {a: over and flags.get(a, False) for a in self.agents}
            for flags in self.flags
        ]
        self.agents = [a for a in self.agents if not any(e[a] for e in ends)]
        return {}, {}, ends[0], ends[1], {}


@pytest.mark.parametrize(
    ("terminated", "truncated", "resets"),
    [({"player_0": True}, {}, 1), ({"player_0": True}, {"player_1": True}, 2)],
)
def test_the_documented_loop_resets_when_no_agent_is_left(
    terminated: dict, truncated: dict, resets: int
) -> None:
    """`while env.agents` is right whichever flags end which agents."""
    env = Stub(terminated, truncated)
    env.reset()
    for _ in range(3):
        if not env.agents:
            env.reset()
        env.step(dict.fromkeys(env.agents, 0))
    assert env.resets == resets
