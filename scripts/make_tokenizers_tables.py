"""Writes easydel/text/unicode/package_tables.inc: what the tokenizers package takes for marks, punctuation and control
characters. Its tables are of older versions of Unicode, a different one for each, so they are asked for and not derived.
usage: make_tokenizers_tables.py > easydel/text/unicode/package_tables.inc"""

import sys

from tokenizers import normalizers, pre_tokenizers

CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]


def bert(**changes):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**options | changes)


def removed(normalizer) -> set[int]:
    return {code for code in CODES if normalizer.normalize_str(f"a{chr(code)}b") == "ab"}


def tables() -> dict[str, set[int]]:
    split = pre_tokenizers.Punctuation()
    isolated = lambda code: [piece for piece, _ in split.pre_tokenize_str(f"a{chr(code)}b")] == ["a", chr(code), "b"]
    return {
        "kMarks": removed(normalizers.StripAccents()),  # which does not decompose first
        "kNonspacingMarks": removed(bert(strip_accents=True)),
        "kOther": removed(bert(clean_text=True)) - {0xFFFD} | {0x9, 0xA, 0xD},
        "kPunctuation": {code for code in CODES if isolated(code)},
    }


def ranges(codes: set[int]) -> list[list[int]]:
    out = []
    for code in sorted(codes):
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def write(out=sys.stdout) -> None:
    out.write("// Written by scripts/make_tokenizers_tables.py.\n")
    for name, codes in tables().items():
        line = f"constexpr Range {name}[] = {{\n"
        for first, last in ranges(codes):
            entry = f"{{0x{first:X}, 0x{last:X}}},"
            if len(line.rsplit("\n", 1)[-1]) + len(entry) > 118:
                line += "\n"
            line += entry + " "
        out.write(line.replace(" \n", "\n").rstrip() + "\n};\n")


if __name__ == "__main__":
    write()
