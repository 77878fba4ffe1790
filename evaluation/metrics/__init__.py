"""One short file a metric. Each gives the plain number and the form that the bootstrap resamples."""
