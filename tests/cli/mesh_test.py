"""The commands that take --devices and --mesh, as a user runs them. usage: mesh_test.py EASYDEL"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start
import numpy
from safetensors.numpy import load_file, save_file

EASYDEL = sys.argv.pop()
CONFIG = {"model_type": "llama", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}  # fmt: skip
SHAPES = {"self_attn.q_proj": (16, 16), "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16),
          "self_attn.o_proj": (16, 16), "mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16), "mlp.down_proj": (16, 24),
          "input_layernorm": (16,), "post_attention_layernorm": (16,)}  # fmt: skip


def run(*args) -> subprocess.CompletedProcess:
    return warm_start.run([EASYDEL, *map(str, args)], text=True, timeout=120)


class MeshCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = Path(cls.temporary.name)
        draw = numpy.random.default_rng(1)
        tensors = {f"model.layers.0.{name}.weight": shape for name, shape in SHAPES.items()}
        tensors |= {"model.embed_tokens.weight": (29, 16), "model.norm.weight": (16,), "lm_head.weight": (29, 16)}
        save_file({name: draw.normal(size=shape) for name, shape in tensors.items()}, cls.directory / "model.safetensors")
        (cls.directory / "config.json").write_text(json.dumps(CONFIG))
        ids = numpy.arange(21, dtype=numpy.int64).reshape(3, 7) * 11 % 29
        save_file({"input_ids": ids, "labels": ids}, cls.directory / "in.safetensors")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def usage_error(self, *args) -> str:
        done = run(*args)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        message, hint = done.stderr.removesuffix("\n").rsplit("\n", 1)
        self.assertEqual(hint, f"Try: easydel {args[0]} --help")
        return message

    def test_info_prints_who_stores_what(self):
        done = run("info", self.directory, "--devices", 8, "--mesh", "1,2,1,2,2", "--depth", 0)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = done.stdout.split("\n\n")[2].splitlines()
        self.assertEqual(table[0].split(), ["parameter", "shape", "rank", "0", "bytes", "spec", "rule"])
        self.assertEqual(len(table), 1 + 12)
        self.assertIn("model.embed_tokens.weight                       [29, 16]  [14, 4]  224 B  "
                      "P('tp', ('fsdp','sp'))  embed_tokens\\.weight$", table)  # fmt: skip
        for column in ("shape", "bytes", "spec", "rule"):  # the cells stand under their names
            at = table[0].index(column)
            self.assertTrue(all(line[at - 1] == " " and line[at] != " " for line in table), column)
        self.assertIn("\nmesh    dp=1 fsdp=2 ep=1 tp=2 sp=2\nstored  1.6 KiB on each of 8 ranks, of ", done.stdout)
        self.assertIn("\nmoments 3.1 KiB to 3.2 KiB on each of 8 ranks with adamw, of ", done.stdout)

    def test_info_gives_the_same_as_json(self):
        plan = json.loads(run("info", self.directory, "--devices", 8, "--mesh", "1,2,1,2,2", "--json").stdout)["sharding"]
        self.assertEqual(plan["mesh"], {"dp": 1, "fsdp": 2, "ep": 1, "tp": 2, "sp": 2})
        self.assertEqual(len(plan["rank_bytes"]), 8)
        rows = {row["path"]: row for row in plan["parameters"]}
        self.assertEqual(rows["lm_head.weight"],
                         {"path": "lm_head.weight", "rule": "lm_head\\.weight$", "spec": "P('tp', ('fsdp','sp'))",
                          "shape": [29, 16], "local_shape": [14, 4], "local_bytes": 224})  # fmt: skip
        self.assertEqual(plan["rank_bytes"][0], sum(row["local_bytes"] for row in rows.values()))
        # Over the ranks that share them, all but the norms, which every rank has whole, add up to the model.
        norms = 3 * 16 * 4
        self.assertEqual(sum(plan["rank_bytes"]) - 8 * norms, plan["bytes"] - norms)

    def test_info_fills_in_one_size_and_takes_four_axes(self):
        def mesh(text):
            return json.loads(run("info", self.directory, "--devices", 8, "--mesh", text, "--json").stdout)["sharding"]["mesh"]

        self.assertEqual(mesh("1,-1,1,2,1"), {"dp": 1, "fsdp": 4, "ep": 1, "tp": 2, "sp": 1})
        self.assertEqual(mesh("2,2,2,1"), {"dp": 2, "fsdp": 2, "ep": 1, "tp": 2, "sp": 1})

    def test_info_tells_what_zero_splits(self):
        def plan(stage, mesh):
            changes = ["--set", f"zero_stage={stage}"] if stage else []
            done = run("info", self.directory, "--devices", 4, "--mesh", mesh, *changes, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["sharding"]

        for mesh in ("4,1,1,1,1", "1,4,1,1,1"):
            one, two = plan(1, mesh), plan(2, mesh)
            self.assertEqual(one["rank_bytes"], 4 * [one["bytes"]])
            self.assertEqual(sum(one["moment_bytes"]), 2 * one["bytes"])
            self.assertEqual(two["moment_bytes"], one["moment_bytes"])
            self.assertEqual([2 * stored for stored in two["rank_bytes"]], two["moment_bytes"])
            self.assertLess(max(two["rank_bytes"]) - min(two["rank_bytes"]), 4 * 16 * 3)  # rows of a vocabulary of 29
        three, rules = plan(3, "1,4,1,1,1"), plan(None, "1,4,1,1,1")
        self.assertEqual(three, rules)
        self.assertEqual(plan(None, "4,1,1,1,1")["moment_bytes"], 4 * [2 * rules["bytes"]])

    def test_info_without_devices_says_nothing_of_a_mesh(self):
        self.assertNotIn("sharding", json.loads(run("info", self.directory, "--json").stdout))

    def test_a_mesh_that_cannot_be_is_a_usage_error_with_the_arithmetic(self):
        inputs = ["--input", self.directory / "in.safetensors", "--output", self.directory / "none.safetensors"]
        for command in (["info", self.directory], ["forward", self.directory, *inputs]):
            say = lambda *args: self.usage_error(*command, *args)  # noqa: E731
            self.assertEqual(say("--devices", 8, "--mesh", "1,4,1,3,1"),
                             "easydel: --devices 8 --mesh 1,4,1,3,1: [create_mesh] sharding_axis_dims must multiply to the "
                             "number of devices; got 1x4x1x3x1 = 12, but there are 8 devices.")  # fmt: skip
            self.assertEqual(say("--mesh", "1,-1,1,1,1"),
                             "easydel: --mesh 1,-1,1,1,1 has a -1: the number of devices is needed too, as in --devices 4.")  # fmt: skip
            self.assertEqual(say("--devices", 8, "--mesh", "1,2,4"),
                             "easydel: --devices 8 --mesh 1,2,4: [create_mesh] sharding_axis_dims and sharding_axis_names "
                             "must have the same length; got 3 (1x2x4) and 5.")  # fmt: skip
            self.assertEqual(say("--devices", 8, "--mesh", "1,-1,1,3,1"),
                             "easydel: --devices 8 --mesh 1,-1,1,3,1: [create_mesh] the -1 in sharding_axis_dims must resolve to an integer; got 1x-1x1x3x1, and 8 devices are not a multiple of 3.")  # fmt: skip
            self.assertEqual(say("--devices", 8, "--mesh", "0,8,1,1,1"),
                             "easydel: --devices 8 --mesh 0,8,1,1,1: [create_mesh] each of sharding_axis_dims must be at "
                             "least 1, or -1; got 0 in 0x8x1x1x1.")  # fmt: skip
            self.assertIn("--devices", say("--devices", 0))
            self.assertIn("--mesh", say("--devices", 8, "--mesh", "1,a,1,3,1"))
        self.assertFalse((self.directory / "none.safetensors").exists())

    def forward(self, *args):
        output = self.directory / "out.safetensors"
        done = run("forward", self.directory, "--input", self.directory / "in.safetensors", "--output", output, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, load_file(output)

    def test_forward_gives_the_same_on_a_mesh(self):
        args = ["--dtype", "float64", "--hidden-states", "--grad"]
        _, alone = self.forward(*args)
        _, on_mesh = self.forward(*args, "--devices", 4, "--mesh", "1,2,1,2,1")
        self.assertEqual(alone.keys(), on_mesh.keys())
        for name, tensor in alone.items():
            numpy.testing.assert_allclose(on_mesh[name], tensor, rtol=1e-9, atol=1e-12, err_msg=name)

    def test_what_was_saved_on_a_mesh_runs_on_one_device(self):
        _, alone = self.forward("--dtype", "float64")
        saved = self.directory / "saved"
        saved.mkdir()
        (saved / "model.safetensors").symlink_to(self.directory / "model.safetensors")
        (saved / "config.json").write_text(json.dumps({**CONFIG, "sharding_axis_dims": [1, 2, 1, 2, 1]}))
        told = f"{saved} was saved on a mesh of several devices and is now loaded on one; use --mesh to change that.\n"
        inputs = ["--input", self.directory / "in.safetensors", "--output", saved / "out.safetensors", "--dtype", "float64"]
        done = run("forward", saved, *inputs)
        self.assertEqual((done.returncode, done.stderr.count(told)), (0, 1), done.stderr)
        numpy.testing.assert_array_equal(load_file(saved / "out.safetensors")["logits"], alone["logits"])
        generate = ["--input-ids", "3,4,5", "--max-new-tokens", 4, "--json"]
        here, there = (run("generate", path, *generate) for path in (self.directory, saved))
        self.assertEqual((there.returncode, there.stderr.count(told)), (0, 1), there.stderr)
        self.assertEqual(json.loads(there.stdout), json.loads(here.stdout))
        # On the mesh itself, and where one is asked for that is not there, nothing changes.
        done = run("forward", saved, *inputs, "--devices", 4)
        self.assertEqual((done.returncode, done.stderr.count(told)), (0, 0), done.stderr)
        numpy.testing.assert_allclose(load_file(saved / "out.safetensors")["logits"], alone["logits"], rtol=1e-9)
        self.assertIn("= 4, but there are 2 devices", self.usage_error("forward", saved, *inputs, "--devices", 2))
        done = run("forward", saved, *inputs, "--set", "sharding_axis_dims=[1,2,1,2,1]")
        self.assertIn("= 4, but there is 1 device", done.stderr)

    def test_a_mesh_brings_its_devices(self):
        """On every command: --mesh alone makes as many devices as it has, and the line at the start says so."""
        said = "computing in float32 on cpu, weights stored in float32, mesh dp=1 fsdp=2 ep=1 tp=2 sp=1"
        text = self.directory / "text.jsonl"
        text.write_text('{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}\n' * 4)
        run_file = self.directory / "run.yaml"
        run_file.write_text(json.dumps({"model": {"name_or_path": str(self.directory)}, "actions": ["print"]}))
        inputs = ["--input", self.directory / "in.safetensors", "--output", self.directory / "o.safetensors"]
        for command in (["forward", self.directory, *inputs], ["generate", self.directory, "--input-ids", "3,4", "--max-new-tokens", 2]):
            done = run(*command, "--mesh", "1,2,1,2,1")
            self.assertEqual((done.returncode, done.stderr.count(said)), (0, 1), done.stderr)
            same = run(*command, "--mesh", "1,2,1,-1,1", "--devices", 4)
            self.assertEqual((same.returncode, same.stdout), (0, done.stdout), same.stderr)
        for command in (["elarge", run_file], ["train", self.directory, "--data", text]):
            self.assertEqual(self.usage_error(*command, "--mesh", "1,-1,1,1,1"),
                             "easydel: --mesh 1,-1,1,1,1 has a -1: the number of devices is needed too, as in --devices 4.")
            self.assertIn("--devices", self.usage_error(*command, "--devices", 0))

    def test_a_device_that_is_not_there_is_a_usage_error(self):
        for name, said in (("tpu", 'a device is cpu, cuda or cuda:1; got "tpu".'), ("cuda:99", '[device] cuda:99 ')):
            for command in (["generate", self.directory, "--input-ids", "3"], ["forward", self.directory, "--input", "a", "--output", "b"]):
                self.assertTrue(self.usage_error(*command, "--device", name).startswith("easydel: " + said))

    def test_forward_prints_what_was_sent(self):
        text, _ = self.forward("--devices", 4, "--mesh", "1,2,1,2,1", "--grad", "--profile")
        lines = text.splitlines()
        self.assertRegex(lines[0], r"out\.safetensors: \d+ tensors, loss \d")
        self.assertEqual(lines[1].split(), ["axes", "collective", "calls", "bytes", "sent"])
        self.assertTrue(any(line.split()[:2] == ["fsdp", "all_gather"] for line in lines))
        report = json.loads(self.forward("--devices", 4, "--mesh", "1,2,1,2,1", "--grad", "--profile", "--json")[0])
        sent = {(row["axes"], row["collective"]): row for row in report["communication"]}
        self.assertGreater(sent["tp", "all_reduce"]["bytes"], 0)
        self.assertGreater(sent["fsdp", "reduce_scatter"]["calls"], 0)
        self.assertFalse(any("tp" in axes and kind == "all_gather" for axes, kind in sent if axes != "tp"))

    def test_forward_on_one_device_sends_nothing(self):
        report = json.loads(self.forward("--profile", "--json")[0])
        self.assertEqual(report["communication"], [])


if __name__ == "__main__":
    unittest.main()
