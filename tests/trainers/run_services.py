"""What trackers get, read back: the run files of Weights & Biases, an MLflow server's REST interface, trackio's inbox."""

import http.server
import json
import struct
import threading
import urllib.parse
import zlib


def fields(message):
    """(number, value) of a protobuf message: an integer or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            raise ValueError(f"wire type {key & 7}")


def first(message, *path):
    for number in path:
        message = next(value for field, value in fields(message) if field == number)
    return message


def items(message, key_field):
    """Of a config (keys are field 1), a history or a summary (field 2), whose items are field 1."""
    return {first(item, key_field).decode(): json.loads(first(item, 16)) for field, item in fields(message) if field == 1}


def log_records(data):
    """LevelDB's log format behind seven bytes, with zlib's checksum of type and data."""
    assert data[:7] == b":W&B\xe1\xbe\0", data[:7]
    at, record = 7, b""
    while at < len(data):
        if 32768 - at % 32768 < 7:
            assert not data[at:at + 32768 - at % 32768].strip(b"\0")
            at += 32768 - at % 32768
            continue
        checksum, size, part = struct.unpack("<IHB", data[at:at + 7])
        piece = data[at + 7:at + 7 + size]
        assert size <= 32768 - at % 32768 - 7 and zlib.crc32(bytes([part]) + piece) == checksum, at
        assert (part in (1, 2)) == (record == b""), part
        at, record = at + 7 + size, record + piece
        if part in (1, 4):
            yield record
            record = b""


class WandbRun:
    """A run file; history is a list of (step, values)."""

    def __init__(self, path):
        kinds = {2: "history", 3: "summary", 6: "files", 17: "run", 18: "exit", 21: "header"}
        self.order, self.history, self.summary, self.files, self.exit = [], [], {}, [], None
        for number, record in enumerate(log_records(path.read_bytes()), 1):
            (one, count), (kind, message) = fields(record)
            assert (one, count) == (1, number)
            self.order.append(kinds[kind])
            if kinds[kind] == "header":
                self.least_version = first(message, 1, 2).decode()
            elif kinds[kind] == "run":
                known = dict(fields(message))
                self.id, self.project, self.name = (known[field].decode() for field in (1, 3, 8))
                self.entity = known.get(2, b"").decode()
                self.started = first(known[17], 1)
                self.config = items(known[4], 1)
            elif kinds[kind] == "history":
                self.history.append((first(message, 2, 1), items(message, 2)))
            elif kinds[kind] == "summary":
                self.summary = items(message, 2)
            elif kinds[kind] == "files":
                self.files.append(first(message, 1, 1).decode())
            elif kinds[kind] == "exit":
                self.exit = first(message, 1)


class Mlflow:
    """The part of MLflow's REST interface that a run needs, with what it was given; `fails` answers 503 to so many."""

    def __init__(self):
        self.experiments, self.runs, self.fails, self.requests = {}, {}, 0, 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, body=None):
                service.requests += 1
                name = urllib.parse.urlparse(self.path).path.removeprefix("/api/2.0/mlflow/")
                status, reply = (503, {"error_code": "TEMPORARILY_UNAVAILABLE"}) if service.fails else service.take(name, body, self.path)
                service.fails = max(0, service.fails - 1)
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                self.answer()

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def take(self, name, body, path):
        if name == "experiments/get-by-name":
            wanted = urllib.parse.parse_qs(urllib.parse.urlparse(path).query)["experiment_name"][0]
            if wanted not in self.experiments:
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
            return 200, {"experiment": {"experiment_id": self.experiments[wanted], "name": wanted}}
        if name == "experiments/create":
            self.experiments[body["name"]] = str(len(self.experiments) + 1)
            return 200, {"experiment_id": self.experiments[body["name"]]}
        if name == "runs/create":
            run_id = f"run{len(self.runs)}"
            self.runs[run_id] = {"info": {"run_id": run_id, "experiment_id": body["experiment_id"], "run_name": body["run_name"],
                                          "status": "RUNNING"}, "tags": {tag["key"]: tag["value"] for tag in body["tags"]},
                                 "params": {}, "metrics": []}
            return 200, {"run": {"info": self.runs[run_id]["info"], "data": {}}}
        if name == "runs/search":
            for run in self.runs.values():
                if run["info"]["experiment_id"] in body["experiment_ids"] and \
                        body["filter"] == f"tags.\"easydel.run_id\" = '{run['tags']['easydel.run_id']}'":
                    return 200, {"runs": [{"info": run["info"], "data": {"params": [{"key": k, "value": v} for k, v in run["params"].items()]}}]}
            return 200, {}
        run = self.runs[body["run_id"]]
        if name == "runs/log-batch":
            assert len(body.get("params", [])) <= 100 and len(body.get("metrics", [])) <= 1000
            for param in body.get("params", []):
                assert run["params"].get(param["key"], param["value"]) == param["value"], "params do not change"
                run["params"][param["key"]] = param["value"]
            run["metrics"] += [(metric["key"], metric["step"], float(metric["value"])) for metric in body.get("metrics", [])]
            return 200, {}
        assert name == "runs/update", name
        run["info"]["status"] = body["status"]
        return 200, {"run_info": run["info"]}
