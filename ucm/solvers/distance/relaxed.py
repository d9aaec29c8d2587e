"""Intersections that may not cut: the nearest point without them, and weights that show it to lie in them.

Of `A & B` the point nearest to 0 in A is the one wanted if it lies in B, as it does for coherent models at
moderate sizes. With `x = c + sum_k A_k q_k` found over A, B holds x where parameters p_k in D_k meet the
coupling, `sum_k B_k p_k = x`. Those nearest to the centres r_k of the domains are `p_k = P_k(r_k + B_k'mu)`,
mu the minimiser of

    psi(mu) = sum_k max over p in D_k of { <B_k'mu, p> - ||p - r_k||^2 / 2 } - <x, mu>,

by semismooth Newton steps. `<x, mu> > sum_k sigma_{D_k}(B_k'mu)` shows that x does not lie in B.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import ComposedMap, MatrixMap, ZeroMap, scaled
from ucm.data.options import check_fields
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver, solvers_of
from ucm.language.contracts import Block, Coupling, SemiSmooth
from ucm.numerics.steps import MOST, line_search
from ucm.solvers.curvature import Formed
from ucm.solvers.distance.basis import coordinates, factoring
from ucm.solvers.threads import blas_threads

__all__ = ["Relaxed"]

_MET = 1e-11  # of the point: the rounding of a sum over many samples


@dataclass(frozen=True)
class Relaxed(Solver[MinNorm]):
    """The nearest point of the left operands of all intersections, or of the right ones, if it lies in both.

    Parameters
    ----------
    inner
        What finds such a point: the first that takes the form.
    rest
        What solves the whole where neither lies in both: the first that takes it.
    """

    inner: tuple[Solver[MinNorm], ...]
    rest: tuple[Solver[MinNorm], ...]
    name: ClassVar[str] = "relaxed"

    def __post_init__(self) -> None:
        check_fields(self, inner=solvers_of(MinNorm), rest=solvers_of(MinNorm))

    def refuse(self, form: MinNorm) -> str | None:
        if not form.couplings:
            return "there is no intersection"
        if _first(self.rest, form) is None:
            return "no solver of the whole takes the form"
        if next(self.halves(form), None) is None:
            return "neither side of the intersections has a fast solver, or an operand is in two of them"
        return None

    def halves(self, form: MinNorm) -> Iterator[Half]:
        """The forms over the left and over the right operands, those that a solver takes."""
        left = _left(form)
        for half in (left, _right(form, left)):
            if half is not None and _first(self.inner, half.form) is not None:
                yield half

    def predicted_passes(self, form: MinNorm) -> float:
        return 20.0

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        nearest = 0.0  # no point of both operands is nearer
        for half in self.halves(form):
            inner = monitor.below(monitor.tol, monitor.max_iter, monitor.least)
            inner.callback = functools.partial(_nearer, (1.0 - monitor.tol) * nearest)
            answer, size = self._of_half(form, half, inner)
            monitor.passes += inner.passes
            monitor.systems += inner.systems
            monitor.forming += inner.forming
            if answer is not None:
                more = functools.partial(dict, q=answer.q)
                monitor.report(inner.iterations, -size, inner.history[-1]["gap"], more)
                return answer
            nearest = max(nearest, size)
        rest: Any = _first(self.rest, form)
        return rest.solve(form, monitor, start)

    def _of_half(self, form: MinNorm, half: Half, monitor: Monitor) -> tuple[Answer | None, float]:
        """The answer to the whole, where that to a half lies in the other one; and its norm."""
        inner: Any = _first(self.inner, half.form)
        answer = inner.solve(half.form, monitor)
        if answer.status != "converged" or answer.w is None or monitor.late:
            return None, 0.0
        size = -monitor.history[-1]["objective"]
        q = form.centers()
        for k, v in zip(half.own, answer.q, strict=True):
            q[k] = v
        with blas_threads(form.n):
            for c in form.couplings:
                if not _meets(form, c, half.own, q, monitor):
                    return None, size
        w = answer.w / form.space.norm(answer.w)
        return replace(answer, q=q, multipliers=[-s * w for s in half.shares]), size


def _nearer(least: float, record: dict[str, Any]) -> bool:
    """Whether a point is too near to lie in the other operands, too."""
    return -record["objective"] < least


class Half(NamedTuple):
    """A form without intersections.

    form : the form
    own : the places of its blocks in the whole
    shares : of each coupling what of its right side, times this, x is made of
    """

    form: MinNorm
    own: tuple[int, ...]
    shares: tuple[float, ...]


def _first(solvers: Sequence[Solver[MinNorm]], form: MinNorm) -> Solver[MinNorm] | None:
    return next((s for s in solvers if s.refuse(form) is None), None)


def _sides(form: MinNorm, c: Coupling) -> tuple[list[int], list[int]]:
    """The blocks of both operands of an intersection: those that x is made of, and the others."""
    met = [k for k, B in c.terms if not isinstance(B, ZeroMap)]
    silent = [isinstance(form.blocks[k].map, ZeroMap) for k in met]
    return [k for k, no in zip(met, silent, strict=True) if not no], [
        k for k, no in zip(met, silent, strict=True) if no
    ]


def _without(form: MinNorm, center: Vec, blocks: dict[int, Block], shares: Sequence[float]) -> Half:
    own = tuple(sorted(blocks))
    whole = replace(form, center=center, blocks=tuple(blocks[k] for k in own), couplings=())
    return Half(whole, own, tuple(shares))


def _left(form: MinNorm) -> Half | None:
    """The form over the left operands; None where a right one is in two intersections, or one has no
    projection with a Jacobian."""
    seen: set[int] = set()
    for c in form.couplings:
        left, right = _sides(form, c)
        both = {*left, *right}
        if not left or not right or seen & {*right}:
            return None
        if not all(isinstance(form.blocks[k].domain, SemiSmooth) for k in both):
            return None
        seen |= {*right}
    blocks = {k: b for k, b in enumerate(form.blocks) if not isinstance(b.map, ZeroMap)}
    return _without(form, form.center, blocks, [0.0] * len(form.couplings))


def _right(form: MinNorm, left: Half | None) -> Half | None:
    """The form over the right operands, where x has a multiple of each left one."""
    if left is None:
        return None
    center = form.center.copy()
    blocks = dict(zip(left.own, left.form.blocks, strict=True))
    shares = []
    for c in form.couplings:
        ours, theirs = _sides(form, c)
        maps = dict(c.terms)
        factors = {_ratio(form.blocks[k].map, maps[k]) for k in ours}
        share = factors.pop()
        if factors or share is None or not blocks.keys() >= {*ours}:
            return None
        center -= share * c.offset
        for k in ours:
            del blocks[k]
        for k in theirs:
            b = form.blocks[k]
            blocks[k] = replace(b, map=scaled(maps[k], -share))
        shares.append(share)
    return _without(form, center, blocks, shares)


def _ratio(A: LinearMap, B: LinearMap) -> float | None:
    """s where A = s B can be seen, else None."""
    (of, M, a), (by, N, b) = (
        (L.inner, L.M, L.factor) if isinstance(L, ComposedMap) else (L, None, 1.0) for L in (A, B)
    )
    return a / b if of is by and M is N and b != 0.0 else None


def _meets(
    form: MinNorm, coupling: Coupling, known: Sequence[int], q: list[Vec], monitor: Monitor
) -> bool:
    """Find the other parameters of a coupling, in q, by those that are known; False where steps do not."""
    x = coupling.offset.copy()
    own: list[int] = []
    maps: Any = []
    for k, B in coupling.terms:
        if k in known:
            x += B.matvec(q[k])
        elif not isinstance(B, ZeroMap):
            own.append(k)
            maps.append(scaled(B, -1.0))
    blocks: Any = [form.blocks[k] for k in own]
    centers = [q[k] for k in own]
    if sum(B.shape[1] for B in maps) < x.size - 1:
        Q, x, parts = coordinates(x, maps)  # of their span, whose order is less
        maps = [MatrixMap(A) for A in parts]
        monitor.forming += factoring(form, *Q.shape)
    systems = Formed(maps, form.stored)
    cost = sum(B.entries for B in maps) / max(1, form.stored)
    mu = np.zeros(x.size)
    pulls = [np.zeros(r.size) for r in centers]
    p: list[Vec] = []

    def slope(t: float, ahead: tuple[float, Sequence[Vec]]) -> float:
        level, moves = ahead
        p[:] = [
            b.domain.project(r + u + t * e, classes=b.classes)
            for b, r, u, e in zip(blocks, centers, pulls, moves, strict=True)
        ]
        return sum(float(v @ e) for v, e in zip(p, moves, strict=True)) - level

    slope(0.0, (0.0, pulls))
    least = _MET * (float(np.linalg.norm(x)) or 1.0)
    for _ in range(MOST):
        g = sum((B.matvec(v) for B, v in zip(maps, p, strict=True)), start=-x)
        monitor.passes += cost / 2
        if float(np.linalg.norm(g)) <= least:
            for k, v in zip(own, p, strict=True):
                q[k] = v
            return True
        heights = [
            b.domain.support(u, classes=b.classes)[0] for b, u in zip(blocks, pulls, strict=True)
        ]
        if float(x @ mu) > sum(heights) or monitor.late:
            return False
        J = [
            b.domain.jacobian(r + u, classes=b.classes)
            for b, r, u in zip(blocks, centers, pulls, strict=True)
        ]
        step = systems.step(J, [1.0] * len(J), np.zeros(x.size), g)
        monitor.systems += 1
        monitor.passes += step.passes + cost / 2
        monitor.forming += step.forming
        moves = [B.rmatvec(step.d) for B in maps]
        start = float(g @ step.d)
        if not start < 0.0:
            return False
        t = line_search(slope, (float(x @ step.d), moves), start)
        mu += t * step.d
        pulls = [u + t * e for u, e in zip(pulls, moves, strict=True)]
    return False
