"""What tests share that run a model of transformers and the same files with easydel. A program that imports it has the
argument EASYDEL first."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# transformers' own bf16 crashes where AMX is advertised but hidden; the cap costs nothing here.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

EASYDEL = sys.argv[1]
TOLERANCE = 1e-4  # of the largest value, in float32


def spread(model):
    """Norms of one and biases of zero would hide a mistake."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def run(*command: str) -> str:
    done = warm_start.run([EASYDEL, "--log", "error", *command], text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def forward(directory: pathlib.Path, batch: dict, *args: str) -> dict[str, torch.Tensor]:
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, directory / "in.safetensors")
    run("forward", str(directory), "--input", str(directory / "in.safetensors"), "--output", str(directory / "out.safetensors"), *args)
    return load_file(directory / "out.safetensors")


def error_of(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    scale = theirs.double().abs().max().item() or 1.0
    return (ours.double() - theirs.double()).abs().max().item() / scale


def gradients_of(model, directory: pathlib.Path) -> dict[str, torch.Tensor]:
    """After backward(), under the names that saving writes. It overwrites the model."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
    model.save_pretrained(directory / "grads")
    return load_file(directory / "grads" / "model.safetensors")
