"""What PyYAML makes of YAML files, for tests/elarge/yaml_test.cpp.

usage: yaml_peer.py scalars FILE        each line of FILE as a plain scalar: its value as JSON, a line each
       yaml_peer.py draw DIRECTORY SEED COUNT   writes COUNT random documents N.yaml, and N.json, what they mean
       yaml_peer.py load DIRECTORY      reads each N.yaml there and fails unless it means what N.json says
"""

import datetime
import json
import pathlib
import random
import sys

import yaml


def plain(value):
    """Dates as the text that stands there; keys as texts."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return type(a) is type(b) and a == b


WORDS = ["", "~", "null", "yes", "off", "1e-5", "1.5e-05", "0x1f", "017", "1_000", "1:30", ".5", "-.5", "2001-02-03", "<<",
         "=", "- a", "a: b", "a #b", "# c", "é日本", "😀", " lead", "trail ", "tab\there", "line\nbreak", "it's",
         '"q"', "\\", "\x85", "\u2028", "\x07", "&a", "*a", "!t", "%d", "@at", "`tick", "{a", "[b", "|", ">", "?", ":",
         "-", "---", "...", "key", "learning_rate", "3", "-7", "1.0", "true", "Qwen/Qwen2.5-0.5B", "./out", "a" * 130,
         "word " * 40, "0.1.2", "12e03", "+1", "0b101", "0o7", "08", "1__0", "NaN", ".nan", "-.inf", "\ufeff", "x\ty"]


def draw(random, depth, texts=False):
    kind = random.random()
    if depth > 0 and kind < 0.3:
        return {random.choice(WORDS): draw(random, depth - 1, texts) for _ in range(random.randrange(5))}
    if depth > 0 and kind < 0.55:
        return [draw(random, depth - 1, texts) for _ in range(random.randrange(5))]
    if kind < 0.65 and not texts:
        return random.choice([None, True, False, 0, -1, 10**12, 2**63 - 1, -(2**63)])
    if kind < 0.75 and not texts:
        return random.choice([0.0, -0.0, 1e-5, 1.5e300, 5e-324, float("inf"), float("nan"), random.random(), 1e16])
    return random.choice(WORDS)


def only_texts(value):
    if isinstance(value, dict):
        return all(only_texts(inner) for inner in value.values())
    return all(only_texts(inner) for inner in value) if isinstance(value, list) else isinstance(value, str)


def dump(random, value):
    """In one of the many ways to write a document. Not in those that yaml-cpp reads otherwise: breaks of lines that only
    YAML 1.1 has, and tags before block scalars."""
    styles = [None, None, "'", '"'] + (["|", ">"] * 2 if only_texts(value) else [])
    old_breaks = any(c in json.dumps(value, ensure_ascii=False) for c in "\x85\u2028\u2029")
    return yaml.safe_dump(
        value, default_flow_style=random.choice([None, True, False]),
        allow_unicode=random.random() < 0.5 and not old_breaks,
        default_style='"' if old_breaks else random.choice(styles), width=random.choice([20, 80, 1000]),
        indent=random.choice([2, 4, 8]), explicit_start=random.random() < 0.2, explicit_end=random.random() < 0.1,
        line_break=random.choice([None, "\n"]), sort_keys=False)  # fmt: skip


def main():
    mode, where = sys.argv[1], pathlib.Path(sys.argv[2])
    if mode == "scalars":
        for line in where.read_text(encoding="utf-8").split("\n")[:-1]:
            value = yaml.safe_load("k: " + line)["k"]
            print(json.dumps(line if isinstance(value, datetime.date) else value))
    elif mode == "draw":
        rng = random.Random(int(sys.argv[3]))
        for number in range(int(sys.argv[4])):
            while True:
                value = draw(rng, 4, rng.random() < 0.3)
                if rng.random() < 0.2:  # the same object twice: an anchor and an alias
                    shared = draw(rng, 2)
                    value = {"a": shared, "b": [shared, value], "c": shared}
                text = dump(rng, value)
                try:
                    if same(plain(yaml.safe_load(text)), plain(value)):
                        break
                except yaml.YAMLError:
                    pass  # PyYAML does not always read what it writes
            (where / f"{number}.yaml").write_text(text, encoding="utf-8", newline="")
            (where / f"{number}.json").write_text(json.dumps(plain(value)), encoding="utf-8")
    elif mode == "load":
        for file in sorted(where.glob("*.yaml")):
            expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
            found = plain(yaml.safe_load(file.read_text(encoding="utf-8")))
            if not same(found, expected):
                sys.exit(f"{file.name}: PyYAML reads {found!r}, written was {expected!r}:\n{file.read_text()}")
        print("ok")


main()
