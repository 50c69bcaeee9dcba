"""Drawing: the points of a front."""

from __future__ import annotations

import pytest

from hadamrnn.pages.drawing import Point, draw_front, front, scatter


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        Point(size, value, "", "") for size, value in ((1, 0.5), (1, 0.6), (2, 0.55), (3, 0.9), (4, 0.9))
    ]

    assert [(point.size, point.value) for point in front(points)] == [(1, 0.6), (3, 0.9)]
    assert [point.value for point in front(points, lower_is_better=True)] == [0.5]


def test_shares_are_drawn_in_percent_and_errors_as_they_are() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    points = [Point(1, 0.5, "", ""), Point(3, 0.9, "", "")]
    for unit in (100, 1):
        figure, axes = pyplot.subplots()
        scatter(axes, points, "black", "o", "a", unit=unit)
        draw_front(axes, points, "black", "-", unit=unit)

        assert axes.collections[0].get_offsets().tolist() == [[1, 0.5 * unit], [3, 0.9 * unit]]
        assert axes.lines[0].get_xydata().tolist() == [[1, 0.5 * unit], [3, 0.9 * unit]]
        pyplot.close(figure)


def test_points_are_filled_unless_they_are_to_be_hollow() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    scatter(axes, [Point(1, 0.5, "", "")], "black", "o", "a")
    scatter(axes, [Point(1, 0.5, "", "")], "black", "o", "b", hollow=True)
    pyplot.close(figure)

    filled, hollow = (points.get_facecolor()[0, :3].tolist() for points in axes.collections)
    assert (filled, hollow) == ([0, 0, 0], [1, 1, 1])
