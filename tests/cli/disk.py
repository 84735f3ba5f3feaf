#!/usr/bin/env python3
"""Optimizer state on a disk, looked at from outside: python3 disk.py path/to/plimsoll

Below the floor of memory alone a model trains with a disk: within the budget by the kernel's count, with the same bits, on both
tiers exactly the planned bytes. Runs continue across kinds of plan, and neither an end nor a kill leaves anything in the folder.
"""

import json
import signal
import time

from _plimsoll import Test

UPDATES = 12
SLACK_BYTES, SLACK_SHARE = 16 << 20, 0.02
WIDE = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "train.micro_batch=4"]
LONG = [*WIDE, "--set", f"train.updates={UPDATES}"]


def floor_of(test, *more):
    plan = test.succeeds("plan", "config.toml", *LONG, "--memory", "4GiB", *more, "--json")
    return plan["bounds"]["floor_bytes"]


def train(test, run, *more):
    return test.succeeds("train", "config.toml", *LONG, "--run", run, *more, "--json")


def check_budget(test, report, budget, what):
    measured = report["measured"]
    test.that(measured["process_hwm_bytes"] <= budget, f"{what}: {measured['process_hwm_bytes']} of {budget} bytes")
    over = report["predicted"]["process_bytes"] - measured["process_hwm_bytes"]
    test.that(over <= SLACK_BYTES + SLACK_SHARE * budget, f"{what}: planned {over} bytes too much")


def end_of(report):
    return report["final"]["parameters_xxh128"], report["final"]["loss_bits"]


def main():
    test = Test("disk")
    disk = ["--disk", f"{test.path('pages')}:1GiB"]
    plain, low = floor_of(test), floor_of(test, *disk)
    test.that(low < plain - (2 << 20), f"the floor falls from {plain} to {low}")
    test.equal("exit code below the floor of memory alone", test.run("plan", "config.toml", *LONG, "--memory", low).code, 3)

    whole = train(test, "memory", "--memory", "1GiB")
    paged = train(test, "disk", "--memory", low, *disk)
    test.equal("bits at the end", end_of(paged), end_of(whole))
    check_budget(test, paged, low, "with a disk")
    plan = json.loads(test.path("disk/plan.json").read_text())
    test.equal("tiers", [tier["name"] for tier in plan["predicted"]["tiers"]], ["ram", "disk"])
    test.equal("what is paged", plan["decisions"]["paging"]["what"], "optimizer state")

    audited = train(test, "audited", "--memory", low, *disk, "--audit")
    test.equal("bits of the audited run", end_of(audited), end_of(whole))
    test.equal("tiers, audited and planned", audited["measured"]["tiers"], plan["predicted"]["tiers"])

    by_hand = test.succeeds(
        "plan", "config.toml", *LONG, "--memory", "1GiB", *disk, "--set", "plan.optimizer_state=disk", "--values", "--json"
    )
    places = {value["tier"] for value in by_hand["values"] if value["role"] == "optimizer state"}
    test.equal("where the state rests when asked for", places, {"disk"})
    test.fails(2, "E-CONFIG-MISSING", "plan", "config.toml", "--set", "plan.optimizer_state=disk")
    small = [*LONG, "--disk", f"{test.path('pages')}:4KiB", "--set", "plan.optimizer_state=disk"]
    test.fails(2, "E-DISK-SIZE", "plan", "config.toml", *small)

    # Half of the run in memory, the rest with a disk, and the other way round.
    for run, first, second in (("m-d", [], [*disk, "--memory", low]), ("d-m", [*disk, "--memory", low], [])):
        train(test, run, *(first or ["--memory", "1GiB"]), "--updates", "5")
        ended = train(test, run, *(second or ["--memory", "1GiB"]), "--resume")
        test.equal(f"bits of {run}", end_of(ended), end_of(whole))

    process = test.start(
        "train", "config.toml", *WIDE, "--set", "train.updates=100000", "--run", "killed", "--memory", str(low), *disk
    )
    metrics, deadline = test.path("killed") / "metrics.jsonl", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and not (metrics.exists() and metrics.read_bytes()):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    test.equal("files left in the folder", [path.name for path in test.path("pages").iterdir()], [])
    test.finish()


if __name__ == "__main__":
    main()
