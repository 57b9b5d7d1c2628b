"""Checks the folders under easydel/ against the diagram in docs/architecture.md. It fails when

  - an #include points up the diagram, or to a folder that the CMake target does not name in DEPENDS;
  - DEPENDS names a folder that no file of the folder includes;
  - a header of one folder declares a function or a class that a source file of another folder defines;
  - more than 34 files lie flat in one folder;
  - easydel.h does not include the public headers, which lie beside it, and nothing else;
  - easydel.h brings more of torch than a tensor.

usage: include_direction.py SOURCE_DIRECTORY [--table]     --table prints the number of files in each folder"""

import collections
import pathlib
import re
import sys

SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".in")
MOST_FILES = 34


def read_levels(page: str) -> dict[str, int]:
    """Folder -> level, 0 at the bottom, from the first code block of the page."""
    diagram = re.search(r"```\n(.*?)```", page, re.S).group(1).strip().splitlines()
    return {folder: level for level, line in enumerate(reversed(diagram)) for folder in line.split()}


def read_depends(cmake: str) -> set[str]:
    depends = re.search(r"DEPENDS\s+([a-z_\s]+)", cmake)
    return set(depends.group(1).split()) if depends else set()


def source_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES)


def find_faults(source: pathlib.Path) -> list[str]:
    levels = read_levels((source / "docs/architecture.md").read_text())
    faults = []
    for folder in sorted(p for p in (source / "easydel").iterdir() if p.is_dir()):
        name = folder.name
        if name not in levels:
            faults.append(f"easydel/{name}: not in the diagram of docs/architecture.md")
            continue
        cmake = folder / "CMakeLists.txt"
        depends = read_depends(cmake.read_text()) if cmake.exists() else set()
        included = set()
        for other in sorted(depends):
            if levels.get(other, 99) > levels[name]:
                faults.append(f"easydel/{name}/CMakeLists.txt: DEPENDS {other}, which stands above {name} in the diagram")
        for file in source_files(folder):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*[<"]easydel/(\w+)/', line)
                if not match or match.group(1) == name:
                    continue
                other, where = match.group(1), f"{file.relative_to(source)}:{number}"
                included.add(other)
                if other not in levels:
                    faults.append(f"{where}: includes easydel/{other}, which is not in the diagram")
                elif levels[other] > levels[name]:
                    faults.append(f"{where}: {name} may not include {other}, which stands above it in the diagram")
                elif other not in depends:
                    faults.append(f"{where}: includes easydel/{other}, but easydel/{name}/CMakeLists.txt has no DEPENDS {other}")
        for other in sorted(depends - included):
            faults.append(f"easydel/{name}/CMakeLists.txt: DEPENDS {other}, which no file of {name} includes")
    return faults


def blank_out(code: str) -> str:
    """C++ without comments, preprocessor lines and what stands in quotes; the number of lines stays."""
    code = re.sub(r"\\\n", " \n", re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), code, flags=re.M))
    pattern = r'R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: ('""' if m[0][0] in "R\"'" else " ") + "\n" * m[0].count("\n"), code, flags=re.S)


Piece = collections.namedtuple("Piece", "namespace text line defined")


def read_pieces(code: str):
    """What stands at namespace scope: declarations, and what comes before the brace of a definition. Nothing of
    anonymous namespaces, which no other file can see."""
    code = blank_out(code)
    scopes, start, brackets = [], 0, 0  # a scope is the name of a namespace, or None for anything else
    for match in re.finditer(r"[{};()]", code):
        char, at = match[0], match.start()
        if char in "()":
            brackets += 1 if char == "(" else -1
        if brackets or char in "()":  # a lambda among arguments belongs to the piece
            continue
        text = " ".join(code[start:at].split())
        line = code.count("\n", 0, at - len(code[start:at].lstrip())) + 1
        visible = None not in scopes and "(anonymous)" not in scopes
        namespace = re.fullmatch(r'(?:inline )?namespace ?([\w:]*)|extern ?""', text) if char == "{" else None
        if visible and text and char != "}" and not namespace:
            yield Piece("::".join(name for name in scopes if name), text, line, char == "{")
        if char == "{":
            scopes.append((namespace[1] or "(anonymous)" if namespace[1] is not None else "") if namespace else None)
        elif char == "}" and scopes:
            scopes.pop()
        start = at + 1


def class_name(piece: Piece) -> str:
    match = re.match(r"(?:template ?<.*> ?)?(?:class|struct|union) (?:\[\[.*?\]\] ?)?(?:alignas ?\(.*?\) ?)?(\w+)", piece.text)
    return match[1] if match and piece.defined else ""


def function_name(piece: Piece) -> str:
    """`f` or `A::f`; empty for anything else, for templates, and for what is `static` to its file."""
    text = re.sub(r"\[\[.*?\]\] ?", "", piece.text)
    if re.match(r"[,:]|(template|using|typedef|friend|static|static_assert|class|struct|union|enum|inline|constexpr)\b", text):
        return ""
    text, before = re.sub(r"\boperator ?(\(\)|[^\w\s(]+)", "operator_", text.replace("->", " ")), None
    while before != text:  # template arguments hold no name of ours
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    head, bracket, _ = text.partition("(")
    match = re.search(r"(?:(?<=[\s*&])|^)((?:\w+ ?:: ?)*~?\w+)$", head.strip())
    if not match or not bracket or "=" in head:
        return ""
    name = match[1].replace(" ", "")
    typed = match.start(1) > 0 and name != "operator_"  # a macro's call has no type; free operators are all called the same
    return name if "::" in name or typed else ""


def find_strangers(files: list[tuple[str, str, str]]) -> list[str]:
    """files: folder, path, text. What is declared in a header of one folder and defined in another."""
    classes, functions = collections.defaultdict(set), collections.defaultdict(set)
    definitions = []
    for folder, path, text in files:
        header = path.endswith(".h")
        for piece in read_pieces(text):
            if name := class_name(piece):
                classes[name].add(folder)
            elif name := function_name(piece):
                if not piece.defined and header and "::" not in name:
                    functions[piece.namespace, name].add(folder)
                elif piece.defined and not header:
                    definitions.append((folder, path, piece, name))
    faults = []
    for folder, path, piece, name in definitions:
        outer, _, inner = name.rpartition("::")
        owner = next((part for part in outer.split("::") if part in classes), "")
        if owner:
            homes, what = classes[owner], f"the class {owner}"
        else:
            key = "::".join(part for part in (piece.namespace, outer) if part), inner
            homes, what = functions.get(key, set()), inner
        if homes and folder not in homes:
            faults.append(f"{path}:{piece.line}: defines {name}, but {what} is declared in easydel/{', '.join(sorted(homes))}")
    return faults


def count_files(source: pathlib.Path) -> dict[str, int]:
    counts = collections.Counter(str(file.parent.relative_to(source)) for file in source_files(source / "easydel"))
    return dict(sorted(counts.items()))


def find_private_includes(source: pathlib.Path) -> list[str]:
    included = set(re.findall(r'#include "(.+)"', (source / "easydel/easydel.h").read_text()))
    public = {f"easydel/{header.name}" for header in (source / "easydel").glob("*.h")} - {"easydel/easydel.h"}
    return [f"easydel/easydel.h: must include the public headers alone; differs in {h}" for h in sorted(included ^ public)]


def find_heavy_includes(source: pathlib.Path) -> list[str]:
    """What easydel.h reaches of torch besides <ATen/core/...> and <c10/...>: one such line costs a user seconds a file."""
    faults, seen, todo = [], set(), [source / "easydel/easydel.h"]
    while todo:
        header = todo.pop()
        if header in seen or not header.exists():  # a generated one is ours alone
            continue
        seen.add(header)
        for number, line in enumerate(header.read_text().splitlines(), 1):
            if match := re.match(r'\s*#\s*include\s*"(easydel/[^"]+)"', line):
                todo.append(source / match.group(1))
            elif re.match(r"\s*#\s*include\s*<(ATen/(?!core/)|torch/)", line):
                faults.append(f"{header.relative_to(source)}:{number}: {line.strip()} is too heavy for a public header")
    assert len(seen) > 10, "easydel.h includes almost nothing; is it read right?"
    return faults


def check_itself() -> None:
    """The readers must not pass by seeing nothing."""
    assert read_levels("x\n```\ncli\na   b\ncore\n```\n") == {"core": 0, "a": 1, "b": 1, "cli": 2}
    assert read_depends("easydel_library(x\n  SOURCES y.cpp\n  DEPENDS core io)") == {"core", "io"}
    assert blank_out("a // b\n#define f(x) \\\n  x;\n'{' \"{\" 1'000 /* {\n */ R\"({)\"") == 'a  \n\n\n"" "" 1\'000  \n ""'
    header = """namespace a {
class Thing final : public Base {
 public:
  Thing(int x = {}, F f = [] { return 1; });
  void method() const;
  struct Inner { Inner(); };
};
std::map<int, std::function<int(int)>> lend(const Thing& thing, int x = 0);
[[nodiscard]] int kept(std::vector<int> v = {1, 2});
inline int here() { return kept(); }
template <class T> T any(T);
extern int variable;
}  // namespace a
"""
    body = """namespace a {
namespace {
int kept() { return 1; }
}  // namespace
static int lend(int) { return 0; }
int unknown(int x) { if (x) { return lend(x); } return 0; }
Thing::Thing(int x, F f) : Base{x}, f_(std::move(f)) { call(x, [&] { lend(1); }); }
void Thing::method() const {}
Thing::Inner::Inner() = default;
std::map<int, std::function<int(int)>> lend(const Thing& thing, int x) {
  Thing other(1);
  return {};
}
bool Thing::operator()(int) { return true; }
}  // namespace a
int kept(int);
bool operator==(int, int) { return true; }
int a::kept(std::vector<int> v) { return 2; }
"""
    found = [(p.line, function_name(p), p.defined) for p in read_pieces(body)]
    wanted = [(6, "unknown", True), (7, "Thing::Thing", True), (8, "Thing::method", True), (9, "Thing::Inner::Inner", False),
              (10, "lend", True), (14, "Thing::operator_", True), (16, "kept", False), (18, "a::kept", True)]
    assert [f for f in found if f[1]] == wanted, found
    assert find_strangers([("low", "low/a.h", header), ("low", "low/a.cpp", body)]) == []
    strangers = find_strangers([("low", "low/a.h", header), ("high", "high/a.cpp", body)])
    assert [s.split(",")[0] for s in strangers] == [
        f"high/a.cpp:{line}: defines {name}" for line, name, defined in wanted if defined and name != "unknown"], strangers
    assert find_strangers([("low", "low/a.h", header), ("high", "high/a.h", header), ("high", "high/a.cpp", body)]) == []


def main() -> int:
    check_itself()
    source = pathlib.Path(sys.argv[1])
    counts = count_files(source)
    if "--table" in sys.argv:
        print("\n".join(f"{count:4} {folder}" for folder, count in counts.items()))
    files = [(file.relative_to(source).parts[1], str(file.relative_to(source)), file.read_text())
             for folder in (source / "easydel").iterdir() if folder.is_dir() for file in source_files(folder)]
    faults = find_faults(source) + find_strangers(files) + find_private_includes(source) + find_heavy_includes(source)
    faults += [f"{folder}: {count} files lie flat; at most {MOST_FILES}, the rest in folders by idea"
               for folder, count in counts.items() if count > MOST_FILES]
    print("\n".join(faults) or "all includes point down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
