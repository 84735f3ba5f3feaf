#!/usr/bin/env python3
"""SIGKILLs at random moments: every resume works, and the run ends with the bits of one that was never killed.

`--kills 100` makes a soak of it. Moments are spread over the whole life of a process: planning, loading, training, evaluating,
saving, reading back, removing.
"""

import hashlib
import json
import random
import shutil
import time

from _plimsoll import Test
from train_conversations import CONTEXT, prepare

OFTEN = ["--set", "save.every=2", "--set", "train.evaluate_every=3",
         "--set", "optimizer.learning_rate=0.01", "--set", "save.keep_best=1"]  # fmt: skip
SAME = ("update", "samples", "units", "loss_bits", "grad_norm_bits", "learning_rate")


def lines(test, run, name, keys):
    text = test.path(f"{run}/{name}").read_text().splitlines()
    return [tuple(line.get(key) for key in keys) for line in map(json.loads, text)]


def files(folder):
    """Hashes of the files. A run that saves its weights a second time keeps the order of keys that it finds in config.json."""

    def content(path):
        if path.name != "config.json":
            return path.read_bytes()
        return json.dumps(json.loads(path.read_text()), sort_keys=True).encode()

    return {path.name: hashlib.sha256(content(path)).hexdigest() for path in folder.iterdir()}


def killed(test, name, command, rng):
    """Trains once in one piece, and once with kills."""
    # A longer run has time for more kills.
    command = [*command, "--set", f"train.updates={80 * test.arguments.kills if test.arguments.kills > 9 else 60}"]
    begun = time.monotonic()
    whole = test.succeeds(*command, "--run", f"{name}-whole", "--json")
    seconds = time.monotonic() - begun
    if whole is None:
        return
    run, kills, saved = f"{name}-killed", 0, False
    while kills < test.arguments.kills:
        again = ["train", "--run", run, "--resume"] if saved else [*command, "--run", run]
        process = test.start(*again)
        time.sleep(rng.uniform(0, min(1.0, seconds)))
        ended = process.poll() is not None
        process.kill()
        _, said = process.communicate()
        if ended and process.returncode != 0:
            test.that(False, f"{name}, attempt {kills}: exit {process.returncode}: {said.decode()[-300:]}")
            return
        if ended:
            if kills:
                break
            shutil.rmtree(test.path(run))
            continue
        kills += 1
        kept = test.checkpoints(run)
        test.that(not saved or kept, f"{name}: a checkpoint after kill {kills}")
        if not kept and test.path(run).exists():
            shutil.rmtree(test.path(run))  # it was killed before its first save, and begins anew
        saved = bool(kept)
    if test.path(f"{run}/run.json").exists() and test.report(run)["status"] == "done":
        print(f"{name}: it ended after {kills} kills")
    else:
        test.succeeds(*(["train", "--run", run, "--resume"] if saved else [*command, "--run", run]))
    print(f"{name}: {kills} kills")
    for file, keys in (("metrics.jsonl", SAME), ("eval.jsonl", ("update", "samples", "loss_bits", "units"))):
        one, two = lines(test, run, file, keys), lines(test, f"{name}-whole", file, keys)
        test.equal(f"{name}: lines of {file}", one == two, True)
    report = test.report(run)
    for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
        test.equal(f"{name}: {key}", report["final"][key], whole["final"][key])
    test.equal(f"{name}: best", report["best"], whole["best"])
    test.equal(f"{name}: checkpoints", test.checkpoints(run), test.checkpoints(f"{name}-whole"))
    for folder in ("weights", "weights_best"):
        test.equal(f"{name}: {folder}", files(test.path(f"{run}/{folder}")), files(test.path(f"{name}-whole/{folder}")))
    test.that(not list(test.path(run).rglob("*partial*")), f"{name}: nothing is left behind")


def in_memory(test):
    killed(test, "memory", ["train", "config.toml", *OFTEN], random.Random(test.arguments.seed))


def from_a_disk(test):
    disk = ["--disk", f"{test.path('pages')}:1GiB", "--set", "plan.parameters=disk"]
    killed(test, "disk", ["train", "config.toml", *OFTEN, *disk], random.Random(test.arguments.seed + 1))


def adapter(test):
    """NF4 base, LoRA, text that begins as a folder."""
    test.succeeds("train", "config.toml", "--set", "model.width=64", "--set", "train.updates=2", "--run", "base")
    shape = ("kind", "layers", "width", "heads", "vocab", "dropout")
    kept = [line for line in test.path("config.toml").read_text().splitlines() if line.split(" = ")[0] not in shape]
    kept.insert(kept.index("[model]") + 1, 'init = "base/weights"')
    test.write("lora.toml", "\n".join([*kept, "[adapter]", 'kind = "lora"', "rank = 2", "[quantize]", 'base = "nf4"']) + "\n")
    killed(test, "adapter", ["train", "lora.toml", *OFTEN], random.Random(test.arguments.seed + 2))


def conversations(test):
    """NF4 base, LoRA, packed conversations."""
    config = prepare(test)
    test.succeeds("train", config, "--updates", 1, "--set", "data.validation=", "--run", "talker")
    text = test.path(config).read_text()
    data = text[text.index("[data]") :]
    test.write("packed.toml", f"""seed = 5
[model]
init = "talker/weights"
context = {CONTEXT}
[adapter]
kind = "lora"
rank = 2
[quantize]
base = "nf4"
[batch]
packing = true
{data}""")  # fmt: skip
    command = ["train", "packed.toml", "--set", "train.effective_batch=2", *OFTEN]
    killed(test, "packed", command, random.Random(test.arguments.seed + 3))


def options(parser):
    parser.add_argument("--kills", type=int, default=5, help="of each of the four runs")
    parser.add_argument("--seed", type=int, default=1)


def main():
    test = Test("kills", options)
    test.run_parts(in_memory, from_a_disk, adapter, conversations)
    test.finish()


if __name__ == "__main__":
    main()
