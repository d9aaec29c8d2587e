"""Certificates, bounds and references, computed without the solver."""
