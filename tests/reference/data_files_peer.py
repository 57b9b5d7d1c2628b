"""Writes random tables in every format with the packages that people use, and tells which rows each of them reads back.

usage: data_files_peer.py DIRECTORY SEED COUNT. Writes COUNT tables, each as several files, and expected.jsonl: for every
file a line {"file": …, "type": …, "rows": [[values of row 0], …], "names": […]}.
"""

import csv
import gzip
import io
import json
import pathlib
import random
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import zstandard

CHARACTERS = ["a", "Z", "0", " ", "  ", "\t", '"', '""', "'", ",", "\n", "\r\n", "\\", "/", "é", "ß", "日本", "🙂", "\u2028", "\u0000",
              "{", "}", "[", "]", ":", "null", "\\n", "\u00a0", "e\u0301"]


def text(draw: random.Random, most: int = 12) -> str:
    return "".join(draw.choice(CHARACTERS) for _ in range(draw.randint(0, most)))


def value(draw: random.Random, kind: str):
    if draw.random() < 0.15:
        return None
    if kind == "text":
        return text(draw)
    if kind == "int":
        return draw.choice([0, -1, 7, 2**40, -(2**62), draw.randint(-1000, 1000)])
    if kind == "float":
        return draw.choice([0.0, -0.5, 1e300, 1e-7, 3.25, draw.random()])
    if kind == "bool":
        return draw.random() < 0.5
    if kind == "texts":
        return [value(draw, "text") for _ in range(draw.randint(0, 3))]
    if kind == "messages":
        return [{"role": draw.choice(["user", "assistant"]), "content": value(draw, "text")} for _ in range(draw.randint(0, 3))]
    if kind == "struct":
        return {"a": value(draw, "int"), "b": {"c": value(draw, "texts"), "d": value(draw, "float")}}
    return [[value(draw, "int") for _ in range(draw.randint(0, 2))] for _ in range(draw.randint(0, 2))]


TYPES = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "texts": pa.list_(pa.string()),
         "messages": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
         "struct": pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.list_(pa.string())), ("d", pa.float64())]))]),
         "lists": pa.list_(pa.list_(pa.int64()))}


class Writer:
    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.expected = open(directory / "expected.jsonl", "w", encoding="utf-8")

    def note(self, name: str, type_: str, names: list[str], rows: list[list]) -> None:
        self.expected.write(json.dumps({"file": name, "type": type_, "names": names, "rows": rows}) + "\n")

    def compressed(self, draw: random.Random, name: str, content: bytes) -> str:
        """Writes the file plain or compressed, also in several members or frames; its name."""
        how = draw.choice(["", ".gz", ".zst", ""])
        middle = draw.randint(0, len(content))
        parts = [content] if draw.random() < 0.5 else [content[:middle], content[middle:]]
        if how == ".gz":
            content = b"".join(gzip.compress(part) for part in parts)
        elif how == ".zst":
            content = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
        (self.directory / (name + how)).write_bytes(content)
        return name + how


def write_json(writer, draw, index, names, rows):
    objects = [{n: v for n, v in zip(names, row) if v is not None or draw.random() < 0.5} for row in rows]
    ascii_ = draw.random() < 0.5
    lines = []
    for entry in objects:
        lines.append(json.dumps(entry, ensure_ascii=ascii_))
        if draw.random() < 0.1:
            lines.append(draw.choice(["", "  ", "\t"]))
    body = draw.choice(["\n", "\r\n"]).join(lines) + draw.choice(["", "\n"])
    mark = draw.choice(["", "", "\ufeff"])
    name = writer.compressed(draw, f"{index}.jsonl", (mark + body).encode())
    read = [json.loads(line) for line in lines if line.strip()]
    writer.note(name, "", names, [[entry.get(n, "absent") for n in names] for entry in read])

    whole = objects if draw.random() < 0.5 else {"version": 1, "data": objects}
    content = json.dumps(whole, ensure_ascii=ascii_, indent=draw.choice([None, 2]))
    name = writer.compressed(draw, f"{index}.json", content.encode())
    read = json.loads(content)
    read = read if isinstance(read, list) else read["data"]
    writer.note(name, "", names, [[entry.get(n, "absent") for n in names] for entry in read])


def write_csv(writer, draw, index, names, rows):
    texts = [["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in row] for row in rows]
    texts = [[cell.replace("\u0000", "") for cell in row] for row in texts]
    for extension, delimiter in (("csv", ","), ("tsv", "\t")):
        out = io.StringIO(newline="")
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        table = csv.writer(out, delimiter=delimiter, lineterminator=draw.choice(["\n", "\r\n"]), quoting=quoting)
        table.writerow(names)
        table.writerows(texts)
        content = out.getvalue()
        if draw.random() < 0.3:
            content = content.rstrip("\r\n") if quoting == csv.QUOTE_ALL else content
        name = writer.compressed(draw, f"{index}.{extension}", (draw.choice(["", "\ufeff"]) + content).encode())
        read = list(csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter))
        writer.note(name, "", names, [[row[n] for n in names] for row in read])


def write_text(writer, draw, index, names, rows):
    lines = [text(draw).replace("\n", " ").replace("\r", " ") for _ in rows]
    content = "\n".join(lines) + draw.choice(["", "\n"])
    name = writer.compressed(draw, f"{index}.txt", content.encode())
    read = [line.rstrip("\n") for line in io.StringIO(content, newline="\n")]
    writer.note(name, "", ["text"], [[line] for line in read])
    writer.note(name, "document", ["text"], [[content]])


def write_arrow(writer, draw, index, names, kinds, rows):
    columns = {n: pa.array([row[i] for row in rows], type=TYPES[kind]) for i, (n, kind) in enumerate(zip(names, kinds))}
    if "text" in kinds and draw.random() < 0.3:
        i = kinds.index("text")
        columns[names[i]] = columns[names[i]].dictionary_encode()
    table = pa.table(columns)
    path = writer.directory / f"{index}.parquet"
    pa.parquet.write_table(table, path, row_group_size=draw.randint(1, len(rows) + 3),
                           compression=draw.choice(["snappy", "gzip", "zstd", "none"]))
    listed = lambda read: [[row[n] for n in names] for row in read.to_pylist()]
    writer.note(path.name, "", names, listed(pa.parquet.read_table(path)))

    path = writer.directory / f"{index}.feather"
    pa.feather.write_feather(table, path, chunksize=draw.randint(1, len(rows) + 3),
                             compression=draw.choice(["uncompressed", "lz4", "zstd"]))
    writer.note(path.name, "", names, listed(pa.feather.read_table(path)))

    path = writer.directory / f"{index}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=draw.randint(1, len(rows) + 3))
    with pa.memory_map(str(path)) as file:
        writer.note(path.name, "", names, listed(pa.ipc.open_stream(file).read_all()))


def write_datasets(writer):
    """What the datasets package leaves on disk, and what it reads."""
    import datasets

    rows = [{"text": "a\nb", "n": 1, "m": [{"role": "user", "content": "é"}]}, {"text": "", "n": None, "m": []}]
    data = datasets.Dataset.from_list(rows)
    data.save_to_disk(str(writer.directory / "saved"))
    for file in sorted((writer.directory / "saved").glob("*.arrow")):
        writer.note(f"saved/{file.name}", "", ["text", "n", "m"], [[r["text"], r["n"], r["m"]] for r in data])
    data.to_parquet(str(writer.directory / "datasets.parquet"))
    writer.note("datasets.parquet", "", ["text", "n", "m"], [[r["text"], r["n"], r["m"]] for r in data])
    data.to_json(str(writer.directory / "datasets.jsonl"))
    read = datasets.load_dataset("json", data_files=str(writer.directory / "datasets.jsonl"), split="train",
                                 cache_dir=str(writer.directory / "cache"))
    writer.note("datasets.jsonl", "", ["text", "n", "m"], [[r["text"], r["n"], r["m"]] for r in read])


def write_types(writer):
    """Columns of the less usual types, as pyarrow prints them."""
    import datetime
    import decimal

    columns = {
        "i8": pa.array([1, None], pa.int8()), "u32": pa.array([2**32 - 1, 0], pa.uint32()), "u64": pa.array([2**63 - 1, None], pa.uint64()),
        "f16": pa.array([0.5, None], pa.float16()), "f32": pa.array([0.1, 2.0], pa.float32()), "none": pa.nulls(2),
        "large": pa.array(["é", None], pa.large_string()), "view": pa.array(["a long text that is not inline", ""], pa.string_view()),
        "fixed": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), "large_list": pa.array([[1], []], pa.large_list(pa.int8())),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "bytes": pa.array([b"\xff\x00", None], pa.binary()),
        "date": pa.array([datetime.date(2020, 2, 29), None]), "decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(5, 2)),
    }
    table = pa.table(columns)
    names = list(columns)
    plain = {"map": dict, "bytes": lambda v: __import__("base64").b64encode(v).decode(), "date": str, "decimal": str}
    rows = [[None if row[n] is None else plain.get(n, lambda v: v)(row[n]) for n in names] for row in table.to_pylist()]
    pa.feather.write_feather(table, writer.directory / "types.feather")
    writer.note("types.feather", "", names, rows)
    pa.parquet.write_table(table, writer.directory / "types.parquet")
    writer.note("types.parquet", "", names, rows)


def main() -> None:
    directory, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    writer = Writer(directory)
    for index in range(count):
        draw = random.Random(seed * 1000 + index)
        kinds = [draw.choice(list(TYPES)) for _ in range(draw.randint(1, 4))]
        names = draw.sample(["text", "n", "x y", "name,with", 'qu"ote', "é", "messages"], len(kinds))
        rows = [[value(draw, kind) for kind in kinds] for _ in range(draw.randint(1, 20))]
        write_json(writer, draw, index, names, rows)
        write_csv(writer, draw, index, names, rows)
        write_text(writer, draw, index, names, rows)
        write_arrow(writer, draw, index, names, kinds, rows)
    write_datasets(writer)
    write_types(writer)


if __name__ == "__main__":
    main()
