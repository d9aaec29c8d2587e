"""Colours, markers, dashes and sizes of all pictures, for light and dark backgrounds.

The colours are safe for the colour-blind.

The ink is the text colour of matplotlib's present style; every other colour has two shades, one for a light
ground of the axes and one for a dark ground.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import ParameterError, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType

MARKS = {1: "o", -1: "s"}
"""The markers of the two classes, which differ without colours too."""
LINES: tuple = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.5, 1)), (0, (9, 2)))
"""The dashes of several curves in one picture."""

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
    "legend.fontsize": 11,
}


@dataclass(frozen=True)
class Palette:
    """The colours of one picture, by role; `alert` is of problems that are not convex and lower bounds."""

    ink: str
    paper: str
    soft: str
    pos: str
    neg: str
    sum: str
    alert: str
    series: tuple[str, ...]

    def class_color(self, sign: float) -> str:
        """Return the colour of class +1 if `sign` is positive, else of class -1."""
        return self.pos if sign > 0 else self.neg


# Okabe and Ito's colours; each shade has a contrast of at least 3 : 1 to its ground.
_LIGHT = {
    "soft": "#767676", "pos": "#0072B2", "neg": "#D55E00", "sum": "#00805E", "alert": "#B0357A",
    "series": ("#0072B2", "#D55E00", "#00805E", "#B0357A", "#8A6A00", "#555555"),
}  # fmt: skip
_DARK = {
    "soft": "#9A9A9A", "pos": "#56B4E9", "neg": "#F28E3D", "sum": "#2CC197", "alert": "#EE8BC0",
    "series": ("#56B4E9", "#F28E3D", "#2CC197", "#EE8BC0", "#E3C64A", "#D0D0D0"),
}  # fmt: skip


def pyplot() -> Any:
    """Import and return `matplotlib.pyplot`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise missing_extra(
            f"ucm.plot: pictures need matplotlib, which cannot be imported ({error})", "plot"
        ) from error
    return plt


@contextmanager
def canvas() -> Iterator[None]:
    """Set the matplotlib style of pictures within the context, opaque: ink would vanish on dark pages."""
    plt = pyplot()
    from matplotlib.colors import to_rgba

    plt.draw_if_interactive()  # loads the backend, which may set `interactive`; the context would reset it
    style: dict = {**_STYLE, "savefig.transparent": False, "savefig.facecolor": "auto"}
    ground: Any = to_rgba(plt.rcParams["axes.facecolor"])
    if ground[3] < 1.0:
        ground = (1.0, 1.0, 1.0, 1.0) if luminance(plt.rcParams["text.color"]) < 0.5 else (0.1, 0.1, 0.1, 1.0)
        style["axes.facecolor"] = ground
    if to_rgba(plt.rcParams["figure.facecolor"])[3] < 1.0:
        style["figure.facecolor"] = ground
    with plt.rc_context(style):
        yield


def luminance(colour: ColorType) -> float:
    """Return the relative luminance of an sRGB colour, from 0 for black to 1 for white."""
    from matplotlib.colors import to_rgb

    c = np.asarray(to_rgb(colour))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def palette(ax: Axes) -> Palette:
    """Return the colours for the background of the axes: the ink is the colour of their labels."""
    from matplotlib.colors import to_hex, to_rgba

    ground = next(
        (c for c in (ax.get_facecolor(), ax.figure.get_facecolor()) if to_rgba(c)[3] > 0.5),
        (1.0, 1.0, 1.0, 1.0),
    )
    dark = luminance(ground) < 0.2
    return Palette(
        ink=to_hex(ax.xaxis.label.get_color()), paper=to_hex(ground), **(_DARK if dark else _LIGHT)
    )


def arrow(ax: Axes, tip: Vec, color: str) -> None:
    """Draw an arrow from the origin to `tip`."""
    style = {"arrowstyle": "-|>", "color": color, "lw": 2.2, "shrinkA": 0, "shrinkB": 4, "mutation_scale": 17}
    ax.annotate("", tuple(tip), (0.0, 0.0), zorder=5, arrowprops=style)


def diamond(ax: Axes, point: Vec, color: str, **options: Any) -> None:
    """Draw a diamond marker with an edge in the ink colour."""
    edge = palette(ax).ink
    ax.plot(*point, marker="D", ms=8, mfc=color, mec=edge, mew=1.0, zorder=6, **options)


def label(ax: Axes, text: str, point: Vec, direction: Vec, color: str, size: float = 15.0) -> None:
    """Write a text at an offset of 15 typographic points from a point, in a given direction."""
    from matplotlib.patheffects import withStroke

    outlined = [withStroke(linewidth=3.0, foreground=palette(ax).paper)]
    ax.annotate(
        text, tuple(point), tuple(15.0 * direction / (np.hypot(*direction) or 1.0)), color=color,
        textcoords="offset points", ha="center", va="center", fontsize=size, zorder=9,
        path_effects=outlined,
    )  # fmt: skip


@dataclass(repr=False)
class Display:
    """The base class of the displays, whose attributes hold the numbers of the picture."""

    axes_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @property
    def ax_(self) -> Axes:
        """The first axes of the last plot."""
        return self.axes_[0]

    @contextmanager
    def _axes(
        self, ax: object, rows: int, columns: int, size: tuple[float, float]
    ) -> Iterator[NDArray[np.object_]]:
        """Set and yield the axes of a plot, given or a new grid of `rows` by `columns` of `size` inches."""
        with canvas():
            if ax is None:
                inches = (size[0] * columns, size[1] * rows)
                self.figure_, axes = pyplot().subplots(rows, columns, figsize=inches, squeeze=False)
            else:
                axes = np.atleast_1d(np.asarray(ax, dtype=object))
                if axes.size != rows * columns:
                    raise ParameterError(
                        f"{type(self).__name__}: expected {rows * columns} axes, got {axes.size}; "
                        "leave ax out for a new figure"
                    )
                self.figure_ = axes.flat[0].figure
            self.axes_ = axes.ravel()
            yield self.axes_

    def image(self, dpi: int) -> str:
        """Return the figure as a PNG data URI for an HTML image, and close the figure."""
        buffer = io.BytesIO()
        self.figure_.savefig(buffer, format="png", dpi=dpi)
        pyplot().close(self.figure_)
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"

    def __repr__(self) -> str:
        count = 0 if self.axes_ is None else np.size(self.axes_)
        return f"<{type(self).__name__}: {count} axes>"
