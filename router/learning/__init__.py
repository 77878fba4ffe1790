"""What is learned from outcomes after fitting: online calibration, episodes, and heads fitted on the log."""
