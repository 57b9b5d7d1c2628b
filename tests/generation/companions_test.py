"""What a C++ program loads and saves keeps its generation config and its tokenizer, for transformers and for chat.
usage: companions_test.py COMPANIONS_PROGRAM EASYDEL"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM,
                          PreTrainedTokenizerFast)

EASYDEL = sys.argv.pop()
PROGRAM = sys.argv.pop()
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom and so on.\n" * 6
CHAT = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}")


class Companions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.given, cls.saved, cls.state = folder / "given", folder / "saved", folder / "saved-state"
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        raw.train_from_iterator([TEXT], trainers.BpeTrainer(
            vocab_size=300, special_tokens=["<s>", "</s>", "<|user|>", "<|assistant|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
        tokenizer.chat_template = CHAT
        tokenizer.save_pretrained(cls.given)
        torch.manual_seed(1)
        config = LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=64,
                             bos_token_id=0, eos_token_id=1, initializer_range=0.4)
        model = LlamaForCausalLM(config)
        model.generation_config = GenerationConfig(num_beams=3, no_repeat_ngram_size=2, repetition_penalty=1.3,
                                                   max_new_tokens=11, bos_token_id=0, eos_token_id=[1, 7], pad_token_id=1)
        model.save_pretrained(cls.given)
        cls.ids = tokenizer("It was the best")["input_ids"]
        done = warm_start.run([PROGRAM, cls.given, cls.saved, ",".join(map(str, cls.ids))], text=True)
        assert done.returncode == 0, done.stderr
        cls.tokens = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def theirs(self, directory):
        model = AutoModelForCausalLM.from_pretrained(directory).eval()
        return model.generate(torch.tensor([self.ids]))[0].tolist()

    def test_generate_without_arguments_is_what_transformers_generates(self):
        self.assertEqual(self.tokens, self.theirs(self.given))
        self.assertGreater(len(self.tokens), len(self.ids))

    def test_transformers_reads_what_was_saved(self):
        for directory in (self.saved, self.state):
            self.assertEqual(self.theirs(directory), self.tokens)
            want, got = (GenerationConfig.from_pretrained(d).to_diff_dict() for d in (self.given, directory))
            self.assertEqual(got, want)
            want, got = (AutoTokenizer.from_pretrained(d) for d in (self.given, directory))
            self.assertEqual(got(TEXT)["input_ids"], want(TEXT)["input_ids"])
            messages = [{"role": "user", "content": "wisdom"}]
            self.assertEqual(got.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
                             want.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def test_chat_speaks_with_what_was_saved(self):
        answers = []
        for directory in (self.given, self.saved, self.state):
            done = warm_start.run([EASYDEL, "chat", directory, "--num-beams", "1"], text=True,
                                  input="It was the best\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            answers.append(done.stdout)
        self.assertEqual(answers[1], answers[0])
        self.assertEqual(answers[2], answers[0])
        self.assertTrue(answers[0].strip())


if __name__ == "__main__":
    unittest.main()
