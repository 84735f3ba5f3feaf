#!/usr/bin/env python3
"""Predicted against measured update times, at budgets from the floor to the ceiling: python3 bench/predicted_time.py BINARY

Each budget is planned, and the different plans are trained with for a few updates, all of them once and then again
(--rounds). The least of a plan's medians (without the first update), which guests of the same host can only lengthen, is set
against its time. An update during which other processes took more than a tenth of the machine is rejected and counted. Also
what every run has to keep: the same bits for one split of the batch, no more bytes than planned. `--models` chooses among
GPT-2 124M (gpt2, 4 x 256 tokens) and a deep narrow GPT of 48 blocks (deep); or give a configuration with --config. With
`--disk FOLDER:SIZE` plans may use a disk.

  python3 bench/predicted_time.py build/release/plimsoll --budgets 20
  python3 bench/predicted_time.py build/release/plimsoll --budgets 20 --disk /var/tmp/pages:8GiB

Standard library only.
"""
import argparse
import array
import json
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
BUSY = 0.1  # of the machine, by other processes


class Processor:
    """Ticks of the whole machine."""

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


def run_model(arguments, name, config, folder):
    disk = ["--disk", arguments.disk] if arguments.disk else []
    subprocess.run([arguments.binary, "machine", config], check=True, capture_output=True)
    bounds = plan(arguments.binary, config, disk)["bounds"]
    floor, ceiling = bounds["floor_bytes"], bounds["ceiling_bytes"]
    print(f"{name}: floor {floor / 2**20:.1f} MiB, ceiling {ceiling / 2**20:.1f} MiB{', with a disk' if disk else ''}")
    plans, hashes, before, faults = {}, {}, float("inf"), 0
    steps = arguments.budgets - 1
    for i in range(arguments.budgets):
        # Evenly in the logarithm: most of what differs is near the floor.
        budget = ceiling if i == steps else int(floor * (ceiling / floor) ** (i / steps)) + 1
        file = folder / f"plan{i}.json"
        planned = plan(arguments.binary, config, [*disk, "--memory", str(budget)], file)
        faults += planned["predicted"]["update_seconds"] > before
        before = planned["predicted"]["update_seconds"]
        known = plans.setdefault(planned["plan_hash"], dict(budget=budget, file=file, plan=planned, medians=[], rejected=0))
        known["smallest"] = min(known.get("smallest", budget), budget)
    for _ in range(arguments.rounds):
        for each in plans.values():
            more = ["--plan", each["file"], "--memory", str(each["smallest"]), *disk]
            report, quiet, rejected = measure(arguments.binary, config, folder, more, arguments.updates + 1)
            faults += report["measured"]["process_hwm_bytes"] > each["smallest"]
            hashes.setdefault(each["plan"]["batch"]["micro"], set()).add(report["final"]["parameters_xxh128"])
            each["rejected"] += rejected
            each["medians"] += [statistics.median(quiet)] if len(quiet) > rejected else []
    sizes = []
    for each in plans.values():
        batch, predicted = each["plan"]["batch"], each["plan"]["predicted"]["update_seconds"]
        line = f"  {each['budget'] / 2**20:8.1f} MiB  {batch['micro']} x {batch['accumulation']:<3} predicted {predicted:8.4f} s"
        if not each["medians"]:
            print(f"{line}  not measured: {each['rejected']} updates were disturbed")
            continue
        error = predicted / min(each["medians"]) - 1
        sizes.append(abs(error))
        all_rounds = ", ".join(f"{median:.4f}" for median in each["medians"])
        print(f"{line}  measured {all_rounds}  {error:+7.1%}  ({each['rejected']} rejected)")
    faults += sum(len(each) - 1 for each in hashes.values())
    if sizes:
        within = sum(size <= 0.15 for size in sizes)
        print(f"{name}: {len(sizes)} plans; within 15 %: {within}; median {statistics.median(sizes):.1%}, worst {max(sizes):.1%}")
    print(f"{name}: {faults} times more bytes than planned, other bits or slower with more memory", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--config", type=pathlib.Path, help="this configuration instead")
    parser.add_argument("--disk", help="FOLDER:SIZE")
    parser.add_argument("--budgets", type=int, default=20)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    with tempfile.TemporaryDirectory(prefix="plimsoll_bench_", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        if arguments.config:
            return run_model(arguments, arguments.config.stem, arguments.config.resolve(), folder)
        faults = 0
        for model in arguments.models:
            shape = MODELS[model]
            draw = random.Random(1)
            tokens = folder / "tokens.bin"
            tokens.write_bytes(array.array("H", (draw.randrange(shape["vocab"]) for _ in range(200_000))).tobytes())
            config = folder / f"{model}.toml"
            config.write_text(CONFIG.format(tokens=tokens, **shape))
            faults += run_model(arguments, model, config, folder)
        return faults


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
