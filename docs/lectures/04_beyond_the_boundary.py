# %% [markdown]
# # 4. Beyond the boundary
#
# **Goal.** Know when the problem is convex, what the problem means otherwise, and how to bound the distance from the optimum.
#
# Lecture 1 needed $0 \notin U$. The $\nu$-SVM then has a smallest $\nu$: below it the reduced hulls of the classes meet,
# the nearest point of $U$ is 0, and $w = 0$ is no classifier. But
#
# $$\min_{\|w\|_p = 1}\ f(w), \qquad f(w) = \max_{x \in U} -w^\top x$$
#
# is still defined. $f(w)$ is the extent of $U$ beyond 0 along $-w$, so the minimum is the distance from 0 to the
# *boundary* of $U$, in the direction of least overlap of the classes. Barbero, Takeda and Lopez (2015) call it ERCH-NPP. The
# sphere is not convex, and there may be several minima.

# %%
import importlib.util
import subprocess
import sys

# in a fresh environment: install the library from the checkout of this lecture
if importlib.util.find_spec("ucm") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[plot]"], check=True)

# %%
import matplotlib.pyplot as plt
import numpy as np

import ucm

# %%
rng = np.random.default_rng(7)
y = np.repeat([1, -1], 12)
X = rng.normal(size=(24, 2)) * [1.0, 0.7] + np.outer(y, [0.3, 0.18])

# %% [markdown]
# ## The declaration
#
# The declaration does not change. `admissible` gives the end of the convex range, `plan.regime` the side of a model.

# %%
U = ucm.models.nu_svm(0.9)
ends = ucm.admissible(U, X, y)["nu"]
print(f"convex for nu in [{ends.lower:.4f}, {ends.upper:.4f}]")
inside = ucm.models.nu_svm(round(0.6 * ends.lower, 3))
print(ucm.compile(inside, X, y).regime.how)

# %% [markdown]
# ## From the paper: Figures 3 and 4
#
# If the hulls are disjoint, $x_+$ is on the positive side of the hyperplane and $x_-$ on the negative side. If the hulls intersect, the
# sides are exchanged, and the "margin" is negative.

# %%
for model in (U, inside):
    ucm.plot.SetDisplay.from_model(model, X, y)
plt.show()

# %%
for model in (U, inside):
    s = ucm.solve(model, X, y, bias_rule="midpoint")
    plus = X[y > 0].T @ s.weights[y > 0]
    minus = X[y < 0].T @ s.weights[y < 0]
    print(f"w.x+ + b = {s.w @ plus + s.b:+.4f}   w.x- + b = {s.w @ minus + s.b:+.4f}   status {s.status}")
assert s.w @ plus + s.b < 0 < s.w @ minus + s.b  # of the second

# %% [markdown]
# ## The picture: the landscape
#
# In the plane an angle describes all directions $w$. Below the smallest $\nu$ the function $f$ is positive, with several local minima,
# in which descents from different starts end. The dashed line is a proven lower bound of $f$.

# %%
shown = ucm.plot.LandscapeDisplay.from_model(inside, X, y, n_starts=10)
plt.show()
print("minima:", shown.minima[:, 1].round(4), "  proven bound:", round(shown.bound, 4))
assert shown.zero_inside and shown.bound <= shown.minima[0, 1] + 1e-3

# %% [markdown]
# ## The certificate
#
# RAPMINOS, the method of the paper, never increases $f$ and ends where it is stationary. In two or three dimensions the facets
# of a polytope inside of $U$ prove the global minimum. With more features and $p = 2$ an answer is "local", and several starts
# can improve it; for $p = \infty$ one program for each face of the cube gives the global minimum again.

# %%
for name, solver in {"RAPMINOS": "rapminos", "facets": "facets"}.items():
    s = ucm.solve(inside, X, y, solver=solver)
    print(f"{name:>9}: f = {s.objective:.6f}  {s.status:<8} {s.certificate}")
assert s.status == "optimal" and s.certificate.kind == "global"

# %%
several = ucm.solve(inside, X, y, solver="rapminos", n_starts=8)
print(several.message)
print("ends:", np.round(several.start_objectives, 4))
assert min(several.start_objectives) == several.objective

# %%
A, t = ucm.datasets.load("breast_cancer")
A = A[:, :8]
low = ucm.admissible(ucm.models.nu_svm(0.5), A, t)["nu"].lower
for p in (2.0, np.inf):
    s = ucm.solve(ucm.models.enu_svm(0.7 * low, norm=p), A, t)
    print(f"8 features, p = {p:g}: {s.status}, certificate {s.certificate.kind}")

# %% [markdown]
# ## From the paper: Figure 8
#
# Two normal classes, one round, one flat: eigenvalues of the covariance $0.1^2, \dots, 1.5^2$, means at distance $r$, $n = 10$.
# The paper has 2,000 training samples; here are 600. The dashed line is the $\nu$ below which only the extended model
# has an answer.


# %%
def classes(r, m, seed, n=10):
    """Section 6.2 of Barbero, Takeda and Lopez (2015)."""
    generator = np.random.default_rng(7)
    turn = np.linalg.qr(generator.normal(size=(n, n)))[0] * np.linspace(0.1, 1.5, n)
    generator = np.random.default_rng(seed)
    flat = generator.normal(size=(m // 2, n)) @ turn.T + r / np.sqrt(n)
    return np.vstack([generator.normal(size=(m // 2, n)), flat]), np.repeat([1, -1], m // 2)


figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True, layout="constrained")
gains = []
for ax, r in zip(axes, (0.5, 1.0, 3.0)):
    (train, labels), (test, truth) = classes(r, 600, 0), classes(r, 4000, 1)
    limit = ucm.admissible(ucm.models.nu_svm(0.9), train, labels)["nu"].lower
    nus = np.linspace(0.1, 0.9, 9)
    found = [ucm.solve(ucm.models.nu_svm(nu), train, labels) for nu in nus]
    scores = [np.mean(np.sign(s.decision(test)) == truth) for s in found]
    ax.plot(nus, scores, "o-")
    ax.axvline(limit, ls="--", color="C2")
    ax.set(xlabel=r"$\nu$", title=f"r = {r:g}", ylabel="accuracy" if r == 0.5 else "")
    convex = [s for nu, s in zip(nus, scores) if nu >= limit]
    best, here = max(scores), max(convex, default=0.5)
    print(f"r = {r:g}: convex for nu > {limit:.3f}; best accuracy {best:.3f}, on that side {here:.3f}")
    gains.append(best - here)
plt.show()
assert gains[0] > 0.02 > 0.005 > gains[-1]

# %% [markdown]
# As in the paper, the threshold falls as $r$ grows, and for close classes the best $\nu$ lies on the non-convex side. For distant
# classes the non-convex side gains nothing.
#
# ## Beyond the paper
#
# The extended nu-SVM with $p = \infty$ just below the boundary, on the sets of the paper: RAPMINOS beside one convex problem for each face
# of the norm. A gap of RAPMINOS above rounding is a local minimum that is not the global one; the faces prove theirs, and cost more the
# more features there are.
# `python -m benchmarks.papers run "beyond extended-nu-svm"` measures it, `python -m benchmarks.papers page` draws it:
#
# ![Times and gaps of the method of the paper and of the library](../_static/papers-extended-nu-svm.png)
#
# ## Exercises
#
# 1. How many minima has the landscape of `X, y` at 1.05, 0.9, 0.6 and 0.4 times the smallest convex $\nu$?
# 2. MM-FDA is one ellipsoid: on its non-convex side the global minimum costs one scalar root. Solve it with `kappa=5`.
# 3. Solve with a convex solver by name, `solver="ssnal"`. What is the status, and what does the message advise?
# 4. Show that $f(w) \ge 0$ for all $w$ exactly if $0 \in U$, with 1,000 random directions on both sides.

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. On the convex side one minimum lies below 0; beyond it several appear.
for part in (1.05, 0.9, 0.6, 0.4):
    seen = ucm.plot.LandscapeDisplay.from_model(ucm.models.nu_svm(part * ends.lower), X, y, n_starts=0)
    plt.close(seen.figure_)
    print(f"{part:4g} of the threshold: {len(seen.minima)} minima, {np.sum(seen.minima[:, 1] < 0)} below 0")
assert np.sum(seen.minima[:, 1] < 0) == 0

# %% tags=["hide-cell"]
# 2. The trust-region problem on the sphere: proven to be global.
one = ucm.solve(ucm.models.mm_fda(5.0), X, y)
print(one.stats.solver, one.status, one.certificate)
assert one.certificate.kind == "global"

# %% tags=["hide-cell"]
# 3. The status is "zero_in_set", with w = 0; the message gives the remedy.
zero = ucm.solve(inside, X, y, solver="ssnal")
print(zero.status, "|", zero.message)
assert zero.status == "zero_in_set" and not zero.w.any()


# %% tags=["hide-cell"]
# 4. f is the support function of -U, which is nonnegative everywhere exactly if 0 lies in U.
def worst(w, nu):
    """max of -w'x over U: the lowest scores of one class, the highest of the other, each with its cap."""
    share = np.clip(1.0 - 2.0 / (y.size * nu) * np.arange(12), 0.0, 2.0 / (y.size * nu))
    return share @ np.sort(-X[y > 0] @ w)[::-1] + share @ np.sort(X[y < 0] @ w)[::-1]


W = rng.normal(size=(1000, 2))
W /= np.linalg.norm(W, axis=1)[:, None]
for model, holds in ((U, False), (inside, True)):
    nu = model.params()["nu"]
    least = min(worst(w, nu) for w in W)
    print(f"nu = {nu:g}: least f {least:+.4f}, found by the solver {ucm.solve(model, X, y).objective:+.4f}")
    assert (least >= 0.0) == holds
