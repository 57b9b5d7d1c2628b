"""Fails when an #include under easydel/ points up the picture in docs/architecture.md, or to a folder that the CMake
target does not name in DEPENDS, or when easydel.h brings more of torch than a tensor. usage: include_direction.py SOURCE_DIRECTORY"""

import pathlib
import re
import sys


def read_levels(page: str) -> dict[str, int]:
    """Folder -> level, 0 at the bottom, from the first code block of the page."""
    picture = re.search(r"```\n(.*?)```", page, re.S).group(1).strip().splitlines()
    return {folder: level for level, line in enumerate(reversed(picture)) for folder in line.split()}


def read_depends(cmake: str) -> set[str]:
    depends = re.search(r"DEPENDS\s+([a-z_\s]+)", cmake)
    return set(depends.group(1).split()) if depends else set()


def find_faults(source: pathlib.Path) -> list[str]:
    levels = read_levels((source / "docs/architecture.md").read_text())
    faults = []
    for folder in sorted(p for p in (source / "easydel").iterdir() if p.is_dir()):
        name = folder.name
        if name not in levels:
            faults.append(f"easydel/{name}: not in the picture of docs/architecture.md")
            continue
        depends = read_depends((folder / "CMakeLists.txt").read_text()) if (folder / "CMakeLists.txt").exists() else set()
        for other in sorted(depends):
            if levels.get(other, 99) > levels[name]:
                faults.append(f"easydel/{name}/CMakeLists.txt: DEPENDS {other}, which stands above {name} in the picture")
        for file in sorted(folder.rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu", ".in"):
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*[<"]easydel/(\w+)/', line)
                if not match or match.group(1) == name:
                    continue
                other, where = match.group(1), f"{file.relative_to(source)}:{number}"
                if other not in levels:
                    faults.append(f"{where}: includes easydel/{other}, which is not in the picture")
                elif levels[other] > levels[name]:
                    faults.append(f"{where}: {name} may not include {other}, which stands above it in the picture")
                elif other not in depends:
                    faults.append(f"{where}: includes easydel/{other}, but easydel/{name}/CMakeLists.txt has no DEPENDS {other}")
    return faults


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
    """The reader of the picture and of DEPENDS must not pass by seeing nothing."""
    assert read_levels("x\n```\ncli\na   b\ncore\n```\n") == {"core": 0, "a": 1, "b": 1, "cli": 2}
    assert read_depends("easydel_library(x\n  SOURCES y.cpp\n  DEPENDS core io)") == {"core", "io"}


if __name__ == "__main__":
    check_itself()
    source = pathlib.Path(sys.argv[1])
    faults = find_faults(source) + find_heavy_includes(source)
    print("\n".join(faults) or "all includes point down")
    sys.exit(1 if faults else 0)
