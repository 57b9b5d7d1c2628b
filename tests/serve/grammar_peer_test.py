"""Token bytes equal those of xgrammar's own package; answers are valid to jsonschema. usage: grammar_peer_test.py PROGRAM"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start
import jsonschema
import xgrammar
from transformers import PreTrainedTokenizerFast

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "reference"))
from tokenizers_kinds import MARK, make  # noqa: E402

PROGRAM = sys.argv.pop()

NODE = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {
    "anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["value", "next"]}
SCHEMAS = [
    {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": ["a", 1, None]}], "items": {"type": "string"},
     "minItems": 2, "maxItems": 5},
    {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": -7, "maximum": 120},
                                      "x": {"type": "number", "minimum": 0.25, "maximum": 3}}, "required": ["n", "x"]},
    {"type": "object", "patternProperties": {"^k[0-9]$": {"type": "null"}}, "additionalProperties": False},
    {"type": "object", "properties": {"s": {"type": "string", "minLength": 1, "maxLength": 4},
                                      "p": {"type": "string", "pattern": "^[^b]+[0-9]$"}}, "required": ["s", "p"]},
    {"type": ["string", "null", "boolean"]},
    {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    {"type": "object", "properties": {"a": {"const": {"b": [1, "\u00f6\""]}}, "c": {"type": "integer", "multipleOf": 7}},
     "required": ["a"], "minProperties": 2},
]


def run(*args: str, text: str = "") -> str:
    return warm_start.run([PROGRAM, *args], input=text, text=True, check=True).stdout


class GrammarPeer(unittest.TestCase):
    def token_bytes(self, kind: str) -> tuple[list[bytes], list[bytes]]:
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "tokenizer.json"
            file.write_text(make(kind))
            ours = [bytes.fromhex(line[2:]) for line in run("tokens", directory).splitlines()]
            peer = PreTrainedTokenizerFast(tokenizer_file=str(file))
            return ours, [bytes(t) for t in xgrammar.TokenizerInfo.from_huggingface(peer, stop_token_ids=[0]).decoded_vocab]

    def test_bytes_of_tokens(self):
        for kind in ["gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma"]:
            with self.subTest(kind):
                ours, theirs = self.token_bytes(kind)
                self.assertEqual(ours, theirs)

    def test_marks_are_spaces_where_xgrammar_keeps_them(self):
        ours, theirs = self.token_bytes("t5")
        self.assertEqual(ours, [token.replace(MARK.encode(), b" ") for token in theirs])

    def test_answers_are_valid(self):
        for schema in SCHEMAS:
            with self.subTest(schema):
                answers = json.loads(run("answers", "60", text=json.dumps(schema)))
                self.assertGreaterEqual(len(answers), 40)
                for answer in answers:
                    jsonschema.validate(json.loads(answer), schema)


if __name__ == "__main__":
    unittest.main()
