"""Methods for samples that are read block by block: a round asks every block, and few numbers come back."""
