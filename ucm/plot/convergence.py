"""How fast solvers come: the gap against the work."""

from __future__ import annotations

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
    """The gap of one or several solvers of one problem against their work, both logarithmic.

    A point is a report of the solver; where it reports no gap, the distance of its objective from the best
    proven one stands in. The last point of each is the certificate: a disc where it is "optimal", a cross
    where it is not.

    Attributes
    ----------
    runs : {name: (work (k,), gap (k,))}
    status : {name: status}
    work : "passes", "iterations" or "seconds"
    of : "gap", or what else of the records is drawn
    stand_in : names of the runs with distances of the objective
    tol : tolerance, None without a line
    axes_, figure_ : what was drawn on
    """

    runs: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    status: dict[str, str]
    work: str
    stand_in: set[str]
    tol: float | None = None
    of: str = "gap"
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_solution(
        cls,
        solution: Solution | Mapping[str, Solution],
        *,
        work: str = "passes",
        tol: float | None = None,
        of: str = "gap",
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Of one solution, or of several with their names, by their `history`.

        Parameters
        ----------
        solution : Solution or {name: Solution}
        work : "passes", "iterations" or "seconds"
        tol : where a line is drawn
        of : "gap", or another number of the records that `trace=k` keeps: "L", "residual", "step", ...
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
        if work not in _WORK:
            raise ParameterError(
                f"ConvergenceDisplay: work is among {', '.join(_WORK)}, got {work!r}; "
                "leave it out for the first"
            )
        if of != "gap":
            found = {name: _numbers(name, s, work, of) for name, s in named.items()}
            return cls(found, {k: s.status for k, s in named.items()}, work, set(), tol, of).plot(
                ax
            )
        runs, stand_in = {}, set()
        best = min((s.objective for s in named.values() if s.status == "optimal"), default=None)
        for name, s in named.items():
            steps, gaps = _records(s, work)
            if not np.isfinite(gaps).any():
                stand_in.add(name)
                gaps = _distances(s, best)
                steps = _steps(s, work)
            runs[name] = _ended(s, work, steps, gaps)
        return cls(runs, {k: s.status for k, s in named.items()}, work, stand_in, tol).plot(ax)

    @classmethod
    def from_model(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        solvers: Mapping[str, str | Solver[Any]] | Sequence[str | Solver[Any]],
        tol: float = 1e-6,
        work: str = "passes",
        of: str = "gap",
        ax: Any = None,
        **options: Any,
    ) -> ConvergenceDisplay:
        """Solve one problem by several solvers, and draw.

        Parameters
        ----------
        model, X, y : as in `ucm.compile`
        solvers : names or solvers, or {name: solver}
        tol : relative gap to prove, where a line is drawn
        work, of, ax : as in `from_solution`; `of` asks for a trace of every iterate
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
        if of != "gap":
            options = {"trace": 1, **options}
        found = {
            name: compile(model, X, y, solver=solver).solve(tol=tol, **options)
            for name, solver in named.items()
        }
        return cls.from_solution(found, work=work, tol=tol if of == "gap" else None, of=of, ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, work: str = "passes", ax: Any = None
    ) -> ConvergenceDisplay:
        """Of a fitted `ucm.Classifier`; of several classes each problem is a curve."""
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
        return cls.from_solution(named, work=work, tol=estimator.tol, ax=ax)

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
            a.set(xscale="log", yscale="log", xlabel=_WORK[self.work])
            some, every = bool(self.stand_in), len(self.stand_in) == len(self.runs)
            if self.of != "gap":
                label = _NUMBERS.get(self.of, self.of)
            elif every:
                label = "distance of the objective"
            else:
                label = "proven relative gap" + (" (or distance)" if some else "")
            a.set_ylabel(label)
            low = min(float(g.min()) for _, g in self.runs.values())
            high = max(float(g.max()) for _, g in self.runs.values())
            far = max(float(w.max()) for w, _ in self.runs.values())
            a.set_xlim(0.6 * least, max(far, least) * 2.0)
            floor = low if self.tol is None else min(low, self.tol)
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
                curves[name] = (
                    np.c_[np.log(np.repeat(x, 2)[1:]), np.log(np.repeat(gap, 2)[:-1])],
                    colour,
                )
            settle(figure)
            names = Names(a)
            for curve, _ in curves.values():
                names.avoid(np.exp(dense(curve, 250)))
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
                tail = np.exp(curve[-max(2, len(curve) // 4) :])
                names.near(text, tail, colour, size=13)
        self.axes_, self.figure_ = found, figure
        return self


def _numbers(
    name: str, s: Solution, work: str, of: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Work and the number asked for, of the records that have it."""
    kept = [record for record in s.history if np.ndim(record.get(of, [])) == 0]
    if not kept:
        raise ParameterError(
            f"ConvergenceDisplay: the records of {name} hold no number {of!r}; solve with trace=1, and take "
            "one of its history"
        )
    key = "iteration" if work == "iterations" else work
    steps = np.array([record[key] for record in kept], dtype=np.float64)
    return steps, np.maximum(np.abs([float(record[of]) for record in kept]), _FLOOR)


def _power(x: float) -> str:
    e = int(np.floor(np.log10(x) + 1e-12))
    m = x / 10.0**e
    return f"10^{{{e}}}" if abs(m - 1.0) < 1e-9 else rf"{m:.2g} \cdot 10^{{{e}}}"


def _steps(s: Solution, work: str) -> NDArray[np.float64]:
    key = "iteration" if work == "iterations" else work
    return np.array([record[key] for record in s.history], dtype=np.float64)


def _records(s: Solution, work: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Work and gap of the reports that have one."""
    gaps = np.array([record["gap"] for record in s.history], dtype=np.float64)
    known = np.isfinite(gaps)
    return _steps(s, work)[known], gaps[known]


def _distances(s: Solution, best: float | None) -> NDArray[np.float64]:
    """Relative distances of the objective from the best proven one, or from the run's own last."""
    values = np.array([record["objective"] for record in s.history], dtype=np.float64)
    end = s.objective if best is None else best
    return np.abs(values - end) / max(abs(end), 1e-300)


def _ended(
    s: Solution, work: str, steps: NDArray[np.float64], gaps: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The reports and, at the end, the certificate."""
    total = {
        "passes": s.stats.passes,
        "iterations": s.stats.iterations,
        "seconds": s.stats.solve_time,
    }[work]
    proven = abs(s.certificate.relative_gap)
    if np.isfinite(proven):
        steps = np.append(steps, max(float(total), float(steps.max(initial=0.0))))
        gaps = np.append(gaps, proven)
    if not gaps.size:
        raise ParameterError(
            f"ConvergenceDisplay: {s.stats.solver} reported nothing and proved no gap; take another solver"
        )
    order = np.argsort(steps, kind="stable")
    return steps[order], np.maximum(np.abs(gaps[order]), _FLOOR)
