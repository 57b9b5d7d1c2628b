"""Evaluation, the best checkpoint, averages, accumulation, and what a run writes about itself.

usage: evaluated_run_test.py EASYDEL
"""

import math
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_run import *


REPORT_PEER = pathlib.Path(__file__).parents[1] / "reference" / "report_peer.py"


class EvaluatedRun(TinyRun):
    def held_out_loss(self, directory, length=48):
        """What transformers says of the same rows: the mean over all tokens that have one before them."""
        model = AutoModelForCausalLM.from_pretrained(directory).eval()
        total = count = 0
        with torch.no_grad():
            for text in self.texts[40:]:
                ids = torch.tensor([self.ids(text, length)])
                total += model(ids, labels=ids).loss.double().item() * (ids.shape[1] - 1)
                count += ids.shape[1] - 1
        return total / count

    def evaluated(self, output, *more, **options):
        return self.train(output, "--eval-data", self.folder / "held_out.jsonl", *more, **options)

    def test_evaluation_equals_transformers_on_every_mesh(self):
        self.evaluated("eval", "--eval-steps", 4, steps=10)
        evaluations = self.log("eval")[1]
        self.assertEqual(list(evaluations), [4, 8, 10])  # 10: the end
        for step in (4, 8, 10):
            theirs = self.held_out_loss(self.folder / "eval" / f"run-{step}")
            self.assertAlmostEqual(evaluations[step]["eval_loss"], theirs, delta=2e-5)
            self.assertAlmostEqual(evaluations[step]["eval_perplexity"], math.exp(theirs), delta=2e-2)
        for mesh in ("2,1,1,1,1", "1,2,1,2,1", "2,1,1,1,2"):
            self.remove("eval-mesh")
            self.evaluated("eval-mesh", "--eval-steps", 4, "--mesh", mesh, steps=10)
            on_mesh = self.log("eval-mesh")[1]
            self.assertEqual(list(on_mesh), [4, 8, 10])
            for step, row in evaluations.items():
                for key, value in row.items():
                    self.assertAlmostEqual(on_mesh[step][key], value, delta=1e-3 * max(1, abs(value)), msg=f"{mesh} {key}")
        # A run that has all its steps writes nothing twice.
        self.evaluated("eval", "--eval-steps", 4, steps=10)
        self.assertEqual(self.log("eval")[1], evaluations)

    def test_packed_rows_have_the_loss_of_single_ones(self):
        """Every text fits into a row: whether training and evaluation pack or not, the loss is that of transformers."""
        for name, arguments in (("both", ["--packing"]),
                                ("training", ["--packing", "--set", "eval_packing=false"]),
                                ("evaluation", ["--set", "eval_packing=true"]),
                                ("mesh", ["--packing", "--mesh", "2,1,1,2,1"])):
            with self.subTest(name):
                self.evaluated(f"packed-{name}", *arguments, "--eval-steps", 4, "--length", 128, steps=6)
                evaluations = self.log(f"packed-{name}")[1]
                self.assertEqual(list(evaluations), [4, 6])
                for step, row in evaluations.items():
                    theirs = self.held_out_loss(self.folder / f"packed-{name}" / f"run-{step}", length=128)
                    self.assertAlmostEqual(row["eval_loss"], theirs, delta=2e-5, msg=f"step {step}")

    def test_the_combination_of_the_example_sft_yaml(self):
        example = BOOK.parents[1] / "elarge" / "sft.yaml"
        changes = {"model.name_or_path": self.folder / "model", "mixture.informs.0.data_files": self.folder / "one.jsonl",
                   "eval_mixture.informs.0.data_files": self.folder / "held_out.jsonl", "loader.dtype": "fp32",
                   "trainer.save_directory": self.folder / "example", "trainer.max_length": 48,
                   "sharding.axis_dims": "[1,2,1,1,1]", "trainer.evaluation_steps": 1, "trainer.warmup_steps": 0}
        sets = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
        done = warm_start.run([EASYDEL, "elarge", example, "--json", *sets], text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        steps, evaluations = self.log("example")
        self.assertEqual(list(steps), list(evaluations))
        self.assertGreater(len(steps), 0)
        self.assertTrue((self.folder / "example" / "report.html").exists())

    def test_without_a_number_of_steps_it_evaluates_after_each_epoch(self):
        for name, length, expected in (("epochs", ["--epochs", 3], [10, 20, 30]), ("steps", ["--steps", 24], [10, 20, 24])):
            self.evaluated(f"each-{name}", *length, "--set", "save_steps=0",
                           **({"steps": None} if name == "epochs" else {}))
            self.assertEqual(list(self.log(f"each-{name}")[1]), expected)
            self.assertEqual(self.checkpoints(f"each-{name}"), [expected[-1]])  # save_steps=0: only at the end

    def test_an_evaluation_that_fails_loses_nothing(self):
        good = (self.folder / "held_out.jsonl").read_text().splitlines()
        self.train("plain-weights", steps=6)
        for name, arguments, step in (("last", ["--eval-steps", 100], 6), ("between", ["--eval-steps", 3, "--save-steps", 0], 3),
                                      ("mesh", ["--eval-steps", 3, "--save-steps", 0, "--mesh", "2,1,1,1,1"], 3),
                                      ("last-mesh", ["--eval-steps", 100, "--mesh", "1,2,1,2,1"], 6)):
            with self.subTest(name):
                file = self.folder / "bad.jsonl"
                file.write_text("\n".join(good[:5] + ['{"txt": "b"}'] + good[5:]) + "\n")
                said = self.fails(f"failed-{name}", "--eval-data", file, *arguments, steps=6)
                self.assertRegex(said, r'^(rank \d: )?\[bad.jsonl, line 6\] the row has no field "text"; it has txt.$')
                self.assertEqual(self.checkpoints(f"failed-{name}")[-1], step)
                if name == "last":
                    self.same_weights("plain-weights", f"failed-{name}", 6)
                # With the row mended the same command does what is left: the evaluation of that step, and the rest.
                file.write_text("\n".join(good) + "\n")
                result = self.train(f"failed-{name}", "--eval-data", file, *arguments, steps=6)
                self.assertEqual(result["step"], 6)
                self.assertEqual(list(self.log(f"failed-{name}")[1]), [6] if step == 6 else [3, 6])
                self.assertTrue(pathlib.Path(result["report"]).exists())

    def test_it_stops_early_keeps_the_best_and_gives_it_back(self):
        # A learning rate that learns the few rows by heart: the others become worse.
        arguments = ["--eval-steps", 2, "--learning-rate", "3e-2", "--set", "early_stopping_patience=3", "--set",
                     "load_best_model_at_end=true", "--set", "save_total_limit=2"]
        (self.folder / "few.jsonl").write_text((self.folder / "one.jsonl").read_text().split("\n")[0] + "\n")
        result, log = self.end(self.start("early", "--eval-data", self.folder / "held_out.jsonl", *arguments, data=["few"]))
        self.assertEqual(result["stopped_by"], "early stopping")
        losses = {step: row["eval_loss"] for step, row in self.log("early")[1].items()}
        best = min(losses, key=losses.get)
        self.assertEqual(result["step"], best + 6)
        self.assertEqual(self.checkpoints("early"), [best, result["step"]])
        self.assertIn(f"[trainer] the weights of step {best} were the best and have been loaded.", log)
        saved = json.loads((self.folder / "early" / f"run-{result['step']}" / "trainer.json").read_text())
        self.assertEqual((saved["best_step"], saved["best"]), (best, losses[best]))
        # Started again it has nothing to do; with more patience it goes on.
        again = self.evaluated("early", *arguments, data=["few"])
        self.assertEqual((again["step"], again["stopped_by"]), (result["step"], "early stopping"))
        more = self.evaluated("early", *arguments, "--set", "early_stopping_patience=4", data=["few"])
        self.assertEqual(more["step"], best + 8)
        self.assertEqual(self.checkpoints("early"), [best, best + 8])

    def test_the_best_between_two_saves_is_saved(self):
        self.evaluated("between", "--eval-steps", 3, "--save-steps", 100, "--set", "load_best_model_at_end=true", "--set",
                       "async_save=false", steps=10)
        losses = {step: row["eval_loss"] for step, row in self.log("between")[1].items()}
        self.assertIn(min(losses, key=losses.get), self.checkpoints("between"))

    def test_an_average_of_the_weights_is_saved_and_resumed(self):
        arguments = ["--set", "ema_decay=0.8"]
        self.train("ema", *arguments, steps=6)
        self.train("ema-two", *arguments, steps=3)
        self.train("ema-two", "--mesh", "1,2,1,2,1", *arguments, steps=6)
        average = load_file(self.folder / "model" / "model.safetensors")
        self.train("ema-all", "--save-steps", 1, steps=6)
        for step in range(1, 7):
            weights = load_file(self.folder / "ema-all" / f"run-{step}" / "model.safetensors")
            average = {name: 0.8 * tensor + 0.2 * weights[name] for name, tensor in average.items()}
        for run, tolerance in (("ema", 1e-6), ("ema-two", 1e-3)):
            ours = load_file(self.folder / run / "run-6" / "ema.safetensors")
            self.assertEqual(ours.keys(), average.keys())
            for name, tensor in ours.items():
                torch.testing.assert_close(tensor, average[name], rtol=0, atol=tolerance)

    def test_accumulation_and_checkpointing_change_no_loss(self):
        self.train("plain", steps=12)
        plain = self.curve("plain")
        for name, *more in (("halves", "--accumulate", 2), ("quarters", "--accumulate", 4),
                            ("again", "--set", "gradient_checkpointing=nothing_saveable"),
                            ("both", "--accumulate", 2, "--mesh", "1,2,1,2,1")):
            self.train(name, *more, steps=12)
            for step, (one, other) in enumerate(zip(plain, self.curve(name), strict=True)):
                self.assertAlmostEqual(one, other, delta=1e-5 * (step + 1), msg=f"{name}, step {step + 1}")

    def test_all_logs_agree_after_a_resumed_run(self):
        arguments = ["--eval-steps", 5, "--set", "report_steps=1", "--save-steps", 4]
        self.evaluated("logs", *arguments, steps=7)
        self.evaluated("logs", *arguments, steps=11)
        shutil.rmtree(self.folder / "logs" / "run-11")  # as if it had been killed at step 10
        self.evaluated("logs", *arguments, steps=14)
        steps, evaluations = self.log("logs")
        self.assertEqual((list(steps), list(evaluations)), (list(range(1, 15)), [5, 7, 10, 14]))
        events = EventAccumulator(str(self.folder / "logs" / "tensorboard"), size_guidance={"scalars": 0}).Reload()
        for tag, rows, key in (("train/loss", steps, "loss"), ("train/grad_norm", steps, "grad_norm"),
                               ("eval/loss", evaluations, "eval_loss")):
            shown = {event.step: event.value for event in events.Scalars(tag)}
            self.assertEqual([event.step for event in events.Scalars(tag)], list(rows), tag)
            for step, row in rows.items():
                self.assertAlmostEqual(shown[step], row[key], delta=1e-6 * max(1, abs(row[key])))
        for name, rows in (("loss", steps), ("grad_norm", steps), ("eval_loss", evaluations)):
            self.assertEqual(self.report("logs")[name], [[step, row[name]] for step, row in rows.items()])
        self.evaluated("logs", *arguments, steps=14)  # nothing is left to do
        self.assertEqual(self.log("logs"), (steps, evaluations))
        self.assertEqual(self.report("logs")["loss"], [[step, row["loss"]] for step, row in steps.items()])

    def report(self, output):
        """The points of the curves in report.html, by name."""
        done = subprocess.run([sys.executable, REPORT_PEER, self.folder / output / "report.html"], capture_output=True,
                              check=True)
        page = json.loads(done.stdout)
        self.assertEqual(page["faults"], [])
        return {series["name"]: [list(point) for point in zip(series["x"], series["y"])] for series in page["series"]}


if __name__ == "__main__":
    unittest.main()
