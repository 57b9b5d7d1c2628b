"""`easydel classify` on tiny classifiers of texts, sound and images that transformers made: the labels and scores of its
pipelines, for each type of problem. usage: classify_test.py EASYDEL"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import wave

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

EASYDEL = sys.argv.pop()
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

WORDS = ["<pad>", "<s>", "</s>", "<unk>", *"it is a truth universally acknowledged that single man in possession of good fortune must be want wife".split()]
TEXTS = ["it is a truth universally acknowledged", "a single man", "in possession of a good fortune must be in want of a wife", "nothing known"]
SMALL = dict(vocab_size=len(WORDS), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
NAMES = {0: "sad", 1: "so so", 2: "glad"}


class Classify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
        cls.tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")

    def make(self, kind: str, config, **labels):
        torch.manual_seed(2)
        for key, value in labels.items():
            setattr(config, key, value)
        model = getattr(transformers, kind)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.4)
        directory = self.folder / f"{kind}{len(list(self.folder.iterdir()))}"
        model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)
        return model, directory

    def run_it(self, *args, status: int = 0) -> subprocess.CompletedProcess:
        done = warm_start.run([EASYDEL, "--log", "error", "classify", *map(str, args)], text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done

    def compare(self, ours: list, theirs: list, key: str = "probability"):
        """Each is the labels of an input, the best first."""
        self.assertEqual(len(ours), len(theirs))
        for mine, expected in zip(ours, theirs):
            self.assertEqual([entry["label"] for entry in mine["labels"]], [entry["label"] for entry in expected])
            for entry, one in zip(mine["labels"], expected):
                self.assertAlmostEqual(entry[key], one["score"], delta=1e-5)

    def test_texts_of_every_type_of_problem(self):
        multi, regression = dict(problem_type="multi_label_classification"), dict(problem_type="regression")
        for kind, config in (("BertForSequenceClassification", transformers.BertConfig), ("RobertaForSequenceClassification", transformers.RobertaConfig),
                             ("LlamaForSequenceClassification", transformers.LlamaConfig)):
            for labels, key in ((dict(id2label=NAMES), "probability"), (dict(id2label=NAMES, **multi), "probability"),
                                (dict(id2label={0: "one"}), "probability"), (dict(id2label={0: "one"}, **regression), "score"),
                                (dict(num_labels=2, **regression), "score")):
                with self.subTest(kind=kind, labels=labels):
                    model, directory = self.make(kind, config(**SMALL), **labels)
                    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=self.tokenizer, device="cpu")
                    flags = [part for text in TEXTS for part in ("--text", text)]
                    ours = json.loads(self.run_it(directory, *flags, "--json").stdout)
                    self.assertEqual([entry["text"] for entry in ours], TEXTS)
                    self.compare(ours, pipeline(TEXTS, top_k=None), key)
                    self.assertGreater(len({round(entry["labels"][0][key], 4) for entry in ours}), 1)
                    best = json.loads(self.run_it(directory, *flags, "--json", "--top-k", 1).stdout)
                    self.compare(best, pipeline(TEXTS, top_k=1), key)

    def test_rows_of_files(self):
        model, directory = self.make("BertForSequenceClassification", transformers.BertConfig(**SMALL), id2label=NAMES)
        expected = transformers.pipeline("text-classification", model=model, tokenizer=self.tokenizer, device="cpu")(TEXTS, top_k=None)
        (self.folder / "rows.txt").write_text("\n".join(TEXTS) + "\n")
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({"text": text, "review": text[::-1]}) + "\n" for text in TEXTS))
        (self.folder / "rows.csv").write_text("id,review\n" + "".join(f"{i},{text}\n" for i, text in enumerate(TEXTS)))
        for name, more in (("rows.txt", ()), ("rows.jsonl", ()), ("rows.csv", ("--text-field", "review"))):
            with self.subTest(name):
                self.compare(json.loads(self.run_it(directory, "--data", self.folder / name, "--json", *more).stdout), expected)
        printed = self.run_it(directory, "--data", self.folder / "rows.txt", "--top-k", 2).stdout
        self.assertEqual(printed, "".join(f"{text}\n" + "".join(f"  {e['score']:.4f}  {e['label']}\n" for e in entries[:2])
                                          for text, entries in zip(TEXTS, expected)))
        (self.folder / "bad.jsonl").write_text('{"text": "a"}\n{"text": 3}\n')
        self.assertIn('bad.jsonl, line 2] "text" must be text; got an integer.', self.run_it(directory, "--data", self.folder / "bad.jsonl", status=1).stderr)
        self.assertIn("label", self.run_it(directory, "--data", self.folder / "rows.csv", "--text-field", "label", status=1).stderr)
        self.assertIn("a text must have 1 to 32 tokens; got 42", self.run_it(directory, "--text", "it " * 40, status=1).stderr)

    def test_a_mesh_gives_the_same(self):
        _, directory = self.make("BertForSequenceClassification", transformers.BertConfig(**SMALL), id2label=NAMES)
        flags = [part for text in TEXTS for part in ("--text", text)]
        alone, split = (json.loads(self.run_it(directory, *flags, "--json", *more).stdout) for more in ((), ("--devices", 2, "--mesh", "1,1,1,2,1")))
        self.compare(split, [[dict(label=e["label"], score=e["probability"]) for e in entry["labels"]] for entry in alone])

    def test_sound(self):
        config = transformers.WhisperConfig(vocab_size=60, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                                            encoder_ffn_dim=24, decoder_ffn_dim=24, num_mel_bins=20, max_source_positions=50, max_target_positions=20,
                                            pad_token_id=2, bos_token_id=2, eos_token_id=2, decoder_start_token_id=3, classifier_proj_size=12)
        model, directory = self.make("WhisperForAudioClassification", config, id2label=NAMES)
        extractor = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
        extractor.save_pretrained(directory)
        files, expected = [], []
        for seconds, height in ((0.4, 300), (1.0, 2000), (1.7, 80)):
            time = np.arange(int(seconds * 16000)) / 16000
            samples = (np.sin(2 * np.pi * height * time * (1 + time)) * 12000).astype("<i2")
            files.append(self.folder / f"{height}.wav")
            with wave.open(str(files[-1]), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                file.writeframes(samples.tobytes())
            features = extractor(samples.astype(np.float32) / 32768, sampling_rate=16000, return_tensors="pt")
            with torch.no_grad():
                scores = model(**features).logits[0].softmax(-1)
            expected.append([dict(label=NAMES[int(i)], score=scores[i].item()) for i in scores.argsort(descending=True)])
        ours = json.loads(self.run_it(directory, *(part for file in files for part in ("--audio", file)), "--json").stdout)
        self.assertEqual([entry["audio"] for entry in ours], [str(file) for file in files])
        self.compare(ours, expected)
        self.assertGreater(len({round(entry["labels"][0]["probability"], 3) for entry in ours}), 1)

    def test_images_of_several_labels(self):
        config = transformers.ViTConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8)
        for labels, apply in ((dict(id2label=NAMES), "softmax"), (dict(id2label=NAMES, problem_type="multi_label_classification"), "sigmoid")):
            model, directory = self.make("ViTForImageClassification", config, **labels)
            processor = transformers.ViTImageProcessorPil(size=dict(height=16, width=16))
            processor.save_pretrained(directory)
            Image.fromarray(np.random.default_rng(3).integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(self.folder / "a.png")
            with torch.no_grad():
                scores = getattr(model(**processor(Image.open(self.folder / "a.png"), return_tensors="pt")).logits[0], apply)(-1) if apply == "softmax" \
                    else model(**processor(Image.open(self.folder / "a.png"), return_tensors="pt")).logits[0].sigmoid()
            expected = [dict(label=NAMES[int(i)], score=scores[i].item()) for i in scores.argsort(descending=True)]
            self.compare(json.loads(self.run_it(directory, "--image", self.folder / "a.png", "--json").stdout), [expected])

    def test_what_is_refused(self):
        _, text = self.make("BertForSequenceClassification", transformers.BertConfig(**SMALL), id2label=NAMES)
        _, base = self.make("BertModel", transformers.BertConfig(**SMALL))
        file = self.folder / "a.wav"
        for directory, flags, status, message in (
                (text, ["--image", "a.png"], 1, "--image: BertForSequenceClassification is not an image classifier or a text-image model (clip, siglip)."),
                (text, ["--audio", file], 1, "--audio: BertForSequenceClassification is not an audio classifier. Use a model of the task audio-classification."),
                (base, ["--text", "a"], 1, "--text: BertModel is not a text classifier. Use a model of the task sequence-classification."),
                (text, ["--text", "a", "--label", "b"], 2, "has its own labels. Leave --label out."),
                (text, ["--text", "a", "--image", "b.png"], 2, ""), (text, [], 2, "")):
            with self.subTest(flags=flags):
                self.assertIn(message, self.run_it(directory, *flags, status=status).stderr)


if __name__ == "__main__":
    unittest.main()
