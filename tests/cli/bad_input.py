#!/usr/bin/env python3
"""Bad input ends with a coded error and its exit code, on stderr and as one JSON object, and leaves no partial file."""

import json
import os
import shutil
import struct
import subprocess

from _plimsoll import Test

TRAIN = ["train", "config.toml", "--run", "run"]


def configs(test):
    """Cases: (exit code, code, content of the file or None for an absent one)."""
    good = test.path("config.toml").read_text()
    return [
        (2, "E-CONFIG-FILE", None),
        (2, "E-CONFIG-SYNTAX", bytes(range(256)) * 8),
        (2, "E-CONFIG-SYNTAX", b"\x7fELF\0\0\0\0" + os.urandom(500)),
        (2, "E-CONFIG-SYNTAX", b'seed = 1\n[data]\ntrain = "\xff\xfe.txt"\n'),
        (2, "E-CONFIG-SYNTAX", "seed = = 1"),
        (2, "E-CONFIG-SYNTAX", "a" + ".a" * 200000 + " = 1\n"),
        (2, "E-CONFIG-SYNTAX", "[a" + ".a" * 200000 + "]\nb = 1\n"),
        (2, "E-CONFIG-SYNTAX", "a = " + "[" * 500000 + "\n"),
        (2, "E-CONFIG-SYNTAX", "a = {b" + ".b" * 200000 + " = 1}\n"),
        (2, "E-CONFIG-MISSING", ""),
        (2, "E-CONFIG-FILE", "# " + "x" * (2 << 20)),
        (2, "E-CONFIG-KEY", good + "[training]\nupdates = 3\n"),
        (2, "E-CONFIG-KEY", good.replace("updates", "updatez")),
        (2, "E-CONFIG-TYPE", good.replace("updates = 6", 'updates = "six"')),
        (2, "E-CONFIG-SYNTAX", good.replace("updates = 6", "updates = 6\nupdates = 7")),
    ]


def settings(test):
    """Cases: (exit code, code, --set arguments)."""
    empty, short = test.write("empty.txt", b""), test.write("short.txt", b"a")
    odd, high = test.write("odd.bin", b"abc"), test.write("high.bin", struct.pack("<400H", *([300] * 400)))
    header = struct.pack("<3i", 20240520, 1, 1000) + bytes(1012)
    return [
        (2, "E-CONFIG-SET", ["train.updates"]),
        (2, "E-CONFIG-KEY", ["train.nonsense=1"]),
        (2, "E-CONFIG-HEADS", ["model.heads=3"]),
        (2, "E-CONFIG-RANGE", ["model.heads=0"]),
        (2, "E-CONFIG-RANGE", ["model.width=-32"]),
        (2, "E-CONFIG-RANGE", ["model.width=99999999999999999999"]),
        (2, "E-CONFIG-RANGE", ["model.layers=4096", "model.width=1048576", "model.heads=1024", "model.vocab=16777216"]),
        (2, "E-CONFIG-RANGE", ["train.effective_batch=16777216", "model.context=16777216"]),
        (2, "E-CONFIG-RANGE", ["model.dropout=1"]),
        (2, "E-CONFIG-RANGE", ["optimizer.learning_rate=nan"]),
        (2, "E-CONFIG-RANGE", ["train.updates=0"]),
        (2, "E-CONFIG-VALUE", ["optimizer.name=adamm"]),
        (2, "E-CONFIG-VALUE", ["model.kind=bert"]),
        (2, "E-CONFIG-PRECISION", ["precision.compute=fp8"]),
        (2, "E-CONFIG-PRESET", ["model.preset=gpt5"]),
        (2, "E-BATCH-3", ["train.micro_batch=3"]),
        (2, "E-BATCH-3", ["train.micro_batch=2", "train.accumulation=3"]),
        (2, "E-BATCH-3", ["train.effective_batch=100", "train.micro_batch=16"]),
        (2, "E-BATCH-3", ["train.micro_batch=4", "plan.group=3"]),
        (5, "E-DATA-MISSING", ["data.train=/no/such/file"]),
        (5, "E-DATA-FILES", [f"data.train={test.folder}/*.none"]),
        (5, "E-DATA-MISSING", ["data.validation=nowhere.txt"]),
        (5, "E-DATA-EMPTY", [f"data.train={empty}"]),
        (5, "E-DATA-SHORT", [f"data.train={short}"]),
        (5, "E-DATA-FORMAT", [f"data.train={odd}", "data.format=u16"]),
        (5, "E-DATA-FORMAT", ["data.format=llmc"]),
        (5, "E-DATA-FORMAT", [f"data.train={test.write('cut.bin', header + bytes(500))}", "data.format=auto"]),
        (5, "E-DATA-FORMAT", [f"data.train={test.write('long.bin', header + bytes(5000))}", "data.format=llmc"]),
        (2, "E-CONFIG-VALUE", ["data.format=bpe"]),
        (5, "E-DATA-TOKEN", [f"data.train={high}", f"data.validation={high}", "data.format=u16"]),
    ]


def budgets():
    return [
        (2, "E-CONFIG-SIZE", ["--memory", ""]),
        (2, "E-CONFIG-SIZE", ["--disk", ""]),
        (2, "E-CONFIG-SIZE", ["--memory", "lots"]),
        (2, "E-CONFIG-SIZE", ["--memory", "-5"]),
        (2, "E-CONFIG-SIZE", ["--memory", "2XiB"]),
        (2, "E-CONFIG-SIZE", ["--memory", "99999999TiB"]),
        (3, "E-MEM-MACHINE", ["--memory", "9999TiB"]),
        (2, "E-CONFIG-SIZE", ["--host-memory", "x"]),
        (2, "E-CONFIG-TYPE", ["--disk", "5GiB"]),
        (2, "E-CONFIG-SIZE", ["--disk", "spill:much"]),
        (5, "E-DISK-FOLDER", ["--disk", "no/such/parent:1GiB"]),
    ]


def nothing_left(test, what):
    """There is no run folder, or it has a run.json with status failed and no partial files."""
    run = test.path("run")
    if not run.exists():
        return
    if test.that(
        (run / "run.json").exists(), f"after {what}: a folder without a run is left: {sorted(map(str, run.rglob('*')))}"
    ):
        report = json.loads((run / "run.json").read_text())
        test.that(report["status"] == "failed" and report["error"], f"after {what}: run.json says {report['status']}")
    test.that(not list(run.rglob("*.partial-*")), f"after {what}: partial files")
    shutil.rmtree(run)


def table(test):
    for exit_code, code, content in configs(test):
        path = test.path("bad.toml")
        path.unlink(missing_ok=True)
        if content is not None:
            test.write("bad.toml", content)
        test.fails(exit_code, code, "train", "bad.toml", "--run", "run")
        nothing_left(test, f"a configuration {str(content)[:40]}")
    test.fails(2, "E-CONFIG-FILE", "plan", ".")
    for exit_code, code, sets in settings(test):
        test.fails(exit_code, code, *TRAIN, *(word for text in sets for word in ("--set", text)))
        nothing_left(test, f"--set {sets}")
    for exit_code, code, arguments in budgets():
        test.fails(exit_code, code, *TRAIN, *arguments)
        nothing_left(test, " ".join(arguments))


def too_small(test):
    """A budget below the bytes of the code is no special case: no plan fits."""
    for size in ("0", "1KiB", "9MiB"):
        for command in (["plan", "config.toml"], TRAIN):
            result = test.run(*command, "--memory", size, "--json")
            plan = result.json() or {}
            test.equal(
                f"{command[0]} --memory {size}",
                (result.code, plan.get("status"), (plan.get("infeasible") or {}).get("code")),
                (3, "infeasible", "E-PLAN-FIT"),
            )
            nothing_left(test, f"--memory {size}")
    test.that("E-PLAN-FIT" in test.run(*TRAIN, "--memory", "1MiB").text()[1], "stderr of train names E-PLAN-FIT")


def places(test):
    """Impossible run folders."""
    for place in ("config.toml", "config.toml/run", "/proc/run", "/dev/null/run", "x" * 300):
        test.fails(5, "E-IO-WRITE", "train", "config.toml", "--run", place)
    test.fails(2, "E-RUN-MISSING", *TRAIN, "--resume")
    test.that(not test.path("run").exists(), "--resume makes no folder")
    test.path("mine").mkdir()
    test.write("mine/notes.txt", "mine")
    test.fails(5, "E-DATA-MISSING", "train", "config.toml", "--run", "mine", "--set", "data.train=nowhere")
    test.equal("a folder that was there", sorted(path.name for path in test.path("mine").iterdir()), ["notes.txt"])
    test.fails(5, "E-DATA-MISSING", "train", "config.toml", "--run", "a/b/c", "--set", "data.train=nowhere")
    test.that(not test.path("a").exists(), "folders made for a run that did not begin are gone")
    for out in ("no/such/plan.json", "."):
        test.fails(5, "E-IO-WRITE", "plan", "config.toml", "--out", out)


def full_disk(test):
    mount = test.path("disk")
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        print("skipped: a full disk, no tmpfs can be mounted here")
        return
    try:
        test.fails(5, "E-RUN-ROOM", "train", "config.toml", "--run", "disk/run")
        report = test.report("disk/run") if test.path("disk/run/run.json").exists() else {"status": "failed"}
        test.that(report["status"] in ("failed", "running"), f"run.json on a full disk says {report['status']}")
        test.that(not list(mount.rglob("*.partial-*")), "no partial files on a full disk")
        test.that(not test.path("disk/run/checkpoints").exists(), "no checkpoint that is cut")
    finally:
        subprocess.run(["umount", str(mount)], check=False)


def safetensors(tensors, header=None):
    """Bytes of a safetensors file; `header` replaces the honest one."""
    entries, offset, data = {}, 0, b""
    for name, (shape, values) in tensors.items():
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset, data = offset + len(values), data + values
    text = json.dumps(entries if header is None else header(entries)).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_tensors(blob):
    length = struct.unpack_from("<Q", blob)[0]
    header = json.loads(blob[8 : 8 + length])
    return {
        name: (entry["shape"], blob[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def weights(test):
    """A folder for model.init, eval and generate, broken in many ways."""
    if test.succeeds(*TRAIN, "--updates", "1", "--json") is None:
        return
    shutil.move(test.path("run/weights"), test.path("weights"))
    shutil.rmtree(test.path("run"))
    model, config = test.path("weights/model.safetensors"), test.path("weights/config.json")
    blob, shape = model.read_bytes(), json.loads(config.read_text())
    tensors = read_tensors(blob)
    first = next(iter(tensors))
    key = next(name for name in tensors if name.endswith("c_attn.weight"))

    def entry(**changes):
        return lambda entries: {**entries, first: {**entries[first], **changes}}

    bad_models = [
        b"",
        blob[:4],
        blob[:-10],
        b"\xff" * 8 + blob[8:],
        struct.pack("<Q", 1 << 40) + blob[8:],
        b"version https://git-lfs",
        safetensors({name: value for name, value in tensors.items() if name != key}),
        safetensors({**tensors, key: ([2, len(tensors[key][1]) // 8], tensors[key][1])}),
        safetensors(tensors, entry(data_offsets=[0, 1 << 60])),
        safetensors(tensors, entry(data_offsets=[8, 4])),
        safetensors(tensors, entry(dtype="F99")),
        safetensors(tensors, entry(shape=[1 << 40, 1 << 40])),
        safetensors(tensors, entry(shape=[-1])),
        safetensors(tensors, lambda entries: []),
        safetensors({**tensors, "transformer." + first: (tensors[first][0], tensors[first][1][::-1])}),
        safetensors({**tensors, "h.2.ln_1.weight": tensors[first]}),
    ]
    test.write(
        "init.toml",
        test.path("config.toml")
        .read_text()
        .replace("layers = 2\nwidth = 32\nheads = 2\ncontext = 32\nvocab = 256\n", 'init = "weights"\n'),
    )
    for bad in bad_models:
        model.write_bytes(bad)
        result = test.run("train", "init.toml", "--run", "run", "--json")
        code = (result.json() or {}).get("code", "")
        test.that(
            result.code == 5 and code.startswith(("E-FORMAT", "E-IO")), f"weights {bad[:40]!r}: exit {result.code}, {code}"
        )
        nothing_left(test, f"weights {bad[:40]!r}")
    for command in (
        ["eval", "config.toml", "--weights", "weights", "--json"],
        ["generate", "--weights", "weights", "--prompt", "x"],
    ):
        test.equal(f"exit code of {command[0]} with broken weights", test.run(*command).code, 5)
    model.unlink()
    test.equal("exit code without weights", test.run("train", "init.toml", "--run", "run").code, 5)
    nothing_left(test, "absent weights")
    model.write_bytes(blob)

    for bad in (
        b"",
        b"[]",
        b"{",
        json.dumps({**shape, "n_embd": 33}).encode(),
        json.dumps({**shape, "n_layer": 1 << 60}).encode(),
        json.dumps({**shape, "model_type": "bert"}).encode(),
        json.dumps({**shape, "activation_function": "swish"}).encode(),
    ):
        config.write_bytes(bad)
        result = test.run("train", "init.toml", "--run", "run", "--json")
        test.that(
            result.code in (2, 5) and (result.json() or {}).get("schema") == "plimsoll.error/1",
            f"config.json {bad[:60]!r}: {result.code}",
        )
        nothing_left(test, f"config.json {bad[:60]!r}")
    config.write_text(json.dumps(shape))
    for sets in (["model.context=64"], ["model.layers=2"]):
        test.fails(2, "E-CONFIG-INIT", "plan", "init.toml", "--set", sets[0])
    test.equal("exit code without config.json", test.run("eval", "config.toml", "--weights", "nowhere").code, 5)
    for command in (
        ["--prompt", ""],
        ["--prompt", "x", "--tokens", "0"],
        ["--prompt", "x", "--temperature", "-1"],
        ["--prompt", "x", "--memory", "?"],
        ["--prompt", "x", "--temperature", "nan"],
        ["--prompt", "x", "--tokens", "99999999999999999999"],
    ):
        test.equal(f"exit code of generate {command}", test.run("generate", "--weights", "weights", *command).code, 2)
    for command in (["eval", "config.toml", "--weights", "weights"], ["generate", "--weights", "weights", "--prompt", "x"]):
        test.equal(f"exit code of {command[0]} in 1 MiB", test.run(*command, "--memory", "1MiB").code, 3)


def plans(test):
    for content in (b"", b"{}", b'{"record":{}}', b"[1]", b"\xff", b'{"record":{"micro_batch":"x"}}'):
        test.write("bad.json", content)
        test.fails(2, "E-PLAN-FILE", *TRAIN, "--plan", "bad.json")
        nothing_left(test, f"--plan {content!r}")
        test.equal(f"exit code of explain with {content!r}", test.run("explain", "0", "--plan", "bad.json").code, 2)
    test.fails(2, "E-PLAN-FILE", *TRAIN, "--plan", "nowhere.json")
    test.succeeds("plan", "config.toml", "--out", "plan.json")
    plan = json.loads(test.path("plan.json").read_text())
    for change in (
        {"offsets": []},
        {"offsets": plan["record"]["offsets"][:-1]},
        {"offsets": [-64] * len(plan["record"]["offsets"])},
        {"offsets": [0] * len(plan["record"]["offsets"])},
        {"offsets": [1 << 60] * len(plan["record"]["offsets"])},
        {"micro_batch": 1 << 60},
        {"micro_batch": 0},
        {"accumulation": -1},
        {"loss_chunks": 0},
        {"loss_chunks": 1 << 30},
        {"group": 0},
        {"group": 3},
        {"group": -2},
        {"group": 1 << 40},
        {"group": plan["record"]["accumulation"] + 1},
        {"paging": {"what": ["parameters"], "page_elements": 32768, "slots": 2, "activation_blocks": -1}},
        {"paging": {"what": ["parameters"], "page_elements": 32768, "slots": 2, "resident_blocks": -1}},
        {"blocks": []},
    ):
        test.write("edited.json", json.dumps({**plan, "record": {**plan["record"], **change}}))
        result = test.run(*TRAIN, "--plan", "edited.json", "--json")
        test.that(
            result.code == 2, f"an edited plan, {str(change)[:60]}: exit {result.code} {(result.json() or {}).get('message')}"
        )
        nothing_left(test, f"an edited plan {str(change)[:60]}")


def layouts(test):
    good = "id,lower,upper,size\na,0,2,10\nb,1,3,10\n"
    for content in (
        "",
        "id,lower,upper\na,0,2\n",
        good + "c,9,5,1\n",
        good + "c,0,1,-4\n",
        good + "c,0,1\n",
        good + "c,0,x,1\n",
        good + "c,0,1,99999999999999999999\n",
        "a,0,2,10\n",
        b"\xff\xfe\0\0",
        "id,lower,upper,size,size\na,0,1,1,1\n",
    ):
        test.write("bad.csv", content)
        result = test.run("layout", "bad.csv", "--minimize", "--out", "out.csv", "--json")
        code = (result.json() or {}).get("code")
        test.that(result.code == 5 and code == "E-LAYOUT-CSV", f"layout of {content[-30:]!r}: exit {result.code}, {code}")
    test.equal("exit code for an absent file", test.run("layout", "nowhere.csv", "--minimize").code, 5)
    test.write("good.csv", good)
    test.fails(2, "E-USAGE", "layout", "good.csv", "--minimize", "--capacity", "20")
    test.fails(2, "E-USAGE", "layout", "good.csv", "--capacity", "twenty")
    test.fails(2, "E-USAGE", "layout", "good.csv", "--minimize", "--work-limit=-1")
    test.fails(5, "E-IO-WRITE", "layout", "good.csv", "--minimize", "--out", "no/such/out.csv")
    test.equal("a negative capacity", test.run("layout", "good.csv", "--capacity=-1").code in (2, 3), True)
    test.that(not test.path("out.csv").exists(), "no layout is written from bad input")


def main():
    test = Test("bad_input")
    test.run_parts(table, too_small, places, full_disk, weights, plans, layouts)
    test.finish()


if __name__ == "__main__":
    main()
