"""Parse numbers, dates, times, choices and lists that are written in prose."""
