"""`ConvergenceDisplay`: the gap of solvers, or another number of their records, against the work."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import solve
from ucm.data.options import one_of
from ucm.errors import ParameterError, brief
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver, name_of
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.plot.style import LINES, Display, palette

_WORK = {
    "passes": r"passes over the data (one $Aq$ and one $A^\top w$)",
    "iterations": "iterations",
    "seconds": "seconds",
}
_NUMBERS = {
    "L": "$L$, the reciprocal of the step length",
    "residual": r"$\|L\,(T_L(q) - q)\|$",
    "step": r"$\|L\,(q - p)\|$",
}
_FLOOR = 1e-16
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(repr=False)
class ConvergenceDisplay(Display):
    """A plot of the gap, or another recorded number, of one or several solver runs against their work.

    Both axes are logarithmic; the vertical axis is linear if a number is not positive.

    A point is a record of the solver: its gap, or else the distance of its objective from the best proven
    objective. The last point of a curve is the certificate: a disc if it is "optimal", else a cross. The
    starts of a non-convex model are separate curves.

    Attributes
    ----------
    runs : {name: (work (k,), gap (k,))}
    status : {name: status}
    x : "passes", "iterations" or "seconds"
    distances : names of the runs with distances of the objective
    tol : tolerance, None without a line
    y : "gap", or another number of the records
    axes_, figure_ : of the last `plot`
    """

    runs: dict[str, Curve]
    status: dict[str, str]
    x: str
    distances: set[str]
    tol: float | None = None
    y: str = "gap"

    @classmethod
    def from_solution(
        cls, solution: Solution | Mapping[str, Solution], *, x: str = "passes", y: str = "gap",
        tol: float | None = None, ax: object = None,
    ) -> ConvergenceDisplay:  # fmt: skip
        """Plot the convergence records (`history`) of one solution, or of several named solutions.

        Parameters
        ----------
        solution : Solution or {name: Solution}
        x : "passes", "iterations" or "seconds"
        y : "gap", "objective", or another number of the records that `trace=k` keeps: "L", "residual", ...
        tol : height of a line
        ax : None for a new figure

        Raises
        ------
        ParameterError
            No solution, or a solution without records of y.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> found = ucm.solve(ucm.models.nu_svm(0.3), X, y, solver="apg")
        >>> shown = ucm.plot.ConvergenceDisplay.from_solution(found)
        >>> shown.status
        {'apg': 'optimal'}
        """
        solutions = {solution.stats.solver: solution} if isinstance(solution, Solution) else dict(solution)
        if not solutions or not all(isinstance(s, Solution) for s in solutions.values()):
            raise ParameterError(
                f"ConvergenceDisplay: expected a Solution or {{name: Solution}}, got {brief(solution)}; "
                "give the answer of ucm.solve"
            )
        one_of(*_WORK).check("ConvergenceDisplay", "x", x, 'leave it out for "passes"')
        runs, status, distances = {}, {}, set()
        best = min((s.objective for s in solutions.values() if s.status == "optimal"), default=None)
        for name, s in solutions.items():
            starts = _starts(name, s, "start" if len(solutions) == 1 else f"{name}, start")
            for start, records in starts.items():
                status[start] = s.status
                proven = [r for r in records if np.isfinite(r["gap"])]
                if y != "gap":
                    work, values = _numbers(start, records, x, y)
                elif proven:
                    work, values = _numbers(start, proven, x, y)
                else:
                    distances.add(start)
                    work, values = np.zeros(0), np.zeros(0)
                    if records:
                        work, values = _numbers(start, records, x, "objective")
                    end = s.objective if best is None else best
                    values = (values - end) / max(abs(end), 1e-300)
                if y == "gap" and len(starts) == 1:
                    work, values = _with_certificate(s, x, work, values)
                runs[start] = (work, values if y == "objective" else np.maximum(np.abs(values), _FLOOR))
        return cls(runs, status, x, distances, tol, y).plot(ax)

    @classmethod
    def from_model(
        cls, model: UncertaintySet | RobustMargin | Objective, X: object, y: object, *,
        solvers: Mapping[str, str | Solver] | Sequence[str | Solver],
        tol: float = 1e-6, x: str = "passes", ax: object = None, **options: Any,
    ) -> ConvergenceDisplay:  # fmt: skip
        """Solve a model by each of several solvers, and plot their gaps against the work.

        Parameters
        ----------
        model, X, y : as in `ucm.solve`
        solvers : names or solvers, or {name: solver}
        tol : relative gap to prove, and height of a line
        x, ax : as in `from_solution`
        options : further options of `ucm.solve`, as max_iter
        """
        match solvers:
            case str():
                raise ParameterError(
                    f"ConvergenceDisplay: expected several solvers, got {solvers!r}; write [{solvers!r}]"
                )
            case Mapping():
                by_name = dict(solvers)
            case _:
                by_name = {name_of(s): s for s in solvers}
        solutions = {
            name: solve(model, X, y, solver=solver, tol=tol, **options) for name, solver in by_name.items()
        }
        return cls.from_solution(solutions, x=x, tol=tol, ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "passes", y: str = "gap", ax: object = None
    ) -> ConvergenceDisplay:
        """Plot the convergence of a fitted `ucm.Classifier`, with one curve for each two-class problem."""
        solution = getattr(estimator, "solution_", None)
        if solution is None:
            raise ParameterError(
                f"ConvergenceDisplay: {type(estimator).__name__} has no solution_; call fit(X, y) first"
            )
        solutions = solution
        if not isinstance(solution, Solution):
            solutions = {f"problem {k + 1}": s for k, s in enumerate(solution)}
        return cls.from_solution(solutions, x=x, y=y, tol=estimator.tol if y == "gap" else None, ax=ax)

    def plot(self, ax: object = None) -> ConvergenceDisplay:
        """Draw the curves into the given axes, or into a new figure."""
        work = np.concatenate([w for w, _ in self.runs.values()])
        numbers = np.concatenate([g for _, g in self.runs.values()])
        least = float(np.min(work, where=work > 0.0, initial=np.inf))
        least = least if np.isfinite(least) else 1.0
        low, high = float(numbers.min()), float(numbers.max())
        scale = "log" if low > 0.0 else "linear"
        with self._axes(ax, 1, 1, (7.4, 5.0)) as (a,):
            from matplotlib.ticker import LogFormatterSciNotation

            colours = palette(a)
            a.set(xscale="log", yscale=scale, xlabel=_WORK[self.x], ylabel=self._label())
            a.set_xlim(0.6 * least, 2.0 * max(least, float(work.max())))
            if self.y != "objective":
                a.set_ylim(min(low, self.tol or low) / 30.0, high * 6.0)
            a.grid(True, which="major", color=colours.soft, alpha=0.25, lw=0.7)
            for k, (name, (x, y)) in enumerate(self.runs.items()):
                colour, x = colours.series[k % len(colours.series)], np.maximum(x, 0.7 * least)
                text = name if self.status[name] == "optimal" else f"{name} ({self.status[name]})"
                dashes = LINES[k % len(LINES)]
                a.step(x, y, where="post", color=colour, ls=dashes, zorder=3, label=text)
                mark = "o" if self.status[name] == "optimal" else "X"
                a.plot(x[-1], y[-1], marker=mark, ms=9, color=colour, mec=colours.paper, zorder=4)
            if self.tol is not None:
                tol = LogFormatterSciNotation(labelOnlyBase=False)(self.tol)
                a.axhline(
                    self.tol, color=colours.soft, lw=1.2, ls=LINES[3], zorder=1, label=f"tolerance {tol}"
                )
            a.legend(loc="best")
        return self

    def _label(self) -> str:
        """Return the label of the vertical axis."""
        if self.y != "gap":
            return _NUMBERS.get(self.y, self.y)
        if len(self.distances) == len(self.runs):
            return "distance of the objective"
        return "proven relative gap" + (" (or distance)" if self.distances else "")


def _starts(name: str, s: Solution, prefix: str) -> dict[str, list[dict]]:
    """Return the records by start, with passes and seconds counted from the first record of the start."""
    parts = [list(part) for _, part in itertools.groupby(s.history, lambda r: r.get("start"))]
    if len(parts) < 2:
        return {name: list(s.history)}
    starts = {}
    for k, part in enumerate(parts):
        before = {key: part[0][key] for key in ("passes", "seconds")}
        starts[f"{prefix} {k + 1}"] = [
            {**record, "iteration": i + 1, **{key: record[key] - x for key, x in before.items()}}
            for i, record in enumerate(part)
        ]
    return starts


def _numbers(name: str, records: Sequence[Mapping[str, Any]], x: str, y: str) -> Curve:
    """Return the curve of entry y against the work x, over the records in which y is a number."""
    numeric = [record for record in records if np.ndim(record.get(y, [])) == 0]
    if not numeric:
        raise ParameterError(
            f"ConvergenceDisplay: the records of {name} hold no number {y!r}; solve with trace=1, and take "
            "one of its history"
        )
    key = "iteration" if x == "iterations" else x
    work, values = ([float(record[of]) for record in numeric] for of in (key, y))
    return np.array(work), np.array(values)


def _with_certificate(s: Solution, x: str, work: NDArray[np.float64], gaps: NDArray[np.float64]) -> Curve:
    """Return the curve with the relative gap of the certificate appended at the total work."""
    stats = s.stats
    total = {"passes": stats.passes, "iterations": stats.iterations, "seconds": stats.solve_time}[x]
    proven = abs(s.certificate.relative_gap)
    if np.isfinite(proven):
        work = np.append(work, max(float(total), float(work.max(initial=0.0))))
        gaps = np.append(gaps, proven)
    if not gaps.size:
        raise ParameterError(
            f"ConvergenceDisplay: {stats.solver} reported no gap and proved none; take another solver"
        )
    order = np.argsort(work, kind="stable")
    return work[order], gaps[order]
