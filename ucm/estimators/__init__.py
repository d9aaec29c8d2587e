"""The scikit-learn estimators `Classifier` and `ClassifierCV` over compiled models.

No other package of `ucm` imports the base classes of scikit-learn.
"""

from ucm.estimators.classifier import Classifier
from ucm.estimators.classifier_cv import ClassifierCV

__all__ = ["Classifier", "ClassifierCV"]
