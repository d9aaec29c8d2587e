"""Paths of two reduced hulls over an interval of their cap parameter, with proofs between solved values."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from ucm.compiler.grid import numbers_in
from ucm.compiler.plan import Plan
from ucm.compiler.robust import DistanceLowering
from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.first_pass import refuse_gathering
from ucm.data.linear_map import Matrix, Vec
from ucm.data.readers import open_rows
from ucm.data.weights import SAMPLE_OPTIONS
from ucm.errors import ParameterError, SolverError, brief
from ucm.evidence.cap_path import CappedHull, CapSolution, interpolated, largest_gap
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor, TimeLimit
from ucm.forms.solution import Solution
from ucm.forms.solver import Answer
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.ranges.parameter_range import size_of, smallest_feasible
from ucm.solvers import ActiveSet

_EACH = 0.25  # of eps: the relative gap of a solve
_SAFE = 0.7  # of eps: the target of a step
_GROWS, _HALVES = 1.8, 0.5  # the largest growth of a step, and the factor after a refused step
_SAME = 1e-12  # of an interval: samples within it change sides together
_NEAR = 1e-7  # the least relative distance between two values
_OUTSIDE = 1e-9  # relative violation of weights
_ZERO = 1e-10  # of the largest norm: a point this close to 0 counts as 0, whatever eps is
_ENTERED = 1e-5  # of the same distance: values that rounding no longer separates are those where 0 enters
_LEAST = 0.05  # of the distance of the smallest set: the path ends there, before 0 enters


@dataclass(frozen=True)
class InterpolatedPoint:
    """The interpolated w of norm 1 and bias, point x of U and bounds at a value between two solved values.

    `objective <= optimum <= bound`: `-||x||`, and the largest `-w'x` over U; `relative_gap` is their
    difference over `||x||`.
    """

    value: float
    w: Vec
    b: float | None
    x: Vec
    objective: float
    bound: float
    relative_gap: float


@dataclass(frozen=True)
class ErrorCurve:
    """The fraction of errors on further samples, as a step function of the parameter `name`.

    Attributes
    ----------
    edges : (k + 1,) values at which the error may change, ascending
    errors : (k,) fractions of errors between two edges
    """

    name: str
    edges: Vec
    errors: Vec

    def at(self, value: ArrayLike) -> Vec:
        """Return the fraction of errors at a parameter value, or at each value of an array."""
        place = np.searchsorted(self.edges, value, side="right") - 1
        return self.errors[np.clip(place, 0, self.errors.size - 1)]

    @property
    def best(self) -> tuple[float, float, float]:
        """The least fraction of errors, and both ends of the widest interval with this fraction."""
        least = float(self.errors.min())
        inside = np.concatenate([[False], self.errors == least, [False]])
        first, last = self.edges[np.flatnonzero(np.diff(inside))].reshape(-1, 2).T
        widest = np.flatnonzero(last - first == (last - first).max())[-1]
        return least, float(first[widest]), float(last[widest])

    def __repr__(self) -> str:
        least, low, high = self.best
        return (
            f"ErrorCurve({self.name} from {self.edges[0]:.6g} to {self.edges[-1]:.6g}, {self.errors.size} "
            f"steps, least {least:.4g} from {low:.6g} to {high:.6g})"
        )


class IntervalPath(Sequence[Solution]):
    """The solutions at the solved parameter values, the smallest set first, with gap bounds in between.

    Attributes
    ----------
    breaks : the solved values
    gaps : between two neighbours, the bound of the relative gap
    eps : the required relative gap
    """

    def __init__(self, hulls: _MovingCaps, first: CapSolution, eps: float) -> None:
        self._hulls, self.breaks, self.eps = hulls, [first], eps
        self.gaps: list[float] = []
        self._solutions: dict[int, Solution] = {}

    def __len__(self) -> int:
        return len(self.breaks)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Solution, ...]: ...
    def __getitem__(self, index: int | slice) -> Solution | tuple[Solution, ...]:
        places = range(len(self))[index]
        return self.solution(places) if isinstance(places, int) else tuple(map(self.solution, places))

    def solution(self, k: int) -> Solution:
        """Return the k-th solution, certified and recovered at the first access."""
        if k not in self._solutions:
            self._solutions[k] = self._hulls.solution(self.breaks[k], self.eps)
        return self._solutions[k]

    @property
    def values(self) -> Vec:
        """The solved parameter values, the smallest set first."""
        return np.array([self._hulls.value(each.c) for each in self.breaks])

    def at(self, value: float) -> InterpolatedPoint:
        """Return the interpolated solution and its bounds at a parameter value of the interval."""
        hulls = self._hulls
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ParameterError(
                f"Path.at: expected a number for {hulls.name}, got {brief(value)}; write one"
            )
        c = hulls.size.derived(float(value))
        caps = [each.c for each in self.breaks]
        if not caps[0] * (1.0 - 1e-12) <= c <= caps[-1] * (1.0 + 1e-12):
            low, high = sorted((self.values[0], self.values[-1]))
            raise ParameterError(
                f"Path.at: expected {hulls.name} from {low:.6g} to {high:.6g}, got {value:.6g}; solve "
                "over a wider interval"
            )
        c = min(max(c, caps[0]), caps[-1])
        k = min(max(bisect.bisect_left(caps, c) - 1, 0), max(len(caps) - 2, 0))
        last = min(k + 1, len(caps) - 1)
        t, x, w, least = interpolated(hulls.members, self.breaks[k], self.breaks[last], c)
        norm, length = float(np.linalg.norm(x)), float(np.linalg.norm(w))
        b1, b2 = self._bias(k), self._bias(last)
        b = None if b1 is None or b2 is None else ((1.0 - t) * b1 + t * b2) / length
        return InterpolatedPoint(value, w / length, b, x, -norm, -least, (norm - least) / norm)

    def _bias(self, k: int) -> float | None:
        """Return the bias of the k-th solved value in the scale of its unnormalised w, if any."""
        b = self.solution(k).b
        return None if b is None else b * float(np.linalg.norm(self.breaks[k].w))

    def validation(self, X: Matrix, y: Vec) -> ErrorCurve:
        """Return the exact error curve of the interpolated (w, b) on further samples.

        Between two solved values w, as long as x, and b in its scale are linear in t, so that each sample
        changes sides at most once.
        """
        W = np.array([each.w for each in self.breaks])
        F = np.asarray(X @ W.T) + np.array([self._bias(k) for k in range(len(self))], dtype=float)
        label, side = y > 0.0, F > 0.0
        if len(self) == 1:
            wrong = np.array([np.mean(side[:, 0] != label)])
            return ErrorCurve(self._hulls.name, np.repeat(self.values, 2), wrong)
        edges, errors = [self.breaks[0].c], []
        for k, (first, last) in enumerate(itertools.pairwise(self.breaks)):
            moves = np.flatnonzero(side[:, k] != side[:, k + 1])
            t = F[moves, k] / (F[moves, k] - F[moves, k + 1])
            order = np.argsort(t, kind="stable")
            better = (side[moves, k + 1] == label[moves])[order]
            wrong = int(np.count_nonzero(side[:, k] != label))
            errors.append(wrong + np.concatenate([[0], np.cumsum(np.where(better, -1, 1))]))
            edges += [*(first.c + t[order] * (last.c - first.c)).tolist(), last.c]
        values = np.array([self._hulls.value(c) for c in edges])
        counts = np.concatenate(errors)
        if values[0] > values[-1]:
            values, counts = values[::-1], counts[::-1]
        # samples that change sides together leave steps of no width between them
        wide = np.flatnonzero(np.diff(values) > _SAME * (values[-1] - values[0]))
        steps = np.array([values[0], *values[wide[1:]], values[-1]])
        return ErrorCurve(self._hulls.name, steps, counts[wide] / y.size)


class _MovingCaps:
    """A model of two reduced hulls whose caps depend on one parameter.

    Attributes
    ----------
    model, data, name : the model, the samples and the parameter
    size : the c of its caps as a function of the parameter
    form : the problem at the least c
    members : the hulls, each with its share of c
    least, most : the c of the smallest set, and of the whole hulls
    """

    def __init__(self, model: RobustMargin | Objective, data: Data, name: str) -> None:
        def refuse(model: object, why: str = "") -> NoReturn:
            raise ParameterError(
                f'path: {name}="all": expected two reduced hulls whose caps it sets, in the Euclidean norm, '
                f"got {brief(model)}{why and f' ({why})'}; write values, as {name}=[0.2, 0.3]"
            )

        if not isinstance(model, RobustMargin) or model.norm != 2.0:
            refuse(model)
        size = size_of(model, data, name)
        if isinstance(size, str):
            refuse(model.set, size)
        self.model, self.data, self.name, self.size = model, data, name, size
        self.least = smallest_feasible(lambda c: self.at(c), data, 1.0, name)
        self.form = self.form_at(self.least)
        why = ActiveSet().refuse(self.form)
        if why is not None or self.form.center.any():
            refuse(model.set, why or "it has a point as a summand")
        one, two = (
            [g for b in self.form_at(c).blocks for g in b.groups or ()]
            for c in (2.0 * self.least, 4.0 * self.least)
        )
        if not np.allclose([2.0 * g.cap for g in one], [g.cap for g in two]):
            refuse(model.set, "one of them keeps its cap")
        self.members = [CappedHull(g.size, g.mass, 0.5 * g.cap / self.least) for g in one]
        self.most = max(h.total / h.factor for h in self.members)

    def value(self, c: float) -> float:
        """Return the parameter value for a cap factor c."""
        return float(self.size.inverse(c))

    def at(self, c: float) -> RobustMargin:
        return self.model.with_params(**{self.name: self.value(c)})

    def form_at(self, c: float) -> MinNorm:
        return DistanceLowering(self.at(c), self.data).form

    def solved(self, c: float, q: list[Vec], w: Vec) -> CapSolution:
        """Check the weights q of the blocks at the cap factor c; return these with w, x and the scores."""
        groups = [(k, g.entries) for k, b in enumerate(self.form.blocks) for g in b.groups or ()]
        for h, (k, entries) in zip(self.members, groups, strict=True):
            cap, part = h.factor * c, q[k][entries]
            off = max(-float(part.min()), float(part.max()) - cap) / cap
            if not max(off, abs(float(part.sum()) - h.total) / h.total) <= _OUTSIDE:
                raise SolverError(
                    f"path: weights outside of their domains by {off:.2g} of the cap, mass "
                    f"{float(part.sum()):.17g}, at {self.name}={self.value(c):.6g}; please report it"
                )
        pulls = self.form.rmatvec(w)
        return CapSolution.of(c, q, self.form.matvec(q), w, [pulls[k][entries] for k, entries in groups])

    def solution(self, point: CapSolution, tol: float) -> Solution:
        """Return a `CapSolution` as a `Solution`, certified and recovered as by `Plan.solve`."""
        lowering = DistanceLowering(self.at(point.c), self.data)
        proof = lowering.certify(Answer(point.q, point.w), tol)
        return Plan(lowering, ActiveSet()).proven(proof, Monitor(tol))


def path_over_interval(
    model: RobustMargin | Objective, X: object, y: object, name: str, options: dict, eps: float | None,
    between: Sequence[float] | None, progress: Callable[[int, Solution], object] | None,
    time_limit: TimeLimit | None,
) -> tuple[Data, IntervalPath]:  # fmt: skip
    """Solve two reduced hulls over an interval, with a relative gap of at most `eps` at every value."""
    if is_stored(X):
        refuse_gathering(open_rows(X, y), f'path with {name}="all"')
    eps = 1e-3 if eps is None else eps
    if not isinstance(eps, float | np.floating) or not 0.0 < eps < 1.0:
        raise ParameterError(f"path: eps lies in (0, 1), got {brief(eps)}; write eps=1e-3")
    unused = [word for word in options if word not in (name, *SAMPLE_OPTIONS)]
    if unused:
        raise ParameterError(
            f'path: {name}="all" solves to eps, in the features, along its own way; got {", ".join(unused)}; '
            "leave it out, or write values"
        )
    if model.relative_names():
        raise ParameterError(
            f'path: {name}="all" is of numbers, got the relative {model.relative_names()[0]}; take a Param '
            "that is not"
        )
    data = bind(X, y, *(options.get(word) for word in SAMPLE_OPTIONS))
    hulls = _MovingCaps(model, data, name)
    low, high = hulls.least, hulls.most
    if between is not None:
        low, high = _ends(hulls, between)
    monitor = Monitor(_EACH * eps, time_limit=time_limit, zero_tol=_ZERO)
    start: Answer | None = None

    def solved(c: float) -> CapSolution | None:
        """Return the solution at c, from the one before; None if 0 lies in U."""
        nonlocal start
        form, part = hulls.form_at(c), monitor.child(monitor.tol, zero_tol=_ZERO)
        answer = start = ActiveSet().solve(form, part, start)
        monitor.count_work(part)
        length = float(np.linalg.norm(form.matvec(answer.q)))
        if answer.w is None or length <= _ZERO * form.size(answer.q):
            return None
        return hulls.solved(c, answer.q, length * answer.w)

    with data.overflow_guard():
        current = solved(low)
        if current is None:
            raise ParameterError(_enters(hulls, low))
        size = float(np.linalg.norm(current.x))
        ahead: list[CapSolution] = []
        over = IntervalPath(hulls, current, eps)
        step = 0.5 * math.sqrt(eps)
        while current.c < high * (1.0 - 1e-12):
            value = hulls.value(current.c)
            if monitor.timed_out:
                raise SolverError(f"path: the time limit came at {name}={value:.6g}; raise time_limit or eps")
            if not ahead:
                c = current.c * (1.0 + step)
                c = high if c > high / (1.0 + 0.3 * step) else c
                solution = solved(c)
                if solution is None:  # 0 has entered
                    step *= 0.5
                    if step < _NEAR:
                        break
                    continue
                ahead.append(solution)
            gap = largest_gap(hulls.members, current, ahead[-1])
            apart = ahead[-1].c / current.c - 1.0
            if gap > eps and apart < _NEAR:
                if np.linalg.norm(current.x) < _ENTERED * size:
                    raise ParameterError(_enters(hulls, ahead[-1].c))
                raise SolverError(
                    f"path: expected a relative gap of {eps:.2g} at {name}={value:.6g}, got "
                    f"{gap:.2g} of values that rounding no longer separates; raise eps, or center the "
                    "features"
                )
            if gap <= eps:
                step = apart * min(math.sqrt(_SAFE * eps / max(gap, 1e-3 * eps)), _GROWS)
                current = ahead.pop()
                over.breaks.append(current)
                over.gaps.append(gap)
                if progress is not None:
                    progress(len(over) - 1, over[-1])
                if between is None and np.linalg.norm(current.x) < _LEAST * size:
                    break
                continue
            c = current.c + _HALVES * (ahead[-1].c - current.c)
            solution = solved(c)
            if solution is None:
                raise ParameterError(_enters(hulls, c))
            ahead.append(solution)
    if between is not None and current.c < high * (1.0 - 1e-9):
        raise ParameterError(_enters(hulls, high))
    return data, over


def _ends(hulls: _MovingCaps, between: Sequence[float]) -> tuple[float, float]:
    ends = numbers_in(between)
    low, high = ends if len(ends) == 2 else (math.nan, math.nan)
    if not 0.0 < low < high < math.inf:
        raise ParameterError(
            f"path: between is a pair of positive numbers, the smaller first, got {brief(between)}; write "
            "between=(0.2, 0.4)"
        )
    c = sorted(hulls.size.derived(v) for v in (low, high))
    if not c[0] >= hulls.least * (1.0 - 1e-9):
        end = hulls.value(hulls.least)
        raise ParameterError(
            f"path: between={brief(tuple(between))} leaves the admissible interval of {hulls.name}: U is "
            f"empty beyond {end:.6g}; end there"
        )
    return max(c[0], hulls.least), c[1]


def _enters(hulls: _MovingCaps, c: float) -> str:
    return (
        f"path: at {hulls.name}={hulls.value(c):.6g} 0 lies in U, which is not admissible; "
        f"ucm.admissible tells where it enters: end before that, or leave `between` out"
    )
