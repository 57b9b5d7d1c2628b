"""Fails when a name of EasyDeL's documents has no row in docs/from-easydel.md; when a row says that something is there
which no header declares, or which no test shows; or when the table in docs/models.md and the keys in docs/elarge.md are
not what `easydel models` and `easydel elarge --keys` print.
usage: docs_test.py SOURCE_DIRECTORY [EASYDEL]"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))

import warm_start

THERE = {"yes", "kept"}
ABSENT = {"no", "breadth"}
HEADING = "| EasyDeL | here | what differs, and why | available | tested by |"
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
    return {word for span in spans for word in re.findall(r"[A-Za-z]\w*", re.sub(r'"[^"]*"', "", span))} - FOREIGN


def without_comments(code: str) -> str:
    """C++ without its comments; what looks like one inside of a string stays."""
    pattern = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m[0] if m[0].startswith('"') else " ", code, flags=re.S)


def cpp_tests(code: str) -> set[str]:
    """Suite.Name of every test of a file."""
    found = re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", without_comments(code), re.M)
    return {f"{suite}.{name}" for suite, name in found}


def collect_tests(directory: pathlib.Path) -> dict[str, set[str]]:
    """The words of the file, by what a row may name: a test of a C++ file, a Python file, a test of a Python file."""
    tests = {}
    for file in directory.rglob("*.cpp"):
        code = file.read_text()
        words = set(re.findall(r"\w+", without_comments(code)))
        tests |= {name: tests.get(name, set()) | words for name in cpp_tests(code)}
    for file in directory.rglob("*_test.py"):
        code, name = file.read_text(), str(file.relative_to(directory))
        words = set(re.findall(r"\w+", code))
        tests |= {name: words} | {f"{name}:{test}": words for test in re.findall(r"^    def (test_\w+)", code, re.M)}
    return tests


def find_faults(names: list[str], rows: list[list[str]], declared: set[str], tests: dict[str, set[str]]) -> list[str]:
    faults = []
    titles = [row[0].strip("`") for row in rows if row]
    faults += [f"no row for {name}" for name in names if name not in titles]
    faults += [f"two rows for {title}" for title in sorted(set(titles)) if titles.count(title) > 1]
    for row in rows:
        if len(row) != 5 or not row[0].startswith("`"):
            faults.append(f"a row must have five cells, the first in backticks: {row}")
        elif row[3] not in THERE | ABSENT:
            faults.append(f"{row[0]}: the fourth cell is {row[3]!r}")
        elif not row[1] and not row[2]:
            faults.append(f"{row[0]}: says nothing")
        elif row[3] in ABSENT:
            faults += [f"{row[0]}: is not there and names a test"] if row[4] else []
        elif missing := identifiers(row[1]) - declared:
            faults.append(f"{row[0]}: no header declares {', '.join(sorted(missing))}")
        elif (test := row[4].strip("`")) not in tests:
            faults.append(f"{row[0]}: there is no test {test!r}" if test else f"{row[0]}: names no test")
        elif test[0].isupper() and identifiers(row[1]) and not (words := identifiers(row[0] + row[1])) & tests[test]:
            faults.append(f"{row[0]}: the file of {test} has none of {', '.join(sorted(words))}")
    return faults


def check_itself() -> None:
    """The readers must not pass by seeing nothing."""
    page = f"text\n{HEADING}\n|---|---|---|---|---|\n| `a` | `B::c(\"x\")` | | yes | `S.T` |\n| `d` | | why | no | |\n\n| not | a | row |\n"
    rows = read_rows(page)
    assert rows == [["`a`", '`B::c("x")`', "", "yes", "`S.T`"], ["`d`", "", "why", "no", ""]], rows
    assert identifiers(rows[0][1]) == {"B", "c"} and identifiers("`easydel/x.h` and `at::Tensor`") == set()
    assert read_names("# comment\n\na\nf(x)\n") == ["a", "f(x)"]
    assert without_comments('a // b\nc /* d\ne */ f("// g")').split() == ["a", "c", 'f("//', 'g")']
    assert cpp_tests("TEST_F(S, T) {\n// TEST(S, U)\n  TEST(S, V)\nTEST_P(\n    S, W) {") == {"S.T", "S.W"}
    tests = {"S.T": {"B"}}
    assert find_faults(["a", "d"], rows, {"B", "c"}, tests) == []
    assert find_faults(["e"], rows, {"B"}, tests) == ["no row for e", "`a`: no header declares c"]
    assert find_faults([], rows + rows[:1], {"B", "c"}, tests) == ["two rows for a"]
    assert find_faults([], rows, {"B", "c"}, {}) == ["`a`: there is no test 'S.T'"]
    assert find_faults([], rows, {"B", "c"}, {"S.T": {"x"}}) == ["`a`: the file of S.T has none of B, a, c"]
    assert find_faults([], [rows[0][:4] + [""]], {"B", "c"}, tests) == ["`a`: names no test"]


if __name__ == "__main__":
    check_itself()
    source = pathlib.Path(sys.argv[1])
    headers = (without_comments(header.read_text()) for header in (source / "easydel").rglob("*.h"))
    declared = {word for header in headers for word in re.findall(r"\w+", header)}
    names = read_names((source / "tests/reference/seed_names.txt").read_text())
    rows = read_rows((source / "docs/from-easydel.md").read_text())
    faults = find_faults(names, rows, declared, collect_tests(source / "tests"))
    for easydel in sys.argv[2:]:
        table = warm_start.run([easydel, "models"], text=True, check=True).stdout
        if table.count("\n") < 3 or f"\n\n{table}\n" not in (source / "docs/models.md").read_text():
            faults.append("docs/models.md must have the table that `easydel models` prints:\n" + table)
        keys = warm_start.run([easydel, "elarge", "--keys"], text=True, check=True).stdout
        if keys.count("\n| `") < 100 or not (source / "docs/elarge.md").read_text().endswith("\n\n" + keys):
            faults.append("docs/elarge.md must end with what `easydel elarge --keys` prints, after an empty line.")
    print("\n".join(faults) or f"{len(names)} names have their rows, of {len(rows)}")
    sys.exit(1 if faults or not names else 0)
