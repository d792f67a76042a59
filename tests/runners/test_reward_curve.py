"""The picture that train_* draw: which lines, and that each can be seen."""

import numpy as np
import pytest

from runners.report import figures, plots


@pytest.fixture
def drawn(monkeypatch):
    """Gives the axes of the picture that would have been saved."""
    saved = []
    monkeypatch.setattr(figures, "save", lambda figure, path: saved.append(figure))
    return saved


def lines(drawn):
    (figure,) = drawn
    return figure.axes[0], figure.axes[0].get_lines()


@pytest.mark.parametrize("num_episodes", [1, 2, 99, 250])
def test_both_lines_have_a_point_for_every_episode(drawn, tmp_path, num_episodes):
    returns = np.arange(float(num_episodes)).tolist()
    assert plots.draw(tmp_path / "x.png", returns)
    axes, (single, smooth) = lines(drawn)
    assert single.get_ydata().tolist() == returns
    assert smooth.get_xdata().tolist() == list(range(1, num_episodes + 1))
    # The mean of the last 100: of 0 to i before, of i - 99 to i from then on.
    last = num_episodes - 1
    assert smooth.get_ydata()[-1] == pytest.approx((max(0, last - 99) + last) / 2)
    assert single.get_markevery() == ([0] if num_episodes == 1 else [])
    assert single.get_label() == "return of an episode"
    assert axes.get_xlabel() == "episode"


def test_means_of_updates_are_called_so(drawn, tmp_path):
    assert plots.draw_means(tmp_path / "x.png", [64, 192], [1.0, 3.0])
    axes, (single, smooth) = lines(drawn)
    assert single.get_xdata().tolist() == [64, 192]
    assert smooth.get_ydata().tolist() == [1.0, 2.0]
    assert "mean return of the episodes that ended in an update" in single.get_label()
    assert axes.get_xlabel() == "environment steps"


def test_nothing_is_drawn_where_no_episode_has_ended(drawn, tmp_path):
    assert not plots.draw(tmp_path / "x.png", [])
    assert not plots.draw_means(tmp_path / "x.png", [], [])
    assert drawn == []
