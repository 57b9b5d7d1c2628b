"""Kinds of CPU for benchmarks: both sides of a comparison are held to the same one.

--cpu KIND measures one kind that `easydel doctor` names, --cpu all each that this machine has but `baseline`. Without it the
machine's best one is measured. The kind reaches our programs and torch through the environment; llama.cpp has a library for
each kind, of which the best one that fits is loaded (llama_cpp.py)."""

import argparse
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator

# What holds ATen, oneDNN and MKL to a kind, and llama.cpp's libraries for it, the best one first.
LIMITS = {"baseline": ("default", "SSE41", "SSE4_2"), "avx2": ("avx2", "AVX2", "AVX2"), "avx2_vnni": ("avx2", "AVX2_VNNI", "AVX2"),
          "avx512": ("avx512", "AVX512_CORE", "AVX512"), "avx512_vnni": ("avx512", "AVX512_CORE_BF16", "AVX512"),
          "amx": ("avx512", "AVX512_CORE_AMX", "AVX512")}
VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
LLAMA_LIBRARIES = {"baseline": ("sse42", "x64"), "avx2": ("haswell",), "avx2_vnni": ("alderlake", "haswell"),
                   "avx512": ("skylakex",), "avx512_vnni": ("zen4", "cooperlake", "icelake", "cascadelake"),
                   "amx": ("sapphirerapids",)}


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cpu", metavar="KIND", help="a kind of CPU that `easydel doctor` names, or all; default: the best one")


def of_machine(program: str) -> list[str]:
    report = subprocess.run([program, "doctor", "--json"], check=True, capture_output=True, text=True)
    return json.loads(report.stdout)["machine"]["cpu_kinds"]


def chosen(wanted: str | None, program: str) -> Iterator[str]:
    """Each kind to measure, while this process and those that it starts are held to it."""
    known = of_machine(program)
    kinds = [kind for kind in known if kind != "baseline"] or known if wanted == "all" else [wanted or known[-1]]
    for kind in kinds:
        if kind not in known:
            raise SystemExit(f"--cpu: this machine supports {', '.join(known)}; got {kind}.")
        with held_to(kind, is_best=kind == known[-1]):
            print(f"cpu {kind}", flush=True)
            yield kind


@contextlib.contextmanager
def held_to(kind: str, is_best: bool) -> Iterator[None]:
    before = dict(os.environ)
    os.environ["EASYDEL_CPU"] = kind
    if not is_best:  # the best kind is all that the machine has: AMX, too
        os.environ.update(zip(VARIABLES, LIMITS[kind]))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
