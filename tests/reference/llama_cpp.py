"""Logits of a GGUF file as llama.cpp's library computes them. The library is in npm's package @node-llama-cpp/linux-x64,
which scripts/setup.sh installs into tests/serve/node_modules.

usage: llama_cpp.py FILE OUT.npy ID...    logits [ids, vocabulary], one token after the other
       llama_cpp.py FILE OUT.json TEXT... the ids of each text, and the chat template"""

import ctypes
import glob
import json
import os
import pathlib
import sys

DIRECTORY = pathlib.Path(os.environ.get("EASYDEL_LLAMA_CPP", pathlib.Path(__file__).resolve().parents[1] /
                                        "serve/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"))


QUIET = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)  # called as long as it is loaded


class Opaque(ctypes.Structure):
    """A struct that is passed on by value and not looked into: at least as large as any version's."""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


def why_not() -> str | None:
    """Why the library cannot be used here; None: it can."""
    return None if list(DIRECTORY.glob("libllama.*so*")) else f"no llama.cpp in {DIRECTORY}: npm's @node-llama-cpp/linux-x64 is not installed"


def open_model(path: str):
    """The library, the model and its vocabulary."""

    def load(name: str):
        return ctypes.CDLL(sorted(glob.glob(str(DIRECTORY / name)))[0], mode=ctypes.RTLD_GLOBAL)

    load("libggml-base*.so*")
    ggml, llama = load("libggml.*so*"), load("libllama.*so*")
    llama.llama_log_set(QUIET, None)
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    for name in ("llama_model_default_params", "llama_context_default_params", "llama_batch_get_one"):
        getattr(llama, name).restype = Opaque
    llama.llama_model_load_from_file.argtypes, llama.llama_model_load_from_file.restype = [ctypes.c_char_p, Opaque], ctypes.c_void_p
    llama.llama_init_from_model.argtypes, llama.llama_init_from_model.restype = [ctypes.c_void_p, Opaque], ctypes.c_void_p
    llama.llama_batch_get_one.argtypes = [ctypes.POINTER(ctypes.c_int32), ctypes.c_int32]
    llama.llama_decode.argtypes = [ctypes.c_void_p, Opaque]
    llama.llama_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
    llama.llama_get_logits.argtypes, llama.llama_get_logits.restype = [ctypes.c_void_p], ctypes.POINTER(ctypes.c_float)
    llama.llama_model_get_vocab.argtypes, llama.llama_model_get_vocab.restype = [ctypes.c_void_p], ctypes.c_void_p
    llama.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]

    ggml.ggml_backend_load_all_from_path(str(DIRECTORY).encode())
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    assert model, f"llama.cpp did not load {path}"
    return llama, model, llama.llama_model_get_vocab(model)


def tokens(path: str, texts: list[str]) -> dict:
    llama, model, vocabulary = open_model(path)
    llama.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                     ctypes.c_bool, ctypes.c_bool]  # fmt: skip
    llama.llama_model_chat_template.argtypes, llama.llama_model_chat_template.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_char_p
    found = []
    for text in texts:
        data, room = text.encode(), (ctypes.c_int32 * (len(text.encode()) + 8))()
        count = llama.llama_tokenize(vocabulary, data, len(data), room, len(room), True, True)
        assert count >= 0, f"llama.cpp gave {count} tokens of {text!r}"
        found.append(room[:count])
    return {"ids": found, "chat_template": llama.llama_model_chat_template(model, None).decode()}


def logits(path: str, ids: list[int]):
    import numpy

    llama, model, vocabulary = open_model(path)
    context = llama.llama_init_from_model(model, llama.llama_context_default_params())
    assert context, "llama.cpp made no context"
    llama.llama_set_n_threads(context, 1, 1)
    size = llama.llama_vocab_n_tokens(vocabulary)
    rows = []
    for id in ids:
        assert llama.llama_decode(context, llama.llama_batch_get_one((ctypes.c_int32 * 1)(id), 1)) == 0
        rows.append(numpy.ctypeslib.as_array(llama.llama_get_logits(context), (size,)).copy())
    return numpy.stack(rows)


if __name__ == "__main__":
    if sys.argv[2].endswith(".json"):
        pathlib.Path(sys.argv[2]).write_text(json.dumps(tokens(sys.argv[1], sys.argv[3:])))
        sys.exit()
    import numpy

    numpy.save(sys.argv[2], logits(sys.argv[1], [int(id) for id in sys.argv[3:]]))
