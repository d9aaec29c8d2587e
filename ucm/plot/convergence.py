"""The convergence of solvers: the gap, or another number of their records, against the work."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.compile import compile
from ucm.errors import ParameterError, brief
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.plot.names import Names, dense, settle
from ucm.plot.style import LINES, Display, axes_of, canvas, palette

__all__ = ["ConvergenceDisplay"]

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


@dataclass(repr=False)
class ConvergenceDisplay(Display):
    """A plot of the gap of one or several solvers of one problem against their work, both logarithmic.

    A point is a report of the solver; without a reported gap it is the distance of its objective from the
    best proven one. The last point of a curve is the certificate: a disc if it is "optimal", else a cross.
    The starts of a non-convex model are separate curves.

    Attributes
    ----------
    runs : {name: (work (k,), gap (k,))}
    status : {name: status}
    x : "passes", "iterations" or "seconds"
    y : "gap", or another number of the records
    distances : names of the runs with distances of the objective
    tol : tolerance, None without a line
    axes_, figure_ : what was drawn on
    """

    runs: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    status: dict[str, str]
    x: str
    distances: set[str]
    tol: float | None = None
    y: str = "gap"
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_solution(
        cls,
        solution: Solution | Mapping[str, Solution],
        *,
        x: str = "passes",
        y: str = "gap",
        tol: float | None = None,
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Draw the `history` of one solution, or of several with their names.

        Parameters
        ----------
        solution : Solution or {name: Solution}
        x : "passes", "iterations" or "seconds"
        y : "gap", "objective", or another number of the records that `trace=k` keeps: "L", "residual", ...
        tol : where a line is drawn
        ax : None for a new figure

        Raises
        ------
        ParameterError
            No solution, or one without a history, or without such numbers.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> found = ucm.solve(ucm.models.nu_svm(0.3), X, y, solver="apg")
        >>> shown = ucm.plot.ConvergenceDisplay.from_solution(found)
        >>> shown.status
        {'apg': 'optimal'}
        """
        named = (
            {solution.stats.solver: solution} if isinstance(solution, Solution) else dict(solution)
        )
        if not named or not all(isinstance(s, Solution) for s in named.values()):
            raise ParameterError(
                f"ConvergenceDisplay: expected a Solution or {{name: Solution}}, got {brief(solution)}; "
                "give what ucm.solve returns"
            )
        if x not in _WORK:
            raise ParameterError(
                f"ConvergenceDisplay: x is among {', '.join(_WORK)}, got {x!r}; leave it out for the first"
            )
        runs, status, distances = {}, {}, set()
        best = min((s.objective for s in named.values() if s.status == "optimal"), default=None)
        for name, s in named.items():
            starts = _starts(name, s, "start" if len(named) == 1 else f"{name}, start")
            for word, records in starts.items():
                status[word] = s.status
                if y != "gap":
                    runs[word] = _numbers(word, records, x, y)
                    continue
                steps = _steps(records, x)
                gaps = np.array([record["gap"] for record in records], dtype=np.float64)
                known = np.isfinite(gaps)
                if known.any():
                    steps, gaps = steps[known], gaps[known]
                else:
                    distances.add(word)
                    gaps = _distances(s, records, best)
                runs[word] = (steps, gaps) if len(starts) > 1 else _ended(s, x, steps, gaps)
                runs[word] = (runs[word][0], np.maximum(np.abs(runs[word][1]), _FLOOR))
        return cls(runs, status, x, distances, tol, y).plot(ax)

    @classmethod
    def from_model(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        solvers: Mapping[str, str | Solver[Any]] | Sequence[str | Solver[Any]],
        tol: float = 1e-6,
        x: str = "passes",
        kernel: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        subgroup: Any = None,
        pos_label: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> ConvergenceDisplay:
        """Solve one problem by several solvers, and draw their gaps.

        Parameters
        ----------
        model, X, y : as in `ucm.compile`
        solvers : names or solvers, or {name: solver}
        tol : relative gap to prove, where a line is drawn
        x, ax : as in `from_solution`
        kernel, class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
        options : of `Plan.solve`, as max_iter
        """
        if isinstance(solvers, str):
            raise ParameterError(
                f"ConvergenceDisplay: solvers takes several, got {solvers!r}; write [{solvers!r}]"
            )
        named = (
            dict(solvers) if isinstance(solvers, Mapping)
            else {s if isinstance(s, str) else s.name: s for s in solvers}
        )  # fmt: skip
        given: dict[str, Any] = {
            "kernel": kernel,
            "class_weight": class_weight,
            "sample_weight": sample_weight,
            "subgroup": subgroup,
            "pos_label": pos_label,
        }
        found = {
            name: compile(model, X, y, solver=solver, **given).solve(tol=tol, **options)
            for name, solver in named.items()
        }
        return cls.from_solution(found, x=x, tol=tol, ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "passes", y: str = "gap", ax: Any = None
    ) -> ConvergenceDisplay:
        """Draw a fitted `ucm.Classifier`; of several classes each problem is a curve."""
        found = getattr(estimator, "solution_", None)
        if found is None:
            raise ParameterError(
                f"ConvergenceDisplay: {type(estimator).__name__} has no solution_; call fit(X, y) first"
            )
        named = (
            found
            if isinstance(found, Solution)
            else {f"problem {k + 1}": s for k, s in enumerate(found)}
        )
        return cls.from_solution(named, x=x, y=y, tol=estimator.tol if y == "gap" else None, ax=ax)

    @property
    def ax_(self) -> Any:
        """The axes."""
        return self.axes_[0]

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw again."""
        with canvas():
            figure, found = axes_of(ax, 1, 1, (7.4, 5.0), "ConvergenceDisplay")
            a = found[0]
            colours = palette(a)
            least = min(
                (float(w[w > 0.0].min()) for w, _ in self.runs.values() if (w > 0.0).any()),
                default=1.0,
            )
            low, high = (f([float(f(g)) for _, g in self.runs.values()]) for f in (min, max))
            far = max(least, *(float(w.max()) for w, _ in self.runs.values()))
            floor = low if self.tol is None else min(low, self.tol)
            logarithmic = low > 0.0
            a.set(
                xscale="log",
                yscale="log" if logarithmic else "linear",
                xlabel=_WORK[self.x],
                ylabel=self._label(),
                xlim=(0.6 * least, 2.0 * far),
            )
            if self.y != "objective":
                a.set_ylim(floor / 30.0, high * 6.0)
            a.grid(True, which="major", color=colours.soft, alpha=0.25, lw=0.7)
            curves = {}
            for k, (name, (work, gap)) in enumerate(self.runs.items()):
                colour = colours.series[k % len(colours.series)]
                x = np.maximum(work, 0.7 * least)
                ls = LINES[k % len(LINES)]
                a.plot(x, gap, color=colour, ls=ls, drawstyle="steps-post", zorder=3, label=name)
                mark = "o" if self.status[name] == "optimal" else "X"
                a.plot(x[-1], gap[-1], marker=mark, ms=9, color=colour, mec=colours.paper, zorder=4)
                curves[name] = (np.c_[np.repeat(x, 2)[1:], np.repeat(gap, 2)[:-1]], colour)
            settle(figure)
            names = Names(a)
            for curve, _ in curves.values():
                names.avoid(_dense(curve, 250, logarithmic))
            if self.tol is not None:
                a.axhline(self.tol, color=colours.soft, lw=1.2, ls=LINES[3], zorder=1)
                left, right = a.get_xlim()
                span = np.geomspace(left, right, 150)
                names.avoid(np.c_[span, np.full(150, self.tol)])
                word = f"tolerance ${_power(self.tol)}$"
                names.along(
                    word, np.array([[span[0], self.tol], [span[60], self.tol]]), colours.soft
                )
            for name, (curve, colour) in curves.items():
                status = self.status[name]
                text = name if status == "optimal" else f"{name} ({status})"
                tail = curve[-max(2, len(curve) // 4) :]
                names.near(text, tail, colour, size=13)
        self.axes_, self.figure_ = found, figure
        return self

    def _label(self) -> str:
        """The label of the vertical axis."""
        if self.y != "gap":
            return _NUMBERS.get(self.y, self.y)
        if len(self.distances) == len(self.runs):
            return "distance of the objective"
        return "proven relative gap" + (" (or distance)" if self.distances else "")


def _dense(curve: NDArray[np.float64], count: int, logarithmic: bool) -> NDArray[np.float64]:
    """Points along a curve, close to each other in the picture."""
    x, y = curve.T
    points = dense(np.c_[np.log(x), np.log(y) if logarithmic else y], count)
    return np.c_[np.exp(points[:, 0]), np.exp(points[:, 1]) if logarithmic else points[:, 1]]


def _starts(name: str, s: Solution, prefix: str) -> dict[str, list[dict[str, Any]]]:
    """The records of a solution by its starts, counted from the first record of each."""
    parts = [list(part) for _, part in itertools.groupby(s.history, lambda r: r.get("start"))]
    if len(parts) < 2:
        return {name: list(s.history)}
    found = {}
    for k, part in enumerate(parts):
        before = {word: part[0][word] for word in ("passes", "seconds")}
        found[f"{prefix} {k + 1}"] = [
            {**record, "iteration": i + 1, **{w: record[w] - x for w, x in before.items()}}
            for i, record in enumerate(part)
        ]
    return found


def _numbers(
    name: str, records: Sequence[Mapping[str, Any]], x: str, y: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The work and the number y of the records that have it."""
    kept = [record for record in records if np.ndim(record.get(y, [])) == 0]
    if not kept:
        raise ParameterError(
            f"ConvergenceDisplay: the records of {name} hold no number {y!r}; solve with trace=1, and take "
            "one of its history"
        )
    values = np.array([float(record[y]) for record in kept])
    return _steps(kept, x), values if y == "objective" else np.maximum(np.abs(values), _FLOOR)


def _power(x: float) -> str:
    e = int(np.floor(np.log10(x) + 1e-12))
    m = x / 10.0**e
    return f"10^{{{e}}}" if abs(m - 1.0) < 1e-9 else rf"{m:.2g} \cdot 10^{{{e}}}"


def _steps(records: Sequence[Mapping[str, Any]], x: str) -> NDArray[np.float64]:
    key = "iteration" if x == "iterations" else x
    return np.array([record[key] for record in records], dtype=np.float64)


def _distances(
    s: Solution, records: Sequence[Mapping[str, Any]], best: float | None
) -> NDArray[np.float64]:
    """Relative distances of the objective from the best proven one, or from the last one of the run."""
    values = np.array([record["objective"] for record in records], dtype=np.float64)
    end = s.objective if best is None else best
    return np.abs(values - end) / max(abs(end), 1e-300)


def _ended(
    s: Solution, x: str, steps: NDArray[np.float64], gaps: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The reports and, at the end, the certificate."""
    stats = s.stats
    total = {"passes": stats.passes, "iterations": stats.iterations, "seconds": stats.solve_time}[x]
    proven = abs(s.certificate.relative_gap)
    if np.isfinite(proven):
        steps = np.append(steps, max(float(total), float(steps.max(initial=0.0))))
        gaps = np.append(gaps, proven)
    if not gaps.size:
        raise ParameterError(
            f"ConvergenceDisplay: {s.stats.solver} reported nothing and proved no gap; take another solver"
        )
    order = np.argsort(steps, kind="stable")
    return steps[order], gaps[order]
