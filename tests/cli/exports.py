#!/usr/bin/env python3
"""Event files and tables of a run that was killed and resumed three times, and went back: at once, followed, repeated."""

import csv
import struct

from _killed import TAGS, lines_of, parts_of, train_with_kills
from _plimsoll import Test


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of a message of protocol buffers."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, message[at : at + size]
            at += size


def scalars(file, checked):
    """{tag: {step: value}} as TensorBoard reads an event file; each record's checksums, if `checked`."""
    found, bytes_, at = {}, file.read_bytes(), 0
    while at < len(bytes_):
        (length,) = struct.unpack_from("<Q", bytes_, at)
        message = bytes_[at + 12 : at + 12 + length]
        if checked:
            assert struct.unpack_from("<I", bytes_, at + 8)[0] == masked(bytes_[at : at + 8])
            assert struct.unpack_from("<I", bytes_, at + 12 + length)[0] == masked(message)
        if at == 0:
            assert (3, b"brain.Event:2") in list(fields(message))
        at += 16 + length
        event = dict(fields(message))
        step = event.get(2, 0)
        if dict(fields(event.get(7, b""))).get(1) == 1:  # SessionLog.START: what follows replaces later steps
            for steps in found.values():
                for later in [each for each in steps if each >= step]:
                    del steps[later]
        for _, value in fields(event.get(5, b"")):
            parts = dict(fields(value))
            steps = found.setdefault(parts[1].decode(), {})
            assert step not in steps, f"step {step} twice"
            steps[step] = struct.unpack("<f", parts[2])[0]
    return found


def as_float(values):
    return {
        tag: {step: struct.unpack("<f", struct.pack("<f", value))[0] for step, value in steps.items()}
        for tag, steps in values.items()
    }


def same_events(test, folder, wanted):
    for number, values in enumerate(wanted, 1):
        part = test.path(folder) / (str(number) if number > 1 else "")
        files = list(part.glob("*tfevents*"))
        if test.equal(f"event files in {part}", len(files), 1):
            test.equal(f"scalars of {part}", scalars(files[0], checked=number == 1), as_float(values))


def same_tables(test, folder, wanted):
    for number, values in enumerate(wanted, 1):
        part = test.path(folder) / (str(number) if number > 1 else "")
        rows = list(csv.DictReader((part / "metrics.csv").open()))
        for tag, key in TAGS.items():
            test.equal(f"{key} in {part}", {int(row["update"]): float(row[key]) for row in rows}, values[tag])
        test.equal(f"rows of {part}", len(rows), len(values["train/loss"]))
        rows = list(csv.DictReader((part / "evaluations.csv").open()))
        test.equal(
            f"evaluations of {part}", {int(row["update"]): float(row["loss"]) for row in rows}, values["eval/loss"]
        )


def same(test, kind, wanted):
    same_events(test, f"{kind}-tb", wanted)
    same_tables(test, f"{kind}-csv", wanted)


def start(test, kind):
    return [
        test.start("export", "run", "--follow", to, f"{kind}-{name}")
        for to, name in (("--tensorboard", "tb"), ("--csv", "csv"))
    ]


def exports(test):
    train_with_kills(test, "run")
    for to, name in (("--tensorboard", "tb"), ("--csv", "csv")):
        test.succeeds("export", "run", to, f"once-{name}")
    wanted = parts_of(test.path("run"))
    test.equal("updates", list(wanted[0]["train/loss"]), list(range(1, 161)))
    same(test, "once", wanted)
    before = {path: path.read_bytes() for path in test.path("once-tb").iterdir()}
    for process in start(test, "once"):
        process.communicate(timeout=60)
    test.that(
        {path: path.read_bytes() for path in test.path("once-tb").iterdir()} == before, "a repeated export adds nothing"
    )
    same(test, "once", wanted)


def follows(test):
    followers = []
    wait = test.wait_for_lines

    def wait_and_follow(process, run, count):
        wait(process, run, 2)
        if not followers:
            followers.extend(start(test, "followed"))
        wait(process, run, count)

    test.wait_for_lines = wait_and_follow
    test.path("run").rename(test.path("first"))
    train_with_kills(test, "run")
    test.wait_for_lines = wait
    for process in followers:
        process.communicate(timeout=60)
        test.equal("exit code of a follower", process.returncode, 0)
    same(test, "followed", parts_of(test.path("run")))


def goes_back(test):
    before = {path.name: path.read_bytes() for path in test.path("followed-tb").iterdir()}
    run = [
        "train",
        "--run",
        "run",
        "--resume",
        "--checkpoint",
        "60",
        "--set",
        "optimizer.learning_rate=3e-3",
        "--updates",
        "100",
    ]
    test.succeeds(*run)
    wanted = parts_of(test.path("run"))
    test.equal("parts", [len(part["train/loss"]) for part in wanted], [160, 40])
    for kind in ("followed", "new"):
        for to, name in (("--tensorboard", "tb"), ("--csv", "csv")):
            report = test.succeeds("export", "run", to, f"{kind}-{name}", "--json")
            test.equal("parts of the export", report["parts"], 2)
        same(test, kind, wanted)
    for name, content in before.items():
        test.that((test.path("followed-tb") / name).read_bytes() == content, "the first part stays as it was")
    test.equal(
        "the lines that it left",
        [line["update"] for line in lines_of(test.path("run/abandoned/1/metrics.jsonl"))],
        [*range(61, 161)],
    )


def refusals(test):
    test.fails(2, "E-USAGE", "export", "run")
    test.fails(2, "E-USAGE", "export", "run", "--tensorboard", "a", "--csv", "b")
    test.fails(2, "E-USAGE", "export", "run", "--csv", "b", "--gguf", "c")
    test.fails(2, "E-RUN-MISSING", "export", "nothing", "--csv", "b")
    test.write("file", "x")
    test.fails(5, "E-IO-WRITE", "export", "run", "--csv", "file")
    test.fails(5, "E-IO-WRITE", "export", "run", "--tensorboard", "/proc/nowhere")


test = Test("exports")
test.run_parts(exports, follows, goes_back, refusals)
test.finish()
