"""Samples, and the vectors and matrices made of them."""
