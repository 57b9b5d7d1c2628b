"""Files in the formats that people publish, beside transformers with the weights that the codes stand for.
usage: formats_test.py EASYDEL"""

import json
import logging
import os
import pathlib
import resource
import shutil
import subprocess
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

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import packed_formats as formats

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

EASYDEL = sys.argv.pop(1)
SHAPE = dict(vocab_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             initializer_range=0.1, hidden_size=128, intermediate_size=320, pad_token_id=0)
FAMILIES = {
    "llama": SHAPE,
    "phi3": SHAPE | {"intermediate_size": 256},
    "mixtral": SHAPE | {"intermediate_size": 256, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss": SHAPE | {"intermediate_size": 128, "head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v3": SHAPE | dict(
        hidden_size=256, intermediate_size=384, num_key_value_heads=4, q_lora_rank=96, kv_lora_rank=128,
        qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
        topk_group=1, moe_intermediate_size=128, first_k_dense_replace=1, n_shared_experts=1),
}  # fmt: skip


def compressed(layout, targets=("Linear",), **weights):
    return {"quant_method": "compressed-tensors", "format": layout, "ignore": ["lm_head"], "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": list(targets), "weights": weights, "input_activations": None}}}  # fmt: skip


def ct(layout, **weights):
    return compressed(layout, **weights), lambda name, w: formats.compressed(w, layout, **weights)


def int8_and_int4():
    """Attention in 8 bits, and the rest in 4."""
    eight = dict(num_bits=8, type="int", strategy="channel", symmetric=True)
    four = dict(num_bits=4, type="int", strategy="group", group_size=64, symmetric=True)
    config = compressed("mixed-precision", **four)
    config["config_groups"] = {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": eight, "format": "int-quantized"},
        "group_1": {"targets": ["Linear"], "weights": four, "format": "pack-quantized"},
    }
    return config, lambda name, w: (formats.compressed(w, "int-quantized", **eight) if "self_attn" in name
                                    else formats.compressed(w, "pack-quantized", **four))  # fmt: skip


def gptq(**s):
    config = {"quant_method": "gptq", "bits": s.get("bits", 4), "group_size": s.get("group", 32), "sym": s.get("symmetric", True),
              "desc_act": s.get("desc_act", False), "checkpoint_format": "gptq_v2" if s.get("version") == 2 else "gptq"}  # fmt: skip
    return config, lambda name, w: formats.gptq(w, **s)


def fp8(block, **s):
    return {"quant_method": "fp8", "activation_scheme": "dynamic"} | ({"weight_block_size": list(block)} if block[0] else {}), \
        lambda name, w: formats.fp8(w, {(0, 0): tuple(w.shape), (0, 1): (1, w.shape[1])}.get(block, block), **s)  # fmt: skip


def ao(kind):
    return {"quant_method": "torchao"}, lambda name, w: formats.torchao(w, kind)


INT4 = dict(num_bits=4, type="int", strategy="group", group_size=64)
# What is in the files, and whether the weights stay packed.
CASES = {
    "fp8 blocks": (*fp8((128, 128)), True),
    "fp8 small blocks": (*fp8((64, 32)), True),
    "fp8 rows": (*fp8((0, 1), suffix="weight_scale"), True),
    "fp8 tensors": (*fp8((0, 0), suffix="weight_scale"), True),
    "fp8 e5m2": (*fp8((0, 0), dtype=torch.float8_e5m2), False),
    "gptq": (*gptq(group=64), True),
    "gptq rows": (*gptq(group=-1, symmetric=False), True),
    "gptq asymmetric": (*gptq(symmetric=False), True),
    "gptq asymmetric v2": (*gptq(symmetric=False, version=2), True),
    "gptq by activations": (*gptq(desc_act=True), False),
    "gptq 2 bits": (*gptq(bits=2, symmetric=False), False),
    "gptq 3 bits": (*gptq(bits=3, desc_act=True, version=2), False),
    "gptq 8 bits": (*gptq(bits=8), False),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
            lambda name, w: formats.awq(w, 64), True),
    "int4": (*ct("pack-quantized", **INT4, symmetric=True), True),
    "int4 asymmetric": (*ct("pack-quantized", **INT4, symmetric=False), True),
    "int3 rows": (*ct("pack-quantized", num_bits=3, type="int", strategy="channel", symmetric=True), False),
    "int8": (*ct("int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True), True),
    "int8 tensors": (*ct("int-quantized", num_bits=8, type="int", strategy="tensor", symmetric=False), False),
    "float": (*ct("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True), True),
    "nvfp4": (*ct("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True), False),
    "mxfp4 of layers": (*ct("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32, symmetric=True), True),
    "mixed": (*int8_and_int4(), True),
    "hqq": ({"quant_method": "hqq", "skip_modules": ["lm_head"]}, lambda name, w: formats.hqq(w, 4, 64, 1), False),
    "hqq 3 bits": ({"quant_method": "hqq", "skip_modules": ["lm_head"]}, lambda name, w: formats.hqq(w, 3, 32, 0), False),
    "torchao int8": (*ao("int8"), False),
    "torchao fp8 rows": (*ao("rows"), True),
    "torchao fp8 blocks": (*ao("blocks"), True),
    "torchao fp8 tensors": (*ao("tensor"), True),
}  # fmt: skip


def run(*arguments, status: int = 0) -> str:
    done = warm_start.run([EASYDEL, *map(str, arguments)], text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


class Formats(unittest.TestCase):
    ids = torch.arange(40).remainder(95).add(1).view(2, 20)

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def dense(self, family: str) -> pathlib.Path:
        path = self.directory / f"dense-{family}"
        if not path.exists():
            torch.manual_seed(1)
            AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **FAMILIES[family])).save_pretrained(path)
        return path

    def make(self, family: str, config: dict, pack) -> tuple[pathlib.Path, pathlib.Path]:
        """The packed files, and dense ones with the weights that they stand for."""
        dense = self.dense(family)
        packed, twin = self.directory / "packed", self.directory / "twin"
        for path in (packed, twin):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(dense, path)
        state = load_file(dense / "model.safetensors")
        files = {}
        for name, weight in list(state.items()):
            is_linear = name.endswith("proj.weight") or ".experts." in name and name.endswith(".weight")
            if name.endswith(("gate_up_proj", "down_proj")) and config["quant_method"] == "mxfp4":
                tensors, values = pack(name, weight)
                files |= {name + suffix: tensor for suffix, tensor in tensors.items()}
            elif is_linear and "mxfp4" != config["quant_method"]:
                tensors, values = pack(name, weight)
                files |= {name.removesuffix("weight") + suffix: tensor for suffix, tensor in tensors.items()}
            else:
                files[name], values = weight, weight
            state[name] = values.contiguous()
        save_file(files, packed / "model.safetensors", metadata={"format": "pt"})
        save_file(state, twin / "model.safetensors", metadata={"format": "pt"})
        settings = json.loads((packed / "config.json").read_text())
        (packed / "config.json").write_text(json.dumps(settings | {"quantization_config": config}))
        return packed, twin

    def expected(self, twin: pathlib.Path) -> torch.Tensor:
        model = AutoModelForCausalLM.from_pretrained(twin, dtype=torch.float32).eval()
        with torch.no_grad():
            return model(self.ids).logits

    def logits(self, model, *arguments) -> torch.Tensor:
        save_file({"input_ids": self.ids}, self.directory / "in.safetensors")
        out = self.directory / "out.safetensors"
        run("forward", model, "--input", self.directory / "in.safetensors", "--output", out, *arguments)
        return load_file(out)["logits"].clone()

    def inspect(self, path) -> int:
        return sum(t.numel() * t.element_size() for t in load_file(path / "model.safetensors").values())

    def test_logits_are_those_of_the_weights_that_codes_stand_for(self):
        for name, (config, pack, _) in CASES.items():
            with self.subTest(name):
                packed, twin = self.make("llama", config, pack)
                self.assertLess(far(self.logits(packed), self.expected(twin)), 1e-5)

    def test_fused_and_separate_experts_too(self):
        for family, name in (("phi3", "awq"), ("mixtral", "gptq"), ("mixtral", "int8"), ("mixtral", "nvfp4")):
            with self.subTest(family=family, format=name):
                packed, twin = self.make(family, *CASES[name][:2])
                expected = self.expected(twin)
                self.assertLess(far(self.logits(packed), expected), 1e-5)
                if family == "mixtral":
                    self.assertLess(far(self.logits(packed, "--devices", 4, "--mesh", "1,1,2,2,1"), expected), 1e-5)

    def test_deepseek_in_fp8_and_gpt_oss_in_mxfp4_on_any_mesh(self):
        mxfp4 = ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
                 lambda name, w: formats.mxfp4(w))  # fmt: skip
        for family, (config, pack) in {"deepseek_v3": CASES["fp8 blocks"][:2], "gpt_oss": mxfp4}.items():
            with self.subTest(family):
                packed, twin = self.make(family, config, pack)
                expected = self.expected(twin)
                self.assertLess(far(self.logits(packed), expected), 1e-5)
                self.assertLess(far(self.logits(packed, "--devices", 4, "--mesh", "1,1,2,2,1"), expected), 1e-5)
                self.assertLess(far(self.logits(packed, "--devices", 4, "--mesh", "1,4,1,1,1"), expected), 1e-5)

    def test_convert_makes_them_dense_for_transformers(self):
        for name, (config, pack, _) in CASES.items():
            with self.subTest(name):
                packed, twin = self.make("llama", config, pack)
                dense = self.directory / "converted"
                run("convert", packed, dense, "--dtype", "bf16", "--overwrite")
                self.assertNotIn("quantization_config", json.loads((dense / "config.json").read_text()))
                ours, exact = load_file(dense / "model.safetensors"), load_file(twin / "model.safetensors")
                self.assertEqual(sorted(ours), sorted(exact))
                for key, tensor in exact.items():
                    # Half an ulp of bfloat16, as a product may be rounded on its way to float32.
                    torch.testing.assert_close(ours[key].float(), tensor, rtol=2**-8, atol=1e-9, msg=key)

    def test_they_are_trained_on_with_adapters_and_generate(self):
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from tokenizers.pre_tokenizers import WhitespaceSplit

        rows = self.directory / "rows.jsonl"
        rows.write_text("".join(json.dumps({"text": " ".join(f"w{3 + (5 * i + j) % 50}" for j in range(12))}) + "\n" for i in range(8)))
        for name in ("gptq", "awq", "fp8 blocks", "nvfp4"):
            with self.subTest(name):
                packed, _ = self.make("llama", *CASES[name][:2])
                words = Tokenizer(WordLevel({f"w{i}": i for i in range(96)}, unk_token="w3"))
                words.pre_tokenizer = WhitespaceSplit()
                words.save(str(packed / "tokenizer.json"))
                (packed / "tokenizer_config.json").write_text(json.dumps({"eos_token": "w2"}))
                output = self.directory / "run"
                shutil.rmtree(output, ignore_errors=True)
                run("train", packed, "--data", rows, "--lora-rank", 4, "--steps", 8, "--batch", 4, "--length", 12,
                    "--learning-rate", 0.02, "--output", output, "--set", "log_steps=1", "--json")  # fmt: skip
                losses = [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()
                          if "loss" in json.loads(line)]  # fmt: skip
                self.assertLess(losses[-1], losses[0])
                answer = json.loads(run("generate", packed, "--prompt", "w5 w6", "--max-new-tokens", 4, "--json"))
                self.assertTrue(answer)

    def test_what_is_not_supported_is_refused_by_name(self):
        packed, _ = self.make("llama", *CASES["gptq asymmetric"][:2])
        base = json.loads((packed / "config.json").read_text())
        for change, message in (
            ({"quant_method": "aqlm"}, 'the weights are quantized as "aqlm"; supported: awq, bitsandbytes, compressed-tensors,'),
            ({"bits": 5}, "quantization_config.bits of gptq must be 2, 3, 4 or 8; got 5."),
            ({"checkpoint_format": "marlin"}, 'quantization_config.checkpoint_format must be gptq or gptq_v2; got "marlin".'),
            ({"quant_method": "awq", "version": "gemv"}, 'quantization_config.version of awq must be gemm; got "gemv".'),
            ({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 2, "type": "float"}}},
              "format": "marlin-24"}, 'has the format "marlin-24" with 2-bit float weights; supported: int-quantized,'),
            ({"group_size": 64}, "has 10 groups for 320 inputs in groups of 64."),
        ):  # fmt: skip
            with self.subTest(message):
                quantization = base["quantization_config"] | change
                (packed / "config.json").write_text(json.dumps(base | {"quantization_config": quantization}))
                self.assertIn(message, run("forward", packed, "--input", self.directory / "in.safetensors", "--output",
                                           self.directory / "out.safetensors", status=1))  # fmt: skip

    def test_scales_that_do_not_fit_are_named(self):
        cut = {
            "gptq": ("scales", lambda t: t[:-1], "scales\" has"),
            "awq": ("qzeros", lambda t: t[:-1], "qzeros\" must be int32"),
            "fp8 small blocks": ("weight_scale_inv", lambda t: t[:, :-1], "weight_scale_inv\" has"),
            "int4": ("weight_scale", lambda t: t[:, :-1], "weight_scale\" has"),
            "hqq": ("scale", lambda t: t[:-1], "scale\" has"),
        }
        for name, (suffix, change, message) in cut.items():
            with self.subTest(name):
                packed, _ = self.make("llama", *CASES[name][:2])
                files = load_file(packed / "model.safetensors")
                layer = "model.layers.1.mlp.down_proj."
                files[layer + suffix] = change(files[layer + suffix]).contiguous()
                save_file(files, packed / "model.safetensors")
                error = run("forward", packed, "--input", self.directory / "in.safetensors", "--output",
                            self.directory / "out.safetensors", status=1)  # fmt: skip
                self.assertIn(layer + message, error)

    def test_codes_stay_packed_and_one_tensor_at_a_time_is_dense(self):
        shape = SHAPE | dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8)
        for name, settings in {"small": SHAPE, "large": shape}.items():
            folder = self.directory / f"dense-{name}"
            torch.manual_seed(1)
            AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **settings)).save_pretrained(folder)
        ids = self.directory / "one.safetensors"
        save_file({"input_ids": torch.ones(1, 1, dtype=torch.long)}, ids)

        def peak(model) -> int:
            code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
            done = subprocess.run([sys.executable, "-c", code, EASYDEL, "forward", str(model), "--input", str(ids), "--output",
                                   str(self.directory / "o.safetensors")], capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(done.stdout) * 1024

        for name in ("gptq", "fp8 blocks", "nvfp4"):
            config, pack, is_packed = CASES[name]
            small = peak(self.make("small", config, pack)[0])
            packed, twin = self.make("large", config, pack)
            result = self.inspect(packed if is_packed else twin)
            tensor = 1024 * 4096 * 4
            with self.subTest(name):
                print(f"{name}: {(peak(packed) - small) >> 20} MiB more than a small model; the result has {result >> 20} MiB")
                self.assertLess(peak(packed) - small, 1.1 * result + tensor + (8 << 20))


if __name__ == "__main__":
    unittest.main()
