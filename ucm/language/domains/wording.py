"""What the domains say about their parameters, and why they are empty."""

from __future__ import annotations

from ucm.data.linear import Vec
from ucm.language.masses import counts
from ucm.language.node import Node, Param, Scalar, value


def no_entries(node: Node, dim: int, classes: Vec | None) -> str | None:
    """Why a simplex is empty in this dimension whatever its parameter."""
    if min(counts(dim, classes)) > 0:
        return None
    where = "there are no entries" if classes is None else "one class has no entries"
    each = "" if classes is None else " of each class"
    return f"{node!r}: empty, {where}; give at least one{each}"


def named(scalar: Scalar, what: str) -> str:
    """`the cap eta = 0.1`, or `the cap 0.1` for a constant."""
    name = f"{scalar.name} = " if isinstance(scalar, Param) else ""
    return f"the {what} {name}{value(scalar):.6g}"


def subject(scalar: Scalar, what: str) -> str:
    """The name to use where the admissible range is stated."""
    return scalar.name if isinstance(scalar, Param) else f"the {what}"
