"""How much perplexity on held-out text rises when the demo's model is quantized: at most 1 % with 8 bits and 5 % with 4.
usage: perplexity_test.py EASYDEL"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

EASYDEL = sys.argv[1]
BOOK = pathlib.Path(__file__).parents[2] / "examples" / "demo" / "pride_and_prejudice.txt"
STEPS = os.environ.get("EASYDEL_DEMO_STEPS", "200")  # the demo makes 1000
MOST = {"8bit": 0.01, "a8bit": 0.01, "a8q": 0.01, "nf4": 0.05, "int4": 0.05, "a4q": 0.05}


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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
