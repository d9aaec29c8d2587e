"""The difference-of-convex-functions algorithm: the convex problems of each start."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import compile
from ucm.errors import ParameterError, brief
from ucm.forms.objective import DifferenceOfConvex
from ucm.forms.solution import Solution
from ucm.language.objective import Objective
from ucm.plot.names import Names, dense, settle
from ucm.plot.style import Display, axes_of, canvas, palette

__all__ = ["DescentDisplay"]

_FLOOR = 1e-13
_SAME = 1e-6  # of the objective: the same minimum


@dataclass(repr=False)
class DescentDisplay(Display):
    """Objective and criticality over the convex problems that DCA solves, a curve for each start.

    The objective never goes up. Criticality is what the next convex problem can gain at most, relative to the
    objective, a proven number; it is not known at a start that no problem led to.

    Attributes
    ----------
    runs : (objectives (k,), criticality (k,)) for each start, NaN where it is not known
    best : the lowest end
    axes_, figure_ : what was drawn on
    """

    runs: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
    best: float
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls, model: Any, X: Any, y: Any, *, starts: int = 10, seed: int = 0, ax: Any = None, **options: Any
    ) -> DescentDisplay:  # fmt: skip
        """Solve from several starts, and draw.

        The first is the library's own, a convex problem; the others are random directions of the length of
        its answer.

        Parameters
        ----------
        model : `loss + lam * penalty` that is not convex
        X, y : as in `ucm.compile`
        starts, seed : how many, and of which random numbers
        ax : None for a new figure, or two axes
        options : of `Plan.solve`

        Raises
        ------
        ParameterError
            The model is convex, or a set.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.DescentDisplay.from_model(ucm.models.rlsvm2(0.1), X, y, starts=3)
        >>> len(shown.runs)
        3
        """
        if not isinstance(model, Objective):
            raise ParameterError(
                f"DescentDisplay: DCA solves a loss and a penalty, got {brief(model)}; for example "
                "ucm.models.rlsvm2(0.1), or LandscapeDisplay for a set"
            )
        plan = compile(model, X, y)
        if not isinstance(plan.form, DifferenceOfConvex):
            raise ParameterError(
                f"DescentDisplay: {model!r} is convex, and one solve ends in its minimum; use "
                "ConvergenceDisplay"
            )
        found = [plan.solve(**options)]
        length = float(np.linalg.norm(found[0].w)) or 1.0
        generator = np.random.default_rng(seed)
        while len(found) < starts:
            w = generator.standard_normal(plan.data.n)
            w *= length / np.linalg.norm(w)
            scores = np.asarray(plan.data.X @ w)
            b = -float(np.quantile(scores, generator.uniform(0.2, 0.8)))
            found.append(plan.solve(warm_start=replace(found[0], w=w, b=b, answer=None), **options))
        return cls.from_solution(found, ax=ax)

    @classmethod
    def from_solution(
        cls, solution: Solution | Sequence[Solution], *, ax: Any = None
    ) -> DescentDisplay:
        """Of one solution or of several, by their `history`, a curve for each start that its records name.

        Raises
        ------
        ParameterError
            No solution with a history.
        """
        found = [solution] if isinstance(solution, Solution) else list(solution)
        runs = [run for s in found if isinstance(s, Solution) for run in _descents(s)]
        if not runs:
            raise ParameterError(
                f"DescentDisplay: expected solutions of DCA with a history, got {brief(solution)}; "
                "solve with trace=1"
            )
        return cls(runs, min(float(h[-1]) for h, _ in runs)).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> DescentDisplay:
        """Of a fitted `ucm.Classifier`."""
        found = getattr(estimator, "solution_", None)
        if found is None:
            raise ParameterError(
                f"DescentDisplay: {type(estimator).__name__} has no solution_; call fit(X, y) first"
            )
        return cls.from_solution(found, ax=ax)

    @property
    def reached(self) -> list[bool]:
        """Whether each start ended as low as the best."""
        return [bool(h[-1] <= self.best + _SAME * abs(self.best)) for h, _ in self.runs]

    def plot(self, ax: Any = None) -> DescentDisplay:
        """Draw again, in two axes."""
        with canvas():
            from matplotlib.ticker import MaxNLocator

            figure, found = axes_of(ax, 1, 2, (5.8, 4.5), "DescentDisplay")
            left, right = found
            colours = palette(left)
            longest = max(h.size for h, _ in self.runs)
            for (h, gap), best in sorted(zip(self.runs, self.reached), key=lambda run: run[1]):
                colour, z = (colours.pos, 3) if best else (colours.soft, 2)
                look = {
                    "color": colour,
                    "marker": "o" if best else "s",
                    "ms": 4.5,
                    "lw": 1.8 if best else 1.1,
                    "zorder": z,
                }
                left.plot(np.arange(1, h.size + 1), h, **look)
                right.plot(np.arange(1, gap.size + 1), np.maximum(gap, _FLOOR), **look)
            left.axhline(self.best, color=colours.pos, lw=1.2, ls=(0, (1.5, 1)), zorder=1)
            left.set(
                xlabel="convex problem",
                ylabel="objective",
                title="never up, from any start",
                xlim=(0.6, longest + 0.4),
            )
            right.set(xlabel="convex problem", ylabel="what the next can gain", title="criticality, proven",
                      yscale="log", xlim=(0.6, longest + 0.4))  # fmt: skip
            ends = [h for h, _ in self.runs]
            if self.best > 0.0 and max(float(h.max()) for h in ends) > 30.0 * self.best:
                left.set_yscale("log")
            for a in found:
                a.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
            left.margins(y=0.1)
            settle(figure)
            names = Names(left)
            for h, _ in self.runs:
                names.avoid(dense(np.c_[np.arange(1, h.size + 1), h], 80))
            names.avoid(np.c_[np.linspace(0.6, longest + 0.4, 80), np.full(80, self.best)])
            count = sum(self.reached)
            lowest = f"{count} of {len(self.runs)} starts\nreach {self.best:.5g}"
            at = next(h for (h, _), best in zip(self.runs, self.reached) if best)
            names.near(lowest, np.c_[np.arange(1, at.size + 1), at][-2:], colours.pos, size=13)
            if count < len(self.runs):
                others = [h for (h, _), best in zip(self.runs, self.reached) if not best]
                worst = max(others, key=lambda h: h[-1])
                rest = len(self.runs) - count
                text = (
                    f"{rest} {'ends' if rest == 1 else 'end'} higher,\nthe worst at {worst[-1]:.5g}"
                )
                names.near(
                    text, np.c_[np.arange(1, worst.size + 1), worst][-2:], colours.soft, size=13
                )
        self.axes_, self.figure_ = found, figure
        return self


def _descents(s: Solution) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The records of a solve, start by start."""
    runs = []
    for _, records in itertools.groupby(s.history, key=lambda record: record["start"]):
        h, gap = np.array([(r["objective"], r["gap"]) for r in records], dtype=np.float64).T
        runs.append((h, np.where(np.isfinite(gap), gap, np.nan)))
    return runs
