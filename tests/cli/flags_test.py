"""Every flag of the commands that run a model changes what the command leaves behind, or is refused by name. The flags
are read from --help: one without a probe fails. usage: flags_test.py EASYDEL"""

import json
import re
import shutil
import subprocess
import unittest

import torch
import yaml
from flag_probes import MESH, MODEL, TASK, FlagProbes, flags_of, make_model, make_tokenizer, write_rows
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForSequenceClassification

SAMPLE = ["--do-sample", "--temperature", "3"]
BEAMS = ["--num-beams", "3"]
GENERATION = {
    "--max-length": (["--max-new-tokens=null"], ["--max-length", "5"]),
    "--max-new-tokens": ["--max-new-tokens", "3"],
    "--min-length": (["--eos-token-id", "MOST"], ["--min-length", "6"]),
    "--min-new-tokens": (["--eos-token-id", "MOST"], ["--min-new-tokens", "3"]),
    "--early-stopping": ["--early-stopping", "true"],
    "--max-time": ["--max-time", "0.000001"],
    "--stop-strings": ["--stop-strings", ""],
    "--do-sample": ["--do-sample", "--temperature", "30"],
    "--num-beams": ["--num-beams", "3"],
    "--use-cache": None,  # the same answer without it; below
    "--temperature": ["--temperature", "2"],
    "--top-k": (SAMPLE, ["--top-k", "1"]),
    "--top-p": (SAMPLE, ["--top-p", "0.01"]),
    "--min-p": (SAMPLE, ["--min-p", "0.99"]),
    "--top-h": (SAMPLE, ["--top-h", "0.01"]),
    "--typical-p": (SAMPLE, ["--typical-p", "0.01"]),
    "--epsilon-cutoff": (SAMPLE, ["--epsilon-cutoff", "0.9"]),
    "--eta-cutoff": (SAMPLE, ["--eta-cutoff", "2"]),
    "--repetition-penalty": ["--repetition-penalty", "50.0"],
    "--encoder-repetition-penalty": ["--encoder-repetition-penalty", "50.0"],
    "--presence-penalty": ["--presence-penalty", "50.0"],
    "--frequency-penalty": ["--frequency-penalty", "50.0"],
    "--length-penalty": ["--length-penalty", "3.0"],
    "--no-repeat-ngram-size": ["--no-repeat-ngram-size", "1"],
    # A decoder's prompt counts as an encoder's: the bias makes it repeat the prompt's 4, which the flag rules out.
    "--encoder-no-repeat-ngram-size": (["--sequence-bias", "[[[4], 100.0]]"], ["--encoder-no-repeat-ngram-size", "1"]),
    "--bad-words-ids": ["--bad-words-ids", "FIRST_OF_LISTS"],
    "--sequence-bias": ["--sequence-bias", "BIAS"],
    "--forced-bos-token-id": (["--input-ids", "7"], ["--forced-bos-token-id", "11"]),
    "--forced-eos-token-id": ["--forced-eos-token-id", "11"],
    "--suppress-tokens": ["--suppress-tokens", "FIRST"],
    "--begin-suppress-tokens": ["--begin-suppress-tokens", "FIRST"],
    "--exponential-decay-length-penalty": (["--eos-token-id", "9"], ["--exponential-decay-length-penalty", "1,1e9"]),
    "--remove-invalid-values": None,  # a model whose scores are finite gives the same answer; below
    "--renormalize-logits": (["--output", "OUT", "--output-scores"], ["--renormalize-logits"]),
    "--num-return-sequences": (SAMPLE, ["--num-return-sequences", "2"]),
    "--output-scores": (["--output", "OUT"], ["--output-scores"]),
    "--output-logits": (["--output", "OUT"], ["--output-logits"]),
    "--output-log-probs": (["--output", "OUT", "--no-json"], ["--output-log-probs"]),
    "--pad-token-id": ([*SAMPLE, "--eos-token-id", "EVEN", "--num-return-sequences", "6", "--output", "OUT"], ["--pad-token-id", "7"]),
    "--bos-token-id": (["--no-prompt"], ["--bos-token-id", "9"]),
    "--decoder-start-token-id": ["--decoder-start-token-id", "3"],
    "--eos-token-id": ["--eos-token-id", "FIRST"],
}


def make_judge(directory, vocab_size):
    """A reward model."""
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=vocab_size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, num_labels=1)
    LlamaForSequenceClassification(config).save_pretrained(directory)


class Flags(FlagProbes):
    def test_forward(self):
        ids = torch.arange(10).reshape(2, 5) + 3
        save_file({"input_ids": ids, "labels": ids.clone()}, self.directory / "in.safetensors")
        save_file({"input_ids": ids[:1].clone()}, self.directory / "other.safetensors")

        def observe(arguments):
            out = self.directory / "out.safetensors"
            given = [] if "--input" in arguments else ["--input", self.directory / "in.safetensors"]
            given += [] if "--output" in arguments else ["--output", out]
            done = self.run_command(["forward", self.wide, *given, *arguments])
            found = self.files(self.directory, ["out.safetensors", "another.safetensors"])
            for name in ("out.safetensors", "another.safetensors"):
                (self.directory / name).unlink(missing_ok=True)
            return self.seen(done, files=found)

        self.probe("forward", observe, MODEL | TASK | {
            "--input": ["--input", self.directory / "other.safetensors"],
            "--output": ["--output", self.directory / "another.safetensors"],
            "--hidden-states": ["--hidden-states"], "--attentions": ["--attentions"], "--grad": ["--grad"], "--profile": ["--profile"], "--json": ["--json"]})

    def generate(self, arguments):
        arguments = [str(part) for part in arguments]
        prompt = [] if {"--prompt", "--prompt-file", "--input", "--input-ids", "--no-prompt"} & set(arguments) else ["--input-ids", "3,4,5"]
        if "--no-prompt" in arguments:
            arguments.remove("--no-prompt")
        plenty = [] if "--max-new-tokens" in arguments or "--max-new-tokens=null" in arguments else ["--max-new-tokens", "6"]
        plain = [] if {"--json", "--no-json"} & set(arguments) else ["--json"]
        arguments = [part for part in arguments if part != "--no-json"]
        return self.run_command(["generate", self.wide, *prompt, *plenty, *plain, *arguments])

    def test_generate(self):
        (self.directory / "prompt.txt").write_text("It is a truth")
        save_file({"input_ids": torch.tensor([[9, 8, 7]])}, self.directory / "in.safetensors")
        first = json.loads(self.generate([]).stdout)["sequences"][0]["ids"]
        words = {"FIRST": str(first[0]), "FIRST_OF_LISTS": f"[[{first[0]}]]", "BIAS": f"[[[{first[0]}], -100.0]]",
                 "OUT": str(self.directory / "out.safetensors"), "EVEN": ",".join(map(str, range(0, 300, 2))), "MOST": ",".join(str(token) for token in range(300) if token != (first[0] + 1) % 300)}

        def observe(arguments):
            out = self.directory / "out.safetensors"
            done = self.generate([words.get(str(part), part) for part in arguments])
            found = self.files(self.directory, [".safetensors"])
            out.unlink(missing_ok=True)
            return self.seen(done, files=found)

        self.probe("generate", observe, MODEL | GENERATION | {
            "--task": ["--task", "dancing"],
            "--prompt": ["--prompt", "It is"], "--prompt-file": ["--prompt-file", self.directory / "prompt.txt"],
            "--input-ids": ["--input-ids", "9,9"], "--input": ["--input", self.directory / "in.safetensors"],
            "--image": ["--image", "nowhere.png"],  # of models that see: models/llava_test.py
            "--video": ["--video", "nowhere.gif"], "--fps": ["--fps", "3"],  # models/qwen_vl_test.py
            "--audio": ["--audio", "nowhere.wav"],  # cli/transcribe_test.py
            "--seed": (SAMPLE, ["--seed", "9"]), "--output": ["--output", self.directory / "out.safetensors"],
            "--json": None})
        whole, cached = (json.loads(self.generate(flags).stdout)["sequences"][0] for flags in (["--no-use-cache"], []))
        self.assertEqual(whole["ids"], cached["ids"])  # a token over a cache takes kernels of its own, which round on their own
        torch.testing.assert_close(torch.tensor(whole["log_probs"]), torch.tensor(cached["log_probs"]), rtol=0, atol=1e-5)
        self.assertEqual(self.generate(["--remove-invalid-values"]).stdout, self.generate([]).stdout)
        plain = self.run_command(["generate", self.wide, "--input-ids", "3,4,5", "--max-new-tokens", "6"])
        self.assertEqual(plain.returncode, 0, plain.stderr)
        with self.assertRaises(json.JSONDecodeError):
            json.loads(plain.stdout)

    def test_sampling_options_are_refused_with_no_do_sample(self):
        for flag, value in (("--temperature", "0.7"), ("--top-k", "3"), ("--top-p", "0.5"), ("--min-p", "0.1")):
            done = self.generate([flag, value, "--no-do-sample"])
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                             (2, f"easydel: {flag} {value} needs --do-sample: without it the most likely token is always chosen."))
        for flag, value in (("--length-penalty", "2"), ("--early-stopping", "true")):
            done = self.generate([flag, value])
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                             (2, f"easydel: {flag} {value} needs --num-beams above 1."))
        self.assertEqual(self.generate(["--temperature", "0"]).returncode, 0)
        for flag in ("--output-scores", "--output-logits"):
            done = self.generate([flag])
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (2, f"easydel: {flag} needs --output FILE to write them to."))

    def test_chat_takes_what_generate_takes(self):
        generation = flags_of("generate") & set(GENERATION)
        self.assertEqual(flags_of("chat") - generation, set(MODEL) | {"--task", "--system", "--seed", "--image", "--audio"})
        chatting = self.directory / "chatting"
        shutil.copytree(self.wide, chatting)
        (chatting / "chat_template.jinja").write_text("{{ messages[0].content }}")
        done = self.run_command(["chat", chatting, "--image", "a.png"])  # of models that see: models/llava_serve_test.py
        self.assertEqual((done.returncode, "does not accept images; got --image a.png." in done.stderr), (1, True), done.stderr)
        done = self.run_command(["chat", chatting, "--audio", "a.wav"])
        self.assertEqual((done.returncode, "--audio: no chat model of this build accepts audio; got a.wav." in done.stderr), (2, True), done.stderr)
        for flag in (MESH, ["--devices", "2"]):
            done = self.run_command(["chat", self.wide, *flag])
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                             (2, f"easydel: easydel chat runs on one device; got {' '.join(flag)}. Use easydel generate on a mesh."))

    def test_eval(self):
        (self.directory / "rows.jsonl").write_text("".join(json.dumps({"q": text[:10], "a": text[10:20]}) + "\n" for text in self.texts[:6]))
        task = {"task": "words", "dataset_path": "json", "test_split": "test", "fewshot_split": "test", "output_type": "loglikelihood",
                "dataset_kwargs": {"data_files": {"test": str(self.directory / "rows.jsonl")}}, "doc_to_text": "q", "doc_to_target": "a"}
        (self.directory / "words.yaml").write_text(yaml.safe_dump(task))
        words = ["--task", self.directory / "words.yaml"]
        (self.directory / "prompts.jsonl").write_text("".join(json.dumps({
            "prompt": text[:10], "test": "assert True", "instruction_id_list": ["length_constraints:number_words"],
            "kwargs": [{"num_words": 3, "relation": "less than"}]}) + "\n" for text in self.texts[:6]))
        written = task | {"task": "written", "output_type": "generate_until", "doc_to_text": "prompt", "doc_to_target": "test",
                          "dataset_kwargs": {"data_files": {"test": str(self.directory / "prompts.jsonl")}},
                          "generation_kwargs": {"max_gen_toks": 16, "until": []}, "metric_list": [{"metric": "prompt_level_strict_acc"}]}
        (self.directory / "written.yaml").write_text(yaml.safe_dump(written))
        (self.directory / "code.yaml").write_text(yaml.safe_dump(written | {"metric_list": [{"metric": "pass_at_k", "k": 1}]}))
        written, code = ["--task", self.directory / "written.yaml"], ["--task", self.directory / "code.yaml"]
        (self.directory / "other").mkdir()
        (self.directory / "other" / "words.yaml").write_text(yaml.safe_dump(task | {"doc_to_text": "a", "doc_to_target": "q"}))

        def observe(arguments):
            text = [] if {"--task", "--text"} & set(map(str, arguments)) else ["--text", self.text]
            done = self.run_command(["eval", self.wide, *text, *([] if "--json" in arguments else ["--json"]), *arguments])
            found = self.files(self.directory, ["results.json"])
            (self.directory / "results.json").unlink(missing_ok=True)
            return self.seen(done, files=found)

        self.probe("eval", observe, MODEL | {
            "--text": ["--text", self.folder / "one.jsonl"], "--window": ["--window", "16"], "--stride": ["--stride", "3"],
            "--task": ["--task", self.directory / "words.yaml"],
            "--include-path": (words, ["--task", "words", "--include-path", self.directory / "other"]),
            "--num-fewshot": (words, ["--num-fewshot", "2"]), "--limit": (words, ["--limit", "2"]),
            "--batch-size": (words, ["--batch-size", "1"]), "--output": (words, ["--output", self.directory / "results.json"]),
            "--system-instruction": (words, ["--system-instruction", "moon"]),
            "--apply-chat-template": (words, ["--apply-chat-template"]), "--fewshot-as-multiturn": (words, ["--fewshot-as-multiturn"]),
            "--gen-kwargs": (written, ["--gen-kwargs", "max_gen_toks=1"]), "--confirm-run-unsafe-code": None,
            "--json": None})
        refused, confirmed = observe(code), observe([*code, "--confirm-run-unsafe-code"])
        self.assertEqual((refused[0], confirmed[0]), (1, 0), (refused, confirmed))
        self.assertIn("--confirm-run-unsafe-code", refused[2])

    def test_json_has_no_nan(self):
        broken = self.directory / "broken"
        model = make_model(broken)
        self.copy_tokenizer(broken)
        with torch.no_grad():
            model.lm_head.weight.fill_(float("nan"))
        model.save_pretrained(broken)

        def refuse(constant):
            self.fail(f"{constant} is no JSON")

        done = self.run_command(["eval", broken, "--text", self.text, "--json"])
        printed = json.loads(done.stdout, parse_constant=refuse)
        self.assertEqual((printed["loss"], printed["perplexity"], printed["bits_per_byte"]), (None, None, None))
        (self.directory / "rows.jsonl").write_text(json.dumps({"t": self.texts[0]}) + "\n")
        (self.directory / "t.yaml").write_text(yaml.safe_dump({
            "task": "t", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(self.directory / "rows.jsonl")}},
            "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "t"}))
        done = self.run_command(["eval", broken, "--task", self.directory / "t.yaml", "--json", "--output", self.directory / "r.json"])
        for text in (done.stdout, (self.directory / "r.json").read_text()):
            self.assertIsNone(json.loads(text, parse_constant=refuse)["results"]["t"]["bits_per_byte,none"])

    def observe_run(self, arguments):
        """A run of `train` or `elarge`, seen through its checkpoint and log."""
        arguments = [str(part) for part in arguments]
        done = self.run_command([part.replace("OUT", str(self.directory / "out")) for part in arguments])
        found = self.files(self.directory / "out", [".safetensors", "config.json", "tokenizer.json", "adapter_config.json"])
        found["paths"] = sorted(str(path.relative_to(self.directory)) for path in (self.directory / "out").rglob("*.safetensors"))
        subprocess.run(["rm", "-rf", self.directory / "out"], check=True)
        try:
            printed = json.loads(done.stdout)
            printed = {key: printed[key] for key in ("step", "stopped_by") if key in printed}
        except (json.JSONDecodeError, TypeError):
            printed = re.sub(r"[0-9.]+", "0", done.stdout)
        told = done.stderr if done.returncode else "".join(re.findall(r"computing in .*\n|\[trainer\].*\n|\[(?:wandb|dashboard)\] [a-z]+ ", done.stderr))
        return done.returncode, printed, told.replace(str(self.directory), ""), found

    def test_train(self):
        other = self.directory / "tokenizer"
        make_tokenizer(other, "quite another text " * 50)
        pairs = self.directory / "pairs.jsonl"
        write_rows(pairs, [{"prompt": "It is", "chosen": text[:20], "rejected": text[20:40]} for text in self.texts[:6]])
        dpo = ["--trainer", "dpo", "--data", pairs, "--set", "max_prompt_length=8"]
        made = self.folder / "other"
        make_model(made, hidden_size=16)
        self.copy_tokenizer(made)
        judge = self.folder / "judge"
        make_judge(judge, vocab_size=json.loads((self.wide / "config.json").read_text())["vocab_size"])
        grpo = ["--trainer", "grpo", "--data", pairs, "--reward", "random", "--set", "max_prompt_length=8", "--set", "max_completion_length=4",
                "--set", "num_generations=2", "--set", "beta=0"]
        ppo = ["--trainer", "ppo", *grpo[2:8], "--set", "max_completion_length=4", "--set", "kl_coef=0"]
        (self.directory / "body.jsonl").write_text(json.dumps({"text": self.texts[0], "body": self.texts[1]}) + "\n")

        def observe(arguments):
            arguments = [str(part) for part in arguments]
            base = {"--data": [self.folder / "one.jsonl"], "--steps": [2], "--batch": [2], "--length": [16], "--output": ["OUT"],
                    "--learning-rate": ["1e-2"]}
            given = [part for flag, value in base.items() if flag not in arguments for part in (flag, *value)]
            if "--epochs" in arguments:
                at = given.index("--steps")
                del given[at:at + 2]
            return self.observe_run(["train", self.wide, *given, "--set", "log_steps=1", "--set", "report_steps=1",
                                     *([] if "--json" in arguments else ["--json", "--set", "progress_bar_type=none"]), *arguments])

        self.probe("train", observe, {
            "--data": ["--data", self.folder / "two.jsonl"],
            "--eval-data": ["--eval-data", self.folder / "held_out.jsonl"],
            "--field": (["--data", self.directory / "body.jsonl"], ["--field", "body"]),
            "--output": ["--output", "OUT/deeper"],
            "--trainer": ["--trainer", "dpo"],
            "--tokenizer": ["--tokenizer", other],
            "--reference": (dpo, ["--reference", made]),
            "--reward": (grpo, ["--reward", "length=2"]),
            "--reward-model": (grpo, ["--reward-model", judge]),
            "--value-model": ([*ppo, "--value-model", judge], ["--value-model", self.wide]),
            "--teacher": (["--trainer", "distillation", "--teacher", self.folder / "model"], ["--teacher", made]),
            "--steps": ["--steps", "3"], "--epochs": ["--epochs", "1"], "--batch": ["--batch", "4"], "--accumulate": ["--accumulate", "2"],
            "--length": ["--length", "8"], "--learning-rate": ["--learning-rate", "0.5"], "--warmup": ["--warmup", "2"],
            "--scheduler": (["--steps", "3"], ["--scheduler", "linear"]), "--optimizer": ["--optimizer", "lion"],
            "--lora-rank": ["--lora-rank", "2"], "--lora-alpha": (["--lora-rank", "2"], ["--lora-alpha", "8"]),
            "--lora-pattern": (["--lora-rank", "2"], ["--lora-pattern", "q_proj"]),
            "--save-steps": ["--save-steps", "1"],
            "--eval-steps": (["--eval-data", self.folder / "held_out.jsonl"], ["--eval-steps", "1"]),
            "--resume": ["--resume", self.directory / "nowhere"],
            "--zero-stage": (["--mesh", "2,1,1,1,1"], ["--zero-stage", "1"]),
            "--mesh": MESH, "--devices": ["--devices", "2", "--mesh", "1,1,1,1,2"], "--device": ["--device", "cuda:99"],
            "--dtype": ["--dtype", "bf16"], "--param-dtype": ["--param-dtype", "bf16"],
            "--packing": ["--packing"], "--padding-free": (["--dry-run"], ["--padding-free"]), "--group-by-length": (["--length", "48"], ["--group-by-length"]),
            "--fp8": ["--fp8", "rowwise"], "--profile": ["--profile", "2"], "--dashboard": ["--dashboard", "0"],
            "--report-to": ["--report-to", "wandb"], "--no-shuffle": ["--no-shuffle"], "--set": ["--set", "clip_grad=0.01"],
            "--dry-run": ["--dry-run"], "--json": None})

    def test_elarge(self):
        config = {"model": {"name_or_path": str(self.folder / "model")}, "loader": {"device": "cpu"},
                  "mixture": {"informs": [{"data_files": str(self.folder / "one.jsonl")}]},
                  "trainer": {"max_training_steps": 2, "total_batch_size": 2, "max_length": 16, "save_directory": str(self.directory / "out"),
                              "progress_bar_type": "none", "log_steps": 1, "report_steps": 1}, "actions": ["train"]}
        path = self.directory / "run.yaml"
        path.write_text(yaml.safe_dump(config))

        def observe(arguments):
            return self.observe_run(["elarge", path, *arguments])

        self.probe("elarge", observe, {
            "--set": ["--set", "trainer.learning_rate=0.5"], "--dry-run": ["--dry-run"], "--json": ["--json"], "--keys": ["--keys"],
            "--device": ["--device", "cuda:99"], "--mesh": MESH, "--devices": ["--devices", "2", "--mesh", "1,1,1,1,2"]})
        help_text = self.run_command(["elarge", "--help"]).stdout
        self.assertEqual(len(re.findall(r"^  (?:FILE|(?:-c,)?(?:--)?config)\b", help_text, re.M)), 1, help_text)
        same = self.observe_run(["elarge", "--config", path])
        self.assertEqual(same, observe([]))


if __name__ == "__main__":
    unittest.main()
