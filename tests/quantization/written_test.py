"""`easydel quantize --format`: files that the packages of each format read, with logits of the codes that are in them.
usage: written_test.py EASYDEL"""

import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import docs_fixture
import gguf_models
import llama_cpp

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

EASYDEL = sys.argv.pop(1)
SHAPE = dict(vocab_size=320, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
             initializer_range=0.1, hidden_size=256, intermediate_size=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
# One family with every type, and each of the others.
GGUF_FILES = [*(("llama", kind) for kind in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K")), ("qwen3", "Q8_0"), ("mixtral", "Q8_0"), ("mixtral", "Q4_K_M"), ("qwen3_moe", "Q4_K_M")]
ARCHITECTURES = {"llama": "llama", "mixtral": "llama", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}


def run(*arguments, status: int = 0) -> str:
    done = warm_start.run([EASYDEL, *map(str, arguments)], text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


class Written(unittest.TestCase):
    ids = torch.arange(40).remainder(95).add(3).view(2, 20)

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.temporary.name)
        text = docs_fixture.BOOK.read_text(encoding="utf-8")
        cls.book = text
        cls.tokenizer = docs_fixture.make_tokenizer(text[:60000])
        cls.text = cls.directory / "text.txt"
        cls.text.write_text(text[60000:66000])
        cls.models = {}
        for family in ARCHITECTURES:
            torch.manual_seed(1)
            more = {"num_local_experts": 4, "num_experts_per_tok": 2} if family in ("mixtral", "qwen3_moe") else {}
            more |= {"head_dim": 64} if family.startswith("qwen3") else {}
            more |= {"moe_intermediate_size": 256, "norm_topk_prob": True} if family == "qwen3_moe" else {}
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SHAPE, **more)).eval()
            model.save_pretrained(cls.directory / family)
            cls.tokenizer.save_pretrained(cls.directory / family)
            cls.models[family] = model

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def logits(self, model, *arguments) -> torch.Tensor:
        save_file({"input_ids": self.ids}, self.directory / "in.safetensors")
        out = self.directory / "out.safetensors"
        run("forward", model, "--input", self.directory / "in.safetensors", "--output", out, *arguments)
        return load_file(out)["logits"].clone()

    def expected(self, model) -> torch.Tensor:
        with torch.no_grad():
            return model(self.ids).logits.float()

    def twin(self, family: str, tensors: dict):
        """The model with the weights that the gguf package says a file holds."""
        state = load_file(self.directory / family / "model.safetensors")
        for name in state:
            parts, heads = name.split("."), 0
            if ".experts." in name:
                stored = tensors[f"blk.{parts[2]}.{gguf_models.EXPERT[parts[6]]}.weight"]
            else:
                stored = tensors[gguf_models.tensor_name(name)]
            values = gguf.dequantize(stored.data, stored.tensor_type).astype(np.float32)
            if ".experts." in name:
                values = values.reshape([int(n) for n in stored.shape[::-1]])[int(parts[5])]
            elif ARCHITECTURES[family] == "llama" and ("q_proj" in name or "k_proj" in name):
                heads = SHAPE["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            values = values.reshape(tuple(state[name].shape))
            state[name] = torch.from_numpy(np.ascontiguousarray(gguf_models.unpaired(values, heads) if heads else values))
        folder = self.directory / "twin"
        shutil.copytree(self.directory / family, folder, dirs_exist_ok=True)
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def gguf_file(self, family: str, kind: str) -> pathlib.Path:
        path = self.directory / f"{family}-{kind}.gguf"
        if not path.exists():
            run("quantize", self.directory / family, path, "--format", "gguf", "--type", kind)
        return path

    def test_gguf_is_what_the_package_reads_and_quantizes(self):
        for family, kind in GGUF_FILES:
            with self.subTest(family=family, kind=kind):
                path = self.gguf_file(family, kind)
                reader = gguf.GGUFReader(path)
                theirs = self.directory / "theirs.gguf"
                gguf_models.write(theirs, self.models[family], ARCHITECTURES[family])
                exact = {t.name: t.data.reshape(t.shape[::-1]) for t in gguf.GGUFReader(theirs).tensors}
                ours = {t.name: t for t in reader.tensors}
                self.assertEqual(sorted(ours), sorted(exact))
                for name, tensor in ours.items():
                    values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(exact[name].shape)
                    if tensor.tensor_type.name in ("Q8_0", "Q4_0"):
                        again = gguf.quantize(exact[name], tensor.tensor_type)
                        self.assertTrue(np.array_equal(again.reshape(tensor.data.shape), tensor.data), name)
                    off = np.linalg.norm(values - exact[name]) / np.linalg.norm(exact[name])
                    most = {"F32": 0, "F16": 4e-4, "BF16": 3e-3, "Q8_0": 6e-3, "Q6_K": 0.02, "Q4_K": 0.08, "Q4_0": 0.11}
                    self.assertLessEqual(off, most[tensor.tensor_type.name], name)
                kinds = {t.tensor_type.name for t in reader.tensors if len(t.shape) > 1 and "ffn_gate_inp" not in t.name}
                self.assertEqual(kinds, {"Q4_K", "Q6_K"} if kind == "Q4_K_M" else {kind})
                fields = reader.fields
                self.assertEqual(fields["tokenizer.chat_template"].contents(), self.tokenizer.chat_template)
                vocabulary = self.tokenizer.get_vocab()
                self.assertEqual(fields["tokenizer.ggml.tokens"].contents(), sorted(vocabulary, key=vocabulary.get))
                text = "It is a truth universally acknowledged"
                ids = run("tokenize", path, text)
                self.assertEqual(ids, run("tokenize", self.directory / family, text))
                self.assertLess(far(self.logits(path), self.expected(self.twin(family, ours))), 1e-4)

    def test_llama_cpp_gives_the_same_logits_within_the_rounding_of_the_format(self):
        if reason := llama_cpp.why_not():
            self.skipTest(reason)
        for family, kind in GGUF_FILES:
            with self.subTest(family=family, kind=kind):
                path, out = self.gguf_file(family, kind), self.directory / "theirs.npy"
                subprocess.run([sys.executable, llama_cpp.__file__, path, out, *map(str, self.ids[0].tolist())], check=True)
                theirs, ours = torch.from_numpy(np.load(out)), self.logits(path)[0]
                dense = self.expected(self.models[family])[0]
                apart, rounding = (float((x - dense).norm() / dense.norm()) for x in (theirs - ours + dense, ours))
                same = float((theirs.argmax(-1) == ours.argmax(-1)).float().mean())
                print(f"{family} {kind}: llama.cpp {apart:.5f} from ours, which is {rounding:.5f} from the dense model; "
                      f"greedy tokens {same:.0%} the same")
                # llama.cpp rounds what it multiplies with the codes too, and its keys and values to float16.
                self.assertLess(apart, rounding + 2e-3)

    def test_llama_cpp_splits_text_in_the_same_way_and_finds_the_chat_template(self):
        if reason := llama_cpp.why_not():
            self.skipTest(reason)
        words, byte_level = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|", pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        rest = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        split = lambda digits: pre_tokenizers.Split(Regex(words + digits + rest), "isolated")  # noqa: E731
        kinds = {
            "gpt-2": ("llama", {}),
            "llama-bpe": ("llama", dict(pre_tokenizer=pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), byte_level]),
                                        post_processor=processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)]))),
            "qwen2": ("qwen3", dict(pre_tokenizer=pre_tokenizers.Sequence([split(r"\p{N}"), byte_level]), normalizer=normalizers.NFC())),
            "smollm": ("llama", dict(pre_tokenizer=pre_tokenizers.Sequence([
                pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))),
        }  # fmt: skip
        texts = ["It is a truth universally acknowledged, that", "  two  spaces\nand a line\r\n\n", "U\u0308nïcödé: 日本語 🙂 1234567",
                 "a</s>b <s>", "don't I'LL 3.14 x\t", ""]  # fmt: skip
        for kind, (family, parts) in kinds.items():
            with self.subTest(kind):
                folder, path, out = self.directory / f"split-{kind}", self.directory / f"split-{kind}.gguf", self.directory / "tokens.json"
                shutil.copytree(self.directory / family, folder)
                tokenizer = docs_fixture.make_tokenizer(self.book[:60000])
                for name, part in parts.items():
                    setattr(tokenizer.backend_tokenizer, name, part)
                tokenizer.save_pretrained(folder)
                run("quantize", folder, path, "--format", "gguf", "--type", "Q8_0")
                self.assertEqual(gguf.GGUFReader(path).fields["tokenizer.ggml.pre"].contents(), kind)
                # llama.cpp itself composes no characters.
                given = [unicodedata.normalize("NFC", text) if kind == "qwen2" else text for text in texts]
                subprocess.run([sys.executable, llama_cpp.__file__, path, out, *given], check=True)
                theirs = json.loads(out.read_text())
                self.assertEqual(theirs["chat_template"], tokenizer.chat_template)
                self.assertEqual(theirs["ids"], [tokenizer(text)["input_ids"] for text in texts])

    def test_experts_of_gguf_files_stay_packed(self):
        rows = self.directory / "rows.jsonl"
        rows.write_text("".join(json.dumps({"text": line}) + "\n" for line in self.text.read_text().splitlines() if len(line) > 40))
        for family, kind in (("mixtral", "Q4_0"), ("mixtral", "Q4_K_M"), ("qwen3_moe", "Q4_K_M")):
            with self.subTest(family=family, kind=kind):
                path = self.gguf_file(family, kind)
                expected = self.expected(self.twin(family, {t.name: t for t in gguf.GGUFReader(path).tensors}))
                for mesh in ([], ["--devices", 4, "--mesh", "1,1,2,2,1"], ["--devices", 4, "--mesh", "1,2,1,2,1"]):
                    self.assertLess(far(self.logits(path, *mesh), expected), 1e-4, mesh)
                output = self.directory / "run"
                shutil.rmtree(output, ignore_errors=True)
                run("train", path, "--data", rows, "--lora-rank", 4, "--steps", 6, "--batch", 4, "--length", 32, "--learning-rate",
                    0.02, "--output", output, "--set", "log_steps=1", "--json")  # fmt: skip
                records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
                losses = [record["loss"] for record in records if "loss" in record]
                self.assertLess(losses[-1], losses[0])
                self.assertTrue(json.loads(run("generate", path, "--prompt", "It is", "--max-new-tokens", 4, "--json")))
                dense = self.directory / "dense-of-gguf"
                run("convert", path, dense, "--dtype", "fp32", "--overwrite")
                theirs = AutoModelForCausalLM.from_pretrained(dense).eval()
                self.assertLess(far(self.expected(theirs), expected), 1e-5)
                self.assertEqual(AutoTokenizer.from_pretrained(dense)("It is a truth")["input_ids"],
                                 self.tokenizer("It is a truth")["input_ids"])  # fmt: skip

    def test_packed_experts_take_the_memory_of_their_file(self):
        def write(path: pathlib.Path, hidden: int, inner: int) -> None:
            config = AutoConfig.for_model("mixtral", vocab_size=64, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=3,
                                          num_attention_heads=4, num_key_value_heads=4, num_local_experts=8)  # fmt: skip
            writer = gguf_models.start(path, "llama", config)
            writer.add_expert_count(8)
            writer.add_expert_used_count(2)
            kind, random = gguf.GGMLQuantizationType.Q8_0, np.random.default_rng(0)

            def add(name: str, *shape: int) -> None:
                writer.add_tensor(name, gguf.quantize(random.standard_normal(shape, np.float32), kind), raw_dtype=kind)

            add("token_embd.weight", 64, hidden)
            add("output.weight", 64, hidden)
            writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
            for i in range(3):
                for name in ("attn_norm", "ffn_norm"):
                    writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(hidden, np.float32))
                for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                    add(f"blk.{i}.{name}.weight", hidden, hidden)
                writer.add_tensor(f"blk.{i}.ffn_gate_inp.weight", np.ones((8, hidden), np.float32))
                add(f"blk.{i}.ffn_gate_exps.weight", 8, inner, hidden)
                add(f"blk.{i}.ffn_up_exps.weight", 8, inner, hidden)
                add(f"blk.{i}.ffn_down_exps.weight", 8, hidden, inner)
            gguf_models.finish(writer)

        save_file({"input_ids": torch.ones(1, 1, dtype=torch.long)}, self.directory / "one.safetensors")

        def peak(path: pathlib.Path) -> int:
            code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
            done = subprocess.run([sys.executable, "-c", code, EASYDEL, "forward", str(path), "--input",
                                   str(self.directory / "one.safetensors"), "--output", str(self.directory / "o.safetensors")],
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(done.stdout) * 1024

        small, large = self.directory / "small.gguf", self.directory / "large.gguf"
        write(small, 64, 64)
        write(large, 512, 1024)
        more, file = peak(large) - peak(small), large.stat().st_size
        stack = 8 * 2 * 1024 * 512 * 34 // 32  # of gates and up-projections, the largest tensor
        print(f"{more / 2**20:.1f} MiB more than a small model; the file has {file / 2**20:.1f} MiB, its largest tensor {stack / 2**20:.1f}")
        self.assertLess(more, 1.1 * file + stack + (8 << 20))

    def test_compressed_tensors_and_fp8_are_read_by_transformers(self):
        # Of normal values: a step of absmax / 7.5 over sqrt(12), of absmax / 127.5, and half an ulp of three bits.
        for arguments, bound in ((["compressed-tensors", "--type", "int4", "--group-size", 64], 0.1),
                                 (["compressed-tensors", "--type", "int8"], 0.008),
                                 (["compressed-tensors", "--type", "fp8"], 0.03), (["fp8"], 0.03)):  # fmt: skip
            with self.subTest(arguments):
                out = self.directory / "packed"
                run("quantize", self.directory / "llama", out, "--overwrite", "--format", *arguments)
                theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, device_map="cpu").eval()
                ours, expected = self.logits(out), self.expected(theirs)
                # Their FP8 becomes bfloat16 on a CPU.
                self.assertLess(far(ours, expected), 0.03 if arguments == ["fp8"] else 1e-4)
                run("convert", out, self.directory / "dense", "--dtype", "fp32", "--overwrite")
                made = load_file(self.directory / "dense" / "model.safetensors")
                for name, weight in load_file(self.directory / "llama" / "model.safetensors").items():
                    off = float((made[name] - weight).norm() / weight.norm())
                    self.assertLess(off, bound, name)
                shutil.rmtree(out)

    def test_calibration_makes_gptq_and_awq_better_than_rounding(self):
        errors = {}
        dense = self.models["llama"]
        text = torch.tensor(self.tokenizer(self.text.read_text())["input_ids"][:120])[None]
        with torch.no_grad():
            wanted = dense(text).logits
        for name in ("gptq", "awq", "compressed-tensors"):
            out = self.directory / name
            run("quantize", self.directory / "llama", out, "--format", name, "--group-size", 64, "--calibrate", self.text)
            twin = self.directory / "dense"
            run("convert", out, twin, "--dtype", "fp32", "--overwrite")
            model = AutoModelForCausalLM.from_pretrained(twin).eval()
            self.assertLess(far(self.logits(out), self.expected(model)), 1e-5)
            with torch.no_grad():
                errors[name] = (model(text).logits - wanted).norm() / wanted.norm()
        out = self.directory / "rounded"
        run("quantize", self.directory / "llama", out, "--format", "compressed-tensors", "--group-size", 64)
        rounded = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, device_map="cpu").eval()
        with torch.no_grad():
            errors["rounded"] = (rounded(text).logits - wanted).norm() / wanted.norm()
        print({name: round(float(error), 4) for name, error in errors.items()})
        self.assertLess(errors["gptq"], errors["rounded"])
        self.assertLess(errors["compressed-tensors"], errors["rounded"])
        self.assertLess(errors["awq"], 1.1 * errors["rounded"])

    def test_what_cannot_be_written_is_refused_by_name(self):
        model, out = self.directory / "llama", self.directory / "none"
        for arguments, status, message in (
            (["--format", "gptq"], 2, "--format gptq needs calibration text. Give it with --calibrate FILE."),
            (["--format", "fp8", "--calibrate", self.text], 2, f"--calibrate {self.text}: --format fp8 needs no calibration. Omit "
             "--calibrate, or use gptq, awq or compressed-tensors with int4."),
            (["--format", "compressed-tensors", "--type", "int8", "--calibrate", self.text], 2, "--format compressed-tensors --type int8 "
             "needs no calibration."),
            (["--format", "compressed-tensors", "--type", "int5"], 1, 'the scheme of compressed-tensors must be int4, int8 or fp8; got "int5".'),
            (["--format", "compressed-tensors", "--group-size", "96"], 1, "must be a multiple of 32 that divides the 256 columns"),
            (["--format", "bitsandbytes", "--method", "int4"], 2, "--format bitsandbytes supports the methods nf4 and 8bit; got int4."),
            (["--format", "gguf"], 2, "--format gguf needs an output file that ends in .gguf; got"),
        ):  # fmt: skip
            self.assertIn(message, run("quantize", model, out, *arguments, status=status))
            self.assertFalse(out.exists())
        message = run("quantize", model, self.directory / "none.gguf", "--format", "gguf", "--type", "Q3_K_M", status=1)
        self.assertIn('the type must be one of F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q6_K; got "Q3_K_M".', message)


if __name__ == "__main__":
    unittest.main()
