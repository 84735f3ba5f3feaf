#!/usr/bin/env python3
"""Protection against loss and overwriting: a run whose validation data fails, a folder with two runs, a plan of another batch."""

import re
import json
import os
import shutil
import socket
import struct
import subprocess
import time

from _plimsoll import Test

UPDATES = 40


def arguments(run, *more):
    return ["train", "config.toml", "--set", f"train.updates={UPDATES}", "--run", run, *more]


def bad_validation(test):
    """A token past the vocabulary is found before the first update, as far as it will be read."""
    good = [*range(200)] * 20
    test.write("train.bin", struct.pack(f"<{len(good)}H", *good))
    test.write("bad.bin", struct.pack(f"<{len(good)}H", *good[:-7], 999, *good[-6:]))
    sets = ["--set", "data.format=u16", "--set", "data.train=train.bin", "--set", "data.validation=bad.bin"]
    error = test.fails(5, "E-DATA-TOKEN", *arguments("bad", *sets, "--set", "train.evaluate_samples=0"))
    test.that(error and f"token {len(good) - 7} is 999" in error["message"], f"the token is named: {error}")
    test.that(not test.path("bad").exists(), "no run begins")
    test.succeeds(*arguments("good", *sets, "--updates", "1", "--json"))


def lost_validation(test):
    """Validation data that vanishes while a run goes on costs its evaluation and nothing else."""
    whole = test.succeeds(*arguments("whole", "--json"))
    text = test.path("validation.txt").read_bytes()
    for every in (0, 7):
        run = f"lost-{every}"
        process = test.start(*arguments(run, "--json", "--set", f"train.evaluate_every={every}"))
        test.wait_for_lines(process, run, 1)
        os.truncate(test.path("validation.txt"), 5)
        process.communicate(timeout=60)
        report = test.report(run)
        test.equal(f"end of {run}", (process.returncode, report["status"]), (5, "failed"))
        test.equal("what ended it", report["error"]["code"], "E-IO-READ")
        test.that(test.checkpoints(run), "the run was saved")
        if not every:
            test.equal("updates that were kept", report["updates"], UPDATES)
        test.path("validation.txt").write_bytes(text)
        ended = test.succeeds(*arguments(run, "--resume", "--json"))
        for key in ("loss_bits", "validation_loss", "parameters_xxh128"):
            test.equal(f"final {key} of {run}", ended["final"][key], whole["final"][key])


def two_processes(test):
    process = test.start("train", "config.toml", "--run", "shared", "--updates", "100000")
    test.wait_for_lines(process, "shared", 1)
    error = test.fails(2, "E-RUN-BUSY", "train", "config.toml", "--run", "shared", "--resume")
    test.that(error and str(process.pid) in error["message"], f"the process is named: {error}")
    test.fails(2, "E-RUN-EXISTS", "train", "config.toml", "--run", "shared")
    test.equal("the first one goes on", process.poll(), None)
    process.terminate()
    process.communicate(timeout=60)
    test.equal("the first one's end", process.returncode, 6)
    count = test.report("shared")["updates"]
    test.succeeds("train", "config.toml", "--run", "shared", "--resume", "--updates", str(count + 1))


def replay(test):
    four, disk = ["--set", "train.micro_batch=4"], ["--disk", f"{test.path('pages')}:1GiB", "--set", "plan.optimizer_state=disk"]
    test.succeeds("plan", "config.toml", *four, "--out", "four.json")
    test.fails(2, "E-PLAN-REPLAY", *arguments("other", "--plan", "four.json", "--set", "train.micro_batch=2"))
    test.that(not test.path("other").exists(), "no run begins")
    test.succeeds(*arguments("two", "--set", "train.micro_batch=2", "--updates", "2"))
    error = test.fails(2, "E-PLAN-REPLAY", *arguments("two", "--resume", "--plan", "four.json"))
    test.that(error and "micro-batches of 4, and 2" in error["message"], f"both are named: {error}")
    test.succeeds(*arguments("four", "--plan", "four.json", "--updates", "1"))
    test.equal("batch of a replay", test.report("four")["batch"]["micro"], 4)

    test.succeeds("plan", "config.toml", *four, *disk, "--out", "disk.json")
    small = ["--disk", f"{test.path('pages')}:8KiB"]
    for budget in ([], small):
        test.fails(3, "E-PLAN-FIT", *arguments("small", *four, "--plan", "disk.json", *budget))
    test.succeeds(*arguments("disk", *four, *disk, "--plan", "disk.json", "--updates", "1"))


def small_disk(test):
    """A disk that is too small for the state is no reason to refuse a plan that leaves it in memory."""
    plan = test.succeeds("plan", "config.toml", "--disk", f"{test.path('pages')}:8KiB", "--json")
    test.equal("status", plan["status"], "fits")
    test.that("optimizer state on the disk" not in [lever["name"] for lever in plan["levers"]], "what cannot be is no lever")


def counters(test):
    """Counters of a checkpoint that no run has, in a file that is whole otherwise."""
    test.succeeds(*arguments("counted", "--updates", "5"))
    path = test.state("counted").with_name("manifest.json")
    whole = path.read_bytes()
    for key, value in (("micro_batch", 0), ("micro_batch", 7), ("accumulation", -1), ("samples", 9), ("update", -5)):
        path.write_bytes(re.sub(rb'"%s": -?\d+' % key.encode(), b'"%s": %d' % (key.encode(), value), whole))
        test.fails(5, "E-CKPT-CORRUPT", *arguments("counted", "--resume"))
    path.write_bytes(whole)
    result = test.run(*arguments("counted", "--resume", "--set", "train.updates=50", "--updates", "6"))
    said = result.text()[1]
    test.that("train.updates: 40 -> 50 (--set); the learning rate follows" in said, f"a note: {said[:300]}")


def paths(test):
    """Paths that JSON cannot hold are refused by name, in every option and key."""
    odd = os.fsencode(test.folder) + b"/caf\xe9"
    os.mkdir(odd)
    shutil.copy(test.path("train.txt"), odd + b"/train.txt")
    for key in ("data.train", "data.validation"):
        command = [test.binary, *arguments("odd", "--json"), "--set", key.encode() + b"=" + odd + b"/train.txt"]
        result = raw(command, test.folder)
        test.equal(f"{key} that is not UTF-8", (result.returncode, json.loads(result.stdout)["code"]), (2, "E-CONFIG-VALUE"))
    command = [test.binary, "plan", "config.toml", "--json", "--disk", odd + b":1GiB"]
    test.equal("--disk that is not UTF-8", raw(command, test.folder).returncode, 2)
    result = raw([test.binary, *arguments("odd", "--json"), "--plan", odd + b"/none.json"], test.folder)
    test.equal("--plan that is not UTF-8", (result.returncode, json.loads(result.stdout)["code"]), (2, "E-PLAN-FILE"))
    test.that(not test.path("odd").exists(), "no run begins")


def raw(command, folder):
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def closed_streams(test):
    """A failure without open streams is still a failure."""
    for stream in ("2>&-", ">&- 2>&-", "2>/dev/full"):
        code = subprocess.run(
            ["sh", "-c", f'"$0" plan nowhere.toml {stream}', test.binary], cwd=test.folder, stdout=subprocess.DEVNULL
        ).returncode
        test.equal(f"exit code with {stream}", code, 2)


    process = subprocess.run(
        ["sh", "-c", '"$0" train config.toml --run quiet --updates 3 <&- 2>&-', test.binary], cwd=test.folder, timeout=60
    )
    test.equal("exit code of a run without stdin and stderr", process.returncode, 0)
    test.equal("its metrics", [line["update"] for line in test.lines("quiet")], [1, 2, 3])
    test.equal("its end", test.report("quiet")["status"], "done")


def write_inputs(test):
    header = {"input_ids": {"dtype": "I64", "shape": [1, 4], "data_offsets": [0, 32]}}
    raw = json.dumps(header).encode()
    test.write("in.safetensors", struct.pack("<Q", len(raw)) + raw + struct.pack("<4q", 1, 2, 3, 4))


def outputs(test):
    """The output of a command replaces a regular file or none, and never a device, a pipe, a socket or a folder."""
    test.succeeds("train", "config.toml", "--run", "made", "--updates", "1")
    write_inputs(test)
    test.write("l.csv", "id,lower,upper,size\nx,0,1,5\n")
    test.succeeds("plan", "config.toml", "--export-instance", "instance.json")
    commands = {
        "plan --out": ("plan", "config.toml", "--out"),
        "plan --svg": ("plan", "config.toml", "--frontier", "--svg"),
        "plan --export-instance": ("plan", "config.toml", "--export-instance"),
        "layout --out": ("layout", "l.csv", "--minimize", "--out"),
        "recompute --out": ("recompute", "instance.json", "--memory", "1GiB", "--out"),
        "forward --out": ("forward", "--weights", "made/weights", "--inputs", "in.safetensors", "--out"),
        "export --gguf": ("export", "--weights", "made/weights", "--type", "F32", "--gguf"),
        "merge --out": ("merge", "--weights", "made/weights", "--adapter", "made/weights", "--out"),
        "train --run": ("train", "config.toml", "--updates", "1", "--run"),
        "verify --folder": ("verify", "config.toml", "--folder"),
    }
    held = socket.socket(socket.AF_UNIX)
    held.bind(str(test.path("socket")))
    os.mkfifo(test.path("pipe"))
    test.path("to-pipe").symlink_to("pipe")
    for what, command in commands.items():
        folder = command[0] in ("merge", "train", "verify")
        for name in ("pipe", "socket", "to-pipe", *(() if folder else ("made", "/dev/full"))):
            before = os.lstat(test.path(name))
            result = test.run(*command, name, "--json")
            code = (result.json() or {}).get("code", "")
            test.that(result.code in (2, 5) and code.startswith("E-"), f"{what} {name}: exit {result.code}, {code}")
            after = os.lstat(test.path(name))
            test.equal(f"{name} after {what}", (after.st_mode, after.st_ino), (before.st_mode, before.st_ino))
        if folder:
            continue
        test.path("to-nothing").unlink(missing_ok=True)
        test.path("to-nothing").symlink_to("nothing")
        test.equal(f"{what} and a link to nothing", test.run(*command, "to-nothing").code in (2, 5), True)
        test.that(not test.path("nothing").exists(), f"{what} makes nothing there")
        test.fails(5, "E-IO-WRITE", *command, "no/such/folder/file")
    # Links to files are followed.
    test.write("real.json", "old")
    test.path("to-file").symlink_to("real.json")
    test.succeeds("plan", "config.toml", "--out", "to-file")
    followed = test.path("to-file").is_symlink() and "plan_hash" in test.path("real.json").read_text()
    test.that(followed, "a link to a file is followed")


def planted(test):
    """Files planted in the folder of a run do not redirect its lines."""
    for name in ("metrics.jsonl", "eval.jsonl", "events.jsonl", "run.json", "plan.json"):
        for kind in ("link", "pipe"):
            run = f"planted-{kind}-{name}"
            test.path(run).mkdir()
            test.write("victim", "precious")
            if kind == "link":
                (test.path(run) / name).symlink_to("../victim")
            else:
                os.mkfifo(test.path(run) / name)
            result = test.run(*arguments(run, "--updates", "2", "--json", "--set", "train.evaluate_every=1"))
            test.equal(f"end with a {kind} {name}", (result.code, (result.json() or {}).get("code")), (5, "E-IO-WRITE"))
            test.equal(f"what a link {name} leads to", test.path("victim").read_text(), "precious")


def killed_export(test):
    """A killed process leaves no file, or files that the next run of the same command removes."""
    wide = [word for key in ("width=512", "layers=6", "heads=8") for word in ("--set", "model." + key)]
    test.succeeds("train", "config.toml", "--run", "wide", "--updates", "1", *wide, "--memory", "1GiB")
    write_inputs(test)
    command = ["forward", "--weights", "wide/weights", "--inputs", "in.safetensors", "--out", "logits"]
    for delay in (0.05, 0.1, 0.2, 0.4):
        process = test.start(*command)
        time.sleep(delay)
        process.kill()
        process.communicate()
    gone = subprocess.Popen(["true"])
    gone.wait()
    test.write(f"logits.partial-{gone.pid}", "torn")
    test.succeeds(*command)
    test.equal("what is left", [path.name for path in test.path(".").glob("*partial*")], [])


def killed_merge(test):
    """The next command that writes there removes the remains of a killed merge or export, and no other file."""
    write_inputs(test)
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = f"plimsoll.partial-{gone.pid}"
    ours = {f"o.gguf.{left}", f"m.{left}"}
    others = {f"kept.partial-{gone.pid}", f"weights.replaced.{left}", f"now.plimsoll.partial-{os.getpid()}"}
    others.add("x.plimsoll.partial-")
    for command in (["plan", "config.toml", "--out", "p.json"], ["train", "config.toml", "--updates", "1", "--run", "beside"],
                    ["forward", "--weights", "made/weights", "--inputs", "in.safetensors", "--out", "logits"]):  # fmt: skip
        for name in ours | others:
            if name.startswith(("m.", "weights.")):
                test.write(f"{name}/config.json", "torn")
            else:
                test.write(name, "torn")
        shutil.rmtree(test.path("beside"), ignore_errors=True)
        test.succeeds(*command)
        names = {path.name for path in test.path(".").glob("*partial*")}
        if command[0] != "train":  # its files lie in a folder of their own
            test.equal(f"what {command[0]} leaves", names, others)
    for name in others:
        path = test.path(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def machine_file(test):
    """The output of `machine --json` is a machine file."""
    machine = test.succeeds("machine", "--json")
    test.write("printed.json", json.dumps(machine))
    plans = [
        test.succeeds("plan", "config.toml", "--machine", where, "--json") for where in (machine["file"], "printed.json")
    ]
    test.equal("plans for both", plans[0]["plan_hash"], plans[1]["plan_hash"])


def main():
    test = Test("overwriting")
    test.run_parts(
        bad_validation,
        lost_validation,
        two_processes,
        replay,
        small_disk,
        counters,
        paths,
        closed_streams,
        machine_file,
        outputs,
        planted,
        killed_export,
        killed_merge,
    )
    test.finish()


if __name__ == "__main__":
    main()
