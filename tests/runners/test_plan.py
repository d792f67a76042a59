"""From a config to the engine's objects."""

import pytest

from paxenv_agents.registry import PairingError, UnknownAgentError
from runners.config import ConfigError, load
from runners.planning.plan import evaluation, prepare


def plan_of(*words, **options):
    return prepare(load(words, options=options))


def test_players_nobody_is_named_for_are_the_usual_opponent():
    assert plan_of(env="CoinGame").names == ("PPO", "GoodGreedy")
    assert plan_of(env="IPD", agent1="Naive").names == ("Naive", "TitForTat")
    plan = plan_of("env.num_players=4", env="IteratedTensorGame")
    assert plan.names == ("PPO", "Random", "Random", "Random")


def test_three_independent_learners_each_have_a_slot():
    plan = plan_of("multiplayer_ipd/ppo")
    assert plan.names == ("PPO", "PPO", "PPO")
    assert [slot.players for slot in plan.experiment.slots] == [(0,), (1,), (2,)]
    assert all(slot.learns for slot in plan.experiment.slots)


def test_one_agent_may_play_several_seats():
    plan = plan_of("multiplayer_ipd/ppo", "agents=[{name: PPO, players: [1, 3]}, AllD]")
    assert plan.names == ("PPO", "AllD", "PPO")
    assert [slot.players for slot in plan.experiment.slots] == [(0, 2), (1,)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ipd/ppo", "agents=[PPO, AllC, AllD]"], "has 2 players, got 3 agents"),
        (
            ["agent1=PPO", "agent1.players=[1,2]", "agent2=AllC"],
            r"no seat is left for agent2: agent1 plays \[1, 2\]",
        ),
        (
            ["env=CartPole", "agent2.gamma=0.1", "runner=sarl"],
            "has 1 player, got 2 agents: PPO, one without a name; no seat is left for "
            "agent2",
        ),
        (["agents=[{name: PPO, players: [1, 3]}]"], "players must be 1 to 2"),
        (["agents=[AllC, AllD]"], "nobody learns in AllC v AllD: `paxrun eval`"),
        (["agent1.num_envs=4"], "agent1.num_envs is a setting of the run"),
        (["agent1.num_epoch=4"], r"no option 'num_epoch'; did you mean 'num_epochs'\?"),
        (["agent1.num_epochs=1.5"], r"agent1\.num_epochs must be a whole number"),
        (["agent1.learning_rate=-2"], "learning_rate must be a finite number >= 0"),
        (
            ["agent1.lr=1"],
            r"no option 'lr'; did you mean 'learning_rate'\? Its options",
        ),
        (
            ["agent2.noise=1"],
            r"agent2: TitForTat has no option 'noise'\. Its options: p, p0\.",
        ),
        (["agent1.lerning_rate=1", "agent1=Naive"], "did you mean 'learning_rate'"),
        (
            ["agent1.num_epochs=2", "agent1=Grim"],
            "set by 'agent1.num_epochs=2', and agent1 is Grim by 'agent1=Grim'",
        ),
        (
            ["eval=true", "agent1=MemoryOne"],
            "MemoryOne needs p and p0: write agent1.p=",
        ),
        (["runner=sarl", "agent1.clock=inner"], "agent1.clock counts trials, and sarl"),
        (["runner=online", "agent1.reset=trial"], "counts trials, and online"),
        (["runner=evo", "agent2.clock=trial"], "agent2.clock=trial .*need clock=inner"),
    ],
)
def test_a_mistake_about_agents_says_which_and_the_fix(words, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(*words)


def test_an_agent_that_cannot_play_is_refused_with_those_that_can():
    """TitForTat in the coin game is refused, with the valid pairings."""
    with pytest.raises(PairingError) as caught:
        plan_of(env="CoinGame", agent2="TitForTat")
    message = str(caught.value)
    assert "TitForTat cannot play as player 2 of CoinGame" in message
    assert "Agents that can:" in message
    assert "GoodGreedy" in message
    assert "Grim" not in message


def test_an_unknown_agent_names_the_closest():
    with pytest.raises(UnknownAgentError, match="did you mean TitForTat"):
        plan_of(agent2="TitForTatt")


def test_whole_floats_reach_an_agent_as_counts():
    """`2e0` epochs are 2."""
    plan = plan_of("agent1.num_epochs=2e0", "agent1.entropy_coeff=0")
    config = plan.experiment.slots[0].agent.config
    assert (config.num_epochs, type(config.num_epochs)) == (2, int)
    assert type(config.entropy_coeff) is float


def test_schedules_know_the_number_of_updates():
    """The linear rate ends at the last planned update."""
    words = ("ipd/ppo", "total_timesteps=150_000", "agent2.clock=inner")
    plan = plan_of(*words, "num_outer_steps=2")
    first, second = (slot.agent.config for slot in plan.experiment.slots)
    assert plan.num_iterations == 5
    assert (first.num_updates, second.num_updates) == (5, 10)


def test_the_filled_in_config_gives_the_same_plan():
    plan = plan_of("ipd/ppo", "num_inner_steps=1e1")
    assert prepare(plan.config).experiment == plan.experiment


def test_evaluation_freezes_the_players_and_may_make_them_greedy():
    plan = plan_of("ipd/ppo", "deterministic=true")
    frozen = evaluation(plan)
    assert not any(slot.learns for slot in frozen.experiment.slots)
    assert all(slot.agent.greedy for slot in frozen.experiment.slots)
    assert not any(slot.agent.greedy for slot in plan.experiment.slots)


def test_a_payoff_with_exchanged_labels_is_played_and_noticed():
    plan = plan_of("payoff=[[-2,-2],[0,-3],[-3,0],[-1,-1]]")
    (notice,) = plan.notices
    assert "0 = cooperate, 1 = defect" in notice
    assert "[[-1,-1],[-3,0],[0,-3],[-2,-2]]" in notice
    assert plan.params.payoff_matrix.ravel()[:2].tolist() == [-2.0, -2.0]


def test_what_is_about_training_is_noticed_in_an_evaluation():
    plan = plan_of("eval=true", "agents=[Grim, AllD]", total_timesteps="9")
    assert plan.notices == (
        "option --total-timesteps: total_timesteps is about training, and eval does "
        "not train",
    )


@pytest.fixture
def saved(monkeypatch):
    """Weights of a naive learner with one hidden layer of four, at any path."""
    from runners.planning import saved

    record = {"agent": "Naive", "config": {"hidden_sizes": [4], "gamma": 0.5}}
    monkeypatch.setattr(saved, "saved_record", lambda agent: record)
    return "weights.msgpack"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["agent1=TitForTat", "agent2=Naive"],
            "agent1 is TitForTat .* holds Naive: .* or player=2, who is Naive",
        ),
        (["agent1=PPO"], "agent1 is PPO .* holds Naive: write agent1=Naive$"),
    ],
)
def test_weights_of_another_agent_than_the_one_named_are_refused(saved, words, message):
    with pytest.raises(ConfigError, match=message):
        plan_of("eval=true", *words, model_path=saved)


def test_weights_of_another_agent_than_the_usual_one_are_played_and_noticed(saved):
    plan = plan_of("eval=true", model_path=saved)
    assert plan.names == ("Naive", "TitForTat")
    assert plan.notices == ("agent1 is Naive, not PPO: weights.msgpack holds it",)
    assert (plan.config.name, plan.config.bands) == ("custom/IPD/Naive_v_TitForTat", {})


def test_the_config_shows_the_options_that_weights_were_trained_with(saved):
    plan = plan_of("eval=true", "agent1.gamma=0.25", model_path=saved)
    assert plan.config.agents[0].options == {"hidden_sizes": (4,), "gamma": 0.25}
    assert plan.experiment.slots[0].agent.config.hidden_sizes == (4,)
    assert plan.experiment.slots[0].agent.config.gamma == 0.25


@pytest.mark.parametrize("experiment", ["ipd/ppo_v_tft", "ipd/evo_v_evo"])
def test_an_untrained_learner_is_noticed_in_an_evaluation(experiment):
    plan = plan_of(experiment, "eval=true")
    assert any("PPO (player 1) plays untrained" in n for n in plan.notices)
