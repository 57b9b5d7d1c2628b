"""The pages as `easydel serve` gives them, with a small model behind."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from page_cases import ChatPages
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

EASYDEL = None  # the program, as page_test.py was told
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom and so on.\n" * 6
CHAT = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def make_model(folder):
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
    # No alphabet of bytes: whatever the model draws is ASCII, and no answer ends within a character.
    raw.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=300, special_tokens=special))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=len(tokenizer), max_position_embeddings=8192, bos_token_id=0, eos_token_id=1, initializer_range=0.4))
    model.lm_head.weight.data[:len(special)] = 0  # never the most likely: answers go on until the limit
    model.save_pretrained(folder)
    return tokenizer, model


class ServedPage(ChatPages):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        directory = pathlib.Path(folder.name) / "tiny"
        cls.tokenizer, cls.model = make_model(directory)
        process = subprocess.Popen([EASYDEL, "serve", directory, "--port", "0", "--served-model-name", "tiny"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        cls.addClassCleanup(cls.stop, process)
        said = []
        for line in process.stdout:
            said.append(line)
            found = re.search(r"listening on (http://[\d.:]+)", line)
            if found:
                cls.url = found[1].rstrip(".")
                return
        raise AssertionError("easydel serve ended: " + "".join(said))

    @staticmethod
    def stop(process):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with process.stdout:
            process.stdout.read()
        process.wait()

    def make_server(self):
        self.server = types.SimpleNamespace(url=self.url)

    def expected(self, prompt, count):
        ids = self.tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False)
        out = self.model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False, pad_token_id=1,
                                  attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        return out[0, len(ids):].tolist()

    def test_the_model_answers_as_in_transformers(self):
        self.assertEqual(self.page.js("document.getElementById('model').value"), "tiny")
        self.page.click("#tune")
        self.set("#n-temperature", "0")
        self.set("#n-max_tokens", "12")
        for prompt in ("It was the best", "wisdom", "times"):
            text = self.tokenizer.decode(self.expected(prompt, 12), skip_special_tokens=True)
            self.page.click("#new")
            self.say(prompt)
            self.answered()
            self.assertEqual(self.page.js("current.messages.at(-1).content"), text)
            self.assertRegex(self.texts(".assistant .stats")[-1], "^12 tokens · .* · cut off at the limit$")

    def test_stopping_frees_the_engine(self):
        self.page.click("#tune")
        self.set("#n-temperature", "0")
        self.say("It was the best")
        self.page.until("current.messages.at(-1).content && views.get(current.messages.at(-1)).content.innerText")
        self.page.press("Escape")
        self.answered()
        self.assertEqual(self.page.js("current.messages.at(-1).finish"), "stopped")
        self.page.open(self.url + "/dashboard")
        self.page.until("document.getElementById('running').innerText === '0' && document.getElementById('finished-cancelled').innerText !== '0'")
        self.assertEqual(self.text("#model"), "tiny")

    def test_the_dashboard_counts(self):
        self.page.open(self.url + "/dashboard")
        self.page.until("document.getElementById('health').innerText === 'Live'")
        before = self.text("#steps")
        self.page.open(self.url + "/?")
        self.page.until("document.getElementById('model').value")
        self.page.click("#tune")
        self.set("#n-max_tokens", "20")
        self.say("It was")
        self.answered()
        self.assertEqual(self.count(".error"), 0)
        self.page.open(self.url + "/dashboard")
        self.page.until(f"document.getElementById('steps').innerText !== {before!r} && /ms|s$/.test(document.querySelector('[data-measure=ttft] td:nth-child(2)').innerText)")

    def test_a_mistake_is_said_by_the_server(self):
        self.page.js("settings.model = ''; document.getElementById('model').replaceChildren(el('option', {value: 'nobody'}, 'nobody'))")
        self.say("Hi")
        self.answered()
        self.assertEqual(self.text(".error strong"), "Not found (404)")
        self.assertIn("nobody", self.text(".error p"))
