#!/usr/bin/env python3
"""Runs with an unplanned end: signals, closed pipes, logs and folders without room. The learned weights are kept."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

from _plimsoll import Test

FOREVER = "100000000"


def arguments(run, *more):
    return ["train", "config.toml", "--run", run, *more]


def saved(test, run, reason):
    """The run was interrupted and has a checkpoint that continues."""
    report = test.report(run)
    test.equal(f"state of {run}", (report["status"], report["exit_code"]), ("interrupted", 6))
    test.that(reason in report["error"]["message"], f"the reason of {run}: {report['error']}")
    test.that(test.checkpoints(run), f"{run} has a checkpoint")
    updates = report["updates"]
    test.that(updates >= 1 and len(test.lines(run)) == updates, f"{updates} updates of {run}, {len(test.lines(run))} lines")
    test.succeeds(*arguments(run, "--resume", "--updates", updates + 1))
    test.equal(f"updates of {run} after it", test.report(run)["updates"], updates + 1)


def signals(test):
    test.succeeds(*arguments("measured-first", "--updates", "1"))
    more = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPWR)
    for sign in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGPIPE, *more):
        run = f"by-{sign.name}"
        process = test.start(*arguments(run, "--updates", FOREVER))
        test.wait_for_lines(process, run, 2)
        process.send_signal(sign)
        process.send_signal(sign)  # a lost connection sends several
        process.communicate(timeout=60)
        if test.equal(f"exit code after {sign.name}", process.returncode, 6):
            saved(test, run, "a closed pipe" if sign == signal.SIGPIPE else sign.name)


def quit_once(test):
    process = test.start(*arguments("by-SIGQUIT", "--updates", FOREVER))
    test.wait_for_lines(process, "by-SIGQUIT", 2)
    process.send_signal(signal.SIGQUIT)
    process.communicate(timeout=60)
    if test.equal("exit code after SIGQUIT", process.returncode, 6):
        saved(test, "by-SIGQUIT", "SIGQUIT")


def stray_signals(test):
    """Signals of timers and profilers have no effect on a training."""
    process = test.start(*arguments("stray", "--updates", FOREVER))
    test.wait_for_lines(process, "stray", 2)
    for sign in (signal.SIGPROF, signal.SIGIO, signal.SIGRTMIN, signal.SIGRTMAX, signal.SIGWINCH, signal.SIGURG, signal.SIGCHLD):
        process.send_signal(sign)
    before = len(test.path("stray/metrics.jsonl").read_bytes().splitlines())
    test.wait_for_lines(process, "stray", before + 20)
    test.equal("it goes on", process.poll(), None)
    process.send_signal(signal.SIGTSTP)
    process.send_signal(signal.SIGCONT)
    process.terminate()
    test.equal("exit code", process.wait(timeout=60), 6)


def moved_folder(test):
    """A run stays with its folder. A new folder at the old path is not touched."""
    for name, replace in (("moved", True), ("carried", False)):
        process = test.start(*arguments(name, "--updates", FOREVER))
        test.wait_for_lines(process, name, 2)
        test.path(name).rename(test.path(f"{name}-away"))
        if replace:
            test.path(name).mkdir()
        process.terminate()
        _, said = process.communicate(timeout=60)
        test.equal(f"exit code of {name}", process.returncode, 6)
        test.that(f"{name}-away; the run continues there".encode() in said, f"it is told: {said[-400:]}")
        saved(test, f"{name}-away", "SIGTERM")
        test.equal("what lies at the old path", list(test.path(name).iterdir()) if replace else test.path(name).exists(),
                   [] if replace else False)  # fmt: skip
    process = test.start(*arguments("removed", "--updates", FOREVER, "--json"))
    test.wait_for_lines(process, "removed", 2)
    shutil.rmtree(test.path("removed"))
    test.path("removed").mkdir()
    process.terminate()
    out, _ = process.communicate(timeout=60)
    test.equal("end of a run whose folder was removed", (process.returncode, parsed(out).get("code")), (5, "E-IO-WRITE"))
    test.equal("what lies there", list(test.path("removed").iterdir()), [])


def signal_to_process_and_group(test):
    """`timeout` sends its signal twice."""
    process = test.start(*arguments("twice", "--updates", FOREVER))
    test.wait_for_lines(process, "twice", 2)
    process.terminate()
    process.terminate()
    process.communicate(timeout=60)
    if test.equal("exit code", process.returncode, 6):
        saved(test, "twice", "SIGTERM")


def second_signal(test):
    """A second signal ends the process at once. An update of several seconds leaves the time for it."""
    slow = ["--set", "train.effective_batch=400000", "--set", "train.micro_batch=8"]
    process = test.start(*arguments("slow", "--updates", FOREVER, *slow))
    deadline = time.monotonic() + 60  # for measuring and planning
    while not test.path("slow/run.json").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(1)  # loading takes less
    process.terminate()
    time.sleep(0.6)
    if process.poll() is not None:
        print("the run ended before the second signal")
        return
    process.terminate()
    process.communicate(timeout=60)
    test.equal("exit code", process.returncode, -signal.SIGTERM)


def ignored_hangup(test):
    """nohup: a SIGHUP has no effect."""
    process = subprocess.Popen(
        [test.binary, *arguments("nohup", "--updates", FOREVER)],
        cwd=test.folder,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    test.wait_for_lines(process, "nohup", 2)
    before = len(test.path("nohup/metrics.jsonl").read_bytes().splitlines())
    process.send_signal(signal.SIGHUP)
    test.wait_for_lines(process, "nohup", before + 20)
    test.equal("it goes on", process.poll(), None)
    process.terminate()
    test.equal("exit code", process.wait(timeout=60), 6)


def closed_pipe(test):
    """train ... 2>&1 | head -1, also where the caller ignores SIGPIPE."""
    for name, ignore in (("pipe", False), ("quiet-pipe", True)):
        process = subprocess.Popen(
            [test.binary, *arguments(name, "--updates", "3000", "--set", "train.evaluate_every=5")],
            cwd=test.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            restore_signals=not ignore,
        )
        process.stdout.readline()
        process.stdout.close()
        if test.equal(f"exit code of {name}", process.wait(timeout=60), 6):
            report = test.report(name)
            test.equal(f"state of {name}", (report["status"], report["exit_code"]), ("interrupted", 6))
            kept = bool(test.checkpoints(name))
            test.equal(f"{name} has a checkpoint, after {report['updates']} updates", kept, report["updates"] > 0)


def limit_files(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def file_size_limit(test):
    """Too small a file size limit for the checkpoint is an error before the first update; for the lines, an error after it."""
    result = test.run(*arguments("short", "--updates", "3", "--json"), before=limit_files(200 << 10))
    error = result.json() or {}
    test.equal("exit code and code", (result.code, error.get("code")), (5, "E-IO-WRITE"))
    report = test.report("short")
    test.equal("its report", (report["status"], report["exit_code"], report["error"]["code"]), ("failed", 5, "E-IO-WRITE"))
    test.equal("updates", report["updates"], 0)
    test.that(not list(test.path("short").rglob("*partial*")), "no partial file")

    tiny = ["--set", "model.layers=1", "--set", "model.width=8", "--set", "model.heads=1", "--updates", "5000"]
    test.succeeds(*arguments("measured", *tiny, "--updates", "1"))
    result = test.run(*arguments("lines", *tiny, "--json"), before=limit_files(64 << 10))
    test.equal("exit code and code", (result.code, (result.json() or {}).get("code")), (5, "E-IO-WRITE"))
    report = test.report("lines")
    test.equal("its report", (report["status"], report["exit_code"], report["error"]["code"]), ("failed", 5, "E-IO-WRITE"))
    test.that(report["updates"] > 50, f"{report['updates']} updates")
    test.lines("lines")  # each of them whole
    test.succeeds(*arguments("lines", *tiny, "--resume", "--updates", report["updates"] + 2))


def full_log(test):
    """The training continues without progress lines if they cannot be written."""
    every = ["--set", "train.evaluate_every=1"]
    for name, stream in (("full", "2>/dev/full"), ("closed", "2>&-"), ("both", ">&- 2>&-"), ("read", "2</dev/null")):
        command = ["sh", "-c", f'exec "$0" "$@" {stream}', test.binary, *arguments(name, *every)]
        code = subprocess.run(command, cwd=test.folder, stdout=subprocess.DEVNULL, timeout=60).returncode
        test.equal(f"exit code with {stream}", code, 0)
        test.equal(f"state with {stream}", (test.report(name)["status"], test.report(name)["updates"]), ("done", 6))

    with open(test.path("log"), "wb") as log:
        process = subprocess.run(
            [test.binary, *arguments("limited", *every)], cwd=test.folder, stderr=log, preexec_fn=limit_files(1 << 20)
        )
    test.equal("exit code with a log", process.returncode, 0)
    for command in (["plan", "config.toml"], ["eval", "config.toml", "--weights", "full/weights"]):
        code = subprocess.run(
            ["sh", "-c", 'exec "$0" "$@" 2>/dev/full', test.binary, *command], cwd=test.folder, stdout=subprocess.DEVNULL
        ).returncode
        test.equal(f"exit code of {command[0]} with a full log", code, 0)


def save_every(test):
    """Checkpoints are saved every ten minutes by default."""
    process = test.start(*arguments("timed", "--updates", FOREVER, "--set", "train.save_every=1s"))
    deadline = time.monotonic() + 60
    while not test.checkpoints("timed") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    test.equal("it runs", process.poll(), None)
    process.kill()
    process.communicate()
    test.that(test.checkpoints("timed"), "it was saved")

    # Nobody holds the run that was killed.
    test.equal("what run.json says", test.report("timed")["status"], "running")
    error = test.fails(2, "E-RUN-EXISTS", *arguments("timed"))
    test.that(error and "interrupted" in error["message"], f"the state is told: {error}")
    result = test.run(*arguments("timed", "--resume", "--memory", "8MiB"))
    test.that(f"process {process.pid} ended without a report" in result.text()[1], f"a note: {result.text()[1]}")
    report = test.report("timed")
    test.equal("state once it was opened", (report["status"], report["exit_code"]), ("interrupted", 6))
    test.equal("why", report["error"]["code"], "E-INTERRUPTED")

    test.succeeds(*arguments("usual", "--updates", "1"))
    test.that('every = "10m"' in test.path("usual/config.resolved.toml").read_text(), "ten minutes are the default")
    for wrong in ("10x", "often", "-3", "1.5", "0m"):
        result = test.run("plan", "config.toml", "--json", "--set", f"train.save_every={wrong}")
        test.equal(f"exit code of save_every={wrong}", result.code, 2)


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def in_small_folder(test, size, *command):
    """Runs with a file system of n bytes at `small`, in a separate mount namespace; None if that is not permitted."""
    script = f'mount -t tmpfs -o size={size} none small || exit 97; "$0" "$@"; code=$?; ls small/run >&2; exit $code'
    test.path("small").mkdir(exist_ok=True)
    wrapped = ["unshare", *(["-m"] if os.geteuid() == 0 else ["-Urm"]), "sh", "-c", script, test.binary, *command]
    process = subprocess.run(wrapped, cwd=test.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if process.returncode in (1, 97, 125) and b"E-" not in process.stderr:
        print(f"skipped: a small file system, {process.stderr.decode().strip()}")
        return None
    return process


def no_room(test):
    """The bytes of the checkpoint are known before the first update."""
    if shutil.which("unshare") is None:
        print("skipped: a small file system, no unshare")
        return
    run = ["train", "config.toml", "--run", "small/run", "--updates", "3", "--json"]
    process = in_small_folder(test, "200k", *run)
    if process is None:
        return
    error = parsed(process.stdout)
    test.equal("exit code and code", (process.returncode, error.get("code")), (5, "E-RUN-ROOM"))
    test.that(b"update 1" not in process.stderr, f"before the first update: {process.stderr[-300:]}")
    test.that(b"\ncheckpoints" not in process.stderr and b"run.json" not in process.stderr, "no run begins")
    test.that(error["try"] and error["try"][0].startswith("--run /"), f"a remedy: {error.get('try')}")
    elsewhere = error["try"][0].split()[1]
    test.succeeds("train", "config.toml", "--updates", "1", "--run", elsewhere)
    shutil.rmtree(elsewhere)
    averages = ["--set", "optimizer.ema_half_life=2updates"]
    for more in (averages, []):
        process = in_small_folder(test, "200k", *run, *more)
        words = parsed(process.stdout)["message"]
        test.equal("averages are counted where they are kept", "averages" in words, bool(more))
    process = in_small_folder(test, "2m", *run)
    test.equal("exit code with room", process.returncode, 0)


def main():
    test = Test("unplanned_ends")
    test.run_parts(
        signals,
        quit_once,
        stray_signals,
        moved_folder,
        signal_to_process_and_group,
        second_signal,
        ignored_hangup,
        closed_pipe,
        file_size_limit,
        full_log,
        save_every,
        no_room,
    )
    test.finish()


if __name__ == "__main__":
    main()
