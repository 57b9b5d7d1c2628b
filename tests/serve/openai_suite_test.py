"""openai-python's own tests (tests/api_resources of its sdist, unmodified) against `easydel serve`.
usage: openai_suite_test.py EASYDEL DIRECTORY, where the directory has openai-VERSION.tar.gz (scripts/setup.sh test gets it).

The suite was written for a mock server that answers anything with canned objects. DOES_NOT_APPLY lists what a server with
a model cannot answer, with why; everything else must pass, and what is listed must fail, so that the list stays true."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree as xml

DIRECTORY = pathlib.Path(sys.argv.pop())
EASYDEL = sys.argv.pop()

import openai

from tiny_server import Server, TinyModel

KEY = "My API Key"  # of the suite's conftest.py
NAMES = ("gpt-6-astra", "gpt-3.5-turbo-instruct", "text-embedding-3-small")  # the models that it asks for
FILES = ("test_completions.py", "test_embeddings.py", "test_models.py", "test_responses.py", "chat/test_completions.py",
         "chat/completions/test_messages.py", "responses/test_input_items.py", "responses/test_input_tokens.py")
CREATE = "(method|raw_response|streaming_response)_create"
# File, test name (a regular expression over all of it, with its parameter or without), why.
DOES_NOT_APPLY = [
    ("test_models", "test_(method|raw_response|streaming_response)_delete", "deletes a fine-tuned model; a server does not delete its own"),
    ("test_embeddings", f"test_{CREATE}\\[(strict|aiohttp)\\]", "the package asks for base64 here and decodes it later than its strict "
     "client wants to see floats"),
    ("test_completions", "test_method_create_with_all_params_overload_[12]", "max_tokens 16 with suffix, best_of 0 and logit_bias by a word: "
     "suffix and best_of are refused by name, a bias is of a token id"),
    ("chat/test_completions", "test_method_create_with_all_params_overload_[12]", "audio, functions, prediction, web_search_options and "
     "the like, which are refused by name"),
    ("chat/test_completions", "test_(method|raw_response|streaming_response)_(retrieve|update|list|list_with_all_params|delete)",
     "stored chat completions; chat keeps nothing here"),
    ("chat/completions/test_messages", "test_(method|raw_response|streaming_response)_list.*", "stored chat completions"),
    ("test_responses", f"test_{CREATE}_overload_[12]", "neither model nor input is given"),
    ("test_responses", "test_method_create_with_all_params_overload_[12]", "background, conversation, moderation, prompt and the like, "
     "which are refused by name"),
    ("test_responses", "test_(method|raw_response|streaming_response)_(retrieve|delete|cancel).*", "ids of responses that nobody made"),
    ("test_responses", "test_(method|raw_response|streaming_response)_compact.*", "/v1/responses/compact gives an encrypted item for OpenAI's models"),
    ("responses/test_input_items", "test_(method|raw_response|streaming_response)_list.*", "ids of responses that nobody made"),
    ("responses/test_input_tokens", "test_(method|raw_response|streaming_response)_count.*", "neither model nor input is given"),
]


def reason(file: str, test: str) -> str | None:
    names = test, test.split("[")[0]
    return next((why for where, name, why in DOES_NOT_APPLY if where == file and any(re.fullmatch(name, n) for n in names)), None)


def run_suite(url: str, suite: pathlib.Path) -> dict:
    """{(file, class and test with its parameters): message of the failure, or ""}."""
    report = suite / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}",
                    *(f"tests/api_resources/{file}" for file in FILES)],
                   cwd=suite, env={**os.environ, "TEST_API_BASE_URL": url + "/v1"}, capture_output=True, text=True, timeout=1200)
    out = {}
    for case in xml.parse(report).getroot().iter("testcase"):
        file, group = re.sub(r"^tests\.api_resources\.", "", case.get("classname")).rsplit(".", 1)
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = any(child.tag == "skipped" for child in case)
        name = f"{group}.{case.get('name')}"
        out[file.replace(".", "/"), name] = "skipped" if skipped else (failure.get("message") or failure.tag) if failure is not None else ""
    return out


class Suite(unittest.TestCase):
    def test_all_that_applies_passes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with tarfile.open(DIRECTORY / f"openai-{openai.__version__}.tar.gz") as archive:
                archive.extractall(folder, filter="data")
            tiny = TinyModel(folder / "model")
            # No test that creates something limits its length; a short context does.
            with Server(EASYDEL, tiny.path, "--max-model-len", 96, key=KEY, names=NAMES) as server:
                results = run_suite(server.url, folder / f"openai-{openai.__version__}")
        self.assertGreater(len(results), 400)
        wrong, passed, listed = [], 0, {}
        for (file, case), message in results.items():
            why = reason(file, case.split(".", 1)[1])
            if why is None and message:
                wrong.append(f"{file} {case}: {message}")
            elif why is not None and not message:
                wrong.append(f"{file} {case} passes, though it is listed: {why}")
            passed += not message
            if why is not None:
                listed[file, why] = listed.get((file, why), 0) + 1
        print(f"\n{passed} of {len(results)} tests of openai-python {openai.__version__} pass; these do not apply:")
        for (file, why), count in listed.items():
            print(f"  {count:3} {file}: {why}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
