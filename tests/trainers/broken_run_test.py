"""Input that no run can use: each gets a message that names it, and nothing that was there before is lost.

usage: broken_run_test.py EASYDEL
"""

import resource
import unittest

import pyarrow
import pyarrow.parquet
from tiny_run import *
from transformers import GPT2Config


def tree(directory):
    """Every file below, with its bytes."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[:int(len(content) * share)])


class BrokenRun(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls("runTest").train("good", steps=4)

    def runTest(self):
        pass

    def setUp(self):
        shutil.copytree(self.folder / "good", self.folder / "run")
        self.before = tree(self.folder / "run")

    def tearDown(self):
        self.remove("run")

    def refuses(self, message, *arguments, **options):
        """A run that would go on from step 4 says this, and leaves its checkpoints and logs as they are."""
        before = tree(self.folder / "run")
        asked = [] if "--resume" in arguments else ["--resume", "latest"]
        said = self.fails("run", *asked, *arguments, **{"steps": 8} | options)
        self.assertRegex(said, "^" + message + "$")
        self.assertEqual(tree(self.folder / "run"), before)

    def test_data(self):
        rows = (self.folder / "one.jsonl").read_text().splitlines()
        (self.folder / "empty.jsonl").write_text("")
        (self.folder / "field.jsonl").write_text("\n".join(rows[:5] + ['{"txt": "b"}'] + rows[5:]) + "\n")
        (self.folder / "latin.jsonl").write_bytes(b'{"text": "caf\xe9"}\n')
        pyarrow.parquet.write_table(pyarrow.table({"text": self.texts}), self.folder / "cut.parquet")
        cut(self.folder / "cut.parquet", 0.5)
        self.refuses(r"\[empty.jsonl\] the data set is empty: it has no rows.", data=["empty"])
        self.refuses(r"\[latin.jsonl\] is not UTF-8: byte 13 is invalid. Convert the file, with iconv for example.", data=["latin"])
        self.refuses(r"\[cut.parquet\] cannot be read as Parquet: .* The file is damaged or truncated.", "--data",
                     self.folder / "cut.parquet", data=[])
        for mesh, rank in (([], ""), (["--mesh", "2,1,1,1,1"], r"rank \d: ")):
            self.remove("new")
            self.assertRegex(self.fails("new", *mesh, data=["field"]),
                             rf'^{rank}\[field.jsonl, line 6\] the row has no field "text"; it has txt.$')
        self.refuses(r"\[Loader\] the data changed, so the run cannot be resumed: the data was one.jsonl and 1 "
                     r"more, now one.jsonl.", data=["one"])

    def test_a_learning_rate_that_is_no_number(self):
        rule = r"trainer.learning_rate must be a finite number that is not negative; got"
        self.refuses(rf"\[elarge\] {rule} nan.", "--learning-rate", "nan")
        self.refuses(rf"\[elarge\] {rule} inf.", "--learning-rate", "inf")
        self.refuses(rf"\[elarge\] --set: {rule} nan.", "--set", "learning_rate=nan")
        self.refuses(rf"\[elarge\] --set: {rule} nan.", "--set", "trainer.learning_rate=NaN")
        shown = subprocess.run(self.command("run", "--dry-run"), capture_output=True, text=True, check=True).stdout
        self.assertIn("learning_rate: 0.01\n", shown)
        line = shown[:shown.index("learning_rate: 0.01")].count("\n") + 1
        (self.folder / "run.yaml").write_text(shown.replace("learning_rate: 0.01", "learning_rate: .nan"))
        done = subprocess.run([EASYDEL, "elarge", self.folder / "run.yaml"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"easydel: [elarge] {self.folder}/run.yaml:{line}: trainer.learning_rate must be a "
                                      "finite number that is not negative; got nan.\n")

    def test_a_checkpoint_of_another_model(self):
        gpt2 = dict(architecture=GPT2Config, n_embd=32, n_layer=2, n_head=4, n_positions=128)
        for name, changes, message in (
                ("wide", dict(hidden_size=48), r"\[run/run-4/model.safetensors\] the tensors do not match LlamaForCausalLM.\n"
                 r"with mismatched shapes \(21\):\n"
                 r'  "model.embed_tokens.weight" is \[300, 32\]; the config asks for \[300, 48\]\n(.*\n){19}'
                 r'  "lm_head.weight" is \[300, 32\]; the config asks for \[300, 48\]'),
                ("deep", dict(num_hidden_layers=3), r"\[resume_from\] run/run-4 lacks 9 parameters of this model, "
                 '"model.layers.2.self_attn.q_proj.weight" is the first.'),
                ("flat", dict(num_hidden_layers=1), r"\[resume_from\] run/run-4 has 9 tensors that this model lacks, "
                 '"model.layers.1.input_layernorm.weight" is the first.'),
                ("gpt2", gpt2, r'\[resume_from\] run/run-4 is a "llama" model; this run trains "gpt2".')):
            make_model(self.folder / name, **changes)
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(self.folder / "model" / file, self.folder / name / file)
            self.refuses(message, model=name)

    def test_a_run_that_changed(self):
        self.refuses(r"\[resume_from\] run/run-4 was trained with total_batch_size 4; this run has 8. The data cannot be "
                     "resumed from there.", "--batch", 8)
        self.refuses(r'\[OptState\] run/run-4/state.json is the state of "adamw", but the optimizer is "lion". Use the '
                     "optimizer that saved it.", "--optimizer", "lion")
        self.refuses(r"rank \d: \[elarge\] trainer.total_batch_size: \[trainer\] a minibatch of 4 rows cannot be assigned to 8 ranks \(dp=8 fsdp=1 ep=1 tp=1 sp=1; "
                     r"rows are split over dp, fsdp and ep\): total_batch_size / gradient_accumulation_steps must be a multiple of "
                     r"8.", "--mesh", "8,1,1,1,1")
        self.refuses(r"\[resume_from\] nowhere is not a checkpoint of a run: it needs state.json and trainer.json.", "--resume",
                     self.folder / "nowhere")

    def test_a_directory_that_cannot_be_written(self):
        (self.folder / "file").write_text("a file")
        self.assertEqual(self.fails("file/out"), "[file] cannot be created: File exists.")
        self.assertEqual((self.folder / "file").read_text(), "a file")

    def test_files_of_the_newest_checkpoint_that_were_cut_short(self):
        text = r"line \d+, column \d+: .*; got .*."
        for name, half, none in (
                ("trainer.json", text, text), ("state.json", text, text), ("config.json", text, text),
                ("model.safetensors", r'tensor ".*" ends at byte \d+ of the data, which has \d+. The file is '
                                      "truncated or damaged.",
                 "a safetensors file must begin with 8 bytes for the length of its header; got 0 bytes in total."),
                ("optimizer.safetensors", r'tensor ".*" ends at byte \d+ of the data, which has \d+. The file is '
                                          "truncated or damaged.",
                 "a safetensors file must begin with 8 bytes for the length of its header; got 0 bytes in total.")):
            path = self.folder / "run" / "run-4" / name
            content = path.read_bytes()
            for share, message, mesh, rank in ((0.5, half, ["--mesh", "1,2,1,2,1"], r"rank \d: "), (0, none, [], "")):
                cut(path, share)
                self.refuses(rf"{rank}\[run/run-4/{name}\] {message}", *mesh)
                path.write_bytes(content)
                self.assertEqual(tree(self.folder / "run"), self.before)

    def test_files_of_the_newest_checkpoint_that_are_gone(self):
        for name, message in (
                ("trainer.json", r"\[resume_from\] run/run-4 lacks trainer.json. Remove it to resume from the previous checkpoint."),
                ("state.json", r"\[resume_from\] run/run-4 lacks state.json. Remove it to resume from the previous checkpoint."),
                ("config.json", r"\[run/run-4/config.json\] cannot be opened: No such file or directory."),
                ("model.safetensors", r'\[resume_from\] run/run-4 lacks 21 parameters of this model, '
                                      r'"model.embed_tokens.weight" is the first.'),
                ("optimizer.safetensors", r"\[load_optimizer\] run/run-4/optimizer.safetensors: the optimizer was not saved "
                                          "with this state.")):
            path = self.folder / "run" / "run-4" / name
            content = path.read_bytes()
            path.unlink()
            self.refuses(message)
            path.write_bytes(content)
        for file, key, rule in (("trainer.json", "skipped", "is missing or has the wrong type."),
                                ("trainer.json", "data", "is missing or has the wrong type."),
                                ("state.json", "step", "must be an integer.")):
            path = self.folder / "run" / "run-4" / file
            content = path.read_text()
            path.write_text(json.dumps({name: value for name, value in json.loads(content).items() if name != key}))
            self.refuses(rf'\[run/run-4/{file}\] "{key}" {rule}')
            path.write_text(content)


    def limited(self, output, size, *arguments, **options):
        """Like fails, where no file grows beyond so many bytes: what is written to a full disk fails like this too."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        # The thread sanitizer dies of a cut file of its own in TMPDIR; where that is no folder it makes none.
        return self.fails(output, *arguments, **options, preexec_fn=limit, restore_signals=False,
                          environment={"TMPDIR": str(self.folder / "none")})

    def test_a_disk_that_is_full(self):
        for index, more in enumerate(([], ["--set", "async_save=false"], ["--mesh", "1,2,1,2,1"],
                                      ["--mesh", "2,1,1,1,1", "--set", "async_save=false"])):
            for size, file in ((200000, "optimizer.safetensors"), (100000, "model.safetensors")):
                rank = "rank 0: " if "--mesh" in more else ""
                said = self.limited("run", size, *more, steps=100)
                self.assertRegex(said, rf"^{rank}\[.*run/.run-6.unfinished/{file}\S*\] .*File too large.*$")
                after = tree(self.folder / "run")
                self.assertEqual({name: after[name] for name in self.before if name.startswith("run-")},
                                 {name: self.before[name] for name in self.before if name.startswith("run-")})
                self.assertEqual(sorted(os.listdir(self.folder / "run")), sorted(os.listdir(self.folder / "good")))
        # With room again it goes on as if nothing had been.
        self.train("run", steps=8)
        self.train("whole", steps=8)
        self.same_weights("run", "whole", 8)
        self.assertEqual(self.curve("run"), self.curve("whole"))

    @unittest.skipIf(os.geteuid() != 0, "only root mounts")
    def test_a_small_file_system_that_fills(self):
        place = self.folder / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1300k", "tmpfs", place], capture_output=True).returncode:
            self.skipTest("nothing may be mounted here")
        try:
            for more in ([], ["--set", "async_save=false"]):
                said = self.fails("small/run", *more, steps=40)
                self.assertRegex(said, r"^\[.*small/run/\S*\] .*No space left on device.*$")
                last = self.checkpoints("small/run")[-1]
                self.assertGreaterEqual(last, 2)
                for step in self.checkpoints("small/run"):
                    load_file(place / "run" / f"run-{step}" / "optimizer.safetensors")
            subprocess.run(["mount", "-o", "remount,size=30m", place], check=True)
            result, log = self.end(self.start("small/run", steps=8))
            self.assertIn(f"resuming from step {last}", log)
            self.train("roomy", steps=8)
            self.same_weights("small/run", "roomy", 8)
            self.assertEqual(self.curve("small/run"), self.curve("roomy"))
        finally:
            subprocess.run(["umount", "-l", place], check=True)

    def test_later_checkpoints_of_another_run_are_set_aside(self):
        first = self.folder / "run" / "run-2"
        result, log = self.end(self.start("run", "--resume", first, "--save-steps", 3, "--set", "save_total_limit=1", steps=5))
        self.assertEqual(result["checkpoint"], str(self.folder / "run" / "run-5"))
        self.assertIn(f"{self.folder}/run/run-4 does not belong to this run, which is at step 2; it was renamed to {self.folder}/run/run-4.old",
                      log)
        self.assertEqual(sorted(path.name for path in (self.folder / "run").glob("run-*")), ["run-4.old", "run-5"])
        self.assertEqual(tree(self.folder / "run" / "run-4.old"), tree(self.folder / "good" / "run-4"))
        self.assertEqual(list(self.log("run")[0]), [1, 2, 3, 4, 5])

    def test_a_run_without_its_optimizer_says_so(self):
        self.train("bare", "--set", "save_optimizer_state=false", steps=2)
        _, log = self.end(self.start("bare", "--set", "save_optimizer_state=false", steps=4))
        self.assertIn(f"[resume_from] {self.folder}/bare/run-2 was saved without its optimizer state, which starts from scratch.", log)


if __name__ == "__main__":
    unittest.main()
