"""The line of progress, by a clock that tests set and a stream that they read."""

import io
import sys
import types

import pytest

from runners.session import progress
from runners.session.progress import NOTEBOOK, PIPE, TERMINAL, Line


class Clock:
    """Returns the seconds that it was set to."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """The lines that would be looked at by a thread of their own."""
    lines = []
    monkeypatch.setattr(Line, "_watch", lambda line: lines.append(line))
    return lines


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def line(clock):
    """Returns a maker of lines, whose stream is `line.stream`."""

    def make(place=PIPE, total=200):
        stream = make.stream = io.StringIO()
        return Line("IPD: PPO", total, stream=stream, place=place, clock=clock)

    return make


def test_elapsed_time_is_shown_while_nothing_has_run(line, clock):
    shown = line()
    clock.seconds = 7.9
    assert shown.text() == "IPD: PPO: preparing, 7 s"
    shown.doing("compiling", "training")
    clock.seconds = 65.0
    assert shown.text() == "IPD: PPO: compiling training, 1 min 05 s"


def test_after_a_minute_without_progress_it_says_what_is_going_on(line, clock):
    shown = line()
    shown.doing("compiling", "training")
    clock.seconds = 59.0
    assert "no news" not in shown.text()
    clock.seconds = 61.0
    assert "no news for 1 min 01 s: XLA compiles all of it" in shown.text()
    shown.advance(1)
    assert "no news" not in shown.text()
    clock.seconds = 3725.0
    assert "1 h 02 min, no news for 1 h 01 min: an iteration" in shown.text()


def test_progress_is_a_share_with_the_time_that_is_left(line, clock):
    """Two iterations a second since the first news: 150 are left after 40 s."""
    shown = line()
    clock.seconds = 20.0
    shown.advance(10)
    assert shown.text() == "IPD: PPO: 5% (10 of 200), 20 s"
    clock.seconds = 40.0
    shown.advance(50, note="return 3.000")
    text = "IPD: PPO: 25% (50 of 200), 40 s, about 1 min 15 s left, return 3.000"
    assert shown.text() == text
    clock.seconds = 45.0
    assert "about 1 min 10 s left" in shown.text()


def test_after_the_last_iteration_it_is_finishing(line, clock):
    shown = line()
    shown.advance(1)
    clock.seconds = 3.0
    shown.advance(400, total=400)
    assert shown.text() == "IPD: PPO: 100% (400 of 400), 3 s, finishing"
    shown.doing("evaluating")
    assert shown.text() == "IPD: PPO: 100% (400 of 400), 3 s, evaluating"
    clock.seconds = 64.0
    assert "no news for 1 min 01 s: games are played without" in shown.text()


def test_a_pipe_gets_a_line_every_ten_seconds(line, clock):
    shown = line()
    for second in range(35):
        clock.seconds = float(second)
        shown.refresh()
    assert line.stream.getvalue().splitlines() == [
        f"IPD: PPO: preparing, {second} s" for second in (10, 20, 30)
    ]


def test_a_terminal_has_one_line_that_is_gone_at_the_end(line, clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "25")
    shown = line(TERMINAL)
    with shown:
        shown.refresh()
        clock.seconds = 8.0
        shown.refresh()
    written = line.stream.getvalue()
    assert "\n" not in written
    first, second, cleared, end = written.split("\r")[1:]
    assert (first, second) == ("IPD: PPO: preparing, 0 s", "IPD: PPO: preparing, 8 s")
    assert (cleared, end) == (" " * 24, "")


def test_messages_are_written_between_two_states_of_the_line(line):
    shown = line(TERMINAL)
    shown.refresh()
    shown.interrupted(lambda: line.stream.write("saved\n"))
    assert line.stream.getvalue().split("\r")[-1] == "saved\n"


def test_a_notebook_gets_one_output_that_changes(line, clock, monkeypatch):
    shown_texts = []

    def update(data, raw):
        shown_texts.append(("update", data["text/plain"]))

    def display(data, raw, display_id):
        shown_texts.append(("display", data["text/plain"]))
        return types.SimpleNamespace(update=update)

    module = types.SimpleNamespace(display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", module)
    shown = line(NOTEBOOK)
    for second in range(3):
        clock.seconds = float(second)
        shown.refresh()
    assert [kind for kind, _ in shown_texts] == ["display", "update", "update"]
    assert shown_texts[-1][1] == "IPD: PPO: preparing, 2 s"
    assert line.stream.getvalue() == ""


def test_a_line_inside_another_is_silent(line):
    with line(TERMINAL):
        outer = line.stream
        with line(TERMINAL) as inner:
            inner.refresh()
        assert line.stream is not outer
        assert line.stream.getvalue() == ""


class Stream(io.StringIO):
    """A stream that ends on a terminal or does not."""

    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "place"),
    [
        (True, {}, TERMINAL),
        (False, {}, PIPE),
        (True, {"TERM": "dumb"}, PIPE),
        (True, {"JPY_PARENT_PID": "7"}, PIPE),  # a command that a notebook starts
    ],
)
def test_the_place_follows_from_the_stream(terminal, environment, place, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    for name in ("TERM", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert progress.place_of(Stream(terminal)) == place


def test_a_kernel_is_a_notebook_and_an_interactive_shell_is_none(monkeypatch):
    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert progress.place_of(Stream(False)) == NOTEBOOK
    shell.kernel = None
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert progress.place_of(Stream(True)) == TERMINAL


@pytest.mark.parametrize(
    ("terminal", "asked", "written"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_training_functions_show_a_line_to_people_who_watch(
    terminal, asked, written, started, monkeypatch
):
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    with progress.shown("PPO", 3, asked=asked) as line:
        line.advance(1)
    assert bool(started) == written
