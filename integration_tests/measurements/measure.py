#!/usr/bin/env python3
"""Numbers that this project promises, measured on this machine: one JSON object a line.

Build first, then run one or several by name; nothing else should run meanwhile:

    bazel build //tools:train //optim:optimizer_benchmark
    integration_tests/measurements/measure.py precision memory optimizer checkpointing
    integration_tests/measurements/measure.py floor --peers=FOLDER     # of gemm_floor.cc
    integration_tests/measurements/measure.py toolkit --rounds=20 --without=TRAIN

precision      200 steps of the default run in fp32, bf16 and fp16: how far losses are apart. At most 0.01.
memory         a model of 124 M parameters in every stage on 1, 2 and 4 ranks: model states in the ledger, of what the
               formulas of ARCHITECTURE.md say; how far resident memory changes from stage to stage as the ledger does.
               Within 0.05.
optimizer      bytes a second of the optimizer's pass, of a copy's in the same run. At least 0.85.
checkpointing  the step with every block recomputed, of the step without, in pairs. At most 1.33.
floor          bf16 tokens a second of 2 ranks in every stage, of what the products alone take on both cores, in pairs.
               At least 0.7.
toolkit        a run on cores where the build found a CUDA toolkit, of one where it did not (TRAIN: tools/train, copied after
               CUDA_HOME=/nonexistent bazel build //tools:train), in pairs: seconds to the first step's end, of cores for
               all of a short run, peak resident memory. At most 1.02.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time


class Runner:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, name):
        return os.path.join(self.options.bin, name)

    def train(self, *flags):
        """The summary of a run."""
        summary = self.path("summary.json")
        command = [self.program("tools/train"), "--sample=0", "--flight_recorder=none", "--summary=" + summary, *flags]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit("error: {}\n{}".format(" ".join(command), done.stderr[-2000:]))
        with open(summary) as file:
            return json.load(file)


def say(what, **values):
    print(json.dumps({"measurement": what, **values}), flush=True)


def precision(run):
    losses = {}
    for dtype in ("fp32", "bf16", "fp16"):
        metrics = run.path(dtype + ".jsonl")
        run.train("--dtype=" + dtype, "--steps={}".format(run.options.steps), "--metrics=" + metrics, "--seed=1")
        with open(metrics) as lines:
            losses[dtype] = [json.loads(line)["loss"] for line in lines]
    for dtype in ("bf16", "fp16"):
        apart = [abs(a / b - 1) for a, b in zip(losses[dtype], losses["fp32"])]
        say("precision", dtype=dtype, steps=len(apart), fp32_last_loss=losses["fp32"][-1], last_loss=losses[dtype][-1],
            last=apart[-1], most=max(apart), at_step=apart.index(max(apart)), bound=0.01)


def state_formula(stage, ranks):
    """fp32 model states of a rank, bytes a parameter."""
    return (16, 8 + 8 / ranks, 4 + 12 / ranks, 16 / ranks)[stage]


def memory(run):
    flags = ["--layers=12", "--heads=12", "--width=768", "--vocab=50304", "--context=64", "--batch=1", "--steps=3",
             "--threads=1"]
    uses = ("parameters", "gradients", "master_weights", "moments")
    for ranks in (1, 2, 4):
        before = None
        for stage in range(4):
            summary = run.train(*flags, "--stage={}".format(stage), "--nproc={}".format(ranks))
            of_rank = []
            for rank in summary["ranks"]:
                ledger = rank["ledger"]
                of_rank.append({"states": sum(ledger[use]["now"] for use in uses),
                                "ledger": sum(line["peak"] for line in ledger.values()),
                                "resident": rank["peak_rss_bytes"]})
            for index, now in enumerate(of_rank):
                values = dict(now, states_of_formula=now["states"] / (state_formula(stage, ranks) * summary["parameters"]))
                if before:
                    ledger, resident = (now[key] - before[index][key] for key in ("ledger", "resident"))
                    values.update(ledger_change=ledger, resident_change=resident,
                                  apart=abs(resident - ledger) / max(abs(ledger), before[index]["ledger"] / 100), bound=0.05)
                say("memory", ranks=ranks, stage=stage, rank=index, **values)
            before = of_rank


def optimizer(run):
    done = subprocess.run([run.program("optim/optimizer_benchmark")], stdout=subprocess.PIPE, text=True, check=True)
    for name, value in json.loads(done.stdout).items():
        if isinstance(value, dict):
            say("optimizer", **{"pass": name}, **value, bound=0.85)


MODEL_30M = ["--layers=6", "--heads=6", "--width=384", "--context=256", "--vocab=50304", "--batch=4", "--nproc=2",
             "--threads=1"]


def checkpointing(run):
    for stage in (2, 3):
        seconds = {0: [], 1: []}
        for _ in range(run.options.rounds):
            for every in (0, 1):
                summary = run.train(*MODEL_30M, "--steps=8", "--stage={}".format(stage),
                                    "--activation_checkpoint_every={}".format(every))
                seconds[every].append(summary["step_s_median"])
        pairs = [b / a for a, b in zip(seconds[0], seconds[1])]
        say("checkpointing", stage=stage, ratio=statistics.median(pairs), pairs=pairs, bound=1.33)


def floor_tokens_per_s(program):
    """Of one copy on each of two cores at the same time, both together, bf16."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    command = [program, "6", "6", "384", "256", "50304", "4"]
    copies = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    total = 0.0
    for copy in copies:
        text, _ = copy.communicate()
        total += float(re.search(r"^bf16: .* (\S+) tokens/s", text, re.MULTILINE).group(1))
    return total


def floor(run):
    if not run.options.peers:
        sys.exit("error: floor needs --peers=FOLDER, which holds gemm_floor.cc")
    program = run.path("gemm_floor")
    source = os.path.join(run.options.peers, "gemm_floor.cc")
    subprocess.run(["g++", "-O2", "-std=c++17", source, "-ldnnl", "-o", program], check=True)
    for backend in ("ucx", "gloo"):
        for stage in range(4):
            pairs = []
            for _ in range(run.options.rounds):
                least = floor_tokens_per_s(program)
                summary = run.train(*MODEL_30M, "--dtype=bf16", "--steps=10", "--backend=" + backend,
                                    "--stage={}".format(stage))
                pairs.append((summary["tokens_per_s"], least))
            ratios = [ours / least for ours, least in pairs]
            say("floor", backend=backend, stage=stage, tokens_per_s=statistics.median(ours for ours, _ in pairs),
                floor=statistics.median(least for _, least in pairs), ratio=statistics.median(ratios), pairs=ratios, bound=0.7)


def start(run, program, *flags):
    """Seconds until the first step is done, of cores in all, and the peak resident bytes of the rank that has most."""
    summary = run.path("summary.json")
    command = [program, "--progress=plain", "--steps_per_print=1", "--sample=0", "--flight_recorder=none",
               "--summary=" + summary, *flags]
    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    begun, before = time.monotonic(), spent()
    seconds = None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if seconds is None and "step 1/" in line:
                seconds = time.monotonic() - begun
    if process.returncode != 0 or seconds is None:
        sys.exit("error: {} ended with code {}".format(" ".join(command), process.returncode))
    with open(summary) as file:
        return seconds, spent() - before, max(rank["peak_rss_bytes"] for rank in json.load(file)["ranks"])


def toolkit(run):
    if not run.options.without:
        sys.exit("error: toolkit needs --without=TRAIN, which was built where no CUDA toolkit was found")
    programs = {"with": run.program("tools/train"), "without": run.options.without}
    text = run.path("text.txt")
    with open(text, "w") as file:
        file.write("".join("{} {} ".format(i, i * i) for i in range(5000)))
    model = ["--data=" + text, "--tokenizer=bytes", "--layers=1", "--heads=1", "--width=16", "--context=16", "--batch=2",
             "--threads=1", "--steps=20"]
    for ranks in (1, 2):
        pairs = {name: [] for name in programs}
        for round_ in range(run.options.rounds):
            for name in sorted(programs, reverse=round_ % 2 == 1):
                pairs[name].append(start(run, programs[name], *model, "--nproc={}".format(ranks)))
        for index, what in enumerate(("start_s", "cores_s", "peak_rss_bytes")):
            values = {name: [pair[index] for pair in pairs[name]] for name in programs}
            median = {name: statistics.median(values[name]) for name in programs}
            pairwise = statistics.median(a / b for a, b in zip(values["with"], values["without"]))
            say("toolkit", ranks=ranks, of=what, **{"with": median["with"], "without": median["without"]}, ratio=pairwise,
                of_medians=median["with"] / median["without"], of_least=min(values["with"]) / min(values["without"]),
                bound=1.02)


def main():
    measurements = {f.__name__: f for f in (precision, memory, optimizer, checkpointing, floor, toolkit)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(measurements), metavar="NAME")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--bin", default=os.path.join(here, "../../bazel-bin"), help="where programs were built")
    parser.add_argument("--steps", type=int, default=200, help="of precision's runs")
    parser.add_argument("--rounds", type=int, default=5, help="pairs")
    parser.add_argument("--peers", help="the folder of gemm_floor.cc")
    parser.add_argument("--without", help="tools/train of a build that found no CUDA toolkit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zeroshard_measure.") as folder:
        for name in options.names:
            measurements[name](Runner(options, folder))


if __name__ == "__main__":
    main()
