"""The action serve of `easydel elarge`: it listens by its sections, answers as transformers does, and ends with SIGTERM.
usage: serve_action_test.py EASYDEL"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "serve"))

import yaml
from tiny_server import PROMPTS, TinyModel

EASYDEL = sys.argv.pop()


class ServeAction(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.folder.name)
        cls.model = TinyModel(cls.directory / "model")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, actions: list, **sections) -> pathlib.Path:
        path = self.directory / "run.yaml"
        path.write_text(yaml.safe_dump({"model": {"name_or_path": str(self.model.path)}, "loader": {"device": "cpu", "dtype": "fp32"},
                                        **sections, "actions": actions}, sort_keys=False))
        return path

    def test_it_serves_until_it_is_stopped(self):
        path = self.write(["validate", {"serve": {"port": 0, "require_api_key": True, "oai_like_processor": True}}],
                          esurge={"max_model_len": 128, "page_size": 8}, serve={"port": 1, "served_model_name": "mine", "api_key": "secret"})
        process = subprocess.Popen([EASYDEL, "elarge", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = None
            for line in process.stdout:
                if found := re.search(r"listening on (http://127\.0\.0\.1:\d+)", line):
                    url = found[1]
                    break
            self.assertIsNotNone(url)

            def ask(route, body=None, key="secret"):
                request = urllib.request.Request(url + route, json.dumps(body).encode() if body else None,
                                                 {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return json.loads(reply.read())

            listed = ask("/v1/models")["data"][0]
            self.assertEqual((listed["id"], listed["max_model_len"]), ("mine", 128))
            with self.assertRaises(urllib.error.HTTPError) as refused:
                ask("/v1/models", key="guess")
            self.assertEqual(refused.exception.code, 401)
            ids = self.model.ids(PROMPTS[0])
            answer = ask("/v1/completions", {"model": "mine", "prompt": ids, "max_tokens": 12, "temperature": 0})
            self.assertEqual(answer["choices"][0]["text"], self.model.text(self.model.greedy(ids, 12)))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    def test_it_needs_the_key_that_it_asks_for(self):
        path = self.write([{"serve": {"port": 0, "require_api_key": True}}])
        environment = {name: value for name, value in os.environ.items() if name != "EASYDEL_API_KEY"}
        done = subprocess.run([EASYDEL, "elarge", str(path)], capture_output=True, text=True, timeout=120, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("serve.api_key is missing, but require_api_key needs one.", done.stderr)

    def test_a_dry_run_does_not_listen(self):
        done = subprocess.run([EASYDEL, "elarge", str(self.write(["serve"], serve={"port": 0})), "--dry-run"], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("would run: serve\n", done.stdout)
        self.assertNotIn("listening", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
