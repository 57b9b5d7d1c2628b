"""easydel inspect and easydel convert, as a user would run them. usage: checkpoints_test.py EASYDEL"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start
import gguf
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

EASYDEL = sys.argv.pop()
STATE = {
    "model.embed.weight": torch.arange(64, dtype=torch.float32).reshape(8, 8),
    "model.ids": torch.arange(3),
    "bad\x1b[2Jname": torch.zeros((), dtype=torch.bfloat16),
}


def run(*args) -> subprocess.CompletedProcess:
    return warm_start.run([EASYDEL, *map(str, args)], text=True, timeout=120)


class Checkpoints(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.model = self.directory / "model"
        self.model.mkdir()
        save_file(STATE, self.model / "model.safetensors", metadata={"format": "pt"})
        (self.model / "config.json").write_text('{"model_type": "llama", "dtype": "float32"}')

    def test_inspect_prints_an_aligned_table_with_totals(self):
        done = run("inspect", self.model)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(
            done.stdout,
            "tensor              dtype  shape   bytes\n"
            "model.ids           I64    [3]     24\n"
            "model.embed.weight  F32    [8, 8]  256\n"
            '"bad\\u001b[2Jname"  BF16   []      2\n'
            "3 tensors, 68 elements, 282 bytes (BF16 2 B, F32 256 B, I64 24 B) in 1 file\n",
        )

    def test_inspect_prints_json(self):
        report = json.loads(run("inspect", self.model / "model.safetensors", "--json").stdout)
        self.assertEqual({t["name"]: (t["dtype"], t["shape"], t["bytes"], t["file"]) for t in report["tensors"]},
                         {"model.embed.weight": ("F32", [8, 8], 256, "model.safetensors"),
                          "model.ids": ("I64", [3], 24, "model.safetensors"),
                          "bad\x1b[2Jname": ("BF16", [], 2, "model.safetensors")})  # fmt: skip
        self.assertEqual(report["total"], {"files": 1, "tensors": 3, "elements": 68, "bytes": 282})

    def test_inspect_says_what_is_wrong(self):
        broken = self.directory / "broken.safetensors"
        broken.write_bytes((self.model / "model.safetensors").read_bytes()[:-1])
        done = run("inspect", broken)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("The file is truncated or damaged.", done.stderr)
        done = run("inspect", self.directory / "none")
        self.assertEqual((done.returncode, done.stderr), (1, f"easydel: [{self.directory}/none] does not exist.\n"))
        self.assertEqual(run("inspect").returncode, 2)

    def test_convert_casts_splits_and_takes_the_config_along(self):
        target = self.directory / "target"
        done = run("convert", self.model, target, "--dtype", "bf16", "--max-shard-size", "100B")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"^wrote .* in 3 files to {target}\n$")
        index = json.loads((target / "model.safetensors.index.json").read_text())
        state = {}
        for name in set(index["weight_map"].values()):
            state |= load_file(target / name)
        self.assertTrue(torch.equal(state["model.embed.weight"], STATE["model.embed.weight"].bfloat16()))
        self.assertTrue(torch.equal(state["model.ids"], STATE["model.ids"]))
        self.assertEqual(json.loads((target / "config.json").read_text())["dtype"], "bfloat16")

    def test_torch_files_become_safetensors_with_tied_tensors_once(self):
        source = self.directory / "source"
        source.mkdir()
        embed = torch.randn(8, 8)
        state = {"embed": embed, "turned": torch.randn(4, 6).t(), "lm_head": embed}
        torch.save(state, source / "pytorch_model.bin")
        done = run("inspect", source)
        self.assertEqual(
            done.stdout,
            "tensor   dtype    shape   bytes\n"
            "embed    float32  [8, 8]  256\n"
            "turned   float32  [6, 4]  96\n"
            "lm_head  float32  [8, 8]  as embed\n"
            "3 tensors, 88 elements, 352 bytes (float32 352 B) in 1 file\n",
        )
        done = run("convert", source, self.directory / "target")
        self.assertEqual(done.returncode, 0, done.stderr)
        with safe_open(self.directory / "target" / "model.safetensors", "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt", "lm_head": "embed"})
            self.assertEqual(sorted(file.keys()), ["embed", "turned"])
            self.assertTrue(all(torch.equal(file.get_tensor(name), state[name]) for name in file.keys()))

    def test_gguf_files_become_safetensors(self):
        values = np.linspace(-3, 3, 256, dtype=np.float32).reshape(4, 64)
        writer = gguf.GGUFWriter(self.directory / "model.gguf", "llama")
        writer.add_tensor("plain", values.astype(np.float16))
        packed = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.assertIn("packed  Q8_0   [4, 64]  272\n", run("inspect", self.directory / "model.gguf").stdout)
        done = run("convert", self.directory / "model.gguf", self.directory / "out.safetensors", "--dtype", "fp32")
        self.assertEqual(done.returncode, 0, done.stderr)
        state = load_file(self.directory / "out.safetensors")
        self.assertTrue(torch.equal(state["plain"], torch.from_numpy(values).half().float()))
        expected = gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
        self.assertTrue(torch.equal(state["packed"], torch.from_numpy(expected)))

    def test_convert_refuses_nonsense_as_a_usage_error(self):
        for arguments in (["--dtype", "bf17"], ["--dtype", "int8"], ["--max-shard-size", "much"], ["--max-shard-size", "0"]):
            done = run("convert", self.model, self.directory / "target", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("Try: easydel convert --help", done.stderr)
        done = run("convert", self.model, self.directory / "target", "--max-shard-size", "2")
        self.assertIn('a size must be a number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 5GB; got "2".', done.stderr)
        self.assertEqual(run("convert", self.model, self.model).returncode, 2)
        self.assertFalse((self.directory / "target").exists())

    def test_convert_leaves_what_is_there_alone(self):
        target = self.directory / "target"
        target.mkdir()
        (target / "notes.txt").write_text("mine")
        done = run("convert", self.model, target)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"[convert] {target} already exists. Choose another path, or pass --overwrite.", done.stderr)
        self.assertEqual([path.name for path in target.iterdir()], ["notes.txt"])
        self.assertEqual(run("convert", self.model, target, "--overwrite").returncode, 0)
        done = run("convert", self.model, self.directory / "out.gguf")
        self.assertEqual(done.returncode, 2)
        self.assertIn(".gguf files cannot be written", done.stderr)
        self.assertFalse((self.directory / "out.gguf").exists())

    def convert_packed(self, state: dict, quantization: dict, *arguments):
        save_file(state, self.model / "model.safetensors")
        config = {"model_type": "llama", "dtype": "bfloat16", "quantization_config": quantization}
        (self.model / "config.json").write_text(json.dumps(config))
        done = run("convert", self.model, self.directory / "dense", "--overwrite", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return load_file(self.directory / "dense/model.safetensors"), json.loads((self.directory / "dense/config.json").read_text())

    def test_fp8_becomes_dense_with_its_scales(self):
        torch.manual_seed(0)
        codes = torch.randn(200, 300).to(torch.float8_e4m3fn)
        kept = torch.randn(4)
        for scales, expand, settings in (
            (torch.rand(2, 3), lambda s: s.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300], {}),
            (torch.rand(4, 5), lambda s: s.repeat_interleave(64, 0)[:200].repeat_interleave(64, 1)[:, :300],
             {"weight_block_size": [64, 64]}),
            (torch.rand(200, 1), lambda s: s, {}),
            (torch.rand(1), lambda s: s, {}),
        ):  # fmt: skip
            name = "weight_scale_inv" if scales.numel() > 1 else "weight_scale"
            dense, config = self.convert_packed(
                {"a.weight": codes, f"a.{name}": scales, "a.input_scale": torch.ones(1), "norm.weight": kept},
                {"quant_method": "fp8"} | settings, "--dtype", "bf16")
            self.assertEqual(sorted(dense), ["a.weight", "norm.weight"])
            self.assertTrue(torch.equal(dense["a.weight"], (codes.float() * expand(scales)).bfloat16()))
            self.assertTrue(torch.equal(dense["norm.weight"], kept.bfloat16()))
            self.assertEqual(config, {"model_type": "llama", "dtype": "bfloat16"})

    def test_mxfp4_becomes_dense_as_in_transformers(self):
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        torch.manual_seed(0)
        blocks = torch.randint(0, 256, (3, 8, 2, 16), dtype=torch.uint8)
        scales = torch.randint(100, 140, (3, 8, 2), dtype=torch.uint8)
        dense, _ = self.convert_packed({"e.gate_up_proj_blocks": blocks, "e.gate_up_proj_scales": scales},
                                       {"quant_method": "mxfp4"}, "--dtype", "fp32")  # fmt: skip
        expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
        self.assertEqual(list(dense), ["e.gate_up_proj"])
        self.assertTrue(torch.equal(dense["e.gate_up_proj"], expected))

    def test_bitsandbytes_becomes_dense(self):
        from bitsandbytes.functional import quantize_4bit

        torch.manual_seed(0)
        weight = torch.randn(96, 64)
        for kind, nested in (("nf4", False), ("fp4", False), ("nf4", True)):
            codes, state = quantize_4bit(weight, blocksize=64, quant_type=kind, compress_statistics=nested)
            table = state.code
            absmax = state.absmax
            if nested:
                inner = state.state2
                absmax = inner.code[absmax.long()] * inner.absmax.repeat_interleave(inner.blocksize)[:absmax.numel()] + state.offset
            nibbles = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
            expected = (table[nibbles] * absmax.repeat_interleave(64)).view(96, 64)
            self.assertLess((expected - weight).abs().max(), 1.0)
            packed = {f"a.weight.{key}" if key else "a.weight": value for key, value in
                      ({"": codes} | state.as_dict(packed=True)).items()}  # fmt: skip
            dense, config = self.convert_packed(packed, {"quant_method": "bitsandbytes"}, "--dtype", "fp32")
            self.assertEqual(list(dense), ["a.weight"])
            self.assertTrue(torch.allclose(dense["a.weight"], expected, rtol=1e-6, atol=0), kind)
            kept, config = self.convert_packed(packed, {"quant_method": "bitsandbytes"})
            self.assertEqual({name: t.dtype for name, t in kept.items()}, {name: t.dtype for name, t in packed.items()})
            self.assertIn("quantization_config", config)
        codes = torch.randint(-127, 128, (8, 16), dtype=torch.int8)
        scales = torch.rand(8)
        dense, _ = self.convert_packed({"a.weight": codes, "a.SCB": scales, "a.weight_format": torch.tensor(0)},
                                       {"quant_method": "bitsandbytes"}, "--dtype", "fp32")  # fmt: skip
        self.assertEqual(list(dense), ["a.weight"])
        self.assertTrue(torch.allclose(dense["a.weight"], codes * scales[:, None] / 127, rtol=1e-6))

    def test_other_packed_weights_are_refused_by_name(self):
        save_file({"a.qweight": torch.zeros(4, 4, dtype=torch.int32), "a.scales": torch.zeros(4)}, self.model / "model.safetensors")
        for config, message in (
            ({"quantization_config": {"quant_method": "aqlm"}},
             'the weights are quantized as "aqlm"; supported: awq, bitsandbytes, compressed-tensors, fbgemm_fp8, fp8, gptq, hqq, '
             "mxfp4, torchao, easydel."),
            ({}, '"a.qweight" belongs to a packed weight, but no quantization_config says of which format. Put the model\'s '
             "config.json next to the file."),
            ({"quantization_config": {"quant_method": "gptq"}},
             '"a.qzeros" is missing, which other tensors of the same layer need.'),
        ):  # fmt: skip
            (self.model / "config.json").write_text(json.dumps(config))
            done = run("convert", self.model, self.directory / "dense", "--dtype", "bf16")
            self.assertEqual((done.returncode, done.stderr), (1, f"easydel: [{self.model}/model.safetensors] {message}\n"))
            self.assertFalse((self.directory / "dense").exists())


if __name__ == "__main__":
    unittest.main()
