"""scikit-learn estimators over compiled models: the only floor that imports its base classes."""

from ucm.estimators.classifier import Classifier
from ucm.estimators.compare import Compared, Comparison, compare

__all__ = ["Classifier", "Compared", "Comparison", "compare"]
