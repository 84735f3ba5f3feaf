#!/usr/bin/env python3
"""Lists, comparisons, notes and removal of runs, and watching: they change nothing of a training, and no folder misleads them."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from _plimsoll import Test, terminal_pair

FAST = ["--set", "model.dropout=0"]
SLOW = ["--set", "train.effective_batch=64", "--set", "train.micro_batch=8", "--set", "machine.threads=1"]


def train(test, run, *more):
    return test.succeeds("train", "config.toml", "--run", run, *FAST, *more, "--json")


def digest(folder, leave_out=()):
    """Every file of a folder with its bytes and its time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in leave_out:
            found[str(path.relative_to(folder))] = (
                hashlib.sha256(path.read_bytes()).hexdigest(),
                path.stat().st_mtime_ns,
            )
    return found


def lists(test):
    train(test, "runs/a", "--set", "train.evaluate_every=2")
    train(test, "runs/deep/b", "--set", "optimizer.learning_rate=3e-3")
    test.path("runs/loop").symlink_to("..")
    before = digest(test.path("runs"))
    found = test.succeeds("runs", "ls", "--json") or {}
    test.equal("schema", found.get("schema"), "plimsoll.runs/1")
    test.equal("names", [run["name"] for run in found["runs"]], ["a", "b"])
    report, a = test.report("runs/a"), found["runs"][0]
    test.equal("state", a["status"], "done")
    test.equal("loss", a["loss"], report["final"]["loss"])
    test.equal("best", a["best"], report["best"])
    test.equal("process", a["process_bytes"], report["measured"]["process_hwm_bytes"])
    test.equal("rate", [run["learning_rate"] for run in found["runs"]], [0.001, 0.003])
    text = test.succeeds("runs", "ls", "runs")
    test.that(all(len(line) <= 80 for line in text.splitlines()), f"it fits 80 columns: {text}")
    test.equal(
        "header", text.split()[:9], ["run", "state", "updates", "loss", "best", "batch", "rate", "time", "process"]
    )

    def names(*arguments):
        return [run["name"] for run in test.succeeds("runs", "ls", *arguments, "--json")["runs"]]

    test.equal("of a setting", names("--where", "optimizer.learning_rate=0.003"), ["b"])
    test.equal("numbers are compared as numbers", names("--where", "rate=3e-3", "--where", "state=done"), ["b"])
    test.equal("none", names("--where", "state=failed"), [])
    test.equal("sorted", names("--sort", "loss"), ["b", "a"])
    test.equal("sorted downwards", names("--sort=-loss"), ["a", "b"])
    test.equal("folders inside each other", names("runs", "runs/deep", "runs/a"), ["a", "b"])
    error = test.fails(2, "E-USAGE", "runs", "ls", "--where", "optimizer.lerning_rate=1")
    test.that("learning_rate" in error["expected"], f"the nearest name: {error}")
    test.fails(2, "E-USAGE", "runs", "ls", "nowhere")
    shown = test.succeeds("runs", "show", "runs/a", "--json")["runs"][0]
    test.equal("run.json", shown["run"], report)
    test.equal("a setting", shown["settings"]["train.updates"], "6")
    text = test.succeeds("runs", "show", "runs/a")
    test.that("best         update 6" in text and "625 samples" in text, f"show: {text}")
    test.fails(2, "E-RUN-MISSING", "runs", "show", "runs")
    test.equal("files after all of this", digest(test.path("runs")), before)


def records(test):
    """id, environment, data, time, wait_seconds: what lists and reports rest on."""
    begun = time.time()
    report = train(test, "recorded", "--set", "train.evaluate_every=2")
    test.that(len(report["id"]) == 16 and int(report["id"], 16) >= 0, f"an id: {report['id']}")
    environment = report["environment"]
    test.shape("environment", environment, {"version": str, "system": str, "processor": str, "libraries": [str]})
    test.that(not any(os.environ["XDG_CACHE_HOME"] in str(value) for value in environment.values()), "no variables")
    data = report["data"]
    test.equal("files", [pathlib.Path(file).name for file in data["files"]], ["train.txt"])
    test.equal("samples, tokens, trained", [data[key] for key in ("samples", "tokens", "trained")], [625, 19999, 19999])
    test.equal("hash", data["hashes"]["train"], report["data_hash"])
    for name in ("metrics.jsonl", "eval.jsonl"):
        times = [json.loads(line)["time"] for line in (test.path("recorded") / name).read_text().splitlines()]
        test.that(
            begun - 1 <= times[0] and times == sorted(times) and times[-1] <= time.time() + 1,
            f"times of {name}: {times}",
        )
    lines = test.lines("recorded")
    test.that(
        all(0 <= line["wait_seconds"] <= line["seconds"] + 1e-6 for line in lines),
        "an update waits no longer than it takes",
    )
    test.that(all(line["tokens"] >= line["units"] > 0 for line in lines), "all tokens and trained ones")

    again = test.succeeds("train", "--run", "recorded", "--resume", "--updates", "8", "--json")
    test.equal("id of a resumed run", again["id"], report["id"])
    fork = test.succeeds("train", "config.toml", "--run", "fork", "--from", "recorded", *FAST, "--json")
    test.that(fork["id"] != report["id"], "a fork has an id of its own")


def compares(test):
    train(test, "one", "--set", "train.evaluate_every=2")
    train(test, "two", "--set", "train.evaluate_every=2", "--set", "optimizer.learning_rate=3e-3")
    found = test.succeeds("runs", "compare", "one", "two", "--json")
    differences = {each["key"]: each["values"] for each in found["differences"]}
    test.equal("one key differs", differences, {"optimizer.learning_rate": [0.001, 0.003]})
    figures = {each["key"]: each["values"] for each in found["figures"]}
    test.equal("losses", figures["loss"], [test.report(run)["final"]["loss"] for run in ("one", "two")])
    test.equal("validation", figures["best_loss"], [test.report(run)["best"]["loss"] for run in ("one", "two")])
    test.equal("comparable", found["comparable"]["validation"], True)

    train(test, "small", "--set", "train.evaluate_every=2", "--set", "train.micro_batch=4")
    keys = [each["key"] for each in test.succeeds("runs", "compare", "one", "small", "--json")["differences"]]
    follows = {"train.micro_batch", "train.accumulation"}
    test.that(
        all(key in follows or key.startswith("plan.") for key in keys) and "plan.micro_batch" in keys,
        f"what follows: {keys}",
    )

    train(test, "fewer", "--set", "train.evaluate_every=2", "--set", "train.evaluate_samples=4")
    train(test, "other", "--set", "train.evaluate_every=2", "--set", "data.validation=train.txt")
    for run, what in (("fewer", "units"), ("other", "validation_hash")):
        found = test.succeeds("runs", "compare", "one", run, "--json")
        test.equal(f"validation of {run}", found["comparable"]["validation"], False)
        test.that(what in found["comparable"]["why"], f"why: {found['comparable']}")
        keys = {each["key"] for each in found["figures"]}
        test.that(not keys & {"best_loss", "best_update", "validation_loss"}, f"no validation losses: {keys}")
        text = test.succeeds("runs", "compare", "one", run)
        test.that("not compared" in text and what in text, f"it says why: {text}")
    test.fails(2, "E-USAGE", "runs", "compare", "one")


def notes_and_removal(test):
    train(test, "removed")
    test.succeeds("train", "config.toml", "--run", "its-fork", "--from", "removed", *FAST)
    test.succeeds("runs", "note", "removed", "a warm-up of 2")
    test.equal("note", test.succeeds("runs", "show", "removed", "--json")["runs"][0]["note"], "a warm-up of 2")
    test.succeeds("runs", "note", "removed", "")
    test.that(not test.path("removed/note.txt").exists(), "an empty note is none")
    test.write("removed/mine.txt", "mine")

    result = test.run("runs", "rm", "removed", stdin=b"n\n")
    test.equal("exit code of no", result.code, 0)
    test.that(
        "its-fork" in result.text()[1] and "mine.txt" in result.text()[1], f"forks and what stays: {result.text()[1]}"
    )
    test.that(test.path("removed/run.json").exists(), "no is no")
    test.equal("exit code without an answer", test.run("runs", "rm", "removed").code, 2)
    test.equal("exit code of yes", test.run("runs", "rm", "removed", stdin=b"y\n").code, 0)
    test.equal("what stays", [path.name for path in test.path("removed").iterdir()], ["mine.txt"])
    test.equal("without a question", test.run("runs", "rm", "its-fork/", "--yes").code, 0)
    test.that(not test.path("its-fork").exists(), "the whole folder")

    process = test.start("train", "config.toml", "--run", "held", *FAST, *SLOW, "--set", "train.updates=5000")
    test.wait_for_lines(process, "held", 2)
    result = test.run("runs", "rm", "held", "--yes")
    test.equal("exit code for a run that is held", result.code, 2)
    test.that(
        "E-RUN-BUSY" in result.text()[1] and str(process.pid) in result.text()[1],
        f"it names the process: {result.text()[1]}",
    )
    state = test.succeeds("runs", "ls", "held", "--json")["runs"][0]
    test.equal("state of a live run", state["status"], "running")
    test.that(
        state["updates"] >= 2 and state["loss"] is not None and state["process_bytes"] > 0, f"its progress: {state}"
    )
    process.kill()
    process.wait()
    test.equal("state of a dead one", test.succeeds("runs", "ls", "held", "--json")["runs"][0]["status"], "interrupted")
    test.equal("exit code for a dead one", test.run("runs", "rm", "held", "--yes").code, 0)


def watches(test):
    """The run is killed, resumed and done while it is watched, listed and followed; its bits are those of a run left alone."""
    length = ["--set", "train.updates=200", "--set", "save.every=20", "--set", "train.evaluate_every=50"]
    train(test, "alone", *SLOW, *length)
    first = test.start("train", "config.toml", "--run", "watched", *FAST, *SLOW, *length)
    test.wait_for_lines(first, "watched", 30)
    watch = test.start("watch", "watched")
    follows = [test.start("export", "watched", "--follow", *to) for to in (("--tensorboard", "tb"), ("--csv", "csv"))]
    test.wait_for_lines(first, "watched", 100)
    first.send_signal(signal.SIGKILL)
    first.wait()
    for _ in range(20):
        test.run("runs", "ls", "watched")
    test.equal("it goes on", watch.poll(), None)
    second = test.start("train", "--run", "watched", "--resume")
    while second.poll() is None:  # looking takes the folder's lock for a moment
        test.run("runs", "ls", "watched")
        time.sleep(0.05)
    test.equal("exit code of the resumed run", second.wait(), 0)
    said = watch.communicate(timeout=30)[1].decode()
    test.equal("exit code of watch", watch.returncode, 0)
    for text in ("update 200/200", "is interrupted at update", "validation loss", "done: 200 updates", "eta"):
        test.that(text in said, f"watch says '{text}': {said[-1500:]}")
    for process in follows:
        process.communicate(timeout=30)
        test.equal("exit code of an export", process.returncode, 0)
    bits = [[line["loss_bits"] for line in test.lines(run)] for run in ("alone", "watched")]
    test.that(bits[0] == bits[1] and len(bits[0]) == 200, "losses are the same bits")
    test.equal("parameters", *[test.report(run)["final"]["parameters_xxh128"] for run in ("watched", "alone")])
    budget = test.report("watched")["budget"]["memory"]
    test.that(test.report("watched")["measured"]["process_hwm_bytes"] <= budget, "it stays within its budget")
    test.equal("a run that is done ends at once", test.run("watch", "watched").code, 0)
    test.fails(2, "E-RUN-MISSING", "runs", "show", "nothing")
    test.equal("exit code without a run", test.run("watch", "nothing").code, 2)

    failed = test.run(
        "train",
        "config.toml",
        "--run",
        "failed",
        *FAST,
        "--set",
        "optimizer.learning_rate=1e30",
        "--set",
        "train.updates=60",
    )
    test.equal("watch ends with the code of a failed run", test.run("watch", "failed").code, failed.code)

    pair = terminal_pair()
    if pair:
        process = subprocess.Popen(
            [test.binary, "watch", "watched"], cwd=test.folder, stdin=pair[1], stdout=pair[1], stderr=pair[1]
        )
        os.close(pair[1])
        test.equal("exit code on a terminal", process.wait(timeout=30), 0)
        os.close(pair[0])


def logs_in_json(test):
    result = test.run(
        "train", "config.toml", "--run", "logged", *FAST, "--set", "train.evaluate_every=2", "--log-format", "json"
    )
    lines = [json.loads(line) for line in result.text()[1].splitlines()]
    events = [line["event"] for line in lines]
    for event in ("planned", "begun", "progress", "evaluation", "saved", "finished"):
        test.that(event in events, f"{event} among {events}")
    test.that(all(isinstance(line["time"], float) for line in lines), "every line has its time")
    last = [line for line in lines if line["event"] == "progress"][-1]
    test.equal("last progress", (last["update"], last["loss"]), (6, test.lines("logged")[-1]["loss"]))
    test.equal("end", lines[-1]["exit_code"], 0)
    result = test.run("train", "config.toml", "--run", "logged", "--log-format", "json")
    error = json.loads(result.text()[1].splitlines()[-1])
    test.equal("an error", (error["event"], error["code"]), ("error", "E-RUN-EXISTS"))
    result = test.run("train", "config.toml", "--run", "no-fit", "--memory", "1MiB", "--log-format", "json")
    test.equal("exit code of a refusal", result.code, 3)
    for line in result.text()[1].splitlines():
        json.loads(line)
    process = test.start(
        "train", "config.toml", "--run", "stopped", *FAST, *SLOW, "--set", "train.updates=5000", "--log-format", "json"
    )
    test.wait_for_lines(process, "stopped", 2)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1].decode()
    test.equal("exit code of a stopped run", process.returncode, 6)
    lines = [json.loads(line) for line in said.splitlines() if line.strip()]
    test.equal("end of a stopped run", lines[-1]["stopped_by"], "SIGTERM")


def hostile(test):
    """Names, notes and records of others: nothing crashes, and no control character reaches a terminal."""
    train(test, "good")
    root = test.path("hostile")
    root.mkdir()
    escape = "\x1b]0;owned\x07\r\u202e<script>"
    names = [f"a{escape}", "b\nnew line", "c" * 200, "d" + "ü" * 60]
    for name in names:
        shutil.copytree(test.path("good"), root / name)
    (root / names[0] / "note.txt").write_text(escape)
    report = test.report("good")
    report["data"]["files"] = [escape, "x" * 100_000]
    report["environment"]["processor"] = escape
    report["error"] = {"code": escape, "message": escape}
    (root / names[0] / "run.json").write_text(json.dumps(report))
    (root / os.fsdecode(b"bad\xff\xfename")).mkdir()
    shutil.copy(test.path("good/run.json"), root / os.fsdecode(b"bad\xff\xfename"))
    for name, text in {
        "empty": "",
        "list": "[]",
        "nan": '{"status":NaN}',
        "deep": "[" * 100_000,
        "huge": '{"x":"' + "y" * 2_000_000 + '"}',
        "kinds": '{"status":"done","updates":"x","segments":[[]],"batch":3,"best":1,"seconds":-1e999}',
        "numbers": '{"status":"done","updates":1e400,"exit_code":99999999999999999999,"seconds":1e308}',
    }.items():
        (root / name).mkdir()
        for file in (
            "run.json",
            "metrics.jsonl",
            "eval.jsonl",
            "events.jsonl",
            "config.resolved.toml",
            "plan.json",
            "note.txt",
        ):
            (root / name / file).write_text(text)
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to("..")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe/run.json")
    before = digest(root)
    result = test.run("runs", "ls", "hostile")
    test.equal("exit code of ls", result.code, 0)
    text = result.text()[0]
    test.that(text.isprintable() or not set(text) & set("\x1b\x07\r\u202e"), f"no control characters: {text!r}")
    test.equal("a line for each run", len(text.splitlines()), 1 + len(names) + 1 + 7 + 1)
    test.that(all(len(line) <= 80 for line in text.splitlines()), "80 columns")
    states = [" done " in line or " unreadable " in line for line in text.splitlines()[1:]]
    test.that(all(states), f"states: {text}")
    found = test.succeeds("runs", "ls", "hostile", "--json")
    test.equal("runs", len(found["runs"]), 13)
    for folder in sorted(root.iterdir()):
        for arguments in (
            ["show"],
            ["show", "--json"],
            ["compare", test.path("good")],
            ["compare", test.path("good"), "--json"],
        ):
            result = test.run("runs", arguments[0], folder, *arguments[1:])
            test.that(result.code in (0, 2), f"{arguments} of {folder.name!r} ends with {result.code}")
            out = "".join(result.text())
            test.that(
                not set(out) & set("\x1b\x07\u202e"),
                f"{arguments} of {folder.name!r} shows control characters: {out!r}",
            )
        for to in ("--csv", "--tensorboard"):
            result = test.run("export", folder, to, test.path("exports") / folder.name[:40])
            test.that(
                result.code in (0, 2),
                f"export {to} of {folder.name!r} ends with {result.code}: {result.text()[1][-300:]}",
            )
    test.equal("files after all of this", digest(root), before)


test = Test("runs")
test.run_parts(lists, records, compares, notes_and_removal, watches, logs_in_json, hostile)
test.finish()
