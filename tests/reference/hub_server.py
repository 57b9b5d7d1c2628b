"""A hub for tests: Hugging Face's documented HTTP API over a directory of fixtures, with faults on demand.

    hub_server.py DIRECTORY        DIRECTORY/models/org/name/... and DIRECTORY/datasets/org/name/...

It listens on two free ports of 127.0.0.1, the hub and its storage, prints one line of JSON with both addresses, and
then answers one line of JSON on standard output for each on standard input. It ends when standard input does.
"""

import base64
import hashlib
import json
import os
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_good"
USER = "someone"
LFS_SUFFIXES = (".safetensors", ".bin", ".gguf")
LIFETIME = 600


class Blob:
    def __init__(self, content, lfs):
        self.content = content
        self.size = len(content)
        self.sha256 = hashlib.sha256(content).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()
        stored = pointer if lfs else content
        self.oid = hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()
        self.lfs = lfs
        self.etag = self.sha256 if lfs else self.oid


class Repo:
    def __init__(self, private=False):
        self.private = private
        self.gated = False
        self.branches = {}
        self.commits = {}
        self.messages = {}
        self.extra_entries = []  # listed as they are, whatever they say
        self.pull_requests = 0

    def commit(self, branch, files, message="initial"):
        sha = hashlib.sha1(repr((sorted((n, b.oid) for n, b in files.items()), message, len(self.commits))).encode())
        self.branches[branch] = sha.hexdigest()
        self.commits[sha.hexdigest()] = files
        self.messages[sha.hexdigest()] = message
        return sha.hexdigest()

    def find(self, revision):
        revision = self.branches.get(revision, revision)
        return revision if revision in self.commits else None


class Hub:
    """All state; one lock for it."""

    def __init__(self, directory):
        self.lock = threading.RLock()
        self.release = threading.Event()
        self.repos, self.log, self.faults, self.storage = {}, [], [], {}
        self.page_size, self.chunk_size, self.lfs_threshold = 1000, None, 10_000_000
        self.endpoint = self.cdn = ""
        for kind in ("models", "datasets"):
            base = os.path.join(directory, kind)
            for org in sorted(os.listdir(base)) if os.path.isdir(base) else []:
                for name in sorted(os.listdir(os.path.join(base, org))):
                    self.load(f"{kind}/{org}/{name}", os.path.join(base, org, name))

    def load(self, key, folder, branch="main"):
        files = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, "rb") as file:
                    relative = os.path.relpath(path, folder)
                    files[relative] = Blob(file.read(), relative.endswith(LFS_SUFFIXES))
        repo = self.repos.setdefault(key, Repo())
        return repo.commit(branch, files, f"state {len(repo.commits)}")

    def take_fault(self, line):
        with self.lock:
            for fault in self.faults:
                if fault.get("times", 1) != 0 and re.search(fault["match"], line):
                    fault["times"] = fault.get("times", 1) - 1
                    return fault
        return None

    def command(self, request):
        with self.lock:
            match request["do"]:
                case "fault":
                    self.faults.append(request["fault"])
                case "clear":
                    self.faults.clear()
                    self.log.clear()
                    self.release.set()
                    self.release = threading.Event()
                case "release":
                    self.release.set()
                case "log":
                    return [dict(entry) for entry in self.log]
                case "set":
                    for name, value in request["values"].items():
                        setattr(self, name, value)
                case "repo":
                    for name, value in request["values"].items():
                        setattr(self.repos[request["repo"]], name, value)
                case "load":
                    return {"commit": self.load(request["repo"], request["folder"], request.get("branch", "main"))}
                case "show":
                    repo = self.repos[request["repo"]]
                    sha = repo.find(request.get("revision", "main"))
                    files = {name: {"sha256": blob.sha256, "size": blob.size, "lfs": blob.lfs}
                             for name, blob in repo.commits[sha].items()}
                    return {"commit": sha, "message": repo.messages[sha], "private": repo.private, "files": files,
                            "branches": sorted(repo.branches), "commits": len(repo.commits)}
        return {}


class Refusal(Exception):
    def __init__(self, status, code="", message="", headers=None):
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):  # a client that went away is what many tests are about
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None
    role = ""

    def log_message(self, *_):
        pass

    def do(self):
        split = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(split.query))
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        self.entry = {"role": self.role, "method": self.command, "path": split.path, "query": self.query,
                      "range": self.headers.get("Range"), "authorization": self.headers.get("Authorization"),
                      "agent": self.headers.get("User-Agent"), "status": 0}
        self.fault = self.hub.take_fault(f"{self.role} {self.command} {split.path}") or {}
        with self.hub.lock:
            self.hub.log.append(self.entry)
        try:
            kind = self.fault.get("kind")
            if kind == "status":
                raise Refusal(self.fault["status"], self.fault.get("code", ""), self.fault.get("message", ""),
                              self.fault.get("headers"))
            if kind == "drop":
                self.close_connection = True
                return
            if kind == "redirect":
                return self.answer(b"", status=self.fault.get("status", 302),
                                   headers={"Location": self.fault["location"]})
            if kind == "body":
                return self.answer(self.fault["body"].encode())
            segments = [urllib.parse.unquote(s) for s in split.path.strip("/").split("/")]
            (self.serve_storage if self.role == "cdn" else self.serve_hub)(segments)
        except Refusal as refusal:
            headers = dict(refusal.headers)
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            if refusal.message.isprintable() and refusal.message:
                headers["X-Error-Message"] = refusal.message
            self.answer(json.dumps({"error": refusal.message}).encode(), status=refusal.status, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do

    def answer(self, content, status=200, headers=None, kind="application/json"):
        self.entry["status"] = status
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(self.fault.get("length", len(content))))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_content(content)

    def json(self, value, **kwargs):
        self.answer(json.dumps(value).encode(), **kwargs)

    def send_content(self, content):
        """The body, and what is to go wrong in it."""
        kind, after = self.fault.get("kind"), self.fault.get("after", 0)
        if kind == "corrupt" and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        if kind in ("cut", "stall"):
            self.wfile.write(content[:after])
            self.wfile.flush()
            self.entry["sent"] = after
            if kind == "stall":
                self.hub.release.wait(30)
                content = content[after:]
            else:
                self.close_connection = True
                return
        if kind == "length":
            self.close_connection = True
        self.wfile.write(content)
        self.entry["sent"] = len(content)

    def content(self, blob, headers):
        begin = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and self.fault.get("kind") != "no_range":
            begin = int(asked.group(1))
            if begin >= blob.size:
                raise Refusal(416)
            headers = headers | {"Content-Range": f"bytes {begin}-{blob.size - 1}/{blob.size}"}
        if self.fault.get("kind") == "wrong_range":
            headers["Content-Range"] = f"bytes 0-{blob.size - 1}/{blob.size}"
        self.answer(blob.content[begin:], status=206 if begin else 200, headers=headers,
                    kind="application/octet-stream")

    # The hub ------------------------------------------------------------------------------------------------------

    def repo(self, key, write=False):
        repo = self.hub.repos.get(key)
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.headers.get("Authorization") and not known:
            raise Refusal(401, message="Invalid credentials in Authorization header")
        if repo is None or ((repo.private or write) and not known):
            raise Refusal(404 if known else 401, "RepoNotFound", "Repository not found" if known
                          else "Invalid username or password.")
        return repo

    def revision(self, repo, name):
        sha = repo.find(name)
        if sha is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {name}")
        return sha

    def serve_hub(self, segments):
        match segments:
            case ["api", "repos", "create"]:
                self.create()
            case ["api", kind, org, name, *rest]:
                self.serve_api(f"{kind}/{org}/{name}", rest)
            case ["datasets", org, name, "resolve", revision, *path]:
                self.resolve(f"datasets/{org}/{name}", revision, "/".join(path))
            case [org, name, "resolve", revision, *path]:
                self.resolve(f"models/{org}/{name}", revision, "/".join(path))
            case ["datasets", org, name, "info", "lfs", "objects", action] if name.endswith(".git"):
                self.lfs(f"datasets/{org}/{name[:-4]}", action)
            case [org, name, "info", "lfs", "objects", action] if name.endswith(".git"):
                self.lfs(f"models/{org}/{name[:-4]}", action)
            case _:
                raise Refusal(404, message="Sorry, we can't find the page you are looking for.")

    def serve_api(self, key, rest):
        match rest:
            case [] | ["revision", _]:
                repo = self.repo(key)
                sha = self.revision(repo, rest[1] if rest else "main")
                self.json({"id": key.split("/", 1)[1], "sha": sha, "private": repo.private, "gated": repo.gated,
                           "siblings": [{"rfilename": name} for name in sorted(repo.commits[sha])]})
            case ["tree", revision]:
                self.tree(self.repo(key), revision)
            case ["branch", name]:
                repo = self.repo(key, write=True)
                if name in repo.branches:
                    raise Refusal(409, message="Reference already exists")
                repo.branches[name] = repo.branches["main"]
                self.json({})
            case ["preupload", revision]:
                self.preupload(self.repo(key, write=True), revision)
            case ["commit", revision]:
                self.commit(key, self.repo(key, write=True), revision)
            case _:
                raise Refusal(404, message="no such page")

    def tree(self, repo, revision):
        sha = self.revision(repo, revision)
        entries = list(repo.extra_entries)
        for folder in sorted({os.path.dirname(name) for name in repo.commits[sha]} - {""}):
            entries.append({"type": "directory", "oid": "0" * 40, "size": 0, "path": folder})
        for name, blob in sorted(repo.commits[sha].items()):
            entry = {"type": "file", "oid": blob.oid, "size": blob.size, "path": name}
            if blob.lfs:
                entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": 130}
            entries.append(entry)
        begin = int(self.query.get("cursor", 0))
        end = begin + self.hub.page_size
        headers = {}
        if end < len(entries):
            path = urllib.parse.urlsplit(self.path).path
            headers["Link"] = f'<{self.hub.endpoint}{path}?recursive=true&cursor={end}>; rel="next"'
        self.json(entries[begin:end], headers=headers)

    def resolve(self, key, revision, path):
        repo = self.repo(key)
        sha = self.revision(repo, revision)
        if repo.gated:
            raise Refusal(403, "GatedRepo", "Access to this repository is restricted.")
        blob = repo.commits[sha].get(path)
        headers = {"X-Repo-Commit": sha}
        if blob is None:
            raise Refusal(404, "EntryNotFound", "Entry not found", headers)
        if not blob.lfs:
            return self.content(blob, headers | {"ETag": f'"{blob.oid}"'})
        self.hub.storage[blob.sha256] = blob
        self.answer(b"", status=302, headers=headers | {
            "X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(blob.size), "ETag": f'"{blob.oid}"',
            "Location": f"{self.hub.cdn}/blob/{blob.sha256}?signature=secret"})

    def create(self):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, message="Invalid username or password.")
        request = json.loads(self.body)
        org = request.get("organization") or USER
        kind = request.get("type", "model") + "s"
        key = f"{kind}/{org}/{request['name']}"
        url = f"{self.hub.endpoint}/{'' if kind == 'models' else kind + '/'}{org}/{request['name']}"
        if key in self.hub.repos:
            return self.json({"error": "You already created this repo", "url": url}, status=409)
        repo = self.hub.repos[key] = Repo(private=request.get("visibility") == "private")
        repo.commit("main", {".gitattributes": Blob(b"*.safetensors filter=lfs\n", False)})
        self.json({"url": url, "name": f"{org}/{request['name']}"})

    def preupload(self, repo, revision):
        files = repo.commits[self.revision(repo, revision)]
        request = json.loads(self.body)
        ignored = request.get("gitIgnore", "").split()
        answer = []
        for file in request["files"]:
            path, size = file["path"], file["size"]
            assert len(base64.b64decode(file["sample"])) == min(size, 512)
            there = files.get(path)
            answer.append({"path": path, "shouldIgnore": path in ignored,
                           "uploadMode": "lfs" if path.endswith(LFS_SUFFIXES) or size > self.hub.lfs_threshold
                           else "regular",
                           "oid": there.etag if there else None})
        self.json({"files": answer})

    def commit(self, key, repo, revision):
        files = dict(repo.commits[self.revision(repo, revision)])
        message = ""
        for line in self.body.decode().splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                message = value["summary"] + "\n" + value["description"]
            elif item["key"] == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]), False)
            elif item["key"] == "lfsFile":
                stored = self.hub.storage.get(value["oid"])
                if stored is None or stored.size != value["size"]:
                    raise Refusal(400, message=f"LFS object {value['oid']} was not uploaded")
                files[value["path"]] = stored
        pull_request = None
        branch = revision
        if self.query.get("create_pr"):
            repo.pull_requests += 1
            branch = f"refs/pr/{repo.pull_requests}"
            pull_request = f"{self.hub.endpoint}/{key.removeprefix('models/')}/discussions/{repo.pull_requests}"
        sha = repo.commit(branch, files, message)
        self.json({"success": True, "commitOid": sha, "pullRequestUrl": pull_request,
                   "commitUrl": f"{self.hub.endpoint}/{key.removeprefix('models/')}/commit/{sha}"})

    # Large files --------------------------------------------------------------------------------------------------

    def lfs(self, key, action):
        if action != "complete":  # the completion URL is its own permission, and comes without a token
            self.repo(key, write=True)
        request = json.loads(self.body)
        prefix = f"{self.hub.endpoint}/{key.removeprefix('models/')}.git/info/lfs/objects"
        if action == "batch":
            self.json({"transfer": "multipart" if self.hub.chunk_size else "basic",
                       "objects": [self.lfs_object(prefix, o) for o in request["objects"]]})
        elif action == "complete":
            parts = sorted(request["parts"], key=lambda part: part["partNumber"])
            content = b"".join(self.hub.storage.pop((request["oid"], part["etag"])) for part in parts)
            self.store(request["oid"], content)
            self.json({})
        elif action == "verify":
            blob = self.hub.storage.get(request["oid"])
            if blob is None or blob.size != request["size"]:
                raise Refusal(404, message="Object not found")
            self.json({})
        else:
            raise Refusal(404)

    def lfs_object(self, prefix, wanted):
        oid, size = wanted["oid"], wanted["size"]
        fault = self.hub.take_fault(f"lfs {oid}")
        if fault:
            return wanted | {"error": {"code": fault["status"], "message": fault["message"]}}
        if oid in self.hub.storage:
            return wanted
        upload = {"href": f"{self.hub.cdn}/upload/{oid}?signature=secret"}
        if self.hub.chunk_size:
            count = -(-size // self.hub.chunk_size)
            header = {"chunk_size": str(self.hub.chunk_size)}
            for part in range(1, count + 1):
                header[f"{part:05}"] = f"{self.hub.cdn}/upload/{oid}/{part}?signature=secret"
            upload = {"href": f"{prefix}/complete", "header": header}
        return wanted | {"actions": {"upload": upload, "verify": {"href": f"{prefix}/verify"}}}

    def store(self, oid, content):
        blob = Blob(content, True)
        if blob.sha256 != oid:
            raise Refusal(400, message="the content does not have the hash it was announced with")
        self.hub.storage[oid] = blob

    def serve_storage(self, segments):
        match segments:
            case ["blob", sha]:
                self.content(self.hub.storage[sha], {"ETag": '"storage-tag"'})
            case ["upload", oid] if self.command == "PUT":
                self.store(oid, self.body)
                self.answer(b"")
            case ["upload", oid, part] if self.command == "PUT":
                etag = hashlib.md5(self.body + part.encode()).hexdigest()
                self.hub.storage[(oid, f'"{etag}"')] = self.body
                self.answer(b"", headers={} if self.fault.get("kind") == "no_etag" else {"ETag": f'"{etag}"'})
            case _:
                raise Refusal(404)


def main():
    hub = Hub(sys.argv[1])
    addresses = {}
    for role in ("hub", "cdn"):
        server = QuietServer(("127.0.0.1", 0), type("RoleHandler", (Handler,), {"hub": hub, "role": role}))
        addresses[role] = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.endpoint, hub.cdn = addresses["hub"], addresses["cdn"]
    threading.Thread(target=lambda: (time.sleep(LIFETIME), os._exit(1)), daemon=True).start()
    print(json.dumps(addresses), flush=True)
    for line in sys.stdin:
        print(json.dumps(hub.command(json.loads(line))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
