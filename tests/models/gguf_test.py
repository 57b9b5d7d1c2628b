"""GGUF files as models, beside transformers, sentencepiece and tokenizers.
usage: gguf_test.py COMPANIONS_PROGRAM EASYDEL"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start
import gguf
import numpy as np
import safetensors.torch
import sentencepiece
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
from gguf_models import finish, write
from tokenizers import Tokenizer
from tokenizers_draw import Texts
from tokenizers_kinds import make

EASYDEL = sys.argv.pop()
PROGRAM = sys.argv.pop()
transformers.utils.logging.disable_progress_bar()
Type = gguf.GGMLQuantizationType
SHAPE = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)


def run(*args, stdin: str = "") -> subprocess.CompletedProcess:
    return warm_start.run([EASYDEL, *map(str, args)], input=stdin.encode(), timeout=120)


class Gguf(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.temporary.name)
        torch.manual_seed(0)

    def tearDown(self):
        self.temporary.cleanup()

    def logits(self, path, *more) -> torch.Tensor:
        ids = torch.randint(3, 96, (2, 40), generator=torch.Generator().manual_seed(1))
        safetensors.torch.save_file({"input_ids": ids}, self.directory / "in.safetensors")
        out = self.directory / "out.safetensors"
        done = run("forward", path, "--input", self.directory / "in.safetensors", "--output", out, *more)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return ids, safetensors.torch.load_file(out)["logits"]

    def check(self, model, path, *more) -> None:
        ids, got = self.logits(path, *more)
        with torch.no_grad():
            expected = model.eval()(ids).logits
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)

    def peer(self, path):
        with contextlib.redirect_stderr(io.StringIO()):
            return transformers.AutoModelForCausalLM.from_pretrained(self.directory, gguf_file=path.name, dtype=torch.float32)

    def test_llama_in_every_type_that_can_be_written(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE))
        for kind in (Type.F32, Type.F16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1):
            with self.subTest(kind.name):
                path = self.directory / f"{kind.name}.gguf"
                write(path, model, "llama", kind)
                self.check(self.peer(path), path)

    def test_generate_takes_its_settings_from_the_metadata(self):
        def add_ids(writer):
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)

        path = self.directory / "model.gguf"
        write(path, transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)), "llama", Type.F32, add_ids)
        done = run("generate", path, "--input-ids", "5,6,7", "--max-new-tokens", 6, "--json")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        got = json.loads(done.stdout)["sequences"][0]["ids"]
        ids = torch.tensor([[5, 6, 7]])
        out = self.peer(path).generate(ids, max_new_tokens=6, do_sample=False, attention_mask=torch.ones_like(ids),
                                       pad_token_id=0, eos_token_id=2)
        self.assertEqual(got, out[0, 3:].tolist())

    def test_tied_embeddings_another_base_and_a_mesh(self):
        config = transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 5e5})
        path = self.directory / "tied.gguf"
        write(path, transformers.LlamaForCausalLM(config), "llama", Type.Q8_0)
        self.check(self.peer(path), path)
        self.check(self.peer(path), path, "--devices", 4, "--mesh", "1,2,1,2,1")

    def test_qwen_families(self):
        for arch, make_model in (("qwen2", lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SHAPE))),
                                 ("qwen3", lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SHAPE, head_dim=32)))):
            with self.subTest(arch):
                path = self.directory / f"{arch}.gguf"
                model = make_model()
                for name, p in model.named_parameters():
                    if "norm" in name or "bias" in name:
                        torch.nn.init.normal_(p, 0.5, 0.3)
                write(path, model, arch, Type.F32)
                self.check(model, path)

    def test_mixtral_is_an_architecture_llama_with_experts(self):
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2))
        path = self.directory / "mixtral.gguf"
        write(path, model, "llama", Type.F32)
        self.check(model, path)

    def test_qwen3moe_has_experts_of_their_own_width(self):
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
            **SHAPE, head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True))  # fmt: skip
        for name, p in model.named_parameters():
            if "norm" in name:
                torch.nn.init.normal_(p, 0.5, 0.3)
        path = self.directory / "qwen3moe.gguf"
        write(path, model, "qwen3moe", Type.F32)
        self.check(model, path)
        self.check(model, path, "--devices", 4, "--mesh", "1,1,2,2,1")

    def test_the_divisors_of_llama_3(self):
        rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, rope_parameters=rope))
        plain = 1e4 ** (-np.arange(0, 16, 2) / 16)
        scaled = model.model.rotary_emb.inv_freq.numpy()
        path = self.directory / "llama3.gguf"
        write(path, model, "llama", Type.F32, rope_freqs=(plain / scaled).astype(np.float32))
        self.assertGreater(float(np.max(plain / scaled)), 2)
        self.check(model, path)

    def test_generation_and_a_directory_with_one_file(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE))
        folder = self.directory / "one"
        folder.mkdir()
        write(folder / "any.gguf", model, "llama", Type.F32)
        self.check(model, folder)

    def test_what_cannot_be_loaded_is_said(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE))
        path = self.directory / "bloom.gguf"
        write(path, model, "bloom", Type.F32)
        done = run("forward", path, "--input", "x", "--output", "y")
        self.assertEqual(done.returncode, 1)
        self.assertIn('general.architecture must be one of llama, qwen2, qwen3, qwen3moe; got "bloom"', done.stderr.decode())

    # Tokenizers.

    def with_tokenizer(self, name: str, more) -> pathlib.Path:
        path = self.directory / f"{name}.gguf"
        writer = gguf.GGUFWriter(str(path), "llama")
        more(writer)
        finish(writer)
        return path

    def tokenize(self, path: pathlib.Path, texts: list[str], *more) -> list:
        done = run("tokenize", path, "--jsonl", "-", *more, stdin="".join(json.dumps(text) + "\n" for text in texts))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def saved(self, path: pathlib.Path) -> pathlib.Path:
        """The tokenizer of a GGUF file as a C++ program writes it."""
        done = warm_start.run([PROGRAM, "tokenizer", path, self.directory / f"{path.stem}-saved"], text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.directory / f"{path.stem}-saved"

    def test_a_sentencepiece_vocabulary(self):
        draw = Texts(5, [])
        corpus = ["the quick brown fox jumps over the lazy dog " * 3] * 20 + [draw.draw().replace("\n", " ") for _ in range(200)]
        trained = io.BytesIO()
        with contextlib.redirect_stderr(io.StringIO()):
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(corpus), model_writer=trained, vocab_size=900, model_type="bpe", byte_fallback=True,
                normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2, hard_vocab_limit=False,
                character_coverage=0.98)
        peer = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
        n = peer.vocab_size()
        kind = [6 if peer.is_byte(i) else 2 if peer.is_unknown(i) else 3 if peer.is_control(i) else 5 if peer.is_unused(i) else 1 for i in range(n)]

        def fill(writer):
            writer.add_tokenizer_model("llama")
            writer.add_token_list([peer.id_to_piece(i) for i in range(n)])
            writer.add_token_scores([peer.get_score(i) for i in range(n)])
            writer.add_token_types(kind)
            writer.add_bos_token_id(peer.bos_id())
            writer.add_eos_token_id(peer.eos_id())
            writer.add_unk_token_id(peer.unk_id())
            writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")

        path = self.with_tokenizer("spm", fill)
        texts = [text.replace("</s>", "").replace("<s>", "") for text in ["", " two  spaces ", "fox jumps"] + [draw.draw() for _ in range(200)]]
        self.assertEqual(self.tokenize(path, texts), [[peer.bos_id(), *peer.encode(text)] for text in texts])
        self.assertEqual(self.tokenize(self.saved(path), texts), self.tokenize(path, texts))
        self.assertIn("chat_template", json.loads((self.saved(path) / "tokenizer_config.json").read_text()))

    def test_byte_level_vocabularies(self):
        for kind, pre, bos in (("llama3", "llama-bpe", "<|begin_of_text|>"), ("qwen2", "qwen2", None), ("gpt2", "gpt-2", None)):
            with self.subTest(kind):
                text = make(kind)
                spec = json.loads(text)
                peer = Tokenizer.from_str(text)
                n = peer.get_vocab_size()
                added = {token["id"]: token for token in spec["added_tokens"]}
                merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]

                def fill(writer):
                    writer.add_tokenizer_model("gpt2")
                    writer.add_tokenizer_pre(pre)
                    writer.add_token_list([peer.id_to_token(i) for i in range(n)])
                    writer.add_token_types([(3 if added[i]["special"] else 4) if i in added else 1 for i in range(n)])
                    writer.add_token_merges(merges)
                    if bos:
                        writer.add_bos_token_id(peer.token_to_id(bos))
                        writer.add_add_bos_token(True)

                path = self.with_tokenizer(kind, fill)
                draw = Texts(7, [token["content"] for token in added.values()][:2])
                texts = ["", "Hello, wörld! 12345"] + [draw.draw() for _ in range(200)]
                self.assertEqual(self.tokenize(path, texts, "--no-special-tokens"),
                                 [e.ids for e in peer.encode_batch(texts, add_special_tokens=False)])
                theirs = transformers.AutoTokenizer.from_pretrained(self.saved(path))
                self.assertEqual(self.tokenize(path, texts), [theirs(text)["input_ids"] for text in texts])


if __name__ == "__main__":
    unittest.main()
