"""`LandscapeDisplay`: the objective over all directions w of the plane, with local minima and descents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.signal import find_peaks

from ucm.compiler.compile import plan_of
from ucm.data.linear_map import Vec
from ucm.data.options import MOST_STARTS, integer_from
from ucm.errors import ParameterError
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.plot.outline import Projection, outline, unit_vectors
from ucm.plot.problem import Problem, SampleOptions, problem_of, problem_of_estimator
from ucm.plot.style import Display, diamond, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ANGLES = 1440  # grid points of the circle
_STARTS = integer_from(0, MOST_STARTS)
_RTOL = 1e-4  # relative tolerance of the outline of U that defines f


@dataclass(repr=False)
class LandscapeDisplay(Display):
    """A plot of `f(w) = max over x in U of -w'x` over the directions w of the plane with `||w||_p = 1`.

    If 0 lies outside of U, exactly one local minimum is negative. If 0 lies in U there may be several local
    minima, in which descents end; the proven lower bound limits how far the best can be below them.

    Attributes
    ----------
    angles, heights : (k,) f around the circle, in radians
    minima : (j, 2) angle and height of the local minima, the lowest first
    descents : the angles of the iterates of each descent, without jumps of a full turn
    bound : proven lower bound of f; None without
    error : of the heights
    norm : p
    solution : the `Solution` of the model
    axes_, figure_ : of the last `plot`
    """

    angles: NDArray[np.float64]
    heights: NDArray[np.float64]
    minima: NDArray[np.float64]
    descents: list[NDArray[np.float64]]
    bound: float | None
    error: float
    norm: float
    solution: Solution

    @classmethod
    def from_model(
        cls, model: object, X: object, y: object, *, solution: Solution | None = None, n_starts: int = 12,
        solver: str | Solver = "linearize", ax: object = None, **options: Unpack[SampleOptions],
    ) -> LandscapeDisplay:  # fmt: skip
        """Plot `f` for a model over two features, with descents from `n_starts` directions if 0 lies in U.

        Parameters
        ----------
        model : uncertainty set or RobustMargin over two features
        X, y : as in `ucm.compile`
        solution : of the model, with the lower bound
        n_starts : directions at equal angles, from which `solver` descends, at most 10,000; 0 for none
        solver : of the descents; the solver of "auto" may find the global minimum from anywhere
        ax : None for a new figure
        options : class_weight, sample_weight, subgroup and pos_label, as in `ucm.compile`

        Raises
        ------
        ParameterError
            The number of features is not two; U is flat or unbounded.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.LandscapeDisplay.from_model(ucm.models.mm_mpm(0.3), X[:, [0, 6]], y)
        >>> len(shown.minima)
        1
        """
        problem = problem_of(model, X, y, solution, "LandscapeDisplay", **options)
        return cls._of_problem(problem, n_starts, solver).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: object, y: object, *, n_starts: int = 12,
        solver: str | Solver = "linearize", ax: object = None,
    ) -> LandscapeDisplay:  # fmt: skip
        """Plot `f` for the model of a fitted `ucm.Classifier` and its training samples X and y.

        The classifier may be the last step of a pipeline, or the best estimator of a search.
        """
        problem = problem_of_estimator(estimator, X, y, "LandscapeDisplay")
        return cls._of_problem(problem, n_starts, solver).plot(ax)

    @classmethod
    def _of_problem(cls, problem: Problem, n_starts: int, solver: str | Solver) -> LandscapeDisplay:
        _STARTS.check("LandscapeDisplay", "n_starts", n_starts, "leave it out for 12")
        model, data, solution = problem.model, problem.data, problem.solution
        n = model.set.dimension(data.n)
        if n != 2:
            raise ParameterError(
                f"LandscapeDisplay: expected a set of the plane, got one in R^{n}; take two features, as "
                "X[:, :2]"
            )
        shape = outline(Projection(model.set, data, np.eye(2)), rtol=_RTOL)
        if shape is None:
            raise ParameterError(
                "LandscapeDisplay: U is unbounded, so that f is infinite; draw it with SetDisplay"
            )
        if len(shape.vertices) < 3:
            raise ParameterError(
                "LandscapeDisplay: U is flat, so that f is 0 across it; take features that are not multiples "
                "of each other"
            )
        vertices = shape.vertices

        def height(angle: float | Vec) -> NDArray[np.float64]:
            return (-unit_vectors(np.atleast_1d(angle), model.norm) @ vertices.T).max(axis=1)

        angles = np.linspace(0.0, 2.0 * np.pi, _ANGLES + 1)
        heights = height(angles)
        descents = []
        certificate = solution.certificate
        if certificate.residual is not None and n_starts:
            plan = plan_of(model, data, None, solver)
            starts = 2.0 * np.pi * (np.arange(n_starts) + 0.5) / n_starts
            for w in unit_vectors(starts, model.norm):
                run = plan.solve(warm_start=replace(solution, w=w, answer=None), trace=1)
                iterates = [w, *(record["w"] for record in run.history if "w" in record), run.w]
                descents.append(np.unwrap([np.arctan2(v[1], v[0]) for v in iterates]))
        return cls(
            angles=angles,
            heights=heights,
            minima=_minima(angles, heights, height),
            descents=descents,
            bound=certificate.dual if np.isfinite(certificate.dual) else None,
            error=shape.error,
            norm=model.norm,
            solution=solution,
        )

    @property
    def zero_inside(self) -> bool:
        """True if 0 lies in U."""
        return self.solution.certificate.residual is not None

    @property
    def reached(self) -> NDArray[np.intp]:
        """The index of the local minimum nearest to the last iterate of each descent."""
        ends = np.array([angles[-1] for angles in self.descents])
        distances = np.abs(np.angle(np.exp(1j * (ends[:, None] - self.minima[:, 0][None]))))
        return np.argmin(distances, axis=1) if len(ends) else np.zeros(0, dtype=np.intp)

    def plot(self, ax: object = None) -> LandscapeDisplay:
        """Draw f over the angle of w, with the descents, the local minima and the proven lower bound."""
        low, height = float(self.heights.min()), float(np.ptp(self.heights))
        with self._axes(ax, 1, 1, (8.0, 5.0)) as (a,):
            a.set(
                xlim=(0.0, 360.0), ylim=(low - 0.3 * height, low + 1.08 * height), xticks=range(0, 361, 60),
                xlabel="direction of $w$ (degrees)", ylabel=r"$f(w) = \max_{x \in U}\,-w^\top x$",
            )  # fmt: skip
            title = "convex: one minimum below 0"
            if self.zero_inside:
                several = "one minimum" if len(self.minima) == 1 else "several local minima"
                title = f"$0 \\in U$: {several}"
            a.set_title(title)
            self._draw(a)
        return self

    def _draw(self, ax: Axes) -> None:
        colours = palette(ax)
        degrees, height = np.degrees(self.angles), float(np.ptp(self.heights))
        ax.plot(degrees, self.heights, color=colours.ink, zorder=2)
        ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        if self.bound is not None:
            text = f"proven bound {self.bound:#.3g}"
            ax.axhline(self.bound, color=colours.alert, lw=1.3, ls=(0, (4, 2)), zorder=1.5, label=text)

        def on_curve(angles: Vec) -> tuple[Vec, Vec]:
            wrapped = np.mod(angles, 2.0 * np.pi)
            return np.degrees(wrapped), np.interp(wrapped, self.angles, self.heights)

        for angles, k in zip(self.descents, self.reached):
            colour = colours.series[k % len(colours.series)]
            steps = np.linspace(0.0, angles.size - 1.0, 30 * angles.size)
            x, f = on_curve(np.interp(steps, np.arange(angles.size), angles))
            x[np.abs(np.diff(x, append=x[-1])) > 180.0] = np.nan  # from 360 to 0 degrees
            ax.plot(x, f + 0.025 * height, color=colour, lw=3.0, alpha=0.5, zorder=3)
            ax.plot(*on_curve(angles[1:]), "o", ms=3.5, color=colour, zorder=3.5)
            start = on_curve(angles[0])
            ax.plot(*start, "o", ms=7, mfc=colours.paper, mec=colour, mew=1.8, zorder=4)
        minima = np.c_[np.degrees(self.minima[:, 0]), self.minima[:, 1]]
        for k, minimum in enumerate(minima):
            colour = colours.series[k % len(colours.series)]
            text = f"minimum {minimum[1]:#.3g}"
            if self.descents:
                text += f", {np.sum(self.reached == k)} of {len(self.descents)} starts"
            diamond(ax, minimum, colour, label=text, ls="none")
        ax.legend(loc="best")


def _minima(angles: Vec, heights: Vec, height: Callable[[float], Vec]) -> NDArray[np.float64]:
    """Return the local minima of f, (angle, value) ascending, without artefacts of the outline."""
    f, step, minima = heights[:-1], float(angles[1]), []
    ridge = 1e-3 * max(float(np.ptp(f)), 1e-300)
    peaks = find_peaks(-np.tile(f, 3), prominence=ridge)[0] - f.size
    for k in peaks[(peaks >= 0) & (peaks < f.size)]:
        best: Any = minimize_scalar(
            lambda t: float(height(t)[0]), bounds=(angles[k] - step, angles[k] + step), method="bounded",
            options={"xatol": 1e-9},
        )  # fmt: skip
        minima.append((float(best.x) % (2.0 * np.pi), float(best.fun)))
    return np.array(sorted(minima, key=lambda minimum: minimum[1])).reshape(-1, 2)
