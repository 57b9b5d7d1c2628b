"""Templates and what jinja2, set up by transformers, makes of them.
usage: templates_peer.py snippets FILE SEED COUNT
       templates_peer.py chats FILE SEED COUNT
       templates_peer.py configs DIRECTORY
"""

import copy
import json
import random
import re
import sys
from datetime import datetime
from pathlib import Path

import tokenizers
from chat_templates import TEMPLATES, random_chat
from template_snippets import FAILING, SNIPPETS, VARIABLES, random_snippet
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import _cached_compile_jinja_template, render_jinja_template

NOW = [2024, 2, 29, 13, 7, 5]


def render(template: str, variables: dict) -> dict:
    try:
        return {"text": _cached_compile_jinja_template(template).render(**copy.deepcopy(variables))}  # some filters change lists
    except Exception as error:  # whatever Python raises, ours must refuse too
        return {"error": f"{type(error).__name__}: {error}"[:500], "line": getattr(error, "lineno", None)}


def has_address(result: dict) -> bool:
    return "0x7f" in re.sub("[^0-9a-z]", "", result.get("text", "").lower())


def snippets(file: str, seed: str, count: str) -> None:
    rng = random.Random(int(seed))
    cases = []
    for template in SNIPPETS + FAILING:
        result = render(template, VARIABLES)
        assert ("error" in result) == (template in FAILING), (template, result)
        cases.append({"template": template, **result})
    while len(cases) < len(SNIPPETS) + len(FAILING) + int(count):
        template = random_snippet(rng)
        result = render(template, VARIABLES)
        if not has_address(result):
            cases.append({"template": template, **result})
    Path(file).write_text(json.dumps({"variables": VARIABLES, "cases": cases}))


class FixedClock(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*NOW)


def spans(text: str, pairs: list) -> list:
    """Characters to bytes."""
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in pairs]


def apply(tokenizer, name: str, chat: dict) -> dict:
    arguments = copy.deepcopy({k: v for k, v in chat.items() if k not in ("messages", "variables")})
    arguments.update(copy.deepcopy(chat["variables"]))
    try:
        text = tokenizer.apply_chat_template(copy.deepcopy(chat["messages"]), tokenize=False, chat_template=TEMPLATES[name], **arguments)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    result = {"text": text}
    if "continue_final_message" not in chat:
        texts, pairs = render_jinja_template(
            conversations=[copy.deepcopy(chat["messages"])], chat_template=TEMPLATES[name],
            return_assistant_tokens_mask=True, **{**tokenizer.special_tokens_map, **arguments},
        )  # fmt: skip
        assert texts[0] == text
        result["generated"] = spans(text, pairs[0])
    return result


def chats(file: str, seed: str, count: str) -> None:
    chat_template_utils.datetime = FixedClock
    rng = random.Random(int(seed))
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    cases = []
    for index in range(int(count)):
        name = list(TEMPLATES)[index % len(TEMPLATES)]
        chat = random_chat(rng)
        cases.append({"template": name, "chat": chat, **apply(tokenizer, name, chat)})
    variables = tokenizer.special_tokens_map
    Path(file).write_text(json.dumps({"templates": TEMPLATES, "now": NOW, "variables": variables, "cases": cases}))


if __name__ == "__main__":
    {"snippets": snippets, "chats": chats}[sys.argv[1]](*sys.argv[2:])
