#!/usr/bin/env python3
"""Predicted against measured update times, at budgets from the floor to the ceiling: python3 bench/predicted_time.py BINARY

Each budget is planned, and the different plans are trained with for a few updates, all of them once and then again
(--rounds). The least of a plan's medians (without the first update), which guests of the same host can only lengthen, is set
against its time. Also what every run has to keep: the same bits for one split of the batch, no more bytes than planned.
`--models` chooses among GPT-2 124M (gpt2, 4 x 256 tokens) and a deep narrow GPT of 48 blocks (deep); or give a configuration
with --config. Everything is measured in this run, nothing is taken from an earlier one: kernels until two measurements in a
row agree within a twentieth on what the plan that keeps everything and the smallest one take.

With `--disk FOLDER:SIZE` plans may use a disk. It is measured again before and after each run. The run is planned for what it
gave before; the time that counts as predicted lies in the middle between those of before and after, and of plans that use it
the median error of all runs counts, since a disk errs in both directions. With `--audit` no times are taken: bytes of every
tier and phase, planned against touched.

Guests of the same host do not show in any list of processes. What they leave is measured before and after each run: matrix
products, copies of 32 MiB, and the updates of a small training whose kernels find their operands in the shared cache, which a
neighbour can take for a minute while the other two rates stay. Nothing runs while one of them is more than 15 % below what it
was beside the kernels' measurement; if that lasts, or the small training is faster than then, kernels are measured again.

Rejected and counted: an update during which other processes took more than a tenth of the machine; all updates of a run after
which the machine is slower by that much, or the disk predicts a time that differs by more than 15 %. What was rejected in all
rounds, or in which not even the two fastest runs agree within a tenth, is tried again, up to twice as many times more: whether
they are near what was predicted plays no part in that.

  python3 bench/predicted_time.py build/release/plimsoll --budgets 20
  python3 bench/predicted_time.py build/release/plimsoll --budgets 20 --disk /var/tmp/pages:8GiB

Standard library only.
"""
import argparse
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {
    "gpt2": dict(layers=12, width=768, heads=12, vocab=50257, context=256, batch=4),
    "deep": dict(layers=48, width=128, heads=4, vocab=256, context=128, batch=8),
}
CONFIG = """\
seed = 1
[model]
kind = "gpt2"
layers = {layers}
width = {width}
heads = {heads}
context = {context}
vocab = {vocab}
[data]
train = "{tokens}"
format = "u16"
[train]
effective_batch = {batch}
[optimizer]
name = "adamw"
"""
CANARY = dict(layers=12, width=128, heads=4, vocab=256, context=128, batch=8)
BUSY = 0.1  # share of the machine used by other processes
UNSTEADY = 0.15  # of a rate
AGREE = 1.1  # runs of one plan
KNOWN = 1.05  # measurements of the kernels
MOST_TRIES = 6  # to measure the kernels while the rates stay, twice with one result
PATIENCE = 20  # measurements of a machine that is slower than it was


class Processor:
    """Processor ticks of the whole machine."""

    def __init__(self):
        words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        ticks = [int(word) for word in words[:8]]
        self.all, self.idle = sum(ticks), ticks[3] + ticks[4]


def process_ticks(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except OSError:
        return None


def plan(binary, config, more, out=None):
    command = [binary, "plan", config, "--json", *more, *(["--out", out] if out else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def others_while(process, metrics):
    """The share of the machine that other processes took during each update, by its number."""
    shares, seen, before, own = {}, 0, Processor(), 0
    while process.poll() is None:
        time.sleep(0.01)
        lines = metrics.read_text().count("\n") if metrics.exists() else 0
        if lines == seen:
            continue
        now, ticks = Processor(), process_ticks(process.pid)
        if ticks is not None and now.all > before.all:
            busy = (now.all - now.idle) - (before.all - before.idle)
            shares[lines] = max(0.0, (busy - (ticks - own)) / (now.all - before.all))
            own = ticks
        seen, before = lines, now
    return shares


def measure(binary, config, folder, arguments, updates):
    run = folder / "run"
    subprocess.run(["rm", "-rf", run], check=True)
    command = [binary, "train", config, "--run", run, "--set", f"train.updates={updates}", "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    shares = others_while(process, run / "metrics.jsonl")
    out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{err[-2000:]}")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "seconds" in row][1:]  # the first update warms up
    quiet = [row["seconds"] for row in rows if shares.get(row["update"], 0) <= BUSY]
    return json.loads(out), quiet, len(rows) - len(quiet)


def cache():
    return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "plimsoll"


def disk_rate(arguments, config):
    """Measures the bytes per second of the disk, which later plans use."""
    for file in cache().glob("disk-*.json"):
        file.unlink()
    plan(arguments.binary, config, ["--disk", arguments.disk, "--memory", "1TiB"])
    (file,) = cache().glob("disk-*.json")
    return json.loads(file.read_text())["bytes_per_second"]


def write_config(folder, name, shape):
    draw = random.Random(1)
    tokens = folder / f"{name}.bin"
    tokens.write_bytes(array.array("H", (draw.randrange(shape["vocab"]) for _ in range(200_000))).tobytes())
    config = folder / f"{name}.toml"
    config.write_text(CONFIG.format(tokens=tokens, **shape))
    return config


class Probe:
    """The present rates of the machine, measured for comparison alone; plans do not use them."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder / "probe"
        self.folder.mkdir(exist_ok=True)
        self.canary = write_config(self.folder, "canary", CANARY)

    def call(self, *arguments):
        cache = self.folder / "cache"
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True, check=True,
                              env={**os.environ, "XDG_CACHE_HOME": str(cache)})
        return done.stdout

    def rates(self):
        subprocess.run(["rm", "-rf", self.folder / "cache", self.folder / "run"], check=True)
        facts = json.loads(self.call("machine", "--json"))
        whole = ["--set", "plan.recompute=none", "--set", f"train.micro_batch={CANARY['batch']}", "--set", "train.updates=16"]
        self.call("train", self.canary, *whole, "--memory", "1GiB", "--run", self.folder / "run")
        rows = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        seconds = [row["seconds"] for row in rows if "seconds" in row][1:]
        return facts["gemm_fp32_flops_per_second"], facts["copy_bytes_per_second"], 1 / statistics.median(seconds)


class Conditions:
    """The rates of the machine and of the disk, from run to run."""

    def __init__(self, arguments, config, folder):
        self.arguments, self.config, self.folder = arguments, config, folder
        self.probe = Probe(arguments.binary, folder)
        self.rates, self.disk = [self.probe.rates()], []
        self.waits = self.calibrations = 0
        self.calibrate()

    def calibrate(self):
        self.calibrations += 1
        predicted = []
        for _ in range(MOST_TRIES):
            for file in cache().glob("machine-*"):
                file.unlink()
            subprocess.run([self.arguments.binary, "machine", self.config], check=True, capture_output=True)
            self.measure()
            pairs = list(zip(*self.rates[-2:]))
            self.first = [max(pair) for pair in pairs]
            predicted.append(self.extremes())
            steady = all(min(pair) >= (1 - UNSTEADY) * max(pair) for pair in pairs)
            known = len(predicted) > 1 and all(max(pair) <= KNOWN * min(pair) for pair in zip(*predicted[-2:]))
            if self.arguments.audit or (steady and known):
                return
        print("the machine was not steady while its kernels were measured", flush=True)

    def extremes(self):
        """The predicted seconds of the plan that keeps everything, and of the smallest one."""
        largest = plan(self.arguments.binary, self.config, [])
        smallest = plan(self.arguments.binary, self.config, ["--memory", str(largest["bounds"]["floor_bytes"])])
        return [each["predicted"]["update_seconds"] for each in (largest, smallest)]

    def measure(self):
        self.rates.append(self.probe.rates())
        if self.arguments.disk:
            self.disk.append(disk_rate(self.arguments, self.config))

    def unsteady(self):
        """The lack of rate before or after the runs since the last measurement, if any."""
        self.measure()
        worst = min(self.beside_calibration(rates) for rates in self.rates[-2:])
        return f"the machine gives {worst:.0%} of what it did" if worst < 1 - UNSTEADY else ""

    def beside_calibration(self, rates):
        """The worst of them."""
        return min(rate / first for rate, first in zip(rates, self.first))

    def settle(self):
        """Waits until the machine is as fast as during the measurement of the kernels, or measures them again."""
        for _ in range(PATIENCE):
            if self.rates[-1][-1] * (1 - UNSTEADY) > self.first[-1]:
                break
            if self.beside_calibration(self.rates[-1]) >= 1 - UNSTEADY:
                return
            self.waits += 1
            self.measure()
        self.calibrate()

    def text(self):
        products, copies, updates = zip(*self.rates)
        columns = [("matrix products {} GFLOP/s", products, 1e9), ("copies {} GB/s", copies, 1e9),
                   ("small updates {}/s", updates, 1), ("the disk {} GB/s", self.disk, 1e9)]
        spread = [text.format(f"{min(each) / unit:.3g} to {max(each) / unit:.3g}") for text, each, unit in columns if each]
        return f"{', '.join(spread)}; kernels measured {self.calibrations} times, {self.waits} times too slow to begin"


class Budget:
    """The plan of a budget, and its results."""

    def __init__(self, size):
        self.size, self.samples, self.rejected = size, [], 0  # samples: predicted and measured seconds

    def plan(self, binary, config, disk, folder):
        """Rates decide what is looked at, so that the floor may move by a little with them."""
        self.file = folder / f"plan{self.size}.json"
        self.planned = plan(binary, config, [*disk, "--memory", str(self.size)], self.file)
        if self.size < self.planned["bounds"]["floor_bytes"]:
            self.size = self.planned["bounds"]["floor_bytes"]
            return self.plan(binary, config, disk, folder)
        return self.planned["plan_hash"]

    def seconds(self):
        return self.planned["predicted"]["update_seconds"]

    def fastest(self):
        """Predicted / measured seconds of the two fastest runs."""
        return sorted((predicted / measured for predicted, measured in self.samples), reverse=True)[:2]

    def error(self):
        ratios = [predicted / measured for predicted, measured in self.samples]
        disk = any(tier["name"] == "disk" and tier["arena_bytes"] > 0 for tier in self.planned["predicted"]["tiers"])
        return (statistics.median(ratios) if disk else max(ratios)) - 1

    def is_known(self):
        """True if enough was measured. This detects guests that slow down a run between good rates before and after it."""
        fastest = self.fastest()
        return len(fastest) == 2 and fastest[0] <= AGREE * fastest[1]

    def line(self):
        batch = self.planned["batch"]
        pairs = ", ".join(f"{predicted:.4f} / {measured:.4f}" for predicted, measured in self.samples)
        told = f"{self.error():+7.1%}  predicted / measured {pairs} s" if self.samples else "not measured"
        return f"  {self.size / 2**20:8.1f} MiB  {batch['micro']} x {batch['accumulation']:<3} {told}  ({self.rejected} rejected)"


class Campaign:
    """One model at all of its budgets."""

    def __init__(self, arguments, name, config, folder):
        self.arguments, self.name, self.config, self.folder = arguments, name, config, folder
        self.disk = ["--disk", arguments.disk] if arguments.disk else []
        self.hashes, self.faults = {}, 0  # of parameters, by micro-batch
        self.conditions = Conditions(arguments, config, folder)
        bounds = plan(arguments.binary, config, self.disk)["bounds"]
        floor, ceiling = bounds["floor_bytes"], bounds["ceiling_bytes"]
        print(f"{name}: floor {floor / 2**20:.1f} MiB, ceiling {ceiling / 2**20:.1f} MiB{', with a disk' if self.disk else ''}")
        last = arguments.budgets - 1
        # Evenly in the logarithm: most of what differs is near the floor.
        sizes = [ceiling if i == last else int(floor * (ceiling / floor) ** (i / last)) + 1 for i in range(last + 1)]
        by_hash, seconds = {}, []  # of each plan the smallest of its budgets
        for budget in map(Budget, sizes):
            by_hash.setdefault(self.plan(budget), budget)
            seconds.append(budget.seconds())
        self.budgets = list(by_hash.values())
        self.faults += sum(after > before for before, after in zip(seconds, seconds[1:]))

    def plan(self, budget):
        return budget.plan(self.arguments.binary, self.config, self.disk, self.folder)

    def train(self, budget, updates, *more):
        more = ["--plan", budget.file, "--memory", str(budget.size), *self.disk, *more]
        result = measure(self.arguments.binary, self.config, self.folder, more, updates)
        self.hashes.setdefault(budget.planned["batch"]["micro"], set()).add(result[0]["final"]["parameters_xxh128"])
        return result

    def time(self, budget):
        self.conditions.settle()
        planned = self.plan(budget)  # for what the disk gives now
        before = budget.seconds()
        report, quiet, rejected = self.train(budget, self.arguments.updates + 1)
        if budget.planned["predicted"]["tiers"][0]["name"] == "ram":  # of a device the budget is not that of the process
            self.faults += report["measured"]["process_hwm_bytes"] > budget.size
        why = self.conditions.unsteady()
        same = self.plan(budget) == planned if self.disk else True
        after = budget.seconds() if same else before
        if max(before, after) > (1 + UNSTEADY) * min(before, after):
            why = f"the disk predicts {before:.3g} s before and {after:.3g} s after"
        if why:
            quiet, rejected = [], rejected + len(quiet)
        budget.rejected += rejected
        if len(quiet) > rejected:
            budget.samples.append(((before + after) / 2, statistics.median(quiet)))
        print(f"{self.name}:{budget.line()}{f'; {why}' if why else ''}", file=sys.stderr, flush=True)

    def audit(self, budget):
        """Compares the bytes of each tier and each phase with those of the audit."""
        report, _, _ = self.train(budget, 2, "--audit")
        planned, measured = json.loads(budget.file.read_text())["predicted"], report["measured"]
        phases = {phase["name"]: phase for phase in planned["phases"]}
        pairs = [(planned, measured), *((phases[phase["name"]], phase) for phase in measured["phases"])]
        pairs += list(zip(planned["tiers"], measured["tiers"], strict=True))
        off = max(abs(mine[key] - seen[key]) for mine, seen in pairs for key in ("arena_bytes", "live_bytes"))
        seen = f"{len(measured['tiers'])} tiers, {len(measured['phases'])} phases"
        print(f"  {budget.size / 2**20:8.1f} MiB  {seen}: {off} bytes off ({measured['method']})", flush=True)
        self.faults += off != 0 or measured["method"] != "audit"

    def report(self):
        for budget in self.budgets:
            print(budget.line())
        print(f"{self.name}: from run to run {self.conditions.text()}")
        sizes = [abs(budget.error()) for budget in self.budgets if budget.samples]
        if sizes:
            within = sum(size <= 0.15 for size in sizes)
            middle = statistics.median(sizes)
            print(f"{self.name}: {len(sizes)} plans; within 15 %: {within}; median {middle:.1%}, worst {max(sizes):.1%}")

    def run(self):
        if self.arguments.audit:
            for budget in self.budgets:
                self.audit(budget)
        else:
            for round_ in range(3 * self.arguments.rounds):
                for budget in self.budgets:
                    if round_ < self.arguments.rounds or not budget.is_known():
                        self.time(budget)
            self.report()
        self.faults += sum(len(each) - 1 for each in self.hashes.values())
        print(f"{self.name}: {self.faults} times other bytes than planned, other bits or slower with more memory", flush=True)
        return self.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--config", type=pathlib.Path, help="this configuration instead")
    parser.add_argument("--disk", help="FOLDER:SIZE")
    parser.add_argument("--budgets", type=int, default=20)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--audit", action="store_true", help="no times: two updates of each plan under the audit")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    with tempfile.TemporaryDirectory(prefix="plimsoll_bench_", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # everything is measured in this run
        if arguments.config:
            return Campaign(arguments, arguments.config.stem, arguments.config.resolve(), folder).run()
        faults = 0
        for model in arguments.models:
            config = write_config(folder, model, MODELS[model])
            faults += Campaign(arguments, model, config, folder).run()
        return faults


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
