"""The weights of bound samples: how often each counts, and which sums are fixed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp


@dataclass(frozen=True, eq=False)
class SampleWeights:
    """N samples, of which a domain holds distributions q: `q >= 0, sum q = 1`, or mass 1/2 on each class.

    Attributes
    ----------
    dim : N
    weights : (N,) how often each sample counts, c; None: once
    classes : (N,) labels +1 and -1 where q has mass 1/2 on each class; None: mass 1
    number : the sum of the samples' own weights, without those of their classes; None: `total`
    population : m, the number of all samples at hand, and the sum of the weights of each class; None where
        these samples are all
    """

    dim: int
    weights: Vec | None = None
    classes: Vec | None = None
    number: float | None = None
    population: tuple[float, float, float] | None = None

    @property
    def c(self) -> Any:
        """The weights, or 1."""
        return 1.0 if self.weights is None else self.weights

    @functools.cached_property
    def total(self) -> float:
        """The sum of the weights."""
        return self.dim if self.weights is None else float(self.weights.sum())

    @property
    def count(self) -> float:
        """The number of samples, whatever their classes weigh."""
        return self.total if self.number is None else self.number

    @property
    def m(self) -> float:
        """The number of all samples at hand, whatever their classes weigh."""
        return self.count if self.population is None else self.population[0]

    @functools.cached_property
    def groups(self) -> list[tuple[Any, float]]:
        """The entries and the mass of each constraint `sum q_i = mass`."""
        if self.classes is None:
            return [(slice(0, self.dim), 1.0)]
        y = np.asarray(self.classes)
        return [(np.flatnonzero(y > 0), 0.5), (np.flatnonzero(y < 0), 0.5)]

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of entries of each constraint."""
        if self.classes is None:
            return [self.dim]
        return [index.size for index, _ in self.groups]

    @functools.cached_property
    def totals(self) -> list[float]:
        """The sum of the weights of each constraint."""
        if self.weights is None:
            return [float(n) for n in self.sizes]
        return [float(self.weights[index].sum()) for index, _ in self.groups]

    @functools.cached_property
    def labels(self) -> Vec:
        """The classes for compiled code: empty without classes."""
        return np.empty(0) if self.classes is None else np.array(self.classes, dtype=np.float64)

    def uniform(self) -> Vec:
        """Return the distribution in proportion to the weights, the centre of the simplex."""
        q = np.empty(self.dim)
        for (index, sum_of_group), total in zip(self.groups, self.totals, strict=True):
            q[index] = (
                sum_of_group / total if self.weights is None else self.weights[index] * (sum_of_group / total)
            )
        return q

    def outside(self, q: Vec) -> float:
        """Return the largest relative error of a mass, or of negative entries."""
        worst = 0.0
        for index, sum_of_group in self.groups:
            part = q[index]
            below = -np.minimum(part, 0.0).sum() if part.min() < 0.0 else 0.0
            worst = max(worst, abs(part.sum() - sum_of_group) / sum_of_group, below / sum_of_group)
        return float(worst)

    def cvxpy(self, q: cp.Expression) -> list[cp.Constraint]:
        """Return CVXPY constraints of the simplex."""
        if self.classes is None:
            return [q >= 0, cp.sum(q) == 1]
        y = np.asarray(self.classes)
        return [q >= 0, (y > 0).astype(float) @ q == 0.5, (y < 0).astype(float) @ q == 0.5]

    def density(self, q: cp.Expression) -> cp.Expression:
        """Return `N q / c` in CVXPY: its entries are near 1, which conic solvers need."""
        return self.total * q if self.weights is None else cp.multiply(self.total / self.weights, q)

    def mean(self, x: cp.Expression) -> cp.Expression:
        """Return the weighted mean of x in CVXPY."""
        return (cp.sum(x) if self.weights is None else self.weights @ x) / self.total

    def missing(self, what: object) -> str | None:
        """Return why no distribution exists, a mass without entries; None if there is one."""
        if min(self.sizes) > 0:
            return None
        where = "there are no entries" if self.classes is None else "one class has no entries"
        each = "" if self.classes is None else " of each class"
        return f"{what!r}: empty, {where}; give at least one{each}"
