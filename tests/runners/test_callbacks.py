"""Events of a runner: who is called, in which order, with what."""

import pytest
from on_policy_fakes import SMALL, Parts

from runners.views.on_policy.callbacks import EVENTS, Callbacks
from runners.views.on_policy.runner import OnPolicyRunner

ITERATION = EVENTS[:6]


def make_runner(**options):
    return OnPolicyRunner(Parts(num_inner_steps=5), cfg=SMALL, num_envs=2, **options)


def test_events_of_an_iteration_come_in_order_with_the_runner_and_its_stats():
    """Callback order and arguments."""
    runner, seen = make_runner(), []
    for event in ITERATION:
        runner.add_callback(event, lambda *told, e=event: seen.append((e, told)))

    runner.learn(num_iterations=2)

    assert [event for event, _ in seen] == [*ITERATION, *ITERATION]
    for event, told in seen:
        assert told[0] is runner
        assert len(told) == (1 if event.startswith("pre_") else 2)
    stats = {event: told[1] for event, told in seen if event.startswith("post_")}
    assert stats["post_rollout"]["rollout/mean_reward"] == 1.0
    assert "train/policy_loss" not in stats["post_rollout"]
    assert "train/policy_loss" in stats["post_update"]
    merged = stats["post_rollout"] | stats["post_update"]
    assert merged.items() <= stats["post_iteration"].items()


def test_callbacks_are_called_in_the_order_of_their_registration():
    runner, seen = make_runner(), []
    runner.add_callback("post_iteration", lambda *_: seen.append("first"))
    runner.add_callback("post_iteration", lambda *_: seen.append("second"))

    runner.learn(num_iterations=1)

    assert seen == ["first", "second"]


def test_every_counts_iterations_from_the_beginning_of_training():
    runner, seen = make_runner(), []
    runner.add_callback("pre_iteration", lambda r: seen.append(-r.iteration), every=3)
    runner.add_callback("post_iteration", lambda r, _: seen.append(r.iteration), 2)

    runner.learn(num_iterations=5)
    runner.learn(num_iterations=2)

    assert seen == [0, 2, -3, 4, 6, -6]


def test_an_unknown_event_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no event 'post_step'.*post_rollout"):
        make_runner().add_callback("post_step", print)


def test_what_cannot_be_called_or_never_is_due_is_refused():
    with pytest.raises(TypeError, match="must be callable, got 3"):
        Callbacks().add("on_log", 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="every must be >= 1, got 0"):
        Callbacks().add("on_log", print, 0)


def fail(*_):
    raise ZeroDivisionError("of the callback")


def test_an_error_in_a_callback_ends_training():
    runner = make_runner()
    runner.add_callback("post_update", fail)

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        runner.learn(num_iterations=2)

    assert runner.iteration == 1


def test_an_error_in_a_callback_can_be_a_warning(caplog):
    runner = make_runner(on_callback_error="warn")
    runner.add_callback("post_iteration", fail)

    runner.learn(num_iterations=2)

    assert runner.iteration == 2
    assert [record.getMessage() for record in caplog.records] == [
        "a callback of post_iteration has failed"
    ] * 2
    assert "ZeroDivisionError: of the callback" in caplog.text


def test_an_unknown_treatment_of_errors_is_refused():
    with pytest.raises(ValueError, match="raise, warn, got 'ignore'"):
        make_runner(on_callback_error="ignore")


def test_logs_evaluations_checkpoints_and_the_end_are_events(tmp_path):
    runner, seen = make_runner(save_dir=tmp_path, log_interval=2, save_interval=3), []
    for event in EVENTS[6:]:
        runner.add_callback(event, lambda _, told, e=event: seen.append((e, told)))

    runner.learn(num_iterations=3)
    runner.eval(2)
    runner.close()

    assert [event for event, _ in seen] == [
        *("on_log", "on_checkpoint", "on_checkpoint", "on_stop", "on_eval")
    ]
    told = [what for _, what in seen]
    assert told[0]["time/iteration"] == 2
    assert [path.name for path in told[1:3]] == [
        "checkpoint_3.pt",
        "checkpoint_final.pt",
    ]
    assert told[3] == "finished"
    assert told[4]["eval/mean_reward"] == 5.0


def test_a_callback_evaluates_every_second_iteration():
    runner, evaluated = make_runner(), []
    runner.add_callback("post_iteration", lambda r, _: r.eval(2), every=2)
    runner.add_callback("on_eval", lambda r, _: evaluated.append(r.iteration))

    runner.learn(num_iterations=5)

    assert evaluated == [2, 4]


def test_a_callback_can_stop_training():
    runner, reasons = make_runner(), []
    runner.add_callback("post_iteration", lambda r, _: r.request_stop())
    runner.add_callback("on_stop", lambda _, reason: reasons.append(reason))

    result = runner.learn(num_iterations=5)

    assert result["final_iteration"] == 1
    assert reasons == ["requested"]


def test_a_hyperparameter_set_before_an_update_is_used_by_it():
    runner = make_runner()
    rates = []
    runner.add_callback("pre_update", lambda r: r.set_hyperparam("learning_rate", 0.25))
    runner.add_callback(
        "post_update", lambda _, stats: rates.append(stats["train/learning_rate"])
    )

    runner.learn(num_iterations=1)

    assert rates == [0.25]
    assert float(runner.state.hyper["learning_rate"]) == 0.25


def test_an_unknown_hyperparameter_is_refused():
    with pytest.raises(ValueError, match=r"no hyperparameter 'lr'.*learning_rate"):
        make_runner().set_hyperparam("lr", 0.1)
