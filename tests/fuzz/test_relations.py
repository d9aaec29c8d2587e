"""What must not change an answer, or change it in a known way: order, scale, shift, labels, storage."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from draws import Case, Source, expression, objective, samples
from guard import Tally, fuzz, guarded
from scipy import sparse
from test_random_expressions import Nearest

import ucm
from ucm import models, neg, pos
from ucm.errors import SolverError, UCMError
from ucm.language.robust import as_model

CLOSE = 3e-6
STILL = ("optimal",)


@dataclass
class Pair:
    """A model and samples, what is to be the same, and the factor between the two objectives."""

    relation: str
    one: Case
    model: Any
    X: Any
    y: np.ndarray
    factor: float = 1.0

    def __repr__(self) -> str:
        X = self.X.toarray() if sparse.issparse(self.X) else np.asarray(self.X)
        return (
            f"{self.relation}, factor {self.factor:g}\n{self.one!r}\nagainst {self.model!r}\n"
            f"X = {X.tolist()}\ny = {self.y.astype(int).tolist()}"
        )


def named(s: Source) -> Any:
    """A model made of samples alone: it scales with them, and most do not see where 0 is."""
    t = s.integer(1, 8) / 8
    return s.pick([
        models.nu_svm(t), models.mm_mpm(t), models.mm_fda(t), models.l2_nu_svm(t), models.kl_svm(t),
        models.biased_l2_nu_svm(t, 0.9), models.coherent_mm_mpm(t),
        ucm.Hull(pos) - ucm.Hull(neg), ucm.RobustMargin(models.nu_svm(t), 1.0),
        ucm.RobustMargin(models.nu_svm(t), math.inf), ucm.RobustMargin(models.nu_svm(t), 1.5),
        ucm.ReducedHull(pos, eta=t) - pos.mean + (pos.mean - neg.mean) - ucm.ReducedHull(neg, eta=0.9)
        + neg.mean,
    ])  # fmt: skip


def exchanged(tree: Any) -> Any:
    """A declaration as JSON, the two classes exchanged."""
    if isinstance(tree, dict):
        if tree.get("node") == "Samples":
            kind = tree["fields"]["kind"]
            other = {"pos": "neg", "neg": "pos"}[kind]
            return {"node": "Samples", "fields": {"kind": other}}
        return {name: exchanged(item) for name, item in tree.items()}
    return [exchanged(item) for item in tree] if isinstance(tree, list) else tree


def stored(s: Source, X: np.ndarray) -> Any:
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    still = X.copy()
    still.flags.writeable = False
    return s.pick([
        sparse.csr_matrix(X), sparse.csc_matrix(X), sparse.coo_array(X), np.asfortranarray(X), wide[:, ::2],
        still, X.tolist(), X.astype(object), X.astype(np.longdouble),
    ])  # fmt: skip


def relative(s: Source) -> Any:
    """A model with one or two relative sizes, which grow or shrink its sets."""
    a, b = (ucm.Param(name, s.integer(1, 7) / 8, relative=True) for name in ("a", "b"))
    return s.pick([
        models.nu_svm(a), models.mm_mpm(a), models.mm_fda(a), models.l2_nu_svm(a), models.kl_svm(a),
        models.biased_l2_nu_svm(a, b), ucm.RobustMargin(models.nu_svm(2 * a), 1.0),
        ucm.ReducedHull(pos, nu=a) - ucm.Ellipsoid(neg.mean, neg.cov, b),
        ucm.Gelbrich(pos, b, a) - ucm.Gelbrich(neg, b, a),
        ucm.Wasserstein(pos, b, 1, a) - neg.mean,
        (ucm.ReducedHull(pos, nu=a) | pos.mean) - ucm.CVaR(neg, b),
    ])  # fmt: skip


def pair(s: Source) -> Pair:
    X, y = samples(s)
    if not s.often(12):
        one = Case(relative(s), X, y)
        return Pair("numbers of relative sizes", one, one.model, X, y)
    one = Case(named(s), X, y)
    kind = s.integer(0, 9)
    m, n = X.shape
    if kind in (0, 1, 2, 3) and s.integer(0, 1):
        anything = s.integer(0, 1)
        one = objective(s, groups=False) if anything else Case(expression(s, n, n, 3), X, y)
        X, y, (m, n) = one.X, one.y, one.X.shape
    if kind == 0:
        order = np.random.default_rng(s.integer(0, 999)).permutation(m)
        return Pair("order of samples", one, one.model, X[order], y[order])
    if kind == 1:
        return Pair("storage", one, one.model, stored(s, X), y)
    sided = ("signed", "on=", "Bounds(")
    if kind == 2 and not any(word in repr(one.model) for word in sided):
        if isinstance(one.model, ucm.Objective):
            return Pair("labels of an objective flipped", one, one.model, X, -y)
        other = ucm.from_json(json.dumps(exchanged(json.loads(ucm.to_json(one.model)))))
        return Pair("classes exchanged", one, other, X, -y)
    if kind == 3 and isinstance(one.model, ucm.extend.UncertaintySet):
        c = s.pick([-1.0, 2.0, 0.5, 1e-6, 1e6, -3.0])
        return Pair("multiple of the set", one, c * one.model, X, y, abs(c))
    if kind < 4:
        return Pair("once more", one, one.model, X.copy(), y)
    if kind == 4 and isinstance(one.model, ucm.extend.UncertaintySet):
        Q = np.linalg.qr(np.random.default_rng(s.integer(0, 999)).standard_normal((n, n)))[0]
        return Pair("rotation", one, one.model, X @ Q, y)
    if kind == 5:
        return Pair("samples mirrored", one, one.model, -X, y)
    if kind == 6 and "signed" not in repr(one.model):
        return Pair("shift", one, one.model, X + np.arange(1.0, n + 1.0), y)
    if kind == 7:
        return Pair("a feature of zeros", one, one.model, np.c_[X, np.zeros(m)], y)
    if kind == 8:
        return Pair("order of features", one, one.model, X[:, ::-1], y)
    c = 10.0 ** s.pick([-12, -6, -3, 3, 6, 12, -100, 100])
    return Pair("scale", one, one.model, c * X, y, c)


def answer(model: Any, X: Any, y: np.ndarray) -> Any:
    """The solution, or the name of the error."""
    try:
        return guarded(lambda: ucm.solve(model, X, y))
    except SolverError:
        return "SolverError"
    except UCMError as error:
        return type(error).__name__


def _barely(c: Case) -> bool:
    """Whether the set of a case is within 1e-6 of being empty, or of not being so."""
    return Nearest(replace(c, model=as_model(c.model, "twin"))).touching()


def judge(p: Pair, tally: Tally) -> str:
    one, model = answer(p.one.model, p.one.X, p.one.y), p.model
    if p.relation == "numbers of relative sizes" and not isinstance(one, str):
        model = model.substitute(one.params)
    two = answer(model, p.X, p.y)
    if isinstance(one, str) or isinstance(two, str):
        names = [a if isinstance(a, str) else a.status for a in (one, two)]
        both = names[0] == names[1] or "SolverError" in names
        far = p.relation == "scale" and not 1e-99 < p.factor < 1e99  # squares that are no numbers
        told = f"one is {names[0]}, the other {names[1]}"
        if "EmptySetError" in names and not (
            both or far
        ):  # only of a set that is barely empty, or barely not
            assert not isinstance(p.one.model, ucm.Objective) and _barely(p.one), told
        else:
            assert both or far, told
        if not both and "SolverError" in names:
            tally.doubt(p, str(names))
        return f"{p.relation}: {names[0]}"
    told = (
        f"{one.status} {one.objective:.10g} ({one.stats.solver}), "
        f"{two.status} {two.objective:.10g} ({two.stats.solver})"
    )
    size = max(one.size, abs(one.objective), float(np.abs(p.one.X).max()))
    tol = CLOSE * (size if one.size else abs(one.objective) + 1e-12)
    off = abs(two.objective / p.factor - one.objective)
    proven = one.status in STILL and two.status in STILL
    if proven:
        assert off <= tol, f"both optimal: {told}"
        return f"{p.relation}: optimal"
    sizes = (size, size * p.factor)
    decided = [a for a, of in zip((one, two), sizes) if a.status == "optimal" and a.objective < -1e-6 * of]
    if decided:
        tally.convex += 1
        tally.doubt(p, told)
    return f"{p.relation}: not both optimal"


def test_relations_hold(record_property: Callable[[str, object], None]) -> None:
    fuzz(pair, judge, record_property, few=100, many=10_000)


def test_the_samples_of_relations_are_of_every_kind() -> None:
    met = Counter(pair(Source(seed)).relation for seed in range(600))
    assert len(met) == 13 and min(met.values()) >= 5, met
