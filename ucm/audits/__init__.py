"""Audits: is the answer of another library the optimum of the problem that its parameters state?

Each family of estimators has a file, which turns parameters into a declaration and fitted attributes into
answers; `ucm.audits.registry` lists them. Classes are recognised by name and attributes, so that none of
their packages is imported.
"""

from ucm.audits.audit import audit, from_estimator
from ucm.audits.report import Audit, AuditedProblem

__all__ = ["Audit", "AuditedProblem", "audit", "from_estimator"]
