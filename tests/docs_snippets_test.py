"""Runs what README.md and docs/*.md tell people to type: shell blocks as they stand, C++ blocks through the compiler,
YAML blocks through `easydel elarge --dry-run`.

usage: docs_snippets_test.py SOURCE EASYDEL commands PAGE…   shell and YAML blocks of these pages
       docs_snippets_test.py SOURCE EASYDEL compile BUILD     C++ blocks of all pages
       docs_snippets_test.py SOURCE EASYDEL lists             what pages name is there, and the README lists all of it

A comment before a block says what a reader need not see:
    <!-- docs-test: skip: why -->          not run, and counted
    <!-- docs-test: needs PROGRAM -->      not run where there is no such program
    <!-- docs-test: file NAME -->          written under that name, for the other blocks of the page
    <!-- docs-test: before … -->           lines of C++ that stand before the block, in the same function
    <!-- docs-test: at file scope … -->    the same, and all of it outside of functions
"""

import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))

import warm_start

Block = collections.namedtuple("Block", "page line language text rule")
FENCE = re.compile(r"(?:^<!-- docs-test: (?P<rule>(?:(?!-->).)*?)\s*-->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
                   re.S | re.M)
RULES = ("skip: ", "needs ", "file ", "before", "at file scope")


def read_blocks(source: pathlib.Path, page: str) -> list[Block]:
    text = (source / page).read_text(encoding="utf-8")
    blocks = [Block(page, text.count("\n", 0, m.start("language")) + 1, m["language"], m["text"], m["rule"] or "")
              for m in FENCE.finditer(text)]
    assert sum(bool(b.rule) for b in blocks) == text.count("docs-test:"), f"{page}: a comment stands before no block"
    for block in blocks:
        assert not block.rule or block.rule.startswith(RULES), f"{page}:{block.line}: {block.rule}"
    return blocks


def pages_of(source: pathlib.Path) -> list[str]:
    return ["README.md"] + sorted(f"docs/{path.name}" for path in (source / "docs").glob("*.md"))


class Hub:
    def __init__(self, source: pathlib.Path, folder: pathlib.Path):
        self.process = subprocess.Popen([sys.executable, source / "tests/reference/hub_server.py", folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        addresses = json.loads(self.process.stdout.readline())
        self.endpoint = addresses["hub"]
        self.ask({"do": "load", "repo": "datasets/org/data", "folder": str(folder / "datasets/org/data"),
                  "branch": "v1.0"})

    def ask(self, request: dict):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        self.process.stdout.readline()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def why_not(block: Block) -> str:
    if block.rule.startswith("skip: "):
        return block.rule[len("skip: "):]
    if block.rule.startswith("needs ") and not shutil.which(block.rule.split()[1]):
        return f"there is no {block.rule.split()[1]}"
    return ""


def run_block(block: Block, folder: pathlib.Path, environment: dict) -> str:
    """What went wrong."""
    if block.rule.startswith("file "):
        (folder / block.rule.split()[1]).write_text(block.text)
        return ""
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    if block.language == "yaml":
        (folder / "page.yaml").write_text(block.text)
        command = ["easydel", "elarge", "page.yaml", "--dry-run"]
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", timeout=240)
    if done.returncode == 0:
        return ""
    return f"{block.page}:{block.line}: exit status {done.returncode}\n{block.text}{done.stdout[-1500:]}{done.stderr[-1500:]}"


def run_commands(source: pathlib.Path, easydel: pathlib.Path, pages: list[str]) -> int:
    sys.path.insert(0, str(source / "tests"))
    import docs_fixture

    faults, ran, skipped = [], 0, []
    with tempfile.TemporaryDirectory() as name:
        temporary = pathlib.Path(name)
        (temporary / "files").mkdir()
        docs_fixture.make_files(temporary / "files")
        docs_fixture.make_hub(temporary / "files", temporary / "hub")
        hub = Hub(source, temporary / "hub")
        environment = os.environ | {
            "PATH": f"{easydel.parent}:{os.environ['PATH']}", "HF_ENDPOINT": hub.endpoint, "no_proxy": "127.0.0.1",
            "HF_HOME": str(temporary / "home"), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        for key in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
            environment.pop(key, None)
        try:
            for page in pages:
                folder = temporary / page.replace("/", "-")
                shutil.copytree(temporary / "files", folder)
                blocks = [block for block in read_blocks(source, page) if block.language in ("sh", "yaml")]
                for block in sorted(blocks, key=lambda block: not block.rule.startswith("file ")):
                    if reason := why_not(block):
                        skipped.append(f"{page}:{block.line}: {reason}")
                        continue
                    ran += 1
                    if fault := run_block(block, folder, environment):
                        faults.append(fault)
        finally:
            hub.close()
    print("\n".join(f"not run: {line}" for line in skipped))
    print("\n\n".join(faults) or f"{ran} blocks ran, {len(skipped)} did not")
    return 1 if faults or ran + len(skipped) == 0 else 0


def as_function(number: int, block: Block) -> str:
    """The block in a namespace of its own, its includes left out."""
    kind, _, hidden = block.rule.partition("\n")
    body = re.sub(r"^#include .*$", "", block.text, flags=re.M)
    if kind == "at file scope":
        inner = f"using namespace easydel;\n{hidden}\n#line {block.line + 1} \"{block.page}\"\n{body}"
    else:
        inner = f"[[maybe_unused]] void run() {{\n{hidden}\n#line {block.line + 1} \"{block.page}\"\n{body}}}"
    return f"namespace block_{number} {{\n{inner}\n}}\n"


def compile_blocks(source: pathlib.Path, build: pathlib.Path) -> int:
    blocks, skipped = [], []
    for page in pages_of(source):
        for block in read_blocks(source, page):
            if block.language == "cpp":
                (skipped if why_not(block) else blocks).append(block)
    includes = {line for block in blocks for line in re.findall(r"^#include .*$", block.text + "\n" + block.rule, re.M)}
    text = "#include <easydel/easydel.h>\n" + "\n".join(sorted(includes)) + "\n"
    text += "".join(as_function(i, block) for i, block in enumerate(blocks))
    commands = json.loads((build / "compile_commands.json").read_text())
    like = next(c for c in commands if c["file"].endswith("examples/quickstart.cpp"))
    words = shlex.split(like["command"])
    for flag in ("-o", "-c"):
        del words[words.index(flag):words.index(flag) + 2]
    # Not the precompiled header of the examples: what a page includes must be enough.
    while "-include" in words:
        del words[words.index("-include"):words.index("-include") + 2]
    words = [w for w in words if w not in ("-Winvalid-pch", "-Werror", "-O2")]
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "blocks.cpp"
        path.write_text(text)
        done = subprocess.run([*words, "-O0", "-w", "-fsyntax-only", str(path)], cwd=like["directory"],
                              capture_output=True, text=True)
    for block in skipped:
        print(f"not compiled: {block.page}:{block.line}: {why_not(block)}")
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    print("\n".join(errors) or done.stderr[-3000:] or f"{len(blocks)} blocks compile, {len(skipped)} were left out")
    return done.returncode


def check_lists(source: pathlib.Path, easydel: pathlib.Path) -> int:
    """Commands and flags in running text exist; the README names every page and every command."""
    def help_of(*words: str) -> str:
        done = warm_start.run([easydel, *words, "--help"], text=True)
        return done.stdout if done.returncode == 0 else ""

    faults = []
    names = re.findall(r"^  ([a-z][a-z-]*) ", help_of().split("SUBCOMMANDS:")[-1], re.M)
    assert len(names) > 15, names
    readme = (source / "README.md").read_text(encoding="utf-8")
    faults += [f"README.md does not name `easydel {name}`" for name in names if f"`easydel {name}" not in readme]
    faults += [f"README.md does not link {page}" for page in pages_of(source)[1:] if f"({page})" not in readme]
    helps = {}
    for page in pages_of(source):
        text = re.sub(r"^```.*?^```$", "", (source / page).read_text(encoding="utf-8"), flags=re.S | re.M)
        for span in re.findall(r"`easydel ([^`\n]+)`", text):
            words = span.replace("\\|", "|").split()
            command = words[:2] if words[0] in ("bench", "lora") and len(words) > 1 else words[:1]
            if command[0].startswith("-"):
                continue
            key = " ".join(command)
            known = helps.setdefault(key, help_of(*command))
            if not known:
                faults.append(f"{page}: there is no `easydel {key}`")
            for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", span):
                if known and flag != "--help" and not re.search(rf"{flag}\b(?!-)", known):
                    faults.append(f"{page}: `easydel {key}` has no {flag}")
    print("\n".join(faults) or f"{len(names)} commands and {len(pages_of(source)) - 1} pages are in the README")
    return 1 if faults else 0


def check_itself() -> None:
    """The readers must not pass by seeing nothing."""
    with tempfile.TemporaryDirectory() as name:
        page = pathlib.Path(name) / "page.md"
        page.write_text("""text
<!-- docs-test: skip: why -->
```sh
a
```
<!-- docs-test: before
int x;
-->
```cpp
++x;
```
```sh
echo hello; false
```
""")
        skipped, compiled, failing = read_blocks(page.parent, page.name)
        assert why_not(skipped) == "why" and not why_not(failing)
        assert failing.line == 12 and "exit status 1" in run_block(failing, page.parent, dict(os.environ))
        assert not run_block(failing._replace(text="true\n"), page.parent, dict(os.environ))
        assert "int x;\n#line 10" in as_function(0, compiled), as_function(0, compiled)


def main() -> int:
    check_itself()
    source, easydel, what = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    if what == "commands":
        return run_commands(source, easydel, sys.argv[4:])
    return compile_blocks(source, pathlib.Path(sys.argv[4])) if what == "compile" else check_lists(source, easydel)


if __name__ == "__main__":
    sys.exit(main())
