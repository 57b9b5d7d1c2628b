"""Runs the easydel command as a user would. usage: command_line_test.py EASYDEL"""

import json
import tempfile
import pathlib
import os
import re
import subprocess
import sys
import unittest

EASYDEL = sys.argv.pop()


def run(*args: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([EASYDEL, *args], capture_output=True, text=True, timeout=120, **options)


def subcommands() -> list[str]:
    return re.findall(r"^  ([a-z][a-z-]*) ", run("--help").stdout.split("Subcommands:")[1], re.M)


class CommandLine(unittest.TestCase):
    def test_alone_prints_its_help(self):
        done = run()
        self.assertEqual(done.returncode, 0)
        self.assertIn("Usage: easydel", done.stdout)
        self.assertIn("doctor", done.stdout)

    def test_help_is_there_on_every_level(self):
        names = subcommands()
        self.assertIn("demo", names)
        for name in names:
            done = run(name, "--help")
            self.assertEqual(done.returncode, 0, name)
            self.assertIn(f"Usage: easydel {name}", done.stdout)

    def test_help_fits_the_screen_and_its_examples_have_flags_that_exist(self):
        names = subcommands()
        examples = 0
        for words in [(), *((name,) for name in names), ("bench", "serve"), ("demo", "rl"), ("lora", "merge")]:
            text = run(*words, "--help").stdout
            self.assertEqual([line for line in text.splitlines() if len(line) > 120], [], words)
            self.assertNotRegex(text, r"Option Group|\{false\}|:POSITIVE|\n\n\n| \n")
            self.assertEqual(text.count("-h, --help"), 1, words)
            for line in re.findall(r"^  easydel (.*)$", text, re.M):
                examples += 1
                self.assertEqual(line.split()[0], words[0], line)
                for flag in re.findall(r"(?<=\s)--[a-z-]+", line):
                    self.assertRegex(text, rf"(?m)^  (?:\S+, )?{flag}(?:[ ,]|$)", line)
        self.assertGreater(examples, 15)

    def test_version_names_torch_and_features(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^easydel \d+\.\d+\.\d+ \(torch \d+\.\d+")
        self.assertRegex(done.stdout, r"features: [+-]CUDA [+-]NCCL [+-]MPI")

    def test_unknown_subcommand_is_a_usage_error_with_the_nearest(self):
        done = run("dcotor")
        self.assertEqual(done.returncode, 2)
        self.assertIn('easydel: unknown subcommand "dcotor"; known: ', done.stderr)
        self.assertIn('Did you mean "doctor"?\nTry: easydel --help\n', done.stderr)
        self.assertEqual(done.stdout, "")

    def test_unknown_option_is_a_usage_error(self):
        done = run("doctor", "--jsn")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--jsn", done.stderr)
        self.assertIn("Try: easydel doctor --help", done.stderr)

    def test_a_misspelt_option_gets_the_nearest(self):
        for arguments, message in (
            (("generate", "m", "--temprature", "0.5"), "unknown option --temprature. Did you mean --temperature?"),
            (("generate", "m", "--max-new-token=4", "--qqqqqq"), "unknown option --max-new-token. Did you mean --max-new-tokens?"),
            (("models", "--qqqqqqqq"), "unknown option --qqqqqqqq."),
            (("models", "extra"), 'unexpected argument "extra".'),
            (("lora", "mrege"), 'unknown subcommand "mrege"; known: merge. Did you mean "merge"?'),
        ):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (2, f"easydel: {message}"))

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        for arguments in (("models",), ("--help",), ("doctor",)):
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([EASYDEL, *arguments], stdout=writing, stderr=subprocess.PIPE)
            os.close(writing)
            self.assertEqual((done.returncode, done.stderr), (128 + 13, b""), arguments)

    def test_a_model_that_is_not_there_is_named_at_once(self):
        environment = os.environ | {"HF_ENDPOINT": "http://no-such-host.invalid", "HF_HUB_OFFLINE": "0"}
        done = run("chat", "nosuch", env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith('easydel: [hub] directory "nosuch" does not exist, and the hub does not respond: '),
                        done.stderr)
        self.assertNotIn("Try 1 of", done.stderr)
        for name in ("nosuch.gguf", "dir/config.json"):
            done = run("generate", name, env=environment)
            self.assertEqual((done.returncode, done.stderr), (1, f'easydel: [hub] file "{name}" does not exist.\n'))

    def test_a_device_that_is_not_there_is_named_before_anything_is_read(self):
        device = "cuda:99"
        for command in ("generate", "chat"):
            done = run(command, "/no/such/directory", "--device", device)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"easydel: \[device\] cuda:99 (needs a build with CUDA|needs a GPU|is not there)")

    def test_doctor_reports_in_words_and_as_json(self):
        words = run("doctor")
        self.assertEqual(words.returncode, 0, words.stderr)
        report = json.loads(run("doctor", "--json").stdout)
        self.assertIn(report["machine"]["cpu"], words.stdout)
        self.assertTrue(report["bf16_product"])
        self.assertGreater(report["machine"]["memory_bytes"], 0)
        for feature in report["features"]:
            self.assertEqual(feature["present"], "how_to_add" not in feature)
        present = {feature["name"].lower() for feature in report["features"] if feature["present"]}
        self.assertEqual({backend["name"] for backend in report["ranks"]}, {"threads"} | present & {"mpi", "nccl"})
        self.assertIn("threads (--devices)", words.stdout)

    def test_demo_learns_from_its_book(self):
        book = pathlib.Path(__file__).parents[2] / "examples/demo/pride_and_prejudice.txt"
        with tempfile.TemporaryDirectory() as directory:
            done = run("demo", "--json", "--corpus", book, "--output", f"{directory}/demo", "--steps", "12", "--hidden", "64", "--layers", "2",
                       "--batch", "4", "--length", "64", "--vocabulary", "512")
            report = json.loads(done.stdout)
            self.assertLess(report["last_loss"], report["first_loss"] - 0.3)
            self.assertGreater(report["gzip_bits_per_byte"], 2)
            self.assertEqual(len(report["samples"]), 3)
            for path in (report["checkpoint"], report["report"]):
                self.assertTrue(pathlib.Path(path).exists(), path)
            self.assertEqual(run("demo", "--corpus", f"{directory}/none").returncode, 2)

    def test_demo_rl_trains_in_two_stages_and_measures_both(self):
        with tempfile.TemporaryDirectory() as directory:
            small = ["demo", "rl", "--examples", "64", "--held-out", "20", "--steps", "2", "--prompts", "2", "--group", "4", "--hidden", "32",
                     "--layers", "1", "--output", f"{directory}/rl", "--sft-steps"]
            done = run(*small, "4", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            seen = json.loads(done.stdout[done.stdout.index("{"):])
            self.assertEqual([stage["after"] for stage in seen["stages"]], ["SFT", "GRPO"])
            self.assertTrue(all(0 <= stage["exact_match"] <= 1 for stage in seen["stages"]), seen)
            for stage, steps in (("sft", 4), ("grpo", 2)):
                lines = (pathlib.Path(directory) / "rl" / stage / "metrics.jsonl").read_text().splitlines()
                self.assertEqual(len(lines), steps, stage)
            self.assertIn("reward", json.loads(lines[0]))
            table = run(*small, "4", "--reward", "exact", "--control", "random", "--control", "sft")
            self.assertRegex(table.stdout, r"after +steps +time +exact match on unseen pairs\nSFT +4 +\d+ s +\d.*\nGRPO +2 .*\n"
                                           r"GRPO, random rewards +2 .*\nmore SFT instead +\d+ ")
            self.assertIn("pairs of two-digit numbers: 64 for SFT, 200 for validation, 7816 for GRPO "
                          "(reward exact), 20 held out", table.stdout)
            # SFT goes on in turns, as one run, and ends when the model is good enough.
            turns = run(*small, "50", "--json")
            stage = json.loads(turns.stdout[turns.stdout.index("{"):])["stages"][0]
            self.assertEqual(stage["steps"], 50)
            lines = (pathlib.Path(directory) / "rl" / "sft" / "metrics.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["step"] for line in lines], list(range(1, 51)))
            ended = run(*small, "50", "--sft-until", "0", "--json")
            self.assertEqual(json.loads(ended.stdout[ended.stdout.index("{"):])["stages"][0]["steps"], 20)

    def test_demo_removes_nothing_that_it_did_not_make(self):
        book = pathlib.Path(__file__).parents[2] / "examples/demo/pride_and_prejudice.txt"
        text = book.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            corpus = pathlib.Path(directory) / "book.txt"
            corpus.write_text("".join(f"Chapter {i}\n{text[2000 * i:2000 * i + 1000]}\n" for i in range(1, 7)))
            mine = pathlib.Path(directory) / "mine"
            mine.mkdir()
            (mine / "thesis.txt").write_text("years of work")
            arguments = ["demo", "--json", "--corpus", corpus, "--steps", "2", "--hidden", "64", "--layers", "1", "--batch", "4",
                         "--length", "64", "--vocabulary", "300", "--mesh", "1,1,1,1,1"]
            done = run(*arguments, "--output", mine)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, f"easydel: --output {mine} is not empty and is not the directory of a demo (it has no "
                                          "demo.json). Choose another one, or remove it first.\nTry: easydel demo --help\n")
            self.assertEqual([path.name for path in mine.iterdir()], ["thesis.txt"])
            # In the directory of a demo it replaces what a demo made, and nothing else.
            self.assertEqual(run(*arguments, "--output", f"{directory}/demo").returncode, 0)
            (pathlib.Path(directory) / "demo" / "notes.txt").write_text("mine")
            self.assertEqual(run(*arguments, "--output", f"{directory}/demo").returncode, 0)
            self.assertEqual((pathlib.Path(directory) / "demo" / "notes.txt").read_text(), "mine")

    def test_bad_value_is_a_usage_error(self):
        self.assertEqual(run("demo", "--steps", "0").returncode, 2)
        self.assertEqual(run("demo", "--steps", "many").returncode, 2)

    def test_a_lower_kind_of_cpu(self):
        machine = json.loads(run("doctor", "--json").stdout)["machine"]
        self.assertEqual(machine["cpu_kind"], machine["cpu_kinds"][-1])
        for kind in machine["cpu_kinds"]:
            chosen = json.loads(run("--cpu", kind, "doctor", "--json").stdout)["machine"]
            self.assertEqual(chosen["cpu_kind"], kind)
        done = run("--cpu", "z80", "doctor")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        known = ", ".join(machine["cpu_kinds"])
        self.assertIn(f'easydel: [EASYDEL_CPU] this machine supports {known}; got "z80".\n', done.stderr)

    def test_full_output_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([EASYDEL, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "easydel: [standard output] cannot be written: No space left on device.\n")

    def test_log_level_is_checked(self):
        done = run("--log", "loud", "doctor")
        self.assertEqual(done.returncode, 2)
        self.assertIn('must be one of debug, info, warning, error, off; got "loud"', done.stderr)


if __name__ == "__main__":
    unittest.main()
