"""Numerical methods that certificates and solvers share: conic programs, coordinates, Newton steps."""
