"""0 in U: solvers of `UnitNorm`."""
