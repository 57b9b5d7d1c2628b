"""A rank that dies, hangs or does something else must end the whole run, in time, with a message and a status.
usage: rank_faults_test.py RANK_FAULTS MPIRUN"""

import os
import subprocess
import sys
import time

PROGRAM, MPIRUN = sys.argv[1:3]
TIMEOUT = 3
# What starting and ending a few processes may take on a busy machine.
SLACK = 60


def run(mode, **environment):
    command = [MPIRUN, "--oversubscribe", "-np", "4", PROGRAM, mode]
    variables = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     EASYDEL_TIMEOUT=str(TIMEOUT), OMP_NUM_THREADS="1", **environment)
    start = time.monotonic()
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


def expect(mode, *texts, status=None, may_go_on=False, **environment):
    code, output, seconds = run(mode, **environment)
    faults = [f"no {text!r}" for text in texts if text not in output]
    if code == 0 or (status is not None and code != status):
        faults.append(f"status {code}")
    if seconds > TIMEOUT + SLACK:
        faults.append(f"{seconds:.0f} s")
    if "is through" in output and not may_go_on:
        faults.append("a rank went on")
    print(f"{mode:20} status {code:3}  {seconds:5.1f} s  {'wrong: ' + ', '.join(faults) if faults else 'ok'}")
    if faults:
        print(output)
    return not faults


def expect_success(mode):
    code, output, seconds = run(mode)
    good = code == 0 and output.count("is through") == 4
    print(f"{mode:20} status {code:3}  {seconds:5.1f} s  {'ok' if good else 'wrong'}")
    if not good:
        print(output)
    return good


LATE = f"no result after {TIMEOUT} s; rank 2 "
checks = [
    expect_success("nothing"),
    expect("kill", "rank 2", "signal 9"),
    expect("hang", '[all_reduce] group "all" of ranks 0, 1, 2 and 3: ' + LATE + "does not respond"),
    # Rank 1 has its part from rank 0.
    expect("hang-in-broadcast", '[broadcast] group "all"', LATE + "does not respond", may_go_on=True),
    expect("throw", "[Toy] rank 2 does not like it.", status=1),
    expect("exit-status", status=7),
    expect("leave", '[all_reduce] group "all"', LATE + 'has not arrived: it is waiting in exit of group "world"'),
    expect("other-group", LATE.replace("rank 2 ", "rank "), "has not arrived: it is waiting in"),
    expect("other-size", "EASYDEL_DEBUG_COLLECTIVES=1 compares"),
    expect("other-size", '[collectives] members of group "all" must make the same calls; in their call 1 ranks 0, 1 and 3 '
           "called all_reduce(float32 [100000], sum), rank 2 all_reduce(float32 [7], sum).",
           EASYDEL_DEBUG_COLLECTIVES="1"),
    expect("other-call", "rank 2 broadcast(float16 [4], from member 0).", EASYDEL_DEBUG_COLLECTIVES="1"),
    expect("no-start", f"[World] MPI has not started: not all ranks have initialized it after {TIMEOUT} s."),
    expect("late-start", '[create group] group "all"', LATE + "does not respond"),
]
sys.exit(0 if all(checks) else 1)
