"""Bounds on the error of a fitted classifier: by its uncertainty set or held-out samples.

A bound by the set holds for every distribution that the set stands for. It is a statement about the samples
and those distributions, and a probability statement only where its row has a probability.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import betaincinv, ndtr

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import DataError, ParameterError, brief
from ucm.forms.display import Raw, aligned, sheet
from ucm.forms.display import table as html_table
from ucm.forms.solution import Solution
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import ChiSquareBall, KLBall, NormBall
from ucm.language.domains.simplex import Capped
from ucm.language.node import TEXT
from ucm.language.objective import Objective
from ucm.language.parameter import BinaryExpression, value
from ucm.language.robust import RobustMargin, dual_exponent
from ucm.language.sets import Ball, Ellipsoid, Hull, Intersection
from ucm.language.sets.combination import summands
from ucm.language.statistics.affine import ConstantMatrix, Origin
from ucm.language.statistics.samples import Samples, neg, pos, signed

_CLASSES = {1: pos, -1: neg}


@dataclass(frozen=True)
class Guarantee:
    """A bound on the error, the AUC or the margins of a classifier, with formula and source.

    Attributes
    ----------
    what : the quantity that is bounded
    of : the samples concerned
    value : the bound, at the fitted (w, b)
    lower : True if the quantity is at least the value; False if it is at most the value
    formula : how the value is computed
    assumption : the distributions or samples for which the bound holds
    source : paper
    probability : the probability of the bound; None if it is no probability statement
    """

    what: str
    of: str
    value: float
    formula: str
    assumption: str
    source: str
    probability: float | None = None
    lower: bool = False

    @property
    def holds(self) -> str:
        """The probability with which the bound holds as text, or "no probability statement"."""
        stated = self.probability is not None
        return f"probability {self.probability:.4g}" if stated else "no probability statement"

    @property
    def sign(self) -> str:
        """The relation sign of the bound: "≥" for a lower bound, "≤" for an upper bound."""
        return "≥" if self.lower else "≤"

    def __str__(self) -> str:
        return f"{self.what}, {self.of}: {self.sign} {self.value:.4g}"


@dataclass(frozen=True)
class Guarantees(Sequence[Guarantee]):
    """The sequence of `Guarantee`s of a fitted classifier, held-out bounds first; printed as a table.

    Attributes
    ----------
    rows : the bounds
    note : a remark on all bounds
    """

    rows: tuple[Guarantee, ...]
    note: str = ""

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        cells = [(f"{row.what}, {row.of}", f"{row.sign} {row.value:.4g}", row.holds) for row in self.rows]
        lines = []
        for row, line in zip(self.rows, aligned(cells), strict=True):
            lines += [line, f"    {row.formula}", f"    for {row.assumption}", f"    {row.source}"]
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        head = ("bound", "of", "", "value", "holds with", "formula", "for", "source")
        rows = [
            (r.what, r.of, r.sign, r.value, r.holds, r.formula, r.assumption, r.source)
            for r in self.rows
        ]  # fmt: skip
        table = html_table(rows, head) if rows else Raw("")
        return sheet(f"Guarantees: {len(rows)} bounds", {}, table, self.note)


def guarantees(
    model: RobustMargin | Objective,
    data: Data,
    solution: Solution,
    X_test: object = None,
    y_test: ArrayLike | None = None,
    level: float = 0.95,
) -> Guarantees:
    """Return the `Guarantees` of a solution: the implementation of `Plan.guarantees`."""
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise ParameterError(f"guarantees: level lies in (0, 1), got {brief(level)}; leave it out for 0.95")
    if (X_test is None) != (y_test is None):
        raise ParameterError(
            "guarantees: expected X_test and y_test together, got one of them; give both or none"
        )
    if y_test is not None and model.offset is not None:
        raise ParameterError(
            f"guarantees: expected a model without an offset of the scores, got {brief(model)}; leave X_test "
            "out, whose offsets are not known"
        )
    rows = [] if y_test is None else [*_held_out(solution, X_test, y_test, level)]
    if isinstance(model, Objective):
        note = "A loss and a penalty hold no set of distributions: only samples bound the error."
        return Guarantees(tuple(rows), note)
    w, X = solution.w, data.X if data.gram is None else data.gram.X
    other_space = solution.expansion is None and w.size != X.shape[1]
    if other_space or (w is not None and not np.any(w)):
        note = "w is 0, or lives in another space than the samples: the set promises nothing there."
        return Guarantees(tuple(rows), note)
    set_rows = [*_of_set(model.set, _Fitted(data, solution))]
    note = "" if set_rows else "No promise of this set is known here."
    if any(row.probability is None for row in set_rows):
        note = (
            "Bounds from the moments or losses of the samples are exact for the distributions named, and "
            "no probability statements about the true one."
        )
    return Guarantees((*rows, *set_rows), note)


# --- held-out samples ------------------------------------------------------------------------------
def _held_out(solution: Solution, X: object, y: ArrayLike, level: float) -> Iterator[Guarantee]:
    """Yield upper Clopper-Pearson bounds of the error, in total and by class; a score of 0 is an error."""
    scores = solution.decision(X)
    try:
        labels = np.asarray(y, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise DataError(f"y_test: expected labels -1 and +1, got {brief(y)}; give numbers") from error
    if labels.size != scores.size or not np.isin(labels, (-1.0, 1.0)).all() or not labels.size:
        raise DataError(
            f"y_test: expected a label -1 or +1 for each of {scores.size} samples, got {labels.size} with "
            f"values {brief(np.unique(labels)[:5].tolist())}; give one for each row of X_test"
        )
    wrong = labels * scores <= 0.0
    for name, rows in (
        ("new samples", np.ones(labels.size, dtype=bool)),
        ("class +1", labels > 0.0),
        ("class -1", labels < 0.0),
    ):
        N, k = int(np.count_nonzero(rows)), int(np.count_nonzero(wrong & rows))
        if N == 0:
            continue
        bound = 1.0 if k == N else float(betaincinv(k + 1, N - k, level))
        yield Guarantee(
            "error", name, bound,
            f"the p with P(Bin({N}, p) <= {k}) = {1.0 - level:.4g}: {k} errors in {N} held-out samples",
            "independent test samples that neither the fit nor its choices saw; each row by itself",
            "Clopper and Pearson (1934)", level,
        )  # fmt: skip


# --- the fit ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Fitted:
    """A fitted (w, b) with its margins, and their mean and standard deviation by class."""

    data: Data
    solution: Solution

    @functools.cached_property
    def margins(self) -> Vec:
        """The margins `y_i (w'x_i + b)` of the training samples, which must be in memory."""
        X = self.data.X if self.data.gram is None else self.data.gram.X
        if self.solution.w is None:
            return self.data.y * self.solution.decision(X)
        return self.data.y * (np.asarray(X @ self.solution.w) + (self.solution.b or 0.0))

    def norm(self, p: float) -> float:
        """Return the norm `||w||_p`; 1 with a kernel, where `||w||_2 = 1`."""
        w = self.solution.w
        return 1.0 if w is None else float(np.linalg.norm(w, p))

    def moments(self, label: int) -> tuple[float, float]:
        """Return the weighted mean and standard deviation of the margins of one class."""
        kind, w = _CLASSES[label].kind, self.solution.w
        if self.data.gram is not None or w is None:
            margins, weights = self.margins[self.data.y == label], self.data.copies(kind)
            mean = float(np.average(margins, weights=weights))
            return mean, math.sqrt(float(np.average((margins - mean) ** 2, weights=weights)))
        center = self.data.mean(kind)
        projection = self.data.covariance_factor(kind).rmatvec(w)
        mean = label * (float(center @ w) + (self.solution.b or 0.0))
        return mean, float(np.linalg.norm(projection))


# --- the set ---------------------------------------------------------------------------------------
def _kinds(U: UncertaintySet) -> set[Samples]:
    return set(U.nodes_of_type(Samples))


def _of_set(U: UncertaintySet, fitted: _Fitted) -> Iterator[Guarantee]:
    """Yield the bounds that the summands of an uncertainty set prove, by class and for both classes."""
    terms = list(summands(U))
    if any(math.isnan(c) for _, c in terms):  # under a matrix
        return
    free = [(V, c) for V, c in terms if not _kinds(V)]
    for label, samples in _CLASSES.items():
        class_terms = [(V, label * c) for V, c in terms if _kinds(V) == {samples}]
        balls = [V for V, c in free if c == label and isinstance(V, Ball)]
        centred = all(type(B.center) is Origin for B in balls)
        recognised = class_terms and centred and all(type(V) is Ball for V, _ in free)
        if not recognised or fitted.solution.b is None or min(c for _, c in class_terms) < 0.0:
            continue
        ellipsoid = _class_ellipsoid(class_terms[0][0], label)
        if len(class_terms) == 1 and class_terms[0][1] == 1.0 and ellipsoid is not None:
            yield from _moments(label, *ellipsoid, balls, fitted)
        elif abs(sum(c for _, c in class_terms) - 1.0) <= 1e-9:
            hulls = [(V, c) for V, c in class_terms if isinstance(V, Hull)]
            if len(hulls) == len(class_terms):
                yield from _losses(label, hulls, balls, fitted)
    for V, c in terms:
        if isinstance(V, Ellipsoid) and c > 0.0 and len(_kinds(V)) == 2:
            yield from _of_difference(V, fitted)
        if isinstance(V, Hull) and V.samples == signed and c > 0.0:
            laws = _laws(V, fitted.data)
            worst = V.coefficient_support(fitted.data, -fitted.margins, {})[0]
            yield Guarantee(
                "worst mean of minus the margin", "both classes, half on each", worst,
                "max of sum_i q_i (-y_i (w'x_i + b))", f"all {laws.words}", laws.source,
            )  # fmt: skip


# --- moments ---------------------------------------------------------------------------------------
def _class_ellipsoid(U: UncertaintySet, label: int) -> tuple[Ellipsoid, float] | None:
    """Return the `Ellipsoid(S.mean, S.cov + rho I, r)` of a class or an intersection, and rho; or None."""
    S = _CLASSES[label]
    match U:
        case Intersection():
            return _class_ellipsoid(U.left, label) or _class_ellipsoid(U.right, label)
        case Ellipsoid() if U.center == S.mean:
            terms = U.shape.as_terms()
            ridges = [term for term in terms if term != (1.0, S.cov)]
            match ridges if len(ridges) == len(terms) - 1 else None:
                case []:
                    return U, 0.0
                case [(c, ConstantMatrix(entries=A))]:
                    entries = A.toarray() if sparse.issparse(A) else A
                    rho = float(entries[0, 0])
                    return (
                        (U, value(c) * rho) if np.array_equal(entries, rho * np.eye(len(entries))) else None
                    )
    return None


def _moments(label: int, U: Ellipsoid, rho: float, balls: list[Ball], fitted: _Fitted) -> Iterator[Guarantee]:
    """Yield upper bounds of the error of one class from the mean and standard deviation of its margins."""
    mean, sd = fitted.moments(label)
    length, of, radius = fitted.norm(2.0), f"class {label:+d}", value(U.radius)
    sd = math.hypot(sd, math.sqrt(rho) * length)
    summed = isinstance(U.radius, BinaryExpression) and U.radius.operation == "+"
    v = value(U.radius.right) if summed else 0.0  # type: ignore[union-attr]
    eps = sum(value(B.radius) for B in balls) / math.hypot(1.0, radius)
    if any(B.p != 2.0 for B in balls) or (eps > 0.0 and (rho > 0.0 or v > 0.0)):
        return
    k = _deviations(mean, sd, eps * length) - v
    formula = "k = (mean of the margin) / (its standard deviation)"
    moments = "its mean and covariance"
    source = "Marshall and Olkin (1960); Lanckriet et al. (2002)"
    if rho > 0.0 or v > 0.0:
        formula = f"k = mean / sqrt(w'(cov + {rho:.4g} I) w) - {v:.4g}"
        moments = (
            f"mean and covariance S with (mu - mean)'S^-1 (mu - mean) <= {v * v:.4g} and "
            f"||S - cov||_F <= {rho:.4g}"
        )
    elif eps > 0.0:
        formula = f"k with mean - {eps:.4g} ||w|| sqrt(1 + k^2) = k (standard deviation)"
        moments = f"moments within a Gelbrich distance {eps:.4g} of the moments of the samples"
        source = "Kuhn et al. (2019)"
    if not k > 0.0:
        text = f"{formula} is not positive: {k:.4g}"
        yield Guarantee("error", of, 1.0, text, f"any law with {moments}", source)
        return
    text = f"1/(1 + k^2), {formula}: {k:.4g}"
    law = f"every distribution with {moments}"
    yield Guarantee("error", of, 1.0 / (1.0 + k * k), text, law, source)
    if k >= 2.0 / math.sqrt(3.0):
        law = f"distributions with a symmetric, unimodal projection on w and {moments}"
        text = f"2/(9 k^2), k = {k:.4g}"
        yield Guarantee("error", of, 2.0 / (9.0 * k * k), text, law, "Gauss (1823)")
    text, law = f"Phi(-k), k = {k:.4g}", f"normal distributions with {moments}"
    yield Guarantee("error", of, float(ndtr(-k)), text, law, "Lanckriet et al. (2002)")


def _deviations(mean: float, sd: float, shift: float) -> float:
    """Return the root k of `mean - shift sqrt(1 + k^2) = k sd`; -inf if 0 < shift and mean <= shift."""
    if mean <= shift:
        return mean / sd if shift == 0.0 < sd else -math.inf
    s, d = shift / mean, sd / mean
    divisor = d + s * math.hypot(d, math.sqrt((1.0 - s) * (1.0 + s)))
    return (1.0 - s) * (1.0 + s) / divisor if divisor > 0.0 else math.inf


def _of_difference(U: Ellipsoid, fitted: _Fitted) -> Iterator[Guarantee]:
    """Yield Cantelli's lower bound of the area under the ROC curve from the means and covariances."""
    if U.center != pos.mean - neg.mean or U.shape not in (pos.cov + neg.cov, neg.cov + pos.cov):
        return
    (up, a), (down, b) = fitted.moments(1), fitted.moments(-1)
    k = _deviations(up + down, math.hypot(a, b), 0.0)
    if not k > 0.0:
        return
    yield Guarantee(
        "area under the ROC curve", "a new pair", 1.0 - 1.0 / (1.0 + k * k),
        f"k^2/(1 + k^2), k = w'd / sqrt(w'S w) = {k:.4g}, d the difference of the means",
        "independent draws of any two distributions with the classes' means and covariances",
        "Cantelli (1928)", lower=True,
    )  # fmt: skip


# --- weights of the samples --------------------------------------------------------------------------
class _Laws(NamedTuple):
    """The distributions over the samples in the weight domain of a hull, as text and with the paper on
    them.

    `part` is beta, if the support function of a reduced hull is the mean of the worst fraction beta;
    `rho` is the largest `chi^2(Q, P)` of a ball of weights.
    """

    words: str
    source: str = "Rockafellar and Uryasev (2000)"
    part: float | None = None
    rho: float | None = None


def _laws(U: Hull, data: Data) -> _Laws:
    """Return the distributions in the weight domain of a hull."""
    samples, both = U.samples.bound(data), U.samples == signed
    rule = "q >= 0" if U.weights is None else U.weights.formula(TEXT)
    words = f"weights of mass 1/2 on each class with {rule}" if both else f"Q on the samples with {rule}"
    match U.weights:
        case ChiSquareBall() as ball:
            rho = ball.size().number ** 2 / (samples.count if ball.rho is None else 1.0)
            return _Laws(words, "Duchi, Glynn and Namkoong (2021)", rho=rho)
        case NormBall(p=2.0) as ball:
            rho = max(samples.total * value(ball.radius) ** 2 - float(not ball.around), 0.0)
            return _Laws(words, "Duchi, Glynn and Namkoong (2021)", rho=rho)
        case KLBall():
            return _Laws(words, "Ben-Tal et al. (2013)")
        case NormBall(p=1.0):
            return _Laws(words, "Jiang and Guan (2018)")
    match U.pieces(data):
        case [Capped() as capped] if not both and capped.groups is not None:
            if capped.cap * float(np.min(capped.samples.c)) < 1.0:
                part = min(1.0, 1.0 / (capped.cap * capped.samples.total))
                words = f"Q with dQ/dP <= 1/{part:.4g} (the mean of the worst part {part:.4g})"
                return _Laws(words, part=part)
    return _Laws(words)


def _losses(
    label: int, hulls: list[tuple[Hull, float]], balls: list[Ball], fitted: _Fitted
) -> Iterator[Guarantee]:
    """Yield bounds from the maximum of the mean of minus the margin over the weights and balls of a class."""
    losses, of = -fitted.margins[fitted.data.y == label], f"class {label:+d}"
    laws = [_laws(V, fitted.data) for V, _ in hulls]
    worst = sum(c * V.coefficient_support(fitted.data, losses, {})[0] for V, c in hulls)
    shares = ["" if c == 1.0 else f"{c:.4g} of " for _, c in hulls]
    words = [share + law.words for share, law in zip(shares, laws, strict=True)]
    sources = [law.source for law in laws]
    part, rho = (laws[0].part, laws[0].rho) if len(laws) == 1 else (None, None)
    for B in balls:
        radius = value(B.radius)
        worst += radius * fitted.norm(dual_exponent(B.p))
        average = "" if part is None else f", or of {radius * part:.4g} on average"
        words.append(f"moves of {radius:.4g} each in the {B.p:g}-norm{average}")
        sources.append("Mohajerin Esfahani and Kuhn (2018)")
    yield Guarantee(
        "worst mean of minus the margin", of, worst, "max of E_Q[-y (w'x + b)]",
        f"all {' and '.join(dict.fromkeys(words))}", "; ".join(dict.fromkeys(sources)),
    )  # fmt: skip
    if part is not None and worst < 0.0:
        yield Guarantee(
            "part of the samples without a positive margin", of, part,
            f"beta = {part:.4g}, as the mean of the worst part beta is negative: {worst:.4g}",
            f"the samples of the class{' after any such move' if balls else ''}", sources[0],
        )  # fmt: skip
    if rho is not None and not balls:
        N = fitted.data.number(_CLASSES[label].kind)
        confidence = float(ndtr(math.sqrt(N * rho)))
        yield Guarantee(
            "true mean of minus the margin", of, worst,
            f"the worst mean above; Phi(sqrt(N rho)) = {confidence:.4g}, N = {N:.6g}",
            "independent samples, as N grows, for a w fixed before; else of the optimal value",
            "Duchi, Glynn and Namkoong (2021)", confidence,
        )  # fmt: skip
