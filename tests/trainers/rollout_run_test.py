"""Whole runs of grpo from the command line: rollouts by the weights that are trained, rewards that fail, a run that is
killed. usage: rollout_run_test.py EASYDEL"""

import http.server
import math
import threading

from tiny_run import *

from transformers import AutoModelForSequenceClassification

SETTINGS = {"num_generations": 4, "max_prompt_length": 40, "max_completion_length": 8, "beta": 0, "num_iterations": 2,
            "steps_per_generation": 2, "log_completions": "true", "num_completions_to_print": 0}


class RolloutRun(TinyRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_rows(cls.folder / "prompts.jsonl", [{"prompt": text[:80], "answer": i} for i, text in enumerate(cls.texts)])

    def rolled(self, *more, **changes):
        sets = [part for key, value in (SETTINGS | changes).items() for part in ("--set", f"{key}={value}")]
        return ["--trainer", "grpo", "--length", "64", *sets, *more]

    def run_rolled(self, output, *more, steps=4, reward="regex=e", **changes):
        self.train(output, *self.rolled("--reward", reward, *more, **changes), steps=steps, data=("prompts",))
        return self.log(output)[0]

    def fails_with(self, reward):
        return self.fails("failing", *self.rolled("--reward", reward), steps=2, data=("prompts",))

    def test_sampling_and_training_agree_and_a_prompt_is_computed_once(self):
        log = self.run_rolled("agree", num_iterations=1, steps_per_generation=1, num_generations=8)
        rows = [json.loads(line) for line in (self.folder / "agree" / "completions.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), 4 * 4 * 8)
        for step, metrics in log.items():
            self.assertLess(metrics["sampling_logp_difference"], 1e-5)
            own = [row for row in rows if row["step"] == step]
            prompts = [len(self.tokenizer(prompt).input_ids) for prompt in [row["prompt"] for row in own][::8]]
            once = sum(prompts)
            # Of each other completion at most what does not fill a page is computed again.
            again = 7 * sum((size - 1) % 16 + 1 for size in prompts)
            self.assertEqual(metrics["prefilled_tokens"], once + again)
            self.assertLess(metrics["prefilled_tokens"], 8 * once)
            self.assertAlmostEqual(metrics["reward"], sum(row["reward"] for row in own) / len(own), places=6)
            groups = [[row["reward"] for row in own[i:i + 8]] for i in range(0, len(own), 8)]
            for group, first in zip(groups, range(0, len(own), 8)):
                mean = sum(group) / 8
                deviation = (sum((reward - mean) ** 2 for reward in group) / 7) ** 0.5
                for row in own[first:first + 8]:
                    self.assertAlmostEqual(row["advantage"], (row["reward"] - mean) / (deviation + 1e-4), places=6)

    def test_the_reward_rises(self):
        log = self.run_rolled("rises", "--learning-rate", "3e-3", steps=24, num_iterations=1, steps_per_generation=1,
                              num_generations=8)
        self.assertGreater(log[24]["reward"], log[1]["reward"] + 0.2)

    def test_preferences_between_own_samples(self):
        sets = [part for key, value in {"max_prompt_length": 40, "max_completion_length": 6, "log_completions": "true",
                                        "num_completions_to_print": 0}.items() for part in ("--set", f"{key}={value}")]
        for trainer, metric in (("online_dpo", "rewards/accuracies"), ("xpo", "loss/xpo"), ("nash_md", "rewards/probabilities")):
            for more in ([], ["--set", "lora_rank=2"]):
                with self.subTest(trainer, more=more):
                    output = f"{trainer}-{len(more)}"
                    self.train(output, "--trainer", trainer, "--reward", "regex=e", "--length", "64", *sets, *more, steps=2, data=("prompts",))
                    log = self.log(output)[0]
                    self.assertTrue(all(math.isfinite(log[step][name]) for step in (1, 2) for name in (metric, "loss", "reward")), log)
                    rows = [json.loads(line) for line in (self.folder / output / "completions.jsonl").read_text().splitlines()]
                    self.assertEqual(len(rows), 2 * 4 * 2)
                    for first, second in zip(rows[::2], rows[1::2]):
                        self.assertEqual(first["prompt"], second["prompt"])
                        self.assertAlmostEqual(first["advantage"], -second["advantage"])
                        self.assertAlmostEqual(first["advantage"] + 0.5, 1 / (1 + math.exp(second["reward"] - first["reward"])), places=6)
        error = self.fails("failing", "--trainer", "nash_md", "--reward", "regex=e", "--length", "64", *sets, "--devices", "2",
                           "--mesh", "1,1,1,2,1", steps=2, data=("prompts",))
        self.assertIn("[nash_md] sampling from a mixture of two models is not supported on a mesh. Use one device, or xpo.", error)

    def test_a_killed_run_ends_as_one_that_was_left_alone(self):
        """Killed by its own reward, in the middle of the second and the third generation, and at moments between."""
        judge = self.program("killer", "import os, pathlib, signal\n"
                             "kills = pathlib.Path(os.environ['KILLS'])\n"
                             "for number, line in enumerate(sys.stdin):\n"
                             "    if number == 37 and len(list(kills.iterdir())) < 2:\n"
                             "        (kills / str(os.getpid())).touch()\n"
                             "        os.kill(os.getppid(), signal.SIGKILL)\n"
                             "    print(len(json.loads(line)['completion']) / 10, flush=True)\n")
        arguments = self.rolled("--reward", judge, "--save-steps", 1)
        done, fresh = self.folder / "no-kills", self.folder / "kills"
        done.mkdir()
        fresh.mkdir()
        for name in ("1", "2"):
            (done / name).touch()
        self.end(self.start("whole", *arguments, steps=12, data=("prompts",), environment={"KILLS": str(done)}))
        # None where a generation ends.
        self.assertEqual(len(list((self.folder / "whole").glob("run-*/rollouts.json"))), 9)
        for _ in range(2):
            process = self.start("killed", *arguments, steps=12, data=("prompts",), environment={"KILLS": str(fresh)})
            process.communicate(timeout=120)
            self.assertEqual(process.returncode, -signal.SIGKILL)
        process = self.start("killed", *arguments, steps=12, data=("prompts",), environment={"KILLS": str(fresh)})
        time.sleep(1.5)
        process.kill()
        process.communicate()
        self.end(self.start("killed", *arguments, steps=12, data=("prompts",), environment={"KILLS": str(fresh)}))
        whole, killed = self.log("whole")[0], self.log("killed")[0]
        self.assertEqual([killed[step]["loss"] for step in killed], [whole[step]["loss"] for step in killed])
        self.same_weights("whole", "killed", 12)

    def test_completions_are_logged_once(self):
        """Of steps that are done again after a resume, and of a run that begins anew; some of them as a table."""
        arguments = self.rolled("--reward", "regex=e", "--save-steps", 2, num_iterations=1, steps_per_generation=1,
                                num_completions_to_print=3)
        _, shown = self.end(self.start("logged", *arguments, steps=4, data=("prompts",)))
        path = self.folder / "logged" / "completions.jsonl"
        before = path.read_text()
        rows = [json.loads(line) for line in before.splitlines()]
        self.assertEqual([row["step"] for row in rows], [1 + i // 16 for i in range(64)])
        titles = [i for i, line in enumerate(shown.splitlines()) if line.startswith("[completions] step ")]
        self.assertEqual(len(titles), 4)
        header, first, *_ = shown.splitlines()[titles[0] + 1:]
        self.assertEqual([cell.strip() for cell in header.split(" │ ")], ["prompt", "completion", "reward", "advantage"])
        cells = [cell.strip() for cell in first.split(" │ ")]
        self.assertEqual((float(cells[2]), float(cells[3])), (rows[0]["reward"], round(rows[0]["advantage"], 4)))
        self.assertTrue(cells[0].endswith("…"), cells)
        shutil.rmtree(self.folder / "logged" / "run-4")
        with open(path, "a") as file:
            file.write('{"step": 4, "prompt": "a line that was not fin')
        self.train("logged", *arguments, steps=4, data=("prompts",))
        self.assertEqual(path.read_text(), before)
        self.train("logged", *arguments, "--set", "resume_if_possible=false", steps=4, data=("prompts",))
        self.assertEqual(path.read_text(), before)

    def test_a_killed_run_of_ppo_ends_as_one_that_was_left_alone(self):
        """With its value model: weights, optimizer and all; saved while training goes on, between two generations."""
        sets = {"max_prompt_length": 40, "max_completion_length": 6, "num_generations": 2, "num_ppo_epochs": 2, "num_mini_batches": 2}
        arguments = ["--trainer", "ppo", "--reward", "regex=e", "--length", "64", "--save-steps", 1,
                     *(part for key, value in sets.items() for part in ("--set", f"{key}={value}"))]
        self.train("critic", *arguments, steps=7, data=("prompts",))
        process = self.start("critic-killed", *arguments, steps=7, data=("prompts",))
        while len(self.checkpoints("critic-killed")) < 3 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL)
        begun = max(self.checkpoints("critic-killed"))
        self.assertLess(begun, 7)
        self.train("critic-killed", *arguments, steps=7, data=("prompts",))
        self.same_weights("critic", "critic-killed", 7)
        whole, killed = self.log("critic")[0], self.log("critic-killed")[0]
        self.assertEqual([killed[step]["loss"] for step in killed], [whole[step]["loss"] for step in killed])
        value = self.folder / "critic" / "run-7" / "value"
        begin, end = (AutoModelForSequenceClassification.from_pretrained(path) for path in
                      (self.folder / "critic" / "run-1" / "value", value))
        self.assertEqual(end.config.num_labels, 1)
        self.assertGreater((begin.score.weight - end.score.weight).abs().max().item(), 1e-3)
        self.assertTrue((value / "optimizer.safetensors").exists())
        shutil.rmtree(value)
        shutil.rmtree(self.folder / "critic" / "run-6")
        self.assertRegex(self.fails("critic", *arguments, steps=8, data=("prompts",)), r"^\[resume_from\] critic/run-7 has no value model")

    def test_ppo_learns_and_takes_a_mesh_and_adapters(self):
        sets = {"max_prompt_length": 40, "max_completion_length": 8, "num_generations": 4, "temperature": 1.0, "top_p": 1.0}
        arguments = ["--trainer", "ppo", "--reward", "regex=e", "--length", "64",
                     *(part for key, value in sets.items() for part in ("--set", f"{key}={value}"))]
        self.train("ppo-learns", *arguments, "--learning-rate", "3e-3", steps=24, data=("prompts",))
        log = self.log("ppo-learns")[0]
        self.assertGreater(sum(log[step]["reward"] for step in (22, 23, 24)), sum(log[step]["reward"] for step in (1, 2, 3)) + 0.4)
        self.assertLess(max(log[step]["sampling_logp_difference"] for step in log), 1e-5)
        self.assertEqual(log[1]["objective/kl"], 0)  # the reference is the model as it began
        self.assertGreater(log[24]["objective/kl"], 0)
        self.train("ppo-rows", *arguments, "--mesh", "1,2,1,2,1", steps=3, data=("prompts",))
        self.train("ppo-alone", *arguments, "--set", "track_memory=0.1", steps=3, data=("prompts",))
        same = ["grpo" if part == "ppo" else part for part in arguments]
        self.train("without-value", *same, "--set", "track_memory=0.1", steps=1, data=("prompts",))
        value = (self.folder / "ppo-alone" / "run-3" / "value" / "model.safetensors").stat().st_size
        needed = [self.log(name)[0][1]["memory_estimate"] for name in ("ppo-alone", "without-value")]
        self.assertGreater(needed[0] - needed[1], 3 * 0.9 * value)  # its weights, and two numbers of adamw for each
        for step, alone in self.log("ppo-alone")[0].items():
            several = self.log("ppo-rows")[0][step]
            self.assertAlmostEqual(alone["loss"], several["loss"], places=5)
            self.assertAlmostEqual(alone["grad_norm"], several["grad_norm"], places=4)
        self.train("ppo-adapted", *arguments, "--lora-rank", 2, steps=2, data=("prompts",))
        self.assertTrue((self.folder / "ppo-adapted" / "run-2" / "value" / "model.safetensors").exists())

    def test_a_mesh_gives_the_same_curve(self):
        one = self.run_rolled("alone", steps=8)
        self.assertGreater(min(abs(one[step]["loss"]) for step in (2, 3, 4)), 1e-3)  # there is something to compare
        for name, mesh in (("rows", "2,1,1,1,1"), ("parts", "1,2,1,1,1"), ("heads", "1,1,1,2,1"), ("all", "2,2,1,2,1")):
            several = self.run_rolled(name, "--mesh", mesh, steps=8)
            self.assertEqual(list(one), list(several))
            for step in one:
                self.assertAlmostEqual(one[step]["loss"], several[step]["loss"], places=5)
                self.assertEqual(one[step].get("reward"), several[step].get("reward"))

    def test_with_adapters_the_base_is_the_reference(self):
        log = self.run_rolled("adapters", "--lora-rank", "2", beta=0.1, num_iterations=1, steps_per_generation=1)
        other = self.run_rolled("second", "--lora-rank", "2", "--reference", str(self.folder / "model"), beta=0.1,
                                num_iterations=1, steps_per_generation=1)
        self.assertEqual([log[step]["kl"] for step in log], [other[step]["kl"] for step in other])
        self.assertEqual(log[1]["kl"], 0)
        self.assertGreater(log[4]["kl"], 0)

    def test_with_adapters_the_base_is_the_reference_of_answers_too(self):
        """No second model is there, and the numbers are those that it would have."""
        pairs = [{"prompt": text[:30], "chosen": text[30:50], "rejected": text[50:70]} for text in self.texts if len(text) > 70]
        write_rows(self.folder / "pairs.jsonl", pairs)
        write_rows(self.folder / "answers.jsonl", [{"prompt": pair["prompt"], "completion": pair["chosen" if i % 3 else "rejected"],
                                                    "label": i % 3 > 0} for i, pair in enumerate(pairs)])
        for trainer, data, more in (("dpo", "pairs", []), ("kto", "answers", []),
                                    ("bco", "answers", ["--set", "underlying_distribution_matching=true"])):
            with self.subTest(trainer):
                arguments = ["--trainer", trainer, "--lora-rank", 2, "--set", "max_prompt_length=40", "--length", 100,
                             "--set", "track_memory=0.1", *more]
                self.train(f"{trainer}-base", *arguments, steps=4, data=(data,))
                self.train(f"{trainer}-model", *arguments, "--reference", self.folder / "model", steps=4, data=(data,))
                own, other = self.log(f"{trainer}-base")[0], self.log(f"{trainer}-model")[0]
                self.assertEqual(list(own), list(other))
                for step in own:
                    for name in ("loss", "rewards/chosen", "grad_norm"):
                        self.assertAlmostEqual(own[step].get(name, 0), other[step].get(name, 0), places=6, msg=name)
                self.assertNotEqual(own[1]["loss"], own[4]["loss"])
                weights = (self.folder / "model" / "model.safetensors").stat().st_size
                self.assertGreater(other[1]["memory_estimate"] - own[1]["memory_estimate"], 0.9 * weights)
                if trainer != "dpo":  # which may have the reference's numbers in its rows
                    plain = [part for part in arguments if part not in ("--lora-rank", 2)]
                    self.train(f"{trainer}-plain", *plain, steps=1, data=(data,))  # without adapters a second model is loaded

    def test_an_evaluation_generates(self):
        write_rows(self.folder / "held.jsonl", [{"prompt": text[:60]} for text in self.texts[:3]])
        self.run_rolled("evaluated", "--eval-data", str(self.folder / "held.jsonl"), "--eval-steps", 4)
        evaluation = self.log("evaluated")[1][4]
        self.assertTrue(0 <= evaluation["eval_reward"] <= 1)
        self.assertIn("eval_entropy", evaluation)

    def program(self, name, code):
        path = self.folder / f"{name}.py"
        path.write_text("import json, sys, time\n" + code)
        return f"command={sys.executable} {path}"

    def test_a_program_rewards(self):
        judge = self.program("judge", "for line in sys.stdin:\n"
                             "    given = json.loads(line)\n"
                             "    print(json.dumps(None if given['row']['answer'] == 3 else len(given['completion']) / 10), flush=True)\n")
        log = self.run_rolled("judged", reward=judge)
        rows = [json.loads(line) for line in (self.folder / "judged" / "completions.jsonl").read_text().splitlines()]
        for row in rows:
            wanted = None if row["prompt"] == self.texts[3][:80] else len(row["completion"]) / 10
            self.assertEqual(row["reward"], wanted)
        for metrics in log.values():
            if "reward" in metrics:
                self.assertTrue(0 <= metrics["rewards_during_rollout"] <= 1 and metrics["reward_wait_seconds"] >= 0, metrics)
        self.assertNotIn("rewards_during_rollout", self.run_rolled("built-in", steps=2)[1])

    def test_programs_are_asked_at_the_same_time(self):
        """Each waits until the other was asked."""
        judges = [self.program(f"meets{i}", "import pathlib\n"
                               f"own, other = (pathlib.Path({str(self.folder)!r}) / f'asked{{i}}' for i in ({i}, {1 - i}))\n"
                               "for line in sys.stdin:\n"
                               "    own.touch()\n"
                               "    while not other.exists(): time.sleep(0.01)\n"
                               f"    print({i}.5, flush=True)\n") for i in range(2)]
        self.run_rolled("meeting", "--reward", judges[1], reward=judges[0], steps=1)
        rows = [json.loads(line) for line in (self.folder / "meeting" / "completions.jsonl").read_text().splitlines()]
        self.assertEqual({row["reward"] for row in rows}, {2.0})

    def test_a_library_rewards(self):
        source = self.folder / "judge.cpp"
        source.write_text('#include <cmath>\n#include <cstring>\n'
                          'extern "C" double reward(const char* prompt, const char* completion, const char* row) {\n'
                          '  if (std::strstr(row, "\\"answer\\": 3,") || std::strstr(row, "\\"answer\\": 3}")) return NAN;\n'
                          '  return std::strlen(prompt) + 0.001 * std::strlen(completion);\n}\n')
        library = self.folder / "judge.so"
        subprocess.run([os.environ.get("CXX", "c++"), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        self.run_rolled("library", reward=f"library={library}", steps=2)
        rows = [json.loads(line) for line in (self.folder / "library" / "completions.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), 32)
        judged_by_none = self.tokenizer.decode(self.tokenizer(self.texts[3][:80]).input_ids[-40:])
        for row in rows:
            lengths = [len(row[name].split("\0")[0].encode()) for name in ("prompt", "completion")]  # as C has them
            self.assertEqual(row["reward"], None if row["prompt"] == judged_by_none else lengths[0] + 0.001 * lengths[1])
        self.assertRegex(self.fails_with("library=judge.cpp"), r"^\[rewards\] library: .*judge.cpp: .*\.")
        error = self.fails("failing", *self.rolled("--set", f"rewards={json.dumps({'type': 'library', 'path': str(library), 'function': 'judge'})}"),
                           steps=2, data=("prompts",))
        self.assertEqual(error, '[rewards] judge.so has no function "judge". It must be declared extern "C".')
        source.write_text('#include <cmath>\nextern "C" double reward(const char*, const char*, const char*) { return -INFINITY; }\n')
        boundless = self.folder / "boundless.so"
        subprocess.run([os.environ.get("CXX", "c++"), "-shared", "-fPIC", str(source), "-o", str(boundless)], check=True)
        self.assertEqual(self.fails_with(f"library={boundless}"), "[rewards] library must return a finite number or NaN; got -inf.")

    def test_what_a_program_may_do_wrong(self):
        begin = time.monotonic()
        hanging = self.program("hanging", "time.sleep(60)\n")
        config = self.folder / "hanging.yaml"
        config.write_text(json.dumps({"type": "command", "command": hanging.removeprefix("command="), "timeout": 1}))
        error = self.fails("failing", *self.rolled("--set", f"rewards={config.read_text()}"), steps=2, data=("prompts",))
        self.assertRegex(error, r'^\[rewards\] ".*hanging.py" did not answer within its timeout of 1 seconds\.')
        self.assertLess(time.monotonic() - begin, 50)
        self.assertRegex(self.fails_with(self.program("crashing", "sys.stdin.readline()\nsys.exit(7)\n")),
                         r'^\[rewards\] ".*crashing.py" ended with status 7 after 0 answers\.')
        self.assertRegex(self.fails_with(self.program("babbling", "for line in sys.stdin: print('well done', flush=True)\n")),
                         r'^\[rewards\] ".*babbling.py" must return a number or null for each completion; got "well done"\.')
        self.assertRegex(self.fails_with("command=no-such-program-at-all"), r'^\[rewards\] "no-such-program-at-all" cannot be started: ')
        self.assertRegex(self.fails_with("praise"), r'^\[rewards\] "praise" is unknown; known: exact, ')
        self.assertRegex(self.fails_with("numeric=question"), r'^\[rewards\] numeric compares with the column "question", which a row lacks\.')

    def test_a_server_rewards(self):
        answers, sizes = [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                sizes.append(len(given["completions"]))
                body = json.dumps({"rewards": [len(text) for text in given["completions"]]} if not answers else answers[0]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http=http://127.0.0.1:{server.server_port}/"
        self.run_rolled("served", reward=url)
        rows = [json.loads(line) for line in (self.folder / "served" / "completions.jsonl").read_text().splitlines()]
        self.assertTrue(all(row["reward"] == len(row["completion"]) for row in rows))
        self.assertEqual(sizes, [4] * 8)  # the completions of a prompt at a time, while others are still written
        for batch, wanted in (("group", [4] * 8), ("rollout", [32])):
            sizes.clear()
            settings = {"type": "http", "url": url.removeprefix("http="), "workers": 2, "batch": batch}
            self.train(f"served-{batch}", *self.rolled("--set", f"rewards={json.dumps(settings)}"), steps=2, data=("prompts",))
            self.assertEqual(sizes, wanted)
            again = [json.loads(line) for line in (self.folder / f"served-{batch}" / "completions.jsonl").read_text().splitlines()]
            self.assertEqual(again, rows[:32])
        answers.append([1, 2])
        self.assertRegex(self.fails_with(url), r"must return a list with a number or null for each of the 4 completions; got 2\.")
        server.shutdown()


if __name__ == "__main__":
    unittest.main()
