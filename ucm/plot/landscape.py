"""Beyond the boundary: the worst case of every direction of the plane, and what solvers make of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ucm.compiler.compile import plan_of
from ucm.errors import ParameterError
from ucm.forms.solution import Solution
from ucm.plot.names import Names, settle
from ucm.plot.outline import outline
from ucm.plot.problem import Problem, problem_of, problem_of_estimator
from ucm.plot.style import Display, axes_of, canvas, palette
from ucm.plot.support import Shadow

__all__ = ["LandscapeDisplay"]

_GRID = 1440
_FINE = 1e-4  # of the outline that the heights come from


@dataclass(repr=False)
class LandscapeDisplay(Display):
    """A plot of `f(w) = max over x in U of -w'x` over the directions w of a plane, `||w||_p = 1`.

    Where 0 lies outside of U one minimum lies below 0, and no other: the convex side. Where 0 lies in U there
    may be several, each an end of a descent; the bound that is proven tells how far the best can be.

    Attributes
    ----------
    angles, heights : (k,) f around the circle, in radians
    minima : (j, 2) angle and height of the local minima, the lowest first
    runs : (starts, 2) the angles at which a descent started and ended
    ways : for each run the angles of its iterates, from its start to its end, without jumps of a full turn
    bound : what no direction gets below, proven; None without
    error : of the heights
    norm : p
    solution : the `Solution` of the model
    axes_, figure_ : what was drawn on
    """

    angles: NDArray[np.float64]
    heights: NDArray[np.float64]
    minima: NDArray[np.float64]
    runs: NDArray[np.float64]
    bound: float | None
    error: float
    norm: float
    solution: Solution
    ways: list[NDArray[np.float64]] = field(default_factory=list)
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls, model: Any, X: Any, y: Any, *, solution: Solution | None = None, n_starts: int = 12,
        solver: Any = "linearize", class_weight: Any = None, sample_weight: Any = None, subgroup: Any = None,
        pos_label: Any = None, ax: Any = None,
    ) -> LandscapeDisplay:  # fmt: skip
        """Solve, descend from several starts where 0 lies in U, draw.

        Parameters
        ----------
        model : uncertainty set or RobustMargin over two features
        X, y : as in `ucm.compile`
        solution : of the model, which brings the bound
        n_starts : directions, evenly around the circle, from which `solver` descends; 0 for none
        solver : of the descents; the one that "auto" takes may find the global minimum from anywhere
        class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
        ax : None for a new figure, or two axes

        Raises
        ------
        ParameterError
            The samples have not two features; U is flat or unbounded.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.LandscapeDisplay.from_model(ucm.models.mm_mpm(0.3), X[:, [0, 6]], y)
        >>> len(shown.minima)
        1
        """
        found = problem_of(
            model,
            X,
            y,
            solution,
            "LandscapeDisplay",
            class_weight=class_weight,
            sample_weight=sample_weight,
            subgroup=subgroup,
            pos_label=pos_label,
        )
        return cls._of(found, n_starts, solver).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_starts: int = 12, solver: Any = "linearize", ax: Any = None
    ) -> LandscapeDisplay:  # fmt: skip
        """As `from_model`, of a fitted `ucm.Classifier` and the samples it was fitted to."""
        found = problem_of_estimator(estimator, X, y, "LandscapeDisplay")
        return cls._of(found, n_starts, solver).plot(ax)

    @classmethod
    def _of(cls, found: Problem, n_starts: int, solver: Any) -> LandscapeDisplay:
        model, data, solution = found.model, found.data, found.solution
        if model.set.dimension(data.n) != 2:
            raise ParameterError(
                f"LandscapeDisplay: the directions of the plane are a circle, and U lives in R^"
                f"{model.set.dimension(data.n)}; take two features, as X[:, :2]"
            )
        shape = outline(Shadow(model.set, data, np.eye(2)), rtol=_FINE)
        if shape is None:
            raise ParameterError(
                "LandscapeDisplay: U is unbounded, so that f is infinite; draw it with SetDisplay"
            )
        if len(shape.vertices) < 3:
            raise ParameterError(
                "LandscapeDisplay: U is flat, and across it no direction has a meaning; "
                "take features that are no multiples of each other"
            )
        vertices = shape.vertices

        def height(angle: Any) -> NDArray[np.float64]:
            return (-_directions(np.atleast_1d(angle), model.norm) @ vertices.T).max(axis=1)

        angles = np.linspace(0.0, 2.0 * np.pi, _GRID + 1)
        heights = height(angles)
        minima = _minima(angles, heights, height)
        certificate = solution.certificate
        inside = certificate.residual is not None
        runs, ways = np.zeros((0, 2)), []
        if inside and n_starts:
            begin = 2.0 * np.pi * (np.arange(n_starts) + 0.5) / n_starts
            plan = plan_of(model, data, None, solver)
            ends = []
            for w in _directions(begin, model.norm):
                start = replace(solution, w=w, answer=None)
                run = plan.solve(warm_start=start, trace=1)
                met = [w, *(record["w"] for record in run.history if "w" in record), run.w]
                ways.append(np.unwrap([np.arctan2(v[1], v[0]) for v in met]))
                ends.append(float(ways[-1][-1]) % (2.0 * np.pi))
            runs = np.c_[begin, ends]
        bound = certificate.dual if np.isfinite(certificate.dual) else None
        return cls(angles, heights, minima, runs, bound, shape.error, model.norm, solution, ways)

    @property
    def zero_inside(self) -> bool:
        """Whether 0 lies in U."""
        return self.solution.certificate.residual is not None

    @property
    def reached(self) -> NDArray[np.intp]:
        """For each run the place of the minimum that it ended nearest to."""
        apart = np.abs(np.angle(np.exp(1j * (self.runs[:, 1][:, None] - self.minima[:, 0][None]))))
        return np.argmin(apart, axis=1) if len(self.runs) else np.zeros(0, dtype=np.intp)

    def plot(self, ax: Any = None) -> LandscapeDisplay:
        """Draw again, in two axes: f over the angle, and the circle coloured by f."""
        with canvas():
            figure, found = axes_of(ax, 1, 2, (6.0, 5.0), "LandscapeDisplay")
            low, high = float(self.heights.min()), float(self.heights.max())
            room = high - low
            found[0].set(
                xlim=(0.0, 360.0), ylim=(low - 0.3 * room, high + 0.08 * room), xticks=range(0, 361, 60),
                xlabel="direction of $w$ (degrees)", ylabel=r"$f(w) = \max_{x \in U}\,-w^\top x$",
            )  # fmt: skip
            found[0].set_title(self._title())
            self._circle(found[1], figure)
            settle(figure)
            self._unrolled(found[0])
        self.axes_, self.figure_ = found, figure
        return self

    def _title(self) -> str:
        if not self.zero_inside:
            return "convex: one minimum below 0"
        one = len(self.minima) == 1
        return "$0 \\in U$: " + ("one minimum" if one else "descents end in several places")

    def _at(self, angle: Any) -> Any:
        return np.interp(np.mod(angle, 2.0 * np.pi), self.angles, self.heights)

    def _unrolled(self, ax: Any) -> None:
        colours, names = palette(ax), Names(ax)
        degrees = np.degrees(self.angles)
        ax.plot(degrees, self.heights, color=colours.ink, zorder=2)
        names.avoid(np.c_[degrees, self.heights][::4])
        room = float(np.ptp(self.heights))
        ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        if self.bound is not None:
            ax.axhline(self.bound, color=colours.alert, lw=1.3, ls=(0, (4, 2)), zorder=1.5)
            names.avoid(np.c_[np.linspace(0.0, 360.0, 200), np.full(200, self.bound)])
        for run, way, k in zip(self.runs, self.ways, self.reached):
            colour = colours.series[k % len(colours.series)]
            t = np.interp(np.linspace(0.0, way.size - 1.0, 30 * way.size), np.arange(way.size), way)
            wrapped = np.degrees(np.mod(t, 2.0 * np.pi))
            cut = np.abs(np.diff(wrapped, append=wrapped[-1])) > 180.0
            lift = self._at(t) + 0.025 * room
            ax.plot(np.where(cut, np.nan, wrapped), lift, color=colour, lw=3.0, alpha=0.5, zorder=3)
            met = np.mod(way[1:], 2.0 * np.pi)
            ax.plot(np.degrees(met), self._at(met), "o", ms=3.5, color=colour, zorder=3.5)
            ax.plot(
                np.degrees(run[0]),
                self._at(run[0]),
                marker="o",
                ms=7,
                mfc=colours.paper,
                mec=colour,
                mew=1.8,
                zorder=4,
            )
        names.avoid(np.c_[np.degrees(self.minima[:, 0]), self.minima[:, 1]])
        names.avoid(np.c_[np.degrees(self.runs[:, 0]), self._at(self.runs[:, 0])])
        counts = np.bincount(self.reached, minlength=len(self.minima))
        for k, (angle, height) in enumerate(self.minima):
            colour = colours.series[k % len(colours.series)]
            ax.plot(
                np.degrees(angle),
                height,
                marker="D",
                ms=9,
                color=colour,
                mec=colours.ink,
                mew=0.8,
                zorder=5,
            )
            words = f"{height:#.3g}"
            if len(self.runs):
                words += f"\n{counts[k]} of {len(self.runs)} starts"
            names.beside(words, (np.degrees(angle), height), colour, away=(0.0, -1.0), size=12)
        if self.bound is not None:
            line = np.array([[8.0, self.bound], [352.0, self.bound]])
            names.along(f"proven bound {self.bound:#.3g}", line, colours.alert, size=12)

    def _circle(self, ax: Any, figure: Any) -> None:
        from matplotlib.collections import LineCollection

        colours = palette(ax)
        r = _directions(self.angles, self.norm)
        ring = LineCollection(
            list(np.stack([r[:-1], r[1:]], axis=1)),
            array=self.heights[:-1],
            cmap="cividis",
            lw=9,
            capstyle="butt",
            zorder=2,
        )
        ax.add_collection(ring)
        for k, (angle, _) in enumerate(self.minima):
            w = _directions(np.array([angle]), self.norm)[0]
            colour = colours.series[k % len(colours.series)]
            ax.annotate(
                "",
                w,
                (0.0, 0.0),
                zorder=4,
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": colour,
                    "lw": 2.4,
                    "shrinkA": 0,
                    "shrinkB": 6,
                    "mutation_scale": 18,
                },
            )
            ax.plot(*w, marker="D", ms=9, color=colour, mec=colours.ink, mew=0.8, zorder=5)
        for run, k in zip(self.runs, self.reached):
            at = 1.16 * _directions(run[:1], self.norm)[0]
            ax.plot(
                *at,
                marker="o",
                ms=7,
                mfc=colours.paper,
                mec=colours.series[k % len(colours.series)],
                mew=1.8,
                zorder=4,
            )
        ax.plot(0.0, 0.0, marker="+", ms=12, mew=2.0, color=colours.ink)
        far = 1.3 * float(np.abs(r).max())
        ax.set(xlim=(-far, far), ylim=(-far, far), xlabel="$w_1$", ylabel="$w_2$")
        p = "\\infty" if self.norm == np.inf else f"{self.norm:g}"
        ax.set_title(f"the sphere $\\|w\\|_{{{p}}} = 1$")
        ax.set_box_aspect(1)
        figure.colorbar(ring, ax=ax, shrink=0.75, label="$f(w)$", pad=0.02)


def _directions(angles: NDArray[np.float64], p: float) -> NDArray[np.float64]:
    u = np.c_[np.cos(angles), np.sin(angles)]
    return u / np.linalg.norm(u, ord=p, axis=1)[:, None]


def _minima(angles: Any, heights: Any, height: Any) -> NDArray[np.float64]:
    """Angle and height of the local minima: those of the grid, made sharp; the lowest first."""
    f, step = heights[:-1], float(angles[1])
    places = np.flatnonzero((f < np.roll(f, 1)) & (f <= np.roll(f, -1)))
    found = []
    for k in places:
        best: Any = minimize_scalar(
            lambda t: float(height(t)[0]), bounds=(angles[k] - step, angles[k] + step), method="bounded",
            options={"xatol": 1e-9},
        )  # fmt: skip
        found.append((float(best.x) % (2.0 * np.pi), float(best.fun)))
    found.sort(key=lambda each: each[1])
    lowest = max(float(np.ptp(heights)), 1e-300)
    kept: list[tuple[float, float]] = []
    for angle, value in found:  # ripples of the outline are none
        if not any(_ridge(height, angle, other, value) < 1e-3 * lowest for other, _ in kept):
            kept.append((angle, value))
    return np.array(kept).reshape(-1, 2)


def _ridge(height: Any, a: float, b: float, value: float) -> float:
    """Return the rise of f above the higher of two minima on the lower path between them."""
    ways = []
    for turn in ((b - a) % (2.0 * np.pi), -((a - b) % (2.0 * np.pi))):
        ways.append(float(height(a + turn * np.linspace(0.0, 1.0, 200)).max()))
    return min(ways) - value
