"""Newton's method for a convex function whose value and derivatives are sums over rows: one pass a step.

A step that does not lower the function is shortened. A sample in memory, whose weights stand for all rows,
gives the start, so that few steps over all rows are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ucm.data.linear_map import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solution import Certificate
from ucm.solvers.out_of_core.row_sums import RowFunction, RowSums, added, row_sums

__all__ = ["RowNewton", "over_rows", "over_sample"]

_LIMIT = 60  # steps
_SHORTER = 0.25  # factor of a step that does not lower the function
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


class RowNewton(RowFunction, ABC):
    """A function of rows, minimised by damped Newton steps."""

    @abstractmethod
    def answer(self, z: Vec, found: RowSums) -> tuple[Answer, Certificate]:
        """Return the answer with the sums that prove it, and its certificate."""

    @abstractmethod
    def step(self, z: Vec, found: RowSums, value: float) -> Vec:
        """Return Newton's step."""

    def scaled(self, z: Vec, found: RowSums, value: float) -> tuple[Vec, RowSums, float]:
        """Return the best multiple of z with its sums and its value; by default z itself."""
        return z, found, value

    def corrected(self, z: Vec, found: RowSums) -> Vec | None:
        """Return another z if Newton's method cannot start at z; by default None."""
        return None

    def at_zero(self, answer: Answer, certificate: Certificate, monitor: Monitor) -> bool:
        """True if the answer counts as the point 0; by default False."""
        return False

    def minimise(
        self,
        z: Vec,
        sums: Sums,
        monitor: Monitor,
        known: RowSums | None = None,
        before: tuple[Vec, float] | None = None,
    ) -> tuple[Vec, Answer]:
        """Iterate from z on.

        Parameters
        ----------
        known : the sums at z, if they are known
        before : a point and its value, to return to from a z with a larger value
        """
        n, limit, answer = self.n, monitor.limit(_LIMIT), Answer(w=np.zeros(self.n), b=0.0)
        for k in range(limit + 1):
            found = sums(*self.message(z)) if known is None else known
            known, value = None, self.value(z, found)
            if np.isnan(value):  # rows have changed since the first pass; the certificate says so
                return z, self.answer(z, found)[0]
            if before is None and not np.isfinite(value):
                return z, answer.ended(
                    "stalled", "weights of far rows overflow; scale the features"
                )
            other = self.corrected(z, found)
            if other is not None:
                z = other
                continue
            z, found, value = self.scaled(z, found, value)
            if before is not None and not value <= before[1] + _FLAT * abs(before[1]):
                if np.abs(z - before[0]).max() <= 1e-12 * np.abs(z).max():
                    return before[0], answer.ended("stalled", "no step leads down")
                z = before[0] + _SHORTER * (z - before[0])
                continue
            answer, certificate = self.answer(z, found)
            gap, proven = certificate.relative_gap, certificate.kind != "none"
            monitor.latest = answer if proven else None
            stop = monitor.report(k, certificate.dual if answer.b is None else value, gap)
            if monitor.reached(gap) or self.at_zero(answer, certificate, monitor):
                return z, answer
            if stop and z[:n].any():  # w = 0 bounds nothing
                return z, answer.interrupted()
            monitor.systems += 1
            before = z, value
            z = z + self.step(z, found, value)
        return z, answer.ended("max_iter", f"{limit} steps did not reach the tolerance")
