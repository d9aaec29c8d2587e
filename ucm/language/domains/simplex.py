"""The simplex, and the capped simplex with an upper bound on every entry."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ucm import native
from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import (
    ROUNDING,
    BoundSimplex,
    Domain,
    Jacobian,
    MassConstraint,
    Polyhedron,
    SampleWeights,
    SimplexDomain,
    Size,
    exactly_one,
    jacobian,
    round_violation,
    vector,
)
from ucm.language.node import Notation, number_in
from ucm.language.parameter import Scalar, named, subject, value

_TINY = float(np.finfo(float).tiny)


def kinks(v: Vec, caps: Vec) -> tuple[Vec, Vec]:
    """Return the values of `sum clip(v - theta, 0, caps)` at its kinks, ascending, and the kinks in theta."""
    at = np.concatenate([v, v - caps])
    order = np.argsort(-at, kind="stable")
    slopes = np.cumsum(np.repeat([1.0, -1.0], v.size)[order])[:-1]  # between one kink and the next
    at = at[order]
    return np.concatenate([[0.0], np.cumsum(slopes * -np.diff(at))]), at


def clip_to_mass(v: Vec, caps: Vec, total: float) -> Vec:
    """Return `clip(v - theta, 0, caps)` of sum `total`, the projection of v on the capped simplex."""
    sums, at = kinks(v, caps)
    k = min(max(int(np.searchsorted(sums, total)), 1), at.size - 1)
    theta = 0.5 * (at[k - 1] + at[k])
    free, full = (v > theta) & (v - caps < theta), v - caps >= theta
    if free.any():  # the linear piece, without the rounding of the sums or of large entries
        v = v - v[free][0]
        theta = v[free].mean() - (total - caps[full].sum()) / np.count_nonzero(free)
    return np.clip(v - theta, 0.0, caps)


class Simplex(SimplexDomain):
    """The probability simplex, `{q >= 0, sum q = 1}`; over two classes, mass 1/2 in each.

    Examples
    --------
    >>> import ucm
    >>> ucm.Simplex().project([2.0, 1.5, 0.0])
    array([0.75, 0.25, 0.  ])
    """

    def bind(self, samples: SampleWeights) -> Capped:
        return Capped(self, samples)

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        return []

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        return f"0{notation.leq}q, {notation.sum_over('i', q)} = 1"


class CappedSimplex(SimplexDomain):
    """The simplex with capped entries, `{0 <= q <= cap, sum q = 1}`; over two classes, mass 1/2 in each.

    Parameters
    ----------
    cap : float or Param
        The largest admissible entry; `cap * N >= 1` for N entries. Weights of samples multiply it.
    relative : bool, optional
        The cap is that of `N q_i`, the density to the uniform distribution: at least 1.
    nu : float or Param, optional
        In place of a cap, by name: it stands for `2 / (m nu)`, m all samples of both classes and every group.

    Raises
    ------
    CompositionError
        Both or neither of `cap` and `nu`.

    Notes
    -----
    The weights of a reduced convex hull; Ito, Takeda and Toh (2015), example 2 and section 4.2.

    Examples
    --------
    >>> import ucm
    >>> ucm.CappedSimplex(0.5).project([2.0, 1.5, 0.0, 0.0])
    array([0.5, 0.5, 0. , 0. ])
    """

    cap: Scalar | None = number_in("[0, inf]", "cap", "write CappedSimplex(0.1)", default=None)
    relative: bool = False
    nu: Scalar | None = number_in("[0, inf]", "nu", "write CappedSimplex(nu=0.3)", default=None, kw_only=True)

    def _check(self) -> None:
        _ = self.given

    @property
    def given(self) -> Scalar:
        """The given scalar: cap or nu."""
        return exactly_one("CappedSimplex", cap=self.cap, nu=self.nu)

    def bind(self, samples: SampleWeights) -> Capped:
        return Capped(self, samples, self.size().number / self._unit(samples))

    def _unit(self, samples: SampleWeights) -> float:
        """Return the divisor of `size().number` in the cap: m for nu, N for a relative cap, else 1."""
        if self.nu is not None:
            return samples.m
        return samples.total if self.relative else 1.0

    def too_small(self, samples: SampleWeights, least: float) -> str:
        unit, total, target = self._unit(samples), min(samples.totals), samples.groups[0][1]
        entries = "entries" if samples.weights is None else "entries, by their weights,"
        if self.nu is None:
            cap = named(self.given, "cap") + (f" / {unit:g}" if self.relative else "")
            must = f"{subject(self.given, 'cap')} must be at least {unit * least:.6g}"
        else:
            name, nu, classes = subject(self.nu, "nu").removeprefix("the "), value(self.nu), ()
            if samples.population is not None and total in samples.population[1:]:
                classes = samples.population[1:]
            most = f"{2.0 * min((total, *classes)) / (unit * target):.6g}"
            most += " (= 2 min(m+, m-)/m)" if classes else ""
            if not 0.0 < nu < math.inf:
                return f"{self!r}: {name} must be positive and at most {most}, got {nu:g}"
            cap, must = f"the cap 2/(m nu) = {2.0 / (unit * nu):.4g}", f"{name} must be at most {most}"
        return f"{self!r}: empty, {cap} times {total:.6g} {entries} is below {target:g}; {must}"

    def size(self) -> Size:
        if self.nu is not None:
            return Size(self.nu, _two_over, _two_over)
        return Size(self.given)

    def inside(self, q: cp.Expression, size: cp.Expression, samples: SampleWeights) -> list[cp.Constraint]:
        unit = self._unit(samples)
        return [(q if unit == 1.0 else unit * q) <= size * samples.c]

    def largest(self, notation: Notation) -> str:
        """Return the formula of the largest admissible weight."""
        if self.nu is not None:
            return notation.fraction("2", notation.product("m", self.nu))
        cap = notation.scalar(self.given)
        return notation.fraction(cap, notation.total) if self.relative else cap

    def inside_formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        if self.relative:
            return f"{notation.total} {q}{notation.leq}{notation.scalar(self.given)}"
        return f"{q}{notation.leq}{self.largest(notation)}"

    def __repr__(self) -> str:
        return super().__repr__().replace("(cap=", "(")

    def formula(self, notation: Notation) -> str:
        q, inside = notation.sub("q", "i"), self.inside_formula(notation)
        return f"0{notation.leq}{inside}, {notation.sum_over('i', q)} = 1"


def _two_over(nu: float) -> float:
    try:
        return 2.0 / nu  # nu may be a text that records its formula
    except ZeroDivisionError:
        return -math.inf  # no nu


@dataclass(frozen=True, eq=False, repr=False)
class Capped(BoundSimplex):
    """The capped simplex `{floor c_i <= q_i <= cap c_i, sum q = mass}`: the weights of a reduced convex hull.

    Parameters
    ----------
    declared : Domain
        The domain as it was written.
    samples : SampleWeights
        The weights c and the classes of the samples.
    cap, floor : float, optional
        The largest and the smallest entry of a sample that counts once; a cap of inf for none.

    Notes
    -----
    The projection solves `sum clip(v - theta, 0, caps) = mass`: of one cap for a class by Newton's method for
    that piecewise linear function (Cominetti, Mascarenhas and Silva 2014, A Newton's method for the
    continuous quadratic knapsack problem), else by sorting its kinks. A floor is taken off q first.
    """

    declared: Domain
    samples: SampleWeights
    cap: float = math.inf
    floor: float = 0.0

    @property
    def groups(self) -> list[MassConstraint] | None:
        """The mass constraint of each class, with caps raised until feasible; None with a floor."""
        return None if self.floor else self._above

    @property
    def _base(self) -> float | Vec:
        """The lower bounds of the entries, `floor c_i`; 0 without a floor."""
        return self.floor * self.samples.c if self.floor else 0.0

    @functools.cached_property
    def _above(self) -> list[MassConstraint]:
        """The mass constraint of each class for `q - floor c`, with caps raised until feasible."""
        s = self.samples
        constraints: list[MassConstraint] = []
        for (index, target), n, total in zip(s.groups, s.sizes, s.totals, strict=True):
            c = None if s.weights is None else s.weights[index]
            mass = max(target - self.floor * total, 0.0) if self.floor else target
            top = self.cap - self.floor
            if c is None or top == math.inf or (n and float(c.min()) == float(c.max())):
                one = 1.0 if c is None or not n else float(c[0])
                cap: float | Vec = max(top * one, mass / max(n, 1), _TINY)
            else:
                cap = min(max(top, mass / total, _TINY), max(mass, _TINY) / float(c.min())) * c
            constraints.append(MassConstraint(index, n, mass, cap))
        return constraints

    def project(self, v: Vec) -> Vec:
        v = vector(v)
        q = np.empty_like(v)
        if not self.floor and all(isinstance(g.cap, float) for g in self._above):
            first, last = self._above[0].cap, self._above[-1].cap
            labels, work = self.samples.labels, np.empty(2 * v.size)
            native.library.project_capped(v.size, v, labels.size, labels, first, last, q, work)
            return q
        v = v - self._base
        for g in self._above:
            entries = v[g.entries]
            if isinstance(g.cap, float) and g.mass > 0.0:
                ref, shift = native.threshold(entries, g.cap, g.mass)
                q[g.entries] = np.clip((entries - ref) - shift, 0.0, g.cap)
            else:
                q[g.entries] = clip_to_mass(entries, np.zeros(g.size) + g.most, g.mass)
        return q + self._base

    def violation(self, q: Vec) -> float:
        """Return the largest part of a group's mass that is outside of the bounds, missing, or too much."""
        q = vector(q)
        above, worst = q - self._base, []
        for g, (_, mass) in zip(self._above, self.samples.groups, strict=True):
            v = above[g.entries]
            off, outside = q[g.entries].sum() - mass, v - np.clip(v, 0.0, g.cap)
            worst += [abs(off) / mass, np.abs(outside).sum() / mass]
        return round_violation(np.max(worst))

    def jacobian(self, v: Vec) -> Jacobian:
        return self.jacobian_at(self.project(v))

    def jacobian_at(self, q: Vec) -> Jacobian:
        """Return a generalised Jacobian of the projection at a point whose projection is q."""
        base = np.zeros(q.size) + self._base
        free = q > base  # q - base would be rounded: an entry at a bound would count as free
        for g in self._above:
            free[g.entries] &= q[g.entries] < g.cap + base[g.entries]
        return jacobian(free.astype(float), self.samples.groups)

    def support(self, g: Vec) -> tuple[float, Vec]:
        g, base = vector(g), self._base
        q, height = np.empty_like(g), float((base * g).sum()) if self.floor else 0.0
        for part in self._above:
            entries, top, _ = native.fill_to_mass(g[part.entries], part.cap, part.mass)
            q[part.entries], height = entries, height + top
        return height, q + base if self.floor else q

    def mass_multipliers(self, g: Vec) -> list[tuple[float, float]]:
        g = vector(g)
        return [native.fill_to_mass(g[p.entries], p.cap, p.mass)[2] for p in self._above]

    def infeasibility_reason(self, dim: int) -> str | None:
        s = self.samples
        why = s.missing(self.declared)
        if why is not None:
            return why
        target = s.groups[0][1]
        least, most = target / min(s.totals), target / max(s.totals)
        if self.cap >= least * (1.0 - ROUNDING) and self.floor <= most * (1.0 + ROUNDING):
            return None
        return self.declared.too_small(s, least)

    def polyhedron(self, dim: int) -> Polyhedron:
        upper, ones = np.empty(dim), sparse.lil_array((len(self._above), dim))
        for k, g in enumerate(self._above):
            upper[g.entries] = g.most
            ones[k, g.entries] = 1.0
        sums = np.array([total for _, total in self.samples.groups])
        base = np.zeros(dim) + self._base
        return Polyhedron(base, base + upper, ones.tocsr(), sums, sums)
