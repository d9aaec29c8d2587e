"""Solutions of two reduced hulls over an interval of their size, with proofs between the solved values."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.plan import Plan
from ucm.compiler.robust import DistanceLowering
from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import EmptySetError, ParameterError, SolverError, brief
from ucm.evidence.interval import CappedHull, CapSolution, ProvenInterval, proven
from ucm.evidence.parameter_range import size_of
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor, TimeLimit
from ucm.forms.solution import Solution
from ucm.language.contracts import MassConstraint
from ucm.language.robust import RobustMargin
from ucm.language.sets.affine_image import DomainImage
from ucm.language.sets.combination import summands
from ucm.solvers import ActiveSet
from ucm.solvers.distance.active_set import HullChain

__all__ = ["ErrorCurve", "InterpolatedPoint", "IntervalPath", "path_over_interval"]


_EACH = 0.25  # of eps: the relative gap of a solve
_SAFE = 0.7  # of eps: the target of a step
_GROWS, _HALVES = 1.8, 0.5  # the largest growth of a step, and the factor after a refused step
_SAME = 1e-12  # of an interval: samples within it change sides together
_NEAR = 1e-7  # the least relative distance between two values
_ZERO = 1e-10  # of the largest norm: a point this close to 0 counts as 0, whatever eps is
_LEAST = 0.05  # of the distance of the smallest set: the path ends there, before 0 enters


@dataclass(frozen=True)
class InterpolatedPoint:
    """The solution and bounds at one value between solved ones.

    Attributes
    ----------
    value : of the parameter
    w : (n,) of norm 1
    b : the bias, between those of the two neighbours
    x : (n,) a point of U
    objective, bound : `-||x||` and the largest `-w'x` over U: `objective <= optimum <= bound`
    relative_gap : `(bound - objective) / ||x||`
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
    """The error on further samples as a function of a parameter, which is a step function.

    Attributes
    ----------
    name : the parameter
    edges : (k + 1,) values at which the error may change, ascending
    errors : (k,) fractions of errors between two edges
    """

    name: str
    edges: Vec
    errors: Vec

    def at(self, value: Any) -> Any:
        """Return the error at one or several values of the interval."""
        place = np.searchsorted(self.edges, value, side="right") - 1
        return self.errors[np.clip(place, 0, self.errors.size - 1)]

    @property
    def best(self) -> tuple[float, float, float]:
        """The least error, with the ends of the widest interval that has this error."""
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


@dataclass(frozen=True)
class _Knot:
    """A solved value with its c, the weights by hull and the proof."""

    value: float
    c: float
    q: list[Vec]
    ends: CapSolution


class IntervalPath(Sequence[Solution]):
    """The solutions of the solved values, with proofs between neighbours, the smallest set first.

    Attributes
    ----------
    breaks : the solved values
    pieces : the proofs between two neighbours
    eps : the required relative gap
    """

    def __init__(
        self, hulls: _Hulls, breaks: list[_Knot], pieces: list[ProvenInterval], eps: float
    ) -> None:
        self._hulls, self.breaks, self.pieces, self.eps = hulls, breaks, pieces, eps
        self._solutions: dict[int, Solution] = {}

    def __len__(self) -> int:
        return len(self.breaks)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Solution, ...]: ...
    def __getitem__(self, index: int | slice) -> Solution | tuple[Solution, ...]:
        places = range(len(self))[index]
        return (
            self.solution(places) if isinstance(places, int) else tuple(map(self.solution, places))
        )

    def solution(self, k: int) -> Solution:
        """Return the k-th solution, which is certified and recovered at the first access."""
        if k not in self._solutions:
            self._solutions[k] = self._hulls.solution(self.breaks[k], self.eps)
        return self._solutions[k]

    def at(self, value: float) -> InterpolatedPoint:
        """Return the solution and bounds at a value of the interval."""
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ParameterError(
                f"Path.at: expected a number for {self._hulls.name}, got {brief(value)}; write one"
            )
        c = self._hulls.size.derived(float(value))
        known = [each.c for each in self.breaks]
        if not known[0] * (1.0 - 1e-12) <= c <= known[-1] * (1.0 + 1e-12):
            low, high = self.ends
            raise ParameterError(
                f"Path.at: expected {self._hulls.name} from {low:.6g} to {high:.6g}, got {value:.6g}; solve "
                "over a wider interval"
            )
        c = min(max(c, known[0]), known[-1])
        if not self.pieces:
            ends = self.breaks[0].ends
            length, norm = float(np.linalg.norm(ends.w)), float(np.linalg.norm(ends.x))
            least = float(ends.least(self._hulls.members, np.array([c]))[0]) / length
            b = self.solution(0).b
            return InterpolatedPoint(
                value, ends.w / length, b, ends.x, -norm, -least, (norm - least) / norm
            )
        k = min(max(bisect.bisect_left(known, c) - 1, 0), len(self.pieces) - 1)
        piece = self.pieces[k]
        x, w, least = piece.at(c)
        length, norm = float(np.linalg.norm(w)), float(np.linalg.norm(x))
        t = (c - piece.low) / (piece.high - piece.low)
        _, (b1, b2) = self.lines(k)
        b = None if b1 is None or b2 is None else ((1.0 - t) * b1 + t * b2) / length
        return InterpolatedPoint(value, w / length, b, x, -norm, -least, (norm - least) / norm)

    def lines(self, k: int) -> tuple[NDArray[np.float64], tuple[float | None, float | None]]:
        """Return w at both ends of a piece, as long as x, and b in the same scale."""
        w = self.pieces[k].w
        found = []
        for j, v in zip((k, k + 1), w, strict=True):
            b = self.solution(j).b
            found.append(None if b is None else b * float(np.linalg.norm(v)))
        return w, (found[0], found[1])

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value."""
        first, last = self.breaks[0].value, self.breaks[-1].value
        return min(first, last), max(first, last)

    def validation(self, X: Any, y: Vec) -> ErrorCurve:
        """Return the exact error of (w, b) on further samples at every value.

        Between two solved values w, as long as x, and b in its scale are linear in t, so that each sample
        changes sides at most once.
        """
        if not self.pieces:
            only = self.at(self.breaks[0].value)
            wrong = (np.asarray(X @ only.w) + (only.b or 0.0) > 0.0) != (y > 0.0)
            return ErrorCurve(self._hulls.name, np.full(2, only.value), np.array([wrong.mean()]))
        lines = [self.lines(k) for k in range(len(self.pieces))]
        W = np.array([lines[0][0][0], *(w[1] for w, _ in lines)])
        b = np.array([lines[0][1][0], *(ends[1] for _, ends in lines)], dtype=float)
        F = np.asarray(X @ W.T) + b
        edges, errors = [self.breaks[0].c], []
        for k, piece in enumerate(self.pieces):
            one, other = F[:, k], F[:, k + 1]
            moves = np.flatnonzero((one > 0.0) != (other > 0.0))
            t = one[moves] / (one[moves] - other[moves])
            order = np.argsort(t, kind="stable")
            wrong = int(np.count_nonzero((one > 0.0) != (y > 0.0)))
            better = ((other[moves] > 0.0) == (y[moves] > 0.0))[order]
            errors.append(wrong + np.concatenate([[0], np.cumsum(np.where(better, -1, 1))]))
            edges += [*(piece.low + t[order] * (piece.high - piece.low)).tolist(), piece.high]
        values = np.array([float(self._hulls.size.inverse(c)) for c in edges])
        counts = np.concatenate(errors)
        if values[0] > values[-1]:
            values, counts = values[::-1], counts[::-1]
        # samples that change sides together leave steps of no width between them
        wide = np.flatnonzero(np.diff(values) > _SAME * (values[-1] - values[0]))
        edges = np.array([values[0], *values[wide[1:]], values[-1]])
        return ErrorCurve(self._hulls.name, edges, counts[wide] / y.size)


class _Hulls:
    """A model of two reduced hulls whose caps move with one parameter.

    Attributes
    ----------
    model, data, name : what is solved
    size : the c of its caps as a function of the parameter
    members : the hulls, each with its share of c
    maps, places : the map of samples and the factor of every summand; the summand of every hull with its
        entries in it
    """

    def __init__(self, model: Any, data: Data, name: str) -> None:
        def refuse(what: object, why: str = "") -> NoReturn:
            raise ParameterError(
                f'path: {name}="all": expected two reduced hulls whose caps it sets, in the Euclidean norm, '
                f"got {brief(what)}{why and f' ({why})'}; write values, as {name}=[0.2, 0.3]"
            )

        if not isinstance(model, RobustMargin) or model.norm != 2.0:
            refuse(model)
        size = size_of(model, data, name)
        if isinstance(size, str):
            refuse(model.set, size)
        leaves = [
            (U, f)
            for U, f in summands(model.set)
            if isinstance(U, DomainImage) and math.isfinite(f)
        ]
        if len(leaves) < len(list(summands(model.set))):
            refuse(model.set)
        self.model, self.data, self.name, self.size = model, data, name, size
        self.leaves = leaves
        self.roomy = self._roomy()
        caps, mass, sizes = self._caps(self.roomy)
        shares = caps / size.derived(self.roomy)
        other = float(size.inverse(0.5 * size.derived(self.roomy)))
        why = ActiveSet().refuse(self.form(self.roomy))
        if why is not None:
            refuse(model.set, why)
        if not np.allclose(self._caps(other)[0], np.maximum(0.5 * caps, mass / sizes)):
            refuse(model.set, "one of them keeps its cap")
        self.members = [
            CappedHull(int(n), float(m), float(s)) for n, m, s in zip(sizes, mass, shares)
        ]
        self.maps = [(U.image(data)[1], factor) for U, factor in leaves]
        self.places = [(k, g.entries) for k, g in self._groups(self.roomy)]
        self.least = max(h.mass / (h.share * h.size) for h in self.members)
        self.most = max(h.mass / h.share for h in self.members)

    def _roomy(self) -> float:
        """Return a value at which U is not empty."""
        c = 1.0
        for _ in range(200):
            value = float(self.size.inverse(c))
            if self.at(value).set.infeasibility_reason(self.data) is None:
                return value
            c *= 2.0
        raise EmptySetError(f"path: U is empty for every {self.name}; change another parameter")

    def at(self, value: float) -> RobustMargin:
        return self.model.with_params(**{self.name: value})

    def form(self, value: float) -> MinNorm:
        return DistanceLowering(self.at(value), self.data).form

    def _groups(self, value: float) -> list[tuple[int, MassConstraint]]:
        """Return the index of the summand and the mass constraint of every hull."""
        found = []
        for k, (U, _) in enumerate(summands(self.at(value).set)):
            (block, *others) = U.lower(self.data).blocks
            if others or block.groups is None:
                return []
            found += [(k, g) for g in block.groups]
        return found

    def _caps(self, value: float) -> tuple[Vec, Vec, Vec]:
        """Return the caps, the masses and the numbers of samples of the hulls."""
        found = [(g.cap, g.mass, g.size) for _, g in self._groups(value)]
        caps, mass, sizes = np.array(found, dtype=float).reshape(-1, 3).T
        return caps, mass, sizes

    def ends(self, c: float, q: list[Vec], w: Vec) -> CapSolution:
        """Return the proof at one c, computed from the samples of the declared sets and the weights."""
        for h, part in zip(self.members, q, strict=True):
            cap, total = h.share * c, float(part.sum())
            off = max(-float(part.min()), float(part.max()) - cap) / cap
            if not max(off, abs(total - h.mass) / h.mass) <= 1e-9:
                raise SolverError(
                    f"path: weights outside of their domains by {off:.2g} of the cap, mass {total:.17g}, at "
                    f"{self.name}={float(self.size.inverse(c)):.6g}; please report it"
                )
        parts = zip(self.maps, self.blocks(q), strict=True)
        x = sum((factor * A.matvec(v) for (A, factor), v in parts), start=np.zeros(w.size))
        pulls = [factor * A.rmatvec(w) for A, factor in self.maps]
        return CapSolution.of(c, x, w, [pulls[k][entries] for k, entries in self.places])

    def blocks(self, q: list[Vec]) -> list[Vec]:
        """Return the weights of the blocks for the weights of the hulls."""
        if len(self.leaves) == 2:
            return q
        whole = np.empty(sum(part.size for part in q))
        for part, (_, entries) in zip(q, self.places, strict=True):
            whole[entries] = part
        return [whole]

    def solution(self, found: _Knot, tol: float) -> Solution:
        """Return the solution at a solved value, certified and recovered as by `Plan.solve`."""
        lowering = DistanceLowering(self.at(found.value), self.data)
        answer = Answer(self.blocks(found.q), found.ends.w)
        return Plan(lowering, ActiveSet()).certified(answer, tol)


def path_over_interval(
    model: Any, data: Data, name: str, eps: float, between: Sequence[float] | None,
    progress: Callable[[int, Any], object] | None, time_limit: TimeLimit | None,
) -> IntervalPath:  # fmt: skip
    """Solve from the smallest set to the largest, with steps so short that the relative gap between two
    values is proven to be at most `eps`."""
    hulls = _Hulls(model, data, name)
    low, high = hulls.least, hulls.most
    if between is not None:
        low, high = _ends(hulls, between)
    monitor = Monitor(_EACH * eps, time_limit=time_limit, zero_tol=_ZERO)
    chain = HullChain(hulls.form(float(hulls.size.inverse(low))), monitor)

    def known(c: float, w: Vec) -> _Knot | None:
        """Return the knot of a solved c; None if 0 lies in U."""
        if not w.any():
            return None
        q = chain.weights()
        return _Knot(float(hulls.size.inverse(c)), c, q, hulls.ends(c, q, w))

    def solved(c: float) -> _Knot | None:
        return known(c, chain.at([h.share * c for h in hulls.members]))

    with data.overflow_guard():
        current = known(low, chain.first(ActiveSet().coarse))
        if current is None:
            raise ParameterError(_enters(hulls, low))
        size = float(np.linalg.norm(current.ends.x))
        ahead: list[_Knot] = []
        breaks, pieces = [current], []
        over = IntervalPath(hulls, breaks, pieces, eps)
        step = 0.5 * math.sqrt(eps)
        while current.c < high * (1.0 - 1e-12):
            if monitor.timed_out:
                raise SolverError(
                    f"path: the time limit came at {name}={current.value:.6g}; raise time_limit or eps"
                )
            if not ahead:
                c = current.c * (1.0 + step)
                c = high if c > high / (1.0 + 0.3 * step) else c
                found = solved(c)
                if found is None:  # 0 has entered
                    step *= 0.5
                    if step < _NEAR:
                        break
                    continue
                ahead.append(found)
            piece = proven(hulls.members, current.ends, ahead[-1].ends)
            apart = ahead[-1].c / current.c - 1.0
            if piece.gap > eps and apart < _NEAR:
                raise SolverError(
                    f"path: expected a relative gap of {eps:.2g} at {name}={current.value:.6g}, got "
                    f"{piece.gap:.2g} of values that are no longer told apart; raise eps, or center the "
                    "features"
                )
            if piece.gap <= eps:
                step = apart * min(math.sqrt(_SAFE * eps / max(piece.gap, 1e-3 * eps)), _GROWS)
                current = ahead.pop()
                breaks.append(current)
                pieces.append(piece)
                if progress is not None:
                    progress(len(breaks) - 1, over[-1])
                if between is None and np.linalg.norm(current.ends.x) < _LEAST * size:
                    break
                continue
            c = current.c + _HALVES * (ahead[-1].c - current.c)
            found = solved(c)
            if found is None:
                raise ParameterError(_enters(hulls, c))
            ahead.append(found)
    if between is not None and current.c < high * (1.0 - 1e-9):
        raise ParameterError(_enters(hulls, high))
    return over


def _ends(hulls: _Hulls, between: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in between)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(
            f"path: between is a pair of numbers, the smaller first, got {brief(between)}; write "
            "between=(0.2, 0.4)"
        )
    c = sorted(hulls.size.derived(v) if v > 0.0 else math.inf for v in (low, high))
    if not c[0] >= hulls.least * (1.0 - 1e-9):
        end = float(hulls.size.inverse(hulls.least))
        raise ParameterError(
            f"path: between={brief(tuple(between))} leaves the admissible interval of {hulls.name}: U is "
            f"empty beyond {end:.6g}; end there"
        )
    if not math.isfinite(c[1]):
        raise ParameterError(
            f"path: between={brief(tuple(between))}: {hulls.name} is positive; begin above 0"
        )
    return max(c[0], hulls.least), c[1]


def _enters(hulls: _Hulls, c: float) -> str:
    return (
        f"path: at {hulls.name}={float(hulls.size.inverse(c)):.6g} 0 lies in U, which is not admissible; "
        f"ucm.admissible tells where it enters: end before that, or leave `between` out"
    )
