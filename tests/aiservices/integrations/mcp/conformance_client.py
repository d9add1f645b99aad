"""The client that the conformance suite of MCP starts: a service calls all tools of the server at a URL."""

import json
import os
import sys
from contextlib import suppress
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from aiservices import AiMessage, ChatReply, ScriptedChatModel, ToolCall, create
from aiservices.integrations.mcp import McpServerError, McpTools

URL = sys.argv[1]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
CALLBACK = "http://localhost:3000/callback"


class Storage:
    """Keeps tokens, and the registration of the client."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None
        if SCENARIO == "auth/pre-registration":
            self._client = OAuthClientInformationFull.model_validate(
                {
                    "client_id": CONTEXT["client_id"],
                    "client_secret": CONTEXT["client_secret"],
                    "redirect_uris": [CALLBACK],
                    "token_endpoint_auth_method": "client_secret_basic",
                }
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class User:
    """Signs in: the server of the suite redirects at once."""

    def __init__(self) -> None:
        self._answer: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        self._answer = parse_qs(urlsplit(response.headers["location"]).query)

    async def answer(self) -> AuthorizationCodeResult:
        one = {name: self._answer[name][0] for name in ("code", "state", "iss") if name in self._answer}
        return AuthorizationCodeResult(**one)


def sign_in() -> httpx2.Auth | None:
    if not SCENARIO.startswith("auth/"):
        return None
    if SCENARIO == "auth/client-credentials-basic":
        secret = CONTEXT["client_secret"]
        return ClientCredentialsOAuthProvider(URL, Storage(), CONTEXT["client_id"], secret)
    if SCENARIO == "auth/client-credentials-jwt":
        name = CONTEXT["client_id"]
        signed = SignedJWTParameters(
            issuer=name,
            subject=name,
            signing_key=CONTEXT["private_key_pem"],
            signing_algorithm=CONTEXT.get("signing_algorithm", "ES256"),
        )
        return PrivateKeyJWTOAuthProvider(URL, Storage(), name, signed.create_assertion_provider())
    user = User()
    metadata = OAuthClientMetadata.model_validate({"client_name": "aiservices", "redirect_uris": [CALLBACK]})
    document = "https://conformance-test.local/client-metadata.json"
    return OAuthClientProvider(URL, metadata, Storage(), user.open, user.answer, document)


class Clerk(Protocol):
    def answer(self, question: str) -> str: ...


ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}

REFUSED = (McpServerError,) if SCENARIO in ("auth/scope-retry-limit", "auth/resource-mismatch") else ()

with suppress(*REFUSED), McpTools.http(URL, auth=sign_in(), ask=lambda question: {}, timeout=120) as server:
    for tool in server.tools():
        call = ToolCall("call_1", tool.name, json.dumps(ARGUMENTS.get(tool.name, {})))
        model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "done"])
        print(create(Clerk, model, tools=[server]).answer("?"), model.requests[1].messages[-1])
