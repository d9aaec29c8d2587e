"""Solvers of `Composite`, convex losses plus penalties, and DCA for differences of convex functions."""
