"""Branch and bound for a convex loss with the squared l2 norm of at most k nonzero weights.

The convex envelope of the penalty, the squared k-support norm, makes a convex problem whose Fenchel bound is
one of the global optimum. Parts of the problem, with some features among the k and some left out, have such
envelopes too, and larger bounds. The part with the least bound is divided first.

The squared k-support norm is the least `sum_j w_j^2 / s_j` over shares s of the features, 0 <= s_j <= 1 with
the sum k. If c times it is the only penalty, of one loss, the envelope is the least over s of a convex
function f,

    f(s) = min over w, b of loss + c sum_j w_j^2 / s_j = max over a of h(a) - sum_j s_j z_j(a)^2 / (4 c),

where a are minus the slopes of the losses, h their concave part and z(a) = sum_i a_i y_i x_i. One f(s) is a
problem with the squared l2 norm, of samples scaled by sqrt(s_j), and its a is a cut: a linear lower bound of
f over all shares, of every part. The least shares under the cuts of all parts are a linear program; the a
combined by its multipliers is a dual point of the part, with a bound at least as large.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, option, optional
from ucm.errors import ParameterError
from ucm.forms.monitor import INSIDE, Monitor
from ucm.forms.objective import BestSubset, Composite
from ucm.forms.solver import Answer, Part, Solver, solver_of
from ucm.language.parameter import value
from ucm.language.penalties.cardinality import KSupport
from ucm.solvers.linear_program import LinearProgram
from ucm.solvers.objective.sessions import InnerSession

_INSIDE = optional(solver_of(Composite))
_INNER = 0.1  # tolerance of the convex problems, relative
_ROUNDING = 1e-9  # distance of a share from 0 and 1 that counts as 0
_WHOLE = Part()  # of the problem
_AHEAD = 0.3  # of the way to the least shares under the cuts, where the next cut is made
_CUTS = 40  # of one part
_STEEPEST = 1e6  # fall of a cut, in units: with a larger one it is far below all others at any share
_OUT, _IN = 2, 3  # how many features of a support leave it for how many others, one for one


class _Node(NamedTuple):
    """A part of the problem with a bound, its dual point, and the relaxed w; ordered by the bound."""

    bound: float
    number: int
    part: Part
    slopes: Vec
    answer: Answer


@dataclass(frozen=True)
class BranchAndBound(Solver[BestSubset]):
    """Minimise over the w with at most k nonzero entries, with a bound of the global optimum.

    Upper bounds are the optima over supports: of the largest shares of every relaxed w, improved by swaps of
    single features.

    Parameters
    ----------
    inner
        The solver of the convex problems; None: chosen by the structure.
    max_parts
        Limit of parts that are divided.
    fallback
        The solver that continues the convex problems where `inner` ends without proof; None: none does.

    Notes
    -----
    Bertsimas, Pauphilet and Van Parys (2021) for the envelope and the cuts; Hazimeh, Mazumder and Saab
    (2022), Sparse regression at scale: branch-and-bound rooted in first-order optimization; the swaps are
    those of Dedieu, Hazimeh and Mazumder (2021).
    """

    inner: Solver[Composite] | None = option(_INSIDE, None)
    max_parts: int = option(COUNT, 2000)
    fallback: Solver[Composite] | None = option(_INSIDE, None)
    name: ClassVar[str] = "branch-and-bound"

    @property
    def inner_solvers(self) -> tuple[Solver, ...]:
        return tuple(solver for solver in (self.inner, self.fallback) if solver is not None)

    def refuse(self, form: BestSubset) -> str | None:
        return None if self.inner is None else self.inner.refuse(form.G)

    def solve(self, form: BestSubset, monitor: Monitor, start: Answer | None = None) -> Answer:
        if self.inner is None:
            raise ParameterError(
                "BranchAndBound: expected a solver of the convex problems to solve with, got inner=None; "
                "give one, or let ucm.compile choose it"
            )
        cuts = form.G.penalty.square is not None
        problems = (_Cuts if cuts else _Envelopes)(form, self.inner, self.fallback, monitor)
        return _Search(form, problems, monitor).run(start, monitor.limit(self.max_parts))


@dataclass
class _Envelopes:
    """The problems of supports and parts with the convex envelope, each solved by itself."""

    form: BestSubset
    solver: Solver[Composite]
    fallback: Solver[Composite] | None
    monitor: Monitor

    @property
    def tol(self) -> float:
        """The tolerance of the convex problems."""
        return _INNER * self.monitor.tol

    @functools.cached_property
    def session(self) -> InnerSession:
        return InnerSession(self.solver, self.fallback, self.form.G, self.monitor)

    def optimum(self, S: frozenset[int], start: Answer) -> Answer:
        """Return the optimum over the w with a support in S."""
        G = self.form.node(Part(included=tuple(sorted(S - set(self.form.support.included)))))
        w, b = start.plane
        answer = self.session.solve(G, self.tol, Answer(w=G.penalty.project_domain(w), b=b))
        return replace(answer, w=G.penalty.project_domain(answer.plane[0]))

    def bound(self, node: _Node, most: float, enough: Callable[[float], bool]) -> _Node:
        """Return a part with a larger bound, and with the w of its envelope."""
        answer = self.session.solve(self.form.node(node.part), self.tol, node.answer)
        return self.better(node, answer, answer.slopes)

    def better(self, node: _Node, answer: Answer, slopes: Vec | None) -> _Node:
        """Return a part with another w, and with a dual point if that has a larger bound."""
        if slopes is None:
            return node._replace(answer=answer)
        G, (w, b) = self.form.node(node.part), answer.plane
        found, missed = G.lower_bound(slopes, G.margins(w, b), w)
        if not (missed <= INSIDE and found > node.bound):
            return node._replace(answer=answer)
        return node._replace(bound=found, slopes=slopes, answer=answer)


@dataclass
class _Cuts(_Envelopes):
    """The problems of supports and parts with the squared l2 norm: cuts, and linear programs over shares.

    program : over the shares and a height above all cuts, in units of the loss at w = 0
    cuts : the dual points of the cuts
    """

    def __post_init__(self) -> None:
        self.program, self.cuts = LinearProgram(presolve="off"), list[Vec]()
        G, n = self.form.G, self.form.G.n
        self.unit = G.loss(G.margins(np.zeros(n), 0.0)) or 1.0
        self.program.columns(n, 0.0, 1.0)
        self.program.columns(1, -np.inf, np.inf, 1.0)
        self.program.rows([(np.arange(n), np.ones((1, n)))], -np.inf, np.array([value(self.form.support.k)]))

    def optimum(self, S: frozenset[int], start: Answer) -> Answer:
        s = np.zeros(self.form.G.n)
        s[list(S)] = 1.0
        return self._at(s)[0]

    def bound(self, node: _Node, most: float, enough: Callable[[float], bool]) -> _Node:
        support = self.form.support.confined(*node.part)
        s = support.shares(np.abs(node.answer.plane[0]))[0]
        free = support.free(s.size)
        s[free] *= min(1.0, support.left / (float(s[free].sum()) or 1.0))  # it has them all if few are used
        height, best, answer, weights = np.inf, s, node.answer, np.zeros(0)
        for _ in range(_CUTS):
            under = self._least(support) if self.cuts else None
            if under is not None:
                least, weights, lowest = under
                lost = np.isfinite(most) and not enough(height)  # it will be divided
                solved = height - lowest <= self.tol * abs(lowest)
                if enough(lowest) or lost or solved or self.monitor.timed_out:
                    break
                whole = np.minimum(least, 1.0 - least).max() <= _ROUNDING
                s = least if whole else best + _AHEAD * (least - best)
            w, found = self._at(s)
            if found < height:
                height, best, answer = found, s, w
            if not self.cuts:  # the same shares would be next
                break
        used = np.flatnonzero(weights)
        if used.size:
            node = self.better(node, answer, weights[used] @ np.stack([self.cuts[k] for k in used]))
        if not enough(node.bound):  # the program rounds
            answer = answer if height < np.inf else self._at(s)[0]
            node = self.better(node, answer, answer.slopes)
        return node

    def _at(self, s: Vec) -> tuple[Answer, float]:
        """Return the w of the least f(s), and f(s); add its cut."""
        G, used = self.form.G, np.flatnonzero(s > _ROUNDING)
        used = used if used.size else np.zeros(1, dtype=np.intp)  # one feature, times 0
        root, w = np.sqrt(np.maximum(s[used], 0.0)), np.zeros(G.n)
        part = G.X[:, used]
        X = part * root if isinstance(part, np.ndarray) else part.multiply(root).tocsr()
        scaled = replace(G, X=X, stored=G.unit_entries)
        answer = InnerSession(self.solver, self.fallback, scaled, self.monitor).solve(scaled, self.tol)
        v, b = answer.plane
        w[used] = root * v
        margin = scaled.margins(v, b)
        if answer.slopes is not None:
            falls = np.square(G.adjoint(answer.slopes)) / (4.0 * G.norms[1])
            bound, _ = scaled.lower_bound(answer.slopes, margin, v)
            self._cut(answer.slopes, bound + float(s[used] @ falls[used]), falls)
        return replace(answer, w=w), scaled.value(margin, v)

    def _cut(self, slopes: Vec, height: float, falls: Vec) -> None:
        """Add the cut `height - falls's` of a dual point to the program."""
        at, falls = np.arange(falls.size + 1), np.minimum(falls / self.unit, _STEEPEST)
        height = min(height / self.unit, _STEEPEST)
        self.program.rows([(at, np.append(falls, 1.0)[None])], height, np.array([np.inf]))
        self.cuts.append(slopes)

    def _least(self, support: KSupport) -> tuple[Vec, Vec, float] | None:
        """Return the least shares under the cuts, the multipliers of the cuts, of sum 1, and the height."""
        n = self.form.G.n
        lower, upper = np.zeros(n), np.ones(n)
        lower[list(support.included)], upper[list(support.excluded)] = 1.0, 0.0
        self.program.bounds(lower, upper)
        vertex = self.program.solve()
        if vertex.status != "optimal":
            return None
        weights = np.maximum(vertex.dual[1:], 0.0)
        return vertex.x[:n], weights / weights.sum(), float(vertex.x[n]) * self.unit


class _Search:
    """The parts that are open and closed, and the best w so far.

    open : a heap of parts to divide, each with the feature to divide it by
    closed : parts that hold nothing better, or that cannot be divided
    best, value : the best answer and its objective
    chosen, tried : the support of the best w, and all supports whose optimum is known
    """

    def __init__(self, form: BestSubset, problems: _Envelopes, monitor: Monitor) -> None:
        self.form, self.problems, self.monitor = form, problems, monitor
        self.open: list[tuple[_Node, int]] = []
        self.closed: list[_Node] = []
        self.best, self.value = Answer(w=np.zeros(form.G.n), b=0.0), np.inf
        self.tried: set[frozenset[int]] = set()
        self.chosen: frozenset[int] = frozenset()
        self.count = 0

    def run(self, start: Answer | None, limit: int) -> Answer:
        """Divide parts until the gap, the limit or the monitor ends the search; return the best answer."""
        if start is not None:
            self._improve(start)
        status, message = "converged", ""
        zero = start or self.best
        self._add(_Node(-np.inf, 0, _WHOLE, np.zeros(self.form.G.m), zero))
        for iteration in range(1, limit + 2):
            bound, proven = self.bound, self._enough(self.bound)
            gap = (self.value - bound) / max(abs(self.value), 1e-300)
            if self.monitor.report(iteration, self.value, gap):
                status = "interrupted"
                break
            if proven or not self.open:
                break
            if iteration > limit:
                status, message = "max_iter", f"{limit} parts of the problem were divided; raise max_iter"
                break
            node, j = heapq.heappop(self.open)
            included, excluded = node.part
            for part in (Part((*included, j), excluded), Part(included, (*excluded, j))):
                self._add(
                    self.problems.better(node._replace(bound=-np.inf, part=part), node.answer, node.slopes)
                )
        ended = self.best.ended(status, message)
        ended.parts = [(node.part, node.slopes) for node in self._parts()]
        return ended

    @property
    def bound(self) -> float:
        """The least bound of all parts, a bound of the optimum."""
        return min(node.bound for node in self._parts())

    def _parts(self) -> list[_Node]:
        return [*self.closed, *(node for node, _ in self.open)]

    def _enough(self, bound: float) -> bool:
        """Return True if a bound proves the best w."""
        return (
            self.monitor.reached((self.value - bound) / max(abs(self.value), 1e-300)) or bound >= self.value
        )

    def _add(self, node: _Node) -> None:
        """Bound a part, unless its bound is enough already, and look for a better w."""
        if not self._enough(node.bound) and not self.monitor.timed_out:
            node = self.problems.bound(node, self.value, self._enough)
            self._improve(node.answer, node.part)
        self.count += 1
        node = node._replace(number=self.count)
        j = None if self._enough(node.bound) else self._divisor(node)
        if j is None:
            self.closed.append(node)
        else:
            heapq.heappush(self.open, (node, j))

    def _divisor(self, node: _Node) -> int | None:
        """Return the feature with the share nearest to 1/2; None if the features of the part are known."""
        support, w = self.form.support.confined(*node.part), node.answer.plane[0]
        free = support.free(w.size)
        if not support.left or free.size <= support.left:
            return None
        s = support.shares(np.abs(w))[0][free]
        inside = np.minimum(s, 1.0 - s)
        return int(free[np.lexsort((-np.abs(w[free]), -np.round(inside, 9)))[0]])

    # --- upper bounds ------------------------------------------------------------------------------
    def _improve(self, answer: Answer, part: Part = _WHOLE) -> None:
        """Try the support of the largest shares of a w, then swaps from the best support."""
        support, w = self.form.support.confined(*part), np.abs(answer.plane[0])
        free = support.free(w.size)
        order = np.lexsort((-w[free], -support.shares(w)[0][free]))
        chosen = frozenset((*support.included, *free[order[: support.left]].tolist()))
        if self._try(chosen, answer):
            while not self.monitor.timed_out and any(self._try(S, self.best) for S in self._swaps()):
                pass

    def _swaps(self) -> Iterator[frozenset[int]]:
        """Yield supports with one feature of the best one changed: a small weight for a steep slope."""
        G, own = self.form.G, self.form.support
        w, S = np.abs(self.best.plane[0]), self.chosen
        slopes = self.best.slopes
        if slopes is None:
            return
        z = np.abs(G.adjoint(slopes))
        leaving = sorted(S - set(own.included), key=lambda j: w[j])[:_OUT]
        entering = sorted(set(own.free(G.n).tolist()) - S, key=lambda j: -z[j])[:_IN]
        for i in leaving:
            for j in entering:
                yield S - {i} | {j}

    def _try(self, S: frozenset[int], start: Answer) -> bool:
        """Return True if the optimum over a support, which is then the best, is lower than the best."""
        if S in self.tried:
            return False
        self.tried.add(S)
        answer = self.problems.optimum(S, start)
        w, b = answer.plane
        value = self.form.G.value(self.form.G.margins(w, b), w)
        if not value < self.value:
            return False
        self.best, self.value, self.chosen = answer, value, S
        return True
