"""Every experiment that ships can be built, and one of each family runs."""

import numpy as np
import pytest

from runners.config import experiment_names, load, load_small, to_yaml
from runners.planning.plan import prepare
from runners.session.training import program_of

TINY = ("num_seeds=2", "num_envs=8", "num_inner_steps=8", "total_timesteps=64")


@pytest.mark.parametrize("name", experiment_names())
def test_a_stored_experiment_fits_together_and_says_what_comes_out(name, tmp_path):
    """No shipped configuration is stale, nor its small size; it is read as written."""
    config = load([name])
    plan = prepare(config)
    assert config.name == name
    assert all((config.description, config.expected, config.source))
    assert plan.num_iterations >= 1
    assert plan.notices == ()

    small = load_small(name)
    assert small.bands, "nothing to hold its outcome against"
    if small != config:
        assert prepare(small).num_iterations >= 1

    changed = load([name, "++wandb.group=1e5", "seed=3", "payoff=-1,-3,0,-2"])
    (tmp_path / "config.yaml").write_text(to_yaml(changed))
    assert load(config_file=tmp_path / "config.yaml") == changed


@pytest.mark.parametrize(
    "name",
    [
        "ipd/tabular_v_tft",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "imp/tabular_v_tabular",
                "cg/greedy",
                "multiplayer_ipd/ppo",
                "ipd/ppo_v_tft",
                "cg/ppo_v_ppo",
                "cg/tabular",
            )
        ),
    ],
)
def test_a_family_runs(name):
    words = [f"agent{i}.num_minibatches=2" for i in (1, 2, 3)]
    config = load([name])
    learners = [i for i, a in enumerate(config.agents) if a.options]
    plan = prepare(load([name, *TINY, *(words[i] for i in learners)]))
    rows = program_of(plan).run(1)
    rewards = rows["episode/reward_per_step/player_1"]
    assert rewards.shape == (2, 1)
    assert np.isfinite(rewards).all()
    losses = rows["train/player_1/loss/total"]
    assert np.isfinite(losses).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ipd/shaper_att_v_tabular",
        "imp/mfos_v_tabular",
        "cg/train_gs",
        "multiplayer_ipd/3pl_2shap",
        "infinite/mfos_v_nl",
    ],
)
def test_a_family_evolves(name):
    config = load([name])
    learners = [i for i, agent in enumerate(config.agents) if agent.options]
    words = [
        f"agent{i + 1}.num_minibatches=2"
        for i in learners
        if "num_minibatches" in config.agents[i].options
    ]
    tiny = (*TINY[:-1], "num_outer_steps=2", "num_opponents=2", "popsize=4")
    plan = prepare(load([name, *tiny, *words, "num_generations=2", "chunk_size=1"]))
    rows = program_of(plan).run(1)
    for player in range(1, plan.env.num_players + 1):
        rewards = rows[f"episode/reward_per_step/player_{player}"]
        assert rewards.shape == (2, 1)
        assert np.isfinite(rewards).all()
    fitness = rows["train/player_1/fitness/mean"]
    np.testing.assert_allclose(
        fitness, rows["episode/reward_per_step/player_1"], rtol=1e-5
    )


def test_titfortat_loses_exactly_once_to_a_defector():
    """One exploitation, then mutual defection: -301 / 150 and -298 / 150."""
    plan = prepare(load(["ipd/eval_tft_v_all_d", "num_envs=2"]))
    rows = program_of(plan).run(1)
    rewards = [rows[f"episode/reward_per_step/player_{p}"].item() for p in (1, 2)]
    np.testing.assert_allclose(rewards, [-301 / 150, -298 / 150], rtol=1e-6)
