"""Gymnasium vector environments, played on the host by the runner of one agent."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from on_policy_fakes import SMALL, PartsEnv

from paxenv_agents.learners.ppo import PPO, PPOConfig
from runners.engine.program import run_keys
from runners.session.host_play import HostProgram, parts_of
from runners.views.on_policy.runner import OnPolicyRunner

MODES = tuple(AutoresetMode)


def make_envs(
    mode=AutoresetMode.NEXT_STEP, num_envs=2, wrap=lambda env: env, **options
):
    make = [lambda: wrap(PartsEnv(**options))] * num_envs
    return SyncVectorEnv(make, autoreset_mode=mode)


def make_runner(envs=None, **options):
    envs = make_envs() if envs is None else envs
    return OnPolicyRunner(envs, **{"cfg": SMALL, **options})


def sample_of(runner, num_rollouts):
    """Returns what the last of several rollouts would have taught."""
    for _ in range(num_rollouts - 1):
        runner.collect_rollout()
        runner.update()
    runner.collect_rollout()
    return runner.program._experience.sample


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("as_time_out", [False, True])
def test_parts_of_rewards_are_sums_over_whole_episodes(mode, as_time_out):
    """In every autoreset mode, across rollouts and through time limits."""
    runner, seen = make_runner(make_envs(mode, as_time_out=as_time_out)), []
    runner.add_callback("post_iteration", lambda _, stats: seen.append(dict(stats)))

    runner.learn(num_iterations=4)  # 12 calls: two episodes of 5, and 0 or 1 dead step

    assert [s["rollout/completed_episodes"] for s in seen] == ([0, 2, 0, 2])
    for stats in (seen[1], seen[3]):
        assert stats["reward_components/velocity"] == 10.0
        assert stats["reward_components/energy"] == -5.0
        assert stats["env/robot/height_mean"] == 3.0
        assert stats["episode/mean_reward"] == 5.0
        assert stats["episode/mean_length"] == 5.0
        assert stats["episode/truncated_fraction"] == 1.0
    assert np.isnan(seen[0]["reward_components/velocity"])


def test_parts_are_found_in_flat_infos_and_in_nested_ones():
    """Our own adapters give flat ones; a mask has the same name behind `_`."""
    values, mask = np.array([1.0, 2.0]), np.ones(2, bool)
    flat = {"log//robot/x": values, "_log//robot/x": mask, "catalogue/x": values}
    nested = {"log": {"/robot/x": values, "_/robot/x": mask}, "_log": mask}
    for infos in (flat, nested):
        parts = parts_of(infos, 2, np.zeros(2, bool))
        assert {name: part.tolist() for name, part in parts.items()} == {
            "env/robot/x": [1.0, 2.0]
        }


def test_the_step_that_only_resets_teaches_nothing():
    sample = sample_of(make_runner(), 2)  # calls 4, 5 and 6 of episodes of 5

    np.testing.assert_array_equal(sample.valid[:, 0], [True, True, False])
    np.testing.assert_array_equal(sample.rewards[:, 0], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(sample.truncations[:, 0], [False, True, False])
    np.testing.assert_array_equal(sample.observations[:, 0, 0], [3.0, 4.0, 5.0])


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_other_modes_waste_no_step(mode):
    sample = sample_of(make_runner(make_envs(mode)), 2)

    assert sample.valid.all()
    np.testing.assert_array_equal(sample.truncations[:, 0], [False, True, False])
    np.testing.assert_array_equal(sample.observations[:, 0, 0], [3.0, 4.0, 0.0])


@pytest.mark.parametrize("mode", MODES)
def test_a_time_limit_is_worth_the_value_of_what_it_cut(mode):
    runner = make_runner(make_envs(mode))
    agent = runner.agent
    runner.collect_rollout()
    runner.update()
    state = runner.state
    runner.collect_rollout()
    sample = runner.program._experience.sample

    memory = agent.init_memory(jax.random.key(0), agent.init_hidden(1)[0])
    value = agent.value(state, np.full(1, 5.0, np.float32), memory)

    np.testing.assert_allclose(sample.final_values[1], value, rtol=1e-5)
    np.testing.assert_array_equal(sample.final_values[[0, 2]], 0.0)
    assert not sample.dones.any()


def test_a_flag_of_a_time_out_makes_an_end_a_time_limit():
    sample = sample_of(make_runner(make_envs(as_time_out=True)), 2)

    assert not sample.dones.any()
    np.testing.assert_array_equal(sample.truncations[:, 0], [False, True, False])


@pytest.mark.parametrize(
    "wrap", [lambda env: env, gymnasium.wrappers.RecordEpisodeStatistics]
)
def test_statistics_of_episodes_do_not_depend_on_wrappers(wrap):
    """They are our own sums, whatever the layout of infos."""
    runner = make_runner(make_envs(wrap=wrap))
    runner.learn(num_iterations=2)

    assert runner.stats["episode/mean_reward"] == 5.0
    assert runner.stats["episode/mean_length"] == 5.0


def test_a_plain_environment_is_a_vector_of_one():
    runner = make_runner(PartsEnv())
    runner.learn(num_iterations=2)

    assert runner.total_timesteps == 6
    assert runner.stats["episode/mean_length"] == 5.0


def test_stages_one_by_one_give_the_same_bits():
    """With and without callbacks, on the host too."""
    plain, watched = make_runner(), make_runner()
    watched.add_callback("post_update", lambda runner, stats: None)

    plain.learn(num_iterations=3)
    watched.learn(num_iterations=3)

    for x, y in zip(
        jax.tree.leaves(plain.state.params),
        jax.tree.leaves(watched.state.params),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_a_checkpoint_holds_all_but_the_environment(tmp_path):
    with make_runner(save_dir=tmp_path) as runner:
        runner.learn(num_iterations=3)
    with make_runner(save_dir=tmp_path) as other:
        other.load_checkpoint("checkpoint_final.pt")
        result = other.learn(num_iterations=1)

    assert result["history"]["iterations"] == [4]
    assert int(other.state.opt_state.count) == 4


@pytest.mark.slow
def test_a_recurrent_learner_forgets_where_an_episode_ends():
    runner = make_runner(algorithm="recurrent_ppo", cfg={**SMALL, "gru_size": 4})

    sample = sample_of(runner, 3)  # calls 7, 8 and 9: the first opens an episode

    # Four numbers of the policy and four of the value.
    np.testing.assert_array_equal(sample.hiddens, np.zeros((1, 2, 8)))


@pytest.mark.slow
def test_a_recurrent_learner_remembers_across_rollouts():
    """What it would do again is what it did, over a step that only resets too."""
    config = {**SMALL, "gru_size": 4, "n_steps": 4}
    runner = make_runner(algorithm="recurrent_ppo", cfg=config)

    sample = sample_of(runner, 2)  # calls 5, 6, which only resets, 7 and 8
    sample = jax.tree.map(jnp.asarray, sample)
    log_probs, values, _ = runner.agent.evaluate(runner.state, sample)

    assert np.abs(np.asarray(sample.hiddens)).min() > 0.0
    valid = np.array([True, False, True, True])
    np.testing.assert_array_equal(sample.valid[:, 0], valid)
    np.testing.assert_allclose(
        log_probs[valid], sample.behavior_log_probs[valid], atol=1e-6
    )
    np.testing.assert_allclose(values[valid], sample.behavior_values[valid], atol=1e-5)


def test_actions_stay_in_their_space_and_rewards_reach_the_learner():
    env = gymnasium.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
    runner = OnPolicyRunner(env, cfg=SMALL)

    sample = sample_of(runner, 1)

    actions = np.asarray(sample.actions)
    assert actions.shape == (3, 2, 1)
    assert (np.abs(actions) <= 2.0).all()
    assert (sample.rewards < 0.0).all()


def test_evaluation_plays_whole_episodes_in_an_environment_of_its_own():
    """The games in play do not notice."""
    runner = make_runner(eval_env=PartsEnv(length=7))
    runner.collect_rollout()
    seen = runner.program._obs.copy()

    stats = runner.eval(3)

    assert stats["eval/mean_reward"] == stats["eval/mean_length"] == 7.0
    assert stats["eval/truncated_fraction"] == 1.0
    np.testing.assert_array_equal(runner.program._obs, seen)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gymnasium.make_vec("CartPole-v1", num_envs=2),
        lambda: gymnasium.make("CartPole-v1", max_episode_steps=9),
        lambda: SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2),
        lambda: gymnasium.make_vec(
            "CartPole-v1",
            num_envs=2,
            vectorization_mode="sync",
            wrappers=(gymnasium.wrappers.RecordEpisodeStatistics,),
        ),
    ],
    ids=["vector_entry_point", "plain", "own_vector", "wrapped"],
)
def test_what_gymnasium_makes_is_evaluated_in_another_game(make):
    env = make()
    with OnPolicyRunner(env, cfg=SMALL) as runner:
        runner.collect_rollout()
        seen = runner.program._obs.copy()
        stats = runner.eval(2)
        np.testing.assert_array_equal(runner.program._obs, seen)

    limit = 9 if isinstance(env, gymnasium.Env) else 500
    assert stats["eval/n_episodes"] == 2
    assert 8 <= stats["eval/min_reward"] <= stats["eval/max_reward"] <= limit


def test_functions_that_make_the_games_make_one_for_evaluation():
    assert make_runner(make_envs(length=4)).eval(1)["eval/mean_length"] == 4.0


def test_an_environment_of_unknown_make_needs_another_for_evaluation():
    runner = make_runner(PartsEnv())
    with pytest.raises(ValueError, match=r"eval_env=env\) or eval\(n, env=env\)"):
        runner.eval(1)
    assert runner.eval(1, env=PartsEnv(length=6))["eval/mean_length"] == 6.0
    assert runner.eval(1)["eval/mean_length"] == 6.0


class Doubled(gymnasium.Wrapper):
    """A wrapper as users write it: it keeps no record of how it was made."""

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, 2.0 * reward, *rest


def test_a_wrapper_without_a_record_needs_another_environment_for_evaluation():
    runner = make_runner(Doubled(gymnasium.make("CartPole-v1")))
    with pytest.raises(ValueError, match=r"eval_env=env\) or eval\(n, env=env\)"):
        runner.eval(1)


def test_an_agent_made_for_another_environment_is_refused():
    agent = PPO(env=gymnasium.make("Pendulum-v1"), cfg=PPOConfig(n_steps=8))
    with pytest.raises(ValueError, match=r"made for the observation_space Box"):
        make_runner(gymnasium.make("CartPole-v1"), agent=agent, cfg=None)


def test_what_a_wrapper_shows_is_not_left_out_of_an_evaluation():
    scaled = gymnasium.wrappers.vector.NormalizeObservation(make_envs())
    with pytest.raises(ValueError, match="does not say how"):
        make_runner(scaled).eval(1)


def test_the_place_of_an_evaluation_is_a_plain_environment():
    with pytest.raises(ValueError, match=r"is a plain gymnasium\.Env"):
        make_runner(eval_env=make_envs())


def test_the_number_of_games_is_the_environments():
    with pytest.raises(
        ValueError, match="num_envs=3, but the vector environment has 2"
    ):
        make_runner(num_envs=3)
    assert make_runner().total_timesteps == 0


@pytest.mark.slow
def test_our_own_vector_environments_are_played_too():
    env = gymnasium.make_vec("pax/IPD-v0", num_envs=4, num_inner_steps=5)
    runner = make_runner(env)
    runner.learn(num_iterations=2)

    assert runner.stats["episode/mean_length"] == 5.0
    assert runner.stats["rollout/completed_episodes"] == 4


def test_a_program_on_the_host_runs_one_iteration_at_a_time():
    runner = make_runner()
    assert isinstance(runner.program, HostProgram)
    with pytest.raises(ValueError, match="1 iteration, not 2"):
        runner.program.run(2)
    assert run_keys(0).shape == (1,)
