"""What records say a training was made of, and how it is compared."""

import dataclasses
import json
import signal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import paxenv
import runners
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.learners.sac import SACConfig
from paxenv_agents.networks.feed_forward import MLPActor, MLPCritic
from runners.session.progress import Line
from runners.storage.checkpoints import settings
from runners.storage.checkpoints.files import CheckpointError

IPD, PARAMS = paxenv.make("IPD-v0", num_inner_steps=4)


def of(config=None, params=PARAMS, env=IPD, **more):
    agent = PPO.from_env(env, config or PPOConfig(), player=0)
    return json.loads(json.dumps(settings.settings_of(agent, env, params, **more)))


def names(saved, now):
    return [difference.name for difference in settings.differences(saved, now)]


def test_equal_trainings_have_equal_settings():
    assert settings.differences(of(seed=1), of(seed=1)) == []


def test_numbers_of_an_agent_are_compared_as_they_are_traced():
    nearest = PPOConfig(learning_rate=jnp.float32(1e-2))  # type: ignore[arg-type]
    assert names(of(PPOConfig(learning_rate=1e-2)), of(nearest)) == []
    other = PPOConfig(learning_rate=1.0001e-2)
    assert names(of(nearest), of(other)) == ["agent.config.learning_rate"]


@pytest.mark.parametrize(
    ("now", "named"),
    [
        ({"config": PPOConfig(learning_rate=0.5)}, ["agent.config.learning_rate"]),
        (
            {"env": paxenv.make("IPD-v0", num_inner_steps=5)[0]},
            ["game.num_inner_steps"],
        ),
        (
            {"params": PARAMS.replace(payoff_matrix=PARAMS.payoff_matrix + 1)},
            ["params.payoff_matrix"],
        ),
        ({"seed": 2}, ["seed"]),
        ({"seed": 1, "games": 4}, ["games"]),
    ],
)
def test_whatever_differs_is_named(now, named):
    assert names(of(seed=1), of(**{"seed": 1, **now})) == named


def test_networks_of_ones_own_are_told_apart():
    def made(width):
        agent = PPO.from_env(
            IPD,
            PPOConfig(),
            MLPActor,
            MLPCritic,
            actor_cfg={"hidden_dims": [width]},
            player=0,
        )
        return settings.settings_of(agent, IPD, PARAMS)

    assert made(5)["agent"]["actor"]["hidden_dims"] == [5]
    assert names(made(5), made(6)) == ["agent.actor.hidden_dims"]


def test_what_is_large_is_told_by_a_digest():
    large = settings.described({"weights": np.arange(10_000.0)})
    assert len(json.dumps(large)) < 80
    assert large != settings.described({"weights": np.arange(10_000.0)[::-1]})
    assert settings.described(jax.random.key(0)) != settings.described(
        jax.random.key(1)
    )
    assert settings.described(jnp.ones(2, jnp.bfloat16)) == [1.0, 1.0]


def test_what_json_does_not_know_is_told_by_its_name():
    told = settings.described([nn.relu, PPO, object(), lambda x: x])
    assert told[1:3] == ["paxenv_agents.learners.ppo.PPO", "builtins.object"]
    assert told == settings.described([nn.relu, PPO, object(), lambda x: x])


def test_of_a_vector_environment_one_game_counts():
    def made(num_envs):
        envs = gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.make("CartPole-v1")] * num_envs
        )
        return settings.described(envs)

    assert made(2) == made(3)
    assert made(2)["action_space"] == "Discrete(2)"


def test_differences_are_refused_by_name_or_returned():
    saved = {settings.SETTINGS: of(seed=1, runner={"total": 5})}
    now = of(PPOConfig(gamma=0.5), seed=1, runner={"total": 6})
    given = {"origin": "step_5", "free": ("runner",), "cure": "Name another folder"}
    with pytest.raises(CheckpointError) as refused:
        settings.changed(saved, now, **given)
    assert str(refused.value) == (
        "step_5 belongs to another training: gamma is 0.5, was 0.99. Name another "
        "folder"
    )
    allowed = settings.changed(saved, now, rates=("gamma",), **given)
    assert [str(d) for d in allowed] == [
        "gamma is 0.5, was 0.99",
        "runner.total is 6, was 5",
    ]
    assert settings.changed({}, now, **given) == []


def test_rates_that_changed_are_put_into_the_state():
    agent = PPO.from_env(IPD, PPOConfig(gamma=0.5, max_grad_norm=None), player=0)
    old = dataclasses.replace(agent, config=PPOConfig())
    state = jax.eval_shape(old.init_state, jax.random.key(0)).replace(
        hyper={"gamma": jnp.ones((2,)), "gae_lambda": jnp.zeros((2,))}
    )
    changes = [settings.Difference("agent.config.gamma", 0.99, 0.5)]
    after = settings.with_rates(state, agent, changes)
    assert after.hyper["gamma"].tolist() == [0.5, 0.5]
    assert after.hyper["gae_lambda"].tolist() == [0.0, 0.0]


def _by_dqn(config, **own):
    return runners.train_dqn(
        *paxenv.make("CartPole-v1"),
        dqn_config=DQNConfig(hidden_sizes=(8,), batch_size=8, **own),
        runner_config=config,
    )


def _by_sac(config, **own):
    return runners.train_sac(
        *paxenv.make("Pendulum-v1"),
        sac_config=SACConfig(hidden_sizes=(8,), batch_size=8, **own),
        runner_config=config,
    )


def _by_ppo_multigpu(config, **own):
    return runners.train_ppo_multigpu(
        *paxenv.make("CartPole-v1"),
        ppo_config=PPOConfig(n_steps=16, hidden_sizes=(8,), **own),
        runner_config=config,
    )


@pytest.mark.parametrize(
    ("train", "own", "changes", "said"),
    [
        (_by_dqn, {"learning_rate": 0.5}, {}, "learning_rate is 0.5, was 0.0003"),
        (_by_dqn, {}, {"buffer_size": 32}, "buffer_size is 32, was 64"),
        (_by_sac, {"gamma": 0.5}, {}, "gamma is 0.5, was 0.99"),
        (_by_sac, {}, {"warmup_steps": 20}, "warmup_steps is 20, was 40"),
        (_by_ppo_multigpu, {"entropy_coeff": 0.5}, {}, "entropy_coeff is 0.5, was 0.0"),
    ],
)
def test_whatever_trains_does_not_go_on_from_another_training(
    train, own, changes, said, tmp_path, monkeypatch
):
    """The first training is told to stop before it compiles; its start is saved."""
    config = runners.RunnerConfig(
        *(200, 10**6, 3, 40),
        num_envs=4,
        num_devices=1,
        buffer_size=64,
        warmup_steps=40,
        plot=False,
        checkpoint_dir=str(tmp_path),
    )

    def stop(line, stage, what=""):
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Line, "doing", stop)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    assert [path.name for path in tmp_path.glob("step_*")] == ["step_0"]
    other = dataclasses.replace(config, resume=True, **changes)
    with pytest.raises(ValueError, match=f"belongs to another training: .*{said}"):
        train(other, **own)
