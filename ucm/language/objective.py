"""Losses, penalties and their objectives: multiples, sums, and difference-of-convex splits.

The objective is `loss + lam * penalty` of Ong and Le Thi (2013).
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, DataError, brief
from ucm.language import cvx as cp
from ucm.language.cone import PolyhedralCone
from ucm.language.contracts import UncertaintySet
from ucm.language.node import (
    OPERATORS,
    Node,
    Notation,
    RotationInvariant,
    SolvableModel,
    in_parentheses,
    number_in,
    operator,
    restricted,
    some,
    source,
)
from ucm.language.parameter import Scalar, Scope, as_factor, declared_value, is_zero, value
from ucm.language.per_sample import PerSample
from ucm.language.robust import RobustMargin
from ucm.language.terms import (
    Bound,
    ConvexLoss,
    JointLoss,
    Loss,
    Penalty,
    ProximalPenalty,
    Relaxed,
    Subgroup,
    SubtractedPart,
    Term,
    multiple,
)

Need = Literal["worst mean", "perturbations", "shapes", "envelope", "flips", "offset"]
"""What a method must know of an objective beside losses of margins and a penalty with an exact split.

"worst mean": a loss is the largest of weighted means. "perturbations": losses move the samples, by one norm
of w; "shapes": within sets whose shape differs by sample. "envelope": the split has a convex lower bound in
place of a penalty. "flips": loss and penalty share a variable. "offset": the scores have an offset.
"""

Part = TypeVar("Part", bound=ProximalPenalty | SubtractedPart)

_REMEDIES = {
    "**": "a power of the loss is Hinge(p), of a norm of w Lp(p)",
    "@": "a penalty of D w is Quadratic(D.T @ D), LinearConstraint(D, lb, ub) or a class of your own",
    "<": "the largest of mean losses is WorstMean(loss, groups=...); losses and penalties are only added",
}
_REMEDIES[">"] = _REMEDIES["<"]
_INTERCEPTS = ("free", "penalised")
_RANGE = (
    "losses and penalties are multiplied by positive finite numbers",
    "a negative multiple would make the objective concave",
)


class TermMultiple(Term[Any], RotationInvariant):
    """A positive multiple `factor * term` of a loss or a penalty."""

    factor: Scalar = restricted(lambda c: 0.0 < c < math.inf, *_RANGE)
    term: Loss | Penalty

    def c(self) -> float:
        """Return the present value of the factor."""
        return value(self.factor)

    def split(self) -> tuple[tuple, tuple]:
        """Return the split of the term, with each part multiplied by the factor."""
        added, subtracted = (tuple(multiplied(self.factor, t) for t in part) for part in self.term.split())
        return added, subtracted

    def with_column(self, n: int) -> Any:
        return replace(self, term=self.term.with_column(n))  # type: ignore[union-attr]

    def __repr__(self) -> str:
        return f"{in_parentheses(source(self.factor))} * {in_parentheses(repr(self.term))}"

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.term.formula(notation), notation)


class TermSum(Term[Any], RotationInvariant):
    """A sum of losses or of penalties, written with `+`."""

    terms: tuple[Loss | Penalty, ...]

    def addends(self) -> tuple[Loss | Penalty, ...]:
        return self.terms

    def split(self) -> tuple[tuple, tuple]:
        parts = [term.split() for term in self.terms]
        return tuple(t for plus, _ in parts for t in plus), tuple(t for _, minus in parts for t in minus)

    def with_column(self, n: int) -> Any:
        return replace(self, terms=tuple(term.with_column(n) for term in self.terms))  # type: ignore[union-attr]

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def formula(self, notation: Notation) -> str:
        return " + ".join(term.formula(notation) for term in self.terms)


# --- losses ---------------------------------------------------------------------------------------
class DerivedLoss(ConvexLoss):
    """A loss `c l` by the convex loss l, `inner`; c = 1 by default.

    `(c l)*(s) = c l*(s / c)`, and the proximal map of `t (c l)*` at v is c times that of `(t / c) l*` at
    v / c.
    """

    @property
    @abstractmethod
    def inner(self) -> ConvexLoss:
        """The loss l."""

    def c(self) -> float:
        """Return the present value of the factor."""
        return 1.0

    def each(self, margin: Vec) -> Vec:
        return self.c() * self.inner.each(margin)

    @property
    def moves(self) -> str:
        return self.inner.moves

    @property
    def offset(self) -> float:
        return self.inner.offset

    def slope(self) -> float | None:
        slope = self.inner.slope()
        return None if slope is None else self.c() * slope

    def smooth(self) -> bool:
        return self.inner.smooth()

    def conjugate(self, s: Vec) -> Vec:
        c = self.c()
        return c * self.inner.conjugate(s / c)

    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        c = self.c()
        return c * self.inner.conjugate_prox(v / c, t / c)

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        c = self.c()
        return self.inner.conjugate_prox_slope(v / c, t / c, s / c)

    def gradient(self, u: Vec) -> Vec:
        return self.c() * self.inner.gradient(u)

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        c = self.c()
        height, domain = self.inner.conjugate_cvxpy(s / c)
        return c * height, domain

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.inner.cvxpy(margin, factor, scope)


class ScaledLoss(TermMultiple, DerivedLoss):
    """A multiple of a convex loss."""

    term: ConvexLoss

    @property
    def inner(self) -> ConvexLoss:
        return self.term

    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(margin, factor * self.factor, scope)


class LossSum(TermSum, Loss):
    """A sum of losses."""

    terms: tuple[Loss, ...] = some("loss")

    def value(
        self, margin: Vec, y: Vec | None = None, weights: Vec | None = None, subgroup: Subgroup = None
    ) -> float:
        return sum(term.value(margin, y, weights, subgroup) for term in self.terms)

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Subgroup = None, /) -> Vec:
        each = [term.values(margin, y, subgroup) for term in self.terms]
        return functools.reduce(np.add, each)


class ScaledDifference(TermMultiple, Loss):
    """A multiple of a non-convex loss."""

    term: Loss

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Subgroup = None, /) -> Vec:
        return self.c() * self.term.values(margin, y, subgroup)


# --- penalties ------------------------------------------------------------------------------------
class ScaledPenalty(TermMultiple, ProximalPenalty):
    """A multiple of a convex penalty by c >= 0, zero for c = 0; `(c R)*(z) = c R*(z / c)` for c > 0."""

    factor: Scalar = restricted(lambda c: 0.0 <= c < math.inf, *_RANGE)
    term: ProximalPenalty

    @property
    def keeps_signs(self) -> bool:  # type: ignore[override]
        return self.term.keeps_signs

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPart, ...]]:
        return ((self,) if declared_value(self.factor) > 0.0 else ()), ()

    def value(self, w: Vec, /) -> float:
        c = self.c()
        return c * self.term.value(w) if c > 0.0 else 0.0

    def prox(self, v: Vec, t: float) -> Vec:
        c = self.c()
        return self.term.prox(v, c * t) if c > 0.0 else v

    def conjugate(self, z: Vec) -> float:
        c = self.c()
        return c * self.term.conjugate(z / c) if c > 0.0 else 0.0

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        c = self.c()
        return self.term.prox_slope_times(v, c * t, M) if c > 0.0 else M

    def gauge(self, z: Vec) -> float:
        c = self.c()
        if c == 0.0:
            return math.inf if np.any(z) else 0.0
        return self.term.gauge(z / c)

    def domain_cone(self) -> PolyhedralCone | None:
        return self.term.domain_cone()

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        return self.term.project_onto_domain_cone(z)

    def project_domain(self, w: Vec) -> Vec:
        return self.term.project_domain(w) if self.c() > 0.0 else w

    def order(self) -> int:
        return self.term.order()

    def norms(self) -> tuple[float, float, float] | None:
        norms, c = self.term.norms(), self.c()
        return None if norms is None else (c * norms[0], c * norms[1], c * norms[2])

    def box(self) -> tuple[Bound, Bound] | None:
        box, c = self.term.box(), self.c()
        return None if box is None else (c * box[0], c * box[1])

    def gradient(self, w: Vec) -> Vec | None:
        gradient = self.term.gradient(w)
        return None if gradient is None else self.c() * gradient

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        return self.term.cvxpy(w, factor * self.factor, scope)


class ScaledSplit(TermMultiple, Penalty):
    """A multiple of a non-convex penalty."""

    term: Penalty

    def value(self, w: Vec, /) -> float:
        return self.c() * self.term.value(w)

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        return tuple(ScaledPenalty(self.factor, R) for R in self.term.surrogates())


class PenaltySum(TermSum, Penalty):
    """A sum of penalties."""

    terms: tuple[Penalty, ...] = some("penalty")

    def split(self) -> tuple[tuple, tuple]:
        """Return the split of the sum, where some terms are relaxed that of its convex lower bound."""
        added, subtracted = super().split()
        for R in self.nodes_of_type(Relaxed):
            added = R.envelope(added)
        return added, subtracted

    def value(self, w: Vec, /) -> float:
        return sum(term.value(w) for term in self.terms)

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        return tuple(R for term in self.terms for R in term.surrogates())


# --- objectives -----------------------------------------------------------------------------------
class Objective(SolvableModel["Objective"], Term["Objective"], RotationInvariant):
    """The model `min over w, b of sum_i l(y_i (w'x_i + b + o_i)) + R(w)`: a loss plus a penalty.

    Parameters
    ----------
    loss : Loss
        The loss of the margins, summed over the samples.
    penalty : Penalty
        The penalty of w; of b only where the intercept is "penalised".
    intercept : "free", "penalised" or None, optional
        b is a variable, or `scaling` times the weight of one more feature of value `scaling`, or 0.
    scaling : float, optional
        The value of that feature, positive.
    offset : PerSample, optional
        o_i, a known part of the score of each sample; None for 0.

    Notes
    -----
    Ong and Le Thi (2013), equation (1). The penalised intercept is that of LIBLINEAR (Fan et al., 2008).

    Examples
    --------
    >>> import ucm
    >>> objective = ucm.Ramp() + 0.5 * ucm.CappedL1(a=1)
    >>> G, H = objective.dc()
    >>> print(G)
    Σ_{i} max(0, 1 - t_i) + 0.5·‖w‖₁
    >>> print(H)
    Σ_{i} max(0, -1 - t_i) + 0.5·Σ_{j} max(0, |w_j| - 1)
    """

    loss: Loss
    penalty: Penalty
    intercept: str | None = restricted(
        lambda x: x in (None, *_INTERCEPTS),
        "intercept is None, 'free' or 'penalised'",
        "leave it out for 'free'",
        default="free",
    )
    scaling: float = number_in("(0, inf)", "scaling", "leave it out for 1", default=1.0)
    offset: PerSample | None = restricted(
        lambda _: True,
        "offset is a quantity of each sample, whose values come with the samples",
        'write with_offset(per_sample("offset")) and fit(X, y, offset=values)',
        default=None,
    )

    def with_offset(self, offset: PerSample | None) -> Objective:
        """Return the objective whose scores are `w'x_i + b + o_i`, o_i a value that is known for each sample.

        As in generalised linear models, it is a prior log odds of the classes, the score of another
        classifier, or `-y_i c_i` for the margin `1 + c_i` of a sample in place of 1.

        Parameters
        ----------
        offset : PerSample or None
            Its values come with the samples, and those of new samples with their prediction.

        Raises
        ------
        CompositionError
            Numbers in place of a quantity of each sample.

        Notes
        -----
        McCullagh and Nelder (1989), Generalized linear models, section 3.3.

        Examples
        --------
        >>> import ucm
        >>> model = (ucm.Logistic() + ucm.L2()).with_offset(ucm.per_sample("offset"))
        >>> print(model)
        min_{w, b} Σ_{i} log(1 + exp(-t_i)) + ‖w‖₂^2,  t_i = y_i(w'x_i + b + offset_i)
        >>> X, y = [[2.0], [1.0], [-1.0]], [1, 1, -1]
        >>> sol = ucm.solve(model, X, y, per_sample={"offset": [1.0, 0.0, -1.0]})
        >>> round(sol.objective, 4)
        0.9286
        """
        return replace(self, offset=offset)

    def with_intercept(self, intercept: str | None, scaling: float = 1.0) -> Objective:
        """Return the objective with a free, a penalised or no intercept b.

        Parameters
        ----------
        intercept : "free", "penalised" or None
            None means b = 0. "penalised" means one more feature with the value `scaling` for all samples: its
            weight w_{n+1} is a part of every norm of the penalty, and b is `scaling` times it. It has no part
            in weights, groups, matrices and constraints, which are of the given features.
        scaling : float, optional
            The larger, the less b is penalised.

        Examples
        --------
        >>> import ucm
        >>> print((ucm.Hinge() + ucm.L2()).with_intercept(None))
        min_{w} Σ_{i} max(0, 1 - t_i) + ‖w‖₂^2,  t_i = y_i w'x_i
        """
        return replace(self, intercept=intercept, scaling=scaling)

    @property
    def penalised(self) -> bool:
        """True if the intercept is the weight of one more feature."""
        return self.intercept == "penalised"

    def with_column(self, n: int) -> Objective:
        """Return the objective without intercept whose feature n + 1 stands for the penalised one."""
        penalty, last = self.penalty.with_column(n), np.eye(1, n + 1, n)[0]
        # term by term, as a constraint may exclude the others at 0
        if not any(0.0 < R.value(last) < math.inf for R in penalty.addends()):
            raise CompositionError(
                f"with_intercept: expected a penalty of the intercept, got {self.penalty!r}, whose terms are "
                "of the given features only; add a multiple of L2(), or take intercept='free'"
            )
        return replace(self, penalty=penalty, intercept=None, scaling=1.0)

    def value(
        self,
        margin: Vec,
        w: Vec,
        y: Vec | None = None,
        weights: Vec | None = None,
        subgroup: Subgroup = None,
        b: float | None = None,
        per_sample: Mapping[str, Vec] = MappingProxyType({}),
    ) -> float:
        """Return the value of the objective at the margins `y_i (w'x_i + b)` and the normal w.

        The losses of the samples are multiplied by their weights. A loss of a class or a group needs the
        labels y and the groups; a penalised intercept needs b, and a quantity of each sample, as an offset,
        its values.
        """
        G, H = self.dc()
        margin = margin + self.shift(y, per_sample)
        margin = _worst((*G.pointwise, *H.losses), margin, w, y, subgroup, per_sample)
        if not self.penalised:
            return self.total(margin, w, y, weights, subgroup)
        if b is None:
            raise CompositionError(
                f"{self!r}: expected b, which is penalised, got margins and w alone; write "
                "value(margin, w, b=b)"
            )
        return self.with_column(len(w)).total(margin, np.append(w, b / self.scaling), y, weights, subgroup)

    def total(
        self, margin: Vec, w: Vec, y: Vec | None, weights: Vec | None, subgroup: Subgroup = None
    ) -> float:
        """Return the loss of the worst points' margins plus the penalty of w, with that of the intercept."""
        return self.loss.value(margin, y, weights, subgroup) + self.penalty.value(w)

    def shift(self, y: Vec | None, per_sample: Mapping[str, Vec]) -> Bound:
        """Return `y_i o_i`, the part of the margins that an offset of the scores is; 0 without one."""
        if self.offset is None:
            return 0.0
        values = per_sample.get(self.offset.name)
        if y is None or values is None:
            raise CompositionError(
                f"{self!r}: expected y and the values of {self.offset!r}, got margins without them; write "
                f"value(margin, w, y, per_sample={{{self.offset.name!r}: values}})"
            )
        if np.ndim(values) != 1:
            raise DataError(
                f"{self.offset!r}: expected one number for each sample, got the shape {np.shape(values)}; "
                "give the offset of each score"
            )
        return y * values

    def dc(self) -> tuple[ConvexPart[ProximalPenalty], ConvexPart[SubtractedPart]]:
        """Return the convex functions (G, H) of the difference-of-convex split G - H of the objective."""
        return self._parts

    @functools.cached_property
    def _parts(self) -> tuple[ConvexPart[ProximalPenalty], ConvexPart[SubtractedPart]]:
        added, subtracted = self.loss.split()
        plus, minus = self.penalty.split()
        joint = self.loss.nodes_of_type(JointLoss)
        return ConvexPart(added, plus, joint), ConvexPart(subtracted, minus)

    @functools.cached_property
    def needs(self) -> frozenset[Need]:
        """The `Need`s of the objective; none of losses of margins and a penalty with an exact split."""
        moves = {loss.moves for loss in self.loss.nodes_of_type(ConvexLoss)}
        found: dict[Need, object] = {
            "worst mean": self.loss.nodes_of_type(JointLoss),
            "perturbations": "perturbations" in moves,
            "shapes": "shapes" in moves,
            "envelope": self.relaxed,
            "offset": self.offset is not None,
        }
        return frozenset(need for need, holds in found.items() if holds)

    @functools.cached_property
    def relaxed(self) -> tuple[Relaxed, ...]:
        """The penalties in whose place the split has a convex lower bound, or nothing at all."""
        found = self.penalty.nodes_of_type(Relaxed)
        if len(found) != 1 or self.relative_names():  # a relative factor has no value yet, and no bound
            return tuple(found)
        held = self.dc()[0].penalties != tuple(R for h in self.penalty.addends() for R in h.split()[0])
        return tuple(R for R in found if not (held and R.exact))

    @property
    def convex(self) -> bool:
        """True if the split of the objective is exact, and has no subtracted part."""
        if self.relaxed:
            return False
        H = self.dc()[1]
        return not H.losses and not H.penalties

    def __repr__(self) -> str:
        terms, said = f"{self.loss!r} + {self.penalty!r}", ""
        if self.intercept != "free":
            scaling = "" if self.scaling == 1.0 else f", {source(self.scaling)}"
            said = f".with_intercept({self.intercept!r}{scaling})"
        said += "" if self.offset is None else f".with_offset({self.offset!r})"
        return f"({terms}){said}" if said else terms

    @property
    def variables(self) -> str:
        """The variables of the minimum: w, and b if it is free."""
        return "w, b" if self.intercept == "free" else "w"

    def score(self, x: str, notation: Notation) -> str:
        """Return the formula of the score of a sample x; a penalised intercept is one more feature."""
        score = f"w'({x}, {self.scaling:g})" if self.penalised else f"w'{x}"
        score += " + b" if self.intercept == "free" else ""
        score += "" if self.offset is None else f" + {self.offset.formula(notation)}"
        return f"({score})" if " + " in score else f" {score}"

    def formula(self, notation: Notation) -> str:
        total = f"{self.loss.formula(notation)} + {self.penalty.formula(notation)}"
        t, y, x = (notation.sub(name, "i") for name in "tyx")
        least = notation.under("min", self.variables)
        return notation.separated(f"{least} {total}", f"{t} = {y}{self.score(x, notation)}")


class ConvexPart(Node, Generic[Part]):
    """A sum of convex losses (`joint` of all samples) and functions of w, a part of a DC split."""

    losses: tuple[ConvexLoss, ...] = ()
    penalties: tuple[Part, ...] = ()
    joint: tuple[JointLoss, ...] = ()

    @property
    def pointwise(self) -> tuple[ConvexLoss, ...]:
        """The losses of single samples: the losses, and those whose weighted sums the joint losses are."""
        return *self.losses, *(loss.loss for loss in self.joint)

    def value(
        self, margin: Vec, w: Vec, y: Vec | None = None, weights: Vec | None = None,
        subgroup: Subgroup = None, per_sample: Mapping[str, Vec] = MappingProxyType({}),
    ) -> float:  # fmt: skip
        """Return the value of the sum at the margins and the normal w, as `Objective.value`."""
        margin = _worst(self.pointwise, margin, w, y, subgroup, per_sample)
        losses = (*self.losses, *self.joint)
        return sum(loss.value(margin, y, weights, subgroup) for loss in losses) + sum(
            penalty.value(w) for penalty in self.penalties
        )

    def formula(self, notation: Notation) -> str:
        terms = (*self.losses, *self.joint, *self.penalties)
        return " + ".join(term.formula(notation) for term in terms) or "0"


def _worst(losses: tuple[ConvexLoss, ...], margin: Vec, *of_samples: object) -> Vec:
    """Return the margins of the worst points of the samples that losses perturb, of others the margins."""
    return OPERATORS["worst margins"](losses, margin, *of_samples) if any(x.moves for x in losses) else margin


# --- operators ------------------------------------------------------------------------------------
@operator("terms")
def combined(symbol: str, a: object, b: object) -> Any:
    """Return `a symbol b` for losses, penalties and objectives: a positive multiple, a quotient or a sum.

    Raises
    ------
    CompositionError
        Another operator, a product or a difference of terms, or a sum with an operand that is no term.
    """
    if symbol == "*":
        return multiplied(_factor(a, b), b)
    if symbol == "/":
        divisor = _factor(b, a)
        if divisor == 0.0:
            raise CompositionError(f"{a!r} / 0: a term is divided by a positive number")
        return multiplied(1.0 / divisor, a)
    if symbol == "+":
        return _sum(a, b)
    if symbol == "-":  # a subtracted loss or penalty leaves no convex part to rely on
        raise CompositionError(
            f"{a!r} - {b!r}: losses and penalties are only added; a subtracted one would make the "
            "objective concave in places without bound (Ramp, CappedL1, ExpL0, MCP and SCAD are the "
            "bounded differences)"
        )
    remedy = _REMEDIES.get(symbol, "write 0.5 * a + b")
    left, right = in_parentheses(brief(a)), in_parentheses(brief(b))
    raise CompositionError(
        f"{left} {symbol} {right}: expected a sum or a multiple of terms, got {symbol}; {remedy}"
    )


def _factor(c: object, term: object) -> Scalar:
    factor = as_factor(c)
    if factor is None:
        reason = "two terms do not multiply" if isinstance(c, Term) else f"got the factor {c!r}"
        raise CompositionError(f"{term!r}: {reason}; a term is multiplied by a number or a Param")
    return factor


def multiplied(factor: Scalar, term: Any) -> Any:
    """Return a factor times a loss, a penalty, an objective or a subtracted part; of a sum term by term."""
    if factor == 1.0:
        return term
    match term:
        case TermSum():
            return type(term)(tuple(multiplied(factor, t) for t in term.terms))
        case Objective() if "flips" in term.needs:
            raise CompositionError(
                f"{term!r}: expected no factor, got {factor!r}; give it in eps and the loss"
            )
        case Objective():
            loss, penalty = multiplied(factor, term.loss), multiplied(factor, term.penalty)
            return replace(term, loss=loss, penalty=penalty)
        case SubtractedPart():
            return replace(term, factor=factor * term.factor)
        case ConvexLoss():
            return ScaledLoss(factor, term)
        case JointLoss():
            return term.times(factor)
        case ProximalPenalty():
            return ScaledPenalty(factor, term)
    return ScaledDifference(factor, term) if isinstance(term, Loss) else ScaledSplit(factor, term)


def summed(kind: type[TermSum], terms: list) -> Any:
    """Return the flat sum of the terms: the term itself if single, None without terms."""
    flat = [t for term in terms for t in term.addends()]
    return kind(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None


def _sum(a: object, b: object) -> Any:
    """Return a + b: losses and penalties together make an objective, and 0 changes nothing."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if isinstance(b, UncertaintySet | RobustMargin):
        return b.__radd__(a)  # which says what to write, or adds a penalty to a margin
    parts: list[Term] = []
    declared: set[tuple] = set()
    for term in map(OPERATORS["as constraint"], (a, b)):
        if not isinstance(term, Term):
            raise CompositionError(
                f"{a!r} + {b!r}: expected losses and penalties, got {term!r}; "
                "write for example Hinge() + 0.5 * L1()"
            )
        if isinstance(term, Objective):
            if "flips" in term.needs:
                raise CompositionError(
                    f"{a!r} + {b!r}: a Wasserstein ball has one loss, whose norm of w is its penalty; write "
                    "it alone"
                )
            declared.add((term.intercept, term.scaling, term.offset))
            parts += (term.loss, term.penalty)
        else:
            parts.append(term)
    if len(declared) > 1:
        raise CompositionError(
            f"{a!r} + {b!r}: got two intercepts or offsets; write (A + B).with_intercept(...) once"
        )
    loss = summed(LossSum, [part for part in parts if isinstance(part, Loss)])
    penalty = summed(PenaltySum, [part for part in parts if isinstance(part, Penalty)])
    if loss is None or penalty is None:
        return penalty if loss is None else loss
    return Objective(loss, penalty, *declared.pop()) if declared else Objective(loss, penalty)


def of_all(loss: ConvexLoss) -> tuple[ConvexLoss, float]:
    """Return a loss of a class or group extended to all samples, without its factor, and the factor."""
    if loss.counted is None:
        return loss, 1.0
    factor, base = split_scalar(loss)
    return replace(base, on=None), factor


def split_scalar(term: Any) -> tuple[float, Any]:
    """Return (c, S) with `term = c S`, S not a multiple."""
    c = 1.0
    while isinstance(term, TermMultiple):
        c, term = c * term.c(), term.term
    return c, term
