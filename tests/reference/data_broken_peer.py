"""Data files that are broken: cut short, or with bytes changed. usage: data_broken_peer.py DIRECTORY [tokenizer]

With "tokenizer" instead a tokenizer without a chat template, in DIRECTORY/tokenizer.
"""

import gzip
import json
import pathlib
import sys

directory = pathlib.Path(sys.argv[1])
if sys.argv[2:] == ["tokenizer"]:
    from tokenizers import Tokenizer, models, pre_tokenizers

    (directory / "tokenizer").mkdir()
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(directory / "tokenizer/tokenizer.json"))
    (directory / "tokenizer/tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    sys.exit()

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import zstandard

lines = "".join(json.dumps({"n": i, "text": "abc" * (i % 7)}) + "\n" for i in range(2000)).encode()
for end, content in (("gz", gzip.compress(lines)), ("zst", zstandard.ZstdCompressor(write_checksum=True).compress(lines))):
    (directory / f"cut.jsonl.{end}").write_bytes(content[: len(content) // 2])
    middle = len(content) // 2
    damaged = content[:middle] + bytes(b ^ 0x55 for b in content[middle : middle + 64]) + content[middle + 64 :]
    (directory / f"damaged.jsonl.{end}").write_bytes(damaged)

table = pa.table({"n": list(range(2000)), "text": ["abc" * (i % 7) for i in range(2000)]})
pa.parquet.write_table(table, directory / "whole.parquet", compression="zstd", write_page_checksum=True)
pa.feather.write_feather(table, directory / "whole.feather", compression="uncompressed")
with pa.OSFile(str(directory / "whole_stream.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
    stream.write_table(table)
for name in ("parquet", "feather"):
    content = (directory / f"whole.{name}").read_bytes()
    (directory / f"cut.{name}").write_bytes(content[: len(content) // 2])
content = (directory / "whole_stream.arrow").read_bytes()
(directory / "cut_stream.arrow").write_bytes(content[: len(content) // 2])
# Parquet: bytes of the compressed pages. Feather: the offsets of the texts, so that they point anywhere.
content = bytearray((directory / "whole.parquet").read_bytes())
for i in range(100, 400):
    content[i] ^= 0x55
(directory / "damaged.parquet").write_bytes(bytes(content))
content = (directory / "whole.feather").read_bytes()
offsets = b"".join(sum(3 * (k % 7) for k in range(i)).to_bytes(4, "little") for i in range(1, 200))
assert offsets in content
(directory / "damaged.feather").write_bytes(content.replace(offsets, b"\xff\xff\xff\x7f" * 199))

# Small ones, of nested values, for a test that changes their bytes.
rows = [{"n": i, "text": "é" * i, "m": [{"role": "user", "content": None}] * (i % 3), "d": {"a": [i], "b": i / 2}} for i in range(20)]
table = pa.Table.from_pylist(rows)
pa.parquet.write_table(table, directory / "small.parquet", row_group_size=7)
pa.feather.write_feather(table, directory / "small.feather", compression="lz4")
with pa.OSFile(str(directory / "small_stream.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
    stream.write_table(table, max_chunksize=6)
lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
(directory / "small.jsonl.gz").write_bytes(gzip.compress(lines))
(directory / "small.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(lines))
