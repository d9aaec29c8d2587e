# %% [markdown]
# # 10. Invent a classifier
#
# **Goal.** Implement a new classifier with its own domain, set and solver, and check each class against its laws.
#
# The idea: some sensors may have errors, but not all at once. Feature $j$ of the difference of the class means has an error of up to
# $s_j$, and the errors, divided by these bounds, have a sum of at most $\Gamma$. This is the budget of Bertsimas and Sim (2004),
#
# $$D = \{q : |q_j| \le 1,\ \textstyle\sum_j |q_j| \le \Gamma\}, \qquad
#   U = \{\bar x_+ - \bar x_- + \mathrm{diag}(s)\, q : q \in D\} .$$

# %%
import importlib.util
import subprocess
import sys

# in a fresh environment: install the library from the checkout of this lecture
if importlib.util.find_spec("ucm") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[plot]"], check=True)

# %%
from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

import ucm
from ucm import Param, neg, pos
from ucm.extend import Answer, Domain, MinNorm, Projectable, Scalar, Size, Solver, value

# %% [markdown]
# ## The declaration of a domain
#
# A domain has four methods: the maximum of $\langle g, q\rangle$ with a maximiser; the nearest point; an interior point; and the
# constraints in CVXPY, independent of the other methods. Two further methods give the size and the reason for an empty set.


# %%
class Budget(Domain, Projectable):
    """{q : |q_j| <= 1, sum_j |q_j| <= gamma}."""

    gamma: Scalar

    def size(self):
        return Size(self.gamma)

    def support(self, g):
        worst = np.argsort(-np.abs(g))
        share = np.clip(value(self.gamma) - np.arange(g.size), 0.0, 1.0)  # 1, ..., 1, the rest, 0, ...
        q = np.zeros(g.size)
        q[worst] = share * np.sign(g[worst])
        return float(g @ q), q

    def project(self, v):
        a, gamma = np.abs(v), value(self.gamma)

        def excess(theta):
            return np.clip(a - theta, 0.0, 1.0).sum() - gamma

        theta = brentq(excess, 0.0, a.max(), xtol=1e-15) if excess(0.0) > 0.0 else 0.0
        return np.sign(v) * np.clip(a - theta, 0.0, 1.0)

    def center(self, dim):
        return np.zeros(dim)

    def infeasibility_reason(self, dim):
        return None if value(self.gamma) >= 0.0 else f"gamma must be at least 0, got {self.gamma}"

    def cvxpy(self, q, size):
        import cvxpy as cp

        return [cp.norm(q, "inf") <= 1, cp.norm1(q) <= size]

    def formula(self, notation):
        one = notation.norm("q", "1")
        return f"{notation.norm('q', 'inf')}{notation.leq}1, {one}{notation.leq}{notation.scalar(self.gamma)}"


# %% [markdown]
# ## Its laws
#
# `check_domain`: the projection is inside, idempotent, non-expansive and the nearest point; the support is attained and sublinear;
# all against CVXPY too.

# %%
for gamma in (0.5, 2.5, 100.0):
    ucm.testing.check_domain(Budget(gamma))
print("three sizes, no complaint")


# %% [markdown]
# A check must also find errors:


# %%
class Careless(Budget):
    """Clips, then scales: inside, but not the nearest point."""

    def project(self, v):
        q = np.clip(v, -1.0, 1.0)
        q *= min(1.0, value(self.gamma) / max(np.abs(q).sum(), 1e-300))
        return q


try:
    ucm.testing.check_domain(Careless(2.5))
    found = ""
except AssertionError as error:
    found = str(error).splitlines()[0]
print(found)
assert found

# %% [markdown]
# ## The set, and the picture
#
# `ucm.AffineImage(A, D, center)` makes a set of any domain. It adds and intersects with every other set.

# %%
X, y = ucm.datasets.load("breast_cancer")
gamma = Param("gamma", 1.5)
U = ucm.AffineImage(np.diag([0.6, 0.6]), Budget(gamma), pos.mean - neg.mean)
print(U)
ucm.plot.SetDisplay.from_model(U, X[:, :2], y)
plt.show()

# %%
rounded = U + ucm.Ball(0, 0.2)
ucm.plot.SetDisplay.from_model(rounded, X[:, :2], y)
plt.show()
ucm.testing.check_set(rounded)

# %% [markdown]
# ## The certificate, and the classifier
#
# All thirty features. The certificate, the CVXPY program, the admissible interval and the estimator need no further code.

# %%
U = ucm.AffineImage(np.diag(2.0 * X.std(axis=0)), Budget(Param("gamma", 3.0)), pos.mean - neg.mean)
plan = ucm.compile(U, X, y)
solution = plan.solve()
print(solution.certificate)
check = plan.verify()
print(check)
assert check.agrees
interval = ucm.admissible(U, X, y)["gamma"]
print("admissible:", interval)

# %%
clf = ucm.Classifier(U).fit(X, y)
print(f"training accuracy {clf.score(X, y):.3f}")
assert clf.score(X, y) > 0.9


# %% [markdown]
# ## A solver of its own
#
# Projected gradients with one fixed step: $q \leftarrow P_D(q - t A^\top x(q))$, $t = 1 / \|A\|_F^2$. The solver
# refuses other forms with a reason.


# %%
@dataclass(frozen=True)
class Gradients(Solver[MinNorm]):
    """Projected gradients with a fixed step, for one block over a domain with a projection."""

    name: ClassVar[str] = "gradients"

    def refuse(self, form):
        if form.norm != 2.0 or form.couplings or len(form.blocks) != 1:
            return "it takes one block and the Euclidean norm"
        if not isinstance(form.blocks[0].domain, Projectable):
            return "the domain has no projection"
        return None

    def solve(self, form, monitor, start=None):
        (block,), (q,) = form.blocks, form.begin(start)
        step = 1.0 / max(float(np.sum(block.map.column_norms() ** 2)), 1e-300)
        zero = monitor.zero * form.largest
        for k in range(1, monitor.limit(20_000) + 1):
            x = form.matvec([q])
            norm = float(np.linalg.norm(x))
            monitor.passes += form.pass_cost()
            if norm <= zero:
                return Answer([q])
            gap = (norm - form.lower_bound(x / norm)) / norm
            stop = monitor.report(k, -norm, gap)
            if gap <= 0.5 * monitor.tol:
                return Answer([q])
            if stop:
                return Answer([q]).interrupted()
            q = block.domain.project(q - step * form.rmatvec(x)[0])
        return Answer([q], status="max_iter", message="the step is short; take apg")


ucm.testing.check_solver(Gradients())
ours, apg = ucm.solve(U, X, y, solver=Gradients()), ucm.solve(U, X, y, solver="apg")
for s in (ours, apg):
    print(f"{s.stats.solver:>9}: {s.status}, {s.stats.iterations} iterations, {s.certificate}")
assert ours.status == "optimal"
assert abs(ours.objective - apg.objective) < 1e-5 * abs(apg.objective)

# %% [markdown]
# ## From the paper: Table 9, with one more row
#
# Section 7 of Ito, Takeda and Toh (2015) closes with the hope that a unified algorithm makes it easy to find a suitable model. Here is
# the new one beside three of theirs, the size of each half-way through its admissible interval.

# %%
from sklearn.model_selection import cross_val_score

A = X[:, :10]
table = {
    "nu-SVM": ucm.models.nu_svm(0.5),
    "MM-MPM": ucm.models.mm_mpm(0.5),
    "MM-FDA": ucm.models.mm_fda(0.5),
    "budget": ucm.AffineImage(np.diag(2.0 * A.std(axis=0)), Budget(Param("gamma", 0.5)), pos.mean - neg.mean),
}
for name, model in table.items():
    ((parameter, interval),) = ucm.admissible(model, A, y).items()
    model = model.with_params(**{parameter: 0.5 * (interval.lower + interval.upper)})
    scores = cross_val_score(ucm.Classifier(model), A, y, cv=5)
    print(f"{name:>7}: {100 * scores.mean():.1f} ± {100 * scores.std(ddof=1) / 5**0.5:.1f} %")
    assert scores.mean() > 0.85

# %% [markdown]
# ## Exercises
#
# 1. What is $U$ for $\Gamma = 0$, and for $\Gamma = n$? Which classifiers are these?
# 2. Swap the sign in `support`. Which law finds it?
# 3. Print the declaration as JSON and read it back. Is it equal?
# 4. Cut `U` with the difference of the hulls, `U & (Hull(pos) - Hull(neg))`: is the optimum nearer or further? Why?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. The difference of the means; and a box, in which every feature is at its worst: soft thresholding of the difference.
means = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
spread = 0.3 * X.std(axis=0)
for size in (0.0, 30.0):
    w = ucm.solve(ucm.AffineImage(np.diag(spread), Budget(size), pos.mean - neg.mean), X, y, tol=1e-9).w
    shrunk = np.sign(means) * np.maximum(np.abs(means) - (spread if size else 0.0), 0.0)
    print(size, w @ shrunk / np.linalg.norm(shrunk))
    assert w @ shrunk / np.linalg.norm(shrunk) > 1 - 1e-6


# %% tags=["hide-cell"]
# 2. The value at the maximiser is not the largest.
class Swapped(Budget):
    """A wrong sign."""

    def support(self, g):
        least, q = super().support(g)
        return -least, -q


try:
    ucm.testing.check_domain(Swapped(2.5))
    law = ""
except AssertionError as error:
    law = str(error).splitlines()[0]
print(law)
assert "support" in law

# %% tags=["hide-cell"]
# 3. Declarations are equal by structure.
text = ucm.to_json(Budget(Param("gamma", 3.0)))
print(text)
assert ucm.from_json(text) == Budget(Param("gamma", 3.0))

# %% tags=["hide-cell"]
# 4. Further, or the same: a smaller set is not nearer to 0.
B = X[:80, :4]
V = ucm.AffineImage(np.diag(1.0 * B.std(axis=0)), Budget(2.0), pos.mean - neg.mean)
cut = V & (ucm.Hull(pos) - ucm.Hull(neg))
near, far = (-ucm.solve(each, B, y[:80], tol=1e-5).objective for each in (V, cut))
print(f"distance {near:.4f}, cut {far:.4f}")
assert far >= near - 1e-4
