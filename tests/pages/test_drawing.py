"""Drawing: what is on a front."""

from __future__ import annotations

from hadamrnn.pages.drawing import Point, front


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        Point(size, value, "", "") for size, value in ((1, 0.5), (1, 0.6), (2, 0.55), (3, 0.9), (4, 0.9))
    ]

    assert [(point.size, point.value) for point in front(points)] == [(1, 0.6), (3, 0.9)]
    assert [point.value for point in front(points, lower_is_better=True)] == [0.5]
