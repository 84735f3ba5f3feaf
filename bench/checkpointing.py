#!/usr/bin/env python3
"""The cost of recomputation: Plimsoll within the memory of PyTorch's per-block checkpointing.

PyTorch trains GPT-2 with none, some and all of its blocks checkpointed. Plimsoll trains the same model within each of these
process high-water marks. It needs less memory without recomputation, so it also runs within half of its own activation memory:
with PyTorch's batch in one piece, and with the planner's split into micro-batches. Its kernels are measured first. Overheads
compare with the same program without recomputation, as ratios within a round; the table has their medians.

  python3 bench/checkpointing.py build/release/plimsoll --python /path/to/python-with-torch --model byte10m --rounds 2

Standard library only. A busy machine makes every figure worthless: the last column is the largest share of it that others took.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

import train_cpu

KEEP = "16GiB"  # enough for everything
OPEN = ["--set", "train.micro_batch=auto", "--set", "train.accumulation=auto"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("binary", type=lambda text: pathlib.Path(text).resolve())
    p.add_argument("--python", required=True, help="a Python that has torch")
    p.add_argument("--model", choices=train_cpu.MODELS, default="byte10m")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=5, help="timed steps of a run, after two that are not")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.set_defaults(dtype="fp32")
    return p.parse_args()


def checkpointed(args, blocks):
    flags = ["--checkpoint", blocks] if blocks else []
    return train_cpu.run_peer(args, flags, {"GLIBC_TUNABLES": train_cpu.MALLOC})


class Plimsoll:
    def __init__(self, args, work):
        self.args, self.work, self.runs = args, work, 0
        train_cpu.write_tokens(work / "tokens.bin", train_cpu.MODELS[args.model], args.steps + 2)

    def train(self, budget, flags=()):
        self.args.memory, self.runs = budget, self.runs + 1
        return train_cpu.run_plimsoll(self.args, self.work, self.runs, flags)

    def measure(self):
        self.args.memory = KEEP
        config = train_cpu.write_config(self.args, self.work)
        for flags in ([], OPEN):
            train_cpu.call([self.args.binary, "machine", config, *flags])

    def half(self):
        """Process bytes with half of the activations of a plan without recomputation."""
        command = [self.args.binary, "plan", self.work / "bench.toml", "--memory", KEEP, "--json"]
        predicted = json.loads(train_cpu.call(command)[0])["predicted"]
        held = max(phase["owners"].get("activations", 0) for phase in predicted["phases"])
        return predicted["process_bytes"] - held // 2


def one_round(args, plimsoll, number):
    layers = train_cpu.MODELS[args.model]["layers"]
    rows = {}
    keep = {"torch": checkpointed(args, 0), "plimsoll": plimsoll.train(KEEP)}
    rows["keep everything"] = keep
    for blocks in sorted({layers // 4, layers // 2, layers * 3 // 4, layers} - {0}):
        torch = checkpointed(args, blocks)
        rows[f"{blocks} of {layers} blocks"] = {"torch": torch, "plimsoll": plimsoll.train(torch["hwm"])}
    half = plimsoll.half()
    rows["half of our activations"] = {"plimsoll": plimsoll.train(half)}
    rows["half, any micro-batch"] = {"plimsoll": plimsoll.train(half, OPEN)}
    for row in rows.values():
        for program, run in row.items():
            run["overhead"] = keep[program]["median"] / run["median"] - 1
    print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    return rows


def cells(rounds, name, program):
    runs = [rows[name][program] for rows in rounds if program in rows[name]]
    if not runs:
        return f"{'-':>10}{'-':>10}{'-':>10}"
    speed = statistics.median(run["median"] for run in runs)
    overhead = statistics.median(run["overhead"] for run in runs)
    return f"{max(run['hwm'] for run in runs) / 1e9:8.2f} G{speed:10.0f}{100 * overhead:+8.1f} %"


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        plimsoll = Plimsoll(args, pathlib.Path(folder))
        plimsoll.measure()
        rounds = [one_round(args, plimsoll, number) for number in range(args.rounds)]
    print(f"{train_cpu.processor()}, {args.threads} threads; {args.model}, {args.rounds} rounds of {args.steps} timed steps")
    print(f"{'':26}{'PyTorch':>10}{'tokens/s':>10}{'overhead':>10}{'Plimsoll':>10}{'tokens/s':>10}{'overhead':>10}{'others':>8}")
    for name in rounds[0]:
        others = max(run["others"] for rows in rounds for run in rows[name].values())
        print(f"{name:26}{cells(rounds, name, 'torch')}{cells(rounds, name, 'plimsoll')}{others:8.0%}")


if __name__ == "__main__":
    main()
