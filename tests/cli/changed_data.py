#!/usr/bin/env python3
"""Data that change during their use, through the commands: python3 changed_data.py path/to/plimsoll

Files change during tokenisation or training, disks fail, caches are cut or belong to another user. No case trains silently.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import time

from _data import ROOM, SENTENCE, conversations, measured, model, text_model, train, with_cache, write_tokenizer
from _plimsoll import Test, prose
from _shim import environment_of


def trained(test, run):
    report = test.report(run)
    return report["data_hash"], report["final"]["parameters_xxh128"]


def overwrite(path, content):
    """Overwrites in place, so that the file stays the same for processes that have it open."""
    with open(path, "r+b") as file:
        file.write(content)


def stopped_early(process, cache, kind, whole):
    """Stops the process that writes a file of the cache before half of it is written. Returns the process id, or None."""
    while process.poll() is None:
        for part in cache.glob(f"{kind}-*.partial-*"):
            number = int(part.name.rpartition("-")[2])
            try:
                os.kill(number, signal.SIGSTOP)
                if part.stat().st_size < whole // 2:
                    return number
                os.kill(number, signal.SIGCONT)
            except OSError:
                pass
            return None
        time.sleep(0.001)
    return None


def changed_while_tokenised(test):
    """Tokens of a text that changed meanwhile are not kept under the name of the old text."""
    cache, environment = with_cache(test, "changing")
    write_tokenizer(test, "chat")
    chat = {"format": "chat", "vocabulary": "chat"}
    many = 400000
    for kind, config, name, before, after in (
        ("tokens", text_model(test, "big.txt"), "big.txt", SENTENCE * many, SENTENCE.replace("quick", "brown") * many),
        (
            "samples",
            model(test, "chat.toml", {"train": "big.jsonl", **chat}, kind='"llama"'),
            "big.jsonl",
            conversations(20000, "ship"),
            conversations(20000, "port"),
        ),
    ):
        data = test.write(name, before)
        train(test, config, f"honest-{kind}", environment=environment)
        (made,) = cache.glob(f"{kind}-*")
        whole = made.stat().st_size
        made.unlink()
        command = [test.binary, "train", config, "--memory", "64MiB", "--run", f"mixed-{kind}"]
        process = subprocess.Popen(command, cwd=test.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        part = stopped_early(process, cache, kind, whole)
        test.that(part is not None, f"{kind} are caught while they are made")
        overwrite(data, after.encode())
        if part:
            os.kill(part, signal.SIGCONT)
        said = process.communicate(timeout=120)[1].decode()
        test.equal(f"exit code with other {kind}", process.returncode, 5)
        test.that("E-DATA-CHANGED" in said and name in said, f"it says why: {said[-500:]}")
        test.equal(f"{kind} that are kept", list(cache.glob(f"{kind}-*")), [])
        data.write_text(before)
        train(test, config, f"again-{kind}", environment=environment)
        test.equal(f"training on the same {kind}", trained(test, f"again-{kind}"), trained(test, f"honest-{kind}"))


def changed_in_place(test):
    """A file that changes during a run ends the run, which is saved. With the old content the run continues to the same bits."""
    text = SENTENCE * 4000
    u16 = struct.pack(f"<{len(text)}H", *text.encode())
    llmc = struct.pack("<256i", 20240520, 1, len(text), *[0] * 253) + u16
    disk = [*ROOM, "--disk", f"{test.path('disk')}:64MiB", "--set", "plan.parameters=disk"]
    for name, form, content, more in (
        ("live.txt", "bytes", text.encode(), []),
        ("live.bin", "u16", u16, []),
        ("live-llmc.bin", "llmc", llmc, []),
        ("live-disk.txt", "bytes", text.encode(), disk),
    ):
        data = test.write(name, content)
        config = model(test, f"{name}.toml", {"train": name, "format": form}, updates=300)
        whole, run = f"whole-{name}", f"live-{name}"
        train(test, config, whole, *more)
        for way in ("changed", "cut"):
            process = test.start("train", config, "--memory", "64MiB", "--run", f"{run}-{way}", "--json", *more)
            test.wait_for_lines(process, f"{run}-{way}", 3)
            if way == "changed":
                overwrite(data, content.replace(b"cat", b"dog").replace(b"c\0a\0t\0", b"d\0o\0g\0"))
            else:
                os.truncate(data, 2000)
            process.communicate(timeout=120)
            report = test.report(f"{run}-{way}")
            test.equal(f"end of {run}-{way}", (process.returncode, report["status"]), (5, "failed"))
            # A read beside the cut may still get the bytes that the system has cleared already.
            codes = ("E-DATA-CHANGED",) if way == "changed" else ("E-IO-READ", "E-DATA-CHANGED")
            test.that(report["error"]["code"] in codes, f"what ended {run}-{way}: {report['error']['code']}")
            test.that(test.checkpoints(f"{run}-{way}"), "it was saved")
            test.that(2 < report["updates"] < 300, f"in mid-run: {report['updates']}")
            if way == "changed":
                test.fails(2, "E-RESUME-DATA", "train", "--run", f"{run}-{way}", "--resume")
            data.write_bytes(content)
            test.succeeds("train", "--run", f"{run}-{way}", "--resume", "--json")
            test.equal(f"{run}-{way}", trained(test, f"{run}-{way}"), trained(test, whole))


FAULT = r"""
// Reads fail once FAULT_NOW exists: with EIO, or with fewer bytes than there are and then with EIO.
static int before(size_t* count) {
  static int parts = 0;
  if (access(getenv("FAULT_NOW"), F_OK) != 0) return 0;
  if (!getenv("FAULT_SHORT") || parts++ || *count < 2) return EIO;
  *count /= 2;
  return 0;
}
"""


def failing_disk(test):
    """A disk fails under the training data during a run: the run is saved, and continues with a working disk."""
    data, now = test.write("failing.txt", SENTENCE * 400), test.path("now")
    failing = environment_of(test, "fault", FAULT, data)
    if failing is None:
        return print("skipped: failing_disk, no C compiler")
    config = model(test, "failing.toml", {"train": "failing.txt", "format": "bytes"}, updates=300)
    train(test, config, "sound")
    for short in ("", "1"):
        run = f"failing{short}"
        now.unlink(missing_ok=True)
        faulty = {**failing, "FAULT_NOW": str(now)}
        if short:
            faulty["FAULT_SHORT"] = short
        command = [test.binary, "train", config, "--memory", "64MiB", "--run", run, "--json"]
        process = subprocess.Popen(command, cwd=test.folder, env=faulty, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        test.wait_for_lines(process, run, 3)
        now.touch()
        process.communicate(timeout=120)
        report = test.report(run)
        code = (report["error"] or {}).get("code")
        test.equal(f"end of {run}", (process.returncode, report["status"], code), (5, "failed", "E-IO-READ"))
        test.that(2 < report["updates"] < 300, f"in mid-run: {report['updates']}")
        test.that(test.checkpoints(run), "it was saved")
        test.succeeds("train", "--run", run, "--resume", "--json")
        test.equal(f"weights of {run}", trained(test, run), trained(test, "sound"))


def changed_validation(test):
    data = test.write("watched.txt", prose(3, 4000))
    more = ["--set", "data.validation=watched.txt", "--set", "train.evaluate_every=20", "--set", "train.updates=200"]
    process = test.start("train", "config.toml", "--run", "watched", *more)
    test.wait_for_lines(process, "watched", 3)
    overwrite(data, prose(4, 4000).encode())
    process.communicate(timeout=120)
    test.equal("end", (process.returncode, test.report("watched")["error"]["code"]), (5, "E-DATA-CHANGED"))
    test.that(test.checkpoints("watched"), "it was saved")


def cut_caches(test):
    """Files of the cache that were cut, changed or renamed are made again."""
    cache, environment = with_cache(test, "cut")
    write_tokenizer(test, "chat")
    test.write("t.txt", SENTENCE * 400)
    test.write("other.txt", SENTENCE.replace("quick", "brown") * 400)
    test.write("t.jsonl", conversations(40, "ship"))
    test.write("other.jsonl", conversations(40, "port"))
    chat = {"train": "t.jsonl", "format": "chat", "vocabulary": "chat"}
    for kind, config, other in (
        ("tokens", text_model(test), "other.txt"),
        ("samples", model(test, "chat.toml", chat, kind='"llama"'), "other.jsonl"),
    ):
        train(test, config, f"cut-{kind}", environment=environment)
        want = trained(test, f"cut-{kind}")
        (file,) = cache.glob(f"{kind}-*")
        train(test, config, f"cut-{kind}-other", "--set", f"data.train={other}", environment=environment)
        (second,) = set(cache.glob(f"{kind}-*")) - {file}
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[300] ^= 1
        spoilt = {
            "cut": whole[:1000],
            "cut to its header": whole[:256],
            "cut to nothing": b"",
            "extended": whole + bytes(8),
            "changed": bytes(flipped),
            "another file": second.read_bytes(),
        }
        for i, (what, content) in enumerate(spoilt.items()):
            file.write_bytes(content)
            train(test, config, f"cut-{kind}-{i}", environment=environment)
            test.equal(f"{kind} {what}", trained(test, f"cut-{kind}-{i}"), want)
            test.equal(f"{kind} {what}: the file", file.read_bytes(), whole)
        file.unlink()
        file.symlink_to(second)
        train(test, config, f"cut-{kind}-link", environment=environment)
        test.equal(f"{kind} behind a link", trained(test, f"cut-{kind}-link"), want)
    machine = next(file for file in cache.glob("machine-*.json"))
    known = json.loads(machine.read_text())
    known["rates"]["flops_per_second"] *= 1000
    for file in cache.glob("machine-*.json"):
        file.write_text(json.dumps(known))
    said = train(test, text_model(test), "measured", *ROOM, environment=environment)
    test.that("measuring this machine" in said, "measured again")


def foreign_caches(test):
    """Files in the cache that another user may have written are not read."""
    if os.geteuid() != 0:
        print("skipped: other users, without root")
        return
    nobody = 65534
    cache, environment = with_cache(test, "mine")
    test.write("t.txt", SENTENCE * 400)
    test.write("other.txt", SENTENCE.replace("quick", "brown") * 400)
    config = text_model(test)
    train(test, config, "mine-0", environment=environment)
    want = trained(test, "mine-0")
    theirs, their_environment = with_cache(test, "theirs")
    train(test, config, "theirs-0", "--set", "data.train=other.txt", environment=their_environment)
    (file,), (planted,) = cache.glob("tokens-*"), theirs.glob("tokens-*")
    # A file of somebody else under the right name, in a folder of one's own.
    shutil.copy(planted, file)
    os.chown(file, nobody, nobody)
    train(test, config, "mine-1", environment=environment)
    test.equal("training beside a planted file", trained(test, "mine-1"), want)
    file.chmod(0o666)
    train(test, config, "mine-2", environment=environment)
    test.equal("mode of the file", file.stat().st_mode & 0o777, 0o644)
    # A folder that others may write into is closed; one that is somebody else's is not used.
    cache.chmod(0o777)
    train(test, config, "mine-3", environment=environment)
    test.equal("mode of the folder", cache.stat().st_mode & 0o777, 0o755)
    for path in (theirs, *theirs.iterdir()):
        os.chown(path, nobody, nobody)
    before = sorted(os.listdir(theirs))
    said = train(test, config, "theirs-1", *ROOM, environment=their_environment)
    test.that("belongs to another user" in said, f"a note says so: {said[:300]}")
    test.equal("training beside a foreign cache", trained(test, "theirs-1"), want)
    test.equal("files of the foreign cache", sorted(os.listdir(theirs)), before)
    temporary = test.path("tmp")
    temporary.mkdir()
    shutil.copytree(theirs, temporary / "plimsoll-cache")
    for path in (temporary / "plimsoll-cache", *(temporary / "plimsoll-cache").iterdir()):
        os.chown(path, nobody, nobody)
    homeless = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    homeless["TMPDIR"] = str(temporary)
    train(test, config, "homeless", *ROOM, environment=homeless)
    test.equal("training without a home", trained(test, "homeless"), want)
    test.equal("what stays in the temporary folder", os.listdir(temporary), ["plimsoll-cache"])


if __name__ == "__main__":
    program = Test("changed_data")
    measured(program)
    program.run_parts(changed_while_tokenised, changed_in_place, failing_disk, changed_validation, cut_caches, foreign_caches)
    program.finish()
