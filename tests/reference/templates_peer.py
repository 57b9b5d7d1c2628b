"""Templates and what jinja2, set up by transformers, makes of them.
usage: templates_peer.py snippets FILE SEED COUNT
"""

import copy
import json
import random
import re
import sys
from pathlib import Path

from template_snippets import FAILING, SNIPPETS, VARIABLES, random_snippet
from transformers.utils.chat_template_utils import _cached_compile_jinja_template


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


if __name__ == "__main__":
    {"snippets": snippets}[sys.argv[1]](*sys.argv[2:])
