"""The laws of a domain, and CVXPY as the second opinion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.linear_map import Vec
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
from ucm.testing.checker import Checker, check_jacobian, check_size, check_support, optimum


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

    def directions(self, count: int) -> Iterator[tuple[Vec, float, Vec]]:
        """Random directions of finite support, each with its height and a maximiser."""
        for g in self.rng.standard_normal((count, self.dim)):
            top, q = self.domain.support(g)
            if np.isfinite(top):
                yield g, top, q

    def is_point(self) -> bool:
        """True if the domain has no extent in a random direction."""
        g = self.rng.standard_normal(self.dim)
        return self.domain.support(g)[0] + self.domain.support(-g)[0] <= 1e-6


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
    cases = [
        _Case(f"{domain!r}, dimension {dim}", tol, domain, dim, SampleWeights(dim), rng)
        for dim in dims
        if domain.infeasibility_reason(dim) is None
    ]
    for case in cases:
        _check_case(case, case.dim <= cvxpy_dim)
    declared = domain if samples and isinstance(domain, Domain) else None
    bound = [] if declared is None else [*_bound_cases(declared, dims, tol, rng)]
    for case in bound:
        _check_bound(case, domain, case.dim <= cvxpy_dim)  # type: ignore[arg-type]
        _check_weights(case, domain)  # type: ignore[arg-type]
        _check_case(case, case.dim <= cvxpy_dim)
    if not cases and not bound:
        raise AssertionError(f"{domain!r}: empty in every dimension of {dims}; choose others")


def _bound_cases(
    domain: Domain, dims: tuple[int, ...], tol: float, rng: np.random.Generator
) -> Iterator[_Case]:
    """The domain bound to samples of one and of two classes, with and without weights, where binding changes
    the domain."""
    for dim in dims:
        y = np.where(np.arange(dim) % 3 == 1, -1.0, 1.0)
        c = np.resize([1.0, 2.0, 3.0, 1.0], dim)
        for classes in (None, y) if dim > 1 else (None,):
            for weights in (None, c):
                samples = SampleWeights(dim, weights, classes)
                try:
                    D = domain.bind(samples)
                except CompositionError:  # weights have no meaning
                    continue
                if D is domain or D.infeasibility_reason(dim) is not None:
                    continue
                what = f"{domain!r}, dimension {dim}"
                what += "" if classes is None else f", classes {classes.astype(int).tolist()}"
                what += "" if weights is None else f", weights {weights.tolist()}"
                yield _Case(what, tol, D, dim, samples, rng)


def _check_case(case: _Case, compare: bool) -> None:
    domain = case.domain

    def support(g: Vec) -> tuple[float, Vec]:
        top, q = domain.support(g)
        if np.isfinite(top):
            case.at_most("the maximiser is inside", domain.violation(q), case.tol)
        return top, q

    _check_center(case)
    check_support(case, support, case.vectors())
    _check_memory(case, lambda g: domain.support(g)[1])
    if isinstance(domain, Projectable):
        _check_projection(case, domain)
        _check_memory(case, domain.project)
    if isinstance(domain, SemiSmooth):
        for scale in (0.1, 1.0, 5.0):
            v, ways = scale * case.rng.standard_normal(case.dim), np.eye(case.dim)[:3]
            J = domain.jacobian(v)
            dense = np.diag(J.d) + J.U @ J.S @ J.U.T
            for d in ways:
                case.equal("`matvec` is that of the Jacobian", J.matvec(d), dense @ d)
            ways = (*ways, *case.rng.standard_normal((3, case.dim)))
            check_jacobian(case, domain.project, v, dense, ways)
    if isinstance(domain, MassMultipliers):
        _check_levels(case, domain)
    if compare and not case.is_point():
        _check_against_cvxpy(case)


def _check_center(case: _Case) -> None:
    center = case.domain.center(case.dim)
    case.at_most("the centre is inside", case.domain.violation(center), case.tol)
    reach = [case.domain.support(s * e)[0] for e in np.eye(case.dim) for s in (1.0, -1.0)]
    if np.isfinite(reach).all():
        far = center + 10.0 * (1.0 + float(np.abs(reach).max())) * np.ones(case.dim)
        if case.domain.violation(far) <= 0.0:
            case.fail("a point beyond the support has a violation above 0", far)


def _check_bound(case: _Case, declared: Domain, compare: bool) -> None:
    """The domain over samples is the declared one, with the masses of the classes where it lies on the
    simplex: the weights of a hull lie in it, and a certificate relies on its support."""
    domain, samples, slack = case.domain, case.samples, 10.0 * case.tol
    for _, _, q in case.directions(3):
        for point in (q, domain.center(case.dim)):
            if domain.on_simplex:
                case.at_most("it lies on the simplex", samples.outside(point), slack)
            if samples.weights is None and not declared.on_simplex:
                case.at_most("it lies in the declared domain", declared.violation(point), slack)
    plain = samples.weights is None and (samples.classes is None or not declared.on_simplex)
    if compare and plain and not case.is_point():
        x = cp.Variable(case.dim)
        both = declared.own_constraints(x)
        both += samples.cvxpy(x) if domain.on_simplex else []
        _check_reach(case, "it is the declared domain and the simplex, by CVXPY", x, both, 3)


def _check_weights(case: _Case, declared: Domain) -> None:
    """A sample that counts three times is three equal samples."""
    samples = case.samples
    if samples.weights is None:
        return
    times = samples.weights.astype(int)
    classes = None if samples.classes is None else np.repeat(samples.classes, times)
    repeated = declared.bind(SampleWeights(int(times.sum()), None, classes))
    law, tol = "a weight is a number of equal samples", max(1e-7, 10.0 * case.tol)
    for g in case.rng.standard_normal((3, case.dim)):
        case.equal(law, case.domain.support(g)[0], repeated.support(np.repeat(g, times))[0], tol)


def _check_memory(case: _Case, function: Callable[[Vec], Vec]) -> None:
    """Inputs stay as they are, read-only and strided ones are taken, answers repeat."""
    v = case.rng.standard_normal(case.dim)
    before = v.copy()
    first = function(v)
    if not np.array_equal(v, before):
        case.fail("the input is unchanged", before, v)
    v.flags.writeable = False
    for kind, given in (("read-only", v), ("strided", np.repeat(before, 2)[::2])):
        if not np.array_equal(function(given), first):
            case.fail(f"the same answer twice, for {kind} input", first, function(given))


def _check_projection(case: _Case, domain: Projectable) -> None:
    previous: tuple[Vec, Vec] | None = None
    for v in case.vectors():
        q = domain.project(v)
        scale = 1.0 + float(np.abs(v).max()) + float(np.abs(q).max())
        case.at_most("the projection is inside", domain.violation(q), case.tol)
        case.at_most("projecting twice changes nothing", np.abs(domain.project(q) - q), 1e-7 * scale)
        acute = domain.support(v - q)[0] - float((v - q) @ q)
        law = "no point of the domain makes an acute angle with v - P(v)"
        case.at_most(law, acute, case.tol * scale * scale * case.dim)
        if previous is not None:
            apart = np.linalg.norm(q - previous[1]) - np.linalg.norm(v - previous[0])
            case.at_most("the projection is non-expansive", apart, case.tol * scale)
        previous = (v, q)


def _check_levels(case: _Case, domain: MassMultipliers) -> None:
    """Check the mass multipliers: they shift with g, and weights are at the cap above them and 0 below."""
    groups = [index for index, _ in case.samples.groups]
    for g in case.vectors():
        slack = 1e-6 * (1.0 + float(np.abs(g).max())) * case.dim
        levels = np.array(domain.mass_multipliers(g), dtype=np.float64)
        moved = np.array(domain.mass_multipliers(g + 3.0), dtype=np.float64)
        if levels.shape != (len(groups), 2):
            case.fail("one interval for each mass", levels)
        case.at_most("an interval has lo <= hi", levels[:, 0] - levels[:, 1])
        case.equal("levels move with g", moved, levels + 3.0, slack)
        q, c = domain.support(g)[1], np.ones(case.dim) * case.samples.c
        for (lo, hi), index in zip(levels, groups, strict=True):
            if lo != hi:
                continue
            rest, part = (g - hi)[index], (q / c)[index]
            order = np.argsort(rest)
            # entries over their weights rank as their slacks do
            falls = -np.diff(part[order]) * (np.diff(rest[order]) > 1e-9)
            case.at_most("entries grow with g - theta", falls, 1e-7)


def _check_reach(case: _Case, law: str, x: Any, constraints: list[Any], count: int = 2) -> None:
    """Programs over the constraints on x, the first entries of which are q, reach the support."""
    for g, top, _ in case.directions(count):
        case.equal(law, optimum(cp.Maximize(g @ x[: case.dim]), constraints), top, 1e-5)


def _check_against_cvxpy(case: _Case) -> None:
    """Check by a conic solver that the CVXPY constraints and the inequalities define the same set."""
    domain, size, x = case.domain, case.domain.size(), cp.Variable(case.dim)
    constraints = domain.own_constraints(x)
    _check_reach(case, "the support agrees with CVXPY", x, constraints)
    for v in case.rng.standard_normal((2, case.dim)) if isinstance(domain, Projectable) else ():
        least = optimum(cp.Minimize(cp.sum_squares(x - v)), constraints)
        q = domain.project(v)  # type: ignore[attr-defined]
        law = "the projection agrees with CVXPY"
        case.equal(law, float((q - v) @ (q - v)), least, 1e-5, float(v @ v))
    found = domain.polyhedron(case.dim)
    if found is not None:
        p = cp.Variable(found.lower.size)
        inside = [found.lower <= p, p <= found.upper]
        inside += [found.least <= found.A @ p, found.A @ p <= found.most]
        _check_reach(case, "the support agrees with the inequalities", p, inside)
    if size is not None:
        with_parameter = cp.Problem(cp.Minimize(0), domain.cvxpy(x, cp.Parameter()))
        if not with_parameter.is_dcp(dpp=True):
            case.fail("constraints are DPP in the size", domain)
        if not cp.Problem(cp.Minimize(0), domain.cvxpy(x, cp.Variable())).is_dcp():
            case.fail("constraints are convex in point and size together", domain)
    check_size(case, size)
