"""Every flag of the commands that flags_test.py and serve_flags_test.py leave out changes what the command prints or
writes, or is refused by name. Commands and flags are read from --help: one without a probe fails.
usage: other_flags_test.py EASYDEL"""

import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import pty
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import wave

import flags_test
import serve_flags_test
import torch
from flag_probes import BOOK, EASYDEL, MODEL, TASK, FlagProbes, flags_of, help_of, make_model, make_tokenizer
from safetensors.torch import save_file
from tokenizers import Tokenizer, processors

TESTS = pathlib.Path(__file__).parents[1]
CPU = {"--device": "cpu"}


def subcommands_of(command: str) -> list[str]:
    names = re.findall(r"^ {2}([a-z][a-z-]*)", help_of(command).partition("\nSubcommands:\n")[2], re.M)
    return [f"{command} {name}".strip() for name in names]


def masked(text: str) -> str:
    return re.sub(r"[0-9]+([.,][0-9]+)*", "0", text)


class Hub:
    """tests/reference/hub_server.py over a folder."""

    def __init__(self, folder: pathlib.Path):
        self.process = subprocess.Popen([sys.executable, TESTS / "reference" / "hub_server.py", folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = json.loads(self.process.stdout.readline())["hub"]

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.communicate(timeout=30)

    def environment(self, home: pathlib.Path) -> dict:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
        return kept | {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "no_proxy": "127.0.0.1"}


class CompletionsServer:
    """tests/reference/completions_server.py: what a load generator talks to."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, TESTS / "reference" / "completions_server.py"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def asked(self) -> dict:
        print(file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=30)


class OtherFlags(FlagProbes):
    workers = 2

    def test_every_command_has_a_test(self):
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            below = dict(zip(subcommands_of(""), pool.map(subcommands_of, subcommands_of(""))))
        tests = [name for case in (flags_test.Flags, serve_flags_test.ServeFlags, OtherFlags) for name in dir(case)]
        for group, commands in below.items():
            for command in [*commands, *([group] if flags_of(group) or not commands else [])]:
                wanted = "test_" + re.sub(r"[ -]", "_", command)
                self.assertTrue(any(name == wanted or name.startswith(f"{wanted}_takes") for name in tests), f"no {wanted}")

    def observe_directory(self, arguments, names=(".safetensors", ".json")):
        """A command that writes to OUT, seen through the files there."""
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            done = self.run_command([str(part).replace("OUT", f"{folder}/out") for part in arguments])
            found = self.files(pathlib.Path(folder), names)
            paths = sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.suffix in (".safetensors", ".html"))
            done.stdout = done.stdout.replace(f"{folder}/out", "OUT")
        return self.seen(done, files=found, paths=paths)

    def check_refused(self, *cases):
        """Each is a command and the message that it ends with."""
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            runs = list(pool.map(self.run_command, [arguments for arguments, _ in cases]))
        for (arguments, message), done in zip(cases, runs):
            with self.subTest(arguments=arguments):
                self.assertEqual((done.returncode, done.stdout, done.stderr.partition("\n")[0]), (2, "", f"easydel: {message}"))

    def check_overwrite(self, command: str, *more):
        """Without --overwrite what stands at the destination stays; with it, it is replaced."""
        out = self.directory / "taken"
        out.mkdir()
        (out / "config.json").write_text("{}")
        arguments = [command, self.wide, out, *more]
        done = self.run_command(arguments)
        self.assertEqual((done.returncode, (out / "config.json").read_text()), (2, "{}"))
        self.assertIn("--overwrite", done.stderr)
        done = self.run_command([*arguments, "--overwrite"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual((out / "config.json").read_text(), "{}")

    def test_the_command_itself(self):
        def observe(arguments):
            return self.observe_directory([*arguments, "forward", self.wide, "--input", inputs, "--output", "OUT.safetensors"])

        inputs = self.directory / "in.safetensors"
        save_file({"input_ids": torch.tensor([[3, 4, 5]])}, inputs)
        self.probe("", observe, {"--version": ["--version"], "--log": ["--log", "off"], "--cpu": ["--cpu", "baseline"]})

    def test_doctor(self):
        def observe(arguments):
            done = self.run_command(["doctor", *arguments])
            return done.returncode, masked(done.stdout)

        self.probe("doctor", observe, {"--json": ["--json"]})

    def test_models(self):
        self.probe("models", lambda arguments: self.seen(self.run_command(["models", *arguments])), {"--json": ["--json"]})

    def test_inspect(self):
        self.probe("inspect", lambda arguments: self.seen(self.run_command(["inspect", self.wide, *arguments])),
                   {"--json": ["--json"]})

    def test_info(self):
        def observe(arguments):
            return self.seen(self.run_command(["info", self.wide, *arguments]))

        self.probe("info", observe, {flag: probe for flag, probe in MODEL.items() if flag != "--adapter"} | TASK | {
            "--set": ["--set", "num_hidden_layers=1"],
            "--sequence-length": ["--sequence-length", "64"], "--depth": ["--depth", "1"], "--json": ["--json"]})

    def test_info_shows_weights_as_loading_packs_them(self):
        packed = self.directory / "packed"
        self.assertEqual(self.run_command(["quantize", self.wide, packed, "--method", "int4"]).returncode, 0)
        stored = json.loads(self.run_command(["inspect", packed, "--json"]).stdout)
        dense = json.loads(self.run_command(["info", self.wide, "--json"]).stdout)
        shown = json.loads(self.run_command(["info", self.wide, "--quantize", "int4", "--json"]).stdout)
        self.assertEqual(shown["bytes"], stored["total"]["bytes"])
        self.assertEqual(shown["parameters"], dense["parameters"])
        self.assertEqual({tensor["path"] for tensor in shown["tensors"]}, {tensor["name"] for tensor in stored["tensors"]})
        self.assertNotIn("quantization_config", dense)
        written = json.loads((packed / "config.json").read_text())["quantization_config"]
        self.assertEqual(json.loads(self.run_command(["info", packed, "--json"]).stdout)["quantization_config"], written)
        self.assertIn("The files are packed: int4, groups of 32.", self.run_command(["info", packed]).stdout)

    def test_convert(self):
        self.probe("convert", lambda arguments: self.observe_directory(["convert", self.wide, "OUT", *arguments]), {
            "--dtype": ["--dtype", "bf16"], "--max-shard-size": ["--max-shard-size", "100KB"], "--overwrite": None})
        self.check_overwrite("convert")

    def test_quantize(self):
        (self.directory / "other.txt").write_text(" ".join(self.texts[4:8]))
        calibrated = ["--method", "a8bit", "--calibrate", self.text]
        self.probe("quantize", lambda arguments: self.observe_directory(["quantize", self.wide, "OUT", *arguments]), {
            "--method": ["--method", "int4"], "--format": ["--format", "fp8"],
            "--type": (["--format", "compressed-tensors", "--type", "int8"], ["--type", "fp8"]),
            "--group-size": ["--group-size", "32"], "--double-quant": ["--double-quant"],
            "--pattern": ["--pattern", "q_proj"], "--target": ["--target", "embedding"],
            "--calibrate": (calibrated, ["--calibrate", self.directory / "other.txt"]),
            "--calibration-tokens": (calibrated, ["--calibration-tokens", "3"]),
            "--text": ["--text", self.text], "--dtype": ["--dtype", "bf16"], "--task": ["--task", "base-module"],
            "--revision": ["--revision", "other"], "--json": ["--json"], "--overwrite": None})
        self.check_overwrite("quantize")

    def test_lora_merge(self):
        one, other = self.make_adapter("one", 1), self.make_adapter("other", 2)
        self.probe("lora merge", lambda arguments: self.observe_directory(["lora", "merge", self.wide, one, "OUT", *arguments]), {
            "--and": ["--and", f"{other}=0.5"], "--dtype": ["--dtype", "bf16"], "--max-shard-size": ["--max-shard-size", "100KB"]})

    def make_hub(self) -> pathlib.Path:
        """org/tiny: a model in two revisions, and a set of data."""
        hub = self.directory / "hub"
        for kind, name in (("models", "tiny"), ("models", "next"), ("datasets", "tiny")):
            (hub / kind / "org" / name).mkdir(parents=True)
        for path in self.wide.iterdir():
            shutil.copy(path, hub / "models" / "org" / "tiny")
        make_model(hub / "models" / "org" / "next", hidden_size=64, intermediate_size=128)
        make_tokenizer(hub / "models" / "org" / "next", "quite another text " * 50)
        (hub / "datasets" / "org" / "tiny" / "README.md").write_text("# Rows\n")
        return hub

    def start_hub(self) -> Hub:
        folder = self.make_hub()
        hub = Hub(folder)
        self.addCleanup(hub.close)
        hub.ask(do="load", repo="models/org/tiny", folder=str(folder / "models" / "org" / "next"), branch="next")
        return hub

    def run_on_terminal(self, command, environment):
        """The same, with a terminal at standard error, where progress is drawn."""
        leader, follower = pty.openpty()
        told = []

        def read():
            with contextlib.suppress(OSError):  # how the end of a terminal reads
                while piece := os.read(leader, 65536):
                    told.append(piece)

        reader = threading.Thread(target=read)
        reader.start()
        done = subprocess.run([EASYDEL, *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=follower,
                              text=True, timeout=120, env=environment)
        os.close(follower)
        reader.join()
        os.close(leader)
        done.stderr = b"".join(told).decode(errors="replace").replace("\r\n", "\n")
        return done

    @unittest.skipUnless("+CURL" in subprocess.run([EASYDEL, "--version"], capture_output=True, text=True).stdout, "a build without libcurl")
    def test_download(self):
        hub, home = self.start_hub(), self.directory / "home"

        def observe(arguments):
            hub.ask(do="clear")
            done = self.run_on_terminal(["download", "org/tiny", *arguments], hub.environment(home))
            sent = {request["authorization"] for request in hub.ask(do="log")}
            snapshot = pathlib.Path(done.stdout.strip())
            found = sorted(path.name for path in snapshot.iterdir()) if done.returncode == 0 else []
            shutil.rmtree(home, ignore_errors=True)
            return done.returncode, done.stdout, done.stderr if done.returncode else "", found, sent, "%" in done.stderr

        self.workers = 1  # whose requests are told apart
        self.probe("download", observe, {
            "--revision": ["--revision", "next"], "--repo-type": ["--repo-type", "dataset", "--include", "*.md"],
            "--include": ["--include", "*.json"], "--token": ["--token", "hf_good"], "--quiet": ["--quiet"]})
        for command in (["info", "org/tiny"], ["tokenize", "org/tiny", "It is"], ["quantize", "org/tiny", self.directory / "out", "--overwrite"]):
            done = [self.run_command([*command, *revision], environment=hub.environment(home)) for revision in ([], ["--revision", "next"])]
            self.assertEqual([one.returncode for one in done], [0, 0], done)
            self.assertNotEqual(done[0].stdout, done[1].stdout, command)

    def test_download_of_a_directory_has_nothing_to_choose(self):
        message = f" applies only to repositories on the Hub; {self.wide} is a local path. Run the command in another directory to download the repository of that name."
        self.check_refused(*((["download", self.wide, *flag], (flag[0] if flag[0] == "--token" else " ".join(flag)) + message)
                             for flag in (["--revision", "v1"], ["--repo-type", "dataset"], ["--include", "*.json"], ["--token", "hf_secret"])))

    def most_threads(self, arguments) -> int:
        """Of the process, at any time."""
        most = 0
        with subprocess.Popen([EASYDEL, *map(str, arguments)], stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    most = max(most, len(os.listdir(f"/proc/{process.pid}/task")))
                time.sleep(0.001)
        self.assertEqual(process.returncode, 0)
        return most

    def threads_that_wait(self, arguments, pipe: pathlib.Path) -> int:
        """Of a process that reads the pipe, when it begins to."""
        with subprocess.Popen([EASYDEL, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
            writing = None
            while writing is None and process.poll() is None:
                with contextlib.suppress(OSError):  # nobody reads yet
                    writing = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                time.sleep(0.001)
            self.assertIsNotNone(writing, "it ended before it read anything")
            threads = len(os.listdir(f"/proc/{process.pid}/task"))
            os.write(writing, b"It is a truth\n")
            os.close(writing)
        self.assertEqual(process.returncode, 0)
        return threads

    def test_tokenize(self):
        directory = self.directory / "tokenizer"
        directory.mkdir()
        self.copy_tokenizer(directory)
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        tokenizer.save(str(directory / "tokenizer.json"))
        lines = self.directory / "lines.jsonl"
        lines.write_text('"It is"\n"a truth"\n')

        def observe(arguments):
            text = [] if "--jsonl" in arguments else ["[1, 5, 6]"]  # a text, and ids
            return self.seen(self.run_command(["tokenize", directory, *text, *arguments]))

        self.probe("tokenize", observe, {
            "--jsonl": ["--jsonl", lines], "--decode": ["--decode"], "--no-special-tokens": ["--no-special-tokens"],
            "--offsets": ["--offsets"], "--json": ["--json"], "--revision": ["--revision", "other"],
            "--threads": None})  # the same ids; below
        self.assertNotEqual(observe(["--decode", "--no-special-tokens"]), observe(["--decode"]))
        self.assertNotEqual(observe(["--jsonl", lines, "--offsets"]), observe(["--jsonl", lines]))
        long = self.directory / "long.jsonl"
        long.write_text((json.dumps(" ".join(self.texts) * 60) + "\n") * 4)
        alone, three = (self.most_threads(["tokenize", directory, "--jsonl", long, "--threads", count]) for count in (1, 3))
        self.assertEqual(three - alone, 2)

    def test_tokenize_refuses_what_has_nothing_to_do(self):
        lines = self.directory / "lines.jsonl"
        lines.write_text('"It is"\n')
        cases = (
            (["[5]", "--decode", "--offsets"], "--offsets applies only to encoding; got --decode. Leave one of them out."),
            (["--jsonl", lines, "--json"], f"--json applies only to TEXT; got --jsonl {lines}, whose output is JSON anyway. Leave --json out."),
            (["It is", "--threads", "2"], "--threads 2 applies only to encoding with --jsonl; got a TEXT. Leave --threads out."),
            (["--jsonl", lines, "--decode", "--threads", "0"],
             "--threads 0 applies only to encoding with --jsonl; got --decode. Leave --threads out."),
        )
        self.check_refused(*((["tokenize", self.wide, *arguments], message) for arguments, message in cases))

    def test_tokenizer_train(self):
        for name, texts in (("one.txt", self.texts[:12]), ("other.txt", self.texts[12:24])):
            (self.directory / name).write_text("\n".join(texts))

        def observe(arguments):
            files = [] if "--files" in arguments else ["--files", self.directory / "one.txt"]
            size = [] if "--vocab-size" in arguments else ["--vocab-size", "320"]
            return self.observe_directory(["tokenizer-train", "OUT", *files, *size, *arguments])

        self.probe("tokenizer-train", observe, {
            "--files": ["--files", self.directory / "other.txt"], "--vocab-size": ["--vocab-size", "300"],
            "--min-frequency": ["--min-frequency", "20"], "--special-token": ["--special-token", "<x>"],
            "--eos-token": ["--eos-token", "<e>"], "--bos-token": ["--bos-token", "<b>"], "--pad-token": ["--pad-token", "<p>"],
            "--pattern": ["--pattern", r"\S+|\s+"], "--max-token-length": ["--max-token-length", "3"],
            "--threads": None})  # the same vocabulary; below
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        train = ["tokenizer-train", self.directory / "out", "--files", pipe, "--vocab-size", "260", "--threads"]
        self.assertEqual(self.threads_that_wait([*train, "5"], pipe) - self.threads_that_wait([*train, "2"], pipe), 3)

    def test_report(self):
        run = self.folder / "reported"
        self.train("reported", steps=2, data=("one",))

        def observe(arguments):
            return self.observe_directory(["report", run, *arguments])

        self.probe("report", observe, {"--output": ["--output", "OUT.html"]})

    def observe_bench(self, command: list, base: dict, arguments: list):
        """What a benchmark reports besides times and memory, as JSON unless --table is among the arguments."""
        arguments = [str(part) for part in arguments]
        given = [part for flag, value in base.items() if flag not in arguments for part in (flag, value)]
        words = [part for part in arguments if part != "--table"]
        done = self.run_command(["bench", *command, *given, *words, *([] if "--table" in arguments else ["--json"])])
        try:
            printed = {key: value for key, value in json.loads(done.stdout).items() if not re.search("second|tflops|peak", key)}
        except json.JSONDecodeError:
            printed = masked(done.stdout)
        return done.returncode, printed, done.stderr if done.returncode else ""

    def peak(self, *arguments) -> int:
        done = self.run_command(["bench", *arguments, "--device", "cpu", "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["peak_bytes"]

    def make_clip(self):
        """Texts and images in one space, with the tokenizer of the others, and two images."""
        from PIL import Image
        from transformers import CLIPConfig, CLIPModel

        directory = self.directory / "clip"
        tower = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
        torch.manual_seed(0)
        config = CLIPConfig(text_config=tower | dict(vocab_size=300, max_position_embeddings=16, eos_token_id=2),
                            vision_config=tower | dict(image_size=8, patch_size=4), projection_dim=64)
        CLIPModel(config).save_pretrained(directory)
        self.copy_tokenizer(directory)
        settings = json.loads((directory / "tokenizer_config.json").read_text())
        if not settings.get("pad_token"):
            token = json.loads((directory / "tokenizer.json").read_text())["added_tokens"][0]["content"]
            (directory / "tokenizer_config.json").write_text(json.dumps(settings | {"pad_token": token}))
        (directory / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "CLIPImageProcessor", "size": 8, "crop_size": 8}))
        for name, colour in (("red", (200, 30, 20)), ("blue", (10, 20, 220))):
            Image.new("RGB", (12, 9), colour).save(self.directory / f"{name}.png")
        return directory

    def test_embed(self):
        directory = self.make_clip()
        red, blue = self.directory / "red.png", self.directory / "blue.png"

        def observe(arguments):
            return self.observe_directory(["embed", directory, "--text", "It is", "--image", red, *arguments])

        self.probe("embed", observe, MODEL | {
            "--task": ["--task", "dancing"], "--set": ["--set", "vision_config.hidden_act=gelu"], "--text": ["--text", "a truth"], "--image": ["--image", blue],
            "--output": ["--output", "OUT.safetensors"], "--json": ["--json"], "--pooling": ["--pooling", "last"],
            "--quantize-pattern": None, "--quantize-group-size": None})

    def test_classify(self):
        directory = self.make_clip()
        red, blue = self.directory / "red.png", self.directory / "blue.png"

        def observe(arguments):
            return self.seen(self.run_command(["classify", directory, "--image", red, "--label", "It is", "--label", "a truth", *arguments]))

        self.probe("classify", observe, MODEL | {
            "--task": ["--task", "dancing"], "--set": ["--set", "vision_config.hidden_act=gelu"], "--image": ["--image", blue], "--devices": ["--devices", "2", "--mesh", "1,2,1,1,1"], "--label": ["--label", "a man"], "--top-k": ["--top-k", "1"],
            "--json": ["--json"], "--text": None, "--data": None, "--audio": None, "--text-field": None,  # cli/classify_test.py
            "--quantize-pattern": None, "--quantize-group-size": None})

    def make_whisper(self, name, seed):
        from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

        torch.manual_seed(seed)
        model = WhisperForConditionalGeneration(WhisperConfig(
            vocab_size=360, d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=50, max_target_positions=40, init_std=0.4,
            pad_token_id=2, bos_token_id=2, eos_token_id=2, decoder_start_token_id=300))
        model.generation_config = GenerationConfig(
            decoder_start_token_id=300, eos_token_id=2, pad_token_id=2, max_length=20, lang_to_id={"<|en|>": 301, "<|de|>": 302},
            task_to_id={"transcribe": 303, "translate": 304}, no_timestamps_token_id=308, is_multilingual=True, alignment_heads=[[0, 1]])
        model.save_pretrained(self.directory / name)
        self.copy_tokenizer(self.directory / name)
        WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(self.directory / name)
        return self.directory / name

    def test_transcribe(self):
        directory, other = self.make_whisper("whisper", 0), self.make_whisper("other", 1)
        sound, long = self.directory / "sound.wav", self.directory / "long.wav"
        for path, count in ((sound, 9000), (long, 40000)):
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                file.writeframes(b"".join(int(9000 * math.sin(i * i / 60000)).to_bytes(2, "little", signed=True) for i in range(count)))

        def observe(arguments):
            model = [] if "--model" in arguments else ["--model", directory]
            done = self.run_command(["transcribe", sound, *model, *arguments])
            if "--json" in arguments and done.returncode == 0:  # the ids tell languages apart that no text does
                self.assertEqual(set(json.loads(done.stdout)[0]) - {"words"}, {"file", "text", "decoder_input_ids", "ids", "segments"})
            return self.seen(done)

        json_too = ["--json"]
        tries = ["--temperature", "0,2", *json_too]
        self.probe("transcribe", observe, {
            "--model": ["--model", other], "--language": (json_too, ["--language", "de"]), "--task": (json_too, ["--task", "translate"]),
            "--timestamps": ["--timestamps"], "--max-new-tokens": ["--max-new-tokens", "3"],
            "--prompt": ["--prompt", "It is"],  # refused: no <|startofprev|>; what it does: cli/transcribe_test.py
            "--word-timestamps": ["--word-timestamps"], "--temperature": (json_too, ["--temperature", "2"]),
            "--seed": (["--temperature", "2", *json_too], ["--seed", "1"]),
            "--compression-ratio-threshold": (tries, ["--compression-ratio-threshold", "0.01"]),
            "--logprob-threshold": (tries, ["--logprob-threshold", "0"]),
            "--no-speech-threshold": ([*tries, "--logprob-threshold", "0"], ["--no-speech-threshold", "0"]),
            "--condition-on-prev-tokens": ([*json_too, long], ["--condition-on-prev-tokens"]),
            "--num-beams": (json_too, ["--num-beams", "4"]), "--json": ["--json"], "--set": ["--set", "activation_function=relu"],
            **{flag: MODEL[flag] for flag in ("--dtype", "--param-dtype", "--device", "--devices", "--mesh", "--revision")}})

    def test_bench_generate(self):
        base = {"--config": self.wide / "config.json", "--prompt": 4, "--new": 2, "--rounds": 1} | CPU
        self.probe("bench generate", lambda arguments: self.observe_bench(["generate"], base, arguments), {
            "--config": ["--config", self.folder / "model" / "config.json"], "--prompt": ["--prompt", "5"], "--new": ["--new", "3"],
            "--batch": ["--batch", "2"], "--rounds": ["--rounds", "2"], "--dtype": ["--dtype", "bf16"],
            "--quantize": ["--quantize", "nf4"], "--device": ["--device", "cuda:99"], "--no-trace": ["--no-trace"],
            "--json": (["--table"], ["--json"])})
        # Of a model's files, what is told of its config with random weights; not of both.
        model = self.folder / "model"
        others = {flag: value for flag, value in base.items() if flag != "--config"}
        self.assertEqual(self.observe_bench(["generate", model], others, []),
                         self.observe_bench(["generate"], base, ["--config", model / "config.json"]))
        self.assertEqual(self.observe_bench(["generate", model], base, [])[0], 2)

    def test_bench_train(self):
        config = self.wide / "config.json"
        base = {"--config": config, "--batch": 2, "--length": 8, "--steps": 2, "--learning-rate": "1e-2"} | CPU
        self.probe("bench train", lambda arguments: self.observe_bench(["train"], base, arguments), {
            "--config": ["--config", self.folder / "model" / "config.json"], "--batch": ["--batch", "3"], "--length": ["--length", "9"],
            "--steps": ["--steps", "3"], "--dtype": ["--dtype", "bf16"], "--param-dtype": ["--param-dtype", "bf16"],
            "--device": ["--device", "cuda:99"], "--quantize": ["--quantize", "nf4"], "--lora-rank": ["--lora-rank", "2"],
            "--learning-rate": ["--learning-rate", "0.1"], "--gradient-checkpointing": ["--gradient-checkpointing", "dancing"],
            "--fp8": ["--fp8", "tensorwise"],
            "--json": (["--table"], ["--json"])})
        deep = self.directory / "deep.json"
        deep.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 48}))
        # Activations have to outweigh the pages of the libraries, which count towards the peak of a process and come and
        # go on a busy machine.
        much = ["train", "--config", deep, "--batch", "128", "--length", "64", "--steps", "1"]
        self.assertLess(self.peak(*much, "--gradient-checkpointing", "nothing_saveable"), 0.8 * self.peak(*much))

    def test_bench_moe(self):
        base = {"--hidden": 16, "--inner": 32, "--experts": 4, "--top-k": 2, "--tokens": 8, "--steps": 1} | CPU
        self.probe("bench moe", lambda arguments: self.observe_bench(["moe"], base, arguments), {
            "--hidden": ["--hidden", "32"], "--inner": ["--inner", "64"], "--experts": ["--experts", "8"], "--top-k": ["--top-k", "1"],
            "--tokens": ["--tokens", "16"], "--steps": ["--steps", "2"], "--method": ["--method", "dense_moe"],
            "--dtype": ["--dtype", "bf16"], "--device": ["--device", "cuda:99"], "--json": (["--table"], ["--json"])})
        much = ["moe", "--hidden", "64", "--inner", "128", "--experts", "32", "--top-k", "1", "--tokens", "512", "--steps", "1"]
        self.assertGreater(self.peak(*much, "--method", "dense_moe"), 2 * self.peak(*much))  # every expert for every token

    def observe_load(self, base: dict, arguments: list):
        """A load test of a server of its own, as JSON unless --table is among the arguments: the report without its times,
        what the server was asked, and the keys of the saved file."""
        arguments = [str(part) for part in arguments]
        with CompletionsServer() as server, tempfile.TemporaryDirectory(dir=self.directory) as folder:
            base = dict(base)
            if not {"--host", "--port", "--in-process"} & set(arguments):
                base["--base-url"] = server.url
            given = [part for flag, value in base.items() if flag not in arguments for part in (flag, value)]
            words = [part.replace("PORT", server.url.rpartition(":")[2]).replace("OUT", f"{folder}/out") for part in arguments if part != "--table"]
            done = self.run_command(["bench", "serve", *words, *given, *([] if "--table" in arguments else ["--json"])],
                                    environment=os.environ | {"no_proxy": "127.0.0.1"})
            asked = sorted(json.dumps(request) for request in server.asked()["requests"])
            saved = [sorted(json.loads(file.read_text())) for file in pathlib.Path(folder).iterdir()]
        try:
            timed = "_ms$|duration|throughput|goodput|_per_s$|max_concurrent"
            printed = {key: None if re.search(timed, key) else value for key, value in json.loads(done.stdout).items()}
        except json.JSONDecodeError:
            printed = masked(done.stdout)
        return done.returncode, printed, done.stderr if done.returncode else "", asked, saved

    def test_bench_serve(self):
        lines = self.directory / "prompts.jsonl"
        lines.write_text('{"prompt": "It is a truth"}\n{"prompt": "universally acknowledged", "output_tokens": 1}\n')
        base = {"--num-prompts": 3, "--num-warmups": 1}
        sizes = {"--random-input-len": 16, "--random-output-len": 4}

        def observe(arguments):
            return self.observe_load(base if "--dataset" in map(str, arguments) else base | sizes, arguments)

        engine = [self.wide, "--in-process", "--device", "cpu", "--max-concurrency", "1", "--random-prefix-len", "48", "--ignore-eos"]
        drawn = ["--in-process", "--device", "cpu", "--max-concurrency", "1", "--ignore-eos", "--config", self.wide / "config.json"]
        self.probe("bench serve", observe, {
            "--base-url": ["--base-url", "http://127.0.0.1:1"], "--host": (["--port", "PORT"], ["--host", "127.0.0.2"]),
            "--port": (["--port", "PORT"], ["--port", "1"]), "--model": ["--model", "second"],
            "--endpoint": (["--dataset", lines], ["--endpoint", "/v1/chat/completions"]), "--api-key": ["--api-key", "secret"],
            "--dataset": ["--dataset", lines], "--num-prompts": ["--num-prompts", "4"], "--num-warmups": ["--num-warmups", "2"],
            "--random-input-len": ["--random-input-len", "17"], "--random-output-len": ["--random-output-len", "2"],
            "--random-prefix-len": ["--random-prefix-len", "5"], "--random-range-ratio": ["--random-range-ratio", "0.5"],
            "--custom-output-len": (["--dataset", lines], ["--custom-output-len", "2"]), "--tokenizer": ["--tokenizer", self.wide],
            "--vocab-size": ["--vocab-size", "9"], "--request-rate": ["--request-rate", "100"],
            "--burstiness": (["--request-rate", "100"], ["--burstiness", "2"]), "--max-concurrency": ["--max-concurrency", "1"],
            "--ignore-eos": ["--ignore-eos"], "--temperature": ["--temperature", "0.5"], "--seed": ["--seed", "1"],
            "--goodput": ["--goodput", "ttft:1000", "tpot:100"], "--percentile-metrics": ["--percentile-metrics", "ttft,e2el"],
            "--metric-percentiles": ["--metric-percentiles", "50,99.9"], "--save-result": ["--save-result", "OUT.json"],
            "--json": (["--table"], ["--json"]), "--in-process": ["--in-process"],
            "--config": (drawn, ["--config", self.folder / "model" / "config.json"]), "--dtype": (engine, ["--dtype", "bf16"]),
            "--device": (engine, ["--device", "cuda:99"]), "--quantize": (engine, ["--quantize", "nf4"]),
            "--max-num-seqs": (engine, ["--max-num-seqs", "2"]), "--max-num-batched-tokens": (engine, ["--max-num-batched-tokens", "24"]),
            "--no-prefix-caching": (engine, ["--no-prefix-caching"])})

    def test_bench_serve_sends_no_more_than_it_may(self):
        command = ["bench", "serve", "--num-prompts", 40, "--random-input-len", 8, "--random-output-len", 4, "--max-concurrency"]
        with CompletionsServer() as server:
            for most in (1, 3):
                done = self.run_command([*command, most, "--base-url", server.url])
                self.assertEqual(done.returncode, 0, done.stderr)
                asked = server.asked()
                self.assertEqual(len(asked["requests"]), 41)
                self.assertLessEqual(asked["most"], most)

    def test_bench_serve_counts_what_fails(self):
        lines = self.directory / "prompts.jsonl"
        lines.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("refuse", "It is a truth", "break")))
        with CompletionsServer() as server:
            command = ["bench", "serve", "--base-url", server.url, "--dataset", lines, "--num-warmups", 0, "--json", "--save-result",
                       self.directory / "saved.json", "--num-prompts"]
            report = json.loads(self.run_command([*command, 6]).stdout)
            self.assertEqual((report["completed"], report["failed"], report["total_input_tokens"], report["total_output_tokens"]), (2, 4, 8, 6))
            saved = json.loads((self.directory / "saved.json").read_text())
            self.assertEqual(saved["generated_texts"][1], "t0 t1 t2 ")
            self.assertEqual([bool(error) for error in saved["errors"]], [True, False, True] * 2)
            self.assertIn("refused, as asked", saved["errors"][0])
            alone = self.run_command([*command, 1])
            self.assertEqual(alone.returncode, 1)
            self.assertIn("refused, as asked", alone.stderr)

    def test_bench_serve_refuses_what_has_nothing_to_do(self):
        serve = ["bench", "serve"]
        self.check_refused(
            ([*serve, "--dtype", "bf16"], "--dtype applies only to the engine of --in-process. Leave it out."),
            ([*serve, self.wide], f"MODEL is used only with --in-process; got {self.wide}. Select a model of the server with --model."),
            ([*serve, self.wide, "--in-process", "--port", "1"], "--port applies only to a server, and --in-process uses none. Leave it out."),
            ([*serve, "--burstiness", "2"], "--burstiness applies only with a finite --request-rate; now all requests are sent at once. Leave it out."),
            ([*serve, "--goodput", "itl:5"], "--goodput takes ttft:MS, tpot:MS and e2el:MS; got \"itl:5\"."),
            ([*serve, "--endpoint", "/v1/chat/completions"],
             "--endpoint /v1/chat/completions takes text, but random prompts are token ids. Use --tokenizer DIR or --dataset FILE."))

    def test_dashboard(self):
        run = self.directory / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]

        def observe(arguments):
            given = [] if "--port" in arguments else ["--port", "0"]
            process = subprocess.Popen([EASYDEL, "dashboard", run, *given, *arguments], stdout=subprocess.PIPE, text=True)
            printed = process.stdout.readline()
            process.terminate()
            process.communicate(timeout=30)
            return process.returncode, printed if f":{port}/" in printed else re.sub(r":[0-9]+/", ":0/", printed), ""

        self.probe("dashboard", observe, {"--host": ["--host", "127.0.0.2"], "--port": ["--port", str(port)]})

    def test_demo(self):
        text = BOOK.read_text(encoding="utf-8")

        def write_book(name: str, first: int) -> pathlib.Path:
            (self.directory / name).write_text("".join(f"Chapter {i}\n{text[first + 2000 * i:][:1000]}\n" for i in range(1, 7)))
            return self.directory / name

        base = {"--corpus": write_book("one.txt", 0), "--output": "OUT/demo", "--steps": 2, "--batch": 2, "--length": 16, "--hidden": 64,
                "--layers": 1, "--vocabulary": 300, "--mesh": "1,1,1,1,1"}

        def observe(arguments):
            arguments = [str(part) for part in arguments]
            given = [part for flag, value in base.items() if flag not in arguments for part in (flag, value)]
            status, printed, told, more = self.observe_directory(["demo", *given, *arguments], (".safetensors", "config.json", "tokenizer.json"))
            try:
                printed = {key: value for key, value in json.loads(printed).items() if key != "seconds"}
            except json.JSONDecodeError:
                printed = masked(printed)
            return status, printed, told, more

        self.probe("demo", observe, {
            "--corpus": ["--corpus", write_book("other.txt", 20000)], "--output": ["--output", "OUT/other"], "--steps": ["--steps", "3"],
            "--batch": ["--batch", "4"], "--length": ["--length", "8"], "--hidden": ["--hidden", "128"], "--layers": ["--layers", "2"],
            "--vocabulary": ["--vocabulary", "310"], "--learning-rate": ["--learning-rate", "0.5"],
            "--optimizer": ["--optimizer", "lion"], "--mesh": ["--mesh", "1,1,1,2,1"], "--json": ["--json"]})
        earlier = self.directory / "earlier"
        earlier.mkdir()
        for name in ("demo.json", "report.html"):
            (earlier / name).write_text("{}")
        demo = ["demo", "--corpus", base["--corpus"], "--output", earlier]
        self.check_refused(([*demo, "--hidden", "100"], "--hidden must be a multiple of 64; got 100."),
                           ([*demo, "--mesh", "1,-1,1,2,1"], "--mesh must be five sizes of at least 1; got -1 among them."))
        self.assertTrue((earlier / "report.html").exists())

    def test_demo_rl(self):
        base = {"--output": "OUT/demo", "--control": "random", "--examples": 64, "--held-out": 16, "--sft-steps": 21, "--steps": 2, "--prompts": 2,
                "--group": 2, "--hidden": 32, "--layers": 1}

        def observe(arguments):
            arguments = [str(part) for part in arguments]
            given = [str(part) for flag, value in base.items() if flag not in arguments for part in (flag, value)]
            with tempfile.TemporaryDirectory(dir=self.directory) as folder:
                done = self.run_command([part.replace("OUT", folder) for part in ["demo", "rl", *given, *arguments]])
                stages = [self.files(path, ("model.safetensors",)) for path in sorted(pathlib.Path(folder).glob("*/*")) if path.name in ("sft", "grpo", "random", "sft-more")]
            printed = done.stdout.replace(folder, "OUT")
            if "--json" in arguments:
                printed = json.loads(printed[printed.index("{\n"):])
                printed["stages"] = [{key: value for key, value in stage.items() if key != "seconds"} for stage in printed["stages"]]
            else:
                printed = re.sub(r"[0-9]+ s ", "0 s ", printed)
            return done.returncode, printed, done.stderr if done.returncode else "", stages

        self.probe("demo rl", observe, {
            "--output": ["--output", "OUT/other"], "--reward": ["--reward", "exact"], "--control": ["--control", "sft"],
            "--sft-until": ["--sft-until", "0"], "--seed": ["--seed", "1"],
            "--examples": ["--examples", "70"], "--held-out": ["--held-out", "7"], "--sft-steps": ["--sft-steps", "3"],
            "--steps": ["--steps", "3"], "--prompts": ["--prompts", "3"], "--group": ["--group", "3"], "--hidden": ["--hidden", "64"],
            "--layers": ["--layers", "2"], "--learning-rate": ["--learning-rate", "0.5"], "--json": ["--json"]})
        self.check_refused((["demo", "rl", "--hidden", "40"], "--hidden must be a multiple of 32; got 40."),
                           (["demo", "--steps", "3", "rl"], "--steps before rl is an option of easydel demo, not of easydel demo rl. See easydel demo rl --help."))

    def test_what_another_flag_leaves_nothing_to_do_is_refused(self):
        one_file = self.directory / "one.safetensors"
        self.check_refused(
            (["convert", self.wide, one_file, "--max-shard-size", "2GB"],
             f"--max-shard-size 2GB applies only to a directory; {one_file} is one file. Use a directory, or omit "
             "--max-shard-size."),
            (["quantize", self.wide, self.directory / "out", "--calibration-tokens", "64"],
             "--calibration-tokens 64 needs calibration text. Give it with --calibrate FILE."),
            (["quantize", self.wide, self.directory / "out", "--format", "fp8", "--method", "nf4"],
             "--method nf4 is not supported with --format fp8, which determines the method. Leave one of them out."),
            (["quantize", self.wide, self.directory / "out", "--type", "int8"],
             "--type int8 applies only to --format gguf and compressed-tensors. Leave it out."),
            (["quantize", self.wide, self.directory / "out.gguf", "--format", "gguf", "--pattern", "q_proj"],
             "--pattern, --group-size and --calibrate are not supported with --format gguf, where --type determines everything."),
            *((["quantize", self.wide, self.directory / "out.gguf", "--format", "gguf", flag, value],
               f"{flag} is not supported with --format gguf, where --type determines everything.")
              for flag, value in (("--dtype", "bf16"), ("--task", "base-module"))),
            (["info", self.wide, "--json", "--depth", "1"],
             "--depth 1 limits the module tree, which --json does not print. Leave one of them out."),
            (["info", self.wide, "--quantize", "nf4", "--devices", "2"],
             "--quantize nf4 is not supported with --devices or --mesh here: the sharding plan is for dense weights. Leave one "
             "of them out."),
            (["info", self.wide, "--quantize-pattern", "q_proj"], "--quantize-pattern q_proj needs --quantize METHOD."),
            (["info", self.wide, "--quantize-group-size", "32"], "--quantize-group-size 32 needs --quantize METHOD."),
            (["bench", "generate", "--config", self.wide / "config.json", "--device", "cpu", "--no-trace"],
             "--no-trace applies only to CUDA graphs; got the device cpu. Leave it out, or use --device cuda."),
        )


if __name__ == "__main__":
    unittest.main()
