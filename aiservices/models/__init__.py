"""Chat models: the protocol in ``base``, and the models that speak it."""
