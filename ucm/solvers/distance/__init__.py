"""Nearest points in coordinates: solvers of `MinNorm`."""
