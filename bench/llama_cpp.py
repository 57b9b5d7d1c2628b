"""llama.cpp's library as a peer, through its C interface. Prebuilt libraries with kernels for each kind of CPU:
    npm pack @node-llama-cpp/linux-x64 && tar xzf node-llama-cpp-linux-x64-*.tgz    # then package/bins/linux-x64"""

import ctypes
import glob
import json
import os
import pathlib
import subprocess
import sys
import time

from cpu_kinds import LLAMA_LIBRARIES


class Opaque(ctypes.Structure):
    """A struct of llama.cpp that is passed on by value and not looked into: at least as large as any version's. (On
    x86-64 and arm64 such structs go through memory, where what is too much does no harm.)"""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


class ContextParams(ctypes.Structure):
    """llama_context_params: the fields at its beginning, which are set here, and room for the others."""
    _fields_ = [("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32),
                ("n_seq_max", ctypes.c_uint32), ("others", ctypes.c_char * 1008)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def load(directory: str):
    """The library, with the kernels of the kind of CPU that EASYDEL_CPU names, or of the best one."""
    library = lambda name: ctypes.CDLL(sorted(glob.glob(os.path.join(directory, name)))[0], mode=ctypes.RTLD_GLOBAL)
    library("libggml-base*.so*")
    ggml = library("libggml.*so*")
    llama = library("libllama.*so*")
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    ggml.ggml_backend_load_all_from_path.argtypes = ggml.ggml_backend_load.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load.restype = pointer
    for name, result, arguments in (
            ("llama_model_default_params", Opaque, []), ("llama_context_default_params", ContextParams, []),
            ("llama_model_load_from_file", pointer, [ctypes.c_char_p, Opaque]),
            ("llama_init_from_model", pointer, [pointer, ContextParams]), ("llama_synchronize", None, [pointer]),
            ("llama_batch_init", Batch, [number] * 3), ("llama_decode", number, [pointer, Batch]),
            ("llama_set_n_threads", None, [pointer, number, number]), ("llama_get_memory", pointer, [pointer]),
            ("llama_memory_clear", None, [pointer, ctypes.c_bool]), ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [pointer, number]),
            ("llama_print_system_info", ctypes.c_char_p, [])):
        function = getattr(llama, name)
        function.restype, function.argtypes = result, arguments
    kind = os.environ.get("EASYDEL_CPU")
    if not kind:
        ggml.ggml_backend_load_all_from_path(directory.encode())
        return llama
    for name in LLAMA_LIBRARIES[kind]:  # one that needs more than the machine has is not loaded
        path = os.path.join(directory, f"libggml-cpu-{name}.so")
        if os.path.exists(path) and ggml.ggml_backend_load(path.encode()):
            return llama
    raise SystemExit(f"{directory} has no library of llama.cpp for {kind}: libggml-cpu-{{{','.join(LLAMA_LIBRARIES[kind])}}}.so")


def decode(directory: str, path: str, threads: int, sequences: int, prompt: int, new: int, rounds: int,
           processor_time: bool = False) -> dict:
    """So many sequences in a batch, in this process. Logits are computed, and no token is chosen from them."""
    clock = time.process_time if processor_time else time.perf_counter
    llama = load(directory)
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    assert model, "llama.cpp did not load the model"
    params = llama.llama_context_default_params()
    found = params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max
    assert found == (512, 2048, 512, 1), f"llama_context_params begins with other fields in this version: {found}"
    params.n_ctx, params.n_batch, params.n_seq_max = 512 * sequences, max(2048, prompt * sequences), sequences
    context = llama.llama_init_from_model(model, params)
    assert context, "llama.cpp made no context"
    llama.llama_set_n_threads(context, threads, threads)
    batch = llama.llama_batch_init(prompt * sequences, 0, 1)

    def step(rows: list[tuple[int, int, int, bool]]) -> None:
        """Rows are a token, its position, its sequence, and whether logits are wanted."""
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, wanted
        assert llama.llama_decode(context, batch) == 0
        llama.llama_synchronize(context)

    def token(sequence: int, position: int) -> int:
        return (7919 * sequence + 31 * position + 5) % 30000

    whole = prefill = decoding = 1e30
    for _ in range(rounds):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        start = clock()
        step([(token(s, p), p, s, p == prompt - 1) for s in range(sequences) for p in range(prompt)])
        middle = clock()
        for p in range(prompt, prompt + new - 1):
            step([(token(s, p), p, s, True) for s in range(sequences)])
        end = clock()
        whole, prefill, decoding = min(whole, end - start), min(prefill, middle - start), min(decoding, end - middle)
    logits = llama.llama_get_logits_ith(context, sequences - 1)
    assert any(logits[i] != 0 for i in range(100)), "llama.cpp computed nothing"
    return dict(whole=sequences * new / whole, decode=sequences * (new - 1) / decoding, prefill=sequences * prompt / prefill,
                system=llama.llama_print_system_info().decode())


def measure(*arguments) -> dict:
    """decode() in a process of its own."""
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__)), json.dumps([str(arguments[0]), str(arguments[1]), *arguments[2:]])],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(decode(*json.loads(sys.argv[1]))))
