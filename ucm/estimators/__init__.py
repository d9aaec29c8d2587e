"""scikit-learn estimators over compiled models: the only floor that imports its base classes."""

from ucm.estimators.classifier import Classifier
from ucm.estimators.classifier_cv import ClassifierCV

__all__ = ["Classifier", "ClassifierCV"]
