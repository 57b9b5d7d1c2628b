"""Fails when a field of a public options struct has no test that shows what it does: what is accepted acts.

The headers that easydel/easydel.h reaches are read for structs whose names end in one of SUFFIXES. Each field of them
- has a PROBE(Struct, field) in a C++ test (tests/support/probe.h), or
- stands in a field list that a test walks with expect_every_setting_acts (tests/support/setting_probes.h), which asks for
  a probe of every field of the list, or
- is a key of a model's config that models/odd_configs.py, vision_configs.py or audio_configs.py changes, so that models/parity_test.py,
  vision_test.py and audio_test.py compare what it does with transformers; or one whose help says that it is kept: read, and written back.
usage: options_test.py SOURCE_DIRECTORY"""

import pathlib
import re
import runpy
import sys

SUFFIXES = ("Options", "Config", "Arguments", "Settings", "Section")
WALK = "expect_every_setting_acts("
KEPT = "Kept"  # how the help of a key begins that changes nothing, and says why
# What no probe can show, why, and the file of the test that shows it.
EXCEPTIONS = {
    ("WorldOptions", "debug"): ("threads compare in any case, processes where the environment asks for it",
                                "sharding/rank_faults_test.py"),
}
NO_FIELDS = ("using ", "friend ", "static ", "enum ", "struct ", "class ", "template", "virtual ", "typedef ",
             "explicit ", "operator")


def without_comments(code: str) -> str:
    """C++ without comments, and with empty strings."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: '""' if m[0][0] == '"' else " ", code, flags=re.S)


def end_of_block(code: str, begin: int) -> int:
    """Behind the brace that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a brace is not closed")


def statements(body: str) -> list[str]:
    """What stands between the braces of a struct, a declaration each; bodies of functions are {}."""
    found, current, i = [], "", 0
    while i < len(body):
        if body[i] == "{":
            end = end_of_block(body, i)
            is_initializer = re.search(r"[\w>)\]]\s*$|=\s*$", current) and not re.search(r"\)[^;=]*$", strip_angles(current))
            current += "{}"
            i = end
            if not is_initializer and not re.match(r"\s*(struct|class|enum|union)\b", current):
                found.append(current.strip())
                current = ""
            continue
        if body[i] == ";":
            found.append(current.strip())
            current = ""
        else:
            current += body[i]
        i += 1
    return [s for s in found if s]


def strip_angles(text: str) -> str:
    """Without template arguments, which may hold commas, braces and parentheses."""
    before = None
    while before != text:
        before, text = text, re.sub(r"(?<=\w)\s*<[^<>]*>", "", text)
    return text


def field_names(body: str) -> list[str]:
    names, is_public = [], True
    for statement in statements(body):
        while label := re.match(r"(public|protected|private)\s*:\s*", statement):
            is_public, statement = label[1] == "public", statement[label.end():]
        statement = strip_angles(re.sub(r"\[\[[^\]]*\]\]", "", statement))
        if not is_public or not statement or statement.startswith(NO_FIELDS):
            continue
        # Values go first: what is left of a function still has its parentheses.
        head = re.sub(r"\{\}", "", statement)
        declarators = [re.split(r"=", part)[0].strip() for part in split_commas(head)]
        if "(" in declarators[0]:
            continue
        names += [re.search(r"(\w+)\s*$", d)[1] for d in declarators if re.search(r"(\w+)\s*$", d)]
    return names


def split_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1, "{": 1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


class Struct:
    def __init__(self, name: str, bases: list[str], body: str, where: str):
        self.name, self.bases, self.where = name, bases, where
        self.fields = field_names(body)
        self.types = {}  # field -> names in its type
        for statement in statements(body):
            for field in self.fields:
                if match := re.match(rf"(.*)\b{field}\b", statement.split("=")[0], re.S):
                    self.types.setdefault(field, set(re.findall(r"\w+", match[1])))


def find_structs(code: str, where: str) -> list[Struct]:
    code, found = without_comments(code), []
    for match in re.finditer(r"\bstruct\s+(\w+)\s*(?:final\s*)?(:[^;{]*)?\{", code):
        body = code[match.end() : end_of_block(code, match.end() - 1) - 1]
        found.append(Struct(match[1], re.findall(r"\w+", match[2] or ""), body, where))
    return found


def reachable_headers(source: pathlib.Path) -> list[pathlib.Path]:
    seen, todo = [], [source / "easydel/easydel.h"]
    while todo:
        header = todo.pop()
        if header in seen or not header.exists():  # a generated one has no options
            continue
        seen.append(header)
        todo += [source / name for name in re.findall(r'^\s*#\s*include\s*"(easydel/[^"]+)"', header.read_text(), re.M)]
    return seen


def find_probes(code: str) -> list[tuple[str, str]]:
    return re.findall(r"^PROBE\(\s*(\w+)\s*,\s*(\w+)\s*\)", without_comments(code), re.M)


def walking_words(code: str) -> set[str]:
    """What a test that walks field lists names, but for the names of its cases."""
    code = re.sub(r"\bTEST\w*\([^)]*\)", "", without_comments(code))
    return set(re.findall(r"\w+", code)) if WALK in code else set()


def listed_words(sources: list[str]) -> dict[str, set[str]]:
    """Struct -> what its list_fields names."""
    listed = {}
    for code in map(without_comments, sources):
        for match in re.finditer(r"\bvoid\s+list_\w*fields\(\s*(\w+)\s*&[^)]*\)\s*\{", code):
            body = code[match.end() : end_of_block(code, match.end() - 1)]
            listed.setdefault(match[1], set()).update(re.findall(r"\w+", body))
    return listed


def config_keys(sources: list[str]) -> list[tuple[str, str, str, str]]:
    """Class, key, field and help of all that models' configs list: v("rms_norm_eps", norm_eps, "Under the root.")."""
    names = {name: key for code in sources for name, key in re.findall(r'const char\* (\w+_key_) = "(\w+)"', code)}
    entry = r'\b(?:v\(\s*|keyed\(\s*"\w+",\s*)("\w+"|\w+_key_),\s*(?:\w+\.)?(\w+),\s*"((?:[^"\\]|\\.)*)"'
    found = []
    for code in sources:
        for match in re.finditer(r"\bvoid\s+(\w+)::\w*fields?\([^)]*FieldVisitor& \w+\)\s*\{", code):
            owner = "BaseConfig" if match[1] == "ConfigJson" else match[1]
            body = code[match.end() : end_of_block(code, match.end() - 1)]
            found += [(owner, names.get(key, key).strip('"'), field, text) for key, field, text in re.findall(entry, body)]
    return found


def compared_keys(families: dict[str, dict[str, dict]]) -> set[str]:
    """Keys that differ between two configs of a family. Models are compared without dropout, which shows none of it."""
    keys = set()
    for configs in families.values():
        for key in {key for config in configs.values() for key in config}:
            if len({repr(config.get(key, "absent")) for config in configs.values()}) > 1 and "drop" not in key:
                keys.add(key)
    return keys


def find_faults(structs: list[Struct], probes: list[tuple[str, str]], sources: list[str], walking: set[str],
                compared: set[str]) -> list[str]:
    """`walking`: the words of the tests that walk field lists; `compared`: the keys that odd configs change."""
    faults, by_name = [], {}
    for struct in structs:
        if by_name.setdefault(struct.name, struct) is not struct:
            faults.append(f"{struct.where}: {struct.name} is the name of two structs, and a probe cannot tell them apart")
    lists = listed_words(sources)
    shown_keys = {(owner, field) for owner, key, field, text in config_keys(sources)
                  if key in compared or text.startswith(KEPT)}

    def is_config(name: str) -> bool:
        return name in ("BaseConfig", "Config") or name in by_name and any(map(is_config, by_name[name].bases))

    def derives(name: str, base: str) -> bool:  # a template's arguments count among the bases
        bases = [b for b in by_name[name].bases if b != name] if name in by_name else []
        return name == base or base == "BaseConfig" and is_config(name) or any(derives(b, base) for b in bases)

    walked = {name for name in by_name if name in lists and name in walking}
    before = None
    while before != walked:  # what stands inside of a walked struct is walked with it
        before = set(walked)
        for name in before:
            for field, types in by_name[name].types.items():
                walked |= {t for t in types if t in lists and t in by_name and field in lists[name]}

    def is_shown(struct: Struct, field: str) -> bool:
        inner = {t for t in struct.types.get(field, set()) if t in by_name and t != struct.name}
        if struct.name in walked:
            return field in lists[struct.name] or bool(inner & walked)
        is_key = any(name == field and derives(owner, struct.name) for owner, name in shown_keys)
        return is_config(struct.name) and (is_key or any(name in lists for name in inner))

    probed = set(probes)
    for struct in structs:
        for field in struct.fields:
            if (struct.name, field) not in probed | EXCEPTIONS.keys() and not is_shown(struct, field):
                faults.append(f"{struct.where}: {struct.name}::{field} has no probe: add PROBE({struct.name}, {field}) "
                              "under tests/options, which shows what it does")
    for name, field in sorted(probed):
        if name not in by_name:
            faults.append(f"PROBE({name}, {field}): no header declares {name}")
        elif field not in by_name[name].fields:
            faults.append(f"PROBE({name}, {field}): {name} has no such field")
    faults += [f"PROBE({name}, {field}) stands twice" for name, field in sorted(probed) if probes.count((name, field)) > 1]
    return faults


def find_exception_faults(structs: list[Struct], probes: list[tuple[str, str]], tests: pathlib.Path) -> list[str]:
    faults, fields = [], {(struct.name, field) for struct in structs for field in struct.fields}
    for (name, field), (_, test) in EXCEPTIONS.items():
        if (name, field) not in fields or (name, field) in probes:
            faults.append(f"EXCEPTIONS: {name}::{field} is no field, or has a probe")
        if not (tests / test).exists():
            faults.append(f"EXCEPTIONS: {name}::{field} names {test}, which is not there")
    return faults


def check_itself() -> None:
    """The readers must not pass by seeing nothing."""
    code = """
struct PlainOptions {
  // int not_a_field = 1;
  int64_t first = 1;  // a comment; with a semicolon
  std::map<std::string, std::function<at::Tensor(const at::Tensor&)>> by_path = {};
  std::pair<int64_t, int64_t> shape = {1, 1}, other{2, 2};
  std::string name = "a;b{", empty;
  RandomKey key = RandomKey(0);
  std::chrono::seconds limit{10};
  static constexpr int kNone = 1;
  enum class Kind { A, B };
  Kind kind = Kind::A;
  using Alias = int;
  struct Inner { int hidden = 0; };
  Inner inner;
  bool holds() const { return first > 0; }
  static PlainOptions make(int x = 1);
  void check(const std::string& where) const;
  friend bool operator==(const PlainOptions&, const PlainOptions&) = default;

 private:
  int secret_ = 0;
};
struct ListedConfig : BaseConfig {
  ListedConfig();
  double rate = 0.5;
  void fields(FieldVisitor& v) override;
};
"""
    structs = {s.name: s for s in find_structs(code, "x.h")}
    plain = structs["PlainOptions"]
    assert plain.fields == ["first", "by_path", "shape", "other", "name", "empty", "key", "limit", "kind", "inner"], plain.fields
    assert structs["ListedConfig"].fields == ["rate"] and structs["ListedConfig"].bases == ["BaseConfig"]
    assert find_probes("PROBE(A, b) {\n// PROBE(A, c)\nPROBE(\n    A, d) {}") == [("A", "b"), ("A", "d")]
    assert walking_words("TEST(A, B) { expect_every_setting_acts(keys<C>(), {}, observe); }") >= {"C", "keys"}
    assert walking_words("TEST(A, B) { D d; }") == set() and "A" not in walking_words("TEST(A, B) { " + WALK + "); }")
    families = {"f": {"one": {"a": 1, "b": 2, "drop": 1}, "two": {"a": 1, "c": 3, "drop": 2}}, "g": {"one": {"a": 2}}}
    assert compared_keys(families) == {"b", "c"}
    options = find_structs("struct TwoOptions { int a = 1; InnerArguments b; };\nstruct InnerArguments { int c; };", "x.h")
    lists = ["void list_fields(TwoOptions& o, FieldVisitor& v) { v(\"a\", o.a); list_fields(o.b, v); }\n"
             "void list_fields(InnerArguments& o, FieldVisitor& v) { v(\"c\", o.c); }"]
    assert find_faults(options, [], lists, {"TwoOptions"}, set()) == []
    assert len(find_faults(options, [], lists, set(), set())) == 3
    assert len(find_faults(options, [("TwoOptions", "a")], [], set(), set())) == 2
    probes = [("InnerArguments", "c"), ("TwoOptions", "a"), ("TwoOptions", "b")]
    assert find_faults(options, probes, [], set(), set()) == []
    assert find_faults(options, probes + probes[:1], [], set(), set()) == ["PROBE(InnerArguments, c) stands twice"]
    missing = find_faults(options, [("TwoOptions", "z"), ("Gone", "a")], lists, {"TwoOptions"}, set())
    assert missing == ["PROBE(Gone, a): no header declares Gone",
                       "PROBE(TwoOptions, z): TwoOptions has no such field"], missing
    forgotten = find_faults(options, [], [lists[0].replace('v(\"a\", o.a);', "")], {"TwoOptions"}, set())
    assert len(forgotten) == 1 and "TwoOptions::a" in forgotten[0], forgotten
    config = [structs["ListedConfig"]]
    listed = 'void ListedConfig::fields(FieldVisitor& v) { v("the_rate", rate, "How fast."); }'
    assert len(find_faults(config, [], [listed], set(), set())) == 1
    assert find_faults(config, [], [listed], set(), {"the_rate"}) == []
    assert find_faults(config, [], [listed.replace("How", "Kept: how")], set(), set()) == []


if __name__ == "__main__":
    check_itself()
    source = pathlib.Path(sys.argv[1])
    public = reachable_headers(source)
    declared = [(header, struct) for header in sorted((source / "easydel").rglob("*.h"))
                for struct in find_structs(header.read_text(), str(header.relative_to(source)))
                if struct.name.endswith(SUFFIXES)]
    sources = [file.read_text() for file in (source / "easydel").rglob("*") if file.suffix in (".h", ".cpp")]
    tests = {file: file.read_text() for file in sorted((source / "tests").rglob("*.cpp"))}
    probes = [probe for code in tests.values() for probe in find_probes(code)]
    # A struct of a header that is not installed counts once one of its fields has a probe.
    structs = [struct for header, struct in declared if header in public]
    private = {name for name, _ in probes} - {struct.name for struct in structs}
    structs += [struct for _, struct in declared if struct.name in private]
    walking = {word for code in tests.values() for word in walking_words(code)}
    odd = runpy.run_path(str(source / "tests/models/odd_configs.py"))
    compared = compared_keys(odd["ODD_CONFIGS"] | odd["ENCODER_CONFIGS"])
    compared |= compared_keys(runpy.run_path(str(source / "tests/models/vision_configs.py"))["SETTINGS"])
    compared |= compared_keys(runpy.run_path(str(source / "tests/models/audio_configs.py"))["SETTINGS"])
    faults = find_faults(structs, probes, sources, walking, compared)
    faults += find_exception_faults(structs, probes, source / "tests")
    fields = sum(len(struct.fields) for struct in structs)
    print("\n".join(faults) or f"{fields} fields of {len(structs)} structs act; {len(probes)} have a probe of their own")
    sys.exit(1 if faults or not probes else 0)
