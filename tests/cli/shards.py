#!/usr/bin/env python3
"""Folders with weights in several files: reading and writing change no bit, runs resume without them, hostile indexes fail."""

import json
import os
import shutil
import struct

from _plimsoll import Test

FILES = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"


def read_file(path):
    """{name: (type, shape, bytes)}; metadata as "format" demands."""
    blob = path.read_bytes()
    length = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8 : 8 + length])
    metadata = header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], blob[8 + length + begin : 8 + length + end])
    return tensors, metadata


def write_file(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def narrow(content, kind):
    """fp32 cut to bf16, or rounded to fp16."""
    if kind == "BF16":
        return b"".join(content[i + 2 : i + 4] for i in range(0, len(content), 4))
    if kind == "F16":
        count = len(content) // 4
        halves = struct.unpack(f"<{count}H", struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", content)))
        return struct.pack(f"<{count}H", *(0 if half == 0x8000 else half for half in halves))  # -0 less an update of 0 is 0
    return content


def write_folder(test, name, kinds, prefix="transformer."):
    """A folder of two shards from the weights of the run `base`; the types of the tensors take turns."""
    folder = test.path(name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    whole, _ = read_file(test.path("base/weights/model.safetensors"))
    shards, places = [{}, {}], {}
    for i, (tensor, (_, shape, content)) in enumerate(sorted(whole.items())):
        kind, place = kinds[i % len(kinds)], i % 3 // 2
        shards[place][prefix + tensor] = (kind, shape, narrow(content, kind))
        places[prefix + tensor] = FILES[place]
    for file, tensors in zip(FILES, shards):
        write_file(folder / file, tensors)
    total = sum(len(content) for tensors in shards for _, _, content in tensors.values())
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    config = json.loads(test.path("base/weights/config.json").read_text())
    config["torch_dtype"] = "bfloat16" if len(kinds) == 1 else "float16"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text("{}")
    return folder


def contents(folder):
    """{name: (file, type, shape, bytes)} of all shards."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in read_file(path)[0].items():
            found[name] = (path.name, *tensor)
    return found


def still(test, name, init, *more):
    test.write("still.toml", tuned(test).replace('name = "adamw"', 'name = "sgd"').replace("= 1e-3", "= 0.0"))
    return test.succeeds("train", "still.toml", "--set", f"model.init={test.path(init)}", "--run", name, "--json", *more)


def tuned(test):
    shape = 'kind = "gpt2"\nlayers = 2\nwidth = 32\nheads = 2\ncontext = 32\nvocab = 256\n'
    return test.path("config.toml").read_text().replace(shape, 'init = "in"\n')


def in_and_out(test):
    for name, kinds in (("bf16", ["BF16"]), ("mixed", ["F32", "BF16", "F16"]), ("fp16", ["F16"])):
        folder = write_folder(test, name, kinds)
        still(test, f"still-{name}", name, "--set", "optimizer.ema_half_life=10samples")
        before = contents(folder)
        for weights in ("weights", "weights_ema"):
            saved = test.path(f"still-{name}/{weights}")
            after = contents(saved)
            test.equal(f"names in {saved}", sorted(after), sorted(before))
            test.that(after == before, f"file, type and bits of each tensor in {saved}")
            test.equal(f"index of {saved}", json.loads((saved / INDEX).read_text()), json.loads((folder / INDEX).read_text()))
            said = {"bf16": "bfloat16", "mixed": "float16", "fp16": "float16"}[name]
            test.equal(f"type in {saved}", json.loads((saved / "config.json").read_text())["torch_dtype"], said)
            test.equal(f"metadata in {saved}", {str(read_file(saved / file)[1]) for file in FILES}, {"{'format': 'pt'}"})
            test.that((saved / "generation_config.json").is_file(), f"{saved} has what lies beside the weights")
            left = [path.name for path in saved.parent.iterdir() if "partial" in path.name]
            test.equal(f"what is left beside {saved}", left, [])
    # The folder is used like any other.
    losses = [
        test.succeeds("eval", "config.toml", "--weights", weights, "--json")["loss_bits"]
        for weights in ("bf16", "still-bf16", test.path("bf16") / INDEX)
    ]
    test.equal("loss of what went in and came out", losses[0], losses[1])
    test.equal("loss by the index", losses[0], losses[2])


def trained(test):
    """Training keeps the types of tensors, and parameters in 16 bits widen to the type of the folder."""
    write_folder(test, "in", ["F32", "BF16"])
    test.write("tuned.toml", tuned(test))
    test.succeeds("train", "tuned.toml", "--run", "moved-on", "--json")
    before, after = contents(test.path("in")), contents(test.path("moved-on/weights"))
    test.equal("files, types and shapes", {k: v[:3] for k, v in after.items()}, {k: v[:3] for k, v in before.items()})
    changed = sum(before[name][3] != after[name][3] for name in before)
    test.that(changed > len(before) / 2, f"{changed} of {len(before)} tensors changed")


def goes_on(test):
    """A run continues equally with and without the folder from which it began; a run of an earlier version has no stored.json."""
    write_folder(test, "in", ["BF16"])
    test.write("tuned.toml", tuned(test))
    test.succeeds("train", "tuned.toml", "--run", "whole", "--json")
    for run in ("parted", "older"):
        test.succeeds("train", "tuned.toml", "--run", run, "--updates", "2", "--json")
    test.path("older/stored.json").unlink()
    os.rename(test.path("in"), test.path("moved"))
    # The remains of a run that was killed during saving or renaming.
    for name in ("weights.partial-1", "weights_ema.replaced.partial-1"):
        test.write(f"parted/{name}/model.safetensors", b"torn")
    for run in ("parted", "older"):
        test.succeeds("train", "--run", run, "--resume", "--json")
        test.equal(f"weights of {run}", test.report(run)["final"], test.report("whole")["final"])
    test.that(contents(test.path("parted/weights")) == contents(test.path("whole/weights")), "the same files, to the bit")
    test.equal("what was left is gone", sorted(p.name for p in test.path("parted").glob("*partial*")), [])
    older = contents(test.path("older/weights"))
    test.equal("files of an earlier run", {v[0] for v in older.values()}, {"model.safetensors"})
    test.equal("types of an earlier run", {v[1] for v in older.values()}, {"F32"})
    test.that(not (test.path("older/weights") / INDEX).exists(), "one file needs no index")

    os.rename(test.path("moved"), test.path("in"))
    test.write("parted/stored.json", "{}")
    test.fails(5, "E-RUN-STORED", "train", "--run", "parted", "--resume", "--updates", "7")


def hostile(test):
    """An index that lies: plan and train refuse it, and no run is left."""
    folder = write_folder(test, "in", ["BF16"])
    test.write("tuned.toml", tuned(test))
    good = json.loads((folder / INDEX).read_text())
    places = good["weight_map"]
    wte = "transformer.wte.weight"
    last = next(name for name in places if places[name] == FILES[1])

    def with_map(**changes):
        return json.dumps({**good, "weight_map": {**places, **changes}})

    def refused(what, code="E-FORMAT-INDEX", text=""):
        for command in (["plan"], ["train", "--run", "run"]):
            error = test.fails(5, code, command[0], "tuned.toml", *command[1:])
            test.that(error and text in error["message"], f"{what}: {error}")
        test.that(not test.path("run").exists(), f"no run is left after {what}")

    outside = test.write("outside.safetensors", (folder / FILES[0]).read_bytes())
    for what, index, text in (
        ("an absolute path", with_map(**{wte: str(outside)}), "outside.safetensors"),
        ("a path upwards", with_map(**{wte: "../outside.safetensors"}), "../outside"),
        ("a path through a folder", with_map(**{wte: "x/../" + FILES[0]}), "not a plain file name"),
        ("a missing file", with_map(**{wte: "model-00003-of-00002.safetensors"}), "model-00003-of-00002.safetensors"),
        ("a tensor that is elsewhere", with_map(**{wte: FILES[1]}), wte),
        ("a tensor that is nowhere", with_map(**{"transformer.h.9.x": FILES[0]}), "transformer.h.9.x"),
        ("a tensor without a line", json.dumps({"weight_map": {k: v for k, v in places.items() if k != wte}}), wte),
        ("a number for a file", with_map(**{wte: 1}), "a number"),
        ("a list for the map", json.dumps({"weight_map": list(places)}), "weight_map is a list"),
        ("no map", "{}", "no weight_map"),
        ("no JSON", '{"weight_map": {', "not JSON"),
        ("a deep one", '{"metadata":' + '{"a":' * 100000, "nested"),
        ("a large one", " " * (17 << 20), "bytes"),
    ):
        (folder / INDEX).write_text(index)
        refused(what, text=text)
    (folder / INDEX).write_text(json.dumps(good))
    two = read_file(folder / FILES[1])[0]
    write_file(folder / FILES[1], {**two, wte: read_file(folder / FILES[0])[0][wte]})
    refused("a tensor in two files", text=wte)
    write_file(folder / FILES[1], {name: tensor for name, tensor in two.items() if name != last})
    refused("a tensor that its file lacks", text=last)
    write_file(folder / FILES[1], two)
    (folder / FILES[0]).unlink()
    refused("a missing file", text=FILES[0])
    (folder / FILES[0]).symlink_to(outside)
    refused("a link to the outside", text="outside of the folder")
    # A file of all weights counts where both are there.
    (folder / INDEX).write_text("{")
    shutil.copy(test.path("base/weights/model.safetensors"), folder / "model.safetensors")
    test.succeeds("plan", "tuned.toml", "--json")


def tied(test):
    """The head beside the table of tokens: the same numbers, or an error that names both."""
    folder = write_folder(test, "in", ["BF16"])
    test.write("tuned.toml", tuned(test))
    one, index = read_file(folder / FILES[0])[0], json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({"weight_map": {**index["weight_map"], "lm_head.weight": FILES[0]}}))
    kind, shape, content = one["transformer.wte.weight"]
    write_file(folder / FILES[0], {**one, "lm_head.weight": (kind, shape, content)})
    still(test, "tied", "in")
    after = contents(test.path("tied/weights"))
    test.equal("names", sorted(after), sorted(index["weight_map"]))
    test.that(after["transformer.wte.weight"][3] == content, "bits of the table")
    write_file(folder / FILES[0], {**one, "lm_head.weight": (kind, shape, content[:-1] + bytes([content[-1] ^ 1]))})
    for command in (["plan"], ["train", "--run", "run"]):
        error = test.fails(5, "E-FORMAT-TIE", command[0], "tuned.toml", *command[1:])
        test.that(error and "lm_head.weight" in error["message"] and "wte.weight" in error["message"], f"both: {error}")
        test.that(error and "tie_word_embeddings" in " ".join(error["try"]), f"what to try: {error}")
    test.that(not test.path("run").exists(), "no run is left")


def main():
    test = Test("shards")
    test.succeeds("train", "config.toml", "--run", "base", "--updates", "3", "--json")
    test.run_parts(in_and_out, trained, goes_on, hostile, tied)
    test.finish()


if __name__ == "__main__":
    main()
