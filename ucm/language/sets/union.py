"""The closed convex hull of a union of sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import HStack, LinearMap, MatrixMap, Vec, zero_map
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.contracts import OPERATORS, Block, Coupling, LoweredSet, Scope, Splits, UncertaintySet
from ucm.language.domains.conic_form import perspective
from ucm.language.domains.convex_combination import ConvexCombination, convex_combination, unit_of
from ucm.language.node import Notation, RotationInvariant, in_parentheses
from ucm.language.sets.affine_image import subpaths

_SMALL = 0.1  # of the size of the samples and the center: a radius below it is no unit of a coordinate


class ConvexUnion(UncertaintySet, RotationInvariant):
    """The closed convex hull of the union of sets, written `A | B`.

        closure of {sum_g t_g x_g : x_g in U_g, t >= 0, sum_g t_g = 1}

    Its support function is the maximum of the support functions of the operands. A model with a union over
    groups of samples therefore protects the worst group.

    Parameters
    ----------
    *given : sets, or vectors as points; or one list of them
        The operands; unions among them are taken apart.
    sets : tuple of sets, optional
        More of them: the field that holds all.

    Raises
    ------
    CompositionError
        There are fewer than two, or they live in different spaces; of data: one of them is unbounded.
    EmptySetError
        Of data: one of them is empty, though the others are not.

    Notes
    -----
    Rockafellar (1970), Convex Analysis, Theorems 9.8 and 16.5. The union over groups is the group
    distributionally robust optimisation of Sagawa, Koh, Hashimoto and Liang (2020) for the losses that a
    set stands for.

    `|` binds weaker than every other operator: `A | B - C` is `A | (B - C)`.

    Examples
    --------
    >>> import ucm
    >>> U = ucm.Hull(ucm.pos.group("A")) | ucm.Hull(ucm.pos.group("B")) - ucm.neg.mean
    >>> U
    Hull(pos.group('A')) | (Hull(pos.group('B')) - Point(neg.mean))
    >>> print(ucm.Point([1.0, 2.0]) | ucm.Ball([0.0, 0.0], 1.0))
    conv({(1, 2)} ∪ {(0, 0) + u : ‖u‖₂ ≤ 1})
    """

    sets: tuple[UncertaintySet, ...]

    def __init__(self, *given: object, sets: tuple = ()) -> None:
        operands: list[UncertaintySet] = []
        if len(given) == 1 and isinstance(given[0], list | tuple):
            given = tuple(given[0])
        for x in (*given, *(sets if isinstance(sets, list | tuple) else (sets,))):
            U = OPERATORS["set"](x, "|")
            operands += U.sets if isinstance(U, ConvexUnion) else [U]
        if len(operands) < 2:
            got = repr(operands[0]) if operands else "none"
            raise CompositionError(
                f"ConvexUnion: expected two sets or more, got {got}; write ConvexUnion(A, B), or A | B"
            )
        object.__setattr__(self, "sets", tuple(operands))
        self.__post_init__()

    def infeasibility_reason(self, data: Data) -> str | None:
        reasons = filter(None, (U.infeasibility_reason(data) for U in self.sets))
        return next((f"{brief(self)}: every operand must have a point; {why}" for why in reasons), None)

    def _lowered(self, data: Data) -> tuple[list[LoweredSet], ConvexCombination]:
        """Return the lowered operands and the convex combination of their domains, cached in the data."""
        return self.once("union", lambda: self._lower_operands(data), data)

    def _lower_operands(self, data: Data) -> tuple[list[LoweredSet], ConvexCombination]:
        images, operands = [U.lower(data) for U in self.sets], []
        for U, image in zip(self.sets, images, strict=True):
            if not _bounded(U, data, image):
                raise CompositionError(
                    f"{brief(self)}: expected bounded sets, as the hull of others need not be closed, got "
                    f"{brief(U)}; bound it, as by U & Ball(0, r)"
                )
            plain = not image.center.any() and not any(c.offset.any() for c in image.couplings)
            domains = [(b.domain, b.map.shape[1]) for b in image.blocks]
            least = _SMALL * max(data.scale, float(np.abs(image.center).max(initial=0.0)))
            operands.append((domains, unit_of([D for D, _ in domains], plain, least)))
        return images, convex_combination(operands)

    def combination(self, data: Data) -> ConvexCombination:
        """Return the domain of the single block of the union: the convex combination of all operands."""
        return self._lowered(data)[1]

    def lower(self, data: Data) -> LoweredSet:
        images, domain = self._lowered(data)
        n = images[0].center.size
        blocks = [b for image in images for b in image.blocks]
        maps: list[LinearMap] = [b.map for b in blocks]
        pairs = zip(images, domain.operands, strict=True)
        centers = [image.center / o.unit for image, o in pairs if o.unit]
        if centers:  # the coefficients t_g stand behind the parameters of the operands
            maps.append(MatrixMap(np.column_stack(centers)))
        parts = zip((p.where for o in domain.operands for p in o.parts), blocks, strict=True)
        block = Block(
            maps[0] if len(maps) == 1 else HStack(*maps),
            domain,
            parts=tuple((where, b) for where, b in parts if b.samples is not None),
        )
        meets = [self._coupled(g, c, domain) for g, image in enumerate(images) for c in image.couplings]
        return LoweredSet(np.zeros(n), (block,), tuple(meets))

    def _coupled(self, g: int, c: Coupling, domain: ConvexCombination) -> Coupling:
        """Return the coupling `offset + sum_j B_j q_j = 0` of the operand g, multiplied by t_g."""
        terms, height = dict(c.terms), c.offset.size
        maps: list[LinearMap] = []
        for k, o in enumerate(domain.operands):
            for j, p in enumerate(o.parts):
                maps.append(terms[j] if k == g and j in terms else zero_map(height, p.size))
        for k, o in enumerate(domain.operands):
            if o.unit:
                offset = c.offset / o.unit if k == g else np.zeros(height)
                maps.append(MatrixMap(offset[:, None]))
        return Coupling((str(g), *c.path), ((0, HStack(*maps)),), np.zeros(height))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        images, domain = self._lowered(data)
        t, points = domain.split(next(q))
        x = np.zeros(images[0].center.size)
        violation = max(abs(float(t.sum()) - 1.0), -float(t.min()))
        for U, operand, t_g in zip(self.sets, domain.operands, t, strict=True):
            blocks = [points[p.where] for p in operand.parts]
            if t_g > 0.0:
                point, violation_g = U.evaluate(data, iter(blocks))
                x = x + t_g * point
                violation += t_g * violation_g
            else:
                violation += sum(float(np.abs(v).max(initial=0.0)) for v in blocks)
        return x, violation if violation > 1e-12 else 0.0

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        t = cp.Variable(len(self.sets), nonneg=True)
        unit, points, constraints = scope.unit(data.scale), [], [cp.sum(t) == 1]
        for g, U in enumerate(self.sets):
            x, own = U.cvxpy(data, scope)
            p, inside = perspective(x / unit, own, t[g])
            points.append(p)
            constraints += inside
        return unit * sum(points[1:], start=points[0]), constraints

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        heights = [U.support(data, d, subpaths(splits, str(g))) for g, U in enumerate(self.sets)]
        return max(heights, key=lambda pair: pair[0])

    def __repr__(self) -> str:
        return " | ".join(in_parentheses(repr(U)) for U in self.sets)

    def formula(self, notation: Notation) -> str:
        parts = (in_parentheses(U.formula(notation)) for U in self.sets)
        return f"{notation.word('conv')}({notation.union.join(parts)})"


def _bounded(U: UncertaintySet, data: Data, image: LoweredSet) -> bool:
    """True if the domains of U, or U itself, have finite support along a random line (to both sides)."""

    def both_ways(n: int) -> Iterator[Vec]:
        d = np.random.default_rng(0).standard_normal(n)
        return iter((d, -d))

    reaches = (b.domain.support(g)[0] for b in image.blocks for g in both_ways(b.map.shape[1]))
    if all(map(np.isfinite, reaches)):
        return True
    return all(np.isfinite(U.support(data, d, {})[0]) for d in both_ways(image.center.size))
