"""Templates and what jinja2, set up by transformers, makes of them.
usage: templates_peer.py snippets FILE SEED COUNT [strict]: as lm-evaluation-harness sets up jinja2
       templates_peer.py chats FILE SEED COUNT
       templates_peer.py configs DIRECTORY
       templates_peer.py characters FILE
"""

import copy
import json
import random
import re
import sys
import traceback
import unicodedata
from datetime import datetime
from pathlib import Path

import jinja2
import tokenizers
from chat_templates import TEMPLATES, random_chat
from template_snippets import FAILING, SNIPPETS, VARIABLES, random_snippet
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import _cached_compile_jinja_template, render_jinja_template

NOW = [2024, 2, 29, 13, 7, 5]


def compile_strict(template: str) -> jinja2.Template:
    return _cached_compile_jinja_template("").environment.overlay(
        trim_blocks=False, lstrip_blocks=False, keep_trailing_newline=True, undefined=jinja2.StrictUndefined).from_string(template)


def render(template: str, variables: dict, compile=_cached_compile_jinja_template) -> dict:
    try:
        return {"text": compile(template).render(**copy.deepcopy(variables))}  # some filters change lists
    except Exception as error:  # whatever Python raises, ours must refuse too
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(error, jinja2.TemplateSyntaxError):
            result.update(message=error.message, line=error.lineno)
        elif isinstance(error, jinja2.TemplateError):
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
            if lines:  # none where the compiler computed a constant
                result.update(message=error.message, line=lines[-1])
        return result


def has_address(result: dict) -> bool:
    return "0x7f" in re.sub("[^0-9a-z]", "", result.get("text", "").lower())


def snippets(file: str, seed: str, count: str, strict: str = "") -> None:
    compile = compile_strict if strict else _cached_compile_jinja_template
    rng = random.Random(int(seed))
    cases = []
    for template in SNIPPETS + FAILING:
        result = render(template, VARIABLES, compile)
        assert strict or ("error" in result) == (template in FAILING), (template, result)
        cases.append({"template": template, **result})
    while len(cases) < len(SNIPPETS) + len(FAILING) + int(count):
        template = random_snippet(rng)
        result = render(template, VARIABLES, compile)
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


ADDED = {"content": "<added>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
DECODER = {"0": {**ADDED, "content": "<s>", "special": True}, "1": {**ADDED, "content": "</s>", "special": True}}
# name: the files of a tokenizer, with JSON as objects
CONFIGS = {
    "plain": {"tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>", "model_max_length": 4096, "chat_template": "{{ messages }}"}},
    "objects": {"tokenizer_config.json": {"bos_token": {**ADDED, "__type": "AddedToken", "special": True}, "pad_token": None, "unk_token": "<unk>", "model_max_length": 10**30}},
    "legacy map": {"tokenizer_config.json": {"bos_token": "<old>"}, "special_tokens_map.json": {"bos_token": "<new>", "eos_token": {**ADDED, "content": "<eos>"}}},
    "decoder": {"tokenizer_config.json": {"bos_token": "<s>", "added_tokens_decoder": DECODER}, "special_tokens_map.json": {"bos_token": "<ignored>", "eos_token": "</s>"}},
    "model tokens": {"tokenizer_config.json": {"bos_token": "<s>", "image_token": "<image>", "extra_special_tokens": {"audio_token": "<audio>", "boi": "<boi>"}}},
    "more tokens": {"tokenizer_config.json": {"eos_token": "</s>", "additional_special_tokens": ["<a>", "<b>"], "max_len": 12}},
    "extra list": {"tokenizer_config.json": {"eos_token": "</s>", "extra_special_tokens": ["<x>", "<y>"]}},
    "list": {"tokenizer_config.json": {"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}},
    "no default": {"tokenizer_config.json": {"chat_template": [{"name": "rag", "template": "r"}, {"name": "other", "template": "o"}]}},
    "only tools": {"tokenizer_config.json": {"chat_template": [{"name": "tool_use", "template": "t"}]}},
    "file": {"tokenizer_config.json": {"chat_template": "old"}, "chat_template.jinja": "new {{ bos_token }}\n"},
    "files": {"tokenizer_config.json": {"chat_template": "old"}, "chat_template.jinja": "new", "additional_chat_templates/tool_use.jinja": "tools", "additional_chat_templates/rag.jinja": "rag"},
    "only more files": {"tokenizer_config.json": {"chat_template": "old"}, "additional_chat_templates/rag.jinja": "rag"},
    "nothing": {"tokenizer_config.json": {}},
}  # fmt: skip


def selected(tokenizer, **arguments):
    try:
        return tokenizer.get_chat_template(**arguments)
    except ValueError:
        return None


def configs(directory: str) -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    for name, files in CONFIGS.items():
        folder = Path(directory) / name
        (folder / "additional_chat_templates").mkdir(parents=True)
        backend.save(str(folder / "tokenizer.json"))
        for file, content in files.items():
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        length = tokenizer.model_max_length
        seen = {
            "special_tokens": tokenizer.special_tokens_map,
            "extra_special_tokens": [str(token) for token in tokenizer.extra_special_tokens],
            "model_max_length": length if length < 10**18 else None,
            "default": selected(tokenizer),
            "with_tools": selected(tokenizer, tools=[]),
            "rag": tokenizer.chat_template.get("rag") if isinstance(tokenizer.chat_template, dict) else None,
        }
        (folder / "seen.json").write_text(json.dumps(seen))


CHARACTERS = (
    "{{ u.upper() }}|{{ u.lower() }}|{{ u.title() }}|{{ u.capitalize() }}|{{ u.swapcase() }}|{{ u.casefold() }}|{{ [u] }}|"
    "{{ u.split() }}|{{ u.splitlines() }}|{{ u|tojson(ensure_ascii=true) }}|{{ u|wordcount }}|{{ u|title }}|{{ u.strip() }}|"
    "{% for c in u %}{{ [c.isalpha(), c.isdigit(), c.isdecimal(), c.isnumeric(), c.isupper(), c.islower(), c.isspace(),"
    " c.isprintable(), c.istitle(), c.isalnum()]|map('int')|join }}{% endfor %}"
)


def characters(file: str) -> None:
    """Every character of Unicode 3.2, which newer versions leave as it is, but few of the many ideographs."""
    known = [c for c in map(chr, range(0x110000)) if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs", "Co")]
    few = [c for i, c in enumerate(known) if not (0x3400 <= ord(c) <= 0xD7A3 or ord(c) > 0x20000) or i % 41 == 0]
    random.Random(3).shuffle(few)  # so that letters of all kinds meet
    cases = [{"u": "".join(few[i : i + 500])} for i in range(0, len(few), 500)]
    for case in cases:
        case.update(render(CHARACTERS, {"u": case["u"]}))
    Path(file).write_text(json.dumps({"template": CHARACTERS, "cases": cases}))


if __name__ == "__main__":
    {"snippets": snippets, "chats": chats, "configs": configs, "characters": characters}[sys.argv[1]](*sys.argv[2:])
