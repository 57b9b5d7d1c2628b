"""What a run says of itself: its metrics, its report while it goes on, after it was killed, and beside another.
usage: reported_run_test.py EASYDEL"""

import json
import pathlib
import re
import resource
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start
from tiny_run import EASYDEL, TinyRun


class Reported(TinyRun):
    def page(self, output, name="report.html"):
        text = (self.folder / output / name).read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
        cards = dict(re.findall(r'<div class="card"><span>(.*?)</span><strong>(.*?)</strong>', text))
        return cards, data, text

    def report(self, *arguments, code=0):
        done = warm_start.run([EASYDEL, "report", *map(str, arguments)], text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_metrics_of_a_step_and_of_the_whole_run_have_names_of_their_own(self):
        self.train("named", "--eval-data", self.folder / "held_out.jsonl", steps=6)
        steps, evaluations = self.log("named")
        tokens = 0
        for number, row in steps.items():
            tokens += row["step_tokens"]
            self.assertEqual((row["num_tokens"], row["samples"]), (tokens, 4 * number))
            self.assertLess(row["step_tokens"], 4 * 48 + 1)  # real tokens: padding does not count
            self.assertNotIn("mfu", row)  # no CPU has a published peak
            self.assertNotIn("memory", row)
            self.assertGreater(row["tflops"], 0)
            self.assertLess(abs(row["time"] - time.time()), 120)
        peaks = [row["peak_memory_bytes"] for row in steps.values()]
        self.assertEqual(peaks, sorted(peaks))
        # No more than the largest child that this process has waited for.
        self.assertLessEqual(peaks[-1], resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
        cards, data, text = self.page("named")
        self.assertEqual(cards["total tokens"], f"{tokens:,}")
        self.assertEqual((cards["samples seen"], cards["steps"], cards["status"]), ("24", "6 of 6", "finished"))
        self.assertTrue(cards["evaluation loss"].startswith(f"{evaluations[6]['eval_loss']:.4f}"), cards)
        self.assertIn("settings are not set.", text)
        self.assertNotIn(">null<", text)
        for label in ("host", "started", "ended", "device", "dtype", "parameters"):
            self.assertIn(f'<th scope="row">{label}</th>', text)
        loss = next(s for s in data["series"] if s["name"] == "loss")
        self.assertEqual(loss["tokens"], [row["num_tokens"] for row in steps.values()])
        self.assertEqual(len(loss["time"]), 6)

    def test_memory_is_estimated_and_checkpointing_chosen_where_it_is_needed(self):
        def run(name, *more):
            self.remove(name)
            err = self.end(self.start(name, "--length", 512, "--set", "track_memory=0.1", *more, steps=1))[1]
            config = json.loads((self.folder / name / "run-1" / "config.json").read_text())
            return err, config.get("gradient_checkpointing"), self.log(name)[0][1]

        chosen = "gradient_checkpointing is "
        err, policy, row = run("roomy")
        self.assertRegex(err, r"estimated memory for rows of 512 tokens: [0-9.]+ MiB: [0-9.]+ weights, ")
        self.assertNotIn(chosen, err)
        self.assertFalse(policy)
        # Of the same order as what was used, which is measured with all that the program has besides.
        needed = row["memory_estimate"]
        self.assertGreater(needed, 2 << 20)
        tight = needed * 0.98 / 2**30
        err, policy, less = run("tight", "--set", f"memory_limit={tight}")
        self.assertIn(chosen + "mlp_notsaveable", err)  # the first of three that fits
        self.assertEqual(policy, "mlp_notsaveable")
        self.assertLess(less["memory_estimate"], needed * 0.98)
        self.assertGreater(run("first", "--set", "gradient_checkpointing=checkpoint_dots")[2]["memory_estimate"], needed * 0.98)
        err, policy, least = run("tighter", "--set", "memory_limit=1e-6")
        self.assertIn(chosen + "nothing_saveable", err)
        self.assertEqual(policy, "nothing_saveable")
        self.assertLess(least["memory_estimate"], less["memory_estimate"])
        err, policy, same = run("explicit", "--set", f"memory_limit={tight}", "--set", "gradient_checkpointing=none")
        self.assertNotIn(chosen, err)
        self.assertIn("the device may run out of memory", err)
        self.assertEqual((policy, same["memory_estimate"]), ("none", needed))
        # In 8 bits the moments of the two large matrices are a quarter.
        self.assertLess(run("narrow", "--optimizer", "adamw_8bit")[2]["memory_estimate"], needed)

    def test_adapters_count_fewer_operations_than_full_training(self):
        self.train("full", steps=3)
        self.train("adapted", "--lora-rank", 2, steps=3)
        operations = [[row["tflops"] / row["tokens_per_second"] for row in self.log(run)[0].values()]
                      for run in ("full", "adapted")]
        for full, adapted in zip(*operations):
            self.assertLess(adapted, 0.8 * full)
            self.assertGreater(adapted, 0.6 * full)

    def test_a_mesh_counts_what_one_device_does(self):
        self.train("whole", steps=3)
        self.train("split", "--mesh", "1,2,1,2,1", steps=3)
        one, four = ([(row["step_tokens"], row["tflops"] / row["tokens_per_second"]) for row in self.log(run)[0].values()]
                     for run in ("whole", "split"))
        for (tokens, operations), (tokens_on_mesh, operations_on_mesh) in zip(one, four):
            self.assertEqual(tokens, tokens_on_mesh)
            self.assertAlmostEqual(operations_on_mesh / operations, 1, places=9)
        self.assertIn("<td>dp=1 fsdp=2 ep=1 tp=2 sp=1</td>", self.page("split")[2])

    def test_a_killed_run_has_a_report(self):
        process = self.start("killed", steps=100000)
        metrics = self.folder / "killed" / "metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 5):
            time.sleep(0.02)
        process.kill()
        process.communicate()
        cards, data, _ = self.page("killed")
        self.assertEqual(cards["status"], "running, or killed")
        unfinished = self.folder / "killed" / "report.html.tmp-1-2"
        unfinished.write_text("<html>")
        self.assertGreaterEqual(len(data["series"]), 5)
        done = len(self.log("killed")[0])
        printed = self.report(self.folder / "killed")
        self.assertIn(f"{done:,} of 100,000", printed)
        self.assertEqual(self.page("killed")[0]["steps"], f"{done:,} of 100,000")
        self.train("killed", steps=done + 1)
        self.assertFalse(unfinished.exists())

    def test_runs_are_compared(self):
        for name in ("a", "b"):
            self.train(name, "--learning-rate", "1e-3" if name == "a" else "1e-2", steps=3)
        self.report(self.folder / "a", self.folder / "b", "--output", self.folder / "a" / "both.html")
        _, data, _ = self.page("a", "both.html")
        self.assertEqual(data["runs"], ["a", "b"])
        self.assertEqual([s["run"] for s in data["series"] if s["chart"] == "loss"], [0, 1])
        self.assertEqual(self.report(self.folder / "model", code=1),
                         f"easydel: [report] {self.folder / 'model'} is not the directory of a training run: it has no "
                         "metrics.jsonl.\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
