"""The schema's changes, in order."""
