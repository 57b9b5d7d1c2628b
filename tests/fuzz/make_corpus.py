"""Writes the seeds of the fuzz targets: small files from the real writers, whole and in their odd forms.

usage: make_corpus.py [DIRECTORY], by default the corpus beside this script. Seeds are named after what they hold; what
fuzzing itself has found is kept beside them under names that begin with "found-", which this script does not touch.
"""

import collections
import io
import json
import pathlib
import pickle
import struct
import sys
import zipfile

import gguf
import numpy as np
import PIL.Image
import safetensors.torch
import sentencepiece
import torch

sys.path.append(str(pathlib.Path(__file__).parent.parent / "reference"))
from chat_templates import TEMPLATES
from template_snippets import FAILING, SNIPPETS


def torch_bytes(value, **options) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def pickle_of(archive: bytes) -> bytes:
    return zipfile.ZipFile(io.BytesIO(archive)).read("archive/data.pkl")


def with_attribute(tensor: torch.Tensor) -> torch.Tensor:
    tensor.tensor_model_parallel = True
    return tensor


def state_dict() -> dict:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    return collections.OrderedDict(
        whole=base,
        transposed=base.transpose(0, 2),
        part=base[1, 1:, ::2],
        expanded=torch.ones(1, dtype=torch.bfloat16).expand(4),
        parameter=torch.nn.Parameter(torch.ones(2, dtype=torch.float16)),
        scalar=torch.tensor(3),
        empty=torch.empty(0, 3),
        attributed=with_attribute(torch.nn.Parameter(torch.ones(1))),
        buffer=torch.nn.Buffer(torch.ones(1)),
        fp8=torch.ones(3).to(torch.float8_e4m3fn),
        unsigned=torch.ones(2, dtype=torch.uint16),
    )


def plain_values() -> dict:
    cycle = [1]
    cycle.append(cycle)
    return {"none": None, "bools": (True, False), "ints": [0, 255, 65535, -1, 2**40, 2**70], "float": 1.5, "str": "é",
            "bytes": b"\x00\xff", "set": {1}, "frozen": frozenset([2]), "nested": {"a": {"b": [(), [], {}]}},
            "size": torch.Size([1, 2]), "device": torch.device("cuda", 1), "dtype": torch.float16, "cycle": cycle}


def zip_bytes(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.comment = comment
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return file.getvalue()


def zip64_bytes() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("big", "w", force_zip64=True) as entry:
        entry.write(b"0123456789")
    return file.getvalue()


def gguf_bytes(fill) -> bytes:
    path = pathlib.Path(sys.argv[0]).with_suffix(".tmp")
    writer = gguf.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = path.read_bytes()
    path.unlink()
    return content


def add_metadata(writer: gguf.GGUFWriter) -> None:
    for bits in (8, 16, 32, 64):
        getattr(writer, f"add_uint{bits}")(f"u{bits}", 2**bits - 1)
        getattr(writer, f"add_int{bits}")(f"i{bits}", -(2 ** (bits - 1)))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("bool", True)
    writer.add_string("string", "é")
    writer.add_array("ints", [1, -2, 3])
    writer.add_array("strings", ["a", "", "b"])
    writer.add_array("bools", [True, False])
    writer.add_array("nested", [[1, 2], [3]])
    for name, value in (("UINT8", 1), ("INT8", -1), ("UINT16", 1), ("INT16", -1), ("UINT32", 1), ("UINT64", 2**64 - 1),
                        ("INT64", -1), ("FLOAT32", 0.5), ("FLOAT64", 0.1)):
        writer.add_key_value(name, [value], gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType[name])


def add_tensors(writer: gguf.GGUFWriter) -> None:
    writer.add_custom_alignment(64)
    rng = np.random.default_rng(0)
    writer.add_tensor("f32", rng.standard_normal((2, 3)).astype(np.float32))
    writer.add_tensor("f16", rng.standard_normal(4).astype(np.float16))
    for kind in (gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q5_1, gguf.GGMLQuantizationType.Q8_0):
        writer.add_tensor(kind.name, gguf.quants.quantize(rng.standard_normal((2, 32)).astype(np.float32), kind),
                          raw_dtype=kind)
    for kind in (gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q5_K, gguf.GGMLQuantizationType.Q6_K):
        size = gguf.GGML_QUANT_SIZES[kind][1]
        writer.add_tensor(kind.name, rng.integers(0, 256, (1, size), dtype=np.uint8), raw_dtype=kind)


def safetensors_bytes(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def sentencepiece_bytes(**options) -> bytes:
    """A small model; the rules of its normalizer are few, because the usual ones take 230 KB."""
    rules = pathlib.Path(sys.argv[0]).with_suffix(".tsv")
    rules.write_text("41\t61\n61 301\te1\n61 62 63\t64\n2460\t31\nA0\t20\n", encoding="utf-8")
    file = io.BytesIO()
    sentences = ["the token of the model", "ab abc abcd <sep> x", "a b c", "to the of ab"] * 5
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=file, minloglevel=3, hard_vocab_limit=False,
        normalization_rule_tsv=str(rules), **options)  # fmt: skip
    rules.unlink()
    return file.getvalue()


class System:
    def __reduce__(self):
        import os
        return os.system, ("true",)


def make_seeds() -> dict[str, dict[str, bytes]]:
    torch.manual_seed(0)
    archives = {f"protocol-{p}": torch_bytes(state_dict(), pickle_protocol=p) for p in range(2, 6)}
    wrapped = torch_bytes({"epoch": 1, "state_dict": {"a": torch.ones(2)}})
    entries = {e.filename: zipfile.ZipFile(io.BytesIO(wrapped)).read(e) for e in
               zipfile.ZipFile(io.BytesIO(wrapped)).infolist()}
    quantized = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)
    return {
        "json": {
            "config": json.dumps({"model_type": "llama", "hidden_size": 4096, "rope_theta": 1e4, "rms_norm_eps": 1e-5,
                                  "tie": False, "rope_scaling": None, "names": ["a", "é", "\u2028", "\U0001f600"]}).encode(),
            "unicode": '{"é": "\\ud83d\\ude00\\n\\u0000 ü"}'.encode(),
            "numbers": b"[0, -0, -0.0, 1e308, 1e-400, 9223372036854775807, -9223372036854775808, 18446744073709551616,"
                       b" NaN, -Infinity, 0.1]",
            "deep": b"[" * 40 + b"]" * 40,
            "duplicate": b'{"a": 1, "a": 2, "b": {"a": []}}',
        },
        "zip": {
            "stored": zip_bytes({"a/data.pkl": b"x" * 10, "a/b": b""}),
            "deflated": zip_bytes({"a": b"x" * 1000, "b": bytes(range(256))}, zipfile.ZIP_DEFLATED),
            "zip64": zip64_bytes(),
            "comment": zip_bytes({"a": b"1"}, comment=b"PK\x05\x06 is not the end of this archive"),
            "torch": torch_bytes({"a": torch.ones(2)}),
            "bomb": zip_bytes({"a": bytes(1 << 20)}, zipfile.ZIP_DEFLATED),
        },
        "pickle": {
            **{name: pickle_of(archive) for name, archive in archives.items()},
            **{f"plain-{p}": pickle_of(torch_bytes(plain_values(), pickle_protocol=p)) for p in range(2, 6)},
            "module": pickle_of(torch_bytes(torch.nn.Linear(1, 1).state_dict())),
            "system": pickle.dumps(System(), protocol=2),
            "protocol-0": pickle.dumps([1, "a"], protocol=0),
        },
        "torch_archive": {
            **archives,
            "wrapped": wrapped,
            "deflated": zip_bytes(entries, zipfile.ZIP_DEFLATED),
            "quantized": torch_bytes({"q": quantized}),
            "sparse": torch_bytes({"s": torch.eye(2).to_sparse()}),
            "conjugated": torch_bytes({"c": torch.ones(2, dtype=torch.complex64).conj()}),
            "legacy": torch_bytes({"a": torch.ones(2)}, _use_new_zipfile_serialization=False)[:64],
        },
        "jinja": {
            **{name: template.encode() for name, template in TEMPLATES.items()},
            "macro-for-ever": b"{% macro m(a) %}{{ [m(a + 1)]|join|upper }}{% endmacro %}{{ m(1) }}",
            "caller-for-ever": b"{% macro m() %}{% call m() %}x{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}{% endcall %}",
            "loop-for-ever": b"{% for i in y if i recursive %}{% set q %}{{ loop(y) }}{% endset %}{{ q }}{% endfor %}",
            "deep-value": b"{% set ns = namespace(v=[]) %}{% for i in range(9999) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v }}",
            "deep-generator": b"{% set ns = namespace(v=y) %}{% for i in range(9999) %}{% set ns.v = ns.v|map('string')|select %}"
                              b"{% endfor %}{{ ns.v|list }}",
            "cycle": b"{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns == ns }}{{ ns.me == [ns] }}{{ ns }}",
            "long-text": b"{{ 'ab' * 9999999 }}{% set a = 'x' * 99999 %}{{ a.replace('x', a) }}",
            **{f"snippets-{i // 12}": "\n".join(SNIPPETS[i : i + 12]).encode() for i in range(0, len(SNIPPETS), 12)},
            **{f"failing-{i // 20}": "\n".join(FAILING[i : i + 20]).encode() for i in range(0, len(FAILING), 20)},
        },
        "gguf": {
            "metadata": gguf_bytes(add_metadata),
            "tensors": gguf_bytes(add_tensors),
        },
        "sentencepiece": {
            "unigram": sentencepiece_bytes(vocab_size=40, self_test_sample_size=3),
            "bpe-bytes": sentencepiece_bytes(vocab_size=300, model_type="bpe", byte_fallback=True),
            "symbols": sentencepiece_bytes(vocab_size=40, user_defined_symbols=["<sep>", "ab", "abc"],
                                           control_symbols=["<c>"], add_dummy_prefix=False),
            "suffix": sentencepiece_bytes(vocab_size=40, model_type="bpe", treat_whitespace_as_suffix=True),
            "char": sentencepiece_bytes(vocab_size=40, model_type="char"),
            "word": sentencepiece_bytes(vocab_size=40, model_type="word"),
        },
        "safetensors": {
            "tensors": safetensors.torch.save({"a": torch.ones(2, 3), "b": torch.ones(1, dtype=torch.bfloat16),
                                               "empty": torch.empty(0), "scalar": torch.tensor(1)}, {"format": "pt"}),
            "empty": safetensors_bytes({}, b""),
            "overlapping": safetensors_bytes({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                                              "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}, b"123"),
        },
    }


def record_seeds() -> dict[str, dict[str, bytes]]:
    """The kind of the file and the length of the pieces, then the text."""
    texts = [b'{"a": 1}\n\n{"a": "\xc3\xa9"}', b"one\r\n\ntwo", b'a,b\n1,"x\n""y"\n\n2\n', b'\xef\xbb\xbf"a"\tb\r\n"1"\t\r2\t3']
    seeds = {f"kind-{i}": bytes([i, 2]) + text for i, text in enumerate(texts)}
    seeds |= {"split": b"\x00\x00train[10%:-20]", "cut": b'\x02\x01a\n"x', "many": b"\x02\x03a\n1,2\n", "bad": b"\x01\x01\xc3\n\xff"}
    return {"records": seeds}


def tokenizer_seeds() -> dict[str, dict[str, bytes]]:
    """Small tokenizers of every kind and component, and for encoding the number of one with a text."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
    from tokenizers_components import components

    wanted = ("normalizer_many", "normalizer_bert_True_None", "normalizer_xlnet", "pre_tokenizer_sequence", "pre_tokenizer_pattern_o200k",
              "pre_tokenizer_metaspace_first_True", "pre_tokenizer_scripts", "pre_tokenizer_bytes_and_digits", "decoder_sequence", "decoder_ctc",
              "post_processor_sequence", "model_bpe_affixes", "model_word_piece", "model_unigram_True", "added_lower", "both_template")  # fmt: skip
    seeds = {}
    for name, document, _ in components():
        if name in wanted:
            seeds[name] = json.dumps(shrunk(json.loads(document)), ensure_ascii=False).encode()
    texts = ["", "a b", "Hello wörld 123", "e\u0301 \u200d👩‍👩‍👧", "  ▁x<s>", "'s  \r\n\n x", "日本語テキスト"]
    encode = {f"text-{i}": bytes([i]) + text.encode() for i, text in enumerate(texts)}
    return {"tokenizer_json": seeds, "tokenizer_encode": encode}


def http_seeds() -> dict[str, dict[str, bytes]]:
    """Requests; the first byte is the size of the pieces in which they arrive."""
    v1 = b" HTTP/1.1\r\nHost: t\r\n"
    seeds = {
        "get": b"\x07GET /a%20b?x=1" + v1 + b"Accept: */*\r\n\r\n",
        "old": b"\x00GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "pipelined": b"\x10GET /1" + v1 + b"\r\nPOST /2" + v1 + b"Content-Length: 3\r\n\r\nabcGET /3" + v1 + b"\r\n",
        "chunked": b"\x01POST /" + v1 + b'Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0;x="y"\r\nT: v\r\n\r\n'
                   b"GET /" + v1 + b"\r\n",
        "continue": b"\x20POST /" + v1 + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        "preflight": b"\x03OPTIONS /v1" + v1 + b"Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n"
                     b"Access-Control-Request-Headers: x\r\n\r\n",
        "folded": b"\x05GET /" + v1 + b"A: b\r\n c\r\n\r\n",
        "smuggled": b"\x09POST /" + v1 + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "bad-utf8": b"\x02GET /%ff\xfe" + v1 + b"\r\n",
        "many": b"\x3fGET /" + v1 + b"a:\r\n" * 30 + b"\r\n",
        "proxy": b"\x0bGET http://h:1/p?q" + v1 + b"Connection: close, x\r\n\r\n",
        "form": b"\x30POST /" + v1 + b'Content-Type: multipart/form-data; boundary="b"\r\nContent-Length: 131\r\n\r\n'
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--b\r\n'
                b"content-disposition: form-data; name=x\r\n\r\n1\r\n--b--",
    }  # fmt: skip
    return {"http": seeds}


def schema_seeds() -> dict[str, dict[str, bytes]]:
    """Grammars; the first byte is their kind."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 1}},
              "required": ["a"], "additionalProperties": False,
              "$defs": {"b": {"anyOf": [{"type": "string", "pattern": "a+", "maxLength": 3}, {"enum": [1, None]}]}}}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "end": "</a>",
                                                "content": {"type": "json_schema", "json_schema": schema}}}
    return {"schema": {"object": b"\x00", "schema": b"\x01" + json.dumps(schema).encode(), "regex": b"\x02(a|b)+[0-9]{2}",
                       "ebnf": b'\x03root ::= "a" root | "b"', "tag": b"\x05" + json.dumps(tag).encode()}}


def image_seeds() -> dict[str, dict[str, bytes]]:
    """Every format in its modes; animated, transparent, of 16 bits and with an orientation."""
    draw = np.random.default_rng(0)
    colours = PIL.Image.fromarray(draw.integers(0, 256, (5, 7, 4), dtype=np.uint8))
    deep = PIL.Image.fromarray(draw.integers(0, 65536, (5, 7), dtype=np.uint16))
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    seeds = {}

    def save(name, image, form, **options):
        file = io.BytesIO()
        image.save(file, form, **options)
        seeds[name] = file.getvalue()

    for mode in ("RGB", "L", "CMYK"):
        save(f"{mode}.jpeg", colours.convert(mode), "JPEG", exif=exif)
    save("progressive.jpeg", colours.convert("RGB"), "JPEG", progressive=True)
    for mode in ("RGBA", "RGB", "L", "LA", "P", "1"):
        save(f"{mode}.png", colours.convert(mode), "PNG")
    save("16.png", deep, "PNG")
    save("animated.png", colours, "PNG", save_all=True, append_images=[colours])
    save("lossy.webp", colours, "WEBP", exif=exif)
    save("lossless.webp", colours, "WEBP", lossless=True)
    save("animated.webp", colours, "WEBP", save_all=True, append_images=[colours.rotate(90)])
    save("still.gif", colours.convert("P"), "GIF")
    save("animated.gif", colours.convert("P"), "GIF", save_all=True, append_images=[colours.convert("P").rotate(180)])
    for mode in ("RGB", "L", "P", "1", "RGBA"):
        save(f"{mode}.bmp", colours.convert(mode), "BMP")
    return {"image": seeds | {"exif": exif.tobytes()[6:], "broken.jpeg": seeds["RGB.jpeg"][:60], "empty": b""}}


def sound_seeds() -> dict[str, dict[str, bytes]]:
    """WAV files of several kinds and channels."""
    samples = (np.sin(np.arange(64)) * 20000).astype("<i2")

    def wav(tag, channels, width, data):
        head = struct.pack("<HHIIHH", tag, channels, 8000, 8000 * channels * width, channels * width, 8 * width)
        body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
        return b"RIFF" + struct.pack("<I", len(body)) + body

    return {"sound": {"mono.wav": wav(1, 1, 2, samples.tobytes()), "eight.wav": wav(1, 8, 2, samples.tobytes()),
                      "bytes.wav": wav(1, 1, 1, bytes(range(64))), "float.wav": wav(3, 2, 4, (samples / 32768).astype("<f4").tobytes()),
                      "silent.wav": wav(1, 2, 2, bytes(64)), "none.wav": wav(1, 1, 2, b""), "law.wav": wav(7, 1, 1, bytes(range(64))),
                      "flac": b"fLaC" + bytes(38), "ogg": b"OggS" + bytes(60), "mp3": b"\xff\xfb\x90\x00" + bytes(413)}}


def shrunk(document: dict) -> dict:
    """The same with the tokens that a short text needs: fuzzing is no faster than the file is long."""
    model = document["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = model["vocab"][:3] + [entry for entry in model["vocab"][3:] if entry[0].isascii()][:40]
        return document
    keep = {token for token in model["vocab"] if len(token.replace("##", "").replace("</w>", "")) == 1 and token.isascii()}
    merges = [pair for pair in model.get("merges", []) if set(pair) <= keep][:15]
    prefix = model.get("continuing_subword_prefix") or ""
    keep |= {left + right[len(prefix):] for left, right in merges} | {"<unk>", "<s>", "</s>"}
    tokens = [token for token in model["vocab"] if token in keep]
    model["vocab"] = {token: i for i, token in enumerate(tokens)}
    if "merges" in model:
        model["merges"] = merges
    return document


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for target, seeds in (make_seeds() | record_seeds() | tokenizer_seeds() | http_seeds() | schema_seeds()
                          | image_seeds() | sound_seeds()).items():
        (directory / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (directory / target / name).write_bytes(content)
        print(f"{target}: {len(seeds)} seeds, {sum(map(len, seeds.values()))} bytes")
