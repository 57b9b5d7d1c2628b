"""Texts to train tokenizers on and texts to try them with: every script, marks, joined emoji, control characters."""

import random
import unicodedata

from tokenizers import normalizers, pre_tokenizers

SYLLABLES = "ka lo mi ten ra su ver ing ed ly the an er on re st pro con de ti al ous ness qu ex zo hy ph ch sh oo ee".split()
FOREIGN = "привет мир как дела 你好 世界 模型 日本語 テキスト こんにちは 안녕하세요 مرحبا שלום नमस्ते γειά naïve café Straße œuvre".split()
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "\u2003", "\u2028", "\x85"]
ODD = ["\u200d", "\u200c", "\ufe0f", "\u200b", "\ufeff", "\ufffd", "\x00", "\x01", "\x1f", "\x7f", "\xad", "\u0130", "\u00df",
       "\u1e9e", "\u017f", "\u03a3", "\u03c2", "\u2581", "\u0120", "\ufb01", "\u2460", "\u00bd", "\u1100\u1161\u11a8", "\uac01",
       "\u0344", "\u0958", "e\u0301\u0323", "e\u0323\u0301", "\u212b", "\u2126", "\uff21", "\u3300", "\u0f43"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "1️⃣", "🤷‍♀️"]
ENDINGS = ["'s", "'S", "'re", "'ll", "'VE", "'d", "n't", "'m", "'\u017f", " 'tis"]


def words(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(300)]


def training_text(seed: int) -> list[str]:
    rng = random.Random(seed)
    known = words(rng)
    lines = []
    for _ in range(600):
        parts = []
        for _ in range(rng.randint(3, 14)):
            word = rng.choice(known) if rng.random() < 0.85 else rng.choice(FOREIGN)
            parts.append(word.capitalize() if rng.random() < 0.15 else word)
            if rng.random() < 0.1:
                parts.append(rng.choice([",", ".", "!", "?", "...", "(", ")", '"', "-", "+=", "==", "{}", "don't"]))
            if rng.random() < 0.06:
                parts.append(str(rng.randint(0, 10 ** rng.randint(1, 7))))
            if rng.random() < 0.05:
                parts.append(rng.choice(EMOJI))
        lines.append((" " if rng.random() < 0.9 else "  ").join(parts))
    return lines


def known_to_both(code: int) -> bool:
    """Whether the package's tables, which are of several ages, say of a character what Python's say."""
    char = chr(code)
    category = unicodedata.category(char)
    if category in ("Cn", "Cs", "Co"):
        return False
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        for around in ("{}", "a\u0301{}\u0323", "\u0323{}\u0301"):  # the second and third see the combining class
            text = around.format(char)
            if normalizer.normalize_str(text) != unicodedata.normalize(form, text):
                return False
    if normalizers.Lowercase().normalize_str(char) != char.lower():
        return False
    if normalizers.StripAccents().normalize_str("a" + char) != ("a" if category.startswith("M") else "a" + char):
        return False
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    marks = [c for c in unicodedata.normalize("NFD", "a" + char) if unicodedata.category(c) != "Mn"]
    if accents.normalize_str("a" + char) != "".join(marks):
        return False
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    is_control = category in ("Cc", "Cf") and char not in "\t\n\r"
    if (clean.normalize_str("a" + char) == "a") != (is_control or char == "\ufffd"):
        return False
    is_punctuation = len(pre_tokenizers.Punctuation().pre_tokenize_str("a" + char)) == 2
    if is_punctuation != (category.startswith("P") or char in "$+<=>^`|~"):
        return False
    is_number = len(pre_tokenizers.Digits(True).pre_tokenize_str("a" + char)) == 2
    return is_number == category.startswith("N")


def pool(rng: random.Random, size: int) -> list[str]:
    """Characters of all planes, most of them from blocks that people write in."""
    codes = set(range(0x20, 0x250)) | set(rng.sample(range(0x250, 0x3100), size)) | set(rng.sample(range(0x3100, 0xFFFE), size))
    codes |= set(rng.sample(range(0x10000, 0x1FFFF), size // 2)) | set(range(0x300, 0x370))
    # Python's tables are of Unicode 14; characters of the last releases are known to some libraries and not to others.
    return [chr(code) for code in sorted(codes) if not 0xD800 <= code < 0xE000 and known_to_both(code)]


class Texts:
    def __init__(self, seed: int, added: list[str]) -> None:
        self.rng = random.Random(seed)
        self.words = words(random.Random(1))
        self.pool = pool(self.rng, 900)
        self.marks = [c for c in self.pool if unicodedata.combining(c)]
        self.added = added

    def part(self) -> str:
        rng = self.rng
        draw = rng.random()
        if draw < 0.35:
            return rng.choice(self.words)
        if draw < 0.55:
            return rng.choice(SPACES)
        if draw < 0.60:
            return rng.choice(FOREIGN)
        if draw < 0.70:
            return "".join(rng.choices(self.pool, k=rng.randint(1, 5)))
        if draw < 0.76:
            return rng.choice("aeioucn") + "".join(rng.choices(self.marks, k=rng.randint(1, 3)))
        if draw < 0.80:
            return rng.choice(EMOJI)
        if draw < 0.84:
            return rng.choice(ODD)
        if draw < 0.88:
            return str(rng.randint(0, 10 ** rng.randint(1, 9)))
        if draw < 0.92:
            return "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", k=rng.randint(1, 4)))
        if draw < 0.96:
            return rng.choice(ENDINGS)
        return rng.choice(self.added) if self.added else ""

    def draw(self) -> str:
        rng = self.rng
        if rng.random() < 0.004:  # one very long word
            return "".join(rng.choices(SYLLABLES, k=rng.randint(200, 600)))
        text = "".join(self.part() for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 20])))
        return text.upper() if rng.random() < 0.05 else text
