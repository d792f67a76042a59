"""A finished run's agents against co-players that they were not trained with."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from run_fakes import fake_run

from runners.cli import cli
from runners.config import AgentConfig, ConfigError
from runners.config.reading import split_words
from runners.engine.statistics import Estimate
from runners.session.held_out import Variation, variations

YAML = "agent2={name: Naive, clock: inner, reset: trial}"

WORDS = ("num_inner_steps=10", "num_envs=4", "total_timesteps=40", "plot=false")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A learner that starts from the equal mix, after one iteration of no step size."""
    path = tmp_path_factory.mktemp("run") / "run"
    words = ["rl", "--env", "IPD", "--agent1", "Tabular", "--agent2", "TitForTat"]
    words += [*WORDS, "agent1.learning_rate=0", "tensorboard=false"]
    words += ["agent1.num_minibatches=2", "num_seeds=2", "--save-dir", str(path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return path


def held_out(run_dir, *words):
    return CliRunner().invoke(cli, ["held-out", str(run_dir), *words])


@pytest.mark.slow
def test_every_change_is_a_row_beside_play_as_trained(run_dir):
    """A fair coin's rewards: the mean of CC and DC, and that of CD and DD."""
    result = held_out(
        run_dir,
        *("--vary", "agent2=AllC", "--vary", "agent2=AllD num_inner_steps=400"),
        *("num_envs=200", "--json"),
    )
    assert result.exit_code == 0, result.output
    trained, all_c, all_d = json.loads(result.stdout)
    assert trained["setting"] == "as trained"
    assert all_c["setting"] == "agent2=AllC"
    reward = "episode/reward_per_step/player_{}".format

    def mean(row, player):
        return row["metrics"][reward(player)]["mean"]

    assert mean(all_c, 1) == pytest.approx(-0.5, abs=0.05)
    assert mean(all_c, 2) == pytest.approx(-2.0, abs=0.1)
    assert mean(all_d, 1) == pytest.approx(-2.5, abs=0.02)
    assert all_d["metrics"]["episode/length"]["mean"] == 400
    assert json.loads((run_dir / "artifacts/held_out.json").read_text())[1] == all_c


@pytest.mark.slow
def test_the_table_has_a_column_for_each_player(run_dir):
    result = held_out(run_dir, "--vary", "agent2=AllD")
    assert result.exit_code == 0, result.output
    assert "as trained" in result.output
    assert "agent2=AllD" in result.output
    assert result.output.count("player 2") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ("agent2", "written KEY=VALUE"),
        ("", "written KEY=VALUE"),
        ("agent2.lerning_rate=1", "lerning_rate"),
        ("agent2=TitForTad", "TitForTat"),
    ],
)
def test_mistakes_are_usage_errors(run_dir, vary, said):
    result = held_out(run_dir, "--vary", vary)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert CliRunner().invoke(cli, ["held-out", str(run_dir)]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agent2=AllD  seed=3", ["agent2=AllD", "seed=3"]),
        (f"{YAML} seed=3", [YAML, "seed=3"]),
        ("agents=[PPO, {name: AllC}]", ["agents=[PPO, {name: AllC}]"]),
        ("'payoff=CC=3,3 CD=0,5'", ["payoff=CC=3,3 CD=0,5"]),
        ("payoff='CC=3,3 CD=0,5' seed=1", ["payoff=CC=3,3 CD=0,5", "seed=1"]),
        ("agent1={name: 'a ] b'}", ["agent1={name: 'a ] b'}"]),
        ("", []),
    ],
)
def test_spaces_within_brackets_and_quotes_belong_to_a_value(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize("text", ["agent2={name: Naive", "wandb.group='a b"])
def test_a_bracket_or_quote_that_is_not_closed_is_said(text):
    with pytest.raises(ConfigError, match="is not closed"):
        split_words(text)


def test_a_change_may_be_a_mapping_of_yaml(tmp_path):
    """The co-player's settings of training go with it."""
    second = "{name: PPO, players: [2], num_epochs: 3}"
    words = (f"agents=[{{name: Tabular, players: [1]}}, {second}]", "num_envs=4")
    run = fake_run(tmp_path, *words)
    trained, varied = variations(run.path, [YAML])
    assert trained.plan.config.agents[1].options == {"num_epochs": 3}
    assert varied.plan.config.agents[1] == AgentConfig(
        "Naive", players=(2,), clock="inner", reset="trial"
    )


def test_the_table_keeps_its_words_whole(capsys):
    from runners.cli import held_out as command

    metrics = {
        f"episode/{name}/player_{player}": Estimate(-1.344, 0.139, 2, (-1.4, -1.3))
        for name in command.SHOWN
        for player in (1, 2)
    }
    plan: Any = SimpleNamespace()
    command._print([Variation(YAML, plan, metrics)])
    printed = capsys.readouterr().out
    for word in YAML.split():
        assert word in printed
    assert printed.count("-1.344 ± 0.139") == 6
