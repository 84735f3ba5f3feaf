#!/usr/bin/env python3
"""Planning for machines that are not here: the files in machines/, and what becomes of broken ones."""

import pathlib

from _plimsoll import Test

FOLDER = pathlib.Path(__file__).parents[2] / "machines"
MODEL = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "model.layers=6", "--set", "model.vocab=30000"]


def described(test, file, tiers):
    """A budget between the floors with and without the second tier needs it, and gets it."""
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
        # What is fed and fetched takes pinned memory there, before anything rests.
        test.fails(2, "E-HOST-SIZE", *arguments, *small, "1MiB")


def three(test, file):
    """What the host has no room for goes to the disk behind it, over both links."""
    arguments = ["plan", "config.toml", *MODEL, "--machine", file, "--json"]
    alone = test.succeeds(*arguments, "--memory", "7GiB")
    big = test.succeeds(*arguments, "--memory", "7GiB", "--host-memory", "8GiB")["bounds"]["floor_bytes"]
    test.that(big < alone["bounds"]["floor_bytes"], "the host lowers the floor")
    disk = ["--disk", f"{test.path('pages')}:8GiB"]
    whole = test.succeeds(*arguments, "--memory", big, "--host-memory", "8GiB")["predicted"]
    half = whole["tiers"][1]["arena_bytes"] // 2
    plan = test.succeeds(*arguments, "--memory", big, "--host-memory", half, *disk)["predicted"]
    test.equal("tiers", [tier["name"] for tier in plan["tiers"]], ["device", "host", "disk"])
    test.that(plan["host_bytes"] <= half, f"the host's budget holds: {plan['host_bytes']} of {half}")
    test.that(plan["lanes"]["far_in"] > 0 and plan["lanes"]["far_out"] > 0, f"both links are busy: {plan['lanes']}")
    test.that(plan["update_seconds"] >= whole["update_seconds"], "the disk makes it no faster")


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
        described(test, FOLDER / f"{name}.toml", ["device", "host"])
        three(test, FOLDER / f"{name}.toml")


def precision(test):
    """Products of bf16 take what the described machine makes of them, and `auto` goes by that."""
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


def main():
    test = Test("machines")
    files = [file.stem for file in sorted(FOLDER.glob("*.toml"))]
    test.equal("files", files, ["gpu-24gib", "gpu-8gib", "h200", "laptop"])
    test.run_parts(laptop, devices, precision, broken)
    test.finish()


if __name__ == "__main__":
    main()
