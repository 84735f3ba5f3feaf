#!/usr/bin/env python3
"""A device, a host and a disk on one computer (--device sim), through the commands: python3 tiers.py path/to/plimsoll

For any room on the host, a run gives the bits of a run in memory, touches exactly the planned bytes on every tier, and keeps the
budgets of the device and of the host by the kernel's count. Links with a given rate slow their transfers to it.
"""

from _plimsoll import Test

WIDE = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "train.micro_batch=4", "--set", "train.updates=3"]
SIM = ["--device", "sim"]


def plan_of(test, *more):
    return test.succeeds("plan", "config.toml", *WIDE, *more, "--json")


def train(test, run, *more):
    return test.succeeds("train", "config.toml", *WIDE, "--run", run, *more, "--json")


def end_of(report):
    return report["final"]["parameters_xxh128"], report["final"]["loss_bits"]


def disk_of(test, size="1GiB"):
    return ["--disk", f"{test.path('pages')}:{size}"]


def host_that_holds(test, device):
    """Bytes of the host: the process alone, and the process with all resting values."""
    everything = plan_of(test, *SIM, "--memory", device, "--host-memory", "8GiB")
    arena = {tier["name"]: tier["arena_bytes"] for tier in everything["predicted"]["tiers"]}["host"]
    return everything["predicted"]["host_bytes"] - arena, arena


def shared(test):
    resident = end_of(train(test, "resident", "--memory", "1GiB"))
    device = plan_of(test, *SIM, "--memory", "1GiB", "--host-memory", "8GiB")["bounds"]["floor_bytes"]
    process, arena = host_that_holds(test, device)
    seconds = []
    for number, (host, tiers) in enumerate(
        [
            (process + (12 << 20) + arena, ["device", "host"]),
            (process + (12 << 20) + arena // 2, ["device", "host", "disk"]),
            (0, ["device", "disk"]),
        ]
    ):
        beyond = [*SIM, *disk_of(test), "--memory", device, *(["--host-memory", host] if host else [])]
        plan = plan_of(test, *beyond)
        seconds.append(plan["predicted"]["update_seconds"])
        for audit in ([], ["--audit"]):
            report = train(test, f"shared{number}{len(audit)}", *beyond, *audit)
            test.equal(f"{tiers}: the end", end_of(report), resident)
            planned = {tier["name"]: tier["arena_bytes"] for tier in plan["predicted"]["tiers"]}
            found = {tier["name"]: tier["arena_bytes"] for tier in report["measured"]["tiers"]}
            test.equal("tiers", sorted(found), sorted(tiers))
            page = 4096
            planned["device"], found["device"] = (-(-each["device"] // page) * page for each in (planned, found))
            test.equal(f"{tiers}: bytes of each", found, planned)
            if audit:
                continue
            predicted, measured = report["predicted"], report["measured"]
            test.that(predicted["process_bytes"] <= device, "the device's budget holds")
            test.that(not host or predicted["host_bytes"] <= host, "the host's budget holds")
            test.that(
                measured["host_bytes"] <= predicted["host_bytes"],
                f"the host's process takes {measured['host_bytes']} of {predicted['host_bytes']} planned",
            )
    test.that(seconds[0] <= seconds[1] <= seconds[2], f"the farther, the slower: {seconds}")


def limited(test):
    """No update is faster than its bytes pass the links, and the plan knows it."""
    whole = ["--set", "train.micro_batch=8"]  # one round: the model counts what accumulators bring in for each of several
    device = plan_of(test, *SIM, *whole, "--memory", "1GiB", "--host-memory", "8GiB")["bounds"]["floor_bytes"]
    rates = [*whole, "--set", "machine.host_bytes_per_second=80e6", "--set", "machine.disk_bytes_per_second=20e6"]
    beyond = [*SIM, *disk_of(test), "--memory", device, *rates]
    plan = plan_of(test, *beyond)
    lanes = plan["predicted"]["lanes"]
    busiest = max(lanes["far_in"], lanes["far_out"])
    # A quarter of the rate; where pages are small, both links have their latencies besides.
    test.that(lanes["far_in"] > 3.5 * lanes["in"] > 0, f"the far link is the slower one: {lanes}")
    test.that(plan["predicted"]["update_seconds"] >= busiest, "the prediction holds them")
    report = train(test, "limited", *beyond)
    measured = report["seconds"] / report["updates"]
    test.that(measured >= 0.98 * busiest, f"{measured} s an update, {busiest} s on the busiest link")


def replayed(test):
    """A plan of one of these machines runs there, and only there."""
    device = plan_of(test, *SIM, "--memory", "1GiB", "--host-memory", "8GiB")["bounds"]["floor_bytes"]
    process, arena = host_that_holds(test, device)
    beyond = [*SIM, *disk_of(test), "--memory", device, "--host-memory", process + (12 << 20) + arena // 2]
    plan_of(test, *beyond, "--out", "plan.json")
    run = ["train", "config.toml", *WIDE, "--plan", "plan.json"]
    test.succeeds(*run, "--run", "replayed", *beyond, "--json")
    test.fails(2, "E-PLAN-REPLAY", *run, "--run", "elsewhere", *disk_of(test), "--memory", "1GiB")
    little = [*disk_of(test, "1MiB"), "--host-memory", "8GiB"]
    test.fails(3, "E-PLAN-FIT", *run, "--run", "little", *SIM, "--memory", device, *little)
    test.fails(3, "E-PLAN-FIT", *run, "--run", "nothing", *SIM, "--memory", device)
    test.fails(3, "E-PLAN-FIT", *run, "--run", "nowhere", *SIM, *disk_of(test), "--memory", device)
    # Everything on the disk, also what blocks fetch.
    far = [*SIM, *disk_of(test), "--memory", device]
    plan_of(test, *far, "--out", "plan.json")
    test.succeeds(*run, "--run", "far", *far, "--json")
    test.fails(2, "E-PLAN-REPLAY", *run, "--run", "flat", *disk_of(test), "--memory", "1GiB")
    test.fails(2, "E-PLAN-REPLAY", *run, "--run", "near", *SIM, "--memory", device, "--host-memory", "8GiB")


def resumed(test):
    """A run that was cut short goes on, also on another kind of machine; every lever of a device plans."""
    device = plan_of(test, *SIM, "--memory", "1GiB", "--host-memory", "8GiB")["bounds"]["floor_bytes"]
    # Rates that are measured again in between move the floor by up to a percent.
    beyond = [*SIM, *disk_of(test), "--memory", device * 103 // 100]
    whole = end_of(train(test, "whole", *beyond))
    train(test, "parts", *beyond, "--updates", "1")
    test.equal("resumed on a device", end_of(train(test, "parts", *beyond, "--resume")), whole)
    train(test, "kinds", *beyond, "--updates", "1")
    test.equal("resumed without one", end_of(train(test, "kinds", "--memory", "1GiB", "--resume")), whole)
    levers = [lever["name"] for lever in plan_of(test, *beyond, "--frontier")["levers"]]
    test.that(any("on the disk" in name for name in levers), f"levers name the tier: {levers}")


def refused(test):
    test.fails(2, "E-HOST-SIZE", "plan", "config.toml", *SIM, "--host-memory", "1MiB")
    small = ["--host-memory", "80MiB", *disk_of(test, "8KiB"), "--set", "plan.optimizer_state=disk"]
    big = ["--set", "model.width=1024", "--set", "model.layers=12"]
    said = test.fails(2, "E-DISK-SIZE", "plan", "config.toml", *SIM, *big, "--memory", "8GiB", *small)
    test.that("data without room on the host" in said["message"], f"it says what goes to the disk: {said}")
    # Without optimizer state, plan.optimizer_state=disk moves no bytes, so no disk is needed. With state, the advised sizes fit.
    asked = [*SIM, "--memory", "64MiB", "--set", "plan.optimizer_state=disk"]
    nothing = ["--set", "optimizer.name=sgd", "--set", "plan.parameters=memory", "--set", "plan.gradients=memory"]
    test.succeeds("plan", "config.toml", *asked, *nothing, "--host-memory", "1GiB", "--json")
    process = test.fails(2, "E-HOST-SIZE", "plan", "config.toml", *asked, "--host-memory", "1MiB")["try"][0].split()[1]
    room = test.fails(2, "E-DISK-SIZE", "plan", "config.toml", *asked, "--host-memory", process)["try"][0].split()
    test.succeeds("plan", "config.toml", *asked, *room, "--json")
    kept = ["--set", "plan.optimizer_state=memory"]
    test.fails(2, "E-HOST-SIZE", "plan", "config.toml", *SIM, "--host-memory", "1MiB", *kept, "--frontier")
    many = str(1 << 50)
    test.fails(3, "E-MEM-MACHINE", "train", "config.toml", *SIM, "--memory", "64MiB", "--host-memory", many)
    test.fails(2, "E-CONFIG-VALUE", "plan", "config.toml", "--device", "gpu")


def main():
    test = Test("tiers")
    test.run_parts(shared, limited, replayed, resumed, refused)
    test.finish()


if __name__ == "__main__":
    main()
