"""Every sample left out once: the nearest points of ellipsoids whose shape and centre lose one sample.

With a sample `z = mean + v` of its class left out, the centre is `d + shift v` and the shape `S - rho v v'`,
S the same for all samples of the class. In the basis of the eigenvectors of S, with
`D = 1 / (1 + s e)`, the matrix `I + s (S - rho v v')` has the inverse

    y -> D y + D v  s rho (v'D y) / (1 - s rho v'D v),

so that the nearest point x and its derivative in s take a dozen sums over the coordinates.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ucm.numerics._jit import READ, f8, inner, jit

__all__ = ["left_out"]

_ROWS = types.Array(types.float64, 2, "C", readonly=True)
_OUT = types.Array(types.float64, 2, "C")


@inner(reduction=True)
def sums(v, d, h, e, s, out):
    """`v'D^k v`, `v'D^k d` for k = 1, 2, 3, `d'D^k d` for k = 2, 3; these with `e D^2`; `h'D v`, `h'D d`."""
    t1 = t2 = t3 = 0.0
    a1 = a2 = a3 = b1 = b2 = b3 = c2 = c3 = p = q = 0.0
    for j in range(v.size):
        D = 1.0 / (1.0 + s * e[j])
        vD = v[j] * D
        dD = d[j] * D
        vDD = vD * D
        dDD = dD * D
        a1 += vD * v[j]
        b1 += vD * d[j]
        a2 += vD * vD
        b2 += vD * dD
        c2 += dD * dD
        a3 += vDD * vD
        b3 += vDD * dD
        c3 += dDD * dD
        t1 += e[j] * vD * vD
        t2 += e[j] * vD * dD
        t3 += e[j] * dD * dD
        p += h[j] * vD
        q += h[j] * dD
    out[0], out[1], out[2] = a1, a2, a3
    out[3], out[4], out[5] = b1, b2, b3
    out[6], out[7] = c2, c3
    out[8], out[9], out[10] = t1, t2, t3
    out[11], out[12] = p, q


@jit(types.void(_ROWS, READ, READ, READ, f8, f8, f8, READ, READ, _OUT))
def left_out(V, e, d, h, shift, rho, own, radii, starts, out):
    """`out[i, k] = x'(own v_i + h) / |x|`, x the nearest point for radius k with sample i left out; nan
    where 0 lies in the set.

    V, d, h : (N, n), (n,), (n,) in the basis; e : (n,) eigenvalues of S
    shift, rho : of the centre and of the shape, above
    radii, starts : (K,) and the s of S itself for each, where its root is sought; 0: none
    """
    n = V.shape[1]
    top_e = 0.0
    for j in range(n):
        top_e = max(top_e, e[j])
    work = np.empty(13)
    for i in range(V.shape[0]):
        v = V[i]
        for k in range(radii.size):
            out[i, k] = np.nan
            if not starts[k] > 0.0:
                if radii[k] == 0.0:
                    top = 0.0
                    size = 0.0
                    for j in range(n):
                        x = d[j] + shift * v[j]
                        top += x * (own * v[j] + h[j])
                        size += x * x
                    if size > 0.0:
                        out[i, k] = top / np.sqrt(size)
                continue
            low, high = -700.0, 700.0
            u = np.log(starts[k])
            for _ in range(100):
                s = np.exp(u)
                sums(v, d, h, e, s, work)
                a1, a2, a3 = work[0], work[1], work[2]
                b1, b2, b3 = work[3], work[4], work[5]
                c2, c3 = work[6], work[7]
                rest = 1.0 - s * rho * a1
                if not rest > 1e-14:
                    break
                # v'D d_i and d_i'D d_i with d_i = d + shift v, then x = D (d + g v)
                be = b1 + shift * a1
                g = shift + s * rho * be / rest
                xx = c2 + 2.0 * g * b2 + g * g * a2
                vx = b1 + g * a1
                height = work[10] + 2.0 * g * work[9] + g * g * work[8] - rho * vx * vx  # x'S_i x
                if not height > 0.0 or not xx > 0.0:
                    break
                f = 2.0 * u + np.log(height) - 2.0 * np.log(radii[k])
                if f < 0.0:
                    low = u
                else:
                    high = u
                vDx = b2 + g * a2
                inv = c3 + 2.0 * g * b3 + g * g * a3 + s * rho * vDx * vDx / rest  # x'M^-1 x
                slope = 2.0  # of log s^2 x'S_i x in log s; below, the difference is rounding
                if s * top_e > 1e-9:
                    slope = min(2.0, 2.0 * (xx - inv) / (s * height))
                step = f / slope if slope > 1e-13 else np.inf
                if abs(step) <= 1e-11:
                    out[i, k] = (own * vx + work[12] + g * work[11]) / np.sqrt(xx)
                    break
                u = u - step if low < u - step < high else 0.5 * (low + high)
                if high - low <= 1e-13 * abs(high) or u > 690.0:
                    break
