"""scikit-learn estimators over compiled models: the only floor that imports its base classes."""

from ucm.estimators.classifier import Classifier

__all__ = ["Classifier"]
