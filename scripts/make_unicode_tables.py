"""Writes easydel/text/jinja/builtins/unicode_tables.inc: what Python's str methods know about characters.

usage: make_unicode_tables.py > easydel/text/jinja/builtins/unicode_tables.inc
Sets are written as first, last, first, last …; one-to-one mappings as first, last, step, difference.
"""

import sys
import unicodedata

ALL = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
WIDTH = 118


def write(name: str, numbers: list[int]) -> None:
    print(f"constexpr int32_t {name}[] = {{")
    line = "   "
    for number in numbers:
        if len(line) + len(str(number)) + 2 > WIDTH:
            print(line)
            line = "   "
        line += f" {number},"
    print(line + "\n};\n")


def ranges(holds) -> list[int]:
    out: list[int] = []
    for c in ALL:
        if holds(chr(c)):
            if out and out[-1] == c - 1:
                out[-1] = c
            else:
                out += [c, c]
    return out


def mapping(change) -> tuple[list[int], list[int]]:
    """The one-to-one part, and the rest as character, count, characters."""
    single, several = [], []
    for c in ALL:
        to = change(chr(c))
        if to == chr(c):
            continue
        if len(to) > 1:
            several += [c, len(to), *map(ord, to)]
            continue
        difference = ord(to) - c
        if single and single[-1][3] == difference:
            first, last, step, _ = single[-1]
            if (first == last and c - last <= 2) or c - last == step:
                single[-1] = (first, c, c - last, difference)
                continue
        single.append((c, c, 1, difference))
    return [n for entry in single for n in entry], several


# Some characters are both: they begin no word, and yet a sigma does not see them.
def is_cased(c: str) -> bool:
    return (c + "a").title().endswith("a")


def is_ignored(c: str) -> bool:
    return ("A" + c + "Σ").lower().endswith("ς") and not (c + "Σ").lower().endswith("ς")


print(f"// Written by scripts/make_unicode_tables.py from Unicode {unicodedata.unidata_version}. Do not edit.\n// clang-format off")
for name, holds in {
    "kAlpha": str.isalpha, "kDecimal": str.isdecimal, "kDigit": str.isdigit, "kNumeric": str.isnumeric,
    "kLower": str.islower, "kUpper": str.isupper, "kTitle": lambda c: unicodedata.category(c) == "Lt",
    "kPrintable": str.isprintable, "kCased": is_cased, "kCaseIgnored": is_ignored,
}.items():  # fmt: skip
    write(name, ranges(holds))
# The sigma at the end of a word is the caller's business.
for name, change in {"Lower": str.lower, "Upper": str.upper, "Title": str.title, "Fold": str.casefold}.items():
    single, several = mapping(change)
    write(f"kTo{name}", single)
    write(f"kTo{name}Several", several or [0, 0])
