"""A tiny model with a tokenizer and a chat template, and `easydel serve` on it, for tests with real clients.
As a program: tiny_server.py EASYDEL COMMAND… runs the command beside a server. It finds EASYDEL_SERVER (the address),
EASYDEL_KEY, EASYDEL_MODEL and EASYDEL_EXPECTED (JSON: what transformers answers to the greedy prompts) in its environment."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

torch.set_num_threads(1)
KEY = "a key, not to be guessed"
MODEL = "tiny"
CONTEXT = 4096
WORDS = "It was the best of times, it was the worst of times, it was the age of wisdom… 智慧 🙂 and so on.\n"
TEXT = WORDS * 6 + '{"name": "weather", "arguments": {"city": "Paris", "days": 3}}\n' * 4
# As Qwen's: tools are announced in the system turn, calls are written in <tool_call> tags.
CHAT = """{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}
{% endif %}<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools> Answer with <tool_call>{"name": …, "arguments": …}</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role != 'system' or not loop.first %}<|im_start|>{{ m.role }}
{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PROMPTS = ["It was the best", "智慧 🙂", "times"]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "It was the age"}]
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome", "東京"]},
                                                    "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city", "days"], "additionalProperties": False}}}
SECOND_TOOL = {"type": "function", "function": {
    "name": "switch", "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"],
                                     "additionalProperties": False}}}


class TinyModel:
    """A random model in a folder, and what transformers says of it."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        special = ["<s>", "<|im_end|>", "<|im_start|>"]
        raw.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False,
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<|im_end|>")
        self.tokenizer.chat_template = CHAT
        self.tokenizer.save_pretrained(path)
        torch.manual_seed(0)
        config = LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=len(self.tokenizer), max_position_embeddings=CONTEXT,
                             bos_token_id=0, eos_token_id=1, initializer_range=0.4)
        LlamaForCausalLM(config).save_pretrained(path)
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def chat_ids(self, messages: list, **options) -> list[int]:
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False, **options)

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def greedy(self, ids: list[int], count: int) -> list[int]:
        out = self.model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False, pad_token_id=1,
                                  attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        return out[0, len(ids):].tolist()

    def logprobs(self, ids: list[int]) -> torch.Tensor:
        """Row i is the distribution of token i + 1."""
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].float().log_softmax(-1)

    def last_hidden(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return self.model.model(torch.tensor([ids])).last_hidden_state[0, -1]


class Server:
    """`easydel serve` until the end of a with block."""

    def __init__(self, easydel: str, model: pathlib.Path, *options, key: str = KEY, names: tuple = (MODEL,)):
        self.lines: list[str] = []
        self.url = ""
        self.ready = threading.Event()
        given = [option for name in names for option in ("--served-model-name", name)]
        self.process = subprocess.Popen(
            [easydel, "serve", str(model), "--host", "127.0.0.1", "--port", "0", "--api-key", key, *given, *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"listening on (https?://\S+:\d+)", line)
            if found and not self.url:
                self.url = found[1]
                self.ready.set()
        self.ready.set()  # it has ended

    def __enter__(self) -> "Server":
        if not self.ready.wait(120) or not self.url:
            self.process.kill()
            raise RuntimeError("easydel serve did not start; it said:\n" + "".join(self.lines))
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError("easydel serve does not end after SIGTERM; it said:\n" + "".join(self.lines)) from None
        self.reader.join()
        self.process.stdout.close()
        if status != 0:
            raise RuntimeError(f"easydel serve ended with {status}; it said:\n" + "".join(self.lines))


def expected(tiny: TinyModel, count: int = 16) -> dict:
    chat = tiny.chat_ids(MESSAGES)
    answer = tiny.greedy(chat, count)
    return {"max_tokens": count, "messages": MESSAGES, "chat": tiny.text(answer), "prompt_tokens": len(chat),
            "completion_tokens": len(answer), "tools": [TOOL, SECOND_TOOL],
            "prompts": [{"prompt": prompt, "ids": tiny.ids(prompt), "text": tiny.text(tiny.greedy(tiny.ids(prompt), count))}
                        for prompt in PROMPTS]}


def main() -> int:
    easydel, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        tiny = TinyModel(pathlib.Path(folder) / "model")
        with Server(easydel, tiny.path) as server:
            environment = {**os.environ, "EASYDEL_SERVER": server.url, "EASYDEL_KEY": KEY, "EASYDEL_MODEL": MODEL,
                           "EASYDEL_EXPECTED": json.dumps(expected(tiny))}
            return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
