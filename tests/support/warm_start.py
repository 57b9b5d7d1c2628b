"""run() is subprocess.run(capture_output=True) for programs on libtorch, which load it once for all of their runs: see
warm_start.cpp. Without EASYDEL_WARM_START, which ctest sets to that library, each run is a start of its own."""

import array
import atexit
import os
import signal
import socket
import struct
import subprocess
import tempfile

LIBRARY = os.environ.pop("EASYDEL_WARM_START", None)
_servers: dict = {}


class _Server:
    def __init__(self, program: str, environment: dict):
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen([program], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                            env=environment | {"LD_PRELOAD": LIBRARY, "WARM_START_SOCKET": str(theirs.fileno())})

    def start(self, command: list[str], environment: dict, folder: str, files: list[int]) -> socket.socket:
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        words = [str(len(command)), str(len(environment)), folder, *command, *(f"{k}={v}" for k, v in environment.items())]
        message = b"".join(os.fsencode(word) + b"\0" for word in words)
        with theirs:
            rights = array.array("i", [*files, theirs.fileno()])
            self.requests.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        return answers

    def stop(self) -> None:
        self.requests.close()
        self.process.wait()


def _server_of(program: str, environment: dict) -> _Server:
    """Libraries read variables when they are loaded; those of the hub only we read, later."""
    key = program, os.getpid(), frozenset(item for item in environment.items() if not item[0].startswith("HF_"))
    if key not in _servers:
        _servers[key] = _Server(program, environment)
        atexit.register(_servers[key].stop)
    return _servers[key]


def _number(answers: socket.socket) -> int:
    data = answers.recv(4, socket.MSG_WAITALL)
    if len(data) != 4:
        raise RuntimeError("warm_start: the program ended before its run did")
    return struct.unpack("i", data)[0]


def run(command, *, input=None, text=False, env=None, cwd=None, timeout=None, check=False) -> subprocess.CompletedProcess:
    if LIBRARY is None or "LD_PRELOAD" in (env or ()):
        return subprocess.run(command, input=input, capture_output=True, text=text, env=env, cwd=cwd, timeout=timeout, check=check)
    command = [os.fspath(word) for word in command]
    environment = {str(k): os.fspath(v) for k, v in (os.environ if env is None else env).items() if k != "EASYDEL_WARM_START"}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if input is not None:
            given.write(input.encode() if isinstance(input, str) else input)
            given.seek(0)
        files = [0 if input is None else given.fileno(), out.fileno(), err.fileno()]
        with _server_of(command[0], environment).start(command, environment, os.fspath(cwd or os.getcwd()), files) as answers:
            child = _number(answers)
            answers.settimeout(timeout)
            try:
                status = _number(answers)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout) from None
        printed = []
        for file in (out, err):
            file.seek(0)
            data = file.read()
            printed.append(data.decode().replace("\r\n", "\n").replace("\r", "\n") if text else data)
    done = subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), *printed)
    if check:
        done.check_returncode()
    return done
