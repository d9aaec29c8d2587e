"""The zoo: classifiers of the literature as declarations, each written once.

The page `zoo.md` shows them, and `tests/zoo` holds each against a program of its own. A declaration is the
text of the page; it is evaluated with the names of `ucm` and `ucm.extend`, and numpy as `np`.
"""

from __future__ import annotations

import ast
import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ucm
from ucm.language.node import LATEX

MEASURED = Path(__file__).with_suffix(".json")
"""By name the relative difference to the program, or the gain of one more step from a critical point."""


@dataclass(frozen=True)
class Entry:
    """A classifier of the literature.

    Attributes
    ----------
    name, source : its name, and the paper that has it
    purpose : words by which a reader looks for it
    code : its declaration, the last line an expression
    samples : a key of `SAMPLES`
    options : of `compile`: a kernel, or weights of samples
    convex : False if the answer is a critical point
    """

    name: str
    source: str
    purpose: str
    code: str
    samples: str = "overlap"
    options: dict[str, Any] = field(default_factory=dict)
    convex: bool = True

    @functools.cached_property
    def model(self) -> Any:
        """The declaration."""
        names: dict[str, Any] = {"np": np, "models": ucm.models, "__name__": __name__}
        names |= {name: getattr(ucm.extend, name) for name in ucm.extend.__all__}
        names |= {name: getattr(ucm, name) for name in ucm.__all__ if name != "compile"}
        *before, last = ast.parse(self.code).body
        exec(ast.unparse(ast.Module(before, [])), names)
        return eval(ast.unparse(last), names)

    def compiled(self) -> ucm.Plan:
        """Return the plan for its samples."""
        X, y, groups = samples(self.samples)
        return ucm.compile(self.model, X, y, subgroup=groups, **self.options)


@functools.cache
def samples(kind: str) -> tuple[Any, Any, Any]:
    """Return 60 samples of five features, their labels and their groups.

    "apart" has separate classes, "overlap" eight wrong labels; the group "b" of "unlabelled" has 15 samples,
    each with both labels.
    """
    X, y = ucm.datasets.load("wine" if kind == "apart" else "breast_cancer")
    plus, minus = np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)
    if kind == "apart":
        rows, X = np.r_[plus[:30], minus[:30]], X[:, [0, 1, 2, 3, 12]]
    else:
        rows, X = np.r_[plus[:20], minus[:40]], -X[:, [0, 1, 4, 6, 9]]
    X, y = np.ascontiguousarray(X[rows]), y[rows].astype(float)
    if kind == "unlabelled":
        twice = X[::4]
        X, y = np.vstack([X[:44], twice, twice]), np.r_[y[:44], np.ones(15), -np.ones(15)]
        return X, y, np.where(np.arange(74) < 44, "a", "b")
    if kind == "overlap":
        y[::8] *= -1.0
    return X, y, np.where(np.arange(60) % 3 == 0, "b", "a")


FACTORS = 0.3 * np.cos(np.arange(600.0)).reshape(60, 5, 2)
WIDTHS = 0.2 * np.sin(np.arange(300.0)).reshape(60, 5) ** 2
SCORES = np.sin(np.arange(60.0))


def rows_of(entries: list[Entry]) -> list[str]:
    """Return the rows of the table of a section."""
    measured = json.loads(MEASURED.read_text())
    rows = []
    for entry in entries:
        formula = LATEX.sized_delimiters(entry.model.formula(LATEX))
        route = entry.compiled().solver.name
        difference = f"{measured[entry.name]:.0e}"
        shown = dict(entry.options)
        shown |= shown.pop("per_sample", {})
        options = "".join(f", {name}={x!r}" for name, x in shown.items() if np.ndim(x) == 0)
        options += "".join(f", {name}=c" for name, x in shown.items() if np.ndim(x))
        given = f"with `{options[2:]}`" if options else ""
        cells = [
            [f"**{entry.name}**", "", entry.source, "", f"*{entry.purpose}*"],
            ["```{code-block} python", *entry.code.strip().splitlines(), "```", "", given, ""],
            [route, "", difference + ("" if entry.convex else ", critical")],
        ]
        cells[1] += ["```{math}", *formula.splitlines(), "```"]
        for k, cell in enumerate(cells):
            first, *rest = cell
            rows.append(f"{'*' if k == 0 else ' '} - {first}")
            rows += [f"    {line}" if line else "" for line in rest]
    return rows


def page() -> str:
    """Return the tables of the page in MyST."""
    lines = []
    for title, entries in SECTIONS.items():
        lines += [
            f"## {title}",
            "",
            "````{list-table}",
            ":class: zoo",
            ":header-rows: 1",
            ":widths: 26 62 12",
        ]
        lines += ["", "* - classifier", "  - declaration", "  - route, difference"]
        lines += [*rows_of(entries), "````", ""]
    return "\n".join(lines)


SQUARED_NORM = [
    Entry(
        "Soft-margin SVM",
        "Cortes and Vapnik, Machine Learning 20 (1995)",
        "maximum margin",
        "0.7 * Hinge() + 0.5 * L2()",
    ),
    Entry(
        "SVM with squared slacks",
        "Cortes and Vapnik, Machine Learning 20 (1995)",
        "smooth",
        "0.7 * SquaredHinge() + 0.5 * L2()",
    ),
    Entry(
        "SVM with slacks to a power",
        "Cortes and Vapnik, Machine Learning 20 (1995)",
        "between hinge and squared hinge",
        "0.7 * Hinge(1.5) + 0.5 * L2()",
    ),
    Entry(
        "SVM of LIBLINEAR",
        "Hsieh, Chang, Lin, Keerthi and Sundararajan, ICML (2008)",
        "penalised intercept, large data",
        '(0.7 * Hinge() + 0.5 * L2()).with_intercept("penalised")',
    ),
    Entry(
        "SVM without intercept",
        "Shalev-Shwartz, Singer and Srebro (Pegasos), ICML (2007)",
        "no intercept, large data",
        "(Hinge() / 60 + 0.05 * L2()).with_intercept(None)",
    ),
    Entry(
        "Lagrangian SVM",
        "Mangasarian and Musicant, JMLR 1 (2001)",
        "penalised intercept",
        '(SquaredHinge() + 0.5 * L2()).with_intercept("penalised")',
    ),
    Entry(
        "Least-squares SVM",
        "Suykens and Vandewalle, Neural Processing Letters 9 (1999)",
        "linear system",
        "0.5 * LeastSquares() + 0.5 * L2()",
    ),
    Entry(
        "Proximal SVM",
        "Fung and Mangasarian, KDD (2001)",
        "linear system, penalised intercept",
        '(0.5 * LeastSquares() + 0.5 * L2()).with_intercept("penalised")',
    ),
    Entry(
        "Regularised least-squares classification",
        "Rifkin, Yeo and Poggio, in Advances in Learning Theory (2003)",
        "linear system, no intercept",
        "(LeastSquares() / 60 + 0.1 * L2()).with_intercept(None)",
    ),
    Entry(
        "Ridge logistic regression",
        "le Cessie and van Houwelingen, Applied Statistics 41 (1992)",
        "probabilities",
        "Logistic() + 0.5 * L2()",
    ),
    Entry(
        "Logistic regression with an offset",
        "McCullagh and Nelder, Generalized Linear Models, 2nd edition (1989)",
        "known scores, probabilities",
        '(Logistic() + 0.5 * L2()).with_offset(per_sample("offset"))',
        options={"per_sample": {"offset": SCORES}},
    ),
    Entry(
        "Local case-control sampling",
        "Fithian and Hastie, Annals of Statistics 42 (2014)",
        "rare class, large data, known scores",
        """
# pilot: minus the log odds of a pilot; the sampled classifier is w'x + b plus the pilot
(Logistic() + 0.001 * L2()).with_offset(per_sample("pilot"))""",
        options={"per_sample": {"pilot": -SCORES}},
    ),
    Entry(
        "Adaptive SVM",
        "Yang, Yan and Hauptmann, ACM Multimedia (2007)",
        "domain adaptation, known scores, no intercept",
        '(0.7 * Hinge() + 0.5 * L2()).with_intercept(None).with_offset(per_sample("old"))',
        options={"per_sample": {"old": SCORES}},
    ),
    Entry(
        "Exponential loss with a squared norm",
        "Friedman, Hastie and Tibshirani, Annals of Statistics 28 (2000)",
        "boosting",
        "Exponential() + 0.5 * L2()",
    ),
    Entry(
        "Modified Huber loss",
        "Zhang, ICML (2004)",
        "smooth, robust to outliers",
        "4 * HuberHinge(2) + 0.5 * L2()",
    ),
    Entry(
        "Smooth hinge",
        "Rennie and Srebro, IJCAI workshop on preference handling (2005)",
        "smooth",
        "HuberHinge(1) + 0.5 * L2()",
    ),
    Entry(
        "Bridge penalty",
        "Fu, JCGS 7 (1998)",
        "between ridge and lasso",
        "Logistic() + 0.5 * Lp(1.5)",
    ),
    Entry(
        "Norm of any order",
        "Pedroso and Murata, Pattern Recognition Letters 22 (2001)",
        "other norms",
        "0.7 * Hinge() + Norm(3)",
    ),
    Entry(
        "Unhinged SVM",
        "van Rooyen, Menon and Williamson, NIPS (2015)",
        "label noise, custom loss",
        """
class Unhinged(ConvexLoss):
    def each(self, margin):
        return 1.0 - margin
    @property
    def offset(self):
        return 1.0
    def gradient(self, u):
        return np.ones_like(u)
    def conjugate(self, s):
        return np.where(abs(s - 1.0) <= 1e-9, 0.0, np.inf)
    def conjugate_prox(self, v, t):
        return np.ones_like(v)
    def cvxpy(self, margin, factor, scope):
        return scope.of(factor) * (1 - margin)

(Unhinged() / 60 + 0.5 * L2()).with_intercept("penalised")""",
    ),
    Entry(
        "Pinball SVM",
        "Huang, Shi and Suykens, IEEE TPAMI 36 (2014)",
        "feature noise, quantile, custom loss",
        """
class Pinball(ConvexLoss):
    tau: Scalar = 0.5
    @property
    def offset(self):
        return 1.0
    def each(self, margin):
        return np.maximum(1.0 - margin, value(self.tau) * (margin - 1.0))
    def gradient(self, u):
        return np.where(u > 0.0, 1.0, -value(self.tau))
    def conjugate(self, s):
        return np.where((s >= -value(self.tau)) & (s <= 1.0), 0.0, np.inf)
    def conjugate_prox(self, v, t):
        return np.clip(v, -value(self.tau), 1.0)
    def cvxpy(self, margin, factor, scope):
        import cvxpy as cp
        return scope.of(factor) * cp.maximum(1 - margin, value(self.tau) * (margin - 1))

Pinball(0.5) + 0.5 * L2()""",
    ),
    Entry(
        "Distance-weighted discrimination",
        "Marron, Todd and Ahn, JASA 102 (2007); Wang and Zou, JRSS B 80 (2018)",
        "many features, custom loss",
        """
class Distance(ConvexLoss):
    def each(self, margin):
        return np.where(margin <= 0.5, 1.0 - margin, 0.25 / np.maximum(margin, 0.5))
    def smooth(self):
        return True
    def gradient(self, u):
        return 0.25 / np.maximum(-u, 0.5) ** 2
    def conjugate(self, s):
        return np.where((s >= 0.0) & (s <= 1.0), -np.sqrt(np.clip(s, 0.0, 1.0)), np.inf)
    def conjugate_prox(self, v, t):
        low, high = np.zeros_like(v), np.ones_like(v)
        for _ in range(60):
            s = 0.5 * (low + high)
            up = s - v < 0.5 * t / np.sqrt(s)
            low, high = np.where(up, s, low), np.where(up, high, s)
        return high
    def cvxpy(self, margin, factor, scope):
        import cvxpy as cp
        slack = cp.Variable(margin.size, nonneg=True)
        return scope.of(factor) * (slack + cp.inv_pos(margin + slack) / 4)

Distance() + 0.5 * L2()""",
    ),
]

SPARSE = [
    Entry("1-norm SVM", "Zhu, Rosset, Hastie and Tibshirani, NIPS (2003)", "sparse", "Hinge() + 2 * L1()"),
    Entry(
        "SVM with the max norm",
        "Bradley and Mangasarian, ICML (1998)",
        "equal weights",
        "Hinge() + 2 * LInf()",
    ),
    Entry(
        "l1 logistic regression",
        "Tibshirani, JRSS B 58 (1996); Koh, Kim and Boyd, JMLR 8 (2007)",
        "sparse, probabilities",
        "Logistic() + 2 * L1()",
    ),
    Entry(
        "l1 squared hinge",
        "Fan, Chang, Hsieh, Wang and Lin (LIBLINEAR), JMLR 9 (2008)",
        "sparse, penalised intercept",
        '(SquaredHinge() + 2 * L1()).with_intercept("penalised")',
    ),
    Entry(
        "Sparse discriminant by least squares",
        "Mai, Zou and Yuan, Biometrika 99 (2012)",
        "sparse, discriminant analysis",
        "LeastSquares() / 60 + 0.1 * L1()",
    ),
    Entry(
        "Boosting with an l1 penalty",
        "Rosset, Zhu and Hastie, JMLR 5 (2004)",
        "sparse, boosting, no intercept",
        "(Exponential() + 2 * L1()).with_intercept(None)",
    ),
    Entry(
        "Doubly regularised SVM",
        "Wang, Zhu and Zou, Statistica Sinica 16 (2006)",
        "sparse, correlated features",
        "Hinge() + 2 * ElasticNet(0.5)",
    ),
    Entry(
        "Hybrid huberised SVM",
        "Wang, Zhu and Zou, Bioinformatics 24 (2008)",
        "sparse, correlated features, smooth",
        "HuberHinge(0.5) + L1() + 0.5 * L2()",
    ),
    Entry(
        "Elastic net logistic regression",
        "Friedman, Hastie and Tibshirani, Journal of Statistical Software 33 (2010)",
        "sparse, correlated features, probabilities",
        "Logistic() / 60 + 0.05 * L1() + 0.02 * L2()",
    ),
    Entry(
        "Elastic net least squares",
        "Zou and Hastie, JRSS B 67 (2005)",
        "sparse, correlated features",
        "LeastSquares() + 2 * L1() + L2()",
    ),
    Entry(
        "Adaptive lasso",
        "Zou, JASA 101 (2006)",
        "sparse, weighted",
        "Logistic() + L1(weights=[0.5, 1, 2, 0.2, 4])",
    ),
    Entry(
        "Group lasso logistic regression",
        "Meier, van de Geer and Bühlmann, JRSS B 70 (2008)",
        "sparse, groups of features, probabilities",
        "Logistic() + 2 * GroupLasso([0, 0, 1, 1, 1], weights=[2**0.5, 3**0.5])",
    ),
    Entry(
        "Group lasso with squared hinge",
        "Yang and Zou, Statistics and Computing 25 (2015)",
        "sparse, groups of features",
        "SquaredHinge() + 2 * GroupLasso([0, 0, 1, 1, 1])",
    ),
    Entry(
        "Sparse group lasso",
        "Simon, Friedman, Hastie and Tibshirani, JCGS 22 (2013)",
        "sparse, groups of features",
        "Logistic() + GroupLasso([0, 0, 1, 1, 1]) + L1()",
    ),
    Entry(
        "Hierarchical selection",
        "Zhao, Rocha and Yu, Annals of Statistics 37 (2009)",
        "sparse, overlapping groups of features",
        "Logistic() + GroupLasso([0, 1, 0, 2, 0]) + 0.5 * GroupLasso([0, 0, 1, 1, 2])",
    ),
    Entry(
        "Network-constrained selection",
        "Li and Li, Bioinformatics 24 (2008)",
        "sparse, graph of features",
        """
D = np.diff(np.eye(5), axis=0)
Logistic() + L1() + 0.5 * Quadratic(D.T @ D)""",
    ),
    Entry(
        "Fused lasso with the hinge loss",
        "Tibshirani, Saunders, Rosset, Zhu and Knight, JRSS B 67 (2005)",
        "sparse, ordered features, custom penalty",
        """
class Fused(ProximalPenalty):
    keeps_signs = False
    def value(self, w):
        return abs(np.diff(w)).sum()
    def prox(self, v, t):
        from scipy.optimize import lsq_linear
        D = np.diff(np.eye(v.size), axis=0)
        return v - D.T @ lsq_linear(D.T, v, (-t, t), tol=1e-15).x if t else v
    def conjugate(self, z):
        u = np.cumsum(z)
        return 0.0 if abs(u[-1]) <= 1e-9 and abs(u).max() <= 1 + 1e-9 else np.inf
    def cvxpy(self, w, factor, scope):
        import cvxpy as cp
        return scope.of(factor) * cp.norm1(cp.diff(w))

0.2 * Hinge() + 0.5 * L1() + Fused()""",
    ),
    Entry(
        "OSCAR",
        "Bondell and Reich, Biometrics 64 (2008)",
        "sparse, clusters of features, custom penalty",
        """
class OSCAR(ProximalPenalty):
    c: float = 0.5
    def steps(self, n):
        return 1.0 + self.c * np.arange(n)[::-1]
    def value(self, w):
        return float(self.steps(w.size) @ np.sort(abs(w))[::-1])
    def prox(self, v, t):
        from scipy.optimize import isotonic_regression
        order = np.argsort(-abs(v))
        fitted = isotonic_regression(abs(v)[order] - t * self.steps(v.size), increasing=False).x
        w = np.zeros(v.size)
        w[order] = np.maximum(fitted, 0.0)
        return w * np.sign(v)
    def conjugate(self, z):
        excess = np.cumsum(np.sort(abs(z))[::-1]) - np.cumsum(self.steps(z.size))
        return 0.0 if excess.max() <= 1e-9 else np.inf
    def cvxpy(self, w, factor, scope):
        import cvxpy as cp
        n = w.size
        tops = sum(self.c * cp.sum_largest(cp.abs(w), k) for k in range(1, n))
        return scope.of(factor) * (cp.norm1(w) + tops)

LeastSquares() / 60 + 0.05 * OSCAR(0.5)""",
    ),
]

NONCONVEX = [
    Entry(
        "Ramp-loss SVM",
        "Collobert, Sinz, Weston and Bottou, ICML (2006)",
        "robust to outliers, label noise",
        "Ramp() + 0.5 * L2()",
        convex=False,
    ),
    Entry(
        "Robust truncated hinge",
        "Wu and Liu, JASA 102 (2007)",
        "robust to outliers, label noise, custom loss",
        """
class Truncated(PointwiseLoss):
    def each(self, margin):
        return np.clip(1.0 - margin, 0.0, 1.0)
    def split(self):
        return (Hinge(),), (Hinge(start=0),)

Truncated() + 0.5 * L2()""",
        convex=False,
    ),
    Entry(
        "Ramp loss with l1",
        "Ong and Le Thi, Optimization Methods and Software 28 (2013)",
        "robust to outliers, sparse",
        "models.rlsvm1(1.0, 0.5)",
        convex=False,
    ),
    Entry(
        "Ramp loss with an approximate 0-norm",
        "Ong and Le Thi, Optimization Methods and Software 28 (2013)",
        "robust to outliers, sparse",
        "models.rlsvm0(1.0)",
        convex=False,
    ),
    Entry(
        "Ramp loss with capped l1",
        "Ong and Le Thi, Optimization Methods and Software 28 (2013)",
        "robust to outliers, sparse",
        "models.rlsvmc1(1.0)",
        convex=False,
    ),
    Entry(
        "Feature selection by a concave penalty",
        "Bradley and Mangasarian, ICML (1998)",
        "sparse",
        "Hinge(on=pos) / 22 + Hinge(on=neg) / 38 + 0.05 * ExpL0(5)",
        convex=False,
    ),
    Entry(
        "Zero-norm machine",
        "Weston, Elisseeff, Schölkopf and Tipping, JMLR 3 (2003)",
        "sparse, custom penalty",
        """
class LogSum(FoldedConcave):
    def profile(self, s):
        return np.log1p(s / 0.1)
    def slope(self, s):
        return 1.0 / (0.1 + s)
    def tangent(self):
        return 10 * L1()

Hinge() + LogSum()""",
        convex=False,
    ),
    Entry(
        "Capped l1 logistic regression",
        "Zhang, JMLR 11 (2010)",
        "sparse",
        "Logistic() + 2 * CappedL1(0.5)",
        convex=False,
    ),
    Entry(
        "SCAD SVM",
        "Zhang, Ahn, Lin and Park, Bioinformatics 22 (2006)",
        "sparse",
        "Hinge() / 60 + SCAD(0.1, 3.7)",
        convex=False,
    ),
    Entry(
        "Elastic SCAD SVM",
        "Becker, Toedt, Lichter and Benner, BMC Bioinformatics 12 (2011)",
        "sparse, correlated features",
        "Hinge() / 60 + SCAD(0.1, 3.7) + 0.02 * L2()",
        convex=False,
    ),
    Entry(
        "MCP logistic regression",
        "Zhang, Annals of Statistics 38 (2010); Breheny and Huang, Annals of Applied Statistics 5 (2011)",
        "sparse",
        "Logistic() / 60 + MCP(0.05, 3)",
        convex=False,
    ),
    Entry(
        "Group MCP",
        "Huang, Breheny and Ma, Statistical Science 27 (2012)",
        "sparse, groups of features",
        "Logistic() / 60 + GroupMCP([0, 0, 1, 1, 1], 0.05, 3)",
        convex=False,
    ),
    Entry(
        "Transductive SVM by the concave-convex procedure",
        "Collobert, Sinz, Weston and Bottou, JMLR 7 (2006)",
        "unlabelled data",
        'Hinge(on=signed.group("a")) + 0.3 * Ramp(on=signed.group("b")) + 0.5 * L2()',
        samples="unlabelled",
        convex=False,
    ),
]

WEIGHTED = [
    Entry(
        "SVM with class weights",
        "Veropoulos, Campbell and Cristianini, IJCAI workshop on support vector machines (1999)",
        "rare class, cost-sensitive",
        "2 * Hinge(on=pos) + 0.5 * Hinge(on=neg) + 0.5 * L2()",
    ),
    Entry(
        "Fuzzy SVM",
        "Lin and Wang, IEEE Transactions on Neural Networks 13 (2002)",
        "robust to noise, sample weights",
        "Hinge() + 0.5 * L2()",
        options={"sample_weight": np.linspace(0.2, 1.0, 60)},
    ),
    Entry(
        "Weighted logistic regression for rare events",
        "King and Zeng, Political Analysis 9 (2001)",
        "rare class, probabilities",
        "3 * Logistic(on=pos) + 0.6 * Logistic(on=neg) + 0.1 * L2()",
    ),
    Entry(
        "Cost-sensitive hinge",
        "Masnadi-Shirazi and Vasconcelos, ICML (2010)",
        "rare class, cost-sensitive",
        "2 * Hinge(on=pos) + 0.7 * Hinge(start=0.4, on=neg) + 0.5 * L2()",
    ),
    Entry(
        "SVM with uneven margins",
        "Li and Shawe-Taylor, Natural Language Engineering 11 (2005)",
        "rare class",
        "Hinge(on=pos) + Hinge(start=0.3, on=neg) + 0.5 * L2()",
    ),
    Entry(
        "Label-distribution-aware margin",
        "Cao, Wei, Gaidon, Arechiga and Ma, NeurIPS (2019)",
        "rare class",
        """
(Hinge(start=0.8, on=pos) + Hinge(start=0.8 * (22 / 38) ** 0.25, on=neg)) / 60 + 0.05 * L2()""",
    ),
    Entry(
        "Classification with a reject option",
        "Bartlett and Wegkamp, JMLR 9 (2008)",
        "reject option",
        "Hinge() + 3 * Hinge(start=0) + 0.5 * L2()",
    ),
    Entry(
        "Universum SVM",
        "Weston, Collobert, Sinz, Bottou and Vapnik, ICML (2006)",
        "further samples of neither class",
        'Hinge(on=signed.group("a")) + 0.3 * Hinge(start=-0.1, on=signed.group("b")) + 0.5 * L2()',
        samples="unlabelled",
    ),
    Entry(
        "Symmetric label noise, corrected",
        "Natarajan, Dhillon, Ravikumar and Tewari, NIPS (2013)",
        "label noise, custom loss",
        """
class Linear(ConvexLoss):
    def each(self, margin):
        return -margin
    def gradient(self, u):
        return np.ones_like(u)
    def conjugate(self, s):
        return np.where(abs(s - 1.0) <= 1e-9, 0.0, np.inf)
    def conjugate_prox(self, v, t):
        return np.ones_like(v)
    def cvxpy(self, margin, factor, scope):
        return scope.of(factor) * -margin

0.6 / 0.6 * Logistic() + 0.2 / 0.6 * Linear() + 5 * L2()""",
    ),
    Entry(
        "Learning from positive and unlabelled samples",
        "du Plessis, Niu and Sugiyama, ICML (2015)",
        "unlabelled data, no negative samples, custom loss",
        """
class Linear(SubsetLoss, ConvexLoss):
    def each(self, margin):
        return -margin
    def gradient(self, u):
        return np.ones_like(u)
    def conjugate(self, s):
        return np.where(abs(s - 1.0) <= 1e-9, 0.0, np.inf)
    def conjugate_prox(self, v, t):
        return np.ones_like(v)
    def cvxpy(self, margin, factor, scope):
        return scope.of(factor) * -margin

0.4 / 22 * Linear(on=pos) + (0.5 * Hinge(on=neg) + 0.5 * Hinge(start=-1, on=neg)) / 38 + 0.1 * L2()""",
    ),
    Entry(
        "Twin bounded SVM, first plane",
        "Shao, Zhang, Wang and Deng, IEEE Transactions on Neural Networks 22 (2011)",
        "two planes, custom loss",
        """
class Near(SubsetLoss, ConvexLoss):
    def each(self, margin):
        return margin**2
    def smooth(self):
        return True
    def gradient(self, u):
        return 2.0 * u
    def conjugate(self, s):
        return s**2 / 4.0
    def conjugate_prox(self, v, t):
        return v / (1.0 + t / 2.0)
    def cvxpy(self, margin, factor, scope):
        return scope.of(factor) * margin**2

(0.5 * Near(on=pos) + 0.5 * Hinge(on=neg) + 0.5 * L2()).with_intercept("penalised")""",
    ),
]

STRUCTURED = [
    Entry(
        "Minimum class variance SVM",
        "Zafeiriou, Tefas and Pitas, IEEE Transactions on Image Processing 16 (2007)",
        "within-class covariance",
        "0.7 * Hinge() + 0.5 * Quadratic(pos.cov + neg.cov)",
    ),
    Entry(
        "SVM and LDA together",
        "Xiong and Cherkassky, IJCNN (2005)",
        "within-class covariance",
        "0.7 * Hinge() + 0.5 * L2() + 0.3 * Quadratic(pos.cov + neg.cov)",
    ),
    Entry(
        "Structural regularised SVM",
        "Xue, Chen and Yang, IEEE Transactions on Neural Networks 22 (2011)",
        "covariance of clusters",
        """
clusters = [S.group(g).cov for S in (pos, neg) for g in "ab"]
0.7 * Hinge() + 0.5 * L2() + 0.3 * Quadratic(sum(clusters[1:], clusters[0]))""",
    ),
    Entry(
        "Linear Laplacian SVM",
        "Belkin, Niyogi and Sindhwani, JMLR 7 (2006)",
        "unlabelled data, manifold",
        """
Z = np.random.default_rng(0).normal(size=(40, 5))  # unlabelled samples
A = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2))
L = np.diag(A.sum(axis=0)) - A
Hinge() / 60 + 0.05 * L2() + 0.01 * Quadratic(Z.T @ L @ Z)""",
    ),
    Entry(
        "Marginalised corrupted features, squared loss",
        "van der Maaten, Chen, Tyree and Weinberger, ICML (2013)",
        "missing data, feature noise",
        """
second = 60 * np.array([0.5, 1.0, 1.5, 0.8, 1.2])  # sums of squares of the features
LeastSquares() + 0.25 / 0.75 * Quadratic(np.diag(second))""",
    ),
    Entry(
        "Robustness as regularisation",
        "Xu, Caramanis and Mannor, JMLR 10 (2009)",
        "adversarial, feature noise",
        "Hinge() + 2 * Norm(2)",
    ),
    Entry(
        "Wasserstein DRO of the logistic loss",
        "Shafieezadeh-Abadeh, Mohajerin Esfahani and Kuhn, NIPS (2015)",
        "distributionally robust, feature noise, labels certain",
        "Logistic() / 60 + 0.1 * Norm(2)",
    ),
    Entry(
        "Wasserstein DRO of the hinge loss, max norm",
        "Shafieezadeh-Abadeh, Kuhn and Mohajerin Esfahani, JMLR 20 (2019)",
        "distributionally robust, feature noise, labels certain",
        "Hinge() / 60 + 0.1 * L1()",
    ),
]

WORST_MEANS = [
    Entry(
        "Conditional value-at-risk of the hinge loss",
        "Takeda and Sugiyama, ICML (2008)",
        "distributionally robust, tail",
        "WorstMean(Hinge(), CappedSimplex(1 / 0.7, relative=True)) + 0.05 * L2()",
    ),
    Entry(
        "Average of the largest losses",
        "Fan, Lyu, Ying and Hu, NIPS (2017)",
        "distributionally robust, tail",
        "WorstMean(Logistic(), CappedSimplex(1 / 40)) + 0.05 * L2()",
    ),
    Entry(
        "Largest loss",
        "Shalev-Shwartz and Wexler, ICML (2016)",
        "rare cases",
        "WorstMean(Hinge()) + 0.05 * L2()",
        "apart",
    ),
    Entry(
        "Superquantile of the logistic loss",
        "Laguel, Pillutla, Malick and Harchaoui, Set-Valued and Variational Analysis 29 (2021)",
        "distributionally robust, tail",
        "WorstMean(Logistic(), CappedSimplex(2, relative=True)) + 0.05 * L2()",
    ),
    Entry(
        "Variance-based regularisation",
        "Namkoong and Duchi, NIPS (2017)",
        "distributionally robust, variance",
        "WorstMean(Logistic(), ChiSquareBall(0.1)) + 0.05 * L2()",
    ),
    Entry(
        "Fairness without demographics",
        "Hashimoto, Srivastava, Namkoong and Liang, ICML (2018)",
        "fair, distributionally robust",
        "WorstMean(Hinge(), ChiSquareBall(0.2)) + 0.05 * L2()",
    ),
    Entry(
        "Upper confidence bound of the mean loss",
        "Duchi, Glynn and Namkoong, Mathematics of Operations Research 46 (2021)",
        "distributionally robust, calibrated",
        "WorstMean(Logistic(), ChiSquareBall(level=0.95)) + 0.05 * L2()",
    ),
    Entry(
        "Relative-entropy DRO",
        "Ben-Tal, den Hertog, De Waegenaere, Melenberg and Rennen, Management Science 59 (2013)",
        "distributionally robust",
        "WorstMean(Logistic(), KLBall(0.8)) + 0.05 * L2()",
    ),
    Entry(
        "Total-variation DRO",
        "Jiang and Guan, Operations Research 66 (2018)",
        "distributionally robust, contaminated samples",
        'WorstMean(Logistic(), NormBall(0.2, 1, around="uniform")) + 0.05 * L2()',
    ),
    Entry(
        "Spectral risk of the loss",
        "Acerbi, Journal of Banking and Finance 26 (2002); Mehta et al., AISTATS (2023)",
        "distributionally robust, tail",
        """
tail = WorstMean(Hinge(), CappedSimplex(1 / 0.2, relative=True))
0.3 * tail + 0.7 * Hinge() / 60 + 0.05 * L2()""",
    ),
    Entry(
        "Group DRO",
        "Sagawa, Koh, Hashimoto and Liang, ICLR (2020)",
        "fair, rare group, distributionally robust",
        """
groups = [S.group(g) for S in (pos, neg) for g in "ab"]
WorstMean(Logistic(), groups=groups) + 0.05 * L2()""",
    ),
    Entry(
        "Minimax group fairness",
        "Diana, Gill, Kearns, Kenthapadi and Roth, AIES (2021)",
        "fair, rare group",
        'WorstMean(Hinge(), groups=[signed.group("a"), signed.group("b")]) + 0.05 * L2()',
    ),
    Entry(
        "Fairness risk measure",
        "Williamson and Menon, ICML (2019)",
        "fair, tail of groups",
        """
groups = [S.group(g) for S in (pos, neg) for g in "ab"]
WorstMean(Logistic(), CappedSimplex(0.5), groups=groups) + 0.05 * L2()""",
    ),
    Entry(
        "Agnostic mixture of domains",
        "Mohri, Sivek and Suresh, ICML (2019)",
        "unknown mixture, several domains",
        'WorstMean(Logistic(), Box(0.3, 0.7), [signed.group("a"), signed.group("b")]) + 0.05 * L2()',
    ),
    Entry(
        "Tail of the rare class beside a plain loss",
        "Rockafellar and Uryasev, Journal of Banking and Finance 26 (2002)",
        "rare class, tail",
        "WorstMean(Hinge(on=pos), CappedSimplex(1 / 0.2, relative=True)) + Hinge(on=neg) / 38 + 0.05 * L2()",
    ),
    Entry(
        "Tail of the loss with l1",
        "Gotoh and Uryasev, Mathematical Programming 159 (2016)",
        "sparse, tail",
        "WorstMean(Hinge(), CappedSimplex(1 / 0.8, relative=True)) + 0.02 * L1()",
    ),
]

ROBUST = [
    Entry(
        "Robust SVM of second-order cones",
        "Shivaswamy, Bhattacharyya and Smola, JMLR 7 (2006)",
        "adversarial, feature noise, second-order cones",
        """
S = np.diag([0.5, 1.0, 1.5, 0.8, 1.2])  # the covariance of the noise of a sample
Robust(Hinge(), within=Ellipsoid(0, S, 0.3)) + 0.5 * L2()""",
    ),
    Entry(
        "SVM with missing values, a covariance for each sample",
        "Shivaswamy, Bhattacharyya and Smola, JMLR 7 (2006)",
        "missing data, feature noise, second-order cones",
        """
# factor: for each sample a root of the covariance of its imputed values, 5 x 2
Robust(Hinge(), within=per_sample("factor") @ Ball(0, 0.5)) + 0.5 * L2()""",
        options={"per_sample": {"factor": FACTORS}},
    ),
    Entry(
        "Imprecise data",
        "Carrizosa, Gordillo and Romero Morales, Computational Optimization and Applications 41 (2008)",
        "interval data, missing data, feature noise",
        """
# widths: half of the interval of every entry of X
Robust(Hinge(), within=per_sample("widths") @ Ball(0, 1, p=np.inf)) + 0.5 * L2()""",
        options={"per_sample": {"widths": WIDTHS}},
    ),
    Entry(
        "Robust learning by feature deletion",
        "Globerson and Roweis, ICML (2006)",
        "missing data, adversarial, deleted features",
        "Robust(Hinge(), within=FeatureDeletion(2)) + 0.5 * L2()",
    ),
    Entry(
        "Missing features with a largest weight",
        "Dekel, Shamir and Xiao, Machine Learning 81 (2010)",
        "missing data, deleted features",
        "Robust(Hinge(), within=FeatureDeletion(2)) + 3 * LInf()",
    ),
    Entry(
        "Logistic regression under feature deletion",
        "Globerson and Roweis, ICML (2006)",
        "missing data, deleted features, probabilities",
        "Robust(Logistic(), within=FeatureDeletion(1)) + 0.5 * L2()",
    ),
    Entry(
        "SVM with missing values",
        "Shivaswamy, Bhattacharyya and Smola, JMLR 7 (2006)",
        "missing data, feature noise, second-order cones",
        """
S = np.diag([0.5, 1.0, 1.5, 0.8, 1.2])  # radii grow with the number of imputed values
Robust(Hinge(), within=per_sample("radius") * Ellipsoid(0, S, 1)) + 0.5 * L2()""",
        options={"per_sample": {"radius": [0.0, 0.1, 0.2] * 20}},
    ),
    Entry(
        "SVM of interval data",
        "El Ghaoui, Lanckriet and Natsoulis, UC Berkeley technical report (2003)",
        "interval data, adversarial, feature noise",
        "Robust(Hinge(), within=np.diag([0.1, 0.2, 0.0, 0.3, 0.1]) @ Ball(0, 1, p=np.inf)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial hinge loss, l1 ball",
        "Xu, Caramanis and Mannor, JMLR 10 (2009)",
        "adversarial, feature noise",
        "Robust(Hinge(), within=Ball(0, 0.2, p=1)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial hinge loss, l2 ball",
        "Xu, Caramanis and Mannor, JMLR 10 (2009)",
        "adversarial, feature noise",
        "Robust(Hinge(), within=Ball(0, 0.2)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial hinge loss, max norm",
        "Xu, Caramanis and Mannor, JMLR 10 (2009)",
        "adversarial, feature noise",
        "Robust(Hinge(), within=Ball(0, 0.1, p=np.inf)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial logistic loss, l1 ball",
        "Goodfellow, Shlens and Szegedy, ICLR (2015)",
        "adversarial, feature noise, probabilities",
        "Robust(Logistic(), within=Ball(0, 0.2, p=1)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial logistic loss, l2 ball",
        "Goodfellow, Shlens and Szegedy, ICLR (2015)",
        "adversarial, feature noise, probabilities",
        "Robust(Logistic(), within=Ball(0, 0.2)) + 0.5 * L2()",
    ),
    Entry(
        "Adversarial logistic loss, max norm",
        "Goodfellow, Shlens and Szegedy, ICLR (2015)",
        "adversarial, feature noise, probabilities",
        "Robust(Logistic(), within=Ball(0, 0.1, p=np.inf)) + 0.5 * L2()",
    ),
    Entry(
        "Tail of an adversarial loss",
        "Takeda and Sugiyama, ICML (2008); Xu, Caramanis and Mannor, JMLR 10 (2009)",
        "adversarial, distributionally robust, tail",
        "WorstMean(Robust(Hinge(), Ball(0, 0.2)), CappedSimplex(1 / 0.3, relative=True)) + 0.05 * L2()",
    ),
    Entry(
        "Wasserstein DRO of the hinge loss, label flips",
        "Shafieezadeh-Abadeh, Kuhn and Mohajerin Esfahani, JMLR 20 (2019)",
        "distributionally robust, feature noise, label noise",
        "WassersteinObjective(Hinge(), eps=0.1, kappa=0.5)",
    ),
    Entry(
        "Wasserstein DRO of the logistic loss, label flips",
        "Shafieezadeh-Abadeh, Kuhn and Mohajerin Esfahani, JMLR 20 (2019)",
        "distributionally robust, feature noise, label noise",
        "WassersteinObjective(Logistic(), eps=0.1, kappa=0.5)",
    ),
]

SUBSETS = [
    Entry(
        "Best-subset SVM",
        "Bertsimas, Pauphilet and Van Parys, Machine Learning 110 (2021)",
        "sparse, feature selection, global optimum",
        "Hinge() + 0.5 * L2() + Cardinality(2)",
    ),
    Entry(
        "Best-subset logistic regression",
        "Bertsimas, Pauphilet and Van Parys, Machine Learning 110 (2021)",
        "sparse, feature selection, global optimum",
        "Logistic() + 0.5 * L2() + Cardinality(2)",
    ),
    Entry(
        "k-support norm",
        "Argyriou, Foygel and Srebro, NIPS (2012)",
        "sparse, correlated features",
        "Hinge() + 0.5 * KSupport(2)",
    ),
]

CONSTRAINED = [
    Entry(
        "Fair logistic regression",
        "Zafar, Valera, Gomez Rodriguez and Gummadi, AISTATS (2017)",
        "fair, statistical parity",
        """
a, b = (PooledMean(pos.group(g), neg.group(g)) for g in "ab")
Logistic() + 0.1 * L2() + LinearConstraint(a - b, -0.01, 0.01)""",
    ),
    Entry(
        "Fair SVM",
        "Zafar, Valera, Gomez Rodriguez and Gummadi, AISTATS (2017)",
        "fair, statistical parity",
        """
a, b = (PooledMean(pos.group(g), neg.group(g)) for g in "ab")
Hinge() + 0.1 * L2() + LinearConstraint(a - b, -0.01, 0.01)""",
    ),
    Entry(
        "Fair empirical risk minimisation",
        "Donini, Oneto, Ben-David, Shawe-Taylor and Pontil, NeurIPS (2018)",
        "fair, equal opportunity",
        """
gap = pos.group("a").mean - pos.group("b").mean
0.7 * Hinge() + 0.5 * L2() + LinearConstraint(gap, 0, 0)""",
    ),
    Entry(
        "Equal mean scores in both classes",
        "Woodworth, Gunasekar, Ohannessian and Srebro, COLT (2017)",
        "fair, equalised odds",
        """
gaps = [LinearConstraint(S.group("a").mean - S.group("b").mean, 0, 0) for S in (pos, neg)]
LeastSquares() + 0.5 * L2() + gaps[0] + gaps[1]""",
    ),
    Entry(
        "Compositional data",
        "Lu, Shi and Li, Biometrics 75 (2019)",
        "sparse, weights of sum 0",
        "Logistic() + L1() + LinearConstraint(np.ones((1, 5)), 0, 0)",
    ),
    Entry(
        "Sign constraints",
        "Meinshausen, Electronic Journal of Statistics 7 (2013)",
        "known signs, monotone",
        "LeastSquares() + NonNegative([True, False, True, False, True])",
    ),
    Entry(
        "Stacking with weights of sum 1",
        "Breiman, Machine Learning 24 (1996)",
        "combination of scores",
        "(Logistic() + NonNegative() + LinearConstraint(np.ones((1, 5)), 1, 1)).with_intercept(None)",
    ),
    Entry(
        "Bounded weights",
        "Mangasarian, Operations Research 13 (1965)",
        "linear program",
        "Hinge() + Bounds(-1, 1)",
    ),
    Entry(
        "Penalised and constrained classification",
        "James, Paulson and Rusmevichientong, JASA 115 (2020)",
        "sparse, ordered weights",
        "Logistic() + 0.5 * L1() + LinearConstraint(np.diff(np.eye(5), axis=0), lb=0)",
    ),
    Entry(
        "Boosting with nonnegative weights",
        "Demiriz, Bennett and Shawe-Taylor, Machine Learning 46 (2002)",
        "boosting, linear program",
        "Hinge() + L1() + NonNegative()",
    ),
]

HULLS = [
    Entry(
        "Maximum margin",
        "Boser, Guyon and Vapnik, COLT (1992)",
        "separable",
        "Hull(pos) - Hull(neg)",
        "apart",
    ),
    Entry(
        "nu-SVM",
        "Schölkopf, Smola, Williamson and Bartlett, Neural Computation 12 (2000)",
        "fraction of errors",
        "models.nu_svm(0.4)",
        "apart",
    ),
    Entry(
        "Reduced convex hulls",
        "Bennett and Bredensteiner, ICML (2000)",
        "nearest points",
        "ReducedHull(pos, 0.2) - ReducedHull(neg, 0.1)",
        "apart",
    ),
    Entry(
        "Dual nu-SVM",
        "Chew, Bogner and Lim, ICASSP (2001)",
        "rare class, a nu for each class",
        "ReducedHull(pos, nu=0.6) - ReducedHull(neg, nu=0.3)",
        "apart",
    ),
    Entry(
        "Extended nu-SVM, max norm",
        "Barbero, Takeda and López, Neural Computation 27 (2015)",
        "small nu, non-convex with a global optimum",
        "models.enu_svm(0.15, norm=np.inf)",
    ),
    Entry(
        "Arbitrary-norm separating plane",
        "Mangasarian, Operations Research Letters 24 (1999)",
        "sparse, separable",
        "RobustMargin(Hull(pos) - Hull(neg), norm=1)",
        "apart",
    ),
    Entry(
        "LP machine with nu",
        "Graepel, Herbrich, Schölkopf, Smola, Bartlett, Müller, Obermayer and Williamson, ICANN (1999)",
        "sparse, linear program",
        "RobustMargin(models.nu_svm(0.4), norm=1)",
        "apart",
    ),
    Entry(
        "One-class SVM",
        "Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, Neural Computation 13 (2001)",
        "novelty, one class",
        "Hull(pos, CappedSimplex(1 / (0.3 * 30)))",
        "apart",
    ),
    Entry(
        "nu-SVM with squared slacks",
        "Ito, Takeda and Toh, METR 2015-18 (2015)",
        "uncertainty set of weights",
        "models.l2_nu_svm(0.2)",
        "apart",
    ),
    Entry(
        "nu-SVM with squared slacks, biased",
        "Ito, Takeda and Toh, METR 2015-18 (2015)",
        "rare class",
        "models.biased_l2_nu_svm(0.3, 0.2)",
        "apart",
    ),
    Entry(
        "Exponential-loss nu-SVM",
        "Kanamori, Takeda and Suzuki, JMLR 14 (2013)",
        "divergence ball of weights",
        "models.kl_svm(0.9)",
        "apart",
    ),
    Entry(
        "Tail of the margins of each class",
        "Gotoh, Takeda and Yamamoto, Computational Management Science 11 (2014)",
        "risk measure, rare class",
        "CVaR(pos, 0.3) - CVaR(neg, 0.6)",
        "apart",
    ),
    Entry(
        "Spectral risk of the margins",
        "Gotoh and Uryasev, Mathematical Programming 159 (2016)",
        "risk measure",
        "SpectralRisk(pos, (0.2, 1), (0.4, 0.6)) - SpectralRisk(neg, (0.2, 1), (0.4, 0.6))",
        "apart",
    ),
    Entry(
        "Chi-square ambiguity of the margins",
        "Duchi, Glynn and Namkoong, Mathematics of Operations Research 46 (2021)",
        "distributionally robust",
        "ChiSquare(pos, rho=0.5) - ChiSquare(neg, rho=0.5)",
        "apart",
    ),
    Entry(
        "Total-variation ambiguity of the margins",
        "Jiang and Guan, Operations Research 66 (2018)",
        "distributionally robust, contaminated samples",
        "TotalVariation(pos, 0.1) - TotalVariation(neg, 0.1)",
        "apart",
    ),
    Entry(
        "Bounded noise in every sample",
        "Trafalis and Gilbert, European Journal of Operational Research 173 (2006)",
        "feature noise, adversarial",
        "Hull(pos) - Hull(neg) + Ball(0, 0.1, p=np.inf)",
        "apart",
    ),
    Entry(
        "Interval data",
        "El Ghaoui, Lanckriet and Natsoulis, Berkeley report CSD-03-1279 (2003)",
        "feature noise, intervals",
        """
reach = np.array([0.1, 0.3, 0.0, 0.2, 0.1])
Hull(pos) - Hull(neg) + AffineImage(np.eye(5), Box(-reach, reach))""",
        "apart",
    ),
    Entry(
        "Knowledge sets",
        "Fung, Mangasarian and Shavlik, NIPS (2002)",
        "prior knowledge",
        """
region = Points([[3, 2, 0, 0, 1], [3, 0, 1, 1, 1], [2, 2, 1, 0, 2]])
(ReducedHull(pos, 0.1) | Hull(region)) - ReducedHull(neg, 0.1)""",
        "apart",
    ),
    Entry(
        "Wasserstein ambiguity of the tails",
        "Mohajerin Esfahani and Kuhn, Mathematical Programming 171 (2018)",
        "distributionally robust, feature noise",
        """
options = dict(order=1, beta=0.5, norm=np.inf)
Wasserstein(pos, 0.05, **options) - Wasserstein(neg, 0.05, **options)""",
        "apart",
    ),
    Entry(
        "Worst group of each class",
        "Sagawa, Koh, Hashimoto and Liang, ICLR (2020), with margins in place of losses",
        "fair, rare group",
        'models.group_dro(["a", "b"], 0.5)',
        "apart",
    ),
]

MOMENTS = [
    Entry(
        "Mean difference",
        "Schölkopf and Smola, Learning with Kernels (2002)",
        "nearest mean",
        "Point(pos.mean) - Point(neg.mean)",
        "apart",
    ),
    Entry(
        "Specified error rates",
        "Nath and Bhattacharyya, SDM (2007)",
        "chance constraints, rare class",
        "Ellipsoid(pos.mean, pos.cov, 0.8) - Ellipsoid(neg.mean, neg.cov, 0.4)",
        "apart",
    ),
    Entry(
        "Minimax probability machine with margin",
        "Lanckriet, El Ghaoui, Bhattacharyya and Jordan, JMLR 3 (2002); Ito, Takeda and Toh (2015)",
        "moments, worst-case error",
        "models.mm_mpm(0.5)",
        "apart",
    ),
    Entry(
        "Robust minimax probability machine with margin",
        "Lanckriet, El Ghaoui, Bhattacharyya and Jordan, JMLR 3 (2002)",
        "moments, uncertain moments",
        """
E = [Ellipsoid(S.mean, S.cov + 0.1 * np.eye(5), 0.3 + 0.2) for S in (pos, neg)]
E[0] - E[1]""",
        "apart",
    ),
    Entry(
        "Fisher discriminant with margin",
        "Takeda, Mitsugi and Kanamori, Neural Computation 25 (2013)",
        "discriminant analysis",
        "models.mm_fda(0.5)",
        "apart",
    ),
    Entry(
        "Coherent minimax probability machine",
        "Ito, Takeda and Toh, METR 2015-18 (2015)",
        "moments, coherent risk",
        "models.coherent_mm_mpm(0.8)",
        "apart",
    ),
    Entry(
        "Coherent Fisher discriminant",
        "Ito, Takeda and Toh, METR 2015-18 (2015)",
        "discriminant analysis, coherent risk",
        "models.coherent_mm_fda(0.8)",
        "apart",
    ),
    Entry(
        "Clusters as ellipsoids",
        "Nath, Bhattacharyya and Murty, KDD (2006)",
        "large data, clusters",
        """
E = [[Ellipsoid(S.group(g).mean, S.group(g).cov, 0.7) for g in "ab"] for S in (pos, neg)]
(E[0][0] | E[0][1]) - (E[1][0] | E[1][1])""",
        "apart",
    ),
    Entry(
        "Single-class minimax probability machine",
        "Lanckriet, El Ghaoui and Jordan, NIPS (2002)",
        "novelty, one class",
        "Ellipsoid(pos.mean, pos.cov, 0.5)",
        "apart",
    ),
    Entry(
        "Gelbrich ambiguity",
        "Kuhn, Mohajerin Esfahani, Nguyen and Shafieezadeh-Abadeh, INFORMS TutORials (2019)",
        "distributionally robust, moments",
        "RobustMargin(Gelbrich(pos, 0.1, 0.4) - Gelbrich(neg, 0.1, 0.4), norm=1)",
        "apart",
    ),
    Entry(
        "Missing data, one covariance for a class",
        "Shivaswamy, Bhattacharyya and Smola, JMLR 7 (2006)",
        "missing data, feature noise",
        """
noisy = [Hull(S, CappedSimplex(0.2)) + Ellipsoid(0, S.cov, 0.3) for S in (pos, neg)]
noisy[0] - noisy[1]""",
        "apart",
    ),
]

KERNELS = [
    Entry(
        "SVM with a Gaussian kernel",
        "Boser, Guyon and Vapnik, COLT (1992); Cortes and Vapnik, Machine Learning 20 (1995)",
        "kernel",
        "2 * Hinge() + 0.5 * L2()",
        options={"kernel": "rbf", "gamma": 0.2},
    ),
    Entry(
        "Kernel logistic regression",
        "Zhu and Hastie, JCGS 14 (2005)",
        "kernel, probabilities",
        "2 * Logistic() + 0.5 * L2()",
        options={"kernel": "rbf", "gamma": 0.2},
    ),
    Entry(
        "Least-squares SVM with a kernel",
        "Suykens and Vandewalle, Neural Processing Letters 9 (1999)",
        "kernel, linear system",
        "LeastSquares() + 0.5 * L2()",
        options={"kernel": "rbf", "gamma": 0.2},
    ),
    Entry(
        "nu-SVM with a kernel",
        "Schölkopf, Smola, Williamson and Bartlett, Neural Computation 12 (2000)",
        "kernel, fraction of errors",
        "models.nu_svm(0.4)",
        options={"kernel": "rbf", "gamma": 0.2},
        samples="apart",
    ),
    Entry(
        "Tail of the loss with a kernel",
        "Takeda and Sugiyama, ICML (2008)",
        "kernel, distributionally robust, tail",
        "WorstMean(Hinge(), CappedSimplex(1 / 0.3, relative=True)) + 0.05 * L2()",
        options={"kernel": "rbf", "gamma": 0.2},
    ),
    Entry(
        "One-class SVM with a Gaussian kernel",
        "Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, Neural Computation 13 (2001)",
        "kernel, novelty, one class",
        "Hull(pos, CappedSimplex(1 / (0.3 * 30)))",
        options={"kernel": "rbf", "gamma": 0.2},
        samples="apart",
    ),
]

SECTIONS: dict[str, list[Entry]] = {
    "A squared norm, and other norms": SQUARED_NORM,
    "Sparse classifiers": SPARSE,
    "Weights, margins and costs": WEIGHTED,
    "Structure and noise in the penalty": STRUCTURED,
    "Worst means of losses": WORST_MEANS,
    "Robust samples and labels": ROBUST,
    "Subsets of features": SUBSETS,
    "Constraints and fairness": CONSTRAINED,
    "Hulls of samples": HULLS,
    "Means and covariances": MOMENTS,
    "Kernels": KERNELS,
    "Non-convex classifiers": NONCONVEX,
}
ENTRIES: dict[str, Entry] = {entry.name: entry for part in SECTIONS.values() for entry in part}
