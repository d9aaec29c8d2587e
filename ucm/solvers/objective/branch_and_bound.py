"""Branch and bound for a convex loss with the squared l2 norm of at most k nonzero weights.

The convex envelope of the penalty, the squared k-support norm, makes a convex problem whose Fenchel bound is
one of the global optimum. Parts of the problem, with some features among the k and some left out, have such
envelopes too, and larger bounds. The part with the least bound is divided first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.errors import ParameterError
from ucm.forms.monitor import INSIDE, Monitor
from ucm.forms.objective import BestSubset, Composite
from ucm.forms.solver import Answer, Part, Solver, solver_of
from ucm.solvers.objective.sessions import InnerSession

_INSIDE = optional(solver_of(Composite))
_INNER = 0.1  # tolerance of the convex problems, relative
_ROUNDING = 1e-9  # distance of a share from 0 and 1 that counts as 0
_WHOLE = Part()  # of the problem
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
    Bertsimas, Pauphilet and Van Parys (2021) for the envelope; Hazimeh, Mazumder and Saab (2022), Sparse
    regression at scale: branch-and-bound rooted in first-order optimization; the swaps are those of Dedieu,
    Hazimeh and Mazumder (2021).
    """

    inner: Solver[Composite] | None = None
    max_parts: int = 2000
    fallback: Solver[Composite] | None = None
    name: ClassVar[str] = "branch-and-bound"

    def __post_init__(self) -> None:
        check_fields(self, inner=_INSIDE, max_parts=COUNT, fallback=_INSIDE)

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
        search = _Search(form, InnerSession(self.inner, self.fallback, form.G, monitor), monitor)
        return search.run(start, monitor.limit(self.max_parts))


class _Search:
    """The parts that are open and closed, and the best w so far.

    open : a heap of parts to divide, each with the feature to divide it by
    closed : parts that hold nothing better, or that cannot be divided
    best, value : the best answer and its objective
    chosen, tried : the support of the best w, and all supports whose optimum is known
    """

    def __init__(self, form: BestSubset, session: InnerSession, monitor: Monitor) -> None:
        self.form, self.session, self.monitor = form, session, monitor
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
        self._add(_WHOLE, start, None)
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
                self._add(part, node.answer, node)
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

    def _add(self, part: Part, start: Answer | None, above: _Node | None) -> None:
        """Bound a part, by the dual point of the part above if that is enough, and look for a better w."""
        G, answer = self.form.node(part), start or self.best
        bound, slopes = -np.inf, np.zeros(self.form.G.m)
        if above is not None:
            bound, slopes = self._bound_of(G, above.answer, above.slopes), above.slopes
        if not self._enough(bound) and not self.monitor.timed_out:
            answer = self.session.solve(G, _INNER * self.monitor.tol, start)
            if answer.slopes is not None:
                found = self._bound_of(G, answer, answer.slopes)
                bound, slopes = (found, answer.slopes) if found > bound else (bound, slopes)
            self._improve(answer, part)
        self.count += 1
        node = _Node(bound, self.count, part, slopes, answer)
        j = None if self._enough(node.bound) else self._divisor(node)
        if j is None:
            self.closed.append(node)
        else:
            heapq.heappush(self.open, (node, j))

    def _bound_of(self, G: Composite, answer: Answer, slopes: Vec) -> float:
        w, b = answer.plane
        bound, missed = G.lower_bound(slopes, G.margins(w, b), w)
        return bound if missed <= INSIDE else -np.inf

    def _divisor(self, node: _Node) -> int | None:
        """Return the feature with the share nearest to 1/2; None if w has at most k nonzero weights."""
        support, w = self.form.support.confined(*node.part), node.answer.plane[0]
        free = support.free(w.size)
        if not support.left or free.size <= support.left:
            return None
        s = support.shares(np.abs(w))[0][free]
        inside = np.minimum(s, 1.0 - s)
        if inside.max() <= _ROUNDING:
            return None
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
        G = self.form.node(Part(included=tuple(sorted(S - set(self.form.support.included)))))
        w, b = start.plane
        answer = self.session.solve(G, _INNER * self.monitor.tol, Answer(w=G.penalty.project_domain(w), b=b))
        w = G.penalty.project_domain(answer.plane[0])
        value = G.value(G.margins(w, answer.plane[1]), w)
        if not value < self.value:
            return False
        answer.w = w
        self.best, self.value, self.chosen = answer, value, S
        return True
