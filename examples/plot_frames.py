"""
Rare positives in a data frame
==============================

For practitioners. A frame with text, missing values and 8 % positives goes through a scikit-learn pipeline;
`ClassifierCV` chooses the size of an SVM by balanced accuracy. The certificate proves that the remaining
error comes from the model, not from the solver.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import ConfusionMatrixDisplay, brier_score_loss, classification_report
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ucm

rng = np.random.default_rng(0)
m = 3000
timed_out = rng.random(m) < 0.08
frame = pd.DataFrame(
    {
        "amount": np.exp(rng.normal(6.0 + 0.9 * timed_out, 0.8)),
        "age": rng.normal(45.0 - 6.0 * timed_out, 12.0),
        "region": rng.choice(["north", "south", "west"], m),
    }
)
frame.loc[rng.random(m) < 0.05, "age"] = np.nan
label = np.where(timed_out, "late", "paid")
X, X_test, y, y_test = train_test_split(frame, label, stratify=label, random_state=0)

# %%
# Sets and penalties measure lengths in the feature space, therefore the numbers are scaled.
numbers = make_pipeline(SimpleImputer(), StandardScaler())
columns = make_column_transformer((numbers, ["amount", "age"]), (OneHotEncoder(), ["region"]))
svm = ucm.Classifier(ucm.models.svm(1.0), class_weight="balanced")
search = ucm.ClassifierCV(svm, param_range=[0.1, 1.0, 10.0], scoring="balanced_accuracy")
clf = make_pipeline(columns, search).fit(X, y)
print(search.best_params_, search.best_estimator_.certificate_)
print(classification_report(y_test, clf.predict(X_test)))

# %%
# scikit-learn calibrates the scores to probabilities.
model = make_pipeline(columns, search.best_estimator_)
calibrated = CalibratedClassifierCV(model).fit(X, y)
probability = calibrated.predict_proba(X_test)[:, 0]
print("Brier score", round(brier_score_loss(y_test == "late", probability), 4))

ConfusionMatrixDisplay.from_estimator(clf, X_test, y_test)
plt.show()
