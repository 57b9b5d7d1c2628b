"""Models that are no text decoders, beside a plain loop over transformers' models: the same rows, AdamW, step by step; the
same on meshes; and after a kill.

usage: other_models_test.py EASYDEL
"""

import base64
import io
import math
import pathlib
import re
import sys
import types
import unittest
import wave

# Where scripts/setup.sh puts it. The wheel is a CUDA build, whose operators a CPU torch lacks; none of them is used.
sys.path.insert(0, str(pathlib.Path(sys.prefix) / "torchvision"))
sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))

from tiny_run import *

import numpy
import pyarrow
import pyarrow.parquet
from PIL import Image
from tokenizers import processors
from transformers import (AutoConfig, AutoModel, AutoModelForImageClassification, AutoModelForImageTextToText, AutoModelForSeq2SeqLM,
                          AutoModelForSpeechSeq2Seq, WhisperFeatureExtractor)

STEPS, BATCH, RATE, DECAY = 50, 4, 3e-3, 0.01
MESHES = (("--mesh", "1,2,1,2,1"), ("--mesh", "2,1,1,1,1", "--set", "gradient_accumulation_steps=2"))
FAMILIES = {
    "t5": dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, feed_forward_proj="gated-gelu",
               decoder_start_token_id=0),
    "bart": dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=160, dropout=0.0, init_std=0.1,
                 decoder_start_token_id=2),
    "bert": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=160,
                 hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2),
    "vit": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4,
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2),
    "dinov2": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=16, patch_size=4,
                   initializer_range=0.2),
    "clip": dict(vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16,
                                    patch_size=4)),
    "siglip": dict(vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16,
                                      patch_size=4)),
    "whisper": dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                    decoder_ffn_dim=48, num_mel_bins=10, max_source_positions=50, max_target_positions=64, decoder_start_token_id=1,
                    begin_suppress_tokens=[2], init_std=0.1),
    "llava": dict(vision_config=dict(model_type="clip_vision_model", hidden_size=24, intermediate_size=32, num_hidden_layers=2,
                                     num_attention_heads=2, image_size=16, patch_size=8),
                  text_config=dict(model_type="llama", hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                                   num_key_value_heads=2, max_position_embeddings=160, vocab_size=301, pad_token_id=0),
                  image_token_index=300, vision_feature_layer=-2),
    "llama": dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  max_position_embeddings=160, initializer_range=0.2),
}
BOTH = ("<s> $A </s>", ["<s>", "</s>"])
ENDS = {"t5": ("$A </s>", ["</s>"]), "bart": BOTH, "bert": BOTH, "whisper": BOTH, "clip": BOTH, "siglip": ("$A </s>", ["</s>"])}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}answer: {% endif %}"


class OtherModels(TinyRun):
    loader = AutoModel

    def make(self, family, **changes):
        """A tiny model, and a tokenizer that puts special tokens around a text as the family's does."""
        torch.manual_seed(1)
        config = AutoConfig.for_model(family, vocab_size=300, bos_token_id=1, eos_token_id=2, pad_token_id=0,
                                      **{**FAMILIES[family], **changes})
        model = self.loader.from_config(config)
        model.save_pretrained(self.folder / family)
        raw = Tokenizer.from_file(str(self.folder / "model" / "tokenizer.json"))
        if family in ENDS:
            single, tokens = ENDS[family]
            raw.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(t, raw.token_to_id(t)) for t in tokens])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
        tokenizer.chat_template = TEMPLATE
        tokenizer.save_pretrained(self.folder / family)
        return model.train(), tokenizer

    def theirs(self, model, loss_of, count, steps=STEPS):
        """loss_of(model, the indices of a batch's rows)."""
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
        losses = []
        for step in range(steps):
            loss = loss_of(model, [(step * BATCH + i) % count for i in range(BATCH)])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def ours(self, family, data, *more, steps=STEPS, output="out", **options):
        self.remove(output)
        self.train(output, "--no-shuffle", "--learning-rate", RATE, "--length", 128, "--save-steps", steps, *more, steps=steps,
                   data=[data], model=family, **options)
        return self.curve(output)

    def compare(self, ours, theirs, tolerance=1e-3):
        self.assertEqual(len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(a - b), tolerance * max(1, abs(b)), f"step {step}")

    def same_model(self, model, output="out", steps=STEPS, tolerance=1e-3):
        saved = self.loader.from_pretrained(self.folder / output / f"run-{steps}").state_dict()
        for path, value in model.state_dict().items():
            if re.search(r"\b(k_proj|key)\.bias$|\bin_proj_bias$", path):
                continue  # the gradient of the keys' is zero but for rounding, which Adam makes large
            self.assertLess((saved[path].double() - value.double()).abs().max().item(), tolerance, path)

    def refused(self, *more, **options):
        """As fails(), with the libraries already loaded."""
        done = warm_start.run(self.command("none", *more, **options), text=True, timeout=120, env=os.environ | VARIABLES)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.replace(str(self.folder) + "/", "")

    def kill_and_resume(self, family, data, *more):
        """A run that is killed behind its first checkpoints ends as the one that was left alone, bit for bit."""
        arguments = ("--no-shuffle", "--learning-rate", RATE, "--length", 128, "--save-steps", 5, *more)
        for output in ("whole", "killed"):
            self.remove(output)
        self.train("whole", *arguments, steps=STEPS, data=[data], model=family)
        process = self.start("killed", *arguments, steps=STEPS, data=[data], model=family)
        while process.poll() is None and not self.checkpoints("killed"):
            time.sleep(0.001)
        process.kill()
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, "the run ended before it was killed")
        done = max(self.checkpoints("killed"))
        self.assertLess(done, STEPS)
        self.train("killed", *arguments, steps=STEPS, data=[data], model=family)
        self.assertEqual(self.curve("killed"), self.curve("whole"))
        self.assertEqual(self.curve("killed", "batch_checksum"), self.curve("whole", "batch_checksum"))
        self.same_weights("whole", "killed", STEPS)


class Seq2Seq(OtherModels):
    loader = AutoModelForSeq2SeqLM

    def rows(self):
        """Something to learn: a part of what is read."""
        return [{"prompt": text, "completion": text[:12 + i % 9]} for i, text in enumerate(self.texts[:30])]

    def loss_of(self, rows, tokenizer):
        def loss(model, indices):
            source = tokenizer([rows[i]["prompt"] for i in indices], return_tensors="pt", padding=True, padding_side="right")
            target = tokenizer([rows[i]["completion"] for i in indices], return_tensors="pt", padding=True, padding_side="right")
            labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, -100)
            return model(input_ids=source["input_ids"], attention_mask=source["attention_mask"], labels=labels).loss

        return loss

    def test_the_curve_is_that_of_transformers(self):
        rows = self.rows()
        write_rows(self.folder / "pairs.jsonl", rows)
        for family in ("t5", "bart"):
            model, tokenizer = self.make(family)
            theirs = self.theirs(model, self.loss_of(rows, tokenizer), len(rows))
            self.assertLess(theirs[-1], theirs[0] - 1)  # something was learned
            for mesh in ((), *MESHES):
                with self.subTest(family=family, mesh=mesh):
                    self.compare(self.ours(family, "pairs", *mesh), theirs)
                    self.same_model(model)

    def test_killed_and_resumed(self):
        write_rows(self.folder / "pairs.jsonl", self.rows())
        self.make("t5", dropout_rate=0.1)
        self.kill_and_resume("t5", "pairs")
        self.kill_and_resume("t5", "pairs", "--lora-rank", 4)

    def test_rows_of_conversations_and_of_ids(self):
        _, tokenizer = self.make("t5")
        chats, pairs, ids = [], [], []
        for i, text in enumerate(self.texts[:8]):
            before = [{"role": "user", "content": text}]
            answer = {"role": "assistant", "content": text[:10 + i]}
            chats.append({"messages": [*before, answer]})
            pairs.append({"prompt": before, "completion": [answer]})
            ids.append({"input_ids": tokenizer.apply_chat_template(before, add_generation_prompt=True, return_dict=False),
                        "labels": tokenizer(answer["content"])["input_ids"]})
        for name, rows in (("chats", chats), ("pairs_of_messages", pairs), ("ids", ids)):
            write_rows(self.folder / f"{name}.jsonl", rows)
        curve = self.ours("t5", "ids", steps=4)
        self.assertEqual(self.ours("t5", "chats", steps=4), curve)
        self.assertEqual(self.ours("t5", "pairs_of_messages", steps=4), curve)

    def test_long_texts_keep_their_special_tokens(self):
        _, tokenizer = self.make("bart")
        rows = self.rows()[:8]
        write_rows(self.folder / "long.jsonl", rows)
        for mode, side in (("keep_start", "right"), ("keep_end", "left")):
            tokenizer.truncation_side = side
            write_rows(self.folder / "short.jsonl", [
                {"input_ids": tokenizer(row["prompt"], truncation=True, max_length=9)["input_ids"],
                 "labels": tokenizer(row["completion"], truncation=True, max_length=9)["input_ids"]} for row in rows])
            with self.subTest(mode=mode):
                curves = []
                for data, length in (("long", 9), ("short", 48)):
                    self.remove("out")
                    self.train("out", "--no-shuffle", "--length", length, "--set", f"truncation_mode={mode}", steps=4, data=[data],
                               model="bart")
                    curves.append(self.curve("out"))
                self.assertEqual(*curves)

    def test_evaluation_and_best_model(self):
        rows = self.rows()
        write_rows(self.folder / "pairs.jsonl", rows)
        write_rows(self.folder / "held.jsonl", rows[:7])  # the last batch is short
        model, tokenizer = self.make("bart")
        self.ours("bart", "pairs", "--eval-data", self.folder / "held.jsonl", "--eval-steps", 4, steps=4)
        evaluated = self.log("out")[1][4]
        saved = self.loader.from_pretrained(self.folder / "out" / "run-4").eval()
        total = count = 0
        with torch.no_grad():
            for row in rows[:7]:
                labels = torch.tensor([tokenizer(row["completion"])["input_ids"]])
                total += saved(input_ids=torch.tensor([tokenizer(row["prompt"])["input_ids"]]), labels=labels).loss.item() * labels.numel()
                count += labels.numel()
        self.assertAlmostEqual(evaluated["eval_loss"], total / count, places=4)
        self.assertAlmostEqual(evaluated["eval_perplexity"], math.exp(total / count), delta=1e-2)

    def test_what_an_encoder_decoder_has_not(self):
        self.make("t5")
        write_rows(self.folder / "pairs.jsonl", self.rows())
        for change in ("packing=true", "padding_free=true", "completion_only_loss=false", "train_on_inputs=true",
                       "assistant_only_loss=true", "dataset_text_field=other", "neftune_noise_alpha=5", "eval_packing=true"):
            with self.subTest(change):
                self.assertIn(f"[trainer] {change.split('=')[0]} must ", self.refused("--set", change, data=["pairs"], model="t5"))
        self.assertIn('an encoder-decoder is trained on rows with a prompt and a completion, or with messages; this one has',
                      self.refused(data=["one"], model="t5"))
        write_rows(self.folder / "open.jsonl", [{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}])
        self.assertIn('"messages" must end with a text of the assistant', self.refused(data=["open"], model="t5"))


class Embedding(OtherModels):
    def rows(self):
        return [{"query": text[:20], "positive": text[8:60], "negative": self.texts[-1 - i][:40]}
                for i, text in enumerate(self.texts[:30])]

    def vectors(self, model, tokenizer, texts, pooling):
        batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
        hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).float()
        if pooling == "last":
            return hidden[torch.arange(len(texts)), batch["attention_mask"].sum(1) - 1]
        if pooling == "first":
            return hidden[:, 0]
        if pooling == "max":
            return hidden.masked_fill(mask == 0, float("-inf")).max(1).values
        if pooling == "weighted_mean":
            mask = mask * torch.arange(1, hidden.shape[1] + 1).view(1, -1, 1)
        return (hidden * mask).sum(1) / mask.sum(1)

    def loss_of(self, rows, tokenizer, pooling, kind="infonce", negatives=False, dims=None, margin=0.2, temperature=0.05):
        normalize = torch.nn.functional.normalize

        def one(query, positive, negative):
            if kind == "triplet":
                return torch.relu((query - positive).square().sum(-1) - (query - negative).square().sum(-1) + margin).mean()
            candidates = torch.cat([positive, negative]) if negatives else positive
            return torch.nn.functional.cross_entropy(query @ candidates.T / temperature, torch.arange(len(query)))

        def loss(model, indices):
            parts = [self.vectors(model, tokenizer, [rows[i][name] for i in indices], pooling)
                     for name in ("query", "positive", "negative")]
            sizes = dims or [parts[0].shape[1]]
            return sum(one(*(normalize(part[:, :size], dim=-1) for part in parts)) for size in sizes) / len(sizes)

        return loss

    CASES = (
        ("bert", "mean", dict(), ()),
        ("llama", "last", dict(negatives=True), ("--set", "negative_field=negative", "--set", "loss_type=mnrl")),
        ("bert", "first", dict(kind="triplet", margin=0.5),
         ("--set", "negative_field=negative", "--set", "loss_type=triplet", "--set", "margin=0.5", "--set", "pooling_strategy=first")),
        ("llama", "weighted_mean", dict(dims=[8, 32], temperature=0.1),
         ("--set", "matryoshka_dims=[8, 32]", "--set", "temperature=0.1", "--set", "pooling_strategy=weighted_mean")),
        ("bert", "max", dict(dims=[16], negatives=True),
         ("--set", "matryoshka_dims=[16]", "--set", "negative_field=negative", "--set", "pooling_strategy=max")),
    )

    def test_the_curve_is_that_of_the_formula(self):
        rows = self.rows()
        write_rows(self.folder / "texts.jsonl", rows)
        for family, pooling, options, more in self.CASES:
            # Where two tokens are equally large the last bit decides which one learns: curves with max part there.
            steps, tolerance = (25, 1e-4) if pooling == "max" else (STEPS, 2e-3)
            model, tokenizer = self.make(family)
            theirs = self.theirs(model, self.loss_of(rows, tokenizer, pooling, **options), len(rows), steps)
            for mesh in ((), MESHES[0]):
                with self.subTest(family=family, pooling=pooling, options=options, mesh=mesh):
                    self.compare(self.ours(family, "texts", "--trainer", "embedding", *more, *mesh, steps=steps), theirs, tolerance)

    def test_killed_and_resumed(self):
        write_rows(self.folder / "texts.jsonl", self.rows())
        self.make("bert", hidden_dropout_prob=0.1)
        self.kill_and_resume("bert", "texts", "--trainer", "embedding")

    def test_evaluation_leaves_out_what_fills_up_a_batch(self):
        rows = self.rows()
        write_rows(self.folder / "texts.jsonl", rows)
        write_rows(self.folder / "held.jsonl", rows[:6])
        _, tokenizer = self.make("bert")
        self.ours("bert", "texts", "--trainer", "embedding", "--eval-data", self.folder / "held.jsonl", "--eval-steps", 2, steps=2)
        saved = AutoModel.from_pretrained(self.folder / "out" / "run-2").eval()
        loss = self.loss_of(rows, tokenizer, "mean")
        with torch.no_grad():
            expected = (4 * loss(saved, [0, 1, 2, 3]) + 2 * loss(saved, [4, 5])).item() / 6
        self.assertAlmostEqual(self.log("out")[1][2]["eval_loss"], expected, places=4)

    def test_what_is_refused(self):
        self.make("bert")
        write_rows(self.folder / "texts.jsonl", self.rows())
        write_rows(self.folder / "none.jsonl", [{"query": "a"}])
        run = ("--trainer", "embedding")
        self.assertIn("negative_field must name a column with loss_type: triplet; got null.",
                      self.refused(*run, "--set", "loss_type=triplet", data=["texts"], model="bert"))
        self.assertIn("matryoshka_dims must not be above the model's hidden_size, 32; got 64.",
                      self.refused(*run, "--set", "matryoshka_dims=[64]", data=["texts"], model="bert"))
        self.assertIn('[none.jsonl, line 1]', self.refused(*run, data=["none"], model="bert"))


class ImageRows(OtherModels):
    mean, std = torch.tensor([0.4, 0.45, 0.5]).view(3, 1, 1), torch.tensor([0.25, 0.3, 0.35]).view(3, 1, 1)

    def save(self, model, family):
        """With other biases and norms than those of the beginning, and with what makes an image pixels."""
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(self.folder / family)
        (self.folder / family / "preprocessor_config.json").write_text(json.dumps(
            {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}, "image_mean": self.mean.flatten().tolist(),
             "image_std": self.std.flatten().tolist()}))
        return model.train()

    def setUp(self):
        """images.jsonl with an image in every spelling, a label and a text, and images.parquet."""
        draw = numpy.random.default_rng(0)
        (self.folder / "images").mkdir(exist_ok=True)
        self.pixels, self.labels, rows, column = [], [], [], []
        for i in range(18):
            label = i % 3
            values = draw.integers(0, 160, (16, 16, 3), dtype=numpy.uint8)
            values[..., label] += 90  # something to learn
            file = io.BytesIO()
            Image.fromarray(values).save(file, "PNG")
            (self.folder / "images" / f"{i}.png").write_bytes(file.getvalue())
            encoded = base64.b64encode(file.getvalue()).decode()
            image = (f"images/{i}.png", str(self.folder / "images" / f"{i}.png"), f"data:image/png;base64,{encoded}", encoded,
                     {"bytes": encoded, "path": None}, {"path": f"images/{i}.png"})[i % 6]
            rows.append({"image": image, "label": label, "text": self.texts[i]})
            column.append({"bytes": file.getvalue(), "path": f"{i}.png"})
            self.pixels.append((torch.from_numpy(values).permute(2, 0, 1) / 255 - self.mean) / self.std)
            self.labels.append(label)
        write_rows(self.folder / "images.jsonl", rows)
        pyarrow.parquet.write_table(pyarrow.table({"image": column, "label": self.labels, "text": [row["text"] for row in rows]}),
                                    self.folder / "images.parquet")

    def parquet_curve(self, *arguments, **options):
        """Of images.parquet in place of images.jsonl."""
        command = [part.replace("images.jsonl", "images.parquet") for part in self.command("parquet", *arguments, **options)]
        done = warm_start.run(command, text=True, timeout=120, env=os.environ | VARIABLES)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.curve("parquet")

    def command(self, *given, **options):
        """Images have no length, and texts beside them one of their own."""
        made = super().command(*given, **options)
        at = made.index("--length")
        return made[:at] + made[at + 2:]


class Images(ImageRows):
    loader = AutoModelForImageClassification

    def make(self, family, **changes):
        torch.manual_seed(1)
        return self.save(self.loader.from_config(AutoConfig.for_model(family, num_labels=3, **{**FAMILIES[family], **changes})), family)

    def loss(self, model, indices):
        return model(pixel_values=torch.stack([self.pixels[i] for i in indices]), labels=torch.tensor([self.labels[i] for i in indices])).loss

    RUN = ("--trainer", "classification", "--no-shuffle", "--learning-rate", RATE)

    def curve_of(self, family, *more, steps=STEPS, data="images", output="out"):
        self.remove(output)
        self.train(output, *self.RUN, "--save-steps", steps, *more, steps=steps, data=[data], model=family)
        return self.curve(output)

    def test_the_curve_is_that_of_transformers(self):
        for family, steps, meshes in (("vit", STEPS, ((), *MESHES)), ("dinov2", 10, ((),)), ("clip", 10, ((),)), ("siglip", 10, ((),))):
            model = self.make(family)
            theirs = self.theirs(model, self.loss, len(self.pixels), steps)
            for mesh in meshes:
                with self.subTest(family=family, mesh=mesh):
                    self.compare(self.curve_of(family, *mesh, steps=steps), theirs)
                    self.same_model(model, steps=steps)
        self.assertTrue((self.folder / "out" / "run-10" / "preprocessor_config.json").exists())

    def test_bytes_in_a_parquet_file(self):
        self.make("vit")
        curve = self.curve_of("vit", steps=5)
        self.assertEqual(self.parquet_curve(*self.RUN, steps=5, data=["images"], model="vit"), curve)

    def test_evaluation_counts_the_last_rows(self):
        """Seven rows: a batch of four and one of three, which ranks share unevenly."""
        self.make("vit")
        rows = (self.folder / "images.jsonl").read_text().splitlines()
        (self.folder / "held.jsonl").write_text("\n".join(rows[:7]) + "\n")
        for mesh in ((), ("--mesh", "1,2,1,1,1")):
            self.curve_of("vit", "--eval-data", self.folder / "held.jsonl", "--eval-steps", 2, *mesh, steps=2)
            evaluated = self.log("out")[1][2]
            saved = self.loader.from_pretrained(self.folder / "out" / "run-2").eval()
            with torch.no_grad():
                out = saved(pixel_values=torch.stack(self.pixels[:7]), labels=torch.tensor(self.labels[:7]))
            with self.subTest(mesh=mesh):
                self.assertAlmostEqual(evaluated["eval_loss"], out.loss.item(), places=5)
                right = (out.logits.argmax(-1) == torch.tensor(self.labels[:7])).float().mean().item()
                self.assertAlmostEqual(evaluated["eval_accuracy"], right, places=6)

    def test_killed_and_resumed(self):
        self.make("vit", hidden_dropout_prob=0.1)
        self.kill_and_resume("vit", "images", "--trainer", "classification")
        self.kill_and_resume("vit", "images", "--trainer", "classification", "--lora-rank", 2)

    def test_what_is_refused(self):
        self.make("vit")
        (self.folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(30))
        for image, message in (("none.png", '"image" names no file: none.png.'), (5, '"image" must be a path, a data URI, base64'),
                               ("data:image/png,abc", '"image" is a data URI and must be data:…;base64,…'),
                               ("broken.png", 'broken.jsonl, line 1: "image"')):
            write_rows(self.folder / "broken.jsonl", [{"image": image, "label": 0}])
            with self.subTest(image=image):
                self.assertIn(message, self.refused("--trainer", "classification", data=["broken"], model="vit"))
        for change in ("dataset_text_field=other", "add_special_tokens=false", "max_length=8", "neftune_noise_alpha=5"):
            with self.subTest(change):
                self.assertIn(f"[trainer] {change.split('=')[0]} must ",
                              self.refused("--trainer", "classification", "--set", change, data=["images"], model="vit"))


class Pairs(ImageRows):
    """Texts and images in one space: CLIP's softmax and SigLIP's sigmoid."""
    RUN = ("--trainer", "contrastive")
    LENGTH = 24

    def make(self, family, **changes):
        text = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=300, bos_token_id=1,
                    eos_token_id=2, pad_token_id=0, max_position_embeddings=self.LENGTH, **changes)
        more = {"projection_dim": 24} if family == "clip" else {}
        made = super().make(family, text_config=text, **more)  # for its tokenizer
        return self.save(made[0], family), made[1]

    def loss_of(self, tokenizer):
        def loss(model, indices):
            ids = tokenizer([self.texts[i] for i in indices], return_tensors="pt", padding="max_length", truncation=True,
                            padding_side="right", truncation_side="right", max_length=self.LENGTH)["input_ids"]
            return model(input_ids=ids, pixel_values=torch.stack([self.pixels[i] for i in indices]), return_loss=True).loss

        return loss

    def test_the_curve_is_that_of_transformers(self):
        for family, steps, meshes in (("clip", STEPS, ((), ("--mesh", "1,2,1,2,1"))), ("siglip", STEPS, ((), ("--mesh", "2,2,1,1,1")))):
            model, tokenizer = self.make(family)
            theirs = self.theirs(model, self.loss_of(tokenizer), len(self.pixels), steps)
            self.assertLess(theirs[-1], theirs[0])
            for mesh in meshes:
                with self.subTest(family=family, mesh=mesh):
                    self.compare(self.ours(family, "images", *self.RUN, *mesh, steps=steps), theirs)
                    self.same_model(model, steps=steps)
            self.assertTrue((self.folder / "out" / f"run-{steps}" / "preprocessor_config.json").exists())

    def test_bytes_in_a_parquet_file_and_yaml(self):
        self.make("clip")
        curve = self.ours("clip", "images", *self.RUN, steps=5)
        self.assertEqual(self.parquet_curve(*self.RUN, "--no-shuffle", "--learning-rate", RATE, steps=5, data=["images"], model="clip"), curve)
        self.remove("yaml")
        (self.folder / "run.yaml").write_text(json.dumps({
            "model": {"name_or_path": str(self.folder / "clip"), "task": "zero-shot-image-classification"},
            "loader": {"device": "cpu"},
            "mixture": {"informs": [{"data_files": str(self.folder / "images.jsonl")}]},
            "trainer": {"trainer_type": "contrastive", "save_directory": str(self.folder / "yaml"), "max_training_steps": 5,
                        "total_batch_size": BATCH, "learning_rate": RATE, "shuffle_train_dataset": False, "progress_bar_type": "none"},
            "actions": ["train"]}))
        done = warm_start.run([EASYDEL, "elarge", str(self.folder / "run.yaml")], text=True, timeout=120, env=os.environ | VARIABLES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.curve("yaml"), curve)

    def test_evaluation_has_no_negatives_that_fill_up_a_batch(self):
        _, tokenizer = self.make("siglip")
        rows = (self.folder / "images.jsonl").read_text().splitlines()
        (self.folder / "held.jsonl").write_text("\n".join(rows[:7]) + "\n")
        for mesh in ((), ("--mesh", "1,2,1,1,1")):
            self.ours("siglip", "images", *self.RUN, "--eval-data", self.folder / "held.jsonl", "--eval-steps", 2, *mesh, steps=2)
            saved = AutoModel.from_pretrained(self.folder / "out" / "run-2").eval()
            loss = self.loss_of(tokenizer)
            with self.subTest(mesh=mesh), torch.no_grad():
                expected = (4 * loss(saved, [0, 1, 2, 3]) + 3 * loss(saved, [4, 5, 6])).item() / 7
                self.assertAlmostEqual(self.log("out")[1][2]["eval_loss"], expected, places=4)

    def test_killed_and_resumed(self):
        self.make("clip", attention_dropout=0.1)
        self.kill_and_resume("clip", "images", *self.RUN)
        self.kill_and_resume("clip", "images", *self.RUN, "--lora-rank", 2)

    def test_what_is_refused(self):
        self.make("clip")
        for change in ("max_length=25", "neftune_noise_alpha=5", "group_by_length=true", "lmhead_chunksize=8", "aux_loss_enabled=true"):
            with self.subTest(change):
                self.assertRegex(self.refused(*self.RUN, "--set", change, data=["images"], model="clip"),
                                 rf"{change.split('=')[0]}:? must not be")
        self.assertIn('has no field "image"', self.refused(*self.RUN, data=["one"], model="clip"))
        self.assertIn("has no class for zero-shot-image-classification", self.refused(*self.RUN, data=["images"]))


class Seeing(OtherModels):
    loader = AutoModelForImageTextToText
    IMAGE = "<image>" * 4  # 2 x 2 patches

    def make(self, family, **changes):
        torch.manual_seed(1)
        model = self.loader.from_config(AutoConfig.for_model(family, **{**FAMILIES[family], **changes}))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(self.folder / family)
        raw = Tokenizer.from_file(str(self.folder / "model" / "tokenizer.json"))
        raw.add_special_tokens(["<image>"])
        self.assertEqual(raw.token_to_id("<image>"), 300)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
        tokenizer.chat_template = TEMPLATE
        tokenizer.save_pretrained(self.folder / family)
        (self.folder / family / "preprocessor_config.json").write_text(json.dumps(
            {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16},
             "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}))
        (self.folder / family / "processor_config.json").write_text(json.dumps(
            {"processor_class": "LlavaProcessor", "patch_size": 8, "num_additional_image_tokens": 1,
             "vision_feature_select_strategy": "default", "image_token": "<image>"}))
        return model.train(), tokenizer

    def setUp(self):
        """seen.jsonl: rows with an image, with two, and with none."""
        draw = numpy.random.default_rng(0)
        self.rows, self.pixels, self.texts_of_rows = [], [], []
        for i in range(12):
            files, pixels = [], []
            for j in range((1, 2, 0)[i % 3]):
                values = draw.integers(0, 255, (16, 16, 3), dtype=numpy.uint8)
                files.append(f"seen{i}_{j}.png")
                Image.fromarray(values).save(self.folder / files[-1])
                pixels.append((torch.from_numpy(values).permute(2, 0, 1) / 255 - 0.5) / 0.5)
            said, answer = self.texts[i][:24], self.texts[i][24:40]
            if i % 3 == 1:
                parts = [{"type": "image"}, {"type": "text", "text": said}, {"type": "image"}]
                self.rows.append({"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}],
                                  "images": files})
                self.texts_of_rows.append(("", f"user: {self.IMAGE}\n{said}\n{self.IMAGE}\nassistant: {answer}\n"))
            else:
                self.rows.append({"prompt": "<image>" * len(files) + said, "completion": answer} | ({"image": files[0]} if files else {}))
                self.texts_of_rows.append((self.IMAGE * len(files) + said, answer + "</s>"))
            self.pixels.append(pixels)
        write_rows(self.folder / "seen.jsonl", self.rows)

    def loss_of(self, tokenizer):
        def loss(model, indices):
            ids, labels = [], []
            for i in indices:
                before, after = self.texts_of_rows[i]
                ids.append(tokenizer(before + after)["input_ids"])
                prompt = len(os.path.commonprefix([ids[-1], tokenizer(before)["input_ids"]])) if before else 0
                labels.append([-100 if j < prompt or token == 300 else token for j, token in enumerate(ids[-1])])
            width = max(map(len, ids))
            pixels = [image for i in indices for image in self.pixels[i]]
            return model(input_ids=torch.tensor([row + [0] * (width - len(row)) for row in ids]),
                         attention_mask=torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids]),
                         labels=torch.tensor([row + [-100] * (width - len(row)) for row in labels]),
                         pixel_values=torch.stack(pixels) if pixels else None).loss

        return loss

    def test_the_curve_is_that_of_transformers(self):
        for frozen in (True, False):
            model, tokenizer = self.make("llava")
            if frozen:
                model.model.vision_tower.requires_grad_(False)
            theirs = self.theirs(model, self.loss_of(tokenizer), len(self.rows))
            for mesh in ((), *MESHES) if frozen else ((), MESHES[0]):
                with self.subTest(frozen=frozen, mesh=mesh):
                    self.compare(self.ours("llava", "seen", *mesh, "--set", f"freeze_vision_tower={str(frozen).lower()}"), theirs)
                    self.same_model(model)

    def test_adapters_on_any_part(self):
        self.make("llava")
        for more, trained in (((), {"language_model", "multi_modal_projector"}), (("--lora-pattern", "vision_tower.*q_proj"), {"vision_tower"})):
            with self.subTest(more=more):
                self.ours("llava", "seen", "--lora-rank", 2, *more, "--set", "merge_lora_before_save=false", steps=2)
                names = load_file(next((self.folder / "out" / "run-2").rglob("adapter_model.safetensors")))
                self.assertEqual({part for name in names for part in ("language_model", "multi_modal_projector", "vision_tower") if part in name},
                                 trained)

    def test_killed_and_resumed(self):
        self.make("llava")
        self.kill_and_resume("llava", "seen")

    def test_what_is_refused(self):
        self.make("llava")
        row = self.rows[0]
        for change, message in (({"image": None}, "must have a placeholder <image> for each image; got 1 for 0"),
                                ({"image": "none.png"}, '"image 1" names no file: none.png.')):
            write_rows(self.folder / "bad.jsonl", [row | change])
            self.assertIn(message, self.refused(data=["bad"], model="llava"))
        write_rows(self.folder / "bad.jsonl", [row])
        self.assertIn("would cut an image. Set a larger max_length, or another truncation_mode.",
                      self.refused("--length", 8, data=["bad"], model="llava"))
        for change in ("packing=true", "padding_free=true", "assistant_only_loss=true", "train_on_inputs=false", "dataset_text_field=other",
                       "neftune_noise_alpha=5"):
            with self.subTest(change):
                self.assertIn(f"[trainer] {change.split('=')[0]} must ", self.refused("--set", change, data=["seen"], model="llava"))


class Speech(OtherModels):
    loader = AutoModelForSpeechSeq2Seq

    def setUp(self):
        """sounds.jsonl: tones, and a word for each; and what transformers' feature extractor makes of them."""
        extractor = WhisperFeatureExtractor(feature_size=10, chunk_length=1)
        draw = numpy.random.default_rng(0)
        self.rows, self.features = [], []
        for i in range(14):
            tone = numpy.sin(numpy.arange(6000 + 400 * i) * (0.05 + 0.04 * (i % 5))) * 9000 + draw.normal(0, 300, 6000 + 400 * i)
            samples = tone.astype("<i2")
            with wave.open(str(self.folder / f"{i}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(samples.tobytes())
            self.rows.append({"audio": f"{i}.wav", "text": "tone " * (1 + i % 5)})
            self.features.append(extractor((samples / 32768).astype("f4"), sampling_rate=16000, return_tensors="pt").input_features[0])
        write_rows(self.folder / "sounds.jsonl", self.rows)

    def make(self, family, **changes):
        made = super().make(family, **changes)
        WhisperFeatureExtractor(feature_size=10, chunk_length=1).save_pretrained(self.folder / family)
        return made

    def loss_of(self, tokenizer):
        def loss(model, indices):
            target = tokenizer([self.rows[i]["text"] for i in indices], return_tensors="pt", padding=True, padding_side="right")
            labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, -100)[:, 1:]  # the decoder begins with <s> anyway
            return model(input_features=torch.stack([self.features[i] for i in indices]), labels=labels).loss

        return loss

    def test_the_curve_is_that_of_transformers(self):
        model, tokenizer = self.make("whisper")
        theirs = self.theirs(model, self.loss_of(tokenizer), len(self.rows))
        self.assertLess(theirs[-1], theirs[0] - 1)
        for mesh in ((), *MESHES):
            with self.subTest(mesh=mesh):
                self.compare(self.ours("whisper", "sounds", *mesh), theirs)
                self.same_model(model)
        self.assertTrue((self.folder / "out" / f"run-{STEPS}" / "preprocessor_config.json").exists())

    def test_killed_and_resumed(self):
        self.make("whisper", dropout=0.1)
        self.kill_and_resume("whisper", "sounds")

    def test_what_is_refused(self):
        self.make("whisper")
        write_rows(self.folder / "texts_alone.jsonl", [{"text": "a"}])
        self.assertIn('has no field "audio"', self.refused(data=["texts_alone"], model="whisper"))
        with wave.open(str(self.folder / "long.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(bytes(2 * 8000 * 3))
        write_rows(self.folder / "long_sound.jsonl", [{"audio": "long.wav", "text": "a"}])
        self.assertIn('"audio" has 3 seconds; the model accepts 1 at once. Split it into parts.',
                      self.refused(data=["long_sound"], model="whisper"))
        self.assertIn("[trainer] packing must ", self.refused("--set", "packing=true", data=["sounds"], model="whisper"))


if __name__ == "__main__":
    unittest.main()
