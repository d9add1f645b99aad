"""Chat models of providers with their own APIs: Anthropic, Gemini and Amazon Bedrock."""
