"""SIGTERM, Ctrl-C and steps that are not finite. usage: stopped_run_test.py EASYDEL"""

import math
import re
import unittest

from safetensors.torch import save_file
from tiny_run import *


class StoppedRun(TinyRun):
    def wait_for_steps(self, output, count, process):
        metrics = self.folder / output / "metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") >= count):
            time.sleep(0.002)

    def stop(self, output, number, *arguments, steps):
        process = self.start(output, *arguments, steps=steps)
        self.wait_for_steps(output, 5, process)
        process.send_signal(number)
        return self.end(process, 128 + number)

    def stop_and_go_on(self, name, number, *arguments, steps):
        arguments = (*arguments, "--save-steps", 1000)
        self.train(f"{name}-whole", *arguments, steps=steps)
        result, log = self.stop(name, number, *arguments, steps=steps)
        self.assertEqual(result["stopped_by"], number.name)
        step = result["step"]
        self.assertTrue(5 <= step < steps, step)
        self.assertEqual(self.checkpoints(name), [step])
        self.assertEqual(result["checkpoint"], str(self.folder / name / f"run-{step}"))
        self.assertIn(f"[trainer] {number.name}: the run ends at step {step}", log)
        said = re.findall(r"^\[trainer\] (Ctrl-C|SIGTERM): finishing step (\d+), then saving; press Ctrl-C again to stop now$",
                          log, re.MULTILINE)
        self.assertEqual([name for name, _ in said], ["Ctrl-C" if number == signal.SIGINT else "SIGTERM"], log)
        self.assertIn(int(said[0][1]), (step - 1, step))
        self.assertEqual(self.train(name, *arguments, steps=steps)["stopped_by"], "steps")
        self.same_weights(f"{name}-whole", name, steps)
        self.assertEqual(self.curve(f"{name}-whole"), self.curve(name))

    def test_sigterm_saves_and_the_run_goes_on_from_there(self):
        self.stop_and_go_on("term", signal.SIGTERM, "--accumulate", 2, steps=300)

    def test_ctrl_c_does_the_same_on_a_mesh(self):
        self.stop_and_go_on("mesh", signal.SIGINT, "--mesh", "1,2,1,2,1", "--set", "async_save=false", steps=60)

    def test_a_second_signal_ends_it_at_once(self):
        for mesh in ([], ["--mesh", "2,1,1,1,1"]):
            self.remove("twice")
            process = self.start("twice", *mesh, "--packing", "--batch", 128, "--length", 128, "--accumulate", 64)
            self.wait_for_steps("twice", 1, process)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            begin = time.monotonic()
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGINT)
            self.assertLess(time.monotonic() - begin, 10)

    def test_a_signal_is_acknowledged_before_the_step_ends(self):
        process = self.start("slow", "--packing", "--batch", 128, "--length", 128, "--accumulate", 64)
        self.wait_for_steps("slow", 1, process)
        before = (self.folder / "slow" / "metrics.jsonl").read_text()
        process.send_signal(signal.SIGINT)
        line = process.stderr.readline()
        while "Ctrl-C" not in line and line:
            line = process.stderr.readline()
        self.assertRegex(line, r"^\[trainer\] Ctrl-C: finishing step \d+, then saving; press Ctrl-C again to stop now\n$")
        step = int(line.split("step ")[1].split(",")[0])
        self.assertEqual(before.count("\n") + 1, step)
        result, _ = self.end(process, 130)
        self.assertEqual((result["step"], self.checkpoints("slow")[-1]), (step, step))

    def test_a_signal_during_an_evaluation_saves_after_it(self):
        write_rows(self.folder / "long.jsonl", [{"text": text} for text in self.texts * 40])
        process = self.start("evaluating", "--eval-data", self.folder / "long.jsonl", "--eval-steps", 1, "--save-steps", 0)
        self.wait_for_steps("evaluating", 1, process)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        result, log = self.end(process, 143)
        self.assertIn("[trainer] SIGTERM: finishing the evaluation after step 1, then saving", log)
        self.assertEqual((result["step"], self.checkpoints("evaluating")), (1, [1]))
        self.assertEqual(list(self.log("evaluating")[1]), [1])

    def test_a_time_limit_saves_too(self):
        result = self.train("limit", "--set", "training_time_limit=1s", "--save-steps", 100000, steps=100000)
        self.assertEqual(result["stopped_by"], "time limit")
        self.assertEqual(self.checkpoints("limit"), [result["step"]])


class NotFinite(TinyRun):
    """The embedding of one token is infinite: steps that read it are skipped."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = [text + " §" if i in (5, 16, 17, 20, 26) else text for i, text in enumerate(cls.texts[:40])]
        write_rows(cls.folder / "marked.jsonl", [{"text": row} for row in cls.rows])
        token = cls.tokenizer("§")["input_ids"][-1]
        cls.token = token
        tensors = load_file(cls.folder / "model" / "model.safetensors")
        tensors["model.embed_tokens.weight"][token, 3] = float("inf")
        shutil.copytree(cls.folder / "model", cls.folder / "spoiled")
        save_file(tensors, cls.folder / "spoiled" / "model.safetensors", metadata={"format": "pt"})

    def test_such_steps_are_skipped_and_written_out(self):
        self.assertEqual([i for i, row in enumerate(self.rows) if self.token in self.ids(row)], [5, 16, 17, 20, 26])
        options = dict(model="spoiled", data=["marked"], steps=10)
        for name, mesh in (("skips", []), ("skips-mesh", ["--mesh", "2,1,1,2,1"])):
            result, log = self.end(self.start(name, *mesh, "--no-shuffle", "--set", "max_skipped_steps=3", **options))
            self.assertEqual((result["step"], result["stopped_by"]), (10, "steps"))
            steps, _ = self.log(name)
            self.assertEqual([step for step, row in steps.items() if row.get("skipped")], [2, 5, 6, 7])
            for step, row in steps.items():
                self.assertEqual(math.isfinite(row["loss"]), step not in (2, 5, 6, 7), row)
            files = sorted(path.name for path in (self.folder / name / "skipped").iterdir())
            ranks = range(4) if mesh else [0]
            self.assertEqual(files, [f"step-{step}-rank-{rank}.json" for step in (2, 5, 6, 7) for rank in ranks])
            batch = json.loads((self.folder / name / "skipped" / files[0]).read_text())
            self.assertFalse(math.isfinite(batch["loss"]))
            rows = [self.ids(text) for text in self.rows[4:6 if mesh else 8]]
            self.assertEqual([row["input_ids"] for row in batch["rows"]], rows)
            self.assertIn("[trainer] step 2 has a loss of ", log)
            saved = json.loads((self.folder / name / "run-10" / "trainer.json").read_text())
            self.assertEqual((saved["skipped"], saved["skipped_in_a_row"]), (4, 0))
        # A skipped step leaves the weights alone: without those rows the run learns the same.
        left = [row for i, row in enumerate(self.rows) if i // 4 + 1 not in (2, 5, 6, 7)]
        write_rows(self.folder / "left.jsonl", [{"text": row} for row in left])
        self.train("left", "--no-shuffle", model="spoiled", data=["left"], steps=6)
        names = ["skips/run-10", "left/run-6"]
        one, other = (tensor_bytes(self.folder / name / "model.safetensors") for name in names)
        self.assertEqual(one, other)

    def test_too_many_in_a_row_end_the_run(self):
        for mesh in ([], ["--mesh", "1,2,1,2,1"]):
            self.remove("ends")
            process = self.start("ends", *mesh, "--no-shuffle", "--set", "max_skipped_steps=1", model="spoiled",
                                 data=["marked"], steps=10)
            _, err = self.end(process, 1)
            self.assertRegex(err.replace(str(self.folder) + "/", ""), (
                r"easydel: (rank \d: )?\[trainer\] step 6 has a loss of -?nan and a gradient norm of -?nan. Its batch is in "
                r"ends/skipped/step-6-rank-\d.json. 2 such steps in a row: stopping \(max_skipped_steps is 1\). A "
                r"smaller learning_rate, clip_grad or warmup_steps may help.\n"))
            self.assertEqual(self.checkpoints("ends"), [2, 4])
            self.assertEqual(list(self.log("ends")[0]), [1, 2, 3, 4, 5])

    def test_float16_finds_its_scale_and_keeps_it(self):
        arguments = ["--dtype", "fp16", "--set", "loss_scale_growth_interval=4", "--learning-rate", "1e-3"]
        self.train("half", *arguments, steps=40)
        self.train("half-two", *arguments, steps=21)
        self.train("half-two", *arguments, steps=40)
        self.same_weights("half", "half-two", 40)
        steps, _ = self.log("half")
        self.assertEqual(self.curve("half", "loss_scale"), self.curve("half-two", "loss_scale"))
        scale, good = 65536.0, 0
        for step, row in steps.items():
            self.assertEqual(row["loss_scale"], scale, f"step {step}")
            good = 0 if row.get("skipped") else good + 1
            scale = scale / 2 if good == 0 else scale * 2 if good == 4 else scale
            good %= 4
        self.assertTrue(any(row.get("skipped") for row in steps.values()), "the scale never became too large")
        self.assertLess(steps[40]["loss"], steps[1]["loss"] - 0.3)
        self.assertFalse((self.folder / "half" / "skipped").exists())


if __name__ == "__main__":
    unittest.main()
