"""Tiny decoders that see behind `easydel serve` and in `easydel chat`: images of the openai client, in small steps, beside
requests without any, over a prefix cache; transformers says what the answers are.
usage: llava_serve_test.py EASYDEL RESAVE_PROGRAM FAMILY[,FAMILY…]"""

import base64
import concurrent.futures
import copy
import functools
import http.server
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "serve"))

import numpy as np
import openai
import torch

from seeing_peer import EASYDEL, Image
from take_turns import take_turns
from tiny_server import KEY, MODEL, Server

FAMILY = sys.argv[3] = take_turns(sys.argv[3].split(","))
if FAMILY == "llava":
    from llava_test import CONFIGS, make, write_processor
    PLACE, WORDS = "<image>", 13
elif FAMILY.startswith("qwen"):
    import qwen_vl_test
    from qwen_vl_test import write_processor
    CONFIGS, make = qwen_vl_test.QWEN_VL_CONFIGS[FAMILY], functools.partial(qwen_vl_test.make, FAMILY)
    PLACE, WORDS = "<|vision_start|> <|image_pad|> <|vision_end|>", len(qwen_vl_test.WORDS)
else:
    from seeing_test import CONFIGS, PLACE, make, words_of, write_processor
    WORDS = len(words_of(5))
# An image takes more tokens than a page, and than a step, but gemma3's, which must be in one.
STEP = {"gemma3": 11, "smolvlm": 5}.get(FAMILY, 7)
TOKEN = "<|image_pad|>" if FAMILY.startswith("qwen") else PLACE  # where a user says where an image is
COUNT = 8
TEMPLATE = """{% for m in messages %}{% if m['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}{% for part in m['content'] %}{% if part['type'] == 'image' %}PLACE {% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}""".replace("PLACE", PLACE)


def image(seed: int, height: int = 30, width: int = 20) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


def uri(image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def part(url: str) -> dict:
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict:
    return {"type": "text", "text": words}


class Pictures(http.server.BaseHTTPRequestHandler):
    """Another server: an image, answers that are none, and redirects."""
    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        port = self.server.server_address[1]
        moved = {"/here": "/a.png", "/elsewhere": f"http://localhost:{port}/a.png", "/round": "/round"}.get(self.path)
        self.send_response(302 if moved else 404 if self.path == "/none.png" else 200)
        if moved:
            self.send_header("Location", moved)
        self.end_headers()
        if self.path == "/a.png":
            out = io.BytesIO()
            image(3).save(out, "png")
            self.wfile.write(out.getvalue())
        elif self.path == "/huge":
            try:
                for _ in range(40):
                    self.wfile.write(bytes(1 << 20))
            except OSError:
                self.asked.append("ended")
        elif self.path == "/text":
            self.wfile.write(b"It is a truth")
        elif self.path == "/slow":
            try:
                for _ in range(40):
                    self.wfile.write(b"x")
                    time.sleep(0.5)
            except OSError:
                pass

    def log_message(self, *_):
        pass


def setUpModule():
    global folder, directory, model, processor, server, client, pictures
    pictures = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    pictures.daemon_threads = True
    threading.Thread(target=pictures.serve_forever, daemon=True).start()
    folder = tempfile.TemporaryDirectory()
    directory = pathlib.Path(folder.name) / "model"
    settings = copy.deepcopy(next(iter(CONFIGS.values())))
    settings["text_config"] |= {"vocab_size": WORDS, "eos_token_id": None}  # the words of the tokenizer
    # Models whose answers are without the token of placeholders, which may not come again where there is no cache.
    model = make(settings, seed={"gemma3": 5, "qwen3_vl": 6}.get(FAMILY, 4))
    model.save_pretrained(directory)
    processor = write_processor(model, directory)
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    processor.chat_template = TEMPLATE
    (directory / "images").mkdir()
    server = Server(EASYDEL, directory, "--page-size", "4", "--max-num-batched-tokens", STEP, "--num-pages", "400",
                    "--allowed-local-media-path", directory / "images", "--allowed-media-domains", "127.0.0.1").__enter__()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)


def tearDownModule():
    server.__exit__()
    pictures.shutdown()
    pictures.server_close()
    folder.cleanup()


def chat(messages: list, **options):
    given = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": COUNT, "logprobs": True,
             "extra_body": {"return_token_ids": True, "ignore_eos": True}}
    return client.chat.completions.create(**(given | options))


def expected(messages: list, images: list) -> tuple[list[int], list[int], torch.Tensor]:
    """Ids of the prompt and of transformers' greedy answer, and the scores of each of its tokens."""
    theirs = [{"role": m["role"], "content": [{"type": "image"} if p["type"] == "image_url" else p for p in m["content"]]
               if isinstance(m["content"], list) else [text(m["content"])]} for m in messages]
    prompt = processor.apply_chat_template(theirs, add_generation_prompt=True)
    inputs = processor(images=images or None, text=prompt, return_tensors="pt", add_special_tokens=False)
    if FAMILY != "gemma3":
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=COUNT, do_sample=False, return_dict_in_generate=True, output_logits=True)
    ids = inputs["input_ids"][0].tolist()
    return ids, out.sequences[0, len(ids):].tolist(), torch.stack(out.logits)[:, 0].log_softmax(-1)


class Images(unittest.TestCase):
    def check(self, done, messages: list, images: list) -> None:
        prompt, answer, scores = expected(messages, images)
        self.assertEqual(done.model_extra["prompt_token_ids"], prompt)
        self.assertEqual(done.choices[0].model_extra["token_ids"], answer)
        for given, each in zip(done.choices[0].logprobs.content, scores):
            self.assertAlmostEqual(given.logprob, each[answer.pop(0)].item(), delta=1e-4)

    def conversations(self):
        a, b = image(1), image(2, 9, 33)
        turns = [{"role": "user", "content": [part(uri(a)), text("what is this ?")]}, {"role": "assistant", "content": "a cat"}]
        yield turns[:1], [a]
        yield [{"role": "user", "content": [text("what is"), part(uri(b)), text("this ? is"), part(uri(a))]}], [b, a]
        yield [{"role": "user", "content": "what is a cat ?"}], []
        yield turns + [{"role": "user", "content": [text("is this a cat ?"), part(uri(b))]}], [a, b]
        yield [{"role": "user", "content": [part(uri(b)), text("what is this ?")]}], [b]

    def test_answers_are_those_of_transformers(self):
        for messages, images in self.conversations():
            self.check(chat(messages), messages, images)

    def test_many_at_once(self):
        asked = list(self.conversations()) * 3
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for (messages, images), done in zip(asked, pool.map(lambda one: chat(one[0]), asked)):
                self.check(done, messages, images)

    def test_pages_are_reused_for_the_same_image_alone(self):
        seen = [[{"role": "user", "content": [text("is"), part(uri(image(seed))), text("this a cat ? what is this ?")]}] for seed in (11, 12)]
        chat(seen[0])
        again, other = chat(seen[0]), chat(seen[1])
        prompt, _, scores = expected(seen[0], [image(11)])
        self.assertEqual(again.usage.prompt_tokens_details.cached_tokens, (len(prompt) - 1) // 4 * 4)
        self.assertEqual(other.usage.prompt_tokens_details.cached_tokens, prompt.index(5) // 4 * 4)  # before the image
        self.check(again, seen[0], [image(11)])
        self.check(other, seen[1], [image(12)])
        self.assertGreater((scores[0] - expected(seen[1], [image(12)])[2][0]).abs().max().item(), 1e-3)

    def test_streams(self):
        messages, images = next(self.conversations())
        tokens = [token for chunk in chat(messages, stream=True, logprobs=False) for choice in chunk.choices
                  for token in choice.model_extra.get("token_ids") or []]
        self.assertEqual(tokens, expected(messages, images)[1])

    def test_files_below_the_allowed_directory(self):
        inside, outside, link = directory / "images" / "a.png", directory / "b.png", directory / "images" / "c.png"
        for path in (inside, outside):
            image(3).save(path)
        link.symlink_to(outside)
        messages = [{"role": "user", "content": [part(f"file://{inside}"), text("what is this ?")]}]
        self.check(chat(messages), messages, [image(3)])
        for path in (outside, link, directory / "images" / ".." / "b.png", directory / "images" / "none.png"):
            with self.assertRaisesRegex(openai.BadRequestError, "must be a file below the directory that the server allows"):
                chat([{"role": "user", "content": [part(f"file://{path}")]}])

    def test_images_of_other_servers(self):
        at = f"127.0.0.1:{pictures.server_address[1]}"
        for path in ("a.png", "here"):
            messages = [{"role": "user", "content": [part(f"http://{at}/{path}"), text("what is this ?")]}]
            self.check(chat(messages), messages, [image(3)])
        Pictures.asked.clear()
        at_path = r"messages\[0\].content\[0\].image_url.url could not be fetched: "
        for url, words in ((f"http://localhost:{pictures.server_address[1]}/a.png", "the host localhost is not one of --allowed-media-domains"),
                           (f"http://127.0.0.1@{at.replace('127.0.0.1', 'localhost')}/a.png", "the host localhost is not one of"),
                           ("http://example.com/a.png", "the host example.com is not one of"),
                           ("http://", "invalid URL")):
            with self.subTest(url), self.assertRaisesRegex(openai.BadRequestError, at_path + ".*" + words):
                chat([{"role": "user", "content": [part(url)]}])
        self.assertEqual(Pictures.asked, [])
        for path, words in (("none.png", "the server answered with status 404"), ("elsewhere", "the host localhost is not one of"),
                            ("round", "more than 10 redirects"), ("huge", "the response is larger than 32 MiB"), ("slow", "timed out")):
            if path == "slow" and FAMILY != "llava":
                continue  # ten seconds
            with self.subTest(path), self.assertRaisesRegex(openai.BadRequestError, at_path + ".*" + words):
                chat([{"role": "user", "content": [part(f"http://{at}/{path}")]}])
        self.assertNotIn("/a.png", Pictures.asked)
        with self.assertRaisesRegex(openai.BadRequestError, "image 1: an image must be a JPEG, PNG"):
            chat([{"role": "user", "content": [part(f"http://{at}/text")]}])

    def test_servers_fetch_only_what_they_are_told_to(self):
        if FAMILY != "llava":
            self.skipTest("the same for all")
        messages = [{"role": "user", "content": [part(f"http://127.0.0.1:{pictures.server_address[1]}/a.png")]}]
        for flags, words in (((), "is a URL; this server fetches none. Send a data URI, or start it with --allowed-media-domains"),
                             (("--allowed-media-domains", "*"), "its address is of this machine or of a private network, which is not allowed here")):
            with Server(EASYDEL, directory, *flags) as other:
                Pictures.asked.clear()
                asked = openai.OpenAI(base_url=other.url + "/v1", api_key=KEY, max_retries=0, timeout=120)
                with self.assertRaisesRegex(openai.BadRequestError, words):
                    asked.chat.completions.create(model=MODEL, messages=messages)
                self.assertEqual(Pictures.asked, [])
        done = subprocess.run([EASYDEL, "serve", str(directory), "--port", "0", "--allowed-media-domains", "http://a.com"], capture_output=True, text=True)
        self.assertIn('allowed_media_domains must be host names such as example.com, or *; got "http://a.com".', done.stderr)

    def test_what_cannot_be_seen_is_refused_by_name(self):
        good = part(uri(image(1)))
        for content, words in (
                ([part("ftp://example.com/a.png")], r"messages\[0\].content\[0\].image_url.url must be a data URI"),
                ([part("data:image/png;base64,%%%")], "is not base64"),
                ([part("data:image/png,abc")], "must be data:image/"),
                ([part("data:image/png;base64,aGVsbG8=")], "image 1: an image must be a JPEG, PNG, WebP, GIF or BMP file"),
                ([{"type": "image_url", "image_url": {"url": good["image_url"]["url"], "detail": "low"}}], "detail must be auto"),
                ([good, text(f"what is {TOKEN} this")], f"a placeholder {re.escape(TOKEN)} for each image; got 2 for 1"),
                ([{"type": "input_audio", "input_audio": {}}], r"content\[0\] has type .*input_audio")):
            with self.subTest(words=words), self.assertRaisesRegex(openai.BadRequestError, words):
                chat([{"role": "user", "content": content}])
        with self.assertRaisesRegex(openai.BadRequestError, "image_url"):
            chat([{"role": "assistant", "content": [good]}])
        messages, images = next(self.conversations())
        self.check(chat(messages), messages, images)  # nothing is broken by that

    def test_an_image_that_must_be_whole_and_fits_into_no_step_is_refused(self):
        if FAMILY != "gemma3":
            self.skipTest("its tokens see what came before, and may be in several steps")
        messages, images = next(self.conversations())
        with Server(EASYDEL, directory, "--max-num-batched-tokens", 8) as small:
            asked = openai.OpenAI(base_url=small.url + "/v1", api_key=KEY, max_retries=0, timeout=120)
            with self.assertRaisesRegex(openai.BadRequestError, "an image of the prompt takes 9 tokens, .* max_num_batched_tokens is 8"):
                asked.chat.completions.create(model=MODEL, messages=messages)


class Command(unittest.TestCase):
    def say(self, lines: list[str], *flags) -> list[str]:
        done = subprocess.run([EASYDEL, "--log", "error", "chat", str(directory), "--max-new-tokens", str(COUNT), *map(str, flags)],
                              input="\n".join(lines) + "\n", capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_chat_with_images(self):
        files = [directory / "one.png", directory / "two.png"]
        for seed, file in enumerate(files):
            image(seed).save(file)
        images = [Image.open(file) for file in files]
        before = [{"role": "user", "content": [part(""), part(""), text("what is this ?")]}]
        amid = [{"role": "user", "content": [text("what is"), part(""), text("this ?"), part("")]}]
        answers = [processor.tokenizer.decode(expected(m, images)[1], skip_special_tokens=True) for m in (before, amid)]
        for flags in ((), ("--no-use-cache",)):  # by the engine, and by generate
            both = ("--image", files[0], "--image", files[1], *flags)
            self.assertEqual(self.say(["what is this ?"], *both), answers[:1])
            self.assertEqual(self.say([f"what is {TOKEN} this ? {TOKEN}"], *both), answers[1:])
        later = before[:1] + [{"role": "assistant", "content": answers[0]}, {"role": "user", "content": [part(""), text("a cat ?")]}]
        last = processor.tokenizer.decode(expected(later, [images[0], images[1], images[0]])[1], skip_special_tokens=True)
        self.assertEqual(self.say(["what is this ?", f"/image {files[0]}", "a cat ?"], "--image", files[0], "--image", files[1]),
                         [answers[0], last])
        self.assertEqual(self.say([f"/image {files[0]}", "/reset", f"/image {files[0]}", f"/image {files[1]}", "what is this ?"]), answers[:1])

    def test_images_that_cannot_be_shown(self):
        file = directory / "one.png"
        image(0).save(file)
        for lines, words in (([f"/image {directory}/none.png"], "none.png] cannot be opened: No such file or directory."),
                             ([f"/image {file}", f"/image {file}", f"what is {TOKEN} this ?"],
                              f"the message has 1 placeholders {TOKEN}, and there are 2 images to show. Write one for each, or none."),
                             ([f"what is {TOKEN} this ?"],
                              f"the message has a placeholder {TOKEN}, and there is no image to show. Add one with /image FILE first.")):
            done = subprocess.run([EASYDEL, "--log", "error", "chat", str(directory), "--max-new-tokens", str(COUNT)],
                                  input="\n".join(lines) + "\n", capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, lines)
            self.assertEqual(done.stdout, "")
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main()
