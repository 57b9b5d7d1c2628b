"""Where a run shows itself besides its own directory: trackers, samples of what the model writes, the hub, a live page.
usage: tracked_run_test.py EASYDEL"""


from tiny_run import *

from run_services import Mlflow, WandbRun

REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
PREVIEWS = ["--set", "generation_interval=2", "--set", 'generation_prompts=["It is a truth", "The family of"]',
            "--set", "generation_max_new_tokens=5"]


class TrackedRun(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        VARIABLES["TRACKIO_DIR"] = str(cls.folder / "trackio")

    def wandb(self, output):
        files = list((self.folder / output / "wandb").glob("offline-run-*/run-*.wandb"))
        self.assertEqual(len(files), 1)
        run = WandbRun(files[0])
        self.assertRegex(files[0].parent.name, rf"^offline-run-\d{{8}}_\d{{6}}-{run.id}$")
        self.assertEqual(files[0].name, f"run-{run.id}.wandb")
        return run

    def trackio(self):
        return [json.loads(line) for path in sorted((self.folder / "trackio" / "inbox").rglob("*.jsonl"))
                for line in path.read_text().splitlines()]

    def expected(self, output):
        """Of each step the values that trackers show, as metrics.jsonl has them."""
        rows = {}
        for kind, lines in zip(("train", "eval"), self.log(output)):
            for step, line in lines.items():
                values = {f"{kind}/{key.removeprefix('eval_')}": value for key, value in line.items()
                          if key not in ("step", "time") and (kind, key) != ("eval", "num_tokens")}
                rows.setdefault(step, {}).update(values)
        return rows

    def log(self, output):
        lines = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if "generations" not in row]
        return tuple({row["step"]: row for row in rows if ("eval_loss" in row) == is_eval} for is_eval in (False, True))

    def previews(self, output):
        rows = map(json.loads, (self.folder / output / "metrics.jsonl").read_text().splitlines())
        return {row["step"]: row["generations"] for row in rows if "generations" in row}

    def test_every_tracker_gets_what_metrics_jsonl_gets_and_a_run_that_resumes_goes_on(self):
        server = Mlflow()
        self.addCleanup(server.close)
        options = ["--report-to", "wandb", "--report-to", "mlflow", "--report-to", "trackio", "--eval-data", self.folder / "held_out.jsonl",
                   "--set", f"mlflow_tracking_uri={server.url}", "--set", "wandb_project=books", "--set", "wandb_entity=austen",
                   "--set", "run_name=pride", "--set", "report_steps=1", "--eval-steps", 2, *PREVIEWS]
        self.train("tracked", *options, steps=4)
        id_before = json.loads((self.folder / "tracked" / "run.json").read_text())["id"]
        self.train("tracked", *options, steps=6)
        expected = self.expected("tracked")
        self.assertEqual(list(expected), [1, 2, 3, 4, 5, 6])

        run = self.wandb("tracked")
        self.assertEqual((run.id, run.entity, run.project, run.name, run.exit), (id_before, "austen", "books", "pride", 0))
        self.assertEqual((run.order[:2], run.order[-2:], run.least_version), (["header", "run"], ["summary", "exit"], "0.70.0"))
        self.assertEqual(run.config["trainer"]["wandb_project"], "books")
        extra = {"_step", "_timestamp", "_runtime", "preview_generations"}
        self.assertEqual({step: {k: v for k, v in values.items() if k not in extra} for step, values in run.history}, expected)
        for step, values in run.history:
            self.assertEqual(values["_step"], step)
            self.assertGreaterEqual(values["_runtime"], 0)
        self.assertEqual({k: v for k, v in run.summary.items() if k in expected[6]}, expected[6])
        self.assertEqual(len(run.files), 3)
        table = dict(run.history)[6]["preview_generations"]
        self.assertEqual((table["_type"], table["nrows"]), ("table-file", 2))
        written = json.loads(next((self.folder / "tracked" / "wandb").glob(f"*/files/{table['path']}")).read_text())
        self.assertEqual(written["data"], [[6, each["prompt"], 0, each["completion"]] for each in self.previews("tracked")[6]])

        (only,) = server.runs.values()
        self.assertEqual((only["info"]["status"], only["info"]["run_name"], list(server.experiments)), ("FINISHED", "pride", ["books"]))
        self.assertEqual(only["params"]["trainer.wandb_entity"], "austen")
        shown = {}
        for key, step, value in only["metrics"]:
            self.assertNotIn(key, shown.setdefault(step, {}), "twice")
            shown[step][key] = value
        self.assertEqual(shown, expected)

        records = self.trackio()
        self.assertEqual({(r["v"], r["kind"], r["project"], r["run"], r["run_id"]) for r in records},
                         {(1, "metric", "books", "pride", id_before)})
        self.assertEqual(len({r["log_id"] for r in records}), len(records))
        shown = {}
        for record in records:
            shown.setdefault(record["step"], {}).update(record["metrics"])
        self.assertEqual([each["prompt"] for each in shown[6].pop("preview_generations")["_value"]], [e["prompt"] for e in self.previews("tracked")[6]])
        for step in (2, 4):
            shown[step].pop("preview_generations")
        self.assertEqual(shown, expected)
        self.assertEqual([bool(r["config"]) for r in records].count(True), 2)  # the first of each start

    def test_a_tracker_that_is_down_stops_nothing(self):
        server = Mlflow()
        self.addCleanup(server.close)
        sets = ["--report-to", "mlflow", "--set", "report_steps=1", "--set"]
        server.fails = 1
        done = self.end(self.start("late", *sets, f"mlflow_tracking_uri={server.url}", steps=3))
        self.assertEqual((done[0]["step"], done[1].count("[mlflow] http"), done[1].count("503")), (3, 1, 1), done[1])
        (run,) = server.runs.values()
        self.assertEqual({step for _, step, _ in run["metrics"]}, {1, 2, 3})
        gone = Mlflow()
        gone.close()
        done = self.end(self.start("down", *sets, f"mlflow_tracking_uri={gone.url}", steps=3))
        self.assertEqual(done[0]["step"], 3)
        self.assertEqual(done[1].count("Training continues"), 1)
        self.assertRegex(done[1], r"\[mlflow\] 3 rows of metrics were not received; metrics.jsonl has all of them.")
        error = self.fails("refused", "--report-to", "mlflow", steps=1)
        self.assertIn("[mlflow] report_to: mlflow needs a server. Set mlflow_tracking_uri", error)

    def test_samples_are_those_of_the_checkpoint_and_change_nothing(self):
        self.remove("plain")
        self.train("plain", steps=4)
        _, err = self.end(self.start("shown", *PREVIEWS, "--set", "generation_use_train_prompts=true", "--set", "generation_num_prompts=3",
                                     "--set", "generation_dataset_prompt_field=text", "--set", "dashboard=0", steps=4))
        self.same_weights("plain", "shown", 4)
        previews = self.previews("shown")
        self.assertEqual({step: len(each) for step, each in previews.items()}, {2: 3, 4: 3})
        self.check_greedy("shown", 4, previews[4])
        self.assertEqual([each["prompt"] for each in previews[2]][:2], ["It is a truth", "The family of"])
        self.assertEqual(sum(text.endswith(previews[2][2]["prompt"]) for text in self.texts), 1)  # its last 48 tokens
        self.assertNotEqual(previews[2][2]["prompt"], previews[4][2]["prompt"])
        for part in ("[preview] after step 2\n", "[preview] after step 4\n", "It is a truth ", " │ ", "[dashboard] listening on http://127.0.0.1:"):
            self.assertIn(part, err)
        page = (self.folder / "shown" / "report.html").read_text()
        samples = json.loads(page.split('id="data">')[1].split("</script>")[0])["samples"]
        self.assertEqual([sample["step"] for sample in samples], [4, 4, 4, 2, 2, 2])
        self.assertEqual(samples[0] | {"step": 4}, previews[4][0] | {"step": 4})

    def test_samples_of_instructions(self):
        """Alpaca's columns make the prompt that training sees; conversations of from and value end before the answer."""
        rows = [{"instruction": f"Say {i}", "input": "" if i % 2 else "twice", "output": text[:40]} for i, text in enumerate(self.texts)]
        write_rows(self.folder / "alpaca.jsonl", rows)
        sets = ["--set", "generation_interval=2", "--set", "generation_use_train_prompts=true", "--set", "generation_max_new_tokens=5",
                "--set", "shuffle_train_dataset=false", "--length", 300]
        self.train("alpaca", *sets, steps=4, data=("alpaca",))
        previews = self.previews("alpaca")
        for step, (each,) in previews.items():
            # The next step's first row, in the words of https://github.com/tatsu-lab/stanford_alpaca.
            row = rows[step * 4]
            self.assertIn(f"### Instruction:\n{row['instruction']}\n\n### Input:\ntwice\n\n### Response:\n", each["prompt"])
            self.assertTrue(each["prompt"].endswith("### Response:\n"), each)
        self.check_greedy("alpaca", 4, previews[4])
        given = json.dumps([{"instruction": "Say no", "input": ""}])
        self.train("given", "--set", "generation_interval=2", "--set", f"generation_prompts={given}", "--set", "generation_max_new_tokens=5",
                   "--length", 300, steps=2)
        self.assertTrue(self.previews("given")[2][0]["prompt"].endswith("### Instruction:\nSay no\n\n### Response:\n"))
        # With a chat template both are messages.
        path = self.folder / "model" / "tokenizer_config.json"
        self.addCleanup(path.write_text, path.read_text())
        template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
        write_rows(self.folder / "conversations.jsonl", [{"conversations": [{"from": "user", "value": f"Say {i}"},
                                                                            {"from": "assistant", "value": "so"}]} for i in range(16)])
        for data, wanted in (("alpaca", "user: Say 8\n\ntwice\nassistant: "), ("conversations", "user: Say 8\nassistant: ")):
            self.train(f"{data}-chat", *sets, steps=2, data=(data,))
            self.assertEqual([each["prompt"] for each in self.previews(f"{data}-chat")[2]], [wanted])

    def check_greedy(self, output, step, previews):
        """The completions are what transformers writes with the checkpoint."""
        model = AutoModelForCausalLM.from_pretrained(self.folder / output / f"run-{step}")
        for each in previews:
            ids = self.tokenizer(each["prompt"], return_tensors="pt")["input_ids"]
            written = model.generate(ids, do_sample=False, max_new_tokens=5)[0, ids.shape[1]:]
            self.assertEqual(each["completion"], self.tokenizer.decode(written, skip_special_tokens=True))

    def test_a_policy_with_adapters_writes_as_its_rollouts_do(self):
        write_rows(self.folder / "prompts.jsonl", [{"prompt": text[:40]} for text in self.texts])
        sets = {"num_generations": 3, "max_prompt_length": 30, "max_completion_length": 5, "beta": 0, "generation_interval": 1,
                "generation_use_train_prompts": "true", "generation_num_prompts": 2}
        options = ["--trainer", "grpo", "--reward", "regex=e", "--length", 64, "--lora-rank", 2]
        for output, more in (("policy", {}), ("greedy", {"generation_do_sample": "false"})):
            chosen = [part for key, value in (sets | more).items() for part in ("--set", f"{key}={value}")]
            self.train(output, *options, *chosen, steps=2, data=("prompts",))
            previews = self.previews(output)
            self.assertEqual([len(previews[step]) for step in (1, 2)], [6, 6])
            self.assertEqual(len({each["prompt"] for each in previews[2]}), 2)
        self.check_greedy("greedy", 2, previews[2])
        self.assertGreater(len({each["completion"] for each in self.previews("policy")[2]}), 2)

    def test_a_mesh_writes_the_same_samples(self):
        self.train("whole", *PREVIEWS, steps=2)
        self.train("split", "--mesh", "1,2,1,2,1", *PREVIEWS, steps=2)
        self.assertEqual(self.previews("whole"), self.previews("split"))

    def test_checkpoints_go_to_the_hub(self):
        hub = subprocess.Popen([sys.executable, str(REFERENCE / "hub_server.py"), str(self.folder / "hub")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (hub.stdin.close(), hub.wait(), hub.stdout.close()))
        endpoint = json.loads(hub.stdout.readline())["hub"]

        def show(repo):
            hub.stdin.write(json.dumps({"do": "show", "repo": f"models/{repo}", "revision": "main"}) + "\n")
            hub.stdin.flush()
            return json.loads(hub.stdout.readline())

        environment = {"HF_ENDPOINT": endpoint, "HF_TOKEN": "hf_good", "HF_HUB_OFFLINE": "0", "EASYDEL_HUB_RETRY_DELAY": "0.001"}
        push = ["--set", "push_to_hub=true", "--set", "hub_model_id=org/pushed", "--set", "save_total_limit=1"]
        self.train("pushed", *push, environment=environment, steps=6)
        shown = show("org/pushed")
        self.assertEqual(shown["message"].strip(), "Training, step 6")
        local = self.folder / "pushed" / "run-6"
        self.assertEqual(sorted(set(shown["files"]) - {".gitattributes"}), sorted(
            str(path.relative_to(local)) for path in local.rglob("*") if path.is_file()
            and not path.name.startswith("optimizer") and path.name not in ("state.json", "trainer.json")))
        self.assertIn("model.safetensors", shown["files"])
        self.assertEqual(self.checkpoints("pushed"), [6])
        _, err = self.end(self.start("lost", *push, environment=environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}, steps=2))
        self.assertIn("[push_to_hub] ", err)
        self.assertIn("was not uploaded: ", err)
        self.assertIn("push_to_hub needs a token of the hub. Set HF_TOKEN.",
                      self.fails("tokenless", "--set", "push_to_hub=true", steps=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
