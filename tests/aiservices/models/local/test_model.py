"""The embedded model answers requests of all kinds, can be stopped, and protects its port."""

import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest

from aiservices import create, user_message
from aiservices.models.base import Capabilities, ChatModel
from aiservices.models.errors import (
    BadRequestError,
    DefinitionError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
)
from aiservices.models.local import LocalChatModel, load_runtime
from aiservices.models.local.weights import is_ready, weights_named, weights_path
from aiservices.models.messages import AiMessage, FinishReason, ReplyDelta, SystemMessage, UserMessage
from aiservices.models.registry import find_model
from aiservices.models.requests import (
    ChatOptions,
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    WaitingTime,
)

SMALL = weights_named("smollm2")

# Not importorskip: the runtime must be imported by the package, which sets an environment variable first.
needs_weights = [
    pytest.mark.local_model,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="install the extra local of aiservices first"),
    pytest.mark.skipif(not is_ready(SMALL), reason="SmolLM2 is not here: aiservices models pull smollm2"),
]


def schema(**properties: Any) -> JsonSchemaFormat:
    required = {"required": list(properties), "additionalProperties": False}
    return JsonSchemaFormat("answer", {"type": "object", "properties": properties, **required})


# Without its end token the model generates until the limit, however fast the machine is.
ENDLESS = ChatOptions(max_tokens=900, extra_body={"ignore_eos": True})
LONG_REQUEST = ChatRequest.of("Count from 1 to 500, one number a line.", options=ENDLESS)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalChatModel]:
    model = LocalChatModel("smollm2", context_tokens=1024)
    yield model
    model.close()


def threads_left() -> list[str]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [thread.name for thread in threading.enumerate() if thread.name == "aiservices-local"]
        if not left:
            return []
        time.sleep(0.02)
    return left


class TestAnswers:
    pytestmark = needs_weights

    def test_text_comes_with_usage_and_finish_reason(self, model: LocalChatModel) -> None:
        reply = model.complete(ChatRequest.of("Say hello.", options=ChatOptions(max_tokens=40)))
        assert reply.text
        assert reply.finish_reason is FinishReason.STOP
        assert reply.model == "smollm2"
        assert reply.usage is not None
        assert reply.usage.input_tokens > 5
        assert 0 < reply.usage.output_tokens <= 40

    def test_the_same_request_gets_the_same_answer(self, model: LocalChatModel) -> None:
        request = ChatRequest.of("Name a colour.", options=ChatOptions(max_tokens=20))
        assert model.complete(request).text == model.complete(request).text

    def test_a_truncated_answer_has_the_finish_reason_length(self, model: LocalChatModel) -> None:
        reply = model.complete(ChatRequest.of("Tell a long story.", options=ChatOptions(max_tokens=5)))
        assert reply.finish_reason is FinishReason.LENGTH

    def test_a_stop_text_ends_the_answer(self, model: LocalChatModel) -> None:
        options = ChatOptions(max_tokens=60, stop=("3",))
        reply = model.complete(ChatRequest.of("Count: 1, 2, 3, 4, 5. Repeat it.", options=options))
        assert "3" not in reply.text
        assert reply.finish_reason is FinishReason.STOP

    def test_a_conversation_is_read(self, model: LocalChatModel) -> None:
        messages = [
            SystemMessage("Be brief."),
            UserMessage("Hi", name="Ada"),
            AiMessage("Hello."),
            UserMessage("Bye"),
        ]
        assert model.complete(ChatRequest.of(messages, options=ChatOptions(max_tokens=10, seed=1))).text

    def test_extra_body_reaches_the_runtime(self, model: LocalChatModel) -> None:
        options = ChatOptions(max_tokens=10, extra_body={"grammar": 'root ::= "forty-two"'})
        assert model.complete(ChatRequest.of("Say something.", options=options)).text == "forty-two"


class TestConstrainedAnswers:
    pytestmark = needs_weights

    @pytest.mark.parametrize(
        ("part", "fits"),
        [
            ({"type": "boolean"}, lambda value: value in (True, False)),
            ({"type": "integer", "minimum": 5, "maximum": 9}, lambda value: 5 <= value <= 9),
            ({"enum": ["POSITIVE", "NEGATIVE"]}, lambda value: value in ("POSITIVE", "NEGATIVE")),
            ({"type": "string", "pattern": "^[A-Z]{3}-\\d{2}$"}, lambda value: len(value) == 6),
            (
                {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False}
                | {"minItems": 2},
                lambda value: [type(item) for item in value] == [int, bool],
            ),
        ],
    )
    def test_an_answer_fits_its_schema(self, model: LocalChatModel, part: Any, fits: Any) -> None:
        reply = model.complete(ChatRequest.of("Invent an example.", response_format=schema(value=part)))
        assert fits(json.loads(reply.text)["value"])

    def test_white_space_cannot_pad_the_json(self, model: LocalChatModel) -> None:
        blanks = ChatOptions(max_tokens=200, extra_body={"logit_bias": [["\n", 100], ["\n\n", 100]]})
        wanted = schema(a={"type": "integer", "maximum": 9}, b={"type": "boolean"})
        reply = model.complete(ChatRequest.of("Fill it in.", options=blanks, response_format=wanted))
        assert reply.text == json.dumps(json.loads(reply.text))

    def test_an_answer_in_json_mode_is_an_object(self, model: LocalChatModel) -> None:
        request = ChatRequest.of('Copy this JSON: {"a": 1}', response_format=JsonObjectFormat())
        assert isinstance(json.loads(model.complete(request).text), dict)

    def test_a_schema_that_llguidance_does_not_support_is_enforced(self, model: LocalChatModel) -> None:
        # llguidance does not support "not" and would not constrain the answer.
        wanted = schema(value={"enum": ["red", "blue"], "not": {"const": "green"}})
        reply = model.complete(ChatRequest.of("Invent an example.", response_format=wanted))
        assert json.loads(reply.text)["value"] in ("red", "blue")

    def test_an_invalid_schema_is_a_bad_request(self, model: LocalChatModel) -> None:
        wanted = JsonSchemaFormat("answer", {"type": "nonsense"})
        with pytest.raises(BadRequestError) as caught:
            model.complete(ChatRequest((UserMessage("Hi"),), response_format=wanted))  # not checked by ``of``
        assert str(caught.value).startswith("the embedded model smollm2 does not accept the request: ")
        assert "unrecognized type nonsense" in str(caught.value)


class TestStreams:
    pytestmark = needs_weights

    def test_the_deltas_join_to_the_reply(self, model: LocalChatModel) -> None:
        deltas = list(model.stream(ChatRequest.of("Say hello.", options=ChatOptions(max_tokens=40))))
        reply = deltas[-1].reply
        assert reply is not None
        assert len(deltas) > 3
        assert "".join(delta.text for delta in deltas) == reply.text
        assert [delta.reply for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
        assert reply.finish_reason is FinishReason.STOP
        assert reply.usage is not None

    def test_closing_it_stops_the_model_and_leaves_no_thread(self, model: LocalChatModel) -> None:
        stream = model.stream(LONG_REQUEST)
        assert isinstance(next(stream), ReplyDelta)
        stream.close()  # type: ignore[attr-defined]
        assert [t.name for t in threading.enumerate() if t.name == "aiservices-local"] == []

    def test_the_deltas_of_an_async_stream_join_to_the_reply(self, model: LocalChatModel) -> None:
        async def read() -> list[ReplyDelta]:
            request = ChatRequest.of("Say hello.", options=ChatOptions(max_tokens=40))
            return [delta async for delta in model.astream(request)]

        deltas = asyncio.run(read())
        assert deltas[-1].reply is not None
        assert "".join(delta.text for delta in deltas) == deltas[-1].reply.text

    def test_leaving_an_async_stream_stops_the_model(self, model: LocalChatModel) -> None:
        async def leave() -> None:
            async with aclosing(model.astream(LONG_REQUEST)) as stream:  # type: ignore[type-var]
                async for _ in stream:
                    break

        asyncio.run(leave())
        assert threads_left() == []


class TestConcurrency:
    pytestmark = needs_weights

    def test_four_threads_get_their_own_answers(self, model: LocalChatModel) -> None:
        def ask(word: str) -> str:
            wanted = schema(value={"const": word})
            return model.complete(ChatRequest.of("Go.", response_format=wanted)).text

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, ["a", "b", "c", "d"]))
        assert answers == ['{"value": "a"}', '{"value": "b"}', '{"value": "c"}', '{"value": "d"}']

    def test_async_calls_do_not_block_the_loop(self, model: LocalChatModel) -> None:
        async def both() -> tuple[str, int]:
            ticks = 0
            task = asyncio.create_task(
                model.acomplete(ChatRequest.of("Say hello.", options=ChatOptions(max_tokens=40)))
            )
            while not task.done():
                ticks += 1
                await asyncio.sleep(0.001)
            return task.result().text, ticks

        text, ticks = asyncio.run(both())
        assert text
        assert ticks > 3

    def test_a_cancelled_call_stops_the_model(self, model: LocalChatModel) -> None:
        async def cancel() -> None:
            task = asyncio.create_task(model.acomplete(LONG_REQUEST))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        assert threads_left() == []

    def test_the_time_in_its_queue_is_not_time_of_a_request(self, model: LocalChatModel) -> None:
        options = ChatOptions(max_tokens=10, extra_body={"grammar": 'root ::= "forty-two"'})
        request = ChatRequest.of("Say something.", options=options)
        model.complete(request)
        lock = load_runtime(model._settings)._request_lock
        with ThreadPoolExecutor(1) as pool:
            with lock:  # as if another request were running
                waiting = WaitingTime()
                limited = replace(request, deadline=time.monotonic() + 0.3, waiting=waiting)
                answer = pool.submit(lambda: list(model.stream(limited)))
                time.sleep(1.0)
                assert not answer.done()
            with suppress(ModelTimeoutError):  # on a machine that needs more than 0.3 seconds for the reply
                assert answer.result()[-1].reply is not None
        assert waiting.seconds > 0.8

    def test_a_call_in_a_loop_over_a_stream_of_the_model_is_answered(self, model: LocalChatModel) -> None:
        class Talks(Protocol):
            @user_message("{{text}}")
            def pieces(self, text: str) -> Iterator[str]: ...

            @user_message("{{text}}")
            def reply(self, text: str) -> str: ...

        talks = create(Talks, model, options=ChatOptions(extra_body={"grammar": 'root ::= "forty-two"'}))
        assert {talks.reply("x") for _ in talks.pieces("x")} == {"forty-two"}

    def test_models_with_the_same_weights_share_a_runtime(self, model: LocalChatModel) -> None:
        other = LocalChatModel("smollm2", context_tokens=1024, system_message="Be brief.")
        assert load_runtime(other._settings) is load_runtime(model._settings)


class TestFailures:
    pytestmark = needs_weights

    def test_the_error_for_a_request_that_is_too_long_names_the_setting(self, model: LocalChatModel) -> None:
        with pytest.raises(BadRequestError) as caught:
            model.complete(ChatRequest.of("word " * 2000))
        assert str(caught.value) == (
            "the request has 2021 tokens, but the embedded model smollm2 was loaded with a context of 1024 "
            "tokens: shorten the request, or raise context_tokens of LocalChatModel"
        )
        assert caught.value.status == 400

    def test_a_timeout_stops_the_model(self, model: LocalChatModel) -> None:
        model.complete(ChatRequest.of("Hi", options=ChatOptions(max_tokens=1)))
        request = ChatRequest(LONG_REQUEST.messages, replace(ENDLESS, timeout=0.2))
        with pytest.raises(ModelTimeoutError) as caught:
            model.complete(request)
        assert str(caught.value) == (
            "the embedded model did not finish within 0.2 s: raise timeout, lower max_tokens, "
            "or use smaller weights"
        )
        assert threads_left() == []
        with pytest.raises(ModelTimeoutError):
            asyncio.run(model.acomplete(request))
        assert threads_left() == []

    def test_a_file_that_is_not_gguf_is_an_error_at_the_first_request(self, tmp_path: Path) -> None:
        wrong = tmp_path / "wrong.gguf"
        wrong.write_text("this is no model")
        with pytest.raises(ModelError) as caught:
            LocalChatModel(wrong).complete(ChatRequest.of("Hi"))
        assert str(caught.value) == (
            f"llama.cpp cannot load {wrong}: the file may not be a GGUF file, may be of a kind that this "
            "version of llama.cpp does not support, or may be larger than the free memory. "
            "AISERVICES_LOCAL_LOG=1 shows the log of llama.cpp"
        )

    def test_unknown_weights_in_the_options_are_an_error(self, model: LocalChatModel) -> None:
        with pytest.raises(ModelNotFoundError) as caught:
            model.complete(ChatRequest.of("Hi", options=ChatOptions(model="nope")))
        assert str(caught.value) == (
            "there are no weights named 'nope': choose one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, "
            "smollm2, or give the path of a .gguf file"
        )


class TestTheProcess:
    pytestmark = needs_weights

    @pytest.mark.parametrize("path", ["/v1/models", "/props", "/slots", "/v1/chat/completions"])
    def test_its_port_rejects_requests_without_the_key(self, model: LocalChatModel, path: str) -> None:
        address = load_runtime(model._settings).address
        assert address.startswith("http://127.0.0.1:")
        body = b'{"messages": []}' if path.endswith("completions") else None
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(address + path, data=body), timeout=10)
        assert caught.value.code == 401
        caught.value.close()

    def test_a_process_with_an_open_stream_exits_without_output(self) -> None:
        script = (
            "from aiservices.models.requests import ChatRequest\n"
            "from aiservices.models.local import LocalChatModel\n"
            "stream = LocalChatModel('smollm2').stream(ChatRequest.of('Count from 1 to 500.'))\n"
            "next(stream)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_its_runtime_is_not_imported_before_the_first_request(self) -> None:
        script = (
            "import sys\n"
            "from aiservices.models.registry import find_model\n"
            "find_model('local:smollm2')\n"
            "print('xllamacpp' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("False\n", "")

    def test_it_runs_any_gguf_file_by_its_path(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.gguf"
        mine.symlink_to(weights_path(SMALL))
        model = LocalChatModel(mine, threads=1)
        assert model.complete(ChatRequest.of("Hi", options=ChatOptions(max_tokens=3))).model == "mine"
        model.close()


class TestNames:
    def test_a_model_string_names_it(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.gguf"
        mine.write_bytes(b"GGUF")
        model = find_model(f"local:{mine}")
        assert isinstance(model, LocalChatModel)
        assert isinstance(model, ChatModel)
        assert model.name == "local:mine"
        assert model.capabilities == Capabilities(
            logprobs=20,
            json_schema=True,
            json_mode=True,
            constrained=True,
            tools=True,
            continues_replies=True,
            max_concurrency=1,
        )

    def test_the_error_for_an_unknown_name_lists_the_names(self) -> None:
        with pytest.raises(DefinitionError) as caught:
            LocalChatModel.named("gpt-9")
        assert str(caught.value) == (
            "LocalChatModel: there are no weights named 'gpt-9': choose one of qwen2.5-coder-1.5b, "
            "qwen2.5-coder-0.5b, smollm2, or give the path of a .gguf file"
        )

    def test_a_path_without_a_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(DefinitionError) as caught:
            LocalChatModel.named(str(tmp_path / "none.gguf"))
        assert str(caught.value) == (
            f"LocalChatModel: there is no file of weights at {tmp_path / 'none.gguf'}: give the path of a "
            ".gguf file, or one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, smollm2"
        )

    def test_settings_out_of_range_are_an_error(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.gguf"
        mine.write_bytes(b"GGUF")
        with pytest.raises(DefinitionError) as caught:
            LocalChatModel(mine, options=ChatOptions(temperature=3.0), context_tokens=0, threads=-1)
        assert str(caught.value) == (
            "3 problems:\n"
            "  - LocalChatModel: temperature is 3.0; it must be from 0 to 2\n"
            "  - LocalChatModel: context_tokens is 0; it must be at least 1\n"
            "  - LocalChatModel: threads is -1; it must be at least 1"
        )

    def test_the_error_for_weights_that_are_not_here_has_the_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
        monkeypatch.delenv("AISERVICES_LOCAL_MODEL", raising=False)
        with pytest.raises(DefinitionError) as caught:
            LocalChatModel.named("qwen")
        assert str(caught.value) == (
            "LocalChatModel: the weights qwen2.5-coder-1.5b are not on this machine: get them with "
            "aiservices models pull qwen2.5-coder-1.5b (1.1 GB)"
        )
        with pytest.raises(DefinitionError) as caught:
            LocalChatModel.named("")
        assert str(caught.value) == (
            "LocalChatModel: the embedded model has no weights yet: get some with "
            "aiservices models pull NAME, where NAME is one of qwen2.5-coder-1.5b (1.1 GB), "
            "qwen2.5-coder-0.5b (0.5 GB), smollm2 (0.1 GB)"
        )
