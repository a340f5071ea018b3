"""What is asked of phase 4's runs together, of what they have said: writes a line (results.py).

    compare.py floor SIZE LEAST_OF_FLOOR LEAST_OF_PEAK    a step beside its own products and attention, the card's peak, and its clocks
    compare.py stages LEAST                               stage 3's tokens a second beside stage 0's
    compare.py torch SIZE LEAST                           ours beside PyTorch's
"""
import csv
import json
import os
import statistics
import sys

import results

FOLDER = os.environ["results"]


def said(name):
    """The last object that a check's program printed; None where there is none."""
    try:
        with open(f"{FOLDER}/{name}.out") as out:
            return json.loads([line for line in out if line.startswith("{")][-1])
    except (OSError, IndexError, ValueError):
        return None


def of(name, key):
    value = (said(name) or {}).get(key)
    return value if isinstance(value, (int, float)) and value > 0 else None


def ratio(above, below):
    return above / below if above and below else None


class Comparison:
    def __init__(self):
        self.result, self.missed = {}, []

    def ask(self, what, value, least):
        self.result[what] = value
        if least > 0 and (value is None or value < least):
            self.missed.append(f"{what} is to be {least}")

    def write(self, check):
        return results.write(check, not self.missed, "; ".join(self.missed), result=self.result)


def card(size):
    """What nvidia-smi has said while the runs of a size went on; nothing where there is none."""
    try:
        with open(f"{FOLDER}/card_{size}.csv") as file:
            lines = [[value.strip() for value in line] for line in csv.reader(file) if len(line) == 7]
    except OSError:
        lines = []

    def numbers(column, among):
        return [float(line[column]) for line in among if line[column].replace(".", "", 1).isdigit()]

    busy = [line for line in lines if numbers(6, [line]) and float(line[6]) >= 50]
    clocks = numbers(2, busy or lines)
    if not clocks:
        return {"gpu": lines[0][0] if lines else None}
    return {"gpu": lines[0][0], "driver": lines[0][1], "sm_mhz_min": min(clocks), "sm_mhz_median": statistics.median(clocks),
            "sm_mhz_max": max(clocks), "sm_mhz_limit": lines[0][3], "power_w_max": max(numbers(4, lines), default=None),
            "power_w_limit": lines[0][5]}


def floor(size, least_of_floor, least_of_peak):
    comparison = Comparison()
    ours = said("train_" + size) or {}
    step, floor_s = of("train_" + size, "step_s_median"), of("floor_" + size, "floor_s_median")
    comparison.result.update(card(size))
    comparison.result.update({key: ours.get(key) for key in ("step_s_median", "tokens_per_s", "dtype", "parameters")})
    comparison.result["floor_s_median"] = floor_s
    if step is None:
        comparison.missed.append("no run")
    comparison.ask("of_floor", ratio(floor_s, step), float(least_of_floor))
    comparison.ask("of_dense_peak", ours.get("mfu"), float(least_of_peak))
    return comparison.write("compare_" + size)


def stages(least):
    comparison = Comparison()
    plain, sharded = of("train_stage_0", "tokens_per_s"), of("train_stage_3", "tokens_per_s")
    comparison.result.update({"stage_0_tokens_per_s": plain, "stage_3_tokens_per_s": sharded})
    comparison.ask("of_stage_0", ratio(sharded, plain), float(least))
    return comparison.write("compare_stages")


def torch(size, least):
    comparison = Comparison()
    ours, theirs = of("train_" + size, "tokens_per_s"), of("torch_" + size, "tokens_per_s")
    comparison.result.update({"tokens_per_s": ours, "torch_tokens_per_s": theirs})
    comparison.ask("of_torch", ratio(ours, theirs), float(least))
    return comparison.write("compare_torch_" + size)


sys.exit({"floor": floor, "stages": stages, "torch": torch}[sys.argv[1]](*sys.argv[2:]))
