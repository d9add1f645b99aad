"""Decisions: the probabilities of answers, votes, calibrations and thresholds."""
