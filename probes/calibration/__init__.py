"""Calibrators: fused log-odds in, probabilities out. One file each."""
