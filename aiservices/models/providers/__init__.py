"""Chat models of providers with an API of their own: Anthropic, Gemini and Amazon Bedrock."""
