"""What users of `OnPolicyRunner` are promised: defaults, order, documentation."""

import inspect
import re

import jax.numpy as jnp
import pytest
from on_policy_fakes import SMALL, Parts

from runners import OnPolicyRunner
from runners.storage.jsonl import read_rows


def make_runner(**options):
    game = Parts(num_inner_steps=5)
    return OnPolicyRunner(game, **{"cfg": SMALL, "num_envs": 2, **options})


def test_rows_are_logged_every_ten_iterations_unless_told_otherwise(tmp_path):
    with make_runner(log_dir=tmp_path) as runner:
        runner.learn(num_iterations=25)

    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [10, 20, 25]


def test_states_are_saved_every_hundred_iterations_unless_told_otherwise(tmp_path):
    with make_runner(save_dir=tmp_path) as runner:
        runner.learn(num_iterations=101)

    saved = {path.name for path in (tmp_path / "named").iterdir()}
    assert saved == {"checkpoint_100.pt", "checkpoint_final.pt"}


def test_an_iteration_collects_updates_sets_the_rate_logs_and_saves_in_that_order(
    tmp_path,
):
    runner = make_runner(save_dir=tmp_path, log_interval=1, save_interval=1)
    seen = []
    for event in ("post_rollout", "post_update", "on_log", "on_checkpoint"):
        runner.add_callback(event, lambda *_, name=event: seen.append(name))
    # A rate that is set before an update is the one that the update reports.
    runner.add_callback("pre_update", lambda r: r.set_hyperparam("learning_rate", 0.25))
    rates = []
    runner.add_callback(
        "on_log", lambda _, stats: rates.append(stats["train/learning_rate"])
    )

    runner.learn(num_iterations=2)

    once = ["post_rollout", "post_update", "on_log", "on_checkpoint"]
    assert seen == [*once, *once, "on_checkpoint"]  # the last one is the final state
    assert rates == [0.25, 0.25]


def test_the_stages_are_methods_that_return_their_statistics():
    runner = make_runner()

    collected = runner.collect_rollout()
    updated = runner.update()
    rate = runner.adjust_learning_rate()
    logged = runner.log_metrics()

    assert collected["rollout/mean_reward"] == 1.0
    assert not [name for name in collected if name.startswith("train/")]
    assert {"train/policy_loss", "train/value_loss"} <= set(updated)
    assert updated["train/learning_rate"] == rate == pytest.approx(3e-4)
    assert logged["train/policy_loss"] == updated["train/policy_loss"]
    assert logged == runner.stats


class Coin(Parts):
    """Parts that pays a step's action, 0 or 1."""

    def step_game(self, draws, game, actions, params):
        obs, game, _, terminated, info = super().step_game(draws, game, actions, params)
        return obs, game, actions.astype(jnp.float32), terminated, info


def test_evaluation_takes_the_most_likely_actions():
    """A fresh policy over two actions is nearly even: sampled returns would differ."""
    runner = OnPolicyRunner(Coin(num_inner_steps=5), cfg=SMALL, num_envs=2)

    stats = runner.eval(num_episodes=20)

    assert stats["eval/std_reward"] == 0.0
    assert stats["eval/min_reward"] == stats["eval/max_reward"]


def test_every_public_member_is_documented_and_on_the_page(root):
    page = (root / "docs" / "on_policy_runner.md").read_text()
    members = {
        name: member
        for name, member in inspect.getmembers(OnPolicyRunner)
        if not name.startswith("_")
    }
    assert {"learn", "eval", "save_checkpoint", "load_checkpoint"} <= set(members)
    bare = [name for name, member in members.items() if not inspect.getdoc(member)]
    assert bare == []
    options = inspect.signature(OnPolicyRunner).parameters
    named = {name for name in (*members, *options) if re.search(rf"\b{name}\b", page)}
    assert {*members, *options} - named == set()


def test_the_page_says_how_often_to_save(root):
    page = (root / "docs" / "on_policy_runner.md").read_text()
    section = page.partition("## Checkpoints")[2].partition("\n## ")[0]
    assert "save_interval" in section
    assert "lost" in section, "what an interval costs when a run is killed"
