"""The colours of figures, told apart by the colour-blind, and the variables that stand for them on a page."""

from __future__ import annotations

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"
GRID, NAMES, PAPER = "#dddddd", "#444444", "#ffffff"

# A page sets each variable twice, for light and for dark screens. Text has no colour of its own: it inherits.
VARIABLES = {
    "#000000": "ink",
    NAMES: "soft",
    GRID: "line",
    PAPER: "paper",
    GREY: "grey",
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
}
