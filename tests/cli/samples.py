#!/usr/bin/env python3
"""Answers of a training to held-out prompts (train.show_samples): python3 samples.py path/to/plimsoll

They change no bit of the training, take the bytes that the plan says, and are those of `generate --chat` with the same weights.
Where they do not fit they are left out, with a reason. A resumed run has each answer once.
"""

import json
import pathlib

from _plimsoll import Test
from train_conversations import prepare, sets

ROOM = ["--memory", "2GiB"]
EACH = sets(train__evaluate_every=2)


def answers_of(test, run):
    path = test.path(run) / "samples.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def bits(run):
    return run["final"]["loss_bits"], run["final"]["parameters_xxh128"]


def same_training(test):
    """The training is that without samples, with a dense model and with adapters, and every byte is as planned."""
    config = prepare(test)
    lora = sets(adapter__kind="lora", adapter__rank=4)
    ways = {
        "dense": [],
        "packed": sets(batch__packing="true"),
        "lora": lora,
        "qlora": [*lora, *sets(quantize__base="nf4")],
        "dora": sets(adapter__kind="dora", adapter__rank=4),
        "again": sets(plan__recompute="all", train__micro_batch=2),
        "bf16": sets(precision__compute="bf16"),
        "fp16": sets(precision__compute="fp16"),
    }
    for name, more in ways.items():
        command = ["train", config, *EACH, *more, *ROOM, "--audit", "--json", "--run"]
        without = test.succeeds(*command, f"{name}-none", *sets(train__show_samples=0))
        run = test.succeeds(*command, name)
        if not run or not without:
            continue
        test.equal(f"bits of {name}", bits(run), bits(without))
        losses = [[line["loss_bits"] for line in test.lines(each)] for each in (name, f"{name}-none")]
        test.equal(f"losses of {name}", losses[0], losses[1])
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{key} of {name}", run["measured"][key], run["predicted"][key])
        test.equal(f"decisions of {name}", run["batch"], without["batch"])
        answers = answers_of(test, name)
        test.equal(f"updates with answers of {name}", [each["update"] for each in answers], [2, 2, 4, 4])
        test.equal(f"answers of {name} without samples", answers_of(test, f"{name}-none"), [])


def main():
    test = Test("samples")
    test.run_parts(same_training)
    test.finish()


if __name__ == "__main__":
    main()
