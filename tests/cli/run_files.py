#!/usr/bin/env python3
"""Files of a run: flipped bits, lines of updates past the checkpoint, remains of killed processes, links, folders that cannot be
written, evaluations, data that is not there yet."""

import json
import os
import pathlib
import random
import shutil
import struct
import subprocess

from _plimsoll import Test, shown_on, terminal_pair


def arguments(run, *more):
    return ["train", "config.toml", "--run", run, *more]


def flips(test):
    test.succeeds(*arguments("flipped", "--updates", "3"))
    path = test.state("flipped")
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    table = json.loads(whole[8:header])
    checksums = table.pop("__metadata__").get("plimsoll.xxh3_128")
    test.that(checksums is not None and len(checksums) == 32 * (1 + len(table)), "a checksum for the header and each tensor")
    manifest = path.with_name("manifest.json")
    noted = manifest.read_bytes()
    draw = random.Random(7)
    places = {
        "length": [0, 1],
        "header": [whole.index(b"plimsoll.xxh3") + 3, whole.index(b"plimsoll.xxh3") + 60,
                   *(draw.randrange(8, header) for _ in range(6))],  # fmt: skip
        "tensors": [len(whole) - 1, *(draw.randrange(header, len(whole)) for _ in range(5))],
        "manifest": [0, len(noted) - 1, len(noted) - 10, *(draw.randrange(len(noted)) for _ in range(6))],
    }
    for part, offsets in places.items():
        changes, before = (manifest, noted) if part == "manifest" else (path, whole)
        for at in offsets:
            changed = bytearray(before)
            changed[at] ^= 1 << draw.randrange(8)
            changes.write_bytes(changed)
            result = test.run(*arguments("flipped", "--resume", "--json"))
            error = result.json() or {}
            test.that(
                result.code == 5 and error.get("code") == "E-CKPT-CORRUPT" and changes.name in error["where"],
                f"a flip in the {part}, at {at}: {result.code} {result.out[:300]!r}",
            )
        changes.write_bytes(before)
    path.write_bytes(whole[:-1])
    error = test.fails(5, "E-CKPT-CORRUPT", *arguments("flipped", "--resume"))
    if error:
        command = error["try"][0].split()
        test.that(command[0] == "plimsoll" and test.run(*command[1:]).code == 0, f"the remedy works: {error['try']}")
    path.write_bytes(whole)

    # As format 1 had it before there were checksums.
    counters = json.loads(noted)
    counters["updates"] = counters.pop("update")
    for key in ("files", "schema", "xxh128", "position", "optimizer_updates", "config_hash"):
        del counters[key]
    text = json.dumps(counters).encode()
    moved = {
        name: {**each, "data_offsets": [at + len(text) for at in each["data_offsets"]]} for name, each in table.items()
    }
    first = {"dtype": "U8", "shape": [len(text)], "data_offsets": [0, len(text)]}
    old = json.dumps({"__metadata__": {"format": "pt"}, "plimsoll.progress": first, **moved}).encode()
    old += b" " * (-len(old) % 8)
    test.write("flipped/checkpoint.safetensors", struct.pack("<Q", len(old)) + old + text + whole[header:])
    shutil.rmtree(test.path("flipped/checkpoints"))
    report = test.succeeds(*arguments("flipped", "--resume", "--json"))
    test.succeeds(*arguments("unflipped", "--json"))
    test.equal(
        "parameters of a run from an old checkpoint",
        report["final"]["parameters_xxh128"],
        test.report("unflipped")["final"]["parameters_xxh128"],
    )


def lines(test):
    """Lines past the update of the checkpoint are cut on a resume."""
    evaluating = ["--set", "train.evaluate_every=1"]
    test.succeeds(*arguments("plain", *evaluating))
    whole = test.path("plain/metrics.jsonl").read_bytes().splitlines(keepends=True)
    evaluations = test.path("plain/eval.jsonl").read_bytes().splitlines(keepends=True)
    test.equal("evaluations", [json.loads(line)["update"] for line in evaluations], [1, 2, 3, 4, 5, 6])
    for line in map(json.loads, evaluations):
        test.shape(
            "evaluation",
            line,
            {"update": int, "samples": int, "loss": float, "loss_bits": str, "units": int, "seconds": float},
        )
        test.equal("loss_bits", struct.unpack(">d", bytes.fromhex(line["loss_bits"]))[0], line["loss"])
        test.equal("samples", line["samples"], 8 * line["update"])
    test.equal("the last one", json.loads(evaluations[-1])["loss"], test.report("plain")["final"]["validation_loss"])

    test.succeeds(*arguments("cut", "--updates", "3", *evaluating))
    folder = test.path("cut")
    begun = {name: (folder / name).read_bytes() for name in ("run.json",)}
    shutil.copytree(folder / "checkpoints", test.path("checkpoints-cut"))
    late = b'{"event":"late","update":4}\n'
    events = [b'{"event":"a","update":1}\n', b'{"event":"b","update":1}\n', b'{"event":"c","update":3}\n']
    torn = whole[3][:40]
    cases = {
        "as it was": whole[:3],
        "later updates": whole[:5],
        "a torn end": [*whole[:3], torn],
        "a torn line within": [*whole[:2], torn + b"\n", whole[2]],
        "twice": [*whole[:3], *whole[1:3], whole[3]],
        "out of order": [whole[0], whole[3], whole[2], whole[1]],
        "zeros at the end": [*whole[:3], bytes(100)],
    }
    for what, content in cases.items():
        for name, content_before in begun.items():
            (folder / name).write_bytes(content_before)
        shutil.rmtree(folder / "checkpoints")
        shutil.copytree(test.path("checkpoints-cut"), folder / "checkpoints")
        (folder / "metrics.jsonl").write_bytes(b"".join(content))
        (folder / "eval.jsonl").write_bytes(b"".join(content).replace(b"grad_norm", b"other"))
        (folder / "events.jsonl").write_bytes(b"".join([events[0], late, events[1], events[2], late[:9]]))
        test.succeeds(*arguments("cut", "--resume", *evaluating))
        kept = [line["update"] for line in test.lines("cut")]
        test.equal(f"updates of metrics, {what}", kept, [1, 2, 3, 4, 5, 6])
        kept = [json.loads(line)["update"] for line in (folder / "eval.jsonl").read_text().splitlines()]
        test.equal(f"updates of evaluations, {what}", kept, [1, 2, 3, 4, 5, 6])
        test.equal(f"events, {what}", (folder / "events.jsonl").read_bytes(), b"".join(events))
    test.succeeds(*arguments("cut", "--resume"))
    kept = [json.loads(line)["update"] for line in (folder / "eval.jsonl").read_text().splitlines()]
    test.equal("an evaluation that is made again", kept, [1, 2, 3, 4, 5, 6])


def synced(test):
    """The lines are on the disk before the checkpoint that presupposes them."""
    if shutil.which("strace") is None:
        print("skipped: the order of syncs, there is no strace")
        return
    trace = test.path("trace")
    calls = "trace=fsync,fdatasync,rename,renameat"
    command = ["strace", "-f", "-y", "-e", calls, "-o", trace, test.binary, *arguments("synced")]
    if subprocess.run(command, cwd=test.folder, capture_output=True, check=False).returncode != 0:
        print("skipped: the order of syncs, strace cannot trace")
        return
    text = trace.read_text()
    saved = [i for i, line in enumerate(text.splitlines()) if "rename" in line and '/checkpoints/6"' in line]
    lines_synced = [i for i, line in enumerate(text.splitlines()) if "sync(" in line and "metrics.jsonl>" in line]
    test.that(saved and lines_synced and lines_synced[0] < saved[0], f"metrics are synced first: {lines_synced} {saved}")


def left_behind(test):
    test.succeeds(*arguments("left", "--updates", "2", "--set", "optimizer.ema_half_life=100samples"))
    for folder in ("left", "left/weights", "left/weights_ema"):
        test.that(test.path(folder).is_dir(), f"{folder} is there")
        test.write(f"{folder}/model.safetensors.partial-1", b"torn")
    test.succeeds(*arguments("left", "--resume", "--set", "optimizer.ema_half_life=100samples"))
    test.equal("partial files of the run", list(test.path("left").rglob("*.partial-*")), [])

    gone = subprocess.Popen(["true"])
    gone.wait()
    cache = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "plimsoll"
    mine = cache / f"tokens-test.bin.partial-{gone.pid}"
    held = cache / f"tokens-test.bin.partial-{os.getpid()}"
    probe = cache / "plimsoll-gone00"
    probe.mkdir(exist_ok=True)
    (probe / "page").write_bytes(b"torn")
    os.utime(probe, (1e9, 1e9))
    for path in (mine, held):
        path.write_bytes(b"torn")
    test.succeeds("plan", "config.toml")
    test.equal("what a process left that is gone", [mine.exists(), probe.exists()], [False, False])
    test.that(held.exists(), "what a process may be writing")
    held.unlink(missing_ok=True)


def links(test):
    for name, target, run in (("link", "/mnt/not/mounted/run", "link"), ("above", "/mnt/not/mounted", "above/a/run")):
        link = test.path(name)
        link.symlink_to(target)
        error = test.fails(5, "E-IO-WRITE", *arguments(run))
        test.that(error and target in error["message"], f"the target is named: {error}")
        test.that(link.is_symlink() and os.readlink(link) == target, "the link is still there")
    test.path("there").mkdir()
    test.path("good").symlink_to("there")
    test.succeeds(*arguments("good", "--updates", "1"))
    test.that(test.path("there/run.json").exists() and test.path("good").is_symlink(), "a link to a folder is followed")
    test.path("empty").mkdir()
    test.path("other").symlink_to("empty")
    test.fails(5, "E-DATA-MISSING", *arguments("other/run", "--set", "data.train=nowhere"))
    test.that(test.path("other").is_symlink() and not list(test.path("empty").iterdir()), "what was made is taken away, no more")


def vocabulary(test):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in printable]
    shown = {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}
    words = {word: i for i, word in enumerate([shown[b] for b in range(256)] + ["<|endoftext|>"])}
    test.write("bpe/vocab.json", json.dumps(words))
    test.write("bpe/merges.txt", "#version: 0.2\n")
    text = test.path("config.toml").read_text().replace("vocab = 256", "vocab = 260")
    test.write("bpe.toml", text.replace('format = "bytes"', 'format = "bpe"\nvocabulary = "bpe"'))


def read_only_home(test):
    vocabulary(test)
    home = test.path("home")
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", home], capture_output=True, check=False)
    if mounted.returncode != 0:
        home.chmod(0o500)
        if os.access(home, os.W_OK):
            print("skipped: a home that is read-only")
            return
    environment = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    environment["HOME"] = str(home)

    def run(*words):
        command = [test.binary, *words]
        return subprocess.run(command, cwd=test.folder, env=environment, capture_output=True, check=False)

    try:
        result = run("train", "bpe.toml", "--run", "at-home", "--updates", "2")
        test.equal("exit code of training", result.returncode, 0)
        test.equal("token files in the run", len(list(test.path("at-home/tokens").glob("tokens-*.bin"))), 2)
        test.equal("it goes on", run("train", "bpe.toml", "--run", "at-home", "--resume", "--updates", "3").returncode, 0)
        result = run("eval", "bpe.toml", "--weights", "at-home/weights", "--json")
        error = json.loads(result.stdout)
        test.equal("an evaluation", (result.returncode, error.get("code")), (5, "E-IO-WRITE"))
        test.that("export XDG_CACHE_HOME=" in error["try"][0], f"its remedy: {error['try']}")
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", home], check=False)
    test.fails(5, "E-IO-WRITE", "train", "bpe.toml", "--run", "config.toml/run")


def missing_data(test):
    result = test.run("plan", "config.toml", "--set", "data.train=nowhere.bin", "--set", "data.format=auto", "--json")
    plan = result.json() or {}
    test.equal("a plan without data", (result.code, plan.get("status")), (0, "fits"))
    notes = [line for line in result.text()[1].splitlines() if "nowhere.bin" in line]
    test.that(len(notes) == 1 and "u16" in notes[0], f"one note says so: {result.text()[1]}")
    assumed = [(one["key"], one["format"], one["bytes_per_token"]) for one in plan.get("assumed", [])]
    test.equal("what is assumed", assumed, [("data.train", "u16", 2)])
    there = test.succeeds("plan", "config.toml", "--json")
    test.that("assumed" not in there, "nothing is assumed of files that are there")
    for key in ("data.train", "data.validation"):
        without = test.succeeds("plan", "config.toml", "--set", f"{key}=nowhere", "--json")
        test.equal(f"the plan without {key}", without["plan_hash"], there["plan_hash"])
        test.fails(5, "E-DATA-MISSING", *arguments("never", "--set", f"{key}=nowhere"))
    test.path("hollow").mkdir()
    test.fails(5, "E-DATA-FILES", "plan", "config.toml", "--set", f"data.train={test.path('hollow')}")
    empty = test.write("empty.txt", b"")
    test.fails(5, "E-DATA-EMPTY", "plan", "config.toml", "--set", f"data.train={empty}")
    test.fails(2, "E-CONFIG-VALUE", "plan", "config.toml", "--set", "data.train=nowhere", "--set", "data.format=bpe")


def scrollback(test):
    """On a terminal the losses of a run stay visible, one for each twentieth of the run."""
    pair = terminal_pair()
    if pair is None:
        return
    master, slave = pair
    process = subprocess.Popen(
        [test.binary, *arguments("shown", "--set", "train.updates=200")],
        cwd=test.folder,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env=dict(os.environ, TERM="xterm", NO_COLOR="1"),
    )
    os.close(slave)
    text = b"".join(shown_on(master))
    os.close(master)
    test.equal("exit code", process.wait(timeout=60), 0)
    stays = [line.rsplit("\r", 1)[-1].replace("\033[K", "") for line in text.decode().replace("\r\n", "\n").split("\n")]
    losses = [line for line in stays if line.startswith("update ") and " loss " in line and "validation" not in line]
    test.that(20 <= len(losses) <= 24, f"losses that stay: {len(losses)} {losses[:3]}")
    updates = [int(line.split()[1].split("/")[0]) for line in losses]
    test.equal("in order, from the first to the last", (updates, updates[0], updates[-1]), (sorted(set(updates)), 1, 200))


def main():
    test = Test("run_files")
    test.run_parts(flips, lines, synced, left_behind, links, read_only_home, missing_data, scrollback)
    test.finish()


if __name__ == "__main__":
    main()
