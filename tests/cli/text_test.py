"""Text to text: generate --prompt, chat, eval and bench against transformers. usage: text_test.py EASYDEL"""

import fcntl
import json
import math
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from safetensors.torch import load_file
from transformers import (AutoModel, AutoModelForCausalLM, BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast,
                          T5Config, T5Model)

EASYDEL = sys.argv.pop(1)
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom… 智慧 🙂 and so on.\n" * 6
CHAT = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def run(*arguments, stdin=""):
    return warm_start.run([EASYDEL, *map(str, arguments)], text=True, input=stdin)


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model_dir = pathlib.Path(cls.folder.name) / "model"
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        special = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
        raw.train_from_iterator([TEXT], trainers.BpeTrainer(
            vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        cls.tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
        cls.tokenizer.chat_template = CHAT
        cls.tokenizer.save_pretrained(cls.model_dir)
        torch.manual_seed(0)
        config = LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=len(cls.tokenizer), max_position_embeddings=64,
                             bos_token_id=0, eos_token_id=1, initializer_range=0.4)
        LlamaForCausalLM(config).save_pretrained(cls.model_dir)
        cls.model = AutoModelForCausalLM.from_pretrained(cls.model_dir)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expected(self, ids, count=12):
        out = self.model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False,
                                  attention_mask=torch.ones(1, len(ids), dtype=torch.long), pad_token_id=1)
        return out[0, len(ids):].tolist()

    def test_a_prompt_goes_on_as_in_transformers(self):
        for prompt in ("It was the best", "智慧 🙂", "times"):
            ids = self.tokenizer(prompt)["input_ids"]
            want = self.expected(ids)
            done = run("generate", self.model_dir, "--prompt", prompt, "--max-new-tokens", 12, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            got = json.loads(done.stdout)["sequences"][0]
            self.assertEqual(got["ids"], want)
            self.assertEqual(got["text"], self.tokenizer.decode(want, skip_special_tokens=True))
            streamed = run("generate", self.model_dir, "--prompt", prompt, "--max-new-tokens", 12)
            self.assertEqual(streamed.stdout, got["text"] + "\n")

    def test_a_prompt_from_a_file_and_a_stop_string(self):
        file = pathlib.Path(self.folder.name) / "prompt.txt"
        file.write_text("It was the best")
        done = run("generate", self.model_dir, "--prompt-file", file, "--max-new-tokens", 12, "--json")
        text = json.loads(done.stdout)["sequences"][0]["text"]
        stop = text[3:5]
        stopped = run("generate", self.model_dir, "--prompt-file", file, "--max-new-tokens", 12, "--json",
                      "--stop-strings", stop)
        row = json.loads(stopped.stdout)["sequences"][0]
        self.assertIn(stop, row["text"])
        self.assertLess(len(row["ids"]), 12)
        self.assertEqual(row["finish_reason"], "stop")

    def test_vectors_of_texts(self):
        texts, folder = ["It was the best", "of times", "智慧 🙂"], pathlib.Path(self.folder.name)
        torch.manual_seed(1)
        config = BertConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=len(self.tokenizer),
                            max_position_embeddings=64, pad_token_id=0, initializer_range=0.4)
        BertForMaskedLM(config).save_pretrained(folder / "bert")
        self.tokenizer.save_pretrained(folder / "bert")
        pool = {"first": lambda s: s[0], "last": lambda s: s[-1], "mean": lambda s: s.mean(0), "max": lambda s: s.amax(0),
                "weighted_mean": lambda s: (s * torch.arange(1, len(s) + 1)[:, None]).sum(0) / (len(s) * (len(s) + 1) / 2)}

        def vectors(name, *flags):
            out = folder / "vectors.safetensors"
            done = run("embed", folder / name, *(part for text in texts for part in ("--text", text)), "--output", out, "--json", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            return load_file(out)["text_embeds"], json.loads(done.stdout)

        for name in ("bert", "model"):
            model = AutoModel.from_pretrained(folder / name).eval()
            with torch.no_grad():
                states = [model(**self.tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in texts]
            for flags, strategy in (((), "mean"), *((("--pooling", each), each) for each in pool)):
                with self.subTest(model=name, flags=flags):
                    ours, shown = vectors(name, *flags)
                    theirs = torch.stack([pool[strategy](s) for s in states])
                    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
                    cosine = torch.nn.functional.cosine_similarity(theirs[0], theirs[1], 0).item()
                    self.assertAlmostEqual(shown["vectors"][0]["cosines"][1], cosine, places=4)

        # What sentence-transformers writes beside a model.
        modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                   for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))]
        (folder / "bert" / "modules.json").write_text(json.dumps(modules))
        (folder / "bert" / "1_Pooling").mkdir()
        pooling = folder / "bert" / "1_Pooling" / "config.json"
        pooling.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
        model = AutoModel.from_pretrained(folder / "bert").eval()
        with torch.no_grad():
            first = [model(**self.tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0] for text in texts]
        torch.testing.assert_close(vectors("bert")[0], torch.nn.functional.normalize(torch.stack(first)), rtol=1e-4, atol=1e-5)

        T5Model(T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=300)).save_pretrained(folder / "t5")
        pooling.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}))
        for name, words in (("bert", "must say one pooling that is known here, first, last, mean, weighted_mean or max; got 2. --pooling says one"),
                            ("t5", "must be an image embedding model (clip, siglip, vit, dinov2), or a text model with --text (bert, qwen3); "
                             "encoder-decoders are not supported.")):
            done = run("embed", folder / name, "--text", "a")
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        done = run("embed", folder / "bert", "--text", "times " * 80, "--pooling", "mean")
        self.assertIn("[embed] a text must have 1 to 64 tokens; got ", done.stderr)

    def test_chat_keeps_the_conversation(self):
        saved = pathlib.Path(self.folder.name) / "chat.json"
        lines = f"/system Be brief.\nIt was the best\nand so on\n/save {saved}\n/reset\nwisdom\n/save {saved}2\n"
        done = run("--log", "debug", "chat", self.model_dir, "--max-new-tokens", 8, stdin=lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        cached = [int(n) for n in re.findall(r"(\d+) of the \d+ tokens of the prompt were in the cache", done.stderr)]
        self.assertEqual(len(cached), 3, done.stderr)
        self.assertEqual(cached[0], 0)
        self.assertGreaterEqual(cached[1], 16)  # a page of the first turn
        messages = json.loads(saved.read_text())
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
        for end in (2, 4):
            ids = self.tokenizer.apply_chat_template(messages[:end], add_generation_prompt=True, return_dict=False)
            self.assertEqual(messages[end]["content"],
                             self.tokenizer.decode(self.expected(ids, 8), skip_special_tokens=True))
            self.assertIn(messages[end]["content"] + "\n", done.stdout)
        again = json.loads(pathlib.Path(f"{saved}2").read_text())
        self.assertEqual([m["role"] for m in again], ["system", "user", "assistant"])
        unknown = run("chat", self.model_dir, stdin="/save\n")
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn("/save needs a file name", unknown.stderr)

    def test_chat_generates_what_the_engine_has_no_setting_for(self):
        lines = "It was the best\nand so on\n"
        by_engine = run("chat", self.model_dir, "--max-new-tokens", 8, stdin=lines)
        done = run("--log", "debug", "chat", self.model_dir, "--max-new-tokens", 8, "--min-length", 1, stdin=lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("min_length is not supported by the engine", done.stderr)
        self.assertEqual(done.stdout, by_engine.stdout)

    def test_a_sampling_option_turns_sampling_on(self):
        def generate(*more):
            done = run("generate", self.model_dir, "--prompt", "It was", "--max-new-tokens", 12, "--json", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["sequences"][0]["ids"]

        greedy = generate()
        for option in (("--temperature", 5.0), ("--top-k", 200), ("--top-p", 0.99)):
            drawn = [generate(*option, "--seed", seed) for seed in (1, 2, 3)]
            self.assertEqual(drawn[0], generate(*option, "--do-sample", "--seed", 1))
            self.assertNotEqual(drawn, [greedy] * 3, option)

    def test_chat_leaves_out_what_no_longer_fits(self):
        saved = pathlib.Path(self.folder.name) / "long.json"
        lines = "/system Be brief.\n" + "It was the best\n" * 4 + f"/save {saved}\n"
        done = run("chat", self.model_dir, stdin=lines)  # 512 new tokens by default, and 64 positions
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = [line for line in done.stderr.splitlines() if line.startswith("(dropped the oldest ")]
        self.assertGreater(len(notes), 0)
        self.assertRegex(notes[0], r"^\(dropped the oldest \d+ messages, because the context has only 64 tokens\)$")
        self.assertNotIn("warning", done.stderr)
        messages = json.loads(saved.read_text())
        self.assertEqual(len(messages), 9)
        left_out = int(notes[-1].split()[3])
        kept = messages[:1] + messages[1 + left_out:-1]
        ids = self.tokenizer.apply_chat_template(kept, add_generation_prompt=True, return_dict=False)
        self.assertLessEqual(len(ids), 64)
        self.assertEqual(messages[-1]["content"],
                         self.tokenizer.decode(self.expected(ids, 64 - len(ids)), skip_special_tokens=True))
        done = run("chat", self.model_dir, stdin="wisdom " * 100 + "\n")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\[easydel chat\] the prompt has \d+ tokens; the model's context is 64\.")

    def test_ctrl_c_gives_up_the_line_and_not_the_conversation(self):
        leader, follower = pty.openpty()
        chat = subprocess.Popen([EASYDEL, "chat", self.model_dir, "--max-new-tokens", "4"], stdin=follower, stdout=follower,
                                stderr=follower, preexec_fn=os.setsid)
        os.close(follower)
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        saved = pathlib.Path(self.folder.name) / "typed.json"

        def read_until(*words: str) -> str:
            """Until these have come, one after the other."""
            text = ""
            while not re.search(".*".join(map(re.escape, words)), text, re.DOTALL):
                self.assertTrue(select.select([leader], [], [], 60)[0], text)
                text += os.read(leader, 4096).decode(errors="replace")
            return text

        read_until("> ")
        os.write(leader, b"It was\r")
        read_until("> ")
        os.write(leader, b"never mind")
        read_until("mind")
        os.kill(chat.pid, signal.SIGINT)
        read_until("> ")
        os.kill(chat.pid, signal.SIGINT)
        read_until("(Press Ctrl-D or type /exit to quit)")
        os.write(leader, f"/save {saved}\r".encode())
        read_until("wrote 2 messages", "> ")  # with the prompt keys go to the editor, not to the terminal's own line
        os.write(leader, b"\x04")
        self.assertEqual(chat.wait(60), 0)
        os.close(leader)
        self.assertEqual([m["role"] for m in json.loads(saved.read_text())], ["user", "assistant"])

    def test_chat_ends_when_its_terminal_goes_away(self):
        leader, follower = pty.openpty()
        chat = subprocess.Popen([EASYDEL, "chat", self.model_dir], stdin=follower, stdout=follower, stderr=follower,
                                start_new_session=True)
        os.close(follower)
        text = ""
        while "> " not in text:
            self.assertTrue(select.select([leader], [], [], 60)[0], text)
            text += os.read(leader, 4096).decode(errors="replace")
        os.close(leader)
        try:
            chat.wait(60)
        finally:
            chat.kill()

    def test_eval_is_the_sliding_window_of_the_definition(self):
        file = pathlib.Path(self.folder.name) / "text.txt"
        file.write_text(TEXT)
        ids = torch.tensor([self.tokenizer(TEXT)["input_ids"]])
        for window, stride in ((64, 32), (50, 13)):
            nll, scored, begin = 0.0, 1, 0
            while scored < ids.shape[1]:
                end = min(begin + window, ids.shape[1])
                with torch.no_grad():
                    logits = self.model(ids[:, begin:end]).logits.double().log_softmax(-1)
                for at in range(scored, end):
                    nll -= logits[0, at - begin - 1, ids[0, at]].item()
                scored, begin = end, begin + stride
            done = run("eval", self.model_dir, "--text", file, "--window", window, "--stride", stride, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            got = json.loads(done.stdout)
            self.assertEqual(got["tokens"], ids.shape[1] - 1)
            self.assertAlmostEqual(got["loss"], nll / (ids.shape[1] - 1), delta=1e-4)
            self.assertAlmostEqual(got["perplexity"], math.exp(nll / (ids.shape[1] - 1)), delta=1e-2 * got["perplexity"])
            self.assertAlmostEqual(got["bits_per_byte"], nll / math.log(2) / len(TEXT.encode()), delta=1e-3)

    def test_bench_reports(self):
        done = run("bench", "generate", "--config", self.model_dir / "config.json", "--prompt", 8, "--new", 4, "--batch", 2,
                   "--rounds", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for key in ("prefill_tokens_per_second", "decode_tokens_per_second", "first_token_seconds", "peak_bytes"):
            self.assertGreater(report[key], 0)

    def test_what_cannot_be_done_is_said(self):
        bare = pathlib.Path(self.folder.name) / "bare"
        self.model.save_pretrained(bare)
        cases = [
            (("chat", bare), 1, "has no tokenizer.json or tokenizer.model"),
            (("eval", bare, "--text", __file__), 1, "has no tokenizer.json or tokenizer.model"),
            (("generate", bare, "--prompt", "x"), 1, "tokenizer"),
            (("eval", self.model_dir, "--text", bare / "none.txt"), 1, "none.txt"),
            (("eval", self.model_dir, "--text", __file__, "--window", 500), 2, "the model's context is 64"),
            (("generate", self.model_dir, "--prompt", "x", "--temperature", "-1", "--do-sample"), 2, "temperature"),
            (("generate", self.model_dir, "--input-ids", "9999"), 1, "must lie in [0, "),
            (("bench", "generate", "--config", bare / "none.json"), 1, "none.json"),
        ]
        for arguments, code, words in cases:
            done = run(*arguments)
            self.assertIn(words, done.stderr, arguments)
            self.assertEqual(done.returncode, code, (arguments, done.stderr))


if __name__ == "__main__":
    unittest.main()
