"""The processor's time of programs on one thread (user and system), which other load on the machine hardly changes."""

import os
import resource
import subprocess


def run(command: list[str]) -> tuple[float, str]:
    """The seconds of one run, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def generation(program: str, model: list[str], batch: int, prompt: int, new: int, rounds: int) -> dict[str, float]:
    """Tokens per second of `easydel bench generate`: of prefill and of decoding, from runs that differ by these alone."""
    def seconds(count: int, times: int) -> float:  # of 1 + times prompts, the first of them to warm up
        return run([program, "bench", "generate", *model, "--prompt", str(prompt), "--new", str(count), "--batch", str(batch),
                    "--rounds", str(times), "--device", "cpu", "--json"])[0]

    few, more, longer = seconds(1, 1), seconds(1, 1 + rounds), seconds(1 + new, 1 + rounds)
    return dict(prefill=batch * prompt * rounds / (more - few), decode=batch * new * (2 + rounds) / (longer - more))
