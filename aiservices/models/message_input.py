"""Convert what users pass as messages: texts, pairs, and the message dicts of OpenAI and LangChain."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .errors import DefinitionProblem
from .media import Audio, File, Image, Media
from .messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

# A text is a user message; a pair or a dict has a role and a content.
MessageInput: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, Any]]
_FORMS = "a message, a pair of role and text, or a dict with role and content"


def to_messages(value: MessageInput, location: str, problems: list[DefinitionProblem]) -> tuple[Message, ...]:
    """Convert the input of a user to messages, and add a problem for each invalid item."""
    if isinstance(value, str):
        return (UserMessage(value),)
    if isinstance(value, Message):
        return (value,)
    messages = list_to_messages(value, location, problems)
    if not messages and not problems:
        problems.append(DefinitionProblem(location, "the input is empty; pass at least one message"))
    return messages


def list_to_messages(
    value: Iterable[object], location: str, problems: list[DefinitionProblem]
) -> tuple[Message, ...]:
    """Convert a list of messages, pairs and dicts to messages, and add a problem for each invalid item."""
    # Strings, bytes and mappings can be iterated over, but their items are not messages.
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        expected = f"pass a text, a message, or a list in which each item is {_FORMS}"
        problems.append(DefinitionProblem(location, f"the input is {type(value).__name__}; {expected}"))
        return ()
    messages: list[Message] = []
    tool_names: dict[str, str] = {}  # by the id of the call, because the dict of a result has only the id
    for number, item in enumerate(value, 1):
        try:
            message = _to_message(item, tool_names)
        except (ValueError, TypeError) as error:
            problems.append(DefinitionProblem(f"{location}, message {number}", str(error)))
            continue
        messages.append(message)
        if isinstance(message, AiMessage):
            tool_names |= {call.id: call.name for call in message.tool_calls}
    return tuple(messages)


def _to_message(item: object, tool_names: Mapping[str, str]) -> Message:
    """Convert one item of a list to a message. Raises ValueError if it is not a message."""
    if isinstance(item, Message):
        return item
    fields: Mapping[str, Any]
    if isinstance(item, Mapping):
        fields = item
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        fields = {"role": item[0], "content": item[1]}
    else:
        raise ValueError(f"it is {type(item).__name__}; it must be {_FORMS}")
    role = fields.get("role", fields.get("type"))  # LangChain writes the role as the type
    read = _READERS.get(role) if isinstance(role, str) else None
    if read is None:
        raise ValueError(f"the role {role!r} is unknown; use one of: {', '.join(_READERS)}")
    return read(fields, tool_names)


def _read_system(fields: Mapping[str, Any], _: Mapping[str, str]) -> Message:
    return SystemMessage(_text(fields.get("content")))


def _read_user(fields: Mapping[str, Any], _: Mapping[str, str]) -> Message:
    parts, name = _parts(fields.get("content")), fields.get("name")
    if not isinstance(name, (str, type(None))):
        raise ValueError(f"its name is {type(name).__name__}; it must be text")
    text = "".join(part for part in parts if isinstance(part, str))
    return UserMessage(text, name, tuple(parts) if len(parts) > 1 or parts[:1] != [text] else ())


def _read_assistant(fields: Mapping[str, Any], _: Mapping[str, str]) -> Message:
    if fields.get("function_call") is not None:
        raise ValueError("function_call is the older form of a tool call; write it in tool_calls")
    calls, content = fields.get("tool_calls"), fields.get("content")
    if content is None:
        content = fields.get("refusal") or ("" if calls else None)
    return AiMessage(_text(content), _tool_calls(calls) if calls else ())


def _read_tool(fields: Mapping[str, Any], tool_names: Mapping[str, str]) -> Message:
    call_id = fields.get("tool_call_id")
    if not isinstance(call_id, str):
        raise ValueError("a result of a tool needs the tool_call_id of its call")
    name = fields.get("name") or tool_names.get(call_id)
    if not isinstance(name, str):
        raise ValueError(f"no message before it has the tool call {call_id!r}; add that message, or a name")
    return ToolMessage(call_id, name, _text(fields.get("content")))


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, str]], Message]] = {
    # "developer" is the name in newer APIs of OpenAI, "human" and "ai" are the names in LangChain.
    "system": _read_system,
    "developer": _read_system,
    "user": _read_user,
    "human": _read_user,
    "assistant": _read_assistant,
    "ai": _read_assistant,
    "tool": _read_tool,
}


def _tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    from output_parsers.text.tool_calls import tool_calls_of

    return tuple(ToolCall(call.id or "", call.name, call.arguments) for call in tool_calls_of(calls))


# --- contents


def _text(content: object) -> str:
    """Return a content that is only text. Raises ValueError for media."""
    parts = _parts(content)
    media = [part for part in parts if not isinstance(part, str)]
    if media:
        raise ValueError(f"its content has {media[0].kind}; only messages of users may have media")
    return "".join(map(str, parts))


def _parts(content: object) -> list[str | Media]:
    """Return the texts and the media of a content. Texts that follow each other are joined by line breaks."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, (list, tuple)):
        kind = type(content).__name__
        raise ValueError(f"its content is {kind}; it must be text or a list of parts")
    if not content:
        raise ValueError("its content is an empty list; it must have at least one part")
    parts: list[str | Media] = []
    for number, item in enumerate(content, 1):
        try:
            part = _part(item)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"part {number} of its content: {reason}") from error
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += f"\n{part}"
        else:
            parts.append(part)
    return parts


_MEDIA: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}


def _part(part: Any) -> str | Media:
    """Convert one part of a content."""
    if isinstance(part, (str, Image, Audio, File)):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    match kind:
        case "text" | "input_text" | "output_text" | "refusal":
            text = part["refusal" if kind == "refusal" else "text"]
            if not isinstance(text, str):
                raise ValueError(f"its text is {type(text).__name__}; it must be text")
            return text
        case "image_url" | "input_image":
            # In Chat Completions the address is in an object; in the Responses API it is the value itself.
            image = part["image_url"]
            options = image if isinstance(image, Mapping) else part
            url = image["url"] if isinstance(image, Mapping) else image
            detail = options.get("detail")
            return Image.from_url(url) if detail is None else Image.from_url(url).with_detail(detail)
        case "input_audio":
            audio = part["input_audio"]
            return Audio.from_bytes(_decode(audio["data"]), f"audio/{audio['format']}")
        case "file" if isinstance(part.get("file"), Mapping):
            return _file(part["file"])
        case "input_file":
            return File.from_url(part["file_url"]) if "file_url" in part else _file(part)
        case "image" | "audio" | "file" if {"url", "base64", "data"} & part.keys():  # of LangChain
            media = _MEDIA[kind]
            if "url" in part:
                return media.from_url(part["url"], part.get("mime_type"))
            data = part["base64"] if "base64" in part else part["data"]
            return media.from_bytes(_decode(data), part.get("mime_type"), name=part.get("filename"))
    raise ValueError(f"{kind!r} is not a known type; use text, image_url, input_audio or file")


def _file(fields: Mapping[str, Any]) -> File:
    """Convert the fields of a file, whose data is a data URL."""
    if "file_data" not in fields:
        raise ValueError("it has no file_data; files that were uploaded before cannot be used")
    data, name = fields["file_data"], fields.get("filename")
    file = File.from_url(data) if data.startswith("data:") else File.from_bytes(_decode(data), name=name)
    return File(file.data, file.media_type, file.url, name)


def _decode(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its data is not in base 64: {error}") from error
