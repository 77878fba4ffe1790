"""Metrics, one short file each: arrays in, a value with its interval out."""
