"""`easydel quantize` and the quantized models of transformers with bitsandbytes: the same codes, files that cross over in
both directions, and logits of the weights that the codes stand for. usage: quantize_test.py EASYDEL"""

import json
import logging
import os
import pathlib
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import bitsandbytes.functional as F
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

EASYDEL = sys.argv[1]
SIZES = {
    "llama": dict(hidden_size=64, intermediate_size=192, num_key_value_heads=2),
    "phi3": dict(hidden_size=64, intermediate_size=192, num_key_value_heads=2, pad_token_id=0),
    "gpt2": dict(n_embd=64, n_head=4, n_layer=2, n_positions=64),
}
NF4 = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")
METHODS = {
    "nf4": (["--method", "nf4"], NF4),
    "nested": (["--method", "nf4", "--double-quant"], NF4 | {"bnb_4bit_use_double_quant": True}),
    "8bit": (["--method", "8bit"], dict(load_in_8bit=True)),
}


def easydel(*arguments: str, status: int = 0) -> str:
    done = warm_start.run([EASYDEL, *arguments], text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def make_dense(family: str, directory: str, tied: bool = False):
    torch.manual_seed(1)
    settings = SIZES[family] | {"vocab_size": 96, "initializer_range": 0.1, "tie_word_embeddings": tied}
    if family != "gpt2":
        settings |= {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)).eval()
    model.save_pretrained(directory)
    return model


def our_logits(model: str, ids: torch.Tensor, *arguments: str) -> torch.Tensor:
    with tempfile.TemporaryDirectory() as work:
        save_file({"input_ids": ids}, f"{work}/in.safetensors")
        easydel("forward", model, "--input", f"{work}/in.safetensors", "--output", f"{work}/out.safetensors", *arguments)
        return load_file(f"{work}/out.safetensors")["logits"].clone()


def dense_twin(dense, files: dict[str, torch.Tensor], transposed: bool = False):
    """The dense model with the weights that bitsandbytes says the codes stand for; gpt2's are [in, out] when dense."""
    state = {}
    for name, weight in dense.state_dict().items():
        stored = files.get(name)
        packed = True
        if f"{name}.absmax" in files:
            parts = {k.removeprefix(name + "."): v for k, v in files.items() if k.startswith(name + ".")}
            weight = F.dequantize_4bit(stored, F.QuantState.from_dict(parts, "cpu")).float()
        elif (scales := files.get(name.removesuffix("weight") + "SCB")) is not None:
            weight = stored.float() * scales[:, None] / 127
        else:
            packed, weight = False, weight if stored is None else stored
        state[name] = weight.T if packed and transposed else weight
    dense.load_state_dict(state)
    return dense


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


class Quantize(unittest.TestCase):
    ids = torch.arange(20).remainder(96).view(2, 10)

    def test_codes_are_those_of_bitsandbytes_and_transformers_loads_them(self):
        for family, name in (("llama", "nf4"), ("llama", "8bit"), ("phi3", "nested")):
            for arguments, settings in (METHODS[name],):
                with self.subTest(family=family, method=name), tempfile.TemporaryDirectory() as work:
                    dense = make_dense(family, f"{work}/dense")
                    report = json.loads(easydel("quantize", f"{work}/dense", f"{work}/packed", *arguments, "--json"))
                    self.assertLess(report["bytes_after"], report["bytes_before"])
                    ours = load_file(f"{work}/packed/model.safetensors")
                    packed = [k for k in ours if k.endswith(("absmax", "SCB")) and "nested" not in k]
                    self.assertEqual(len(packed), len(report["layers"]))
                    for scale in packed:
                        layer = scale.removesuffix(".weight.absmax").removesuffix(".SCB")
                        weight = dense.state_dict()[f"{layer}.weight"]
                        if name == "8bit":
                            codes, scales, _ = F.int8_vectorwise_quant(weight.clone())
                        else:
                            codes, state = F.quantize_4bit(
                                weight, quant_type="nf4", compress_statistics=name == "nested"
                            )
                            scales = state.absmax
                        self.assertTrue(torch.equal(ours[f"{layer}.weight"], codes), layer)
                        self.assertTrue(torch.equal(ours[scale], scales), layer)
                    theirs = AutoModelForCausalLM.from_pretrained(f"{work}/packed", device_map="cpu")
                    with torch.no_grad():
                        expected = theirs(self.ids).logits.float()
                        exact = dense_twin(dense, ours)(self.ids).logits
                    # Their int8 layers round the inputs too, and their 4-bit ones compute in bfloat16 where they can.
                    self.assertLess(far(expected, exact), 0.05)
                    if name != "8bit":  # which they make from float16
                        own = AutoModelForCausalLM.from_pretrained(
                            f"{work}/dense", quantization_config=BitsAndBytesConfig(**settings), device_map="cpu"
                        )
                        with torch.no_grad():
                            self.assertTrue(torch.equal(own(self.ids).logits, theirs(self.ids).logits))
                    self.assertLess(far(our_logits(f"{work}/packed", self.ids), exact), 1e-4)

    def test_what_transformers_saved_is_read(self):
        for family in SIZES:
            for name, (_, settings) in METHODS.items():
                with self.subTest(family=family, method=name), tempfile.TemporaryDirectory() as work:
                    dense = make_dense(family, f"{work}/dense")
                    theirs = AutoModelForCausalLM.from_pretrained(
                        f"{work}/dense", quantization_config=BitsAndBytesConfig(**settings), device_map="cpu"
                    )
                    theirs.save_pretrained(f"{work}/theirs")
                    files = load_file(f"{work}/theirs/model.safetensors")
                    with torch.no_grad():
                        exact = dense_twin(dense, files, transposed=family == "gpt2")(self.ids).logits
                    self.assertLess(far(our_logits(f"{work}/theirs", self.ids), exact), 1e-4)
                    if family == "phi3":
                        continue
                    mesh = our_logits(f"{work}/theirs", self.ids, "--devices", "4", "--mesh", "1,2,1,2,1")
                    self.assertLess(far(mesh, exact), 1e-4)

    def test_every_method_is_written_and_read_again(self):
        with tempfile.TemporaryDirectory() as work:
            make_dense("llama", f"{work}/dense", tied=True)
            for method in ("8bit", "nf4", "int4", "a8q"):
                for target in ("kernel", "kernel,embedding"):
                    with self.subTest(method=method, target=target):
                        out = f"{work}/{method}"
                        text = easydel("quantize", f"{work}/dense", out, "--method", method, "--target", target, "--overwrite")
                        self.assertIn("model.layers.0.self_attn.q_proj", text)
                        again = our_logits(out, self.ids)
                        self.assertLess(far(again, our_logits(f"{work}/dense", self.ids)), 0.6)
                        if target == "kernel":
                            straight = our_logits(f"{work}/dense", self.ids, "--quantize", method)
                            self.assertTrue(torch.equal(straight, again))

    def test_mistakes_are_named(self):
        with tempfile.TemporaryDirectory() as work:
            make_dense("llama", f"{work}/dense")
            out = f"{work}/out"
            message = easydel("quantize", f"{work}/dense", out, "--method", "nf5", status=1)
            self.assertIn('unknown method "nf5"; known: 8bit, nf4, int4, a8bit, a8q, a4q, fp8, mxfp4, uint4.', message)
            message = easydel("quantize", f"{work}/dense", out, "--group-size", "128", status=1)
            self.assertIn("must divide the 64 columns of the matrix; got 128.", message)
            message = easydel("quantize", f"{work}/dense", out, "--method", "a8bit", status=2)
            self.assertIn("--method a8bit needs calibration text. Give it with --calibrate FILE.", message)
            message = easydel("quantize", f"{work}/dense", f"{work}/out.gguf", status=2)
            self.assertIn(f"an output file that ends in .gguf needs --format gguf; got {work}/out.gguf.", message)
            self.assertFalse(pathlib.Path(out).exists())
            easydel("quantize", f"{work}/dense", out)
            before = pathlib.Path(out, "model.safetensors").read_bytes()
            message = easydel("quantize", f"{work}/dense", out, "--method", "8bit", status=2)
            self.assertIn(f"{out} already exists. Choose another directory, or pass --overwrite.", message)
            self.assertEqual(pathlib.Path(out, "model.safetensors").read_bytes(), before)
            message = easydel("quantize", out, f"{work}/again", status=1)
            self.assertIn(f"{out} is already quantized. Quantize the original model, or a dense copy that easydel convert {out} "
                          "OUT --dtype bf16 writes.", message)  # fmt: skip

    def test_broken_files_are_refused(self):
        with tempfile.TemporaryDirectory() as work:
            make_dense("llama", f"{work}/dense")
            easydel("quantize", f"{work}/dense", f"{work}/packed", "--double-quant")
            files = load_file(f"{work}/packed/model.safetensors")
            layer = "model.layers.1.mlp.up_proj.weight"
            state = f"{layer}.quant_state.bitsandbytes__nf4"
            cases = {
                "no state": ({state: None}, "has scales but no"),
                "no JSON": ({state: torch.full((40,), 200, dtype=torch.uint8)}, ""),
                "another block": ({state: torch.tensor(list(b'{"blocksize": 128}'), dtype=torch.uint8)}, "blocksize"),
                "no offset": ({state: torch.tensor(list(b'{"blocksize": 64}'), dtype=torch.uint8)}, "nested_offset"),
                "short codes": ({layer: files[layer][:-1].clone()}, "with mismatched shapes"),
                "no nested scales": ({f"{layer}.nested_absmax": None}, "missing"),
            }
            for name, (changes, message) in cases.items():
                with self.subTest(name):
                    broken = {k: v for k, v in (files | changes).items() if v is not None}
                    save_file(broken, f"{work}/packed/model.safetensors")
                    save_file({"input_ids": self.ids}, f"{work}/in.safetensors")
                    said = easydel(
                        "forward", f"{work}/packed", "--input", f"{work}/in.safetensors", "--output",
                        f"{work}/out.safetensors", status=1,
                    )  # fmt: skip
                    self.assertIn(message, said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
