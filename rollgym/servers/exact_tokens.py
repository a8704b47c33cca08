"""Asking a model server for the exact tokens of a chat, and continuing from them.

*vLLM* returns them on request. *llama.cpp* returns the sampled ids, and the text of the prompt,
which `/tokenize` turns into the ids that it was read as. Of a character of several tokens it gives
only the last one's log probability, so such a turn is marked and not in the loss. The list of
models says which of the two it is. Neither is asked for alternatives to the sampled tokens, except
that llama.cpp gives no log probabilities without one.

*Continuing from tokens.* A chat endpoint tokenises the conversation again for every turn, and the
model may then read other tokens than it sampled. Here a turn is sent to `/completions` as ids: all
ids of the turn before, unchanged, and the ids of what follows it. That is rendered with the chat
template by the server itself: a marker takes the place of the model's last reply, and the text
after the marker is what follows it. The first token of that text, the end of the turn, is left out
where the model has sampled it. The calls of tools are read from the model's text, which is why the
model must write them as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from rollgym.records import ModelMalformedError, ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.records.token_json import decode_besides_tokens
from rollgym.records.tokens import PROMPT_IDS, SAMPLED_IDS
from rollgym.servers.final_answer import split_thinking
from rollgym.servers.responses import JsonObject
from rollgym.servers.responses.from_chat import READ_OF_CHAT

_OBJECT = JsonDecoder(dict[str, Any])
_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_ROOT = "/.."
"""Both servers have these routes beside `/v1`."""
_FOR_TEMPLATE = ("messages", "tools", "chat_template_kwargs", "model")
_ASKED: JsonObject = {"return_token_ids": True, "logprobs": True}
_VERBOSE = {"verbose": True, "return_tokens": True}
"""Asks llama.cpp for the text of the prompt and for all sampled ids."""
_CHAT_ONLY = frozenset(
    ("messages", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs", "logprobs")
)


class EndpointCalls(Protocol):
    """Calls of model endpoints, such as those of an `EndpointPool`."""

    async def post(self, path: str, body: bytes, *, deadline: float | None = None) -> bytes: ...

    async def get(self, path: str, *, deadline: float | None = None) -> bytes: ...


class ExactTokens:
    """What a model server must be asked so that its answers have their tokens."""

    def __init__(self, pool: EndpointCalls) -> None:
        self._pool = pool
        self._is_llama_cpp: bool | None = None

    async def chat(self, request: Mapping[str, Any], *, deadline: float | None = None) -> bytes:
        """The answer to a request for a chat completion, with its tokens.

        What the request says of log probabilities holds. Raises the model errors of
        `rollgym.records`.
        """
        llama_cpp = await self._has_llama_cpp(deadline)
        asked = _with_tokens(request, llama_cpp=llama_cpp)
        if llama_cpp:
            return msgspec.json.encode(await self._ask_llama_cpp(asked, deadline))
        return await self._post("/chat/completions", asked, deadline)

    async def completion(
        self, request: Mapping[str, Any], send: Callable[[bytes], Awaitable[JsonObject]]
    ) -> JsonObject:
        """The same answer, decoded; `send` sends the request to a server that is not llama.cpp."""
        llama_cpp = self._is_llama_cpp
        if llama_cpp is None:
            llama_cpp = await self._has_llama_cpp(None)
        asked = _with_tokens(request, llama_cpp=llama_cpp)
        if llama_cpp:
            return await self._ask_llama_cpp(asked, None)
        return await send(msgspec.json.encode(asked))

    async def _ask_llama_cpp(self, asked: JsonObject, deadline: float | None) -> JsonObject:
        completion = _OBJECT.decode(await self._post("/chat/completions", asked, deadline))
        prompt = _take_verbose(completion).get("prompt")
        if isinstance(prompt, str):
            ids = await self._tokenize(prompt, deadline, whole=True)
            if len(ids) == (completion.get("usage") or {}).get("prompt_tokens"):
                completion[PROMPT_IDS] = ids
        return completion

    async def continued(
        self, request: Mapping[str, Any], before: list[int], *, deadline: float | None = None
    ) -> JsonObject:
        """A chat completion that continues these tokens, those of the last reply in the chat.

        Without any, the chat begins. Raises the model errors of `rollgym.records`.
        """
        if request.get("tool_choice") not in (None, "auto"):
            raise ModelRequestError(
                "the model cannot continue from tokens with a `tool_choice`: only a chat endpoint "
                "can force a tool; leave it out, or set `continue_from_tokens: false`"
            )
        prompt, room = await self._prompt(request, before, deadline)
        asked = {name: value for name, value in request.items() if name not in _CHAT_ONLY}
        asked |= {"prompt": prompt, "logprobs": 1 if self._is_llama_cpp else 0}
        if self._is_llama_cpp:
            asked |= _VERBOSE
        else:
            asked |= {"return_token_ids": True}
            if room is not None:  # its default for completions is 16 tokens
                asked.setdefault("max_tokens", max(1, room - len(prompt)))
        answer = _OBJECT.decode(await self._post("/completions", asked, deadline))
        _take_verbose(answer)
        return _chat_completion(answer, prompt)

    async def _has_llama_cpp(self, deadline: float | None) -> bool:
        if self._is_llama_cpp is None:
            try:
                answer = _OBJECT.decode(await self._pool.get("/models", deadline=deadline))
            except ModelRequestError:  # a gateway without a list of models
                answer = {}
            owners = [each.get("owned_by") for each in answer.get("data") or ()]
            self._is_llama_cpp = "llamacpp" in owners
        return self._is_llama_cpp

    async def _prompt(
        self, request: Mapping[str, Any], before: list[int], deadline: float | None
    ) -> tuple[list[int], int | None]:
        """The ids of a prompt, and the length of the model's context where the server says it."""
        chat = {name: request[name] for name in _FOR_TEMPLATE if name in request}
        if not before:
            return await self._rendered(chat, deadline)
        messages = list(request["messages"])
        last = max(n for n, message in enumerate(messages) if message.get("role") == "assistant")
        marker = blake2b(msgspec.json.encode(messages), digest_size=16).hexdigest()
        messages[last] = {"role": "assistant", "content": marker}
        text, room = await self._rendered_text({**chat, "messages": messages}, deadline)
        _, found, following = text.partition(marker)
        if not found:
            raise ModelRequestError(
                "the chat template of the model leaves out its last reply, so the turn cannot "
                "continue from tokens; set `continue_from_tokens: false`"
            )
        ids = await self._tokenize(following, deadline)
        return before + (ids[1:] if ids and ids[0] == before[-1] else ids), room

    async def _rendered(
        self, chat: JsonObject, deadline: float | None
    ) -> tuple[list[int], int | None]:
        if await self._has_llama_cpp(deadline):
            text, _ = await self._rendered_text(chat, deadline)
            return await self._tokenize(text, deadline, whole=True), None
        answer = _OBJECT.decode(await self._post(f"{_ROOT}/tokenize", chat, deadline))
        return _numbers(answer), answer.get("max_model_len")

    async def _rendered_text(
        self, chat: JsonObject, deadline: float | None
    ) -> tuple[str, int | None]:
        if await self._has_llama_cpp(deadline):
            answer = _OBJECT.decode(await self._post(f"{_ROOT}/apply-template", chat, deadline))
            return str(answer.get("prompt")), None
        ids, room = await self._rendered(chat, deadline)
        asked = {"model": chat.get("model"), "tokens": ids}
        answer = _OBJECT.decode(await self._post(f"{_ROOT}/detokenize", asked, deadline))
        match answer.get("prompt"):
            case str(text):
                return text, room
        raise ModelMalformedError(
            "the answer of /detokenize has no text as `prompt`: only llama.cpp and vLLM can "
            "continue from tokens; set `continue_from_tokens: false`",
            retryable=False,
        )

    async def _tokenize(
        self, text: str, deadline: float | None, *, whole: bool = False
    ) -> list[int]:
        """The ids of a text with special tokens; `whole` prompts may get a first token."""
        if self._is_llama_cpp:
            asked: JsonObject = {"content": text, "add_special": whole, "parse_special": True}
        else:
            asked = {"prompt": text, "add_special_tokens": whole}
        return _numbers(_OBJECT.decode(await self._post(f"{_ROOT}/tokenize", asked, deadline)))

    async def _post(self, path: str, body: Mapping[str, Any], deadline: float | None) -> bytes:
        return await self._pool.post(path, msgspec.json.encode(body), deadline=deadline)


def _with_tokens(request: Mapping[str, Any], *, llama_cpp: bool) -> JsonObject:
    asked = {**_ASKED, **request}
    if asked["logprobs"]:
        asked["top_logprobs"] = _alternatives(request) or int(llama_cpp)
    return asked | _VERBOSE if llama_cpp else asked


def completion_reader(*, whole: bool) -> Callable[[bytes], JsonObject]:
    """Decodes a chat completion. The ids of the prompt, thousands of numbers, stay undecoded, and
    are checked by who reads them.

    Without `whole`, only what `response_from_chat` reads of it when nobody asks for log
    probabilities with texts.
    """
    return _read_whole if whole else _read_for_response


def _read_whole(answer: bytes) -> JsonObject:
    return decode_besides_tokens(answer, _itself)


def _read_for_response(answer: bytes) -> JsonObject:
    return decode_besides_tokens(answer, _itself, READ_OF_CHAT)


def _itself(completion: JsonObject) -> JsonObject:
    return completion


def _take_verbose(answer: JsonObject) -> JsonObject:
    """What llama.cpp says beside an answer, of which all sampled ids go to the choice.

    With the log probabilities, it gives only the last id of a character of several tokens.
    """
    verbose = answer.pop("__verbose", None)
    if not isinstance(verbose, dict):
        return {}
    match answer.get("choices"), verbose.get("tokens"):
        case [dict() as choice, *_], [_, *_] as ids:
            choice["token_ids"] = ids
    return verbose


def _alternatives(request: Mapping[str, Any]) -> int:
    asked = request.get("top_logprobs")
    return asked if type(asked) is int else 0


def _numbers(answer: JsonObject) -> list[int]:
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or any(type(each) is not int for each in tokens):
        raise ModelMalformedError("the answer of /tokenize has no array of ids as `tokens`")
    return tokens


def _chat_completion(answer: JsonObject, prompt: list[int]) -> JsonObject:
    """The chat completion for a completion of a prompt."""
    match answer.get("choices"):
        case [{"text": str(text)} as choice, *_]:
            reasoning, said = split_thinking(text)
            content, calls = tagged_calls(said)
        case _:
            raise ModelMalformedError("the completion has no text in `choices`")
    message: JsonObject = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict) and "token_logprobs" in logprobs:  # vLLM
        known = logprobs["token_logprobs"] or ()
        logprobs = {"content": [{"logprob": each} for each in known]}
    kept = {"message": message, "logprobs": logprobs, PROMPT_IDS: prompt}
    return {**answer, "choices": [{**choice, **kept}]}


def tagged_calls(text: str) -> tuple[str, list[JsonObject]]:
    """The text without its calls, and the calls. What is not a call stays text."""
    parts, calls = [], []
    first, *blocks = text.split(_OPENING)
    parts.append(first)
    for block in blocks:
        inside, closed, after = block.partition(_CLOSING)
        call = _call(inside) if closed else None
        if call is None:
            parts.append(_OPENING + block)
            continue
        calls.append(call)
        parts.append(after)
    return "".join(parts).strip() if calls else text, calls


class _WrittenCall(msgspec.Struct):
    """A call as the model wrote it. The blanks in its arguments are kept for later prompts."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_CALL = JsonDecoder(_WrittenCall)


def _call(text: str) -> JsonObject | None:
    try:
        given = _CALL.decode(text)
        arguments = bytes(given.arguments)
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    function = {"name": given.name, "arguments": arguments.decode()}
    return {"id": f"call_{uuid4().hex}", "type": "function", "function": function}


def last_tokens(items: object) -> list[int]:
    """All tokens of the model's last turn among items of Responses; [] where it has none."""
    for item in reversed(items) if isinstance(items, list) else ():
        match item:
            case {"prompt_token_ids": [*prompt], "generation_token_ids": [*sampled]}:
                return prompt + sampled
            case {"type": "reasoning" | "function_call"} | {"role": "assistant"}:
                return []
    return []


def require_tokens(item: JsonObject) -> None:
    """Raise ModelMalformedError if an item has no tokens, because training needs them."""
    if PROMPT_IDS not in item or SAMPLED_IDS not in item:
        missing = [name for name in (PROMPT_IDS, SAMPLED_IDS) if name not in item]
        raise ModelMalformedError(
            f"the model server did not return {' and '.join(missing)}, which "
            "return_token_id_information asks for; use llama.cpp, or a version of vLLM or SGLang "
            "that supports `return_token_ids`",
            retryable=False,
        )
