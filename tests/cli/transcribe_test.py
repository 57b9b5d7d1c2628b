"""`easydel transcribe` as a user runs it, and `easydel serve` as openai's client calls it, with a tiny Whisper that transformers made:
the tokens of transformers' generate, and one line for what cannot be heard. usage: transcribe_test.py EASYDEL"""

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

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import openai
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers.models.whisper.tokenization_whisper import _combine_tokens_into_words
from transformers import GenerationConfig, PreTrainedTokenizerFast, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

from tiny_server import KEY, MODEL, Server

EASYDEL = sys.argv.pop()
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

WORDS, SECOND = 300, 16000
END, START, EN, DE, TRANSLATE, TRANSCRIBE, BEFORE, NO_SPEECH, NO_TIMES = range(WORDS, WORDS + 9)
TIMES = NO_TIMES + 1  # 0.00 to 1.00
KEYS = dict(decoder_start_token_id=START, eos_token_id=END, pad_token_id=END, bos_token_id=END, max_length=30,
            suppress_tokens=[5, 8, TRANSLATE, TRANSCRIBE, BEFORE, NO_SPEECH], begin_suppress_tokens=[20, END])
SPEECH = KEYS | dict(lang_to_id={"<|en|>": EN, "<|de|>": DE}, task_to_id={"transcribe": TRANSCRIBE, "translate": TRANSLATE},
                     no_timestamps_token_id=NO_TIMES, is_multilingual=True, max_initial_timestamp_index=10, return_timestamps=False)


def make_tokenizer(directory):
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator(["it is a truth universally acknowledged, that it is the truth"] * 3, trainers.BpeTrainer(
        vocab_size=WORDS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    assert raw.get_vocab_size() <= WORDS
    raw.add_tokens([f"w{i}" for i in range(raw.get_vocab_size(), WORDS)])
    raw.add_special_tokens(["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
                            "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"])
    raw.add_tokens([f"<|{i * 0.02:.2f}|>" for i in range(51)])
    PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|endoftext|>").save_pretrained(directory)
    return raw


class Transcribe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.directory = cls.folder / "model"
        torch.manual_seed(3)
        cls.model = WhisperForConditionalGeneration(WhisperConfig(
            vocab_size=TIMES + 51, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=20, max_source_positions=50, max_target_positions=60, pad_token_id=END,
            bos_token_id=END, eos_token_id=END, decoder_start_token_id=START)).eval()
        with torch.no_grad():
            for name, parameter in cls.model.named_parameters():
                parameter.add_(torch.randn_like(parameter) * (0.6 if "embed_tokens" in name else 0.3))
        cls.model.generation_config = GenerationConfig(**SPEECH)
        cls.model.save_pretrained(cls.directory)
        cls.tokenizer = make_tokenizer(cls.directory)
        cls.extractor = WhisperFeatureExtractor(feature_size=20, chunk_length=1)
        cls.extractor.save_pretrained(cls.directory)
        cls.sounds = {}
        for number, seconds in enumerate((0.4, 1.0, 0.7, 2.73)):
            draw = np.random.default_rng(number)
            time = np.arange(int(seconds * SECOND)) / SECOND
            sound = sum(draw.uniform(0.05, 0.3) * np.sin(2 * np.pi * time * draw.uniform(80, 4000) * (1 + 0.2 * time)) for _ in range(4))
            cls.sounds[cls.write(f"{number}.wav", sound)] = number

    @classmethod
    def write(cls, name: str, sound: np.ndarray) -> pathlib.Path:
        with wave.open(str(cls.folder / name), "wb") as file:
            file.setparams((1, 2, SECOND, 0, "NONE", ""))
            file.writeframes((sound.clip(-1, 1) * 32767).astype("<i2").tobytes())
        return cls.folder / name

    def run_it(self, *args, model=None, ok: bool = True) -> subprocess.CompletedProcess:
        done = warm_start.run([EASYDEL, "--log", "error", "transcribe", *map(str, args), "--model", str(model or self.directory)], text=True, timeout=120)
        self.assertEqual(done.returncode == 0, ok, done.stderr + done.stdout)
        return done

    def inputs(self, path: pathlib.Path) -> dict:
        with wave.open(str(path)) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        more = {} if len(samples) <= SECOND else dict(truncation=False, padding="longest")
        return self.extractor(samples, sampling_rate=SECOND, return_tensors="pt", return_attention_mask=True, **more)

    def features(self, path: pathlib.Path) -> torch.Tensor:
        return self.inputs(path).input_features

    def with_keys(self, name: str, keys: dict) -> pathlib.Path:
        """The model with another generation_config.json."""
        directory = self.folder / name
        directory.mkdir()
        for file in self.directory.iterdir():
            if file.name != "generation_config.json":
                (directory / file.name).symlink_to(file)
        (directory / "generation_config.json").write_text(json.dumps(keys, sort_keys=True))  # as transformers writes it
        return directory

    def prompt_ids(self, text: str) -> torch.Tensor:
        """As WhisperTokenizer.get_prompt_ids makes them."""
        return torch.tensor([BEFORE, *self.tokenizer.encode(" " + text.strip(), add_special_tokens=False).ids])

    def theirs(self, path, keys=SPEECH, prompt: str | None = None, **more) -> tuple[list, list]:
        if prompt is not None:
            more["prompt_ids"] = self.prompt_ids(prompt)
        with torch.no_grad():
            self.model.generation_config = GenerationConfig(**keys)
            out = self.model.generate(self.features(path), return_segments=True, **more)
        segments = [(round(float(s["start"]), 6), round(float(s["end"]), 6)) for s in out["segments"][0]]
        ids = [token for s in out["segments"][0] for token in s["tokens"].tolist()]
        return ids, segments

    def test_tokens_are_those_of_transformers(self):
        variants = ([], {}), (["--language", "de"], dict(language="de")), (["--language", "en", "--task", "translate"], dict(language="en", task="translate")), \
            (["--timestamps"], dict(return_timestamps=True)), (["--num-beams", "4", "--language", "de"], dict(num_beams=4, language="de")), \
            (["--max-new-tokens", "5", "--timestamps"], dict(max_new_tokens=5, return_timestamps=True))
        short = list(self.sounds)[1:3]
        different = set()
        for flags, arguments in variants:
            ours = json.loads(self.run_it(*short, "--json", *flags).stdout)
            for path, entry in zip(short, ours, strict=True):
                with self.subTest(flags=flags, file=path.name):
                    ids, segments = self.theirs(path, **arguments)
                    self.assertEqual(entry["ids"], ids)
                    self.assertEqual([(round(s["start"], 6), round(s["end"], 6)) for s in entry["segments"]], segments)
                    different.add(tuple(ids))
        self.assertGreater(len(different), 5)

    def test_long_recordings_are_heard_in_windows(self):
        path = list(self.sounds)[3]
        for flags, arguments in (([], {}), (["--language", "de"], dict(language="de"))):
            entry = json.loads(self.run_it(path, "--json", *flags).stdout)[0]
            ids, segments = self.theirs(path, keys=SPEECH | dict(return_timestamps=True), **arguments)
            self.assertEqual(entry["ids"], ids)
            self.assertEqual([(round(s["start"], 6), round(s["end"], 6)) for s in entry["segments"]], segments)
            self.assertGreaterEqual(len(segments), 3)

    def test_older_files_force_their_tokens(self):
        for name, keys in (("forced", KEYS | dict(forced_decoder_ids=[[1, DE], [2, TRANSLATE], [3, NO_TIMES]], no_timestamps_token_id=NO_TIMES)),
                           ("open", SPEECH | dict(forced_decoder_ids=[[1, None], [2, TRANSCRIBE]])),
                           ("english", KEYS | dict(no_timestamps_token_id=NO_TIMES, is_multilingual=False)), ("bare", KEYS)):
            directory = self.with_keys(name, keys)
            path = list(self.sounds)[1]
            with self.subTest(name):
                self.assertEqual(json.loads(self.run_it(path, "--json", model=directory).stdout)[0]["ids"], self.theirs(path, keys)[0])
        done = self.run_it(list(self.sounds)[0], "--language", "en", model=self.folder / "english", ok=False)
        self.assertIn("the model is English-only, as is_multilingual of generation_config.json says", done.stderr)
        done = self.run_it(list(self.sounds)[3], model=self.folder / "bare", ok=False)
        self.assertIn("need no_timestamps_token_id in generation_config.json; it has none", done.stderr)

    def their_words(self, path: pathlib.Path, keys: dict, spoken: str = "english", **more) -> list:
        """As transformers' pipeline makes them of what generate returns, one segment at a time."""
        inputs = self.inputs(path)
        with torch.no_grad():
            self.model.generation_config = GenerationConfig(**keys)
            out = self.model.generate(inputs.input_features, attention_mask=inputs.attention_mask, return_timestamps=True,
                                      return_token_timestamps=True, return_segments=True, **more)

        class Words:  # what the grouping asks of a tokenizer
            eos_token_id, language = END, spoken
            decode = staticmethod(lambda ids, **_: self.tokenizer.decode(ids))

        words, before = [], 0.0
        for segment in out["segments"][0]:
            ids, spans = [], []
            for token, time in zip(segment["tokens"].tolist(), segment["token_timestamps"].tolist(), strict=True):
                if token < END:
                    ids.append(token)
                    spans.append((before, time))
                before = time
            for text, _, places in zip(*_combine_tokens_into_words(Words, ids)):
                words.append((text.lstrip(" "), round(spans[places[0]][0], 2), round(spans[places[-1]][1], 2)))
        return words

    def test_words_have_the_times_of_transformers(self):
        keys = SPEECH | dict(alignment_heads=[[0, 1], [1, 0], [1, 3]], lang_to_id={"<|ja|>": EN, "<|de|>": DE})
        directory, path = self.with_keys("aligned", keys), list(self.sounds)[3]
        compared = 0
        for language, flags, arguments in (("japanese", ["--language", "ja"], dict(language="ja")),
                                           ("german", ["--num-beams", "4", "--language", "de"], dict(num_beams=4, language="de"))):
            entries = json.loads(self.run_it(*self.sounds, "--json", "--word-timestamps", *flags, model=directory).stdout)
            for sound, entry in zip(self.sounds, entries, strict=True):
                with self.subTest(file=sound.name, flags=flags):
                    expected = self.their_words(sound, keys, language, **arguments)
                    self.assertEqual([(w["word"], w["start"], w["end"]) for w in entry["words"]], expected)
                    compared += len({(start, end) for _, start, end in expected})
        self.assertGreater(compared, 30)
        split = ["--devices", "2", "--mesh", "1,1,1,2,1"]
        lines = [f"[{w['start']:.2f} --> {w['end']:.2f}] {w['word']}" for w in entry["words"]]
        self.assertEqual(self.run_it(path, "--word-timestamps", *flags, *split, model=directory).stdout, "\n".join(lines) + "\n")
        self.assertIn("token timestamps need alignment_heads in generation_config.json", self.run_it(path, "--word-timestamps", ok=False).stderr)
        wrong = self.with_keys("misaligned", SPEECH | dict(alignment_heads=[[0, 1], [2, 0]]))
        self.assertIn("a layer in [0, 2) and a head in [0, 4); got [2, 0]", self.run_it(path, "--word-timestamps", model=wrong, ok=False).stderr)

    def test_a_text_that_looks_wrong_is_heard_again(self):
        """What is drawn is the likeliest token, with top_k = 1: a try shows in what it leaves for the next window."""
        keys = SPEECH | dict(top_k=1, return_timestamps=True)
        directory = self.with_keys("tries", keys)
        path = list(self.sounds)[3]
        seen, temperatures = set(), set()
        for arguments in ({}, dict(condition_on_prev_tokens=True), *(dict(condition_on_prev_tokens=True, temperature=(0.0, 0.8), **more) for more in (
                dict(logprob_threshold=-1.0), dict(logprob_threshold=-2.0), dict(compression_ratio_threshold=1.2),
                *(dict(logprob_threshold=-0.5, no_speech_threshold=limit) for limit in (1e-6, 1e-4))))):
            flags = [] if not arguments else ["--condition-on-prev-tokens"]
            for name, value in arguments.items():
                if name == "temperature":
                    flags += ["--temperature", ",".join(map(str, value))]
                elif name != "condition_on_prev_tokens":
                    flags += ["--" + name.replace("_", "-"), str(value)]
            with self.subTest(arguments):
                entry = json.loads(self.run_it(path, "--json", *flags, model=directory).stdout)[0]
                ids, segments = self.theirs(path, keys, **dict(temperature=0.0) | arguments)
                self.assertEqual(entry["ids"], ids)
                self.assertEqual([(round(s["start"], 6), round(s["end"], 6)) for s in entry["segments"]], segments)
                seen.add(tuple(ids))
                temperatures |= {s.get("temperature") for s in entry["segments"]}
        self.assertGreaterEqual(len(seen), 3)
        self.assertGreaterEqual(temperatures, {0.0, 0.8})
        self.assertIn("no_speech_threshold needs logprob_threshold", self.run_it(path, "--no-speech-threshold", "0.5", ok=False).stderr)

    def test_text_is_printed_with_times_and_names(self):
        first, second = list(self.sounds)[:2]
        entries = json.loads(self.run_it(first, second, "--timestamps", "--json").stdout)
        spoken = lambda ids: self.tokenizer.decode([i for i in ids if i < TIMES], skip_special_tokens=True)  # noqa: E731
        self.assertEqual([e["text"] for e in entries], [spoken(e["ids"]).lstrip(" ") for e in entries])
        lines = [f"{e['file']}: [{s['start']:.2f} --> {s['end']:.2f}] " + s["text"].lstrip(" ") for e in entries for s in e["segments"]]
        self.assertEqual(self.run_it(first, second, "--timestamps").stdout, "\n".join(lines) + "\n")
        plain = json.loads(self.run_it(first, "--json").stdout)[0]
        self.assertEqual(self.run_it(first).stdout, plain["text"] + "\n")

    def test_a_mesh_hears_the_same(self):
        path = list(self.sounds)[3]
        alone = self.run_it(path, "--json").stdout
        self.assertEqual(self.run_it(path, "--json", "--devices", "2", "--mesh", "1,1,1,2,1").stdout, alone)

    def test_what_cannot_be_heard_is_said_in_one_line(self):
        good = next(iter(self.sounds)).read_bytes()
        (self.folder / "empty.wav").write_bytes(b"")
        (self.folder / "header.wav").write_bytes(good[:44])
        (self.folder / "text.wav").write_text("It is a truth universally acknowledged")
        for name, message in (("empty.wav", "a recording must have a sample; got an empty file."), ("header.wav", "a recording must have a sample"),
                              ("text.wav", "a recording must be a WAV, FLAC, Ogg or MP3 file; got 38 bytes of another format."),
                              ("missing.wav", "missing.wav")):
            done = self.run_it(self.folder / name, ok=False)
            self.assertIn(message, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(len(self.run_it(self.write("silent.wav", np.zeros(SECOND))).stdout.splitlines()), 1)
        for flags, message in ((["--language", "xx"], 'the model\'s languages are de, en; got "xx".'),
                               (["--task", "sing"], 'the model\'s tasks are transcribe, translate; got "sing".'),
                               (["--max-new-tokens", "99"], "exceed the 60 positions of the model")):
            self.assertIn(message, self.run_it(next(iter(self.sounds)), *flags, ok=False).stderr)

    def spoken(self, ids: list) -> str:
        return self.tokenizer.decode([i for i in ids if i < TIMES], skip_special_tokens=True).lstrip(" ")

    def test_prompts_are_those_of_transformers(self):
        """A text before the sound: of one window and of several, which begin with it or with the text so far."""
        short, long = list(self.sounds)[1], list(self.sounds)[3]
        more, different = SPEECH | dict(prev_sot_token_id=BEFORE), set()
        named = self.with_keys("named", more)
        for path, keys, model, flags, arguments in (
                (short, SPEECH, self.directory, [], {}), (short, SPEECH, self.directory, ["--num-beams", "3"], dict(num_beams=3)),
                (long, SPEECH | dict(return_timestamps=True), self.directory, [], {}),
                (long, more | dict(return_timestamps=True), named, ["--condition-on-prev-tokens"], dict(condition_on_prev_tokens=True))):
            for prompt in ("it is the truth", "  w290 universally "):
                with self.subTest(file=path.name, flags=flags, prompt=prompt):
                    entry = json.loads(self.run_it(path, "--json", "--prompt", prompt, *flags, model=model).stdout)[0]
                    ids, segments = self.theirs(path, keys, prompt, **arguments)
                    self.assertEqual(entry["ids"], ids)
                    self.assertEqual([(round(s["start"], 6), round(s["end"], 6)) for s in entry["segments"]], segments)
                    different.add(tuple(ids))
            different.add(tuple(self.theirs(path, keys, **arguments)[0]))
        self.assertGreater(len(different), 6)
        for prompt, message in (("it <|endoftext|>", "a prompt must be plain text; got the special token <|endoftext|>."),
                                ("it is " * 30, "Shorten the prompt, or set a smaller max_new_tokens.")):
            self.assertIn(message, self.run_it(short, "--prompt", prompt, ok=False).stderr)

    def generate(self, *args, model=None, status: int = 0) -> subprocess.CompletedProcess:
        done = warm_start.run([EASYDEL, "--log", "error", "generate", str(model or self.directory), *map(str, args)], text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done

    def test_generate_takes_sound(self):
        """The tokens of transformers' generate, under its options."""
        first, second, long = (list(self.sounds)[i] for i in (1, 2, 3))
        for flags, arguments in (([], {}), (["--num-beams", "4"], dict(num_beams=4)), (["--max-new-tokens", "5"], dict(max_new_tokens=5)),
                                 (["--prompt", "it is the truth"], dict(prompt="it is the truth")),
                                 (["--repetition-penalty", "1.7"], dict(repetition_penalty=1.7)),
                                 (["--do-sample", "--temperature", "0.6", "--top-k", "1"], dict(temperature=0.6, top_k=1))):
            rows = json.loads(self.generate("--audio", first, "--audio", second, "--json", *flags).stdout)["sequences"]
            for path, row in zip((first, second), rows, strict=True):
                with self.subTest(flags=flags, file=path.name):
                    ids, _ = self.theirs(path, **arguments)
                    self.assertEqual((row["file"], row["ids"], row["text"]), (str(path), ids, self.spoken(ids)))
        ids, _ = self.theirs(long, SPEECH | dict(return_timestamps=True))
        self.assertEqual(self.generate("--audio", long).stdout, self.spoken(ids) + "\n")
        self.assertEqual(self.generate("--audio", first, "--audio", second).stdout,
                         "".join(f"{path}: {self.spoken(self.theirs(path)[0])}\n" for path in (first, second)))

    def test_generate_and_chat_say_what_takes_sound(self):
        path = list(self.sounds)[0]
        done = self.generate("--prompt", "It is", status=2)
        self.assertIn("easydel generate: whisper is a speech recognition model, which needs --audio FILE. For timestamps, languages and translation, "
                      f"use: easydel transcribe FILE --model {self.directory}", done.stderr)
        for flags, message in ((["--input-ids", "3"], "--input-ids is not supported with --audio."),
                               (["--image", "a.png"], "--image is not supported with --audio."),
                               (["--output", "out.safetensors"], "--output is not supported with --audio."),
                               (["--output-log-probs"], "--output-log-probs is not supported with --audio.")):
            self.assertIn(message, self.generate("--audio", path, *flags, status=2).stderr)
        text = self.folder / "text"
        text.mkdir()
        transformers.LlamaConfig().save_pretrained(text)
        self.assertIn(f"--audio: llama does not accept audio; got {path}. Use a speech model: easydel generate openai/whisper-small --audio FILE.",
                      self.generate("--prompt", "It is", "--audio", path, model=text, status=2).stderr)
        done = warm_start.run([EASYDEL, "chat", str(text), "--audio", str(path)], text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"--audio: no chat model of this build accepts audio; got {path}. Use a speech model: easydel generate", done.stderr)

    def test_openai_clients_get_the_same(self):
        short, long = list(self.sounds)[1], list(self.sounds)[3]
        aligned = SPEECH | dict(alignment_heads=[[0, 0], [1, 2]])
        with Server(EASYDEL, self.with_keys("served", aligned), "--max-waiting", 100) as server:
            audio = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120).audio
            ids, _ = self.theirs(short, task="transcribe")
            answer = audio.transcriptions.create(file=short, model=MODEL)
            self.assertEqual(answer.text, self.spoken(ids))
            self.assertEqual((answer.usage.type, answer.usage.seconds), ("duration", 1))
            ids, _ = self.theirs(short, language="de", task="transcribe")
            self.assertEqual(audio.transcriptions.create(file=("a.wav", short.read_bytes()), model=MODEL, language="de", temperature=0,
                                                         response_format="text"), self.spoken(ids) + "\n")
            keys = SPEECH | dict(return_timestamps=True)
            ids, segments = self.theirs(long, keys, task="transcribe")
            answer = audio.transcriptions.create(file=long, model=MODEL, response_format="verbose_json", timestamp_granularities=["segment"])
            self.assertEqual(answer.text, self.spoken(ids))
            self.assertEqual(sum((s.tokens for s in answer.segments), []), ids)
            self.assertEqual([(round(s.start, 6), round(s.end, 6)) for s in answer.segments], segments)
            self.assertAlmostEqual(answer.duration, 2.73)
            self.assertIsNone(answer.words)
            both = audio.transcriptions.create(file=long, model=MODEL, response_format="verbose_json", timestamp_granularities=["word", "segment"])
            self.assertEqual([(w.word, w.start, w.end) for w in both.words], self.their_words(long, aligned, task="transcribe"))
            self.assertEqual(both.segments, answer.segments)
            warm = audio.transcriptions.create(file=short, model=MODEL, response_format="verbose_json", timestamp_granularities=["word"], temperature=0.8)
            self.assertIsNone(warm.segments)
            self.assertIn(answer.language, ("en", "de"))
            subtitles = audio.transcriptions.create(file=long, model=MODEL, response_format="vtt")
            self.assertTrue(subtitles.startswith("WEBVTT\n\n00:00:0"), subtitles)
            self.assertEqual(subtitles.count(" --> "), len(segments))
            numbered = audio.transcriptions.create(file=long, model=MODEL, response_format="srt")
            self.assertTrue(numbered.startswith("1\n00:00:0"), numbered)
            self.assertEqual(numbered.count(","), len(segments) * 2 + "".join(s.text for s in answer.segments).count(","))
            ids, _ = self.theirs(short, task="transcribe", prompt="it is the truth")
            self.assertEqual(audio.transcriptions.create(file=short, model=MODEL, prompt="it is the truth").text, self.spoken(ids))
            ids, _ = self.theirs(short, task="translate")
            self.assertEqual(audio.translations.create(file=short, model=MODEL).text, self.spoken(ids))

            def refused(**more) -> str:
                with self.assertRaises(openai.BadRequestError) as caught:
                    audio.transcriptions.create(**dict(file=short, model=MODEL) | more)
                return caught.exception.body["message"]

            for given, message in ((dict(language="xx"), 'the model\'s languages are de, en; got "xx".'),
                                   (dict(file=("a.wav", b"no sound")), "a recording must be a WAV, FLAC, Ogg or MP3 file"),
                                   (dict(temperature=1.5), "temperature must be"), (dict(prompt="<|endoftext|>"), "a prompt must be plain text"),
                                   (dict(stream=True), "stream is not supported"), (dict(timestamp_granularities=["letter"]), "must be segment or word"),
                                   (dict(timestamp_granularities=["word"]), "needs response_format verbose_json"),
                                   (dict(timestamp_granularities=["word"], response_format="verbose_json", language="xx"), "languages are de, en"),
                                   (dict(response_format="diarized_json"), "response_format must be json, text, srt, vtt or verbose_json")):
                with self.subTest(given):
                    self.assertIn(message, refused(**given))
            with self.assertRaisesRegex(openai.BadRequestError, "the model does not generate text"):
                openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0).chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hello"}])
        done = warm_start.run([EASYDEL, "serve", str(self.directory), "--port", "0", "--max-num-seqs", "3"], text=True, timeout=120)
        self.assertIn("max_num_seqs is not supported with a speech model", done.stderr)


if __name__ == "__main__":
    unittest.main()
