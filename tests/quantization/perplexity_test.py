"""How much perplexity on held-out text rises when the demo's model is quantized: at most 1 % with 8 bits and 5 % with 4, of
which GPTQ and AWQ lose at most 2 %, and no more than the packages hqq and compressed-tensors with the same groups.
usage: perplexity_test.py EASYDEL"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "reference"))

EASYDEL = sys.argv[1]
BOOK = pathlib.Path(__file__).parents[2] / "examples" / "demo" / "pride_and_prejudice.txt"
STEPS = os.environ.get("EASYDEL_DEMO_STEPS", "200")  # the demo makes 1000
MOST = {"8bit": 0.01, "a8bit": 0.01, "a8q": 0.01, "nf4": 0.05, "int4": 0.05, "a4q": 0.05}
GROUP = 64  # columns with one scale, where files have groups


def easydel(*arguments) -> dict:
    done = subprocess.run([EASYDEL, *map(str, arguments), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


class Perplexity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.demo = easydel(
            "demo", "--corpus", BOOK, "--output", cls.work / "demo", "--steps", STEPS, "--mesh", "1,1,1,1,1"
        )
        # What the demo learns from and what it holds out.
        learned, held_out = BOOK.read_text().split("\nChapter 58\n")
        (cls.work / "learned.txt").write_text(learned[-60000:])
        (cls.work / "held_out.txt").write_text(held_out)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_model_has_learnt(self):
        self.assertLess(self.demo["bits_per_byte"], 0.8 * self.demo["gzip_bits_per_byte"])

    def test_each_method_stays_within_its_limit(self):
        before = set()
        for method, most in MOST.items():
            with self.subTest(method):
                calibration = ["--calibrate", self.work / "learned.txt"] if method in ("a8bit", "a4q") else []
                report = easydel("quantize", self.demo["checkpoint"], self.work / method, "--method", method,
                                 "--text", self.work / "held_out.txt", *calibration)
                before.add(report["perplexity_before"])
                rise = report["perplexity_after"] / report["perplexity_before"] - 1
                print(f"{method}: {report['perplexity_before']:.3f} to {report['perplexity_after']:.3f}, {rise:+.3%}")
                self.assertLess(rise, most)
                self.assertNotEqual(rise, 0)  # something was rounded
                self.assertLess(report["bytes_after"], report["bytes_before"])
        self.assertEqual(len(before), 1)

    def by_package(self, name: str) -> pathlib.Path:
        """The same matrices rounded by a package's own quantizer, as a dense checkpoint."""
        import packed_formats
        from safetensors.torch import load_file, save_file

        def rounded(weight):
            if name == "hqq":
                return packed_formats.hqq(weight, 4, GROUP, 1)[1]
            return packed_formats.compressed(weight, "pack-quantized", num_bits=4, type="int", strategy="group", group_size=GROUP,
                                             symmetric=True)[1]  # fmt: skip

        checkpoint, twin = pathlib.Path(self.demo["checkpoint"]), self.work / f"by-{name}"
        shutil.copytree(checkpoint, twin)
        state = load_file(checkpoint / "model.safetensors")
        for key, weight in state.items():
            if key.endswith("proj.weight"):
                state[key] = rounded(weight.float()).to(weight.dtype).contiguous()
        save_file(state, twin / "model.safetensors", metadata={"format": "pt"})
        return twin

    def test_gptq_and_awq_lose_little_and_no_more_than_others(self):
        held_out, calibration = ["--text", self.work / "held_out.txt"], ["--calibrate", self.work / "learned.txt"]
        after = {}
        for name in ("gptq", "awq"):
            report = easydel("quantize", self.demo["checkpoint"], self.work / f"written-{name}", "--format", name,
                             "--group-size", GROUP, *held_out, *calibration)
            before, after[name] = report["perplexity_before"], report["perplexity_after"]
        peers = {name: easydel("eval", self.by_package(name), *held_out)["perplexity"] for name in ("hqq", "compressed-tensors")}
        print(f"4 bits in groups of {GROUP}, from {before:.4f}: " +
              ", ".join(f"{name} {value:.4f} ({value / before - 1:+.3%})" for name, value in (after | peers).items()))
        for name, value in after.items():
            self.assertLess(value, 1.02 * before, name)
            # All of them lose so little that a part in a thousand is chance.
            self.assertLess(value, 1.001 * min(peers.values()), name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
