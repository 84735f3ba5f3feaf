#!/usr/bin/env python3
"""Bytes written, through the commands: python3 bytes_written.py path/to/plimsoll

The planned bytes written to the disk by loading, by each update and over the run equal the counts of run.json, to the byte.
Without a disk they are 0. Checkpoints and weights count separately.
"""

import json

from _plimsoll import CONFIG, Test

BASE = ["--set", "model.width=128", "--set", "model.heads=4", "--set", "model.layers=3", "--set", "train.updates=3"]
LORA = ["--set", "adapter.kind=lora", "--set", "adapter.rank=16"]
PLAIN = ["--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0"]  # no state
ON_DISK = ["--set", "plan.parameters=disk"]
WHOLE = ["--set", "train.micro_batch=8"]
CASES = {
    "fp32": ["--set", "plan.optimizer_state=disk"],
    "everything": [*ON_DISK, "--set", "plan.gradients=disk", "--set", "train.micro_batch=2"],
    "group": [*ON_DISK, "--set", "plan.gradients=disk", "--set", "train.micro_batch=2", "--set", "plan.group=4"],
    "activations": ["--set", "plan.activations=disk", "--set", "plan.recompute=all", "--set", "train.micro_batch=4"],
    "bf16": [*ON_DISK, "--set", "precision.compute=bf16", "--set", "precision.parameters=bf16", "--set",
             "precision.optimizer_state=bf16"],
    "8bit": ["--set", "plan.optimizer_state=disk", "--set", "precision.optimizer_state=8bit"],
    "lora": [*LORA, *ON_DISK, *WHOLE],
    "dora": ["--set", "adapter.kind=dora", "--set", "adapter.rank=16", *ON_DISK, *WHOLE],
    "lora on nf4": [*LORA, *ON_DISK, *WHOLE, "--set", "quantize.base=nf4"],
    "lora on int8, no state": [*LORA, *ON_DISK, *WHOLE, *PLAIN, "--set", "quantize.base=int8"],
    "frozen": [*ON_DISK, *WHOLE, "--set", 'model.freeze=["wte","h[.](0|1)"]'],
}  # fmt: skip


def below_an_adapter(name):
    return "lora_" not in name


# Predicates for the frozen parameters, by case.
FROZEN = {
    "lora": below_an_adapter,
    "dora": below_an_adapter,
    "lora on nf4": below_an_adapter,
    "lora on int8, no state": below_an_adapter,
    "frozen": lambda name: name.startswith(("wte", "h.0.", "h.1.")),
}


def written_of(test, name, *more):
    """Plans, trains and compares. Returns both counts."""
    run = name.replace(" ", "-").replace(",", "")
    plan = test.succeeds("plan", "config.toml", *BASE, *more, "--json")
    report = test.succeeds("train", "config.toml", *BASE, *more, "--run", run, "--json")
    if not plan or not report:
        return None
    planned, counted = plan["written"], report["written"]
    keys = ("load_bytes", "update_bytes", "run_bytes")
    test.equal(f"{name}: counted", [counted[key] for key in keys], [planned[key] for key in keys])
    test.equal(f"{name}: over the run", planned["run_bytes"], planned["load_bytes"] + 3 * planned["update_bytes"])
    test.equal(f"{name}: in plan.json of the run", json.loads(test.path(f"{run}/plan.json").read_text())["written"], planned)
    on_disk = sum(file.stat().st_size for file in test.state(run).parent.iterdir())
    on_disk += sum(file.stat().st_size for file in test.path(f"{run}/weights").glob("*.safetensors"))
    test.equal(f"{name}: saved", counted["save_bytes"], on_disk)
    test.that(on_disk <= planned["save_bytes"] <= 1.05 * on_disk + (1 << 15), f"{name}: {planned['save_bytes']} planned")
    return counted, plan, report


def frozen_bytes(test, name, written, arguments, report):
    """They are loaded, and with one micro-step a window, which writes everything else once, no update has room for them."""
    values = test.succeeds("plan", "config.toml", *BASE, *arguments, "--values", "--json")["values"]
    resting = [value for value in values if value["action"] == "paged"]
    parameters = [value for value in resting if value["role"] == "parameters"]
    frozen = sum(value["bytes"] for value in parameters if FROZEN[name](value["name"]))
    everything = sum(value["bytes"] for value in resting)
    tier = [each for each in report["measured"]["tiers"] if each["name"] == "disk"][0]
    test.equal(f"{name}: what rests there", tier["live_bytes"], everything)
    test.equal(f"{name}: loaded", written["load_bytes"], sum(value["bytes"] for value in parameters))
    test.that(frozen > 0, f"{name}: something frozen rests there")
    test.that(written["update_bytes"] <= everything - frozen, f"{name}: {written} with {frozen} of {everything} frozen")


def on_disk(test):
    for name, more in CASES.items():
        disk = ["--disk", f"{test.path('spill')}:256MiB", "--memory", "256MiB"]
        found = written_of(test, name, *disk, *more)
        if found is None:
            continue
        written, plan, report = found
        test.that(written["update_bytes"] > 0, f"{name}: something is written: {written}")
        if name in FROZEN:
            frozen_bytes(test, name, written, [*disk, *more], report)
        text = test.succeeds("plan", "config.toml", *BASE, *disk, *more)
        test.that("written to disk: " in text and " while loading, " in text, f"{name}: {text}")


def without(test):
    written, _, _ = written_of(test, "memory", "--memory", "256MiB")
    test.equal("without a disk", [written[key] for key in ("load_bytes", "update_bytes", "run_bytes")], [0, 0, 0])
    unused = written_of(test, "unused", "--memory", "256MiB", "--disk", f"{test.path('spill')}:256MiB")[0]
    test.equal("with one that is not needed", unused["run_bytes"], 0)
    test.that("written to disk" not in test.succeeds("plan", "config.toml", *BASE), "nothing is said of it")
    plan = test.run("plan", "config.toml", *BASE, "--memory", "1MiB", "--json").json()
    test.equal("a plan that does not fit writes nothing", plan.get("written"), None)


def interrupted(test):
    """A resumed run counts its own writes, including the optimizer state while loading."""
    more = ["--disk", f"{test.path('spill')}:256MiB", "--memory", "256MiB", *ON_DISK]
    whole = test.succeeds("train", "config.toml", *BASE, *more, "--run", "whole", "--json")["written"]
    test.succeeds("train", "config.toml", *BASE, *more, "--run", "parts", "--updates", 1, "--json")
    rest = test.succeeds("train", "--run", "parts", "--resume", "--json")["written"]
    test.equal("each update writes the same", rest["update_bytes"], whole["update_bytes"])
    test.that(rest["load_bytes"] > whole["load_bytes"], f"state is loaded, too: {rest}, {whole}")
    test.equal("over the rest", rest["run_bytes"], rest["load_bytes"] + 2 * rest["update_bytes"])
    often = test.succeeds("train", "config.toml", *BASE, *more, "--set", "train.save_every=1", "--run", "often", "--json")
    plan = test.succeeds("plan", "config.toml", *BASE, *more, "--set", "train.save_every=1", "--json")
    one = sum(file.stat().st_size for file in test.state("often").parent.iterdir())
    gained = often["written"]["save_bytes"] - whole["save_bytes"]
    test.that(abs(gained - 2 * one) < 1 << 14, f"three checkpoints: {gained} bytes more, {one} each")
    planned, saved = plan["written"]["save_bytes"], often["written"]["save_bytes"]
    # A plan leaves 16 KiB in each checkpoint for its counters.
    test.that(0 <= planned - saved < 3 << 14, f"as planned: {planned}, {saved} were")


def main():
    test = Test("bytes_written")
    test.write("config.toml", CONFIG)
    test.run_parts(on_disk, without, interrupted)
    test.finish()


if __name__ == "__main__":
    main()
