"""Samples and given points, their means and covariances, and vectors and matrices of feature space."""
