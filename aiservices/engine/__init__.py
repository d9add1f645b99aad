"""One call from the request to the typed value: effects, strategies, models, tool rounds, retries."""
