"""Colours, marks and sizes of every picture: safe for the colour-blind, on a light ground and on a dark one.

Nothing is black or white by itself: the ink is that of the text in matplotlib's present style, and the
other colours come in two shades, of which the ground of the axes chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.errors import MissingExtraError, ParameterError

__all__ = ["LINES", "MARKS", "Palette", "axes_of", "canvas", "palette", "pyplot"]

MARKS = {1: "o", -1: "s"}
"""Of the classes, so that they differ without colours."""
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.5, 1)), (0, (9, 2)))
"""Of several curves in one picture, for the same reason."""

_STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "mathtext.fontset": "cm",
    "lines.linewidth": 2.0,
    "savefig.dpi": 160,
    "figure.constrained_layout.use": True,
}


class Display:
    """The base class of displays; the attributes hold the numbers of the picture."""

    axes_: Any

    def __repr__(self) -> str:
        count = 0 if self.axes_ is None else np.size(self.axes_)
        return f"<{type(self).__name__}: {count} axes>"


@dataclass(frozen=True)
class Palette:
    """The colours of one picture.

    Attributes
    ----------
    ink, paper : of the text, and of the ground
    soft : of what stands behind
    pos, neg, sum : of the two classes, and of U
    alert : of what is not convex, not proven, or empty
    series : of curves in order
    """

    ink: str
    paper: str
    soft: str
    pos: str
    neg: str
    sum: str
    alert: str
    series: tuple[str, ...]

    def of(self, sign: float) -> str:
        """The colour of class +1 or -1."""
        return self.pos if sign > 0 else self.neg


# Okabe and Ito's colours; each shade stands at least 3 : 1 against its ground.
_LIGHT = {
    "soft": "#767676", "pos": "#0072B2", "neg": "#D55E00", "sum": "#00805E", "alert": "#B0357A",
    "series": ("#0072B2", "#D55E00", "#00805E", "#B0357A", "#8A6A00", "#555555"),
}  # fmt: skip
_DARK = {
    "soft": "#9A9A9A", "pos": "#56B4E9", "neg": "#F28E3D", "sum": "#2CC197", "alert": "#EE8BC0",
    "series": ("#56B4E9", "#F28E3D", "#2CC197", "#EE8BC0", "#E3C64A", "#D0D0D0"),
}  # fmt: skip


def pyplot() -> Any:
    """`matplotlib.pyplot`, loaded at the first picture.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError(
            f"ucm.plot: pictures need matplotlib, which is not there ({error}); "
            "pip install 'ucm[plot]'"
        ) from error
    return plt


@contextmanager
def canvas() -> Iterator[None]:
    """matplotlib's present style with the sizes of these pictures. A ground that lets through what is
    behind it is made opaque: ink for one page would not be seen on another."""
    plt = pyplot()
    from matplotlib.colors import to_rgba

    own: dict[str, Any] = dict(_STYLE)
    ground = to_rgba(plt.rcParams["axes.facecolor"])
    if ground[3] < 1.0:
        own["axes.facecolor"] = ground = _behind(to_rgba(plt.rcParams["text.color"]))
    if to_rgba(plt.rcParams["figure.facecolor"])[3] < 1.0:
        own["figure.facecolor"] = ground
    own["savefig.transparent"] = False
    own["savefig.facecolor"] = "auto"
    with plt.rc_context(own):
        yield


def _behind(ink: Any) -> Any:
    return (1.0, 1.0, 1.0, 1.0) if luminance(ink) < 0.5 else (0.1, 0.1, 0.1, 1.0)


def luminance(colour: Any) -> float:
    """The relative luminance of sRGB, 0 for black and 1 for white."""
    from matplotlib.colors import to_rgb

    c = np.asarray(to_rgb(colour))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def palette(ax: Any) -> Palette:
    """The colours on the ground of these axes; its ink is that of their labels."""
    from matplotlib.colors import to_hex, to_rgba

    ground = next(
        (c for c in (ax.get_facecolor(), ax.figure.get_facecolor()) if to_rgba(c)[3] > 0.5),
        (1.0, 1.0, 1.0, 1.0),
    )
    dark = luminance(ground) < 0.2
    return Palette(
        ink=to_hex(ax.xaxis.label.get_color()), paper=to_hex(ground), **(_DARK if dark else _LIGHT)
    )


def axes_of(
    ax: Any, rows: int, columns: int, size: tuple[float, float], who: str, **grid: Any
) -> tuple[Any, Any]:
    """(figure, (rows * columns,) axes): those given, or new ones of this size each.

    Raises
    ------
    ParameterError
        Another number of axes is given.
    """
    if ax is None:
        figure, found = pyplot().subplots(
            rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, **grid
        )
        return figure, found.ravel()
    found = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if found.size != rows * columns:
        raise ParameterError(
            f"{who}: ax holds {rows * columns} axes here, got {found.size}; give as many, or leave "
            "ax out for a new figure"
        )
    return found[0].figure, found
