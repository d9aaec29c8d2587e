# %% [markdown]
# # 9. Which model for my data?
#
# **Goal.** Compare different classifiers fairly: with every size chosen inside the folds, on a common scale, and with the standard
# error of the comparison.
#
# Table 9 of Ito, Takeda and Toh (2015) finds that no model wins on all data sets: "these results show the importance of finding a
# suitable classification model". With one language for all sets a comparison is short.
#
# The sizes $\nu$, $\kappa$, $\alpha$ are not comparable. But each has an *admissible interval*, in which the model is convex and
# not empty. A relative size $\rho \in (0, 1)$ is a fraction of it:
#
# $$\text{size}(\rho) = (1 - \rho)\,\text{lower} + \rho\,\text{upper}.$$

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
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold

import ucm

# %% [markdown]
# ## The declaration
#
# A size with `relative=True` is a fraction: `compile` computes the number from the data, separately in every fold.

# %%
half = ucm.Param("rho", 0.5, relative=True)
models = {
    "nu-SVM": ucm.models.nu_svm(half),
    "MM-MPM": ucm.models.mm_mpm(half),
    "MM-FDA": ucm.models.mm_fda(half),
}

X, y = ucm.datasets.load("breast_cancer")
X = X[:, :10]  # the ten means of breast_cancer: all three models have a finite interval
for name, model in models.items():
    print(f"{name}: {ucm.admissible(model, X, y)['rho']}")

# %% [markdown]
# ## The certificate
#
# The comparison is between models, not solvers: every fit is proven to its tolerance, and `params` has the number of each fraction.

# %%
for name, model in models.items():
    clf = ucm.Classifier(model).fit(X, y)
    solution = clf.solution_
    print(
        f"{name}: {solution.status}, size {solution.params['rho']:.3f}, gap {clf.certificate_.relative_gap:.1e}"
    )
    assert solution.status == "optimal"

# %% [markdown]
# ## From the paper: Table 9
#
# Accuracy by cross-validation, the size chosen inside. The paper has 10 folds and 31 sets; here are 5 folds, four relative sizes,
# and three sets that need no network. "breast-cancer" of the paper is an older set of 683 samples: 97.1, 97.5 and 97.4 %.

# %%
noisy = make_classification(200, 6, n_informative=4, flip_y=0.1, class_sep=1.2, random_state=1)
sets = {
    "breast_cancer": (X, y),
    "iris": ucm.datasets.load("iris"),
    "noisy": (noisy[0], 2 * noisy[1] - 1),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
found = {
    data: ucm.compare(models, A, t, cv=folds, tune=True, n_values=4, progress=False)
    for data, (A, t) in sets.items()
}
for data, comparison in found.items():
    print(f"{data}\n{comparison}\n")
    assert all(one.score > 0.7 for one in comparison)

# %% [markdown]
# As in the paper, the three models are close on most sets, and none is the best on all.
#
# ## The picture
#
# The mean scores with their standard errors. Is a difference more than chance? The same folds for all models give *paired* differences. Folds share training samples, so that
# the plain standard error is too small; Nadeau and Bengio (2003) correct it, for $k$ folds, by the factor
# $\sqrt{1 + k\,n_\text{test}/n_\text{train}}$. The remarks of the tables use this correction.

# %%
found["noisy"].plot()
plt.show()
clear = sum(one.p_value is not None and one.p_value < 0.05 for c in found.values() for one in c)
print(clear, "of", 2 * len(sets), "differences from the best are clear at 95 %")

# %% [markdown]
# ## Along the size
#
# A path shows more than its best point: how flat the optimum is, and where the admissible interval ends.

# %%
shown = ucm.plot.PathDisplay.from_model(
    ucm.models.mm_mpm(0.3), X[::2], y[::2], X_test=X[1::2], y_test=y[1::2]
)
plt.show()
print("admissible:", shown.interval)

# %% [markdown]
# ## Exercises
#
# 1. `ucm.path` takes a grid, of fractions too. Solve MM-MPM at 10 fractions of its interval on `X, y`. How many samples does each get wrong?
# 2. A grid of *absolute* values, $\nu$ = 0.05, 0.1, 0.3: which fits of the $\nu$-SVM on the set "noisy" are not convex?
# 3. Add the l2-loss $\nu$-SVM and the KL model to the comparison on "iris". Are they clearly different from the $\nu$-SVM?
# 4. Is the largest distance of $U$ from 0 the best classifier? Compare the ends of the path.

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. One call, in fractions; the solutions come in the order of the grid.
path = ucm.path(models["MM-MPM"], X, y, rho=np.linspace(0.05, 0.95, 10))
wrong = [int(np.sum(np.sign(s.decision(X)) != y)) for s in path]
print(wrong)
assert len(path) == 10
assert max(wrong) < 0.1 * y.size

# %% tags=["hide-cell"]
# 2. Those below the lower end.
A, t = sets["noisy"]
lower = ucm.admissible(ucm.models.nu_svm(0.5), A, t)["nu"].lower
for nu in (0.05, 0.1, 0.3):
    convex = ucm.compile(ucm.models.nu_svm(nu), A, t).regime.convex
    print(f"nu = {nu:g}: {'convex' if convex else 'not convex'} (the interval begins at {lower:.3f})")
    assert convex == (nu > lower)

# %% tags=["hide-cell"]
# 3. No: the sets differ little where the classes are two clouds.
more = {
    "nu-SVM": models["nu-SVM"],
    "l2": ucm.models.l2_nu_svm(half),
    "KL": ucm.models.kl_svm(half),
}
more_found = ucm.compare(more, *sets["iris"], cv=folds, progress=False)
print(more_found)
assert all(one.p_value is None or one.p_value > 0.05 for one in more_found)

# %% tags=["hide-cell"]
# 4. No: the largest distance is that of the smallest set, which is hardly more than the two means.
small, large = path[0], path[-1]
print(f"distance {-small.objective:.2f} and {-large.objective:.2f}")
for s in (small, large):
    print("accuracy", np.mean(np.sign(s.decision(X)) == y).round(4))
assert small.objective < large.objective
