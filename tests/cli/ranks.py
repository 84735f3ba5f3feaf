#!/usr/bin/env python3
"""Several processes train one run: launch, start, numbers, checkpoints with any number of ranks, signals, and ranks that fail.

Skipped where the build has no MPI module, or where mpirun is missing.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from _plimsoll import Test, read_safetensors

SMALL = ["config.toml", "--memory", "96MiB", "--set", "machine.threads=1", "--set", "train.micro_batch=2"]
LONG = [*SMALL, "--set", "train.updates=200000", "--set", "save.every=50"]
GONE_IN = 15  # seconds
STAGES = (1, 2, 3)


def of_stage(stage):
    return ["--set", f"parallel.zero={stage}"]


def launch(ranks, *words):
    return ["launch", "-n", ranks, "train", *words]


def relatives(process):
    """The processes below one, by their parent."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, todo = [], [process.pid]
    while todo:
        above = todo.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found += below
        todo += below
    return found


def processes_of_ranks(process):
    """{rank: process} of a launch."""
    ranks = {}
    for pid in relatives(process):
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in environment:
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                ranks.setdefault(int(variable.partition(b"=")[2]), pid)
    return ranks


def are_gone(pids):
    return not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def ends(test, what, process, code, pids=()):
    """Waits for the end of a launch, and of the processes below it. Returns what it said."""
    begun = time.monotonic()
    try:
        _, said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        test.that(False, f"{what} ends")
        return ""
    while not are_gone(pids) and time.monotonic() - begun < GONE_IN:
        time.sleep(0.05)
    test.that(are_gone(pids), f"{what}: all processes are gone")
    test.that(time.monotonic() - begun < GONE_IN, f"{what}: it took {time.monotonic() - begun:.1f} s")
    test.equal(f"{what}: exit code ({said.decode()[-300:]})", process.returncode, code)
    return said.decode()


def begins(test, run, ranks, *more, updates=20):
    process = test.start(*launch(ranks, *LONG, "--run", run, *more))
    test.wait_for_lines(process, run, updates)
    found = processes_of_ranks(process)
    test.equal(f"{run}: ranks", sorted(found), list(range(ranks)))
    return process, found


def numbers(test):
    """The losses of one process, within rounding, and the same bits in two runs, for each stage."""
    one = test.succeeds("train", *SMALL, "--run", "one", "--json")
    for ranks, stage in ((2, 1), (3, 1), (3, 2), (3, 3)):
        what, name = f"{ranks} ranks, stage {stage}", f"of-{ranks}-{stage}"
        report = test.succeeds(*launch(ranks, *SMALL, *of_stage(stage), "--run", name, "--json"))
        again = test.succeeds(*launch(ranks, *SMALL, *of_stage(stage), "--run", f"again-{ranks}-{stage}", "--json"))
        if not (one and report and again):
            return
        for mine, its in zip(test.lines(name), test.lines("one"), strict=True):
            test.near(f"{what}: loss of update {mine['update']}", mine["loss"], its["loss"], mine["update"] * 1e-5)
            test.near(f"{what}: norm of update {mine['update']}", mine["grad_norm"], its["grad_norm"], 1e-4)
            test.equal(f"{what}: units of update {mine['update']}", mine["units"], its["units"])
        test.near(f"{what}: validation", report["final"]["validation_loss"], one["final"]["validation_loss"], 1e-4)
        for key in ("parameters_xxh128", "loss_bits"):
            test.equal(f"{what} again: {key}", again["final"][key], report["final"][key])
        test.equal(f"{what}: reports", [each["rank"] for each in report["ranks"]], list(range(ranks)))
        for each in report["ranks"]:
            test.that(each["process_hwm_bytes"] <= 96 << 20, f"{what}, rank {each['rank']}: {each['process_hwm_bytes']} bytes")
    test.that("ranks" not in one, "one process: no ranks in run.json")


def sent(test):
    """The difference of two lengths of a run is what the plan says of an update."""
    for ranks, stage in ((2, 1), (3, 1), (2, 2), (2, 3)):
        plan = test.succeeds("plan", *SMALL, *of_stage(stage), "--ranks", ranks, "--json")
        reports = []
        for updates in (4, 9):
            run = ["--run", f"sent-{ranks}-{stage}-{updates}", "--updates", updates, "--json"]
            command = launch(ranks, *SMALL, *of_stage(stage), *run)
            reports.append(test.succeeds(*command)["ranks"])
        for short, long, planned in zip(*reports, plan["ranks"], strict=True):
            measured = (long["sent_bytes"] - short["sent_bytes"]) / 5
            test.equal(f"rank {planned['rank']} of {ranks}: bytes sent", measured, sum(planned["sent"].values()))


def audit(test):
    """Each rank's bytes are those of its plan."""
    for stage in STAGES:
        test.succeeds(*launch(2, *SMALL, *of_stage(stage), "--run", f"audited-{stage}", "--audit"))


def proven(test):
    """verify compares ranks with one process, and notices sums over ranks that are wrong."""
    budget = ["--memory", "96MiB"]
    sets = ["precision.compute=bf16", "precision.optimizer_state=bf16", "adapter.kind=lora", "adapter.rank=2"]
    narrow = [word for each in sets for word in ("--set", each)]
    for ranks, more in ((2, []), (3, narrow)):
        report = test.succeeds("verify", "config.toml", *budget, *more, "--ranks", ranks, "--json")
        if report is None:
            continue
        test.equal("ranks", (report["schema"], report["ranks"], report["samples"]), ("plimsoll.verify/1", ranks, 2 * ranks + 1))
        test.that(report["passed"], "ranks are verified")
        for check in report["checks"]:
            test.equal(f"{ranks} ranks: {check['what']} ({check['found']})", check["outcome"], "passed")
        subjects = [check["subject"] for check in report["checks"]]
        test.equal("checks and controls", (subjects.count("ranks"), subjects.count("control")), (6, 2))
    # The second rank has one of three micro-batches.
    run = [*launch(2, *SMALL, "--set", "train.effective_batch=6", "--updates", 2), "--json"]
    right = test.succeeds(*run, "--run", "all-ranks")
    wrong = test.succeeds(*run, "--run", "one-rank", "--fault", "weights=1,0,1")
    if right and wrong:
        test.that(right["final"]["parameters_xxh128"] != wrong["final"]["parameters_xxh128"], "a rank is left out")
    for weights in ("1", "1,1", "1,1,1,1,1"):
        test.fails(2, "E-USAGE", *run[:-1], "--run", f"never-{len(weights)}", "--fault", f"weights={weights}")
    test.fails(2, "E-RANK-DEVICE", "verify", "config.toml", "--ranks", 2, "--device", "sim")
    folder = pathlib.Path(test.binary).parent
    result = test.run("verify", "config.toml", *budget, "--ranks", 2, environment={**os.environ, "PATH": str(folder)})
    test.equal(f"without mpirun ({result.text()[1][-300:]})", (result.code, "E-RANK-MPI" in result.text()[1]), (2, True))


def other_numbers(test):
    """A checkpoint of any number of ranks and stage is resumed by any other, with the updates of an uninterrupted run."""
    updates = ["--set", "train.updates=16"]
    whole = test.succeeds("train", *SMALL, *updates, "--run", "whole", "--json")
    command = launch(4, *SMALL, *updates, "--run", "chain", "--updates", 4)
    for ranks, stage, until in ((3, 2, 6), (3, 3, 8), (1, 1, 10), (2, 3, 13), (4, 1, 16)):
        test.succeeds(*command)
        manifest = json.loads(test.path(f"chain/checkpoints/{test.checkpoints('chain')[-1]}/manifest.json").read_text())
        pieces = manifest.get("pieces", [])
        for name in {piece["tensor"] for piece in pieces}:
            bounds = sorted((piece["begin"], piece["end"]) for piece in pieces if piece["tensor"] == name)
            meet = all(before[1] == after[0] for before, after in zip(bounds, bounds[1:]))
            test.that(bounds[0][0] == 0 and meet, f"pieces of {name}: {bounds}")
        command = launch(ranks, "--run", "chain", "--resume", "--updates", until, *of_stage(stage))
    test.succeeds(*command)
    for mine, its in zip(test.lines("chain"), test.lines("whole"), strict=True):
        test.near(f"loss of update {mine['update']}", mine["loss"], its["loss"], mine["update"] * 1e-5)
    if whole:
        test.equal("updates", test.report("chain")["updates"], whole["updates"])
    # The same number goes on as if it had not stopped.
    test.succeeds(*launch(2, *SMALL, *updates, "--run", "parts", "--updates", 7))
    test.succeeds(*launch(2, "--run", "parts", "--resume"))
    test.succeeds(*launch(2, *SMALL, *updates, "--run", "piece"))
    for key in ("parameters_xxh128", "loss_bits"):
        test.equal(f"resumed: {key}", test.report("parts")["final"][key], test.report("piece")["final"][key])


def copies(test):
    """Whole copies in 16 bits are those of the parameters after a resume in any stage, and in the first update of a run."""
    wide = [*SMALL, "--set", "model.width=256", "--set", "precision.compute=bf16", "--set", "train.updates=9", "--audit"]
    test.succeeds(*launch(4, *wide, *of_stage(1), "--run", "whole16"))
    test.succeeds(*launch(4, *wide, *of_stage(1), "--run", "parts16", "--updates", 3))
    for stage, until in ((2, 5), (1, 6), (3, 8), (2, 9)):
        test.succeeds(*launch(4, "--run", "parts16", "--resume", "--audit", "--updates", until, *of_stage(stage)))
    for key in ("parameters_xxh128", "loss_bits"):
        test.equal(f"over stages: {key}", test.report("parts16")["final"][key], test.report("whole16")["final"][key])
    ranks = test.succeeds("plan", *wide[:-1], "--ranks", 2, *of_stage(2), "--json")["ranks"]
    matrices = 2 * 12 * 256 * 256
    held = ranks[0]["shard"]["parameters"]
    test.that(4 * matrices <= held < 4.5 * matrices, f"2 + 4 / 2 bytes for each element of a matrix: {held / matrices:.3f}")


def averages(test):
    """The averages of the weights, saved by the first rank after a chain of resumes, are those of one process."""
    length = ["--set", "optimizer.ema_half_life=3updates", "--set", "train.updates=8"]
    wide = [*SMALL, "--set", "model.width=256", *length, "--audit"]
    test.succeeds("train", *wide, "--run", "mean-one")
    command = launch(2, *wide, *of_stage(1), "--run", "mean", "--updates", 2)
    for ranks, stage, until in ((3, 2, 4), (1, 1, 5), (2, 3, 7), (3, 1, 8)):
        test.succeeds(*command)
        command = launch(ranks, "--run", "mean", "--resume", "--audit", "--updates", until, *of_stage(stage))
    test.succeeds(*command)
    got, want = (read_safetensors(test.path(f"{run}/weights_ema/model.safetensors")) for run in ("mean", "mean-one"))
    test.equal("shapes", {name: shape for name, (shape, _) in got.items()}, {name: shape for name, (shape, _) in want.items()})
    for name, (_, values) in want.items():
        length = sum(each * each for each in values) ** 0.5
        error = sum((one - other) ** 2 for one, other in zip(got[name][1], values, strict=True)) ** 0.5
        test.that(error <= 1e-3 * max(length, 1e-2), f"{name}: {error} of {length}")
    last = read_safetensors(test.path("mean/weights/model.safetensors"))
    test.that(all(last[name] != got[name] for name in got if name.endswith("weight")), "they are no copy of the weights")
    test.succeeds("eval", "config.toml", "--weights", test.path("mean/weights_ema"))


def refusals(test):
    test.fails(2, "E-RANK-COMMAND", "launch", "-n", 2, "plan", "config.toml")
    test.fails(2, "E-RANK-COMMAND", "launch", "-n", 2)
    test.fails(2, "E-USAGE", "launch", "-n", 2, "--hosts", "absent", "train", "config.toml")
    test.fails(2, "E-RANK-DEVICE", *launch(2, *SMALL, "--device", "sim", "--host-memory", "1GiB", "--run", "device"))
    test.fails(2, "E-CONFIG-CONFLICT", *launch(2, *SMALL, "--disk", "disk:1GiB", "--set", "plan.gradients=disk",
                                               *of_stage(1), "--run", "paged"))  # fmt: skip
    test.that(not test.path("paged").exists(), "a refused run leaves no folder")
    test.succeeds(*launch(2, *SMALL, "--run", "there"))
    error = test.fails(2, "E-RUN-EXISTS", *launch(2, *SMALL, "--run", "there"))
    test.that(error and any("launch -n 2 train" in each for each in error["try"]), f"advice starts as many: {error}")
    small = test.run(*launch(2, *SMALL, "--memory", "20MiB", "--run", "small", "--json"))
    status = (small.json() or {}).get("status")
    test.equal(f"a budget that is too small ({small.err[-300:]!r})", (small.code, status), (3, "infeasible"))
    # A launcher of another MPI, and a step of Slurm without PMIx.
    for variables in ({"PMI_SIZE": "2", "PMI_RANK": "0"}, {"SLURM_STEP_NUM_TASKS": "2"}):
        result = test.run("train", *SMALL, "--run", "foreign", environment={**os.environ, **variables})
        test.equal(f"{variables}: {result.text()[1]}", (result.code, "E-RANK-LAUNCH" in result.text()[1]), (2, True))
        result = test.run("plan", "config.toml", environment={**os.environ, **variables})
        test.equal(f"{variables}: plan", (result.code, "E-RANK-COMMAND" in result.text()[1]), (2, True))
    # A job of several tasks whose step is of one; one process of mpirun.
    for variables in ({"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}, {"PMI_SIZE": "1"}, {"OMPI_COMM_WORLD_SIZE": "1"}):
        result = test.run("train", *SMALL, "--run", f"alone-{len(variables)}-{next(iter(variables))}",
                          environment={**os.environ, **variables})  # fmt: skip
        test.equal(f"{variables}: exit code ({result.text()[1][-300:]})", result.code, 0)


def differences(test):
    """Ranks that are not alike: all end with the code of the difference."""
    mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
    for name, one, two in (
        ("configuration", [], ["--set", "seed=4"]),
        ("threads", ["--set", "machine.threads=2"], []),
        ("instruction set", [], ["ISA"]),
    ):
        words = []
        for more in (one, two):
            environment = ["-x", "PLIMSOLL_MAX_ISA=sse4"] if more == ["ISA"] else []
            own = [*SMALL, "--run", "unlike", *(word for word in more if word != "ISA")]
            words += [*([":"] if words else []), "-n", "1", *environment, test.binary, "train", *own]
        result = subprocess.run([*mpirun, *words], cwd=test.folder, capture_output=True, timeout=60)
        said = result.stderr.decode()
        test.equal(f"{name}: exit code ({said[-400:]})", result.returncode, 2)
        test.that("E-RANK-MISMATCH" in said and name in said and "rank 1" in said, f"{name}: {said}")
        test.that(not test.path("unlike").exists(), f"{name}: no folder")


def bad_data(test):
    """A token past the vocabulary ends all ranks with the code of bad data."""
    test.fails(5, "E-DATA-TOKEN", *launch(2, *SMALL, "--set", "model.vocab=64", "--run", "tokens"))
    words = bytearray((i * 7 % 50).to_bytes(2, "little")[j] for i in range(4000) for j in range(2))
    words[4001:4002] = b"\x30"  # in the middle of the file, past what the start checks
    test.write("late.bin", bytes(words))
    test.write("fine.bin", bytes(2000))
    sets = ["data.train=late.bin", "data.validation=fine.bin", "data.format=u16", "data.order=sequential", "train.updates=30"]
    late = [word for each in sets for word in ("--set", each)]
    for micro in (2, 4):  # windows of two rounds, and of one
        run = [*SMALL, *late, "--set", f"train.micro_batch={micro}", "--run"]
        result = test.run(*launch(2, *run, f"late-{micro}"))
        test.equal(f"a late token: exit code ({result.text()[1][-300:]})", result.code, 5)
        test.that("E-DATA-TOKEN" in result.text()[1], "a late token: its code")
        test.equal("a late token, one process", test.run("train", *run, f"late-alone-{micro}").code, 5)
        updates = len(test.lines(f"late-{micro}"))
        test.equal("as many updates as one process", updates, len(test.lines(f"late-alone-{micro}")))
        test.that(updates > 1, "a late token comes after some updates")
        test.equal("all of them are saved", test.checkpoints(f"late-{micro}"), [updates])


def full_disk(test):
    """A rank that cannot write its piece of a checkpoint: the training goes on, and its end fails on all."""
    mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
    words = [test.binary, "train", *SMALL, "--set", "train.updates=12", "--set", "save.every=5", "--run", "full"]
    second = ["bash", "-c", 'ulimit -f 8 && exec "$@"', "bash", *words]  # 8 KiB a file
    result = subprocess.run([*mpirun, "-n", "1", *words, ":", "-n", "1", *second], cwd=test.folder, capture_output=True,
                            timeout=60)  # fmt: skip
    said = result.stderr.decode()
    test.equal(f"exit code ({said[-300:]})", result.returncode, 5)
    test.that("update 5: the checkpoint could not be saved" in said, f"the first is a note: {said}")
    test.that("E-IO-WRITE" in said and "state-1.safetensors" in said, f"the last is an error: {said}")
    test.equal("updates", len(test.lines("full")), 12)
    test.equal("checkpoints", test.checkpoints("full"), [])


def signals(test):
    """A signal to launch, or to a rank, saves and ends all with 6."""
    process, ranks = begins(test, "asked", 2)
    process.send_signal(signal.SIGTERM)
    ends(test, "SIGTERM to launch", process, 6, ranks.values())
    test.equal("asked: status", test.report("asked")["status"], "interrupted")
    test.that("SIGTERM" in test.report("asked")["error"]["message"], f"asked: {test.report('asked')['error']}")
    test.equal("asked: saved", test.checkpoints("asked")[-1], test.lines("asked")[-1]["update"])
    process, ranks = begins(test, "one-asked", 2)
    os.kill(ranks[1], signal.SIGUSR2)
    ends(test, "SIGUSR2 to rank 1", process, 6, ranks.values())
    test.that("SIGUSR2" in test.report("one-asked")["error"]["message"], "one-asked: the signal is named")
    test.succeeds(*launch(3, "--run", "one-asked", "--resume", "--updates", test.checkpoints("one-asked")[-1] + 5))


def kills(test):
    """The end of a rank ends all, and launch names it."""
    for rank in (0, 1, 2):
        process, ranks = begins(test, f"killed-{rank}", 3, updates=60)
        os.kill(ranks[rank], signal.SIGKILL)
        said = ends(test, f"kill -9 of rank {rank}", process, 6, ranks.values())
        test.that("E-RANK-LOST" in said and f"rank {rank} on" in said, f"it is named: {said[-400:]}")
        kept = test.checkpoints(f"killed-{rank}")
        test.that(kept, "a checkpoint remains")
        if kept:
            test.succeeds(*launch(2, "--run", f"killed-{rank}", "--resume", "--updates", kept[-1] + 20))


def silent(test):
    """A rank that does not answer for parallel.fail_after is lost."""
    for rank in (0, 1):
        process, ranks = begins(test, f"stopped-{rank}", 2, "--set", "parallel.fail_after=3s")
        os.kill(ranks[rank], signal.SIGSTOP)
        said = ends(test, f"SIGSTOP of rank {rank}", process, 6, ranks.values())
        test.that("E-RANK-LOST" in said and f"rank {rank}" in said and "3 s" in said, f"it is named: {said[-400:]}")


def child_of_first(test, process):
    """(rank 0, the process in which it plans, or measures the machine, while the others wait)."""
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        first = processes_of_ranks(process).get(0)
        for pid in relatives(process):
            try:
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == first:
                return first, pid
    test.that(False, "rank 0 plans in a process of its own")
    return None, None


def planning(test):
    """A first rank that is stopped while it plans is lost; one that plans for long is not."""
    limit = ["--set", "parallel.fail_after=2s", "--set", "model.layers=16", "--memory", "128MiB"]
    process = test.start(*launch(2, *SMALL, *limit, "--run", "stopped-planning"))
    first, _ = child_of_first(test, process)
    pids = relatives(process)
    if first:
        os.kill(first, signal.SIGSTOP)
        said = ends(test, "SIGSTOP while rank 0 plans", process, 6, pids)
        test.that("E-RANK-LOST" in said and "rank 0" in said and "2 s" in said, f"it is named: {said[-400:]}")
    process = test.start(*launch(2, *SMALL, *limit, "--run", "long-planning"))
    _, child = child_of_first(test, process)
    if child:
        os.kill(child, signal.SIGSTOP)
        time.sleep(6)
        test.that(process.poll() is None, "ranks wait for a first one that lives")
        os.kill(child, signal.SIGCONT)
        ends(test, "long planning", process, 0)


def link(test):
    """machine measures the link between ranks, and plans for ranks are priced by it."""
    cache = test.path("link-cache")
    kept = pathlib.Path(os.environ["XDG_CACHE_HOME"], "plimsoll")
    shutil.copytree(kept, cache / "plimsoll", ignore=shutil.ignore_patterns("rank-link*")) if kept.exists() else cache.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    plan = ["plan", *SMALL, "--ranks", 2, "--json"]
    before = test.run(*plan, environment=environment).json()["predicted"]
    test.equal("not measured", before["link"]["source"], "assumed")
    result = test.run("launch", "-n", 2, "machine", "--json", environment=environment, timeout=120)
    test.equal(f"machine ({result.text()[1][-300:]})", result.code, 0)
    machine = result.json()
    if not machine:
        return
    measured = machine["rank_link"]
    test.that(1e6 < measured["bytes_per_second"] < 1e12 and 0 < measured["latency_seconds"] < 0.1, f"{measured}")
    after = test.run(*plan, environment=environment).json()["predicted"]
    test.equal("measured", after["link"], {**measured, "source": "measured"})
    test.that(after["lanes"]["ranks"] != before["lanes"]["ranks"], "it is the price of exchanges")
    test.write("two.json", json.dumps(machine))
    there = test.succeeds(*plan, "--machine", "two.json")
    test.equal("in a machine file", there and there["predicted"]["link"], after["link"])
    report = test.run(*launch(2, *SMALL, "--run", "linked", "--json"), environment=environment).json()
    plan_of_run = json.loads(test.path("linked/plan.json").read_text())
    test.equal("of a training", report and plan_of_run["predicted"]["link"], after["link"])


def alone(test):
    """One process loads no MPI."""
    process = test.start("train", *LONG, "--run", "alone")
    test.wait_for_lines(process, "alone", 5)
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    test.that("libmpi" not in maps and "plimsoll_mpi" not in maps, "one process loads no MPI")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    test.equal("alone: exit code", process.returncode, 6)


def main():
    test = Test("ranks")
    missing = [name for name, there in (("plimsoll_mpi.so", pathlib.Path(test.binary).with_name("plimsoll_mpi.so").exists()),
                                        ("mpirun", shutil.which("mpirun"))) if not there]  # fmt: skip
    if missing:
        print(f"skipped: several ranks need {' and '.join(missing)}")
        test.finish()
    test.run_parts(alone, numbers, sent, audit, proven, other_numbers, copies, averages, refusals, differences, bad_data,
                   full_disk, signals, kills, silent, planning, link)
    test.finish()


if __name__ == "__main__":
    main()
