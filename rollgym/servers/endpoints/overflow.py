"""Telling a conversation that is too long from a request that is wrong.

Both are answered with a status of the 400s, but only the first is the episode's doing. OpenAI gives
it a code, llama.cpp a type; everybody else is known by the wording alone, and it changes with the
version. Only the message is searched, never the whole body: some servers repeat the conversation in
their errors, and the conversation may be about context windows.
"""

import re

_NAMES = frozenset({"context_length_exceeded", "exceed_context_size_error"})

_WORDINGS = re.compile(
    "|".join(
        [
            # OpenAI, vLLM, SGLang, Mistral and the proxies in front of them.
            r"maximum context length",
            r"context[_ ]length[_ ]exceeded",
            r"exceeds? (?:the |your )?(?:model's )?context (?:window|limit|length)",
            r"model's context length is only",
            # vLLM: prompts that are checked after tokenising, and a negative rest for the answer.
            r"longer than the maximum model length",
            r"too long to fit into the model",
            r"prompt \(\d+ tokens\) is too long",
            r"max_tokens must be at least 1, got -",
            # SGLang.
            r"longer than the model's context length",
            r"input length .{0,40}exceeds the maximum allowed (?:input )?length",
            # llama.cpp and its Python server.
            r"exceeds? the available context size",
            r"context size has been exceeded",
            # Text Generation Inference, Anthropic, Gemini, xAI.
            r"`inputs` (?:tokens \+ `max_new_tokens` must be <=|must have less than)",
            r"(?:prompt|input) is too long",
            r"input token count .{0,40}exceeds the maximum",
            r"maximum prompt length is \d+",
        ]
    ),
    re.IGNORECASE,
)


def is_overflow(message: str, *names: str) -> bool:
    """Whether an error says that the conversation does not fit.

    `names` are what the server calls the error: its code and its type.
    """
    return not _NAMES.isdisjoint(names) or _WORDINGS.search(message) is not None
