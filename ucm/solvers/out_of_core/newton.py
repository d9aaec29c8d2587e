"""Newton's method for a convex function whose value and derivatives are sums over rows: one pass a step.

A step that does not lower the function is shortened. A sample in memory, whose weights stand for all rows,
gives the start, so that few steps over all rows are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.solvers.augmented_lagrangian import ridge_solve
from ucm.solvers.out_of_core.row_sums import ClassLoss, RowSums, added, row_sums

_LIMIT = 60  # steps
_SHORTER = 0.25  # factor of a step that does not lower the function, where no parabola is known
_SHORTEST = 0.1  # least such factor
_SMALL = 1e-12  # of z: the least step
_FLAT = 1e-14  # relative increase that counts as rounding

Sums = Callable[..., RowSums]


def over_rows(form: OutOfCoreForm, monitor: Monitor) -> Sums:
    """Return `row_sums` over all rows, one counted pass for each call."""

    def sums(*message: Any) -> RowSums:
        monitor.count_read()
        return form.data.source.map_reduce(row_sums, *message, merge=added)

    return sums


def over_sample(form: OutOfCoreForm, X: Any, y: Vec, monitor: Monitor) -> Sums:
    """Return `row_sums` over rows in memory, counted as their share of a pass."""

    def sums(*message: Any) -> RowSums:
        monitor.passes += y.size / form.data.m
        return row_sums(X, y, *message)

    return sums


def scaled_solve(H: NDArray[np.float64], g: Vec) -> Vec:
    """Return `H^-1 g`, computed in units in which the diagonal of H is 1."""
    diagonal = np.diagonal(H)
    d = np.sqrt(np.maximum(diagonal, 1e-30 * max(float(diagonal.max()), 1e-250)))
    return ridge_solve(np.ascontiguousarray(H / np.outer(d, d)), g / d) / d


@dataclass(frozen=True)
class RowFunction:
    """The convex function of z = (w, u): `ridge ||w||_2^2 / 2 + linear'(w, u)` plus losses of the rows."""

    n: int
    parts: tuple[ClassLoss, ...]
    linear: Vec
    ridge: float

    def message(self, z: Vec) -> tuple[Vec, Vec, tuple[ClassLoss, ...]]:
        """Return w, u and the parts, the message of `row_sums`."""
        return z[: self.n], z[self.n :], self.parts

    def value(self, z: Vec, found: RowSums) -> float:
        t = [part.fixed[1] + part.slopes[1] @ z[self.n :] for part in self.parts]
        return float(0.5 * self.ridge * (z[: self.n] @ z[: self.n]) + self.linear @ z + t @ found.losses)

    def derivatives(self, z: Vec, found: RowSums) -> tuple[Vec, NDArray[np.float64]]:
        """Return the gradient and the Hessian in (w, u)."""
        n, g, H = self.n, self.linear.copy(), found.hessian.copy()
        g[:n] += self.ridge * z[:n]
        H[np.arange(n), np.arange(n)] += self.ridge
        for p, part in enumerate(self.parts):
            g[:n] -= part.factor * found.points[p]
            g[n:] -= part.slopes.T @ (found.totals[p], found.heights[p])
        return g, H

    def step(self, z: Vec, found: RowSums, value: float) -> Vec:
        """Return Newton's step."""
        g, H = self.derivatives(z, found)
        return -scaled_solve(H, g)

    def slope(self, z: Vec, found: RowSums, step: Vec) -> float:
        """Return the derivative of the value along a step; 0 if it is unknown."""
        return float(self.derivatives(z, found)[0] @ step)

    def scaled(self, z: Vec, found: RowSums, value: float) -> tuple[Vec, RowSums, float]:
        """Return the best multiple of z with its sums and its value; by default z itself."""
        return z, found, value

    def corrected(self, z: Vec, found: RowSums) -> Vec | None:
        """Return another z if Newton's method cannot start at z; by default None."""
        return None


class ProvenFunction(RowFunction, ABC):
    """A function of rows whose sums prove how near its minimum is."""

    @abstractmethod
    def answer(self, z: Vec, found: RowSums, value: float) -> tuple[Answer, float, float]:
        """Return the answer with the sums that prove it, the objective and the relative gap."""


def newton_steps(
    function: RowFunction,
    z: Vec,
    sums: Sums,
    limit: int,
    known: RowSums | None = None,
    before: tuple[Vec, float] | None = None,
) -> Iterator[tuple[int, Vec, RowSums | None, float]]:
    """Yield the number of the pass, z, its sums and its value after each pass.

    After a step that does not lower the function z is the point before it, and the sums are None.

    The iteration ends after `limit` passes, where no step leads down, and after a value that is NaN, or that
    is infinite at the first z.

    Parameters
    ----------
    known : the sums at z, if they are known
    before : a point and its value, to return to from a z with a larger value
    """
    slope = 0.0
    for k in range(limit):
        found = sums(*function.message(z)) if known is None else known
        known, value = None, function.value(z, found)
        if np.isnan(value) or (before is None and not np.isfinite(value)):
            yield k, z, found, value
            return
        other = function.corrected(z, found)
        if other is not None:
            z = other
            continue
        z, found, value = function.scaled(z, found, value)
        if before is not None and not value <= before[1] + _FLAT * abs(before[1]):
            if np.abs(z - before[0]).max() <= _SMALL * np.abs(z).max():
                return
            yield k, before[0], None, before[1]
            rise = value - before[1] - slope  # above the tangent; 0 < t < 1/2 minimises a parabola
            t = -0.5 * slope / rise if np.isfinite(rise) and rise > 0.0 else 0.0
            t = max(t, _SHORTEST) if t > 0.0 else _SHORTER
            slope, z = t * slope, before[0] + t * (z - before[0])
            continue
        yield k, z, found, value
        step = function.step(z, found, value)
        before, slope = (z, value), function.slope(z, found, step)
        z = z + step


def minimise(
    function: ProvenFunction,
    z: Vec,
    sums: Sums,
    monitor: Monitor,
    known: RowSums | None = None,
    before: tuple[Vec, float] | None = None,
) -> tuple[Vec, Answer]:
    """Take Newton steps to the tolerance of the monitor; return the last point and its answer.

    Parameters
    ----------
    z, known, before : as of `newton_steps`
    """
    k, limit, answer = 0, monitor.limit(_LIMIT), Answer(w=np.zeros(function.n), b=0.0)
    last = z
    for k, last, found, value in newton_steps(function, z, sums, limit + 1, known, before):
        if found is None:
            continue
        if np.isinf(value):
            return last, answer.ended("stalled", "weights of far rows overflow; scale the features")
        answer, objective, gap = function.answer(last, found, value)
        if np.isnan(value):  # rows have changed since the first pass; the certificate says so
            break
        monitor.latest = answer if np.isfinite(gap) else None
        stop = monitor.report(k, objective, gap)
        if monitor.reached(gap):
            break
        if stop and last[: function.n].any():  # w = 0 bounds nothing
            return last, answer.interrupted()
        monitor.systems += 1
    else:
        if k < limit:
            return last, answer.ended("stalled", "no step leads down")
        return last, answer.ended("max_iter", f"{limit} steps did not reach the tolerance")
    return last, answer
