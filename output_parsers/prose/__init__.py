"""Numbers, dates, choices and lists written in words."""
