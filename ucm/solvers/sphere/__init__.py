"""Solvers of `UnitNorm`, the minimum over the unit sphere for 0 in U."""
