#!/usr/bin/env python3
"""Runs that are interrupted, killed and continued have the same bits as an uninterrupted run."""

import os
import signal
import subprocess
import time
from functools import partial

from _plimsoll import Test, shown_on, terminal_pair

UPDATES = 80
SAME = ("update", "samples", "units", "loss_bits", "grad_norm_bits", "learning_rate")


def arguments(run, *more):
    return ["train", "config.toml", "--run", run, *more]


def numbers(test, run):
    return [tuple(line[key] for key in SAME) for line in test.lines(run)]


def same_end(test, run, whole):
    test.equal(f"metrics of {run} as of one piece", numbers(test, run) == numbers(test, "whole"), True)
    report = test.report(run)
    test.equal(
        f"end of {run}",
        (report["status"], report["exit_code"], report["updates"], report["error"]),
        ("done", 0, UPDATES, None),
    )
    for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
        test.equal(f"final {key} of {run}", report["final"].get(key), whole["final"].get(key))
    test.that(not list(test.path(run).rglob("*.partial-*")), f"no partial files in {run}")


def interrupted(test, whole, sign, moments):
    run = f"interrupted-{sign.name}"
    for attempt, lines in enumerate(moments):
        process = test.start(*arguments(run, *(["--resume"] if attempt else []), "--json"))
        test.wait_for_lines(process, run, lines)
        process.send_signal(sign)
        out, _ = process.communicate(timeout=60)
        if process.returncode == 0 and lines > 1:
            print(f"the run ended before the {sign.name} at {lines}")
            break
        if not test.equal(f"exit code after {sign.name} at {lines}", process.returncode, 6):
            return
        report = test.report(run)
        test.equal("state after it", (report["status"], report["exit_code"]), ("interrupted", 6))
        test.that(
            len(test.lines(run)) == report["updates"] >= lines, f"{report['updates']} updates, {len(test.lines(run))} lines"
        )
        test.that(out.count(b"plimsoll.") == 1, "one JSON object")
    test.succeeds(*arguments(run, "--resume", "--json"))
    same_end(test, run, whole)


def interrupted_while_planning(test):
    """Before the first update nothing is saved, and the run begins anew."""
    process = test.start(*arguments("early"))
    deadline = time.monotonic() + 60
    while not test.path("early").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    if test.equal("exit code", process.returncode, 6):
        if test.checkpoints("early"):
            return  # the signal came behind an update
        if test.path("early/run.json").exists():
            test.equal("status", test.report("early")["status"], "interrupted")
        test.succeeds(*arguments("early", "--updates", "3", "--json"))
        test.equal("updates", test.report("early")["updates"], 3)


def killed(test, whole):
    saving = ["--set", "train.save_every=20"]
    process = test.start(*arguments("killed", *saving))
    test.wait_for_lines(process, "killed", 45)
    process.kill()
    process.communicate()
    test.equal("status of a run that was killed", test.report("killed")["status"], "running")
    before = test.path("killed/metrics.jsonl").read_bytes()
    test.path("killed/metrics.jsonl").write_bytes(before + b'{"update":torn')
    test.write("killed/metrics.jsonl.partial-1", b"torn")
    test.succeeds(*arguments("killed", *saving, "--resume", "--json"))
    same_end(test, "killed", whole)

    process = test.start(*arguments("unsaved"))
    test.wait_for_lines(process, "unsaved", 3)
    process.kill()
    process.communicate()
    test.fails(5, "E-CKPT-MISSING", *arguments("unsaved", "--resume"))


def another_budget(test, whole):
    """The run keeps its micro-batch at any budget."""
    test.succeeds(*arguments("budget", "--updates", "40"))
    floor = test.succeeds("plan", "config.toml", "--set", f"train.micro_batch={whole['batch']['micro']}", "--json")["bounds"][
        "floor_bytes"
    ]
    test.succeeds(*arguments("budget", "--resume", "--memory", floor, "--json"))
    test.equal("batch", test.report("budget")["batch"], whole["batch"])
    test.equal("budget", test.report("budget")["budget"]["memory"], floor)
    same_end(test, "budget", whole)


def longer(test, whole):
    report = test.succeeds(*arguments("whole", "--resume", "--json"))
    test.equal("nothing left to do", (report["status"], report["updates"]), ("done", UPDATES))
    test.equal("weights", report["final"]["parameters_xxh128"], whole["final"]["parameters_xxh128"])
    report = test.succeeds(*arguments("whole", "--resume", "--updates", str(UPDATES + 5), "--json"))
    test.equal("--updates", report["updates"], UPDATES + 5)
    report = test.succeeds(*arguments("whole", "--resume", "--set", f"train.updates={UPDATES + 9}", "--json"))
    test.equal("train.updates", report["updates"], UPDATES + 9)
    test.equal("updates in metrics", [line["update"] for line in test.lines("whole")], list(range(1, UPDATES + 10)))


def refused(test):
    """Changes that would make another run are refused, and the run stays unchanged."""
    before = {path.name: path.read_bytes() for path in test.path("whole").iterdir() if path.is_file()}
    other = test.write("other.txt", b"other text " * 1000)
    for code, change in (
        ("E-RESUME", "seed=4"),
        ("E-RESUME", "model.layers=3"),
        ("E-RESUME", "model.context=16"),
        ("E-RESUME", "train.effective_batch=4"),
        ("E-RESUME", "optimizer.name=sgd"),
        ("E-RESUME", "data.order=sequential"),
        ("E-RESUME-DATA", f"data.train={other}"),
    ):
        test.fails(2, code, *arguments("whole", "--resume", "--set", change))
    test.fails(2, "E-RUN-MISSING", *arguments("nowhere", "--resume"))
    result = test.run(*arguments("whole", "--resume", "--memory", "8MiB", "--json"))
    test.equal("too small a budget", (result.code, (result.json() or {}).get("status")), (3, "infeasible"))
    after = {path.name: path.read_bytes() for path in test.path("whole").iterdir() if path.is_file()}
    test.that(before == after, "the run is untouched")
    test.that(not test.path("nowhere").exists(), "no folder for a run that is missing")

    checkpoint = test.state("whole")
    whole = checkpoint.read_bytes()
    for broken in (b"", whole[:100], whole[:-4], b"\xff" * 64):
        checkpoint.write_bytes(broken)
        error = test.run(*arguments("whole", "--resume", "--json"))
        test.that(
            error.code == 5 and error.json()["code"].startswith(("E-CKPT", "E-FORMAT", "E-IO")),
            f"broken checkpoint: {error.out[:200]!r}",
        )
    checkpoint.write_bytes(whole)


def terminal(test):
    """On a terminal: Ctrl-C, one line that never wraps, colours unless NO_COLOR."""
    import fcntl
    import struct
    import termios

    for columns, colour in ((100, True), (60, False)):
        run = f"terminal-{columns}"
        pair = terminal_pair()
        if pair is None:
            return
        master, slave = pair
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = dict(os.environ, TERM="xterm", **({} if colour else {"NO_COLOR": "1"}))
        process = subprocess.Popen(
            [test.binary, *arguments(run, "--updates", "100000")],
            cwd=test.folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        text, pressed = b"", False
        for piece in shown_on(master):
            text += piece
            if not pressed and text.count(b"update ") > 3:
                os.write(master, b"\x03")
                pressed = True
        os.close(master)
        test.equal("exit code after Ctrl-C", process.wait(timeout=60), 6)
        shown = text.decode("utf-8", "replace")
        live = [
            line.replace("\033[1m", "").replace("\033[0m", "").replace("^C", "")  # the terminal's echo of Ctrl-C
            for line in shown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            if line.startswith("\033[K") and "update " in line
        ]
        test.that(live and max(len(line) - 3 for line in live) < columns, f"live lines within {columns} columns: {live[:1]}")
        test.equal("colours", "\033[1m" in shown, colour)
        for word in ("loss", "mem", "eta", "tok/s") if columns > 80 else ("loss", "eta"):
            test.that(all(word in line for line in live), f"live lines say {word}: {live[:1]}")
        test.that("--resume" in shown, "the end says how to continue")


def diverged(test):
    """A loss of NaN ends the run with exit 4; earlier checkpoints stay."""
    wild = ["--set", "optimizer.learning_rate=1e30", "--set", "train.gradient_clip=0", "--set", "schedule.warmup=0updates"]
    test.succeeds(*arguments("wild", "--updates", "2"))
    before = test.state("wild").read_bytes()
    test.fails(4, "E-DIVERGED", *arguments("wild", "--resume", *wild))
    report = test.report("wild")
    test.equal(
        "state", (report["status"], report["exit_code"], (report["error"] or {}).get("code")), ("failed", 4, "E-DIVERGED")
    )
    test.that(before == test.state("wild").read_bytes(), "the checkpoint is intact")
    test.equal("lines", len(test.lines("wild")), report["updates"])
    calm = ["--set", "optimizer.learning_rate=1e-3", "--set", "train.gradient_clip=1"]
    test.succeeds(*arguments("wild", "--resume", "--updates", "5", "--json", *calm))
    test.equal("updates after it", [line["update"] for line in test.lines("wild")], [1, 2, 3, 4, 5])


def rising(test):
    """A loss that rises for good ends the run with a reason, also where it was continued in between; by choice it goes on."""
    high = ["--set", "optimizer.learning_rate=10", "--set", "schedule.name=constant", "--set", "train.updates=300"]
    for run, more in (("rising", []), ("rising-again", ["--set", "train.save_every=20"])):
        error = test.fails(4, "E-DIVERGED", *arguments(run, *high, *more))
        test.that(error is not None and "DIVERGED_ABOVE_START" in error["message"], f"the reason of {run}: {error}")
        test.that(test.path(f"{run}/diverged/state.safetensors").is_file(), "the state is kept aside")
    ends = len(test.lines("rising"))
    test.that(60 < ends < 200, f"it ends after {ends} updates")
    test.fails(4, "E-DIVERGED", *arguments("rising-again", *high, "--resume"))
    test.equal("where a resumed run ends", len(test.lines("rising-again")), ends)
    test.succeeds(*arguments("goes-on", *high, "--set", "train.on_divergence=continue", "--json"))
    test.equal("updates of one that goes on", len(test.lines("goes-on")), 300)


def main():
    test = Test("resume")
    config = test.path("config.toml")
    config.write_text(config.read_text().replace("updates = 6", f"updates = {UPDATES}"))
    whole = test.succeeds(*arguments("whole", "--json"))
    if whole is not None:
        test.run_parts(
            partial(interrupted, whole=whole, sign=signal.SIGINT, moments=(1, 20, 45)),
            partial(interrupted, whole=whole, sign=signal.SIGTERM, moments=(20,)),
            interrupted_while_planning,
            partial(killed, whole=whole),
            partial(another_budget, whole=whole),
            partial(longer, whole=whole),
            refused,
            terminal,
            diverged,
            rising,
        )
    test.finish()


if __name__ == "__main__":
    main()
