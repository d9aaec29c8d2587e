"""Ellipsoids by trust-region secular equations, on both sides of the boundary."""
