"""HTTP for the requests that go out: kept connections, of a kind that blocks and one for event loops.

Both send a body and hand back a response, or raise `StatusError` or what their HTTP library raises
(`failures`). Nothing is sent twice: whether to ask again is decided where the budget of a call is known.
Redirects of 307 and 308 are followed; headers that may hold keys go to no other origin.
"""

from __future__ import annotations
