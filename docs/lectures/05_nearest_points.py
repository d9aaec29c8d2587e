# %% [markdown]
# # 5. Nearest points, step by step
#
# **Goal.** Run three classical methods for the nearest points of reduced convex hulls: GSK, MDM and the clipped MDM of
# Lopez, Barbero and Dorronsoro (2011). Know when one of them stalls, and why.
#
# Let $W = x_+ - x_-$ with $x_o = \sum_i q_i x_i$, $\sum_i q_i = 1$, $0 \le q_i \le \mu$. All three decrease $\|W\|^2$ with inner
# products only, so that they work with a kernel.
#
# * **GSK** moves a whole class point towards an extreme point of its reduced hull: $1/\mu$ samples, $1/\mu$ rows of the Gram matrix.
# * **MDM** takes weight from one sample, and gives it to such an extreme point.
# * **Clipped MDM** exchanges weight between two samples, and clips the step to $0 \le q_i \le \mu$:
#   $$q_L \mathrel{+}= \lambda,\quad q_U \mathrel{-}= \lambda,\qquad
#   \lambda = \min\Bigl\{\frac{W^\top (x_U - x_L)}{\|x_U - x_L\|^2},\ \mu - q_L,\ q_U\Bigr\}.$$

# %%
import importlib.util
import subprocess
import sys

# in a fresh environment: install the library from the checkout of this lecture
if importlib.util.find_spec("ucm") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[plot]"], check=True)

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import neg, pos

# %% [markdown]
# ## From the paper: Figure 2
#
# Four points, $\mu = \tfrac12$, and the other class at 0. The paper starts at $W = \tfrac12 (x_1 + x_4)$: the *clipped GSK* may then only
# move towards $x_2$ or $x_3$, and neither lowers $\|W\|$. The optimum is $\tfrac12 x_4 + \tfrac14 (x_2 + x_3)$.

# %%
four = np.array([[0.0, 3.0], [-1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
X = np.vstack([four, [[0.0, 0.0]]])
y = np.array([1, 1, 1, 1, -1])

# %% [markdown]
# ## The declaration, and the picture

# %%
U = ucm.ReducedHull(pos, eta=0.5) - ucm.ReducedHull(neg, eta=1.0)
print(U)
ucm.plot.SetDisplay.from_model(U, X, y)
plt.show()

# %%
best = ucm.solve(U, X, y, tol=1e-10)
print("weights:", best.weights.round(6), "  W =", best.x.round(6))
assert np.allclose(best.weights, [0, 0.25, 0.25, 0.5, 1], atol=1e-5)

# %% [markdown]
# The start of the figure is a warm start, whose weights are $(\tfrac12, 0, 0, \tfrac12)$:

# %%
from dataclasses import replace

q = [b.samples for b in ucm.compile(U, X, y, solver="clip-gsk").form.blocks]
given = [np.array([0.5, 0.0, 0.0, 0.5]) if rows.size == 4 else np.ones(1) for rows in q]
figure2 = replace(best, answer=replace(best.answer, q=given))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ucm.ConvergenceWarning)
    stuck = ucm.compile(U, X, y, solver="clip-gsk").solve(warm_start=figure2)
    free = ucm.compile(U, X, y, solver="clip-mdm").solve(warm_start=figure2)
print("clip-gsk:", stuck.status, stuck.weights.round(4), f"||W|| = {np.linalg.norm(stuck.x):.4f}")
print("         ", stuck.message)
print("clip-mdm:", free.status, free.weights.round(4), f"||W|| = {np.linalg.norm(free.x):.4f}")
assert stuck.status == "stalled"
assert free.status == "optimal"

# %% [markdown]
# ## The certificate
#
# The certificate shows the stall: by the support function of the declared set $\|W\|$ is not minimal.

# %%
print(stuck.certificate)
print(free.certificate)
assert stuck.certificate.relative_gap > 0.1 > 1e-6 > free.certificate.relative_gap

# %% [markdown]
# ## From the paper: iterations and kernel operations (Table 3)
#
# The paper counts iterations and *kernel operations*, inner products of samples. A step of GSK reads $1/\mu$ rows, a step of the
# clipped MDM two. Their stopping rule is `stop="paper"`, their kernel $\exp(-\|x - z\|^2/\sigma^2)$. Their thirteen sets are not
# part of this library, so here are four others; look at the ratio of the last two columns.

# %%
print(f"{'data':>14} {'mu':>7} | {'iterations':^21} | {'kernel operations':^23}")
print(f"{'':>14} {'':>7} | {'GSK':>10} {'clip-MDM':>10} | {'GSK':>11} {'clip-MDM':>11}")
for name, nu in (("iris", 0.3), ("wine", 0.15), ("breast_cancer", 0.1), ("digits", 0.1)):
    A, t = ucm.datasets.load(name)
    counts = {}
    for label, solver in {
        "GSK": ucm.solvers.GSK(stop="paper"),
        "clip-MDM": ucm.solvers.ClipMDM(stop="paper"),
    }.items():
        plan = ucm.compile(ucm.models.nu_svm(nu), A, t, kernel="rbf", gamma=1.0 / A.shape[1], solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ucm.ConvergenceWarning)  # their rule proves less than ours
            counts[label] = plan.solve(max_iter=20_000).stats
    gsk, mdm = counts["GSK"], counts["clip-MDM"]
    mu = 2 / (t.size * nu)
    print(
        f"{name:>14} {mu:7.4f} | {gsk.iterations:10,} {mdm.iterations:10,} | "
        f"{gsk.kernel_operations:11,} {mdm.kernel_operations:11,}"
    )
    assert mdm.kernel_operations < gsk.kernel_operations

# %% [markdown]
# As in Table 3, the clipped MDM needs far fewer kernel operations on every set, by two to three powers of ten there, and
# mostly fewer iterations.
#
# ## The picture: the gap by steps
#
# `trace=1` records every step.

# %%
A, t = ucm.datasets.load("wine")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ucm.ConvergenceWarning)
    shown = ucm.plot.ConvergenceDisplay.from_model(
        ucm.models.nu_svm(0.3), A, t, solvers=["gsk", "mdm", "clip-gsk", "clip-mdm"],
        x="iterations", tol=1e-5, trace=1, max_iter=20_000,
    )  # fmt: skip
plt.show()
print(shown.status)
assert shown.status["clip-mdm"] == "optimal" == shown.status["gsk"]
assert "optimal" not in (shown.status["mdm"], shown.status["clip-gsk"])

# %% [markdown]
# ## Beyond the paper
#
# Clipped MDM by the rule of the paper beside the automatic route, on the 13 sets of the paper behind its kernel: times, and proven gaps.
# The rule of the paper bounds no gap.
# `python -m benchmarks.papers run "beyond nearest-points"` measures it, `python -m benchmarks.papers page` draws it:
#
# ![Times and gaps of the method of the paper and of the library](../_static/papers-nearest-points.png)
#
# ## Exercises
#
# 1. Write the clipped MDM for one hull against 0 in ten lines of NumPy, first-order choice, and solve Figure 2 with it.
# 2. At $\mu = 1$ the hulls are whole. Does the clipped GSK still stall?
# 3. Behind the RBF kernel, which solver does `solver="auto"` take, and how many steps does it need on `wine`?
# 4. How many samples have weight, and how many stand at the cap, for $\nu$ = 0.1, 0.3, 0.6? Compare with
#    $\nu m$: at least so many have weight, at most so many stand at the cap.

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. L is the lowest score below the cap, U the highest with weight.
a, mu = np.array([0.5, 0.0, 0.0, 0.5]), 0.5
steps = 0
while steps < 100:
    scores = four @ (four.T @ a)
    low = int(np.argmin(np.where(a < mu - 1e-15, scores, np.inf)))
    high = int(np.argmax(np.where(a > 1e-15, scores, -np.inf)))
    if scores[high] - scores[low] < 1e-10:
        break
    move = (scores[high] - scores[low]) / np.sum((four[high] - four[low]) ** 2)
    move = min(move, mu - a[low], a[high])
    a[low], a[high], steps = a[low] + move, a[high] - move, steps + 1
print(steps, "steps:", a.round(6))
assert np.allclose(a, [0, 0.25, 0.25, 0.5], atol=1e-4)

# %% tags=["hide-cell"]
# 2. No: a vertex below the cap always exists, and the method is GSK itself.
whole = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), X, y, solver="clip-gsk")
print(whole.status, whole.x)
assert whole.status == "optimal"
assert np.allclose(whole.x, [0, 1])

# %% tags=["hide-cell"]
# 3. Sequential minimal optimisation on rows of the Gram matrix.
behind = ucm.solve(ucm.models.nu_svm(0.3), A, t, kernel="rbf")
print(behind.stats.solver, behind.stats.iterations, behind.status)
assert behind.stats.solver == "smo"
assert behind.status == "optimal"

# %% tags=["hide-cell"]
# 4. Schoelkopf's property of nu: it bounds the fraction of margin errors from above, of support vectors from below.
for nu in (0.1, 0.3, 0.6):
    weights = ucm.solve(ucm.models.nu_svm(nu), A, t, tol=1e-9).weights
    cap = 2 / (t.size * nu)
    some, full = np.sum(weights > 1e-7), np.sum(weights > cap * (1 - 1e-6))
    print(f"nu m = {nu * t.size:5.1f}: {full} at the cap, {some} with weight")
    assert full <= nu * t.size + 1e-9 <= some + 1e-9
