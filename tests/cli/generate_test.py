"""`easydel generate` as a user runs it, with a tiny model that transformers made. usage: generate_test.py EASYDEL"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

EASYDEL = sys.argv.pop()
torch.set_num_threads(1)


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.model_path = pathlib.Path(cls.directory.name) / "model"
        torch.manual_seed(1)
        cls.model = AutoModelForCausalLM.from_config(LlamaConfig(
            vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)).eval()
        with torch.no_grad():
            for parameter in cls.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        cls.model.generation_config.max_new_tokens = 9
        cls.model.generation_config.repetition_penalty = 1.3
        cls.model.save_pretrained(cls.model_path)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def run_it(self, *args: str, ok: bool = True) -> subprocess.CompletedProcess:
        done = warm_start.run([EASYDEL, "--log", "error", "generate", str(self.model_path), *args],
                              text=True, timeout=120)
        self.assertEqual(done.returncode == 0, ok, done.stderr)
        return done

    def test_ids_are_streamed_and_the_models_own_settings_hold(self):
        theirs = self.model.generate(torch.tensor([[5, 6, 7]]))[0, 3:].tolist()
        self.assertEqual(self.run_it("--input-ids", "5,6,7").stdout, " ".join(map(str, theirs)) + "\n")

    def test_beams_of_a_padded_batch(self):
        batch = {"input_ids": torch.tensor([[0, 0, 8, 9], [10, 11, 12, 13]]),
                 "attention_mask": torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])}
        given, written = str(self.model_path / "in.safetensors"), str(self.model_path / "out.safetensors")
        save_file(batch, given)
        theirs = self.model.generate(**batch, num_beams=4, num_return_sequences=2, length_penalty=0.5, no_repeat_ngram_size=2,
                                     suppress_tokens=[40, 41], early_stopping="never", max_new_tokens=7, eos_token_id=[2, 33],
                                     return_dict_in_generate=True, output_scores=True)
        ours = json.loads(self.run_it(
            "--input", given, "--output", written, "--json", "--num-beams", "4", "--num-return-sequences", "2",
            "--length-penalty", "0.5", "--no-repeat-ngram-size", "2", "--suppress-tokens", "40,41", "--early-stopping",
            "never", "--max-new-tokens", "7", "--eos-token-id", "2,33").stdout)
        self.assertEqual(load_file(written)["sequences"].tolist(), theirs.sequences.tolist())
        self.assertEqual(ours["prompt_length"], 4)
        for row, entry in enumerate(ours["sequences"]):
            self.assertEqual(entry["ids"], theirs.sequences[row, 4 : 4 + len(entry["ids"])].tolist())
            self.assertEqual(entry["finish_reason"], "stop" if entry["ids"][-1] in (2, 33) else "length")
            self.assertEqual(len(entry["log_probs"]), len(entry["ids"]))
            self.assertAlmostEqual(entry["score"], theirs.sequences_scores[row].item(), places=4)

    def test_draws_are_decided_by_the_seed(self):
        args = ("--input-ids", "5,6", "--do-sample", "--num-return-sequences", "3", "--min-new-tokens", "9")
        first = self.run_it(*args, "--seed", "3").stdout
        self.assertEqual(len(set(first.splitlines())), 3)
        self.assertEqual(self.run_it(*args, "--seed", "3").stdout, first)
        self.assertNotEqual(self.run_it(*args, "--seed", "4").stdout, first)
        self.assertEqual(self.run_it(*args, "--seed", "3", "--devices", "2", "--mesh", "1,1,1,2,1").stdout, first)

    def test_a_flag_can_be_switched_off(self):
        self.assertEqual(self.run_it("--do-sample", "--do-sample=false").stdout, self.run_it().stdout)

    def test_bad_values_are_refused_by_option(self):
        for args, message in ((["--top-p", "3"], "--top-p 3: [GenerationConfig] top_p must lie in (0, 1]; got 3."),
                              (["--eos-token-id", "a"], "--eos-token-id a: [GenerationConfig] eos_token_id must be an integer, "
                               'a list of integers or null; got "a".'),
                              (["--num-return-sequences", "2"], "num_return_sequences must be 1 without sampling or beam search"),
                              (["--input-ids", "5", "--prompt", "x"], "at most 1"),
                              (["--temprature", "1"], "--temprature")):
            done = self.run_it(*args, ok=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
        self.assertIn("got 97 in row 0, position 1.", self.run_it("--input-ids", "5,97", ok=False).stderr)


if __name__ == "__main__":
    unittest.main()
