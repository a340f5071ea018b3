"""The lines of a phase of gpu_check.sh: one JSON object each, written when a check has ended; the last one says how the phase ended.

    results.py note NAME passed|failed|left_out WHY
    results.py end EXIT_CODE SECONDS GPUS       ends with 1 where the phase has not passed

Which phase, and to which file: $GPU_CHECK_PHASE, $GPU_CHECK_LINES.
"""
import json
import os
import sys

PHASE, LINES = int(os.environ["GPU_CHECK_PHASE"]), os.environ["GPU_CHECK_LINES"]


def append(line):
    with open(LINES, "a") as lines:
        lines.write(json.dumps(line) + "\n")


def write(check, passed, why="", **more):
    """A check's line. `passed`: None where it was left out, which is no failure. Gives the exit code: 0, 1, or 2 where left out."""
    line = {"phase": PHASE, "check": check, "passed": passed, **more}
    if why:
        line["left_out" if passed is None else "error"] = why
    append(line)
    took = f" ({more['seconds']} s)" if "seconds" in more else ""
    said = {True: "passed", False: "FAILED: " + why, None: "left out: " + why}[passed]
    print(f"phase {PHASE}: {check}: {said}{took}", flush=True)
    return {True: 0, False: 1, None: 2}[passed]


def end(code, seconds, gpus):
    if code in (124, 137):
        write("time", False, f"the phase was ended after {seconds} s, since its time was over")
    elif code != 0:
        write("script", False, f"the phase's script ended with {code}")
    lines = [json.loads(line) for line in open(LINES)]
    named = {outcome: [line["check"] for line in lines if line["passed"] is outcome] for outcome in (True, False, None)}
    passed = bool(named[True]) and not named[False]
    append({"phase": PHASE, "ended": True, "passed": passed, "checks": len(lines), "failed": named[False],
            "left_out": named[None], "seconds": seconds, "gpus": gpus})
    print(f"phase {PHASE}: {'passed' if passed else 'FAILED'}: {len(named[True])} checks passed, {len(named[False])} failed, "
          f"{len(named[None])} left out, in {seconds} s; {os.path.relpath(LINES)}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    if sys.argv[1] == "end":
        sys.exit(end(*map(int, sys.argv[2:])))
    sys.exit(write(sys.argv[2], {"passed": True, "failed": False, "left_out": None}[sys.argv[3]], *sys.argv[4:]))
