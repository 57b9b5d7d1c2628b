"""`easydel dashboard` in a real Chromium: a run that goes on, runs that are compared, a long one.
usage: dashboard_test.py EASYDEL [--screenshots DIRECTORY]"""

import json
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "serve"))

SHOTS = pathlib.Path(sys.argv.pop()) if "--screenshots" in sys.argv else None
if SHOTS:
    sys.argv.remove("--screenshots")
EASYDEL = sys.argv.pop()

from chromium import Page
from page_cases import Pages


def line(step, offset=0.0):
    return {"step": step, "time": 1794888000.0 + 2 * step, "loss": 2.5 * math.exp(-step / 400) + 0.8 + offset + 0.2 * math.sin(step * 1.7),
            "learning_rate": 1e-3 * min(1, step / 20), "grad_norm": 1 + 0.5 * math.cos(step), "tokens_per_second": 9000 + 300 * math.sin(step / 9),
            "peak_memory_bytes": 3 * 2**30, "num_tokens": 512 * step, "samples": 8 * step, "reward": 1 - math.exp(-step / 300)}


def sample(step):
    return {"step": step, "prompt": f"{step}+4=", "completion": f"<b>{step + 4}</b>", "rewards": {"exact": 1.0}, "reward": 1.0, "advantage": 0.5}


class RunFolder:
    def __init__(self, path, steps, offset=0.0):
        self.path, self.offset, self.steps = path, offset, 0
        path.mkdir()
        (path / "run.json").write_text(json.dumps({"name": "GRPO-llama", "trainer": "grpo", "started": 1794888000.0, "total_steps": 400,
                                                   "model": "org/name", "config": {"trainer": {"learning_rate": 0.001}}}))
        self.go_on(steps)

    def go_on(self, steps):
        with open(self.path / "metrics.jsonl", "a") as file:
            file.writelines(json.dumps(line(self.steps + i, self.offset)) + "\n" for i in range(1, steps + 1))
        self.steps += steps

    def write_sample(self):
        with open(self.path / "completions.jsonl", "a") as file:
            file.write(json.dumps(sample(self.steps)) + "\n")


class Served:
    def __init__(self, *runs):
        self.process = subprocess.Popen([EASYDEL, "dashboard", *map(str, runs), "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().removeprefix("listening on ").strip().rstrip("/")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        self.process.stdout.close()
        return status


class RunDashboard(Pages):
    shots = SHOTS

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def open(self, *runs):
        self.server = Served(*(run.path for run in runs))
        self.addCleanup(lambda: self.assertEqual(self.server.close(), 0))
        self.page = Page(self.browser, self.server.url + "/")
        self.addCleanup(self.page.close)
        self.addCleanup(self.check_page)
        self.page.until("document.querySelectorAll('figure').length > 0 && document.getElementById('live').innerText === 'Live'")

    def card(self, name):
        return self.page.js(f"[...document.querySelectorAll('.card')].find((c) => c.children[0].innerText === {json.dumps(name)})?.children[1].innerText")

    def test_a_run_that_goes_on(self):
        run = RunFolder(self.folder / "run", 60)
        self.open(run)
        titles = self.page.js("[...document.querySelectorAll('figure svg')].map((s) => s.getAttribute('aria-label'))")
        self.assertLessEqual({"loss", "grad_norm", "learning_rate", "tokens_per_second", "peak_memory_bytes", "reward"}, set(titles))
        self.assertEqual((self.card("steps"), self.text("h1"), self.count("#samples tr")), ("60 of 400", "GRPO-llama", 0))
        before = self.page.js("document.querySelector('[aria-label=loss] .smooth').getAttribute('d')")
        run.go_on(120)
        run.write_sample()
        self.page.until("document.querySelectorAll('#samples tr').length === 1")
        self.assertEqual(self.card("steps"), "180 of 400")
        self.assertNotEqual(self.page.js("document.querySelector('[aria-label=loss] .smooth').getAttribute('d')"), before)
        self.assertEqual(self.texts("#samples tr:first-child > *"), ["step 180", "180+4=", "<b>184</b>", "1"])
        with open(run.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"step": 180, "time": 1794888360.5, "generations": [{"prompt": "Once", "completion": "upon <i>a"}]}) + "\n")
        self.page.until("document.querySelectorAll('#samples tr').length === 2")
        self.assertEqual(self.texts("#samples tr:first-child > *"), ["step 180", "Once", "upon <i>a", ""])
        self.assertEqual(self.count("figure"), len(titles))
        # The controls act on the charts that are shown now.
        smoothed = self.page.js("document.querySelector('[aria-label=loss] .smooth').getAttribute('d')")
        self.page.js("(() => { const s = document.getElementById('smoothing'); s.value = 0; s.dispatchEvent(new Event('input')); })()")
        self.assertNotEqual(self.page.js("document.querySelector('[aria-label=loss] .smooth').getAttribute('d')"), smoothed)
        self.shot("dashboard-run.png")
        # A run that resumes has fewer lines in another file.
        rows = (run.path / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run.path / "new").write_text("".join(rows[:100]))
        (run.path / "new").rename(run.path / "metrics.jsonl")
        self.page.until("[...document.querySelectorAll('.card strong')].some((c) => c.innerText === '100 of 400')")

    def test_runs_are_compared(self):
        runs = [RunFolder(self.folder / "first", 300), RunFolder(self.folder / "second", 200, 0.4)]
        self.open(*runs)
        self.assertEqual(self.page.js("[...document.querySelector('[aria-label=loss]').parentNode.querySelectorAll('figcaption span')].map((s) => s.innerText)"),
                         ["first: loss", "second: loss"])
        self.assertEqual(self.page.js("document.querySelectorAll('[aria-label=loss] .smooth').length"), 2)
        self.shot("dashboard-runs.png")

    def test_a_long_run_is_thinned_on_the_server(self):
        run = RunFolder(self.folder / "long", 100_000)
        self.open(run)
        self.assertEqual(self.card("steps"), "100,000 of 400")
        with urllib.request.urlopen(self.server.url + "/data") as answer:
            data = json.load(answer)
        self.assertTrue(data["series"])
        for series in data["series"]:
            self.assertLessEqual(len(series["x"]), 6000, series["name"])
        with urllib.request.urlopen(f"{self.server.url}/data?version={data['version']}") as answer:
            self.assertEqual((answer.status, answer.read()), (204, b""))

    def test_what_is_no_run(self):
        done = subprocess.run([EASYDEL, "dashboard", self.folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"easydel: [report] {self.folder} is not the directory of a training run: it has no metrics.jsonl.\n"))


if __name__ == "__main__":
    unittest.main()
