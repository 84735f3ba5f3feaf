#!/usr/bin/env python3
"""Optimizer state on a disk, through the commands: python3 disk_tier.py path/to/plimsoll

Below the floor of memory alone a model trains with a disk: within the budget by the kernel's count, with the same bits, and with
exactly the planned bytes on both tiers. Runs continue across kinds of plan. Neither an end nor a kill leaves a file in the
folder. All of this holds for both engines of transfers; if io_uring is refused, plans say threads.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import struct
import subprocess

from _plimsoll import Test

UPDATES = 12
SLACK_BYTES, SLACK_SHARE = 16 << 20, 0.02
DISK_BLOCK = 4096  # state that takes no more stays in memory
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


def refuse_io_uring():
    """Refuses io_uring for a process that is about to start, as a container's seccomp profile does."""
    load_number, if_equal, answer = 0x20, 0x15, 0x06
    setup, refuse, allow = 425, 0x00050000 | errno.EPERM, 0x7FFF0000
    rules = [(load_number, 0, 0, 0), (if_equal, 0, 1, setup), (answer, 0, 0, refuse), (answer, 0, 0, allow)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(header), 0, 0) != 0:
        raise OSError("seccomp")


def engine_of(plan):
    return [tier["transfers"] for tier in plan["predicted"]["tiers"] if tier["name"] == "disk"]


def refused(test, disk):
    """If the kernel refuses io_uring, a plan moves pages on threads, says so, and runs within its budget."""
    arguments = ["config.toml", *LONG, *disk, "--set", "plan.optimizer_state=disk", "--memory", "1GiB", "--json"]
    try:
        plan = test.run("plan", *arguments, before=refuse_io_uring)
    except subprocess.SubprocessError:
        print("not tested: this system sets no seccomp filters")
        return
    test.equal("the engine where io_uring is refused", engine_of(plan.json()), ["threads"])
    test.that("no io_uring" in plan.text()[1], f"the plan says why: {plan.text()[1]!r}")
    run = test.run("train", *arguments, "--run", "refused", before=refuse_io_uring)
    test.equal("exit code of a run without io_uring", run.code, 0)
    test.equal("the engine of that run", run.json()["measured"]["tiers"][1]["transfers"], "threads")


def large_vocabulary(test, disk):
    """The embedding and the head in ranges: bits, bytes and the text of the plan; a replayed plan is equal."""
    test.write("tokens.bin", struct.pack("<4000H", *(i * 7919 % 20000 for i in range(4000))))
    keys = {"model.vocab": 20000, "model.layers": 3, "model.width": 96, "model.heads": 3, "model.context": 24, "model.dropout": 0,
            "train.updates": 6, "train.micro_batch": 1}
    wanted = ["config.toml", "--set", "data.train=tokens.bin", "--set", "data.validation=tokens.bin", "--set", "data.format=u16"]
    for key, value in keys.items():
        wanted += ["--set", f"{key}={value}"]
    bounds = [test.succeeds("plan", *wanted, "--memory", "4GiB", *more, "--json")["bounds"] for more in ([], disk)]
    plain, low = (each["floor_bytes"] for each in bounds)
    test.that(low < plain - (20 << 20), f"the floor falls from {plain} to {low}")
    whole = test.succeeds("train", *wanted, "--run", "v-memory", "--memory", "1GiB", "--json")
    paged = test.succeeds("train", *wanted, "--run", "v-disk", "--memory", low, *disk, "--json")
    test.equal("bits with tables on the disk", end_of(paged), end_of(whole))
    check_budget(test, paged, low, "with tables on the disk")
    plan = json.loads(test.path("v-disk/plan.json").read_text())
    test.that("tables" in plan["decisions"]["paging"]["what"], f"what is paged: {plan['decisions']['paging']}")
    replay = ["--plan", "v-disk/plan.json", "--run", "v-again", "--memory", low, *disk]
    again = test.succeeds("train", *wanted, *replay, "--audit", "--json")
    test.equal("bits of the replayed plan", end_of(again), end_of(whole))
    test.equal("tiers of the replayed plan", again["measured"]["tiers"], plan["predicted"]["tiers"])


def page_files(process, folder):
    """The descriptors of a process that lead into a folder, as paths that can be opened."""
    descriptors = f"/proc/{process.pid}/fd"
    paths = (os.path.join(descriptors, name) for name in os.listdir(descriptors))
    return [path for path in paths if os.readlink(path).startswith(f"{folder}/")]


def flip_bits(path):
    """Flips one bit in each block, so that every next read sees a change."""
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, os.fstat(file.fileno()).st_size, DISK_BLOCK):
            byte = os.pread(file.fileno(), 1, at)[0]
            os.pwrite(file.fileno(), bytes([byte ^ 0x10]), at)


def fails_midway(test):
    """A page file changes during a run: a named error, and the same end from the last checkpoint."""
    pages = test.path("failing")
    disk = ["--memory", "1GiB", "--disk", f"{pages}:1GiB", "--set", "plan.parameters=disk"]
    long = [*WIDE, "--set", "train.updates=60", "--set", "train.save_every=2"]
    whole = test.succeeds("train", "config.toml", *long, "--run", "unharmed", *disk, "--json")
    harms = {
        "changed": (flip_bits, ["E-DISK-CORRUPT"]),
        "cut": (lambda path: os.truncate(path, 0), ["E-DISK-IO", "E-DISK-CORRUPT"]),
    }
    for run, (harm, codes) in harms.items():
        process = test.start("train", "config.toml", *long, "--run", run, *disk, "--json")
        test.wait_for_lines(process, run, 4)
        process.send_signal(signal.SIGSTOP)
        files = page_files(process, pages)
        test.equal(f"page files of {run}", len(files), 1)
        for path in files:
            harm(path)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        report = test.report(run)
        test.equal(f"end of {run}", (process.returncode, report["status"]), (5, "failed"))
        test.that(report["error"]["code"] in codes, f"what ended {run}: {report['error']}")
        test.equal(f"files left by {run}", list(pages.iterdir()), [])
        ended = test.succeeds("train", "config.toml", *long, "--run", run, *disk, "--resume", "--json")
        test.equal(f"end of {run} from its checkpoint", end_of(ended), end_of(whole))
    process = test.start("train", "config.toml", *long, "--run", "vanished", *disk, "--json")
    test.wait_for_lines(process, "vanished", 1)
    shutil.rmtree(pages)
    out, _ = process.communicate(timeout=60)
    test.equal("end of a run whose folder vanished", process.returncode, 0)
    test.equal("bits of a run whose folder vanished", end_of(json.loads(out)), end_of(whole))


def main():
    test = Test("disk_tier")
    disk = ["--disk", f"{test.path('pages')}:1GiB"]
    threads = ["--set", "plan.transfers=threads"]
    plain, low = floor_of(test), floor_of(test, *disk)
    low_threads = floor_of(test, *disk, *threads)
    test.that(low <= low_threads, f"floors {low} and, with threads, {low_threads}")
    test.that(low < plain - (2 << 20), f"the floor falls from {plain} to {low}")
    test.equal("exit code below the floor of memory alone", test.run("plan", "config.toml", *LONG, "--memory", low).code, 3)

    whole = train(test, "memory", "--memory", "1GiB")
    paged = train(test, "disk", "--memory", low, *disk)
    test.equal("bits at the end", end_of(paged), end_of(whole))
    check_budget(test, paged, low, "with a disk")
    plan = json.loads(test.path("disk/plan.json").read_text())
    test.equal("tiers", [tier["name"] for tier in plan["predicted"]["tiers"]], ["ram", "disk"])
    test.equal("what is paged", plan["decisions"]["paging"]["what"], ["optimizer state", "parameters", "gradients"])

    audited = train(test, "audited", "--memory", low, *disk, "--audit")
    test.equal("bits of the audited run", end_of(audited), end_of(whole))
    test.equal("tiers, audited and planned", audited["measured"]["tiers"], plan["predicted"]["tiers"])

    own = train(test, "threads", "--memory", low_threads, *disk, *threads, "--audit")
    test.equal("bits with threads", end_of(own), end_of(whole))
    test.equal("the engine asked for", own["measured"]["tiers"][1]["transfers"], "threads")
    own = train(test, "threads-plain", "--memory", low_threads, *disk, *threads)
    check_budget(test, own, low_threads, "with threads")
    refused(test, disk)

    by_hand = test.succeeds(
        "plan", "config.toml", *LONG, "--memory", "1GiB", *disk, "--set", "plan.optimizer_state=disk", "--values", "--json"
    )
    state = [value for value in by_hand["values"] if value["role"] == "optimizer state"]
    places = {(value["bytes"] > DISK_BLOCK, value["tier"]) for value in state}
    test.equal("where the state rests when asked for", places, {(True, "disk"), (False, "ram")})
    test.fails(2, "E-CONFIG-MISSING", "plan", "config.toml", "--set", "plan.optimizer_state=disk")
    small = [*LONG, "--disk", f"{test.path('pages')}:4KiB", "--set", "plan.optimizer_state=disk"]
    test.fails(2, "E-DISK-SIZE", "plan", "config.toml", *small)

    large_vocabulary(test, disk)
    fails_midway(test)

    # Half of the run in memory, the rest with a disk, and the other way round.
    for run, first, second in (("m-d", [], [*disk, "--memory", low]), ("d-m", [*disk, "--memory", low], [])):
        train(test, run, *(first or ["--memory", "1GiB"]), "--updates", "5")
        ended = train(test, run, *(second or ["--memory", "1GiB"]), "--resume")
        test.equal(f"bits of {run}", end_of(ended), end_of(whole))

    process = test.start(
        "train", "config.toml", *WIDE, "--set", "train.updates=100000", "--run", "killed", "--memory", str(low), *disk
    )
    test.wait_for_lines(process, "killed", 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    test.equal("files left in the folder", [path.name for path in test.path("pages").iterdir()], [])
    test.finish()


if __name__ == "__main__":
    main()
