"""Print the refund of an article: amount.py PRICE DAYS REASON."""

import sys

price, days, reason = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
last_day, deduction = (730, 0) if reason == "broken" else (30, 5)
amount = max(price - deduction, 0) if days <= last_day else 0
print(f"{amount:.2f}")
