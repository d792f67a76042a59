"""JAX's flag that stops at NaN stops at nothing of ours that is only missing."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from on_policy_fakes import SMALL as SMALL_PPO
from on_policy_fakes import Parts, PartsEnv
from outer_fakes import climber

import paxenv
import runners
from paxenv import missing
from paxenv_agents.engine.lineup import Slot
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.sac import SACConfig
from paxenv_agents.registry import make_agent
from paxenv_agents.types import Sample
from runners import Hook, OnPolicyRunner, RunnerConfig
from runners.cli import cli
from runners.engine.experiment import Experiment, train_chunk
from runners.search.dims import SearchDim
from runners.search.options import ESOptions
from runners.search.outer_options import ESConfig
from runners.search.search import Search
from runners.views.outer_loops.es_runner import ESRunner

SMALL = ("--num-seeds", "1", "num_envs=4", "plot=false")
TABULAR = "agent1={name: Tabular, num_minibatches: 2}"
STREAM = ("num_inner_steps=200", "total_timesteps=512", "agent1.n_steps=64")
TRIALS = ("num_inner_steps=8", "total_timesteps=64")
GENERATIONS = ("popsize=4", "num_generations=2", "num_inner_steps=4")
OUTER = (
    *("--env", "IPD", "--agent2", "TitForTat", "num_inner_steps=40", "num_envs=2"),
    *("agent1.tabular=true", "agent1.n_steps=4", "agent1.num_minibatches=1"),
    *("agent1.num_epochs=1", "eval_episodes=2", "tensorboard=false", "plot=false"),
)
SEARCH = (
    *("--es", "simple_es", "--popsize", "4", "--num-steps-per-iteration", "16"),
    *("--iterations", "2", "--search-target", "lr:1e-3:1e-1:log"),
)
COMMANDS = {
    "eval": ("--agent1", "Grim", "--agent2", "AllC", "num_inner_steps=8", *SMALL),
    "rl": (TABULAR, "agent2=TitForTat", *TRIALS, *SMALL),
    "sarl": (TABULAR, "agent2=TitForTat", *STREAM, *SMALL),
    "evo": (TABULAR, "agent2=TitForTat", *GENERATIONS, *SMALL),
    "online": (*OUTER, "--total-timesteps", "16"),
    "es": (*OUTER, *SEARCH),
}
DQN = DQNConfig(hidden_sizes=(4,), batch_size=4, train_every=4, target_every=8)
SAC = SACConfig(hidden_sizes=(4,), batch_size=4, train_every=4, target_every=8)
#: Rows before the first episode has ended, and before the first gradient step.
REPLAY = RunnerConfig(
    total_timesteps=32,
    eval_every=16,
    eval_episodes=2,
    log_interval=4,
    buffer_size=32,
    warmup_steps=12,
    plot=False,
)


@pytest.fixture(autouse=True)
def stops_at_nan():
    with jax.debug_nans(True):
        yield


def invoke(*words):
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", ["eval", *slow([n for n in COMMANDS if n != "eval"])])
def test_a_command_runs_under_the_flag_that_stops_at_nan(name, tmp_path):
    """Grim alone against AllC never sees CD: its rate there is missing, not wrong."""
    invoke(name, *COMMANDS[name], "--save-dir", str(tmp_path / "run"))


@pytest.mark.slow
def test_a_run_is_varied_and_probed_under_the_flag(tmp_path):
    path, common = str(tmp_path / "run"), (TABULAR, "agent2=TitForTat", *TRIALS)
    invoke("rl", *common, *SMALL, "--save-dir", path)
    invoke("held-out", path, "--vary", "agent2=AllC", "num_envs=4")
    picture = str(tmp_path / "probe.png")
    invoke("probe", "--run-dir", path, "--at", "1", "--out", picture)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["GuidedES", "LGA", "EvoTF_ES", "PSO"])
def test_strategies_that_open_with_nan_search_under_the_flag(strategy):
    search, solution = Search(ESOptions(strategy, 8)), jnp.ones(3)

    @jax.jit
    def generation(key, state):
        members, state = search.ask(key, state, solution)
        return search.tell(key, state, members, members.sum(1))[0]

    state = jax.jit(search.begin)(jax.random.key(0), solution)
    state = generation(jax.random.key(2), generation(jax.random.key(1), state))
    assert int(state.generation) == 2


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["device", "host"])
def test_learning_from_replay_runs_under_the_flag(buffer):
    result = runners.train_dqn(
        *paxenv.make("CartPole-v1"),
        dqn_config=DQN,
        runner_config=REPLAY,
        buffer=buffer,
    )
    rows = [row for row in result.metrics_log if "episode/count" in row]
    assert rows[0]["episode/count"] == 0
    losses = ["train/player_1/loss/q" in row for row in rows]
    assert losses == [False] * 2 + [True] * 6


@pytest.mark.slow
def test_actor_critic_from_replay_runs_under_the_flag():
    game = paxenv.make("Pendulum-v1")
    result = runners.train_sac(*game, sac_config=SAC, runner_config=REPLAY)
    assert "train/player_1/loss/critic" not in result.metrics_log[0]


@pytest.mark.slow
def test_an_update_with_nothing_due_reports_nan_under_the_flag_too():
    env, _ = paxenv.make("CartPole-v1")
    agent = make_agent("DQN", env, player=0, hidden_sizes=(4,), warmup_steps=100)
    agent = agent.sized(1)
    state, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(1))
    seen, no, zeros = jnp.zeros((2, 1, 4)), jnp.zeros((2, 1), bool), jnp.zeros((2, 1))
    sample = Sample(
        *(seen, jnp.zeros((2, 1), jnp.int32), zeros, zeros, zeros, no),
        *(jnp.zeros((2, 1, 0)), no, zeros, ~no, no, seen),
    )
    _, _, stats = agent.update(sample, seen[-1], state, memory)
    assert np.isnan(stats["q_mean"])
    assert int(stats["gradient_steps"]) == 0


@pytest.mark.slow
def test_the_runner_of_one_agent_runs_under_the_flag():
    """Two steps of an episode of five: the first two rows have no episode."""
    game = Parts(num_inner_steps=5)
    vector = gymnasium.vector.SyncVectorEnv([PartsEnv] * 2)
    config = {**SMALL_PPO, "n_steps": 2}
    for env, in_stages in ((game, False), (game, True), (vector, False)):
        own = {"eval_env": PartsEnv()} if env is vector else {}
        runner = OnPolicyRunner(env, cfg=config, num_envs=2, **own)
        seen = []
        if in_stages:
            runner.add_callback("post_rollout", lambda _, stats: None)
        runner.add_callback(
            "post_iteration",
            lambda _, stats, seen=seen: seen.append(stats["episode/mean_reward"]),
        )
        runner.learn(num_iterations=3)
        assert [bool(np.isnan(x)) for x in seen] == [True, True, False]
        assert runner.eval(2)["eval/mean_reward"] == 5.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:every value of")
def test_a_hook_sees_nan_before_the_first_iteration_under_the_flag():
    def count(missing, context):
        return missing + jnp.isnan(context.metrics["episode/length"]), {}

    hook = Hook(lambda: jnp.int32(0), count, event="pre_update", scope="run")
    sizes = SearchDim("batch_size", scale="choice", choices=(1, 3))
    config = ESConfig(
        search_targets=(sizes,),
        strategy="SimpleES",
        population_size=4,
        iterations=1,
        num_steps_per_iteration=8,
        eval_episodes=2,
    )
    runner = ESRunner(*climber(), config, hooks=(hook,))
    runner.advance()
    assert [int(n) for n in runner.agent.hook_states] == [1]


@pytest.mark.slow
def test_rows_of_a_chunk_that_were_not_run_are_nan_under_the_flag_too():
    env, params = paxenv.make("IPD-v0", num_inner_steps=2)
    slots = tuple(Slot(make_agent("AllC", env, player=p), (p,)) for p in range(2))
    experiment = Experiment(env, slots=slots, chunk_size=2)
    state = experiment.init(jax.random.key(0), params)
    _, rows = train_chunk(experiment, state, 1)
    np.testing.assert_array_equal(rows["episode/length"], [2, np.nan])


@pytest.mark.slow
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_a_vector_environment_reports_nan_under_the_flag(arrays):
    env = gymnasium.make_vec(
        "pax/IPD-v0", num_envs=2, num_inner_steps=1, opponent="AllC", arrays=arrays
    )
    env.reset(seed=0)
    actions = jnp.zeros(2, jnp.int32) if arrays == "jax" else np.zeros(2, int)
    info = env.step(actions)[4]
    rate = info["episode_metrics/cooperation_probability/player_1/CD"]
    assert np.isnan(np.asarray(rate)).all()


@pytest.mark.slow
def test_nan_in_what_is_learnt_stops_at_the_operation_and_names_the_update():
    config = {**SMALL_PPO, "learning_rate": 1e30}
    runner = OnPolicyRunner(Parts(num_inner_steps=5), cfg=config, num_envs=2)
    with pytest.raises(FloatingPointError) as stopped:
        runner.learn(num_iterations=3)
    assert str(stopped.value) == "invalid value (nan) encountered in scan"
    assert "JAX's flag jax_debug_nans stopped update 2" in stopped.value.__notes__


def test_what_is_missing_leaves_a_program_as_0_and_a_flag():
    @jax.jit
    def program(x):
        return missing.flagged({"mean": x / x, "count": jnp.int32(3)})

    tree = program(jnp.array([0.0, 2.0]))

    assert tree["mean"].values.tolist() == [0.0, 1.0]
    assert tree["mean"].missing.tolist() == [True, False]
    for there in (missing.on_host(tree), missing.on_device(tree)):
        np.testing.assert_array_equal(there["mean"], [np.nan, 1.0])
        assert int(there["count"]) == 3
