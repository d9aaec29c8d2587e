# %% [markdown]
# # 11. Rare positives in a data frame
#
# **Goal.** Take a pandas frame with one positive among ten samples to a scaled, tuned and calibrated classifier; know what the
# certificate says about it and what it does not; and bound the error of each class by its moments.
#
# For practitioners who know scikit-learn. A classifier that minimises the number of errors neglects a rare class. Three
# remedies exist, and each is one argument or one line here: costs of the classes, a score that weighs the classes equally, and
# a model that does not depend on the proportion of the classes at all.

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
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import ConfusionMatrixDisplay, recall_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ucm
from ucm import Ellipsoid, Param, neg, pos

# %% [markdown]
# The frame: measurements of cell nuclei. Of the malignant cases every sixth is kept, so that they are rare.

# %%
bunch = load_breast_cancer(as_frame=True)
label = bunch.target.map({0: "malignant", 1: "benign"})
rank = label.groupby(label).cumcount()
kept = (label == "benign") | (rank % 6 == 0)
X, y = bunch.data.loc[kept].iloc[:, :10], label[kept]
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
print(y_train.value_counts().to_dict(), "in", X_train.shape)

# %% [markdown]
# ## The declaration
#
# `pos` is the larger label, here "malignant". The features have different units, from 0.05 to 1000. The hinge loss with `L2()`
# measures lengths of `w`, therefore a `StandardScaler` comes first; without it the largest features decide.

# %%
svm = ucm.models.svm(0.5)  # the hinge loss and lam ||w||^2; SVC(kernel="linear", C=1)
mpm = Ellipsoid(pos.mean, pos.cov, Param("kappa", 1.0)) - Ellipsoid(neg.mean, neg.cov, Param("kappa", 1.0))
print(svm)
print(mpm)


# %%
def recalls(model, **options):
    """The recall of each class, by cross-validation on the training part."""
    clf = make_pipeline(StandardScaler(), ucm.Classifier(model, **options))
    found = cross_val_predict(clf, X_train, y_train, cv=5)
    return recall_score(y_train, found, average=None, labels=["malignant", "benign"])


table = {
    "SVM": recalls(svm),
    "SVM, balanced costs": recalls(svm, class_weight="balanced"),
    "MM-MPM": recalls(mpm),
}
for name, (malignant, benign) in table.items():
    print(f"{name:20} recall: malignant {malignant:.2f}, benign {benign:.2f}")
assert table["SVM, balanced costs"][0] > table["SVM"][0]

# %% [markdown]
# `class_weight="balanced"` multiplies the losses of a class by $m / (2 m_o)$. MM-MPM needs no costs: it knows each class by its
# mean and covariance, so that the number of samples does not enter.
#
# ## The certificate
#
# The certificate proves how far the *training problem* is from its optimum. It says nothing about new data, but it excludes one
# cause of a bad score: a solver that stopped too early.

# %%
clf = make_pipeline(StandardScaler(), ucm.Classifier(svm, class_weight="balanced"))
clf.fit(X_train, y_train)
print(clf[-1].certificate_)
assert clf[-1].certificate_.relative_gap <= 1e-6

# %% [markdown]
# ## The picture
#
# scikit-learn's displays take the pipeline; `SetDisplay` draws the sets of the model, in the plane of the normal vector.

# %%
ConfusionMatrixDisplay.from_estimator(clf, X_test, y_test)
plt.show()

# %%
scaled = StandardScaler().fit_transform(X_train)
signs = np.where(y_train == "malignant", 1, -1)
ucm.plot.SetDisplay.from_model(mpm, scaled, signs, plane="normal")
plt.show()

# %% [markdown]
# ## From the paper: a bound for each class
#
# Lanckriet et al. (2002): if the score of a class has mean $\mu$ and standard deviation $s$, every distribution with these moments
# has an error of at most $1/(1 + k^2)$, $k = \mu / s$. `plan.guarantees` evaluates the bound at the fitted $(w, b)$. The moments are
# those of the samples, so that the bound is no probability statement about new data.

# %%
plan = ucm.compile(mpm, scaled, signs)
print(plan.guarantees())

# %% [markdown]
# ## Exercises
#
# 1. Choose `lam` by balanced accuracy. Does the recall of "malignant" grow?
# 2. Multiply five of the scaled features by 10. How much does `w` of `mm_fda` turn at 0.5 and at 0.999 of the largest `kappa`?
# 3. Calibrate the scores to probabilities. How many malignant cases have a probability above 0.2?
# 4. How large may `kappa` be, and what happens to the recalls there?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. A search by balanced accuracy chooses among values of `lam`; the costs stay balanced.
from sklearn.model_selection import GridSearchCV

grid = {"classifier__model__lam": [0.01, 0.1, 1.0, 10.0]}
search = GridSearchCV(clf, grid, scoring="balanced_accuracy", cv=5).fit(X_train, y_train)
print(search.best_params_, round(search.best_score_, 3))
assert search.best_score_ >= np.mean(table["SVM, balanced costs"]) - 0.01

# %% tags=["hide-cell"]
# 2. Distances depend on the units, so that w changes; not at the upper end of kappa, where MM-FDA is Fisher's discriminant.
units = np.where(np.arange(10) < 5, 10.0, 1.0)
upper = ucm.admissible(ucm.models.mm_fda(0.1), scaled, signs)["kappa"].upper
cosines = []
for fraction in (0.5, 0.999):
    model = ucm.models.mm_fda(fraction * upper)
    one, two = ucm.solve(model, scaled, signs).w, units * ucm.solve(model, scaled * units, signs).w
    cosines.append(one @ two / np.linalg.norm(two))
print("cosine of both normal vectors:", np.round(cosines, 4))
assert cosines[0] < 0.95 < 0.99 < cosines[1]

# %% tags=["hide-cell"]
# 3. scikit-learn calibrates any classifier with scores.
from sklearn.calibration import CalibratedClassifierCV

calibrated = CalibratedClassifierCV(clf, cv=5).fit(X_train, y_train)
probability = calibrated.predict_proba(X_test)[:, 1]  # of "malignant", the larger label
print(np.sum(probability[y_test == "malignant"] > 0.2), "of", np.sum(y_test == "malignant"))
assert np.mean(probability[y_test == "malignant"]) > np.mean(probability[y_test == "benign"])

# %% tags=["hide-cell"]
# 4. Up to the value at which the ellipsoids meet; the model is then the minimax probability machine.
upper = ucm.admissible(mpm, scaled, signs)["kappa"].upper
print("kappa <", round(upper, 3), "recalls", recalls(mpm.with_params(kappa=0.8 * upper)).round(2))
assert upper > 1.0
