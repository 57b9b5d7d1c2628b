"""Files that somebody made to hang, crash or deceive easydel. usage: hostile_test.py EASYDEL"""

import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import unittest

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

EASYDEL = sys.argv.pop()
CONFIG = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=16, intermediate_size=16, vocab_size=8,
              num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
              bos_token_id=0, eos_token_id=1)  # fmt: skip
LAYER = {"input_layernorm.weight": [16], "post_attention_layernorm.weight": [16], "mlp.gate_proj.weight": [16, 16],
         "mlp.up_proj.weight": [16, 16], "mlp.down_proj.weight": [16, 16], "self_attn.q_proj.weight": [16, 16],
         "self_attn.k_proj.weight": [16, 16], "self_attn.v_proj.weight": [16, 16],
         "self_attn.o_proj.weight": [16, 16]}  # fmt: skip
MEMORY = 6 << 30  # more than any of these should ever need


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([EASYDEL, *map(str, arguments)], capture_output=True, timeout=60,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)), **options)


class Hostile(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.model = self.directory / "model"
        self.model.mkdir()
        torch.manual_seed(0)
        self.state = {f"model.layers.0.{name}": torch.randn(shape) for name, shape in LAYER.items()}
        self.state |= {"model.embed_tokens.weight": torch.randn(8, 16), "lm_head.weight": torch.randn(8, 16),
                       "model.norm.weight": torch.ones(16)}  # fmt: skip
        save_file(self.state, self.model / "model.safetensors", metadata={"format": "pt"})
        self.write_config()
        words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(8)}, unk_token="w0"))
        words.save(str(self.model / "tokenizer.json"))
        (self.model / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        (self.model / "generation_config.json").write_text('{"eos_token_id": 1}')

    def write_config(self, **changes):
        (self.model / "config.json").write_text(json.dumps(CONFIG | changes))

    def check_refused(self, message: str, *arguments, code=1):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stderr.decode()), (code, f"easydel: {message}\n"), arguments)

    @staticmethod
    def make_socket(path: pathlib.Path):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))

    def generate(self, *more):
        return run("generate", self.model, "--prompt", "w2", "--max-new-tokens", 2, *more)

    def test_the_model_itself_works(self):
        done = self.generate()
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_only_regular_files_are_opened(self):
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            path = self.model / name
            kept = path.read_bytes()
            for kind, make in (("a named pipe", os.mkfifo), ("a device", lambda p: os.symlink("/dev/zero", p)),
                               ("a socket", self.make_socket)):
                path.unlink()
                make(path)
                done = self.generate()
                self.assertEqual((done.returncode, done.stderr.decode().splitlines()[-1]),
                                 (1, f"easydel: [{path}] must be a regular file; it is {kind}."))
            path.unlink()
            path.mkdir()
            self.assertEqual(self.generate().returncode, 1)
            path.rmdir()
            path.write_bytes(kept)

    def test_a_shard_that_is_a_pipe(self):
        index = {"weight_map": {name: "a.safetensors" for name in self.state}}
        (self.model / "model.safetensors").unlink()
        (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
        os.mkfifo(self.model / "a.safetensors")
        for command in (("inspect", self.model), ("convert", self.model, self.directory / "out"), ("generate", self.model)):
            self.check_refused(f"[{self.model}/a.safetensors] must be a regular file; it is a named pipe.", *command)

    def test_an_index_that_leaves_its_directory(self):
        (self.model / "model.safetensors").rename(self.directory / "model.safetensors")
        for outside in ("../model.safetensors", f"{self.directory}/model.safetensors"):
            index = {"weight_map": {"model.norm.weight": outside}}
            (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
            self.check_refused(f'[{self.model}/model.safetensors.index.json] the file of tensor "model.norm.weight" must be '
                               f'a path inside the checkpoint\'s directory; got "{outside}".', "inspect", self.model)

    def test_a_loop_of_links(self):
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            path = self.model / name
            kept = path.read_bytes()
            path.unlink()
            path.symlink_to(name)
            done = self.generate()
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(self.model), done.stderr.decode())
            path.unlink()
            path.write_bytes(kept)

    def test_a_tensor_that_repeats_its_elements(self):
        file = self.directory / "w.bin"
        torch.save({"w": torch.zeros(1).expand(2**40)}, file)
        message = (f'[{file}] tensor "w" has 1099511627776 elements in a storage of 1: a stride repeats them. Call '
                   "contiguous() on it before saving.")
        self.check_refused(message, "convert", file, self.directory / "out")
        self.check_refused(message, "inspect", file)
        self.assertFalse((self.directory / "out").exists())

    def test_sizes_that_no_file_backs(self):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
        file = self.directory / "w.safetensors"
        file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
        done = run("convert", file, self.directory / "out")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"The file is truncated or damaged.", done.stderr)

    def test_more_layers_than_any_model_has(self):
        for layers in (10**6, 10**8):
            self.write_config(num_hidden_layers=layers)
            for command in ("info", "generate"):
                self.check_refused(f"[LlamaConfig] num_hidden_layers must be at most 10000; got {layers}.", command, self.model)
        self.write_config(num_labels=10**9)
        self.check_refused(f"[LlamaConfig] {self.model}/config.json: num_labels must be from 1 to 1000000; got 1000000000.",
                           "info", self.model)

    def test_numbers_that_are_no_sizes(self):
        for changes in ({"hidden_size": float("nan")}, {"hidden_size": -16}, {"vocab_size": 2**62}, {"hidden_size": 2**63},
                        {"num_attention_heads": 0}, {"rms_norm_eps": float("nan")}, {"rope_theta": float("inf")},
                        {"hidden_size": 2**30, "intermediate_size": 2**30, "num_hidden_layers": 10000, "vocab_size": 2**30,
                         "num_attention_heads": 2**29, "num_key_value_heads": 2**29, "head_dim": 2**30}):  # fmt: skip
            self.write_config(**changes)
            for command in ("info", "generate"):
                done = run(command, self.model)
                self.assertEqual(done.returncode, 1, (changes, done.stdout[-300:]))

    def test_names_do_not_reach_the_terminal_as_they_are(self):
        self.write_config(model_type="\x1b[2J\x07lama")
        done = run("info", self.model)
        self.assertEqual(done.returncode, 1)
        self.assertIn(rb'unknown model_type "\u001b[2J\u0007lama"', done.stderr)
        self.write_config(model_type="x" * 10**6)
        done = run("info", self.model)
        self.assertIn(b'"' + b"x" * 100 + '"…'.encode(), done.stderr)
        self.assertLess(len(done.stderr), 2000)
        for error in (self.template_error("{{ raise_exception('\x1b[2J' ~ 'y' * 1000000) }}"), self.template_error("{% \x1b[2J %}")):
            self.assertNotIn(b"\x1b", error)
            self.assertLess(len(error), 2000)

    def template_error(self, template: str) -> bytes:
        (self.model / "chat_template.jinja").write_text(template)
        done = run("chat", self.model, input=b"hello\n")
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_a_gguf_file_that_lies(self):
        def write(arch, **numbers) -> pathlib.Path:
            path = self.directory / "model.gguf"
            writer = gguf.GGUFWriter(str(path), arch)
            for name, value in numbers.items():
                getattr(writer, f"add_{name}")(value)
            writer.add_tensor("token_embd.weight", np.zeros((8, 16), np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            return path

        path = write("llama", context_length=32, block_count=2**31 - 1, embedding_length=16, feed_forward_length=16,
                     head_count=2, layer_norm_rms_eps=1e-5)  # fmt: skip
        for command in ("info", "generate", "chat"):
            self.check_refused(f"[GGUF] {path}: llama.block_count is 2147483647, but there are 1 tensors in all.", command, path)
        path = write("\x1b[2J" + "z" * 100000)
        done = run("info", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(rb'"\u001b[2Jzzz', done.stderr)
        self.assertLess(len(done.stderr), 1000)

    def test_weights_that_are_no_real_numbers(self):
        name = "model.norm.weight"
        save_file(self.state | {name: torch.ones(16, dtype=torch.complex64)}, self.model / "model.safetensors")
        done = self.generate()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"[{self.model}/model.safetensors] weights must be real numbers; got ComplexFloat.", done.stderr.decode())

    def test_a_file_without_tensors(self):
        file = self.directory / "empty.safetensors"
        save_file({}, file)
        self.check_refused(f"[{file}] contains no tensors.", "convert", file, self.directory / "out")
        torch.save({}, self.directory / "empty.bin")
        self.check_refused(f"[{self.directory}/empty.bin] contains no tensors.", "convert", self.directory / "empty.bin",
                           self.directory / "out")

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([EASYDEL, "models"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"easydel: [standard output] cannot be written: No space left on device.\n"))

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        out = self.directory / "out"
        done = subprocess.run([EASYDEL, "convert", self.model, out], stderr=subprocess.PIPE, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot be written after 4096 bytes: File too large.", done.stderr)
        self.assertEqual(list(out.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
