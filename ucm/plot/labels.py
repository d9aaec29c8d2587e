"""Labels beside the objects that they name, placed where they cover least, in place of a legend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.plot.style import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

Points = NDArray[np.float64]
Place = tuple[ArrayLike, ArrayLike, float, float]
"""A point of the data, an offset in points, a rotation in degrees, and a cost."""
_PAD = 2.0  # points around a label
_CORNERS = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])


class Labels:
    """Places labels in axes with fixed limits, away from the points of `avoid`.

    `settle` the layout of the figure first. Of its candidate places a label takes the cheapest: inside of the
    axes, on no other label, over few points.
    """

    def __init__(self, ax: Axes, *, silent: bool = False) -> None:
        self.ax, self._paper, self._silent = ax, palette(ax).paper, silent
        self._unit = ax.figure.dpi / 72.0  # pixels of a point
        self._points: Points = np.zeros((0, 2))
        self._weights: Points = np.zeros(0)
        self._boxes: list[Path] = []

    def avoid(self, points: ArrayLike, weight: float = 3.0) -> None:
        """Add points of the data that labels should not cover."""
        points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        points = points[np.isfinite(points).all(axis=1)]
        self._points = np.vstack([self._points, self.ax.transData.transform(points)])
        self._weights = np.append(self._weights, np.full(len(points), weight))

    def at_point(
        self,
        text: str,
        point: ArrayLike,
        color: str,
        *,
        away: ArrayLike = (0.0, 0.0),
        size: float = 14.0,
    ) -> None:
        """Label a point, preferably in the direction `away` from it."""
        angles = np.arange(24) * np.pi / 12.0
        away = np.asarray(away, dtype=np.float64)
        away = away / (float(np.hypot(*away)) or 1.0)
        half = self._half(text, size) / self._unit
        places = [
            (point, (distance + half) * u, 0.0, 0.6 * (1.0 - float(u @ away)) + 0.05 * distance)
            for distance in (5.0, 8.0, 13.0, 20.0, 30.0)
            for u in np.c_[np.cos(angles), np.sin(angles)]
        ]
        self._put(text, places, color, size, ground=True)

    def on_line(self, text: str, line: ArrayLike, color: str, *, size: float = 11.5) -> None:
        """Label the straight line between two points, in its direction."""
        a, b = np.asarray(line, dtype=np.float64)
        step = np.subtract(*self.ax.transData.transform(np.array([b, a])))
        length = float(np.hypot(*step))
        if length == 0.0:
            return
        u = step / length
        if u[0] < -1e-9 or (abs(u[0]) <= 1e-9 and u[1] < 0.0):
            u = -u
        turn = float(np.degrees(np.arctan2(u[1], u[0])))
        offset = (1.0 + float(self._half(text, size)[1]) / self._unit) * np.array([-u[1], u[0]])
        places = [
            (a + t * (b - a), side * offset, turn, 1.5 * (0.25 - abs(t - 0.5)) + (side < 0) * 0.2)
            for t in np.linspace(0.04, 0.96, 47)
            for side in (1.0, -1.0)
        ]
        self._put(text, places, color, size)

    def near(self, text: str, curve: ArrayLike, color: str, *, size: float = 12.0) -> None:
        """Label a curve or a cloud of points, in the nearest free space."""
        points = self.ax.transData.transform(np.asarray(curve, dtype=np.float64))
        window = self.ax.get_window_extent()
        x, y = np.linspace(window.x0, window.x1, 41), np.linspace(window.y0, window.y1, 33)
        grid = np.array([(a, b) for a in x for b in y])
        distance = np.hypot(*(grid[:, None] - points[None]).T).min(axis=0) / self._unit
        places = zip(self.ax.transData.inverted().transform(grid), distance)
        self._put(text, [(p, (0.0, 0.0), 0.0, 0.15 * d) for p, d in places], color, size)

    def at_first_free(
        self, text: str, points: Iterable[ArrayLike], color: str, *, size: float = 12.0
    ) -> None:
        """Put a label on one of the points, preferably on the first."""
        places = [(p, (0.0, 0.0), 0.0, 0.1 * k) for k, p in enumerate(points)]
        self._put(text, places, color, size)

    def _put(self, text: str, places: Iterable[Place], color: str, size: float, ground: bool = False) -> None:
        """Draw a label at the cheapest place; over a crowd of points on a ground of its own."""
        if self._silent:
            return
        from matplotlib.path import Path
        from matplotlib.patheffects import withStroke

        half = self._half(text, size)
        window = self.ax.get_window_extent()
        best: Any = None
        for point, offset, turn, cost in places:
            middle = self.ax.transData.transform(point) + self._unit * np.asarray(offset)
            t = np.radians(turn)
            R = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
            box = (_CORNERS * half) @ R + middle
            outside = np.maximum([window.x0, window.y0] - box, box - [window.x1, window.y1]).max()
            inside = np.all(np.abs((self._points - middle) @ R.T) <= half, axis=1)
            covered = float(self._weights[inside].sum())
            cost += 100.0 + 0.5 * float(outside) if outside > 0.0 else 0.0
            cost += 40.0 * (1.0 - np.exp(-covered / 30.0))
            outline = Path(np.vstack([box, box[:1]]))
            cost += 60.0 * sum(map(outline.intersects_path, self._boxes))
            if best is None or cost < best[0]:
                best = (cost, point, offset, turn, outline, covered)
        _, point, offset, turn, outline, covered = best
        self._boxes.append(outline)
        label = self.ax.annotate(
            text, point, xytext=offset, textcoords="offset points", ha="center", va="center", color=color,
            rotation=turn, rotation_mode="anchor", fontsize=size, zorder=9, annotation_clip=False,
            path_effects=[withStroke(linewidth=3.0, foreground=self._paper)],
        )  # fmt: skip
        if ground and covered > 3.0:
            label.set_bbox({"boxstyle": "round,pad=0.1", "fc": self._paper, "ec": "none", "alpha": 0.7})
        label.set_in_layout(False)

    def _half(self, text: str, size: float) -> Points:
        """Return half of the width and of the height of a text with its padding, in pixels."""
        trial = self.ax.text(0.5, 0.5, text, transform=self.ax.transAxes, fontsize=size)
        extent = trial.get_window_extent()
        trial.remove()
        return 0.5 * np.array([extent.width, extent.height]) + _PAD * self._unit


def settle(figure: Figure) -> None:
    """Compute the layout of a figure, so that pixel coordinates are final."""
    figure.canvas.figure.draw_without_rendering()  # of the whole figure of a subfigure


def resampled(curve: ArrayLike, count: int = 120) -> Points:
    """Return points of a polygonal line at equal distances, each coordinate in units of its range."""
    line = np.asarray(curve, dtype=np.float64)
    line = line[np.isfinite(line).all(axis=1)]
    if len(line) < 2:
        return line
    steps = np.diff(line, axis=0) / np.maximum(np.ptp(line, axis=0), 1e-300)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*steps.T))])
    t = np.linspace(0.0, length[-1], count)
    return np.c_[np.interp(t, length, line[:, 0]), np.interp(t, length, line[:, 1])]


def line_in_view(ax: Axes, w: ArrayLike, height: float) -> Points | None:
    """Return the ends of `{z : <w, z> = height}` within the limits of the axes; None if it misses them."""
    w = np.asarray(w, dtype=np.float64)
    p, u = w * height / (w @ w), np.array([-w[1], w[0]]) / np.hypot(*w)
    low, high = -np.inf, np.inf
    for k, (a, b) in enumerate((ax.get_xlim(), ax.get_ylim())):
        if abs(u[k]) > 1e-12:
            s, t = sorted(((a - p[k]) / u[k], (b - p[k]) / u[k]))
            low, high = max(low, s), min(high, t)
        elif not a <= p[k] <= b:
            return None
    return np.array([p + low * u, p + high * u]) if low < high else None
