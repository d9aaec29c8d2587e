"""Cartesian products."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language import masses
from ucm.language.contracts import Domain, Jacobian, Polyhedral, Polyhedron, SemiSmooth, Size
from ucm.language.node import Notation

__all__ = ["Product"]


class Product(SemiSmooth, Polyhedral):
    """The cartesian product `{(q_1, ..., q_k) : q_j in parts_j}`.

    Parameters
    ----------
    parts : tuple of domains
        Each with a semismooth projection.
    sizes : tuple of int
        Their dimensions.

    Raises
    ------
    CompositionError
        A part has no projection, or the sizes are not positive integers, one for each part.

    Examples
    --------
    >>> import ucm
    >>> D = ucm.Product((ucm.Simplex(), ucm.NormBall(1.0)), (2, 2))
    >>> D.project([1.0, 0.0, 3.0, 4.0])
    array([1. , 0. , 0.6, 0.8])
    """

    parts: tuple[SemiSmooth, ...]
    sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        parts, sizes = self.parts, self.sizes
        if not isinstance(parts, tuple) or not parts:
            raise CompositionError(
                f"Product: parts is a tuple of domains, got {brief(parts)}; write "
                "Product((Simplex(), NormBall(1.0)), (3, 2))"
            )
        for part in parts:
            if not isinstance(part, SemiSmooth):
                raise CompositionError(
                    f"Product: every part needs a projection, got {brief(part)}; "
                    "use the sum of one Image for each part, which is the same set"
                )
        whole = isinstance(sizes, tuple) and all(
            isinstance(n, float) and n >= 1.0 and n.is_integer() for n in sizes
        )
        if not whole or len(sizes) != len(parts):
            raise CompositionError(
                f"Product: sizes is a tuple of {len(parts)} positive integers, got {brief(sizes)}; "
                "write one for each part"
            )

    def pieces(self, classes: Vec | None) -> list[tuple[SemiSmooth, slice, Vec | None]]:
        """Each part, where its coordinates stand, and their classes."""
        found, start = [], 0
        for part, n in zip(self.parts, self.sizes, strict=True):
            s = slice(start, start + int(n))
            found.append((part, s, None if classes is None else np.asarray(classes)[s]))
            start += int(n)
        return found

    def project(self, v: Vec, out: Vec | None = None, *, classes: Vec | None = None) -> Vec:
        v = masses.vector(v)
        q = [part.project(v[s], classes=y) for part, s, y in self.pieces(classes)]
        return masses.delivered(np.concatenate(q), out)

    def jacobian(self, v: Vec, *, classes: Vec | None = None) -> Jacobian:
        v = masses.vector(v)
        all_ = [part.jacobian(v[s], classes=y) for part, s, y in self.pieces(classes)]
        return Jacobian(
            d=np.concatenate([J.d for J in all_]),
            U=np.asarray(block_diag(*(J.U for J in all_))),
            S=np.asarray(block_diag(*(J.S for J in all_))),
        )

    def support(self, g: Vec, *, classes: Vec | None = None) -> tuple[float, Vec]:
        g = masses.vector(g)
        pairs = [part.support(g[s], classes=y) for part, s, y in self.pieces(classes)]
        return sum(pair[0] for pair in pairs), np.concatenate([pair[1] for pair in pairs])

    def violation(self, q: Vec, *, classes: Vec | None = None) -> float:
        q = masses.vector(q)
        return max(part.violation(q[s], classes=y) for part, s, y in self.pieces(classes))

    def center(self, dim: int, *, classes: Vec | None = None) -> Vec:
        return np.concatenate(
            [part.center(s.stop - s.start, classes=y) for part, s, y in self.pieces(classes)]
        )

    def emptiness(self, dim: int, *, classes: Vec | None = None) -> str | None:
        if dim != sum(self.sizes):
            return (
                f"{self!r}: the sizes add up to {sum(self.sizes):g}, got dimension {dim}; "
                "give sizes that add up to it"
            )
        reasons = (
            part.emptiness(s.stop - s.start, classes=y) for part, s, y in self.pieces(classes)
        )
        return next((reason for reason in reasons if reason), None)

    def size(self) -> Size | None:
        return None

    def constraints(
        self, q: cp.Expression, size: Any = None, *, classes: Vec | None = None
    ) -> list[cp.Constraint]:
        return [c for part, s, y in self.pieces(classes) for c in part.own_constraints(q[s], y)]

    def on_simplex(self) -> Domain | None:
        return None

    def polyhedron(self, dim: int, *, classes: Vec | None = None) -> Polyhedron | None:
        found, own = [], []
        for part, s, y in self.pieces(classes):
            one = None
            if isinstance(part, Polyhedral):
                one = part.polyhedron(s.stop - s.start, classes=y)
            if one is None:
                return None
            found.append(one)
            own.append(np.arange(one.lower.size) < s.stop - s.start)
        order = np.argsort(~np.concatenate(own), kind="stable")  # the q of all parts first
        lower, upper, least, most = (
            np.concatenate([getattr(one, name) for one in found])
            for name in ("lower", "upper", "least", "most")
        )
        A = sparse.csr_array(sparse.block_diag([one.A for one in found], format="csr"))[:, order]
        return Polyhedron(lower[order], upper[order], A, least, most)

    def formula(self, notation: Notation) -> str:
        cross = f" {notation.by.strip()} "
        return cross.join(notation.set_of("q", part.formula(notation)) for part in self.parts)
