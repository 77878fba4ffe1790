"""Offline work over many rows: collect evidence, fit an artefact, evaluate it."""
