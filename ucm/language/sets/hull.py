"""Convex hulls of samples, their weights confined to a domain or, reduced, below a cap."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, Scope, Size
from ucm.language.domains import Box, CappedSimplex, Simplex
from ucm.language.node import CoordinateFree, Notation, Param, Scalar, converted, value
from ucm.language.parameter import Derived
from ucm.language.sets.weights import OfWeights, WeightSpace
from ucm.language.statistics.points import Points
from ucm.language.statistics.samples import SampleNode, kinds_of, neg, pos

__all__ = ["Hull", "ReducedHull", "hull_formula"]


def _samples(given: SampleNode | NDArray[Any] | list[Any], where: str) -> SampleNode:
    """Samples, or an array of points."""
    if isinstance(given, np.ndarray | list) or sparse.issparse(given):
        return Points(given)
    if not isinstance(given, SampleNode):
        raise CompositionError(
            f"{where}: expected pos, neg, signed or an array of points, got {brief(given)}; to add points "
            "write Hull(pos) + Point(v)"
        )
    return given


class Hull(OfWeights, CoordinateFree):
    """The convex hull of samples, `{sum_i q_i x_i : q in the simplex, q in weights}`.

    Over `pos` or `neg` the weights sum to 1. Over `signed` the set is `{sum_i q_i y_i x_i}` and q a
    distribution over all samples with mass 1/2 on each class (Ito, Takeda and Toh 2015, section 5.1).

    Parameters
    ----------
    samples : pos, neg, signed, those of a group, as pos.group("A"), or an array of points, one a row
        What is combined; an array is kept as `Points`.
    weights : Domain, optional
        Confines q further; `KLBall` and `LossBall` refer to the uniform distribution over the
        hull's own samples.

    Raises
    ------
    CompositionError
        `samples` are no samples, or `weights` no domain, or with bounds for each sample.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.signed, weights=ucm.NormBall(ucm.Param("kappa", 0.2)))
    Hull(signed, weights=NormBall(Param('kappa', 0.2)))
    """

    samples: SampleNode = converted(converter=_samples)  # type: ignore[arg-type]
    weights: Domain | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for D in () if self.weights is None else self.weights.walk():
            if isinstance(D, Box) and D.dimension is not None:
                raise CompositionError(
                    f"Hull: bounds for each sample cannot pass to other samples, got {brief(D)}; give one "
                    "bound for all, or class_weight and sample_weight"
                )

    def dimension(self, n: int | None) -> int | None:
        return self.samples.dimension(n)

    def space(self, data: Data) -> WeightSpace:
        """The weights of this hull over bound samples."""
        declared = Simplex() if self.weights is None else self.weights
        bound = self.samples.bound(data)
        return WeightSpace(declared, bound.dim, bound, self.samples.rows(data))

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        A = self.samples.map(data)
        return np.zeros(A.shape[0]), A

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        space = self.bound_space(data)
        q, _, _ = _weights(self.samples, space.dim, scope)
        return self.samples.map(data).matrix() @ q, space.twin(q, scope)

    def formula(self, notation: Notation) -> str:
        domain = None if self.weights is None else self.weights.formula(notation)
        return hull_formula(self.samples, domain, notation)


def hull_formula(samples: SampleNode, condition: str | None, notation: Notation) -> str:
    """`{sum_i q_i x_i : q in the simplex, condition}`."""
    simplex = f"q{notation.element}{notation.symbol('Delta')}"
    term = f"{notation.sub('q', 'i')} {samples.each(notation)}"
    return notation.set_of(
        notation.sum_over(samples.index(notation), term),
        simplex if condition is None else f"{simplex}, {condition}",
    )


class ReducedHull(OfWeights, CoordinateFree):
    """The reduced convex hull `{sum_i q_i x_i : sum q = 1, 0 <= q <= eta}` of one class.

    Give either the cap `eta` or `nu`, which stands for `eta = 2 / (m nu)`, m all samples of both
    classes and every group: `ReducedHull(pos, nu=nu) - ReducedHull(neg, nu=nu)` is the nu-SVM.

    Parameters
    ----------
    samples : pos, neg, those of a group, as pos.group("A"), or an array of points, one a row
        The class, or the group of it, or points of one's own.
    eta : float or Param in [1/m_o, inf)
        The cap of every weight, m_o the samples of the class.
    nu : float or Param in (0, 2 m_o / m]
        In place of it: the share of all m samples that the weights are spread over at least.

    Raises
    ------
    CompositionError
        Both or neither of `eta` and `nu`, or samples of both classes.

    Notes
    -----
    Barbero, Takeda and Lopez (2015), equation (6); Ito, Takeda and Toh (2015), Example 2.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.ReducedHull(ucm.pos, nu=ucm.Param("nu", 0.3)))
    {Σ_{y_i = +1} q_i x_i : q ∈ Δ, q_i ≤ 2/(m ν)},  ν = 0.3
    """

    samples: SampleNode = converted(converter=_samples)  # type: ignore[arg-type]
    eta: Scalar | None = None
    nu: Scalar | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if "signed" in kinds_of(self.samples):
            raise CompositionError(
                f"ReducedHull: expected pos or neg, got {brief(self.samples)}; over all samples "
                "write Hull(signed, weights=CappedSimplex(cap))"
            )
        if (self.eta is None) == (self.nu is None):
            raise CompositionError(
                f"ReducedHull({self.samples!r}): give exactly one of eta and nu, got "
                f"eta={self.eta!r} and nu={self.nu!r}"
            )

    def dimension(self, n: int | None) -> int | None:
        return self.samples.dimension(n)

    def size(self, data: Data) -> Size:
        if self.nu is None:
            return Size(self._eta())
        m = data.total

        def cap(nu: float) -> float:
            return 2.0 / (m * nu) if nu > 0.0 else float("inf")

        return Size(self.nu, cap, cap, ("2/(m nu)", m))

    def _eta(self) -> Scalar:
        return np.nan if self.eta is None else self.eta

    def space(self, data: Data) -> WeightSpace:
        return _with_cap(self.samples, self.size(data).number).space(data)

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        A = self.samples.map(data)
        return np.zeros(A.shape[0]), A

    def emptiness(self, data: Data) -> str | None:
        name = self.nu.name if isinstance(self.nu, Param | Derived) else "nu"
        if self.nu is not None and not 0.0 < value(self.nu) < float("inf"):
            return f"{self!r}: {name} must be positive, got {value(self.nu):g}"
        if self.bound_space(data).emptiness() is None:
            return None
        count, cap = self.samples.count(data), self.size(data).number
        if self.nu is None:
            name = self.eta.name if isinstance(self.eta, Param | Derived) else "eta"
            return (
                f"{self!r}: empty, the cap {cap:.4g} times {count:.6g} samples is below 1; "
                f"{name} must be at least {1.0 / count:.6g}"
            )
        of_both = self.samples in (pos, neg)  # whose hulls mostly stand together
        counts = [s.count(data) for s in ((pos, neg) if of_both else (self.samples,))]
        highest = min(2.0 * number / data.total for number in counts)
        how = " (= 2 min(m+, m-)/m)" if of_both else ""
        return (
            f"{self!r}: empty, the cap 2/(m nu) = {cap:.4g} times {count:.6g} samples is below 1; "
            f"{name} must be at most {highest:.6g}{how}"
        )

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        X = self.samples.map(data).matrix()
        q, s, unit = _weights(self.samples, X.shape[1], scope)
        copies = self.samples.copies(data)
        cap = scope.of(self.size(data)) * (unit if copies is None else unit * copies)
        return X @ q, [s >= 0, s <= cap, cp.sum(s) == unit]

    def formula(self, notation: Notation) -> str:
        q = notation.sub("q", "i")
        if self.nu is None:
            cap = notation.scalar(self._eta())
        else:
            cap = notation.fraction("2", notation.product("m", self.nu))
        return hull_formula(self.samples, f"{q}{notation.leq}{cap}", notation)


def _weights(samples: SampleNode, dim: int, scope: Scope) -> tuple[Any, Any, int]:
    """q, a variable s and its unit: `q = s / dim`, entries of s near 1, or q itself and 1."""
    name = f"q_{samples.tag}"
    if not scope.scaled:
        q = cp.Variable(dim, name=name)
        return q, q, 1
    s = cp.Variable(dim, name=f"{dim} {name}")
    return s / dim, s, dim


@functools.lru_cache(maxsize=64)
def _with_cap(samples: SampleNode, cap: float) -> Hull:
    return Hull(samples, weights=CappedSimplex(cap))
