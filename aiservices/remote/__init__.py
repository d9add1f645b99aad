"""Offer a service to remote callers: what HTTP, MCP, the playground and the command line share."""
