"""The laws of a domain, and CVXPY as the second opinion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.contracts import (
    BoundDomain,
    Domain,
    MassMultipliers,
    Projectable,
    SampleWeights,
    SemiSmooth,
)
from ucm.testing.checker import Checker, check_size, check_support, optimum

__all__ = ["check_domain"]


@dataclass(frozen=True)
class _Case(Checker):
    """A domain in one dimension, alone or bound to samples."""

    domain: BoundDomain
    dim: int
    samples: SampleWeights
    rng: np.random.Generator

    def vectors(self) -> Iterator[Vec]:
        """Generic vectors of several lengths, then the awkward ones."""
        for scale in (0.1, 1.0, 30.0):
            yield scale * self.rng.standard_normal(self.dim)
        yield np.zeros(self.dim)
        yield np.ones(self.dim)
        yield np.where(np.arange(self.dim) % 2, 1.0, 0.0)
        yield 1e-12 * self.rng.standard_normal(self.dim)

    def support(self, g: Vec) -> tuple[float, Vec]:
        return self.domain.support(g)

    def violation(self, q: Vec) -> float:
        return self.domain.violation(q)


def check_domain(
    domain: Domain | BoundDomain,
    dims: tuple[int, ...] = (1, 2, 5, 12),
    seed: int = 0,
    *,
    cvxpy_dim: int = 5,
    tol: float = 1e-9,
    samples: bool = True,
) -> None:
    """Hold a domain against its laws, in every dimension where it is not empty.

    Parameters
    ----------
    domain : Domain
        The domain.
    dims : tuple of int
        Dimensions to try; with classes, those of at least 2.
    seed : int
        For the random vectors.
    cvxpy_dim : int
        Largest dimension compared with CVXPY, which is accurate to about 1e-6.
    tol : float
        Relative slack of the laws.
    samples : bool
        Whether to check the domain also as weights of samples: with two classes, with weights, with both.

    Raises
    ------
    AssertionError
        A law is broken, or the domain is empty in every dimension tried.

    Examples
    --------
    >>> import ucm
    >>> from ucm.testing import check_domain
    >>> check_domain(ucm.NormBall(0.7), dims=(3,))
    """
    rng = np.random.default_rng(seed)
    tried, declared = 0, domain if samples and isinstance(domain, Domain) else None
    for dim in dims:
        compare = dim <= cvxpy_dim
        if domain.infeasibility(dim) is None:
            tried += 1
            alone = SampleWeights(dim)
            case = _Case(f"{domain!r}, dimension {dim}", tol, domain, dim, alone, rng)
            _check_case(case, compare=compare)
        for bound in _bindings(dim):
            if declared is None:
                break
            try:
                D = declared.bind(bound)
            except CompositionError:  # weights have no meaning
                continue
            if D is domain or D.infeasibility(dim) is not None:
                continue
            tried += 1
            what = f"{domain!r}, dimension {dim}"
            if bound.classes is not None:
                what += f", classes {bound.classes.astype(int).tolist()}"
            if bound.weights is not None:
                what += f", weights {bound.weights.tolist()}"
            case = _Case(what, tol, D, dim, bound, rng)
            _check_bound(case, declared, compare)
            _check_weights(case, declared)
            _check_case(case, compare=compare)
    if tried == 0:
        raise AssertionError(f"{domain!r}: empty in every dimension of {dims}; choose others")


def _bindings(dim: int) -> Iterator[SampleWeights]:
    """Samples of one and of two classes, which count once, or as often as their weights say."""
    y = np.where(np.arange(dim) % 3 == 1, -1.0, 1.0)
    c = np.resize([1.0, 2.0, 3.0, 1.0], dim)
    for classes in (None, y) if dim > 1 else (None,):
        yield SampleWeights(dim, None, classes)
        yield SampleWeights(dim, c, classes)


def _check_case(case: _Case, *, compare: bool) -> None:
    _check_center(case)
    _check_support(case)
    if isinstance(case.domain, Projectable):
        _check_projection(case, case.domain)
        _check_memory(case, case.domain.project)
    if isinstance(case.domain, SemiSmooth):
        _check_jacobian(case, case.domain)
    if isinstance(case.domain, MassMultipliers):
        _check_levels(case, case.domain)
    g = case.rng.standard_normal(case.dim)
    if compare and case.support(g)[0] + case.support(-g)[0] > 1e-6:  # else it is one point
        _check_against_cvxpy(case)
        _check_polyhedron(case)


def _check_center(case: _Case) -> None:
    center = case.domain.center(case.dim)
    case.at_most("the centre is inside", case.violation(center), case.tol)  # or on the boundary
    reach = [case.support(s * e)[0] for e in np.eye(case.dim) for s in (1.0, -1.0)]
    if np.isfinite(reach).all():
        far = center + 10.0 * (1.0 + float(np.abs(reach).max())) * np.ones(case.dim)
        if case.violation(far) <= 0.0:
            case.fail("a point beyond the support has a violation above 0", case.violation(far))


def _check_bound(case: _Case, declared: Domain, compare: bool) -> None:
    """The domain over samples is the declared one, with the masses of the classes where it lies on the
    simplex: the weights of a hull lie in it, and a certificate relies on its support."""
    domain, samples = case.domain, case.samples
    x = cp.Variable(case.dim)
    both = declared.own_constraints(x)
    if domain.on_simplex:
        both += samples.constraints(x)
    for g in case.rng.standard_normal((3, case.dim)):
        top, q = domain.support(g)
        for point in (q, domain.center(case.dim)) if np.isfinite(top) else ():
            if domain.on_simplex:
                outside = samples.outside(point)
                case.at_most("it lies on the simplex", outside, 10.0 * case.tol)
            if samples.weights is None and not declared.on_simplex:
                case.at_most(
                    "it lies in the declared domain", declared.violation(point), 10.0 * case.tol
                )
        plain = samples.weights is None and (samples.classes is None or not declared.on_simplex)
        if compare and plain and top + domain.support(-g)[0] > 1e-6:  # else it is one point
            error = abs(optimum(cp.Maximize(g @ x), both) - top) / (1.0 + abs(top))
            case.at_most("it is the declared domain and the simplex, by CVXPY", error, 1e-5)


def _check_weights(case: _Case, declared: Domain) -> None:
    """A sample that counts three times is three equal samples."""
    samples = case.samples
    if samples.weights is None:
        return
    times = samples.weights.astype(int)
    classes = None if samples.classes is None else np.repeat(samples.classes, times)
    repeated = declared.bind(SampleWeights(int(times.sum()), None, classes))
    for g in case.rng.standard_normal((3, case.dim)):
        top, other = case.support(g)[0], repeated.support(np.repeat(g, times))[0]
        if np.isfinite(top) or np.isfinite(other):
            error = abs(top - other) / (1.0 + abs(other))
            case.at_most("a weight is a number of equal samples", error, max(1e-7, 10.0 * case.tol))


def _check_support(case: _Case) -> None:
    def support(g: Vec) -> tuple[float, Vec]:
        top, q = case.support(g)
        if np.isfinite(top):
            case.at_most("the maximiser is inside", case.violation(q), case.tol)
        return top, q

    check_support(case, support, case.vectors())
    _check_memory(case, lambda g: case.support(g)[1])


def _check_memory(case: _Case, function: Callable[[Vec], Vec]) -> None:
    """Inputs stay as they are, read-only and strided ones are taken, answers repeat."""
    v = case.rng.standard_normal(case.dim)
    before = v.copy()
    first = function(v)
    if not np.array_equal(v, before):
        case.fail("the input is unchanged", before, v)
    v.flags.writeable = False
    if not np.array_equal(function(v), first):
        case.fail("the same answer twice, also for read-only input", first, function(v))
    strided = np.repeat(before, 2)[::2]
    if not np.array_equal(function(strided), first):
        case.fail("the same answer for strided input", first, function(strided))


def _check_projection(case: _Case, domain: Projectable) -> None:
    previous: tuple[Vec, Vec] | None = None
    for v in case.vectors():
        q = domain.project(v)
        scale = 1.0 + float(np.abs(v).max()) + float(np.abs(q).max())
        case.at_most("the projection is inside", case.violation(q), case.tol)
        again = domain.project(q)
        case.at_most("projecting twice changes nothing", np.abs(again - q).max(), 1e-7 * scale)
        top = case.support(v - q)[0]
        case.at_most(
            "no point of the domain makes an acute angle with v - P(v)",
            top - float((v - q) @ q),
            case.tol * scale * scale * case.dim,
        )
        if previous is not None:
            apart = np.linalg.norm(q - previous[1]) - np.linalg.norm(v - previous[0])
            case.at_most("the projection is non-expansive", float(apart), case.tol * scale)
        previous = (v, q)


def _check_jacobian(case: _Case, domain: SemiSmooth) -> None:
    for scale in (0.1, 1.0, 5.0):
        v = scale * case.rng.standard_normal(case.dim)
        h = 1e-6 * scale
        J = domain.jacobian(v)
        dense = np.diag(J.d) + J.U @ J.S @ J.U.T
        eigenvalues = np.linalg.eigvalsh(0.5 * (dense + dense.T))
        case.at_most("the Jacobian is symmetric", np.abs(dense - dense.T).max(), case.tol)
        case.at_most("0 <= J", -float(eigenvalues.min()), 1e-7)
        case.at_most("J <= I", float(eigenvalues.max()) - 1.0, 1e-7)
        for _ in range(3):
            d = case.rng.standard_normal(case.dim)
            ahead = domain.project(v + h * d)
            behind = domain.project(v - h * d)
            middle = domain.project(v)
            # at a kink between both points the one-sided slopes differ: not a generic point
            kink = np.abs(ahead - 2.0 * middle + behind).max() / h
            error = np.abs((ahead - behind) / (2.0 * h) - J.matvec(d)).max()
            if kink < 1e-3:
                case.at_most("the Jacobian is that of the projection", float(error), 1e-4)


def _check_levels(case: _Case, domain: MassMultipliers) -> None:
    """The multipliers move with g, and settle what q does: full above, empty below, by exchange."""
    masks = [np.zeros(case.dim, bool) for _ in case.samples.groups]
    for mask, (index, _) in zip(masks, case.samples.groups, strict=True):
        mask[index] = True
    for g in case.vectors():
        scale = 1.0 + float(np.abs(g).max())
        levels = domain.levels(g)
        if len(levels) != len(masks):
            case.fail("one interval for each mass", levels)
        moved = domain.levels(g + 3.0)
        for (lo, hi), (lo_, hi_) in zip(levels, moved, strict=True):
            if not lo <= hi:
                case.fail("an interval has lo <= hi", lo, hi)
            for a, b in ((lo, lo_), (hi, hi_)):
                if np.isfinite(a):
                    case.at_most("levels move with g", abs(b - a - 3.0), 1e-6 * scale * case.dim)
                elif a != b:
                    case.fail("levels move with g", a, b)
        q, c = case.support(g)[1], np.ones(case.dim) * case.samples.c
        for (lo, hi), mask in zip(levels, masks, strict=True):
            if lo != hi:
                continue
            rest, part = g[mask] - hi, (q / c)[mask]
            # the entries, over their weights, rank as their slacks do: whoever is above has at least as much
            order = np.argsort(rest)
            case.at_most(
                "entries grow with g - theta",
                float(np.max(-np.diff(part[order]) * (np.diff(rest[order]) > 1e-9), initial=0.0)),
                1e-7,
            )


def _check_polyhedron(case: _Case) -> None:
    """The inequalities define the same set: linear programs over them reach the support."""
    found = case.domain.polyhedron(case.dim)
    if found is None:
        return
    v = cp.Variable(found.lower.size)
    inside = [
        found.lower <= v,
        v <= found.upper,
        found.least <= found.A @ v,
        found.A @ v <= found.most,
    ]
    for g in case.rng.standard_normal((2, case.dim)):
        top, _ = case.support(g)
        if np.isfinite(top):
            error = abs(optimum(cp.Maximize(g @ v[: case.dim]), inside) - top) / (1.0 + abs(top))
            case.at_most("the support agrees with the inequalities", error, 1e-5)


def _check_against_cvxpy(case: _Case) -> None:
    """The constraints define the same set: both problems solved by a conic solver."""
    domain = case.domain
    size = domain.size()
    x = cp.Variable(case.dim)
    constraints = domain.own_constraints(x)
    for _ in range(2):
        g = case.rng.standard_normal(case.dim)
        top, q = case.support(g)
        if np.isfinite(top):
            error = abs(optimum(cp.Maximize(g @ x), constraints) - top) / (1.0 + abs(top))
            case.at_most("the support agrees with CVXPY", error, 1e-5)
        if isinstance(domain, Projectable):
            v = case.rng.standard_normal(case.dim)
            least = optimum(cp.Minimize(cp.sum_squares(x - v)), constraints)
            q = domain.project(v)
            error = abs(least - float((q - v) @ (q - v)))
            case.at_most("the projection agrees with CVXPY", error / (1.0 + float(v @ v)), 1e-5)
    if size is not None:
        parameter, variable = cp.Parameter(), cp.Variable()
        with_parameter = cp.Problem(cp.Minimize(0), domain.constraints(x, parameter))
        if not with_parameter.is_dcp(dpp=True):
            case.fail("constraints are DPP in the size", domain)
        if not cp.Problem(cp.Minimize(0), domain.constraints(x, variable)).is_dcp():
            case.fail("constraints are convex in point and size together", domain)
    check_size(case, size)
