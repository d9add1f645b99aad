"""Code shared by all chat models that use an HTTP API.

``api`` is the interface that the dialect of a provider implements, and ``model`` is the chat model that
uses it. ``replies`` reads replies, streams and error responses. ``sync_client`` and ``async_client``
send the requests with libcurl (``curl``), over connections that are kept open. They never repeat a request:
the engine decides about retries, because only the engine knows the budget of a call.
"""

from __future__ import annotations
