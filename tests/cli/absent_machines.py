#!/usr/bin/env python3
"""Planning for absent machines: the files in machines/, and broken files."""

import json
import os
import pathlib
import subprocess
import sys
import time

from _plimsoll import Test

FOLDER = pathlib.Path(__file__).parents[2] / "machines"
MODEL = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "model.layers=3", "--set", "model.vocab=30000"]


def described(test, file, tiers):
    """A budget between the floors with and without the second tier uses this tier. Returns the plan at the lower floor."""
    device = tiers[1] == "host"
    beyond = ["--host-memory", "8GiB"] if device else ["--disk", f"{test.path('pages')}:8GiB"]
    arguments = ["plan", "config.toml", *MODEL, "--machine", file, "--json"]
    alone = test.succeeds(*arguments, "--memory", "7GiB")
    both = test.succeeds(*arguments, "--memory", "7GiB", *beyond)
    test.equal("tiers of a plan in one", [tier["name"] for tier in alone["predicted"]["tiers"]], tiers[:1])
    test.equal("source of costs", alone["predicted"]["cost_source"]["measured"], 0)
    low, high = both["bounds"]["floor_bytes"], alone["bounds"]["floor_bytes"]
    test.that(low < high, f"{file.name}: the second tier lowers the floor from {high} to {low}")
    plan = test.succeeds(*arguments, "--memory", low, *beyond)
    test.equal("tiers", [tier["name"] for tier in plan["predicted"]["tiers"]], tiers)
    test.that(plan["predicted"]["process_bytes"] <= low, "it fits")
    test.that(plan["predicted"]["update_seconds"] >= both["predicted"]["update_seconds"], "and is no faster")
    lanes = plan["predicted"]["lanes"]
    test.that(lanes["in"] > 0 and lanes["out"] > 0, f"transfers take time: {lanes}")
    busy = lanes["compute"] + plan["predicted"]["stall_seconds"]
    test.that(abs(busy / plan["predicted"]["update_seconds"] - 1) < 1e-6, "kernels and stalls are the update")
    names = [item["name"] for item in plan["predicted"]["reserve"]]
    test.equal("staging is for disks", any(name.startswith("transfers") for name in names), not device)
    refused = test.run(*arguments, "--memory", low)
    test.equal("exit code without the second tier", refused.code, 3)
    words = [word for remedy in refused.json()["infeasible"]["remedies"] for word in remedy["arguments"]]
    test.equal("a host is proposed where there is one", "--host-memory" in words, device)
    if device:
        hand = ["--set", "plan.optimizer_state=disk", "--set", "plan.parameters=memory", "--set", "plan.gradients=memory"]
        paging = test.succeeds(*arguments, "--memory", "7GiB", *beyond, *hand)["decisions"]["paging"]
        test.equal("by hand", paging["what"], ["optimizer state"])
        small = ["--memory", "7GiB", "--set", "plan.optimizer_state=disk", "--host-memory"]
        test.fails(2, "E-DISK-SIZE", *arguments, *small, "64MiB")
        # Fed and fetched values take pinned memory there, before any value rests.
        test.fails(2, "E-HOST-SIZE", *arguments, *small, "1MiB")
    return plan


def three(test, file, whole):
    """Values without room on the host go to the disk, over both links. `whole`: the plan with room for all."""
    arguments = ["plan", "config.toml", *MODEL, "--machine", file, "--json"]
    disk = ["--disk", f"{test.path('pages')}:8GiB"]
    half = whole["predicted"]["tiers"][1]["arena_bytes"] // 2
    memory = whole["budget"]["memory"]
    plan = test.succeeds(*arguments, "--memory", memory, "--host-memory", half, *disk)["predicted"]
    test.equal("tiers", [tier["name"] for tier in plan["tiers"]], ["device", "host", "disk"])
    test.that(plan["host_bytes"] <= half, f"the host's budget holds: {plan['host_bytes']} of {half}")
    test.that(plan["lanes"]["far_in"] > 0 and plan["lanes"]["far_out"] > 0, f"both links are busy: {plan['lanes']}")
    test.that(plan["update_seconds"] >= whole["predicted"]["update_seconds"], "the disk makes it no faster")


def broken(test):
    whole = (FOLDER / "laptop.toml").read_text()
    for name, text in {
        "half.toml": whole[: len(whole) // 2],
        "words.toml": "schema = ",
        "header.toml": "[\x01]\n",
        "negative.toml": whole.replace("flops_per_second = 6", "flops_per_second = -6"),
        "foreign.toml": whole.replace("machine/1", "machine/9"),
        "empty.toml": "",
    }.items():
        test.write(name, text)
        test.fails(2, "E-MACHINE-FILE", "plan", "config.toml", "--machine", name)


def laptop(test):
    described(test, FOLDER / "laptop.toml", ["ram", "disk"])


def devices(test):
    for name in ("gpu-8gib", "gpu-24gib", "h200"):
        plan = described(test, FOLDER / f"{name}.toml", ["device", "host"])
        three(test, FOLDER / f"{name}.toml", plan)


def precision(test):
    """Products in bf16 take the time of the described machine, and `auto` follows it."""
    whole = (FOLDER / "laptop.toml").read_text()
    test.write("fast.toml", whole)
    test.write("slow.toml", "\n".join(line for line in whole.splitlines() if not line.startswith("bf16_flops_per_second")))

    def plan(machine, compute):
        sets = ["--set", f"precision.compute={compute}"]
        return test.succeeds("plan", "config.toml", *MODEL, "--machine", machine, "--memory", "8GiB", *sets, "--json")

    for machine, chosen in ("fast.toml", "bf16"), ("slow.toml", "fp32"), ("sim", "fp32"):
        test.equal(f"auto on {machine}", plan(machine, "auto")["precision"]["compute"], chosen)
    seconds = {(machine, compute): plan(machine, compute)["predicted"]["update_seconds"]
               for machine in ("fast.toml", "slow.toml") for compute in ("fp32", "bf16")}
    test.equal("fp32 is the same on both", seconds["fast.toml", "fp32"], seconds["slow.toml", "fp32"])
    products = seconds["fast.toml", "fp32"] / seconds["fast.toml", "bf16"]
    test.that(1.3 < products < 1.7, f"products of bf16 count as such: {products:.2f} times faster")
    alike = seconds["slow.toml", "fp32"] / seconds["slow.toml", "bf16"]
    test.that(alike < 1.1, f"and as those of fp32 where no rate is given: {alike:.2f}")


def spin():
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def busy_share(seconds=0.5):
    """The busy share of all processors."""
    read = lambda: [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    before = read()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(read(), before)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))


def shared(test):
    """The record and the plans of a machine that was measured under load say so; `train` measures it again when it is idle."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(test.path("cache-shared"))}
    run = lambda *arguments: test.run(*arguments, environment=environment)
    spinning = [spin() for _ in range(2 * os.cpu_count())]
    try:
        machine = run("machine", "--json").json()
        test.equal("measured beside others", machine["measured"]["shared"], True)
        test.that(machine["measured"]["others"] + machine["measured"]["stolen"] > 0.1, f"how far: {machine['measured']}")
        file = pathlib.Path(machine["file"])
        before = file.read_bytes()
        plan = ["plan", "config.toml", "--memory", "64MiB"]
        planned = run(*plan, "--json").json()
        test.equal("a plan says it", planned["machine"]["measured"], "shared")
        text = run(*plan).text()[0]
        test.that("this machine was not idle when it was measured, and times may be too long" in text, text)
        # Not while it is busy.
        test.equal("exit code", run("train", "config.toml", "--updates", 1, "--run", "busy").code, 0)
        test.equal("the file while it is busy", file.read_bytes(), before)
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    test.equal("exit code of a plan", run(*plan).code, 0)
    test.equal("planning never measures again", file.read_bytes(), before)
    for _ in range(20):
        if busy_share() < 0.02:
            break
    else:
        print("skipped: the machine is never idle")
        return
    out = test.path("shared.json")
    test.equal("exit code", run(*plan, "--out", out).code, 0)
    test.equal("a plan that is replayed", run("train", "config.toml", "--plan", out, "--memory", "64MiB", "--updates", 1,
                                              "--run", "replayed").code, 0)  # fmt: skip
    test.equal("is of the machine as it was", file.read_bytes(), before)
    told = run("train", "config.toml", "--updates", 1, "--run", "idle").text()[1]
    after = json.loads(file.read_text())
    test.that("measuring its rates again" in told, f"it is said: {told}")
    if after["measured"]["shared"]:
        test.equal("in vain", after["measured"]["repeats"], 1)
        return
    test.equal("a plan says it", run(*plan, "--json").json()["machine"]["measured"], "alone")
    test.that("the machine was idle when it was measured" in run(*plan).text()[0], "in words, too")
    now = file.read_bytes()
    test.equal("exit code", run("train", "config.toml", "--updates", 1, "--run", "later").code, 0)
    test.equal("once is enough", file.read_bytes(), now)
    # A file of an earlier version does not know.
    del after["measured"]
    earlier = ["--machine", test.write("earlier.json", json.dumps(after))]
    test.equal("nobody knows", run(*plan, *earlier, "--json").json()["machine"]["measured"], "unknown")
    sim = run("plan", "config.toml", "--machine", "sim", "--json").json()
    test.equal("nobody measured it", sim["machine"]["measured"], "described")


def main():
    test = Test("absent_machines")
    files = [file.stem for file in sorted(FOLDER.glob("*.toml"))]
    test.equal("files", files, ["gpu-24gib", "gpu-8gib", "h200", "laptop"])
    test.run_parts(laptop, devices, precision, broken, shared)
    test.finish()


if __name__ == "__main__":
    main()
