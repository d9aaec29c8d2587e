"""Vectors in compiled code, without temporaries."""

from __future__ import annotations

from ucm.numerics._jit import inner

__all__ = ["copy", "dot", "plus"]


@inner(reduction=True)
def dot(v, w):
    total = 0.0
    for i in range(v.size):
        total += v[i] * w[i]
    return total


@inner()
def copy(v, out):
    """`out <- v`; a slice assignment takes numba a second to compile."""
    for i in range(v.size):
        out[i] = v[i]


@inner()
def plus(v, t, d, out):
    """`out <- v + t d`; out may be v."""
    for i in range(v.size):
        out[i] = v[i] + t * d[i]
