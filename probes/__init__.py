"""Evidence in; signals, and from them one calibrated confidence, out."""
