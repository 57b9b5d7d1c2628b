"""Several families in one test: importing what transformers' models share takes longer than a family does."""

import os
import sys

import transformers.models.llama.modeling_llama  # noqa: F401


def take_turns(words: list[str]) -> str:
    """The word of this process. Each gets a process of its own, in turn; all share the imports."""
    if len(words) == 1:
        return words[0]
    failed = []
    for word in words:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(f"--- {word}", file=sys.stderr)
            return word
        if os.waitpid(child, 0)[1] != 0:
            failed.append(word)
    sys.exit("failed: " + ", ".join(failed) if failed else 0)
