"""Fails when a name of EasyDeL's documents has no row in docs/from-easydel.md, or when a row says that something is there
which no header declares, or when the README's table of models and the keys in docs/elarge.md are not what `easydel models` and
`easydel elarge --keys` print.
usage: docs_test.py SOURCE_DIRECTORY [EASYDEL]"""

import pathlib
import re
import subprocess
import sys

THERE = {"yes", "kept"}
LATER = {"sharding", "State", "eLargeModel", "LoRA", "quantization", "breadth"}
HEADING = "| EasyDeL | here | what differs, and why | there |"
# What stands in code spans and is declared elsewhere: C++ itself, libtorch, placeholders.
FOREIGN = {"std", "at", "easydel", "bool", "operator", "include", "const", "h"} | {
    "Tensor", "Device", "filesystem", "path", "string", "unique_ptr", "M", "Model", "ed", "namespace"
}  # fmt: skip


def read_rows(page: str) -> list[list[str]]:
    """The cells of each row under the heading: name, here, what differs, there."""
    rows, inside = [], False
    for line in page.splitlines():
        if line == HEADING:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def read_names(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def identifiers(cell: str) -> set[str]:
    """What a cell's code spans name, left of any value: `a::b({.c})` names a, b and c; a path names nothing."""
    spans = [span for span in re.findall(r"`([^`]+)`", cell) if "/" not in span]
    return {word for span in spans for word in re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", span))} - FOREIGN


def find_faults(names: list[str], rows: list[list[str]], declared: set[str]) -> list[str]:
    faults = []
    titles = [row[0].strip("`") for row in rows if row]
    faults += [f"no row for {name}" for name in names if name not in titles]
    faults += [f"two rows for {title}" for title in sorted(set(titles)) if titles.count(title) > 1]
    for row in rows:
        if len(row) != 4 or not row[0].startswith("`"):
            faults.append(f"a row must have four cells, the first in backticks: {row}")
        elif row[3] not in THERE | LATER | {"no"}:
            faults.append(f"{row[0]}: the last cell is {row[3]!r}")
        elif not row[1] and not row[2]:
            faults.append(f"{row[0]}: says nothing")
        elif row[3] in THERE and (missing := identifiers(row[1]) - declared):
            faults.append(f"{row[0]}: no header declares {', '.join(sorted(missing))}")
    return faults


def check_itself() -> None:
    """The readers must not pass by seeing nothing."""
    page = f"text\n{HEADING}\n|---|---|---|---|\n| `a` | `B::c(\"x\")` | | yes |\n| `d` | | why | no |\n\n| not | a | row | here |\n"
    rows = read_rows(page)
    assert rows == [["`a`", '`B::c("x")`', "", "yes"], ["`d`", "", "why", "no"]], rows
    assert identifiers(rows[0][1]) == {"B", "c"} and identifiers("`easydel/x.h` and `at::Tensor`") == set()
    assert read_names("# comment\n\na\nf(x)\n") == ["a", "f(x)"]
    assert find_faults(["a", "d"], rows, {"B", "c"}) == []
    assert find_faults(["e"], rows, {"B"}) == ["no row for e", "`a`: no header declares c"]
    assert find_faults([], rows + rows[:1], {"B", "c"}) == ["two rows for a"]


if __name__ == "__main__":
    check_itself()
    source = pathlib.Path(sys.argv[1])
    declared = {word for header in (source / "easydel").rglob("*.h") for word in re.findall(r"\w+", header.read_text())}
    names = read_names((source / "tests/reference/seed_names.txt").read_text())
    rows = read_rows((source / "docs/from-easydel.md").read_text())
    faults = find_faults(names, rows, declared)
    for easydel in sys.argv[2:]:
        table = subprocess.run([easydel, "models"], capture_output=True, text=True, check=True).stdout
        if table.count("\n") < 3 or table not in (source / "README.md").read_text():
            faults.append("README.md must have the table that `easydel models` prints:\n" + table)
        keys = subprocess.run([easydel, "elarge", "--keys"], capture_output=True, text=True, check=True).stdout
        if keys.count("\n| `") < 100 or not (source / "docs/elarge.md").read_text().endswith("\n\n" + keys):
            faults.append("docs/elarge.md must end with what `easydel elarge --keys` prints, after an empty line.")
    print("\n".join(faults) or f"{len(names)} names have their rows, of {len(rows)}")
    sys.exit(1 if faults or not names else 0)
