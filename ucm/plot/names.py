"""Names beside what they name, where they cover least: no legend to look up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.plot.style import palette

__all__ = ["Names", "dense", "ends_of_line", "settle"]

Points = NDArray[np.float64]
_PAD = 2.0  # points around a name


class Names:
    """Places names in axes whose limits stand, away from what is drawn.

    The layout of the figure must stand: `settle` it first. Each name has places to choose from. The one
    taken lies inside of the axes, on no other name, and on as few of the points to avoid as there are.
    """

    def __init__(self, ax: Any, *, silent: bool = False) -> None:
        self.ax, self.colours, self._silent = ax, palette(ax), silent
        self._unit = ax.figure.dpi / 72.0  # pixels of a point
        self._avoid: list[Points] = []
        self._weights: list[Points] = []
        self._taken: list[Points] = []

    def avoid(self, *clouds: Any, weight: float = 3.0) -> Names:
        """Points in the coordinates of the data that names should not cover, a mark or a point of a line."""
        for cloud in clouds:
            points = np.asarray(cloud, dtype=np.float64).reshape(-1, 2)
            points = points[np.isfinite(points).all(axis=1)]
            if points.size:
                self._avoid.append(self.ax.transData.transform(points))
                self._weights.append(np.full(len(points), weight))
        return self

    def beside(
        self, text: str, at: Any, color: str, *, away: Any = (0.0, 0.0), size: float = 14.0
    ) -> Any:
        """A name next to a point, rather on the side `away`."""
        angles = np.arange(24) * np.pi / 12.0
        sides = np.c_[np.cos(angles), np.sin(angles)]
        wanted = np.asarray(away, dtype=np.float64)
        length = float(np.hypot(*wanted))
        wanted = wanted / length if length > 0.0 else wanted
        half = self._half(text, size) / self._unit
        places = [
            (
                np.asarray(at, float),
                (reach + half) * s,
                0.0,
                0.6 * (1.0 - float(s @ wanted)) + 0.05 * reach,
            )
            for reach in (5.0, 8.0, 13.0, 20.0, 30.0)
            for s in sides
        ]
        return self._put(text, places, color, size, ground=True)

    def along(self, text: str, line: Any, color: str, *, size: float = 11.5) -> Any:
        """A name along a straight line of two points."""
        a, b = np.asarray(line, dtype=np.float64)
        pixels = self.ax.transData.transform(np.array([a, b]))
        step = pixels[1] - pixels[0]
        length = float(np.hypot(*step))
        if length == 0.0:
            return None
        u = step / length
        if u[0] < -1e-9 or (abs(u[0]) <= 1e-9 and u[1] < 0.0):
            u = -u
        turn = float(np.degrees(np.arctan2(u[1], u[0])))
        normal = np.array([-u[1], u[0]])
        off = 1.0 + float(self._half(text, size)[1]) / self._unit
        places = [
            (
                a + t * (b - a),
                side * off * normal,
                turn,
                1.5 * (0.25 - abs(t - 0.5)) + (side < 0) * 0.2,
            )
            for t in np.linspace(0.04, 0.96, 47)
            for side in (1.0, -1.0)
        ]
        return self._put(text, places, color, size)

    def around(
        self, text: str, cloud: Any, color: str, *, away: Any = (0.0, 0.0), size: float = 12.0
    ) -> Any:
        """A name outside of a cloud of points, close to its edge, rather on top and on the side `away`."""
        wanted = np.asarray(away, dtype=np.float64) / (float(np.hypot(*away)) or 1.0)
        points = np.asarray(cloud, dtype=np.float64).reshape(-1, 2)
        places = []
        for t in np.arange(32) * np.pi / 16.0:
            e = np.array([np.cos(t), np.sin(t)])
            at = points[int(np.argmax(points @ e))]
            for reach in (12.0, 20.0, 30.0):
                push = np.array([e[0] * (reach + 1.8 * size), e[1] * reach])
                places.append(
                    (at, push, 0.0, 0.04 * reach + 0.3 * (1.0 - e[1]) - 2.0 * float(e @ wanted))
                )
        return self._put(text, places, color, size)

    def near(self, text: str, curve: Any, color: str, *, size: float = 12.0) -> Any:
        """A name in free space, as near to a curve as there is some."""
        line = self.ax.transData.transform(dense(curve))
        window = self.ax.get_window_extent()
        x, y = np.linspace(window.x0, window.x1, 41), np.linspace(window.y0, window.y1, 33)
        grid = np.array([(a, b) for a in x for b in y])
        far = np.hypot(*(grid[:, None] - line[None]).T).min(axis=0) / self._unit
        at = self.ax.transData.inverted().transform(grid)
        return self._put(
            text, [(p, np.zeros(2), 0.0, 0.15 * d) for p, d in zip(at, far)], color, size
        )

    def at(self, text: str, places: Any, color: str, *, size: float = 12.0) -> Any:
        """A name in the middle of one of these places, the first rather than the last."""
        found = [(np.asarray(p, float), np.zeros(2), 0.0, 0.1 * k) for k, p in enumerate(places)]
        return self._put(text, found, color, size)

    def _put(
        self, text: str, places: Iterable[Any], color: str, size: float, ground: bool = False
    ) -> Any:
        if self._silent:
            return None
        half = self._half(text, size)
        crowd = np.vstack(self._avoid) if self._avoid else np.zeros((0, 2))
        weights = np.concatenate(self._weights) if self._weights else np.zeros(0)
        window = self.ax.get_window_extent()
        best: Any = None
        for at, push, turn, cost in places:
            middle = self.ax.transData.transform(at) + self._unit * push
            t = np.radians(turn)
            R = np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
            box = (_CORNERS * half) @ R + middle
            outside = np.maximum(
                np.maximum([window.x0, window.y0] - box, box - [window.x1, window.y1]), 0.0
            )
            cost += 0.5 * float(outside.max()) + (100.0 if outside.max() > 0.0 else 0.0)
            covered = float(weights[_inside(crowd, middle, R, half)].sum())
            cost += 40.0 * (1.0 - np.exp(-covered / 30.0))
            cost += 60.0 * sum(_meet(box, other) for other in self._taken)
            if best is None or cost < best[0]:
                best = (cost, at, push, turn, box, covered)
        _, at, push, turn, box, covered = best
        self._taken.append(box)
        from matplotlib.patheffects import withStroke

        label = self.ax.annotate(
            text, at, xytext=push, textcoords="offset points", ha="center", va="center", color=color,
            rotation=turn, rotation_mode="anchor", fontsize=size, zorder=9, annotation_clip=False,
            path_effects=[withStroke(linewidth=3.0, foreground=self.colours.paper)],
        )  # fmt: skip
        if ground and covered > 3.0:  # in a crowd
            label.set_bbox(
                {"boxstyle": "round,pad=0.1", "fc": self.colours.paper, "ec": "none", "alpha": 0.7}
            )
        label.set_in_layout(False)
        return label

    def _half(self, text: str, size: float) -> Points:
        """Half of the width and of the height of a text, with room, in pixels."""
        trial = self.ax.text(0.5, 0.5, text, transform=self.ax.transAxes, fontsize=size)
        extent = trial.get_window_extent()
        trial.remove()
        return 0.5 * np.array([extent.width, extent.height]) + _PAD * self._unit


def settle(figure: Any) -> None:
    """Lay the figure out: from here on pixels have a meaning."""
    figure.canvas.figure.draw_without_rendering()  # the whole one, of a subfigure too


_CORNERS = np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])


def _meet(a: Points, b: Points) -> bool:
    """Whether two rectangles, by their corners, have a point in common: no edge of one separates them."""
    for c in (a, b):
        for edge in (c[1] - c[0], c[2] - c[1]):
            p, q = a @ edge, b @ edge
            if p.max() <= q.min() or q.max() <= p.min():
                return False
    return True


def _inside(points: Points, middle: Points, R: Points, half: Points) -> NDArray[np.bool_]:
    """Which points lie in the turned rectangle."""
    own = (points - middle) @ R.T
    return np.all(np.abs(own) <= half, axis=1)


def dense(curve: Any, count: int = 120) -> Points:
    """Points close to each other along a polygonal line, each coordinate in units of its range."""
    line = np.asarray(curve, dtype=np.float64)
    line = line[np.isfinite(line).all(axis=1)]
    if len(line) < 2:
        return line
    steps = np.diff(line, axis=0) / np.maximum(np.ptp(line, axis=0), 1e-300)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*steps.T))])
    at = np.linspace(0.0, length[-1], count)
    return np.c_[np.interp(at, length, line[:, 0]), np.interp(at, length, line[:, 1])]


def ends_of_line(ax: Any, w: Any, height: float) -> Points | None:
    """The two ends of `{z : <w, z> = height}` in the frame of the axes; None where it misses the frame."""
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    w = np.asarray(w, dtype=np.float64)
    p, u = w * height / (w @ w), np.array([-w[1], w[0]]) / np.hypot(*w)
    low, high = -np.inf, np.inf
    for k, (a, b) in enumerate(((x0, x1), (y0, y1))):
        if abs(u[k]) > 1e-12:
            s, t = sorted(((a - p[k]) / u[k], (b - p[k]) / u[k]))
            low, high = max(low, s), min(high, t)
        elif not a <= p[k] <= b:
            return None
    return np.array([p + low * u, p + high * u]) if low < high else None
