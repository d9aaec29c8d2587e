# %% [markdown]
# # 6. Sparse classifiers by differences of convex functions
#
# **Goal.** Select few features and few samples by non-convex objectives, and know what is proven about an answer.
#
# Ong and Le Thi (2013) minimise $\sum_i \ell(y_i (w^\top x_i + b)) + \lambda \sum_j r(|w_j|)$. Two parts may be non-convex: the
# *ramp* $\ell_\mu$, which is constant for samples far on the wrong side, and a penalty that is bounded,
#
# $$r_a(s) = 1 - e^{-a s} \qquad\text{or}\qquad r_a(s) = \min(a, s).$$
#
# Each is a difference $g - h$ of convex functions. *DCA* replaces $h$ by its tangent plane at the last iterate, solves the convex
# problem, and repeats: the objective never increases.

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

# %% [markdown]
# ## From the paper: Figures 1 and 2
#
# The ramp tends to the 0-1 loss as $\mu \to 0$. The penalties tend to the count of non-zero weights as $a$ grows.

# %%
t = np.linspace(-2.0, 2.0, 401)
figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
for mu in (0.1, 0.5, 1.0):
    axes[0].plot(t, [ucm.Ramp(mu).value(np.array([v])) for v in t], label=rf"$\mu = {mu:g}$")
axes[0].plot(t, t < 0, color="0.4", lw=1, ls="--", label="0-1 loss")
for a in (1.0, 2.0, 4.0, 10.0):
    axes[1].plot(t, [ucm.ExpL0(a).value(np.array([v])) for v in t], label=f"$a = {a:g}$")
for a in (0.25, 0.5, 1.0):
    axes[2].plot(t, [ucm.CappedL1(a).value(np.array([v])) for v in t], label=f"$a = {a:g}$")
for ax, title, x in zip(
    axes, ("ramp loss (Figure 1)", "ExpL0 (Figure 2)", "capped L1"), ("margin", "$w_j$", "$w_j$")
):
    ax.set(title=title, xlabel=x)
    ax.legend()
plt.show()
margins = np.array([-0.3, 0.2])
assert ucm.Ramp(0.5).value(margins) == np.sum([1.5, 1 - 0.2 / 0.5])  # equation (2): -0.3 < -mu^2

# %% [markdown]
# ## The declaration
#
# The library derives the split into convex parts from the terms.

# %%
model = ucm.Ramp(mu=1) + 0.05 * ucm.ExpL0(a=4)
G, H = model.dc()
print(model)
print("G =", G)
print("H =", H)


# %% [markdown]
# Data of section 4.1: two normal classes in ten dimensions, variance 1.5, around unit vectors $\pm(1, \dots, 1)/\sqrt{10}$, then noise features, all
# scaled by 0.2.


# %%
def noisy(noise, m=100, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.repeat([1, -1], m // 2)
    signal = np.sqrt(1.5) * generator.normal(size=(m, 10)) + labels[:, None] / np.sqrt(10.0)
    return 0.2 * np.hstack([signal, generator.uniform(-1.0, 1.0, (m, noise))]), labels


X, y = noisy(100)

# %% [markdown]
# ## The picture: descents
#
# Each point is a convex problem. Further starts may end at a lower objective; the certificate bounds the gain of the *next* convex
# problem.

# %%
solution = ucm.solve(model, X, y, n_starts=6)
ucm.plot.ConvergenceDisplay.from_solution(solution, x="iterations", y="objective")
plt.show()
print(solution.message)
print("ends of the starts:", np.round(solution.start_objectives, 4))

# %% [markdown]
# ## The certificate
#
# `kind` is "local": the gap is the residual of criticality, in the units of the objective, and no bound of the distance from the global
# minimum. `verify` compares with the last convex problem in CVXPY.

# %%
print(solution.status, "|", solution.certificate)
plan = ucm.compile(model, X, y)
plan.solve()
check = plan.verify()
print(check)
assert check.agrees
assert solution.certificate.kind == "local"

# %% [markdown]
# ## From the paper: Figure 3
#
# The fraction of features in use as noise features come in. The *true* fractions are 1, 0.5, 0.1 and 0.05. Squared norms use all
# features and are not shown. The paper averages 20 permutations and tunes $\lambda$; here $\lambda$ is fixed, and one draw made.

# %%
sparse = {
    "hinge + L1": ucm.Hinge() + 1.0 * ucm.L1(),
    "hinge + ExpL0": ucm.Hinge() + 1.0 * ucm.ExpL0(4),
    "hinge + capped L1": ucm.Hinge() + 1.0 * ucm.CappedL1(1),
    "ramp + L1": ucm.Ramp() + 1.0 * ucm.L1(),
    "ramp + ExpL0": ucm.Ramp() + 1.0 * ucm.ExpL0(4),
    "ramp + capped L1": ucm.Ramp() + 1.0 * ucm.CappedL1(1),
}
noises = (0, 10, 100, 200)
fractions = {name: [] for name in sparse}
for noise in noises:
    A, labels = noisy(noise, seed=1)
    for name, objective in sparse.items():
        w = ucm.solve(objective, A, labels).w
        fractions[name].append(float(np.mean(np.abs(w) > 1e-6)))  # their threshold
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, values), style in zip(fractions.items(), ["o-", "s-", "^-", "o--", "s--", "^--"]):
    ax.plot(noises, values, style, label=name)
ax.plot(noises, [10 / (10 + n) for n in noises], color="0.5", lw=6, alpha=0.3, label="true fraction")
ax.set(xlabel="noise features", ylabel="features in use")
ax.legend()
plt.show()
for name, values in fractions.items():
    print(f"{name:>18}: {[round(v, 3) for v in values]}   true {[1.0, 0.5, 0.091, 0.048]}")
assert fractions["hinge + ExpL0"][-1] < fractions["hinge + L1"][-1]

# %% [markdown]
# As in Figures 3 and 4, L1 selects more and more noise features, the folded concave penalties hardly any.
#
# ## From the paper: Figure 12
#
# Convex problems until convergence. The paper: all within 16 iterations, fewest for the hinge with a folded penalty.

# %%
B, labels = ucm.datasets.load("breast_cancer")
six = {
    "ZeroNormSVM": ucm.models.zero_norm_svm(1.0),
    "CapOneNormSVM": ucm.models.cap_one_norm_svm(1.0),
    "RLSVM2": ucm.models.rlsvm2(0.1),
    "RLSVM1": ucm.models.rlsvm1(1.0),
    "RLSVM0": ucm.models.rlsvm0(1.0),
    "RLSVMC1": ucm.models.rlsvmc1(1.0),
}
for name, each in six.items():
    found = ucm.solve(each, B, labels)
    used = int(np.sum(np.abs(found.w) > 1e-6))
    print(
        f"{name:>14}: {found.stats.iterations:2d} convex problems, {used:2d} of 30 features, {found.status}"
    )
    assert found.stats.iterations <= 16

# %% [markdown]
# ## Beyond the paper
#
# The paper solves each convex problem by a general conic solver. DCA around a conic solver beside DCA around the automatic solver, which
# keeps its basis from problem to problem: times, and the proven criticality of both.
# `python -m benchmarks.papers run "beyond sparse"` measures it, `python -m benchmarks.papers page` draws it:
#
# ![Times and gaps of the method of the paper and of the library](../_static/papers-sparse.png)
#
# ## Exercises
#
# 1. How does the number of samples on the sloped part of the ramp change with $\mu$ = 0.1, 0.25, 0.5, 1? (Figure 11; take $\lambda = 5$)
# 2. Show from the history of `n_starts=6` that the objective never increases.
# 3. `lam_max`: the least $\lambda$ at which $w = 0$ is optimal for the hinge with L1. Find it by bisection.
# 4. Which features does `RLSVM0` keep on breast_cancer for $\lambda = 8$? How good is it on held-out data, and how good the plain SVM?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. Fewer: the sloped part is [-mu^2, mu].
counts = []
for mu in (0.1, 0.25, 0.5, 1.0):
    s = ucm.solve(ucm.models.rlsvm2(5.0, mu=mu), B, labels)
    margin = labels * s.decision(B)
    counts.append(int(np.sum((margin > -(mu**2) - 1e-2) & (margin < mu + 1e-2))))
    print(f"mu = {mu:g}: {counts[-1]} of {labels.size} samples")
assert counts == sorted(counts)

# %% tags=["hide-cell"]
# 2. Start by start.
for start in range(len(solution.start_objectives)):
    heights = [r["objective"] for r in solution.history if r["start"] == start]
    assert all(np.diff(heights) <= 1e-9)
    print(f"start {start}: {np.round(heights, 4)}")

# %% tags=["hide-cell"]
# 3. Above it all weights are 0, below it one is not.
low, high = 1e-3, 1e3
while high - low > 1e-3 * high:
    lam = np.sqrt(low * high)
    w = ucm.solve(ucm.Hinge() + lam * ucm.L1(), X, y).w
    low, high = (lam, high) if np.abs(w).max() > 1e-8 else (low, lam)
print(f"lam_max = {high:.4f}")
assert np.abs(ucm.solve(ucm.Hinge() + 1.01 * high * ucm.L1(), X, y).w).max() < 1e-8
assert np.abs(ucm.solve(ucm.Hinge() + 0.98 * low * ucm.L1(), X, y).w).max() > 1e-8

# %% tags=["hide-cell"]
# 4. A handful, at little cost.
from sklearn.model_selection import cross_val_score

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ucm.ConvergenceWarning)
    few = ucm.Classifier(ucm.models.rlsvm0(8.0)).fit(B, labels)
    scores = {
        name: cross_val_score(ucm.Classifier(m), B, labels, cv=5).mean()
        for name, m in {"RLSVM0": ucm.models.rlsvm0(8.0), "SVM": ucm.models.svm(1.0)}.items()
    }
print(
    "features:",
    np.flatnonzero(np.abs(few.coef_[0]) > 1e-6),
    {k: round(float(v), 3) for k, v in scores.items()},
)
assert np.sum(np.abs(few.coef_[0]) > 1e-6) <= 8
assert scores["RLSVM0"] > 0.9
