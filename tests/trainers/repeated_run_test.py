"""A second start into the same directory: the same run goes on, another one is refused, and two at once are.

usage: repeated_run_test.py EASYDEL
"""

import socket
import unittest

from safetensors.torch import save_file
from tiny_run import *

WHAT_TO_DO = (r". To resume from it with these settings, use --resume latest (resume_from: latest); to start a new run, use another --output (save_directory).")


class RepeatedRun(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(cls.folder / "model", cls.folder / "other")
        tensors = load_file(cls.folder / "model" / "model.safetensors")
        tensors["lm_head.weight"] += 0.01
        save_file(tensors, cls.folder / "other" / "model.safetensors", metadata={"format": "pt"})
        cls("runTest").train("good", steps=4)

    def runTest(self):
        pass

    def setUp(self):
        shutil.copytree(self.folder / "good", self.folder / "run")

    def tearDown(self):
        self.remove("run")

    def refused(self, difference, *arguments, **options):
        before = tensor_bytes(self.folder / "run" / "run-4" / "model.safetensors")
        said = self.fails("run", *arguments, **options)
        self.assertEqual(said, f"[trainer] run/run-4 belongs to a different run: {difference}{WHAT_TO_DO}")
        self.assertEqual(self.checkpoints("run"), [2, 4])
        self.assertEqual(tensor_bytes(self.folder / "run" / "run-4" / "model.safetensors"), before)

    def test_another_model_is_refused_by_name(self):
        self.refused('model was "model", now "other"', model="other", steps=4)
        self.refused('model was "model", now "other"', model="other", steps=8)
        # Asked for, it goes on from the checkpoint, and says what is different.
        result, log = self.end(self.start("run", "--resume", "latest", model="other", steps=6))
        self.assertEqual(result["step"], 6)
        self.assertIn(f'[resume_from] {self.folder}/run/run-4 belongs to a run with different settings: model was '
                      f'"{self.folder}/model", now "{self.folder}/other".', log)

    def test_a_model_whose_files_changed_is_another_one(self):
        shutil.copytree(self.folder / "model", self.folder / "kept")
        try:
            shutil.copy(self.folder / "other" / "model.safetensors", self.folder / "model" / "model.safetensors")
            self.refused('the files of model "model" changed', steps=8)
        finally:
            shutil.rmtree(self.folder / "model")
            shutil.move(self.folder / "kept", self.folder / "model")
        # The same files in another place are the same model.
        shutil.copytree(self.folder / "model", self.folder / "moved")
        self.assertEqual(self.train("run", model="moved", steps=6)["step"], 6)

    def test_a_setting_that_matters_is_named_with_both_values(self):
        self.refused("learning_rate was 0.01, now 0.02", "--learning-rate", "0.02", steps=8)
        self.refused('total_batch_size was 4, now 8', "--batch", 8, steps=8)
        self.refused('optimizer was "adamw", now "lion"', "--optimizer", "lion", steps=8)
        self.refused('dtype was "float32", now "bfloat16"', "--dtype", "bf16", steps=8)
        self.refused("lora_rank was null, now 4", "--lora-rank", 4, steps=8)
        self.refused("the data was one.jsonl and 1 more, now one.jsonl", data=["one"], steps=8)

    def test_another_tokenizer_or_quantization_is_another_run(self):
        shutil.copytree(self.folder / "model", self.folder / "words")
        tokenizer = json.loads((self.folder / "words" / "tokenizer.json").read_text())
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-1]
        (self.folder / "words" / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refused('tokenizer was "model", now "words"', "--tokenizer", self.folder / "words", steps=8)
        packed = ["--lora-rank", 2, "--set", "quantization.method=8bit"]
        self.train("quantized", *packed, steps=2)
        self.assertIn("quantization was {", self.fails("quantized", "--lora-rank", 2, steps=4))
        self.assertEqual(self.train("quantized", *packed, steps=4)["step"], 4)

    def test_data_that_changed_is_named(self):
        rows = (self.folder / "one.jsonl").read_text()
        self.train("one", data=["one"], steps=2)
        try:
            for content, said in ((rows + '{"text": "more"}\n', "one.jsonl had 24 rows, now 25"),
                                  (rows.replace("e", "a", 1), "the rows of one.jsonl changed")):
                (self.folder / "one.jsonl").write_text(content)
                self.assertEqual(self.fails("one", data=["one"]), f"[trainer] one/run-2 belongs to a different run: {said}{WHAT_TO_DO}")
                self.assertEqual(self.fails("one", "--resume", "latest", data=["one"]),
                                 f"[Loader] the data changed, so the run cannot be resumed: {said}.")
        finally:
            (self.folder / "one.jsonl").write_text(rows)

    def test_what_does_not_change_a_step_may_change(self):
        result, log = self.end(self.start("run", "--mesh", "1,2,1,2,1", "--accumulate", 2, "--save-steps", 3, "--eval-data",
                                          self.folder / "held_out.jsonl", "--set", "save_total_limit=1", steps=8))
        self.assertEqual(result["step"], 8)
        self.assertIn(f"[trainer] resuming from step 4, {self.folder}/run/run-4", log)

    def test_a_run_that_is_done_says_so_in_one_line(self):
        before = tensor_bytes(self.folder / "run" / "run-4" / "model.safetensors")
        result, log = self.end(self.start("run", steps=4))
        self.assertEqual((result["step"], result["checkpoint"]), (4, str(self.folder / "run" / "run-4")))
        self.assertIn(f"[trainer] the run is at step 4 of 4 ({self.folder}/run/run-4); nothing is left to do. Increase --steps (max_training_steps) to continue.\n", log)
        self.assertEqual(tensor_bytes(self.folder / "run" / "run-4" / "model.safetensors"), before)

    def test_without_resume_if_possible_it_begins_anew_and_keeps_what_was_there(self):
        self.train("run", "--set", "resume_if_possible=false", model="other", steps=2)
        self.assertEqual(sorted(path.name for path in (self.folder / "run").glob("run-*")), ["run-2", "run-2.old", "run-4.old"])

    def test_a_file_called_completions_is_left_to_its_owner(self):
        notes = self.folder / "run" / "completions.jsonl"
        notes.write_text('{"prompt": "mine"}\n')
        self.train("run", steps=6)
        self.assertEqual(notes.read_text(), '{"prompt": "mine"}\n')

    def test_two_runs_at_once(self):
        """The second is refused, whatever its mesh; a killed run holds nothing."""
        for mesh in ([], ["--mesh", "1,2,1,2,1"]):
            self.remove("shared")
            first = self.start("shared", *mesh, steps=100000)
            while not (self.folder / "shared" / "run-2").exists() and first.poll() is None:
                time.sleep(0.01)
            for other in ([], ["--mesh", "2,1,1,1,1"]):
                self.assertEqual(self.fails("shared", *other, model="other"),
                                 f"[trainer] shared is being written to by a run of process {first.pid} on "
                                 f"{socket.gethostname()}. Wait for it or stop it, or give this run another directory "
                                 "(--output, save_directory).")
            self.assertIsNone(first.poll())
            first.kill()
            first.communicate()
            last = self.checkpoints("shared")[-1]
            _, log = self.end(self.start("shared", *mesh, steps=last + 2))
            self.assertIn(f"[trainer] resuming from step {last}", log)

    def test_a_run_that_cannot_start_leaves_no_directory(self):
        self.assertRegex(self.fails("never", data=["nothing"]), "nothing.jsonl")
        self.assertFalse((self.folder / "never").exists())


class QuantizedModel(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([EASYDEL, "quantize", cls.folder / "model", cls.folder / "packed", "--method", "8bit"], check=True,
                       capture_output=True)

    def test_training_it_without_adapters_is_refused(self):
        for output, arguments, model in (("files", [], "packed"), ("loaded", ["--set", "quantization.method=8bit"], "model")):
            self.assertRegex(self.fails(output, *arguments, model=model),
                             r'^\[trainer\] 14 weights of the model are quantized and cannot be trained, '
                             r'"model.layers.0.self_attn.q_proj.weight" is the first. Train adapters on them '
                             r"\(--lora-rank, lora_rank\), load the model without quantization, or list them in frozen_parameters.$")
        self.assertEqual(self.train("adapters", "--lora-rank", 2, model="packed", steps=2)["step"], 2)
        self.assertEqual(self.train("frozen", "--set", "frozen_parameters=_proj", model="packed", steps=2)["step"], 2)


class WithoutATokenizer(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "bare").mkdir()
        shutil.copy(cls.folder / "model" / "config.json", cls.folder / "bare" / "config.json")
        write_rows(cls.folder / "ids.jsonl", [{"input_ids": cls.tokenizer(text)["input_ids"]} for text in cls.texts])

    def test_texts_need_one_and_the_message_says_how_to_name_it(self):
        self.assertEqual(self.fails("text", model="bare/config.json"),
                         "[tokenizer] there is no tokenizer in the directory of bare/config.json, and rows of text need one. Give it with --tokenizer (model.tokenizer), or use rows of input_ids.")
        self.assertEqual(self.train("text", "--tokenizer", self.folder / "model", model="bare/config.json", steps=2)["step"], 2)

    def test_rows_of_input_ids_need_none(self):
        self.train("ids", "--no-shuffle", data=["ids"], model="bare/config.json", steps=4)
        self.train("ids-with", "--no-shuffle", "--tokenizer", self.folder / "model", data=["ids"], model="bare/config.json",
                   steps=4)
        self.assertEqual(self.curve("ids"), self.curve("ids-with"))
        self.same_weights("ids", "ids-with", 4)

    def test_a_reward_model_has_one_label(self):
        write_rows(self.folder / "pairs.jsonl", [{"prompt": a, "chosen": b, "rejected": c} for a, b, c in
                                                 zip(self.texts[:8], self.texts[8:16], self.texts[16:24])])
        self.train("reward", "--trainer", "reward", "--length", 128, data=["pairs"], model="model", steps=2)
        config = json.loads((self.folder / "reward" / "run-2" / "config.json").read_text())
        self.assertEqual(len(config["id2label"]), 1)
        self.assertEqual(load_file(self.folder / "reward" / "run-2" / "model.safetensors")["score.weight"].shape[0], 1)


if __name__ == "__main__":
    unittest.main()
