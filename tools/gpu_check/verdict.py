"""What became of a check of gpu_check.sh: reads what its program said, and writes its line (results.py).

    verdict.py NAME RULE CODE EXPECTED SECONDS LIMIT

The program's standard output is $results/NAME.out, its standard error $results/NAME.log. RULE, beside the exit code:
    exit_code   nothing
    golden      errors within the bounds below
    tests       Google Test has run some, and skipped none
    sanitized   the same under compute-sanitizer, which may not know the machine
    peer        3 says that there is nothing to compare with, and why
"""
import json
import os
import re
import sys

import results

BOUNDS = {"max_relative_loss_error": 4e-7, "max_relative_norm_error": 1e-6}
LEFT_OUT = 3  # gpu_peer.py's exit code


def read(suffix):
    with open(os.path.join(os.environ["results"], name + suffix), errors="replace") as file:
        return file.read()


def last_object(out):
    said = [line for line in out.splitlines() if line.startswith("{")]
    # A NaN is no JSON, and would make the line none.
    return json.loads(said[-1], parse_constant=lambda constant: None) if said else None


def last_words(out, log):
    return "".join((log.splitlines() or out.splitlines())[-1:])


def count_tests(out):
    """What Google Test's last lines say; where there are none, how far it came."""
    ran, skipped = (re.findall(r"(?m)^\[  %s ?\] (\d+) tests?[.,]" % word, out) for word in ("PASSED ", "SKIPPED"))
    if not ran:
        begun = re.findall(r"(?m)^\[ RUN +\] (\S+)", out)
        return {"tests": len(re.findall(r"(?m)^\[ +OK \]", out)), "in": begun[-1] if begun else "no test yet"}
    if not skipped:
        return {"tests": int(ran[-1]), "skipped": 0}
    why = re.search(r": Skipped\n(.+)", out)
    return {"tests": int(ran[-1]), "skipped": int(skipped[-1]), "why_skipped": ": " + why.group(1) if why else ""}


def broken_rule(result):
    """Why a program that ended as it should has not passed; empty: it has."""
    if rule in ("tests", "sanitized"):
        if result["tests"] == 0 and not result.get("skipped", 0):
            return "no test has run"
        return "tests were skipped" + result["why_skipped"] if result.get("skipped", 0) else ""
    if rule == "golden":
        for key, bound in BOUNDS.items():
            value = result.get(key) if isinstance(result, dict) else None
            if not isinstance(value, (int, float)) or not value <= bound:
                return f"{key} is {value}, and may be {bound}"
    return ""


def cut_off(result, words):
    where = f" in {result['in']}, {result['tests']} tests after the start" if result and "in" in result else ""
    said = f"; it said last: {words}" if words and not where else ""
    return f"cut off after {seconds} s{where}, since its time was over{said}"


def decide():
    """passed, why, result."""
    out, log = read(".out"), read(".log")
    words = last_words(out, log)
    result = count_tests(out) if rule in ("tests", "sanitized") else last_object(out)
    if code == 124 or (code == 137 and seconds >= limit):
        return False, cut_off(result, words), result
    if rule == "peer" and code == LEFT_OUT:
        return None, result["left_out"], None
    unknown = re.search(r"Device not supported.*", out + log)
    if rule == "sanitized" and unknown:
        return None, "compute-sanitizer says: " + unknown.group(), None
    if code != expected:
        return False, words or "it said nothing", result
    if expected != 0:
        result = {"said": words}
    why = broken_rule(result)
    return not why, why, result


def main():
    try:
        passed, why, result = decide()
    except (OSError, ValueError, KeyError, TypeError) as error:
        passed, why, result = False, f"nobody could read what it said: {error}", None
    return results.write(name, passed, why, exit_code=code, seconds=seconds, result=result)


name, rule = sys.argv[1:3]
code, expected, seconds, limit = map(int, sys.argv[3:7])
sys.exit(main())
