"""What is known about an answer without asking its solver."""
