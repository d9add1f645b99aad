"""Chat models behind HTTP APIs: what every provider has in common.

``api`` is the interface that a provider's API implements, ``model`` the chat model that runs it,
``replies`` and ``errors`` read replies, streams and failures. ``sync_client`` and ``async_client`` send the
requests, over connections that are kept open. They send nothing twice: whether to try again is decided
where the budget of a call is known.
"""

from __future__ import annotations
