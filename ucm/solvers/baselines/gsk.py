"""mu-GSK: steps to extreme points of reduced convex hulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm.data.options import FLAG, check_fields
from ucm.solvers.baselines.nearest import BaselineState, NearestPointBaseline


@dataclass(frozen=True)
class GSK(NearestPointBaseline):
    """The GSK method: a class moves its point towards the extreme point of its hull with the least `<W, Z>`.

    An extreme point has `1/cap` terms, so a step needs that many rows of the Gram matrix.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).
    minkowski : bool
        The points of all classes move at once, by the same share: the variant that section 5 of the paper
        speaks of.

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equation (9), after Mavroforakis and Theodoridis (2006).
    """

    minkowski: bool = False
    name: ClassVar[str] = "gsk"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, minkowski=FLAG)

    def step(self, at: BaselineState) -> bool:
        hulls, groups = at.hulls, at.groups
        points = [at.extreme(g, at.cap[k], hulls.mass[k]) for k, g in enumerate(groups)]
        falls = np.array(
            [at.a[g] @ at.F[g] - (p.value if p else np.inf) for g, p in zip(groups, points, strict=True)]
        )
        chosen = list(range(len(groups))) if self.minkowski else [int(falls.argmax())]
        fall = float(falls[chosen].sum())
        w: Any = sum(points[k].weights for k in chosen if points[k] is not None)  # type: ignore[union-attr]
        moves = np.isin(hulls.group, chosen)
        row, H = at.products(w), at.H[chosen].sum(axis=0)  # <X_L, z_k>, <Z, z_k>
        eta = float(w @ row + at.a[moves] @ (H - 2.0 * row)[moves])  # |X_L - Z|^2
        t = min(1.0, fall / eta) if eta > 0.0 else 1.0
        count = int(np.count_nonzero(w))
        at.operations += count * hulls.n + 2 * count * count
        if not fall > 0.0 or t <= 1e-15:
            return False
        at.a[moves] += t * (w - at.a)[moves]
        at.F += t * (row - H)
        if not self.minkowski:
            at.H[chosen[0]] += t * (row - H)
        else:  # only their sum is asked for
            at.H[0] += t * (row - H)
        return True
