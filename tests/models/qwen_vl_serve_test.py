"""A tiny Qwen2.5-VL behind `easydel serve` and in `easydel chat`: pictures of different sizes, in small steps, beside requests
without any, over a prefix cache; transformers says what the answers are. usage: qwen_vl_serve_test.py EASYDEL RESAVE_PROGRAM"""

import base64
import concurrent.futures
import copy
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "serve"))

import numpy as np
import openai
import torch

from qwen_vl_test import EASYDEL, QWEN_VL_CONFIGS, WORDS, Image, make, write_processor
from tiny_server import KEY, MODEL, Server

COUNT = 8
TEMPLATE = """{% for m in messages %}{% if m['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}{% for part in m['content'] %}{% if part['type'] == 'image' %}<|vision_start|> <|image_pad|> <|vision_end|> {% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"""


def picture(seed: int, height: int = 30, width: int = 20) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


def part(image: Image.Image) -> dict:
    out = io.BytesIO()
    image.save(out, "png")
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()}}


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def setUpModule():
    global folder, directory, model, processor, server, client
    folder = tempfile.TemporaryDirectory()
    directory = pathlib.Path(folder.name) / "model"
    settings = copy.deepcopy(QWEN_VL_CONFIGS["qwen2_5_vl"]["windows of two tokens"])
    settings["text_config"] |= {"vocab_size": len(WORDS), "eos_token_id": None}  # the words of the tokenizer
    model = make("qwen2_5_vl", settings, seed=4)
    model.save_pretrained(directory)
    processor = write_processor(model, directory)
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    processor.chat_template = TEMPLATE
    # A picture takes up to 12 tokens: more than a step, and more than a page.
    server = Server(EASYDEL, directory, "--page-size", "4", "--max-num-batched-tokens", "7", "--num-pages", "400").__enter__()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)


def tearDownModule():
    server.__exit__()
    folder.cleanup()


def chat(messages: list, **options):
    given = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": COUNT, "logprobs": True,
             "extra_body": {"return_token_ids": True, "ignore_eos": True}}
    return client.chat.completions.create(**(given | options))


def expected(messages: list, images: list) -> tuple[list[int], list[int], torch.Tensor]:
    """Ids of the prompt and of transformers' greedy answer, and the scores of its last token."""
    theirs = [{"role": m["role"], "content": [{"type": "image"} if p["type"] == "image_url" else p for p in m["content"]]
               if isinstance(m["content"], list) else [text(m["content"])]} for m in messages]
    prompt = processor.apply_chat_template(theirs, add_generation_prompt=True)
    inputs = processor(images=images or None, text=prompt, return_tensors="pt", add_special_tokens=False)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=COUNT, do_sample=False, return_dict_in_generate=True, output_logits=True)
    ids = inputs["input_ids"][0].tolist()
    return ids, out.sequences[0, len(ids):].tolist(), out.logits[-1][0].log_softmax(-1)


class Pictures(unittest.TestCase):
    def check(self, done, messages: list, images: list) -> None:
        prompt, answer, scores = expected(messages, images)
        self.assertEqual(done.model_extra["prompt_token_ids"], prompt)
        self.assertEqual(done.choices[0].model_extra["token_ids"], answer)
        self.assertAlmostEqual(done.choices[0].logprobs.content[-1].logprob, scores[answer[-1]].item(), delta=1e-4)

    def conversations(self):
        a, b = picture(1), picture(2, 9, 33)
        turns = [{"role": "user", "content": [part(a), text("what is this ?")]}, {"role": "assistant", "content": "a cat"}]
        yield turns[:1], [a]
        yield [{"role": "user", "content": [text("what is"), part(b), text("this ? is"), part(a)]}], [b, a]
        yield [{"role": "user", "content": "what is a cat ?"}], []
        yield turns + [{"role": "user", "content": [text("is this a cat ?"), part(b)]}], [a, b]

    def test_answers_are_those_of_transformers(self):
        for messages, images in self.conversations():
            self.check(chat(messages), messages, images)

    def test_many_at_once(self):
        asked = list(self.conversations()) * 3
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for (messages, images), done in zip(asked, pool.map(lambda one: chat(one[0]), asked)):
                self.check(done, messages, images)

    def test_pages_are_reused_for_the_same_picture_alone(self):
        seen = [[{"role": "user", "content": [text("is"), part(picture(seed)), text("this a cat ? what is this ?")]}] for seed in (11, 12)]
        chat(seen[0])
        again, other = chat(seen[0]), chat(seen[1])
        self.assertEqual(again.usage.prompt_tokens_details.cached_tokens, (len(expected(seen[0], [picture(11)])[0]) - 1) // 4 * 4)
        self.assertEqual(other.usage.prompt_tokens_details.cached_tokens, 0)  # its first page has the picture
        self.check(again, seen[0], [picture(11)])
        self.check(other, seen[1], [picture(12)])

    def test_chat_command(self):
        file = directory / "one.png"
        picture(5, 9, 33).save(file)
        messages = [{"role": "user", "content": [part(Image.open(file)), text("what is this ?")]}]
        answer = processor.tokenizer.decode(expected(messages, [Image.open(file)])[1], skip_special_tokens=True)
        for flags in ((), ("--no-use-cache",)):  # by the engine, and by generate
            done = subprocess.run([EASYDEL, "--log", "error", "chat", str(directory), "--max-new-tokens", str(COUNT), "--image", str(file), *flags],
                                  input="what is this ?\n", capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.splitlines()), (0, [answer]), (flags, done.stderr))


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
