#!/usr/bin/env python3
"""Untrusted files of any size and shape: python3 untrusted_files.py path/to/plimsoll

Reading any file ends soon and within memory in proportion to the file's use, or in a coded error that names the file. Each
process is measured: its CPU seconds and the highest resident size of all processes that it starts.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time

from _plimsoll import Test

MIB = 1 << 20
CHAT = pathlib.Path(__file__).resolve().parent.parent / "chat"
LLAMA = """[model]
kind = "llama"
layers = 3
width = 64
heads = 4
mlp_width = 128
context = 64
vocab = 256
[data]
train = "train.txt"
format = "bytes"
[train]
effective_batch = 4
updates = 3
[machine]
threads = 2
"""


def peak_of(process):
    """The highest resident size so far of a process and the processes that it started."""
    peak = 0
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = 1024 * int(line.split()[1])
        for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
            peak = max(peak, peak_of(child))
    except OSError:
        pass
    return peak


def measured(test, *arguments):
    """Exit code, stderr, the error's code, CPU seconds, bytes at most: of all that is seen every few milliseconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [test.binary, *map(str, arguments)], cwd=test.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        held, status = 0, 0
        while True:
            held = max(held, peak_of(process.pid))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.004)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = err.read().decode("utf-8", "replace")
        try:
            code = json.loads(out.read()).get("code")
        except (ValueError, AttributeError):
            code = None
    return process.returncode, text, code, usage.ru_utime + usage.ru_stime, held


def ends(test, what, arguments, exit_code, code, names="", seconds=20, memory=64 * MIB):
    got, text, got_code, took, held = measured(test, *arguments, *([] if arguments[0] == "explain" else ["--json"]))
    print(f"  {what}: exit {got}, {took:.1f} CPU s, {held / MIB:.0f} MiB", flush=True)
    good = test.equal(f"exit code of {what}", got, exit_code)
    if exit_code != 0:
        good &= test.that(code in text and got_code in (code, None), f"code of {what} is {got_code}, expected {code}")
        good &= test.that(names in text, f"the error of {what} names {names}")
        test.that("machine-" not in text, f"the error of {what} does not advise to remove the machine file")
    test.that(took < seconds, f"{what} takes {took:.1f} CPU s, expected below {seconds}")
    test.that(held <= memory, f"{what} holds {held / MIB:.1f} MiB, expected {memory / MIB:.1f} at most")
    if not good:
        print(text[-1500:])


def prepare(test):
    """A model to begin from, and a configuration for it."""
    test.succeeds("machine")
    test.write("llama.toml", LLAMA)
    test.succeeds("train", "llama.toml", "--memory", "64MiB", "--run", "base")
    test.write("from.toml", LLAMA[LLAMA.index("[data]") :] + '[model]\ninit = "model"\ncontext = 32\n')
    test.write("adapter.toml", test.path("from.toml").read_text() + '[adapter]\nkind = "lora"\nrank = 4\n')


def model(test):
    shutil.rmtree(test.path("model"), ignore_errors=True)
    shutil.copytree(test.path("base/weights"), test.path("model"))
    return test.path("model")


TRAIN = ["train", "from.toml", "--memory", "64MiB", "--run", "run"]


def configurations(test):
    """config.json: many keys, deep ones, long ones."""
    path = model(test) / "config.json"
    good = json.loads(path.read_text())
    for what, content, exit_code in (
        ("40,000 keys that nobody reads", json.dumps({**good, **{f"key{i}": i for i in range(40000)}}), 0),
        ("200,000 values", json.dumps({**good, "list": [0] * 200000}), 5),
        ("a nesting of 100,000", '{"a":' + "[" * 100000, 5),
        ("a text of a MiB", json.dumps({**good, "text": "x" * MIB}), 5),
        ("20,000 empty objects", json.dumps({**good, "list": [{}] * 20000}), 0),
    ):
        path.write_text(content)
        shutil.rmtree(test.path("run"), ignore_errors=True)
        ends(test, f"config.json with {what}", TRAIN, exit_code, "E-FORMAT-CONFIG", "config.json")
    path.write_text(json.dumps({**good, "num_hidden_layers": 1 << 40}))
    ends(test, "config.json with 2^40 layers", TRAIN, 5, "E-FORMAT-CONFIG", "config.json")


def logs(test):
    """A resumed run reads its own lines."""
    arguments = ["train", "config.toml", "--run", "logged"]
    test.succeeds(*arguments)
    resume = ["train", "--run", "logged", "--resume", "--force", "--set"]
    updates = 6
    line = b'{"update":1,"loss":1,"grad_norm":1'
    for what, name, add in (
        ("zeros of 256 MiB", "metrics.jsonl", None),
        ("zeros of 256 MiB", "events.jsonl", None),
        ("a line of a million brackets", "metrics.jsonl", b"[" * MIB + b"\n"),
        ("a line of a million brackets", "eval.jsonl", b"[" * MIB + b"\n"),
        ("a line of 40 MiB", "eval.jsonl", line + b',"x":"' + b"y" * (40 * MIB) + b'"}\n'),
        ("a line of 40 MiB", "events.jsonl", line + b',"x":"' + b"y" * (40 * MIB) + b'"}\n'),
        ("300,000 lines of one update", "metrics.jsonl", (line + b"}\n") * 300000),
    ):
        path = test.path("logged") / name
        with open(path, "ab") as file:
            file.truncate(file.tell() + 256 * MIB) if add is None else file.write(add)
        updates += 2
        ends(test, f"{name} with {what}", [*resume, f"train.updates={updates}"], 0, None)
        kept = [each["update"] for each in test.lines("logged")]
        test.equal(f"updates behind {what} in {name}", kept, list(range(1, updates + 1)))
    for name in ("run.json", "settings.json"):
        whole = test.path("logged/" + name).read_bytes()
        test.path("logged/" + name).write_bytes(b'{"a":' + b"[" * 900000)
        got, text, _, _, held = measured(test, *resume, f"train.updates={updates + 2}")
        test.that(got in (0, 2, 5) and held <= 64 * MIB, f"a nested {name}: exit {got}, {held / MIB:.0f} MiB\n{text[-300:]}")
        test.path("logged/" + name).write_bytes(whole)


def with_metadata(path, metadata):
    blob = path.read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + size])
    header["__metadata__"] = {"format": "pt", **metadata}
    text = json.dumps(header, ensure_ascii=False).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob[8 + size :])


def metadata(test):
    """Only the tensors of a safetensors file take memory."""
    for what, content in (
        ("a text of 60 MB", {"x": "y" * (60 * MIB)}),
        ("texts of escapes and of other characters", {"x": "\n" * (10 * MIB), "y": "\u00e9\U0001f600" * (3 * MIB)}),
        ("400,000 texts", {f"key{i}": "y" * 50 for i in range(400000)}),
    ):
        with_metadata(model(test) / "model.safetensors", content)
        shutil.rmtree(test.path("run"), ignore_errors=True)
        ends(test, f"metadata with {what}", TRAIN, 0, None)
    names = ",".join(f'"t{i}":{{"dtype":"F32","shape":[],"data_offsets":[0,0]}}' for i in range(80000))
    text = f"{{{names}}}".encode()
    (test.path("model") / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    shutil.rmtree(test.path("run"), ignore_errors=True)
    ends(test, "a header of 80,000 tensors", TRAIN, 5, "E-FORMAT-SAFETENSORS", "model.safetensors")


def text_of(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf(keys, behind=b""):
    """A file of one matrix, and these keys."""
    whole = lambda key, value: text_of("llama." + key) + struct.pack("<IQ", 10, value)
    sizes = {"block_count": 1, "context_length": 64, "embedding_length": 32, "attention.head_count": 2, "feed_forward_length": 64}
    all_keys = [text_of("general.architecture") + struct.pack("<I", 8) + text_of("llama")]
    all_keys += [whole(key, value) for key, value in {**sizes, **keys}.items()]
    count = len(all_keys) + (1 if behind else 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, count) + b"".join(all_keys)
    if behind:
        return head + behind
    head += text_of("token_embd.weight") + struct.pack("<IQQIQ", 2, 32, 4, 0, 0)
    return head + bytes(-len(head) % 32) + bytes(512)


def claims(test):
    """GGUF files of a kilobyte with the numbers of a large one, and arrays in the holes of a sparse file."""
    generate = ["generate", "--weights", "x.gguf", "--prompt", "a", "--memory", "64MiB"]
    for key in ("block_count", "context_length", "embedding_length", "attention.head_count", "feed_forward_length"):
        for value in (10**9, (1 << 62) + 2):
            test.write("x.gguf", gguf({key: value}))
            got, text, code, took, held = measured(test, *generate, "--json")
            test.equal(f"exit code of {key} {value}", got, 5)
            test.that(str(code).startswith("E-FORMAT-"), f"{key} {value} ends in {code}: {text[-200:]}")
            test.that(took < 5 and held < 64 * MIB, f"{key} {value} takes {took:.1f} s and {held / MIB:.0f} MiB")
    test.write("x.gguf", gguf({"block_count": 10**9}))
    ends(test, "a GGUF file of 10^9 layers", generate, 5, "E-FORMAT-GGUF", "block_count", 5)
    for kind, element in ((8, "texts"), (0, "numbers")):
        array = text_of("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, kind, 1 << 36)
        path = test.write("x.gguf", gguf({}, array))
        with open(path, "r+b") as file:
            file.truncate(1 << 40)
        ends(test, f"2^36 {element} in a sparse GGUF file", generate, 5, "E-FORMAT-GGUF", "x.gguf", 10)
    test.path("x.gguf").unlink()


def patterns(test):
    """Regular expressions with exponential time: in a configuration, and in an untrusted adapter."""
    model(test)
    bomb = "(.*)*(.*)*X0"
    plan = ["plan", "adapter.toml", "--memory", "64MiB"]
    for setting in (f'adapter.rank_pattern=["{bomb}=2"]', f'adapter.alpha_pattern=["{bomb}=2"]', f"adapter.targets={bomb}"):
        ends(test, setting, [*plan, "--set", setting], 2, "E-CONFIG-VALUE", bomb, 20, 1024 * MIB)
    # Each of them within its own limit, and all of them together too many.
    cut = "(.*)(.*)(.*)(.*)X"
    many = "adapter.rank_pattern=[" + ",".join(f'"{cut}{i}=2"' for i in range(3000)) + "]"
    ends(test, "3,000 costly patterns", [*plan, "--set", many], 2, "E-CONFIG-VALUE", cut, 60, 1024 * MIB)
    freeze = ["plan", "from.toml", "--memory", "64MiB", "--set", f'model.freeze=["{bomb}"]']
    ends(test, "model.freeze", freeze, 2, "E-CONFIG-VALUE", bomb, 20, 1024 * MIB)
    test.succeeds("train", "adapter.toml", "--memory", "64MiB", "--run", "adapted")
    path = test.path("adapted/weights/adapter_config.json")
    good = json.loads(path.read_text())
    generate = ["generate", "--weights", "adapted/weights", "--prompt", "a", "--memory", "64MiB", "--tokens", "2"]
    for what, change, exit_code, code in (
        ("a rank_pattern", {"rank_pattern": {bomb: 4}}, 2, "E-CONFIG-VALUE"),
        ("an alpha_pattern", {"alpha_pattern": {bomb: 4}}, 2, "E-CONFIG-VALUE"),
        ("target_modules", {"target_modules": bomb}, 2, "E-CONFIG-VALUE"),
        ("5,000 patterns that match nothing", {"rank_pattern": {f"layer{i}": 2 for i in range(5000)}}, 0, None),
        ("40,000 keys that are not supported", {f"key{i}": None for i in range(40000)}, 0, None),
        ("200,000 patterns", {"rank_pattern": {f"layer{i}": 2 for i in range(200000)}}, 5, "E-ADAPTER-FOLDER"),
    ):
        path.write_text(json.dumps({**good, **change}))
        ends(test, f"adapter_config.json with {what}", generate, exit_code, code, "", 20)


def samples(test):
    """Long samples and long conversations."""
    folder = test.path("tokenizer")
    folder.mkdir(exist_ok=True)
    shutil.copy(CHAT / "tokenizer.json", folder / "tokenizer.json")
    plain = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    marked = plain.replace("{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}")
    set_template = lambda text: (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": text}))
    set_template(plain)
    test.write(
        "samples.toml",
        '[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 32\nvocab = 2000\n[data]\ntrain = "long.jsonl"\nformat = "chat"\n'
        'vocabulary = "tokenizer"\n[train]\neffective_batch = 1\nupdates = 1\n',
    )
    turns = lambda count: [
        message for i in range(count) for message in ({"role": "user", "content": f"a{i}"}, {"role": "assistant", "content": "b"})
    ]
    first = '{"text": "first"}\n'
    show = ["data", "show", "samples.toml", "--samples", "2"]
    for what, sample, size in (
        ("text", {"text": "a " * (10 * MIB)}, 20),
        ("text without spaces", {"text": "ab" * (10 * MIB)}, 20),
        ("a message", {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a " * (10 * MIB)}]}, 20),
    ):
        test.write("long.jsonl", first + json.dumps(sample) + "\n")
        got, text, _, took, held = measured(test, *show)
        print(f"  a sample of {size} MiB, {what}: {took:.1f} CPU s, {held / MIB:.0f} MiB", flush=True)
        test.equal(f"exit code of a sample of {size} MiB, {what}", got, 0)
        test.that(held <= (64 + 16 * size) * MIB, f"{what} of {size} MiB takes {held / MIB:.0f} MiB\n{text[-300:]}")
    train = ["train", "samples.toml", "--memory", "64MiB", "--run", "sampled"]
    ends(test, "a sample of 20 MiB in 64 MiB", train, 5, "E-DATA-JSON", "long.jsonl:2", 20)
    test.write("long.jsonl", first + json.dumps({"messages": turns(5000)}) + "\n")
    ends(test, "10,000 messages without marks", show, 5, "E-CHAT-MASK", "long.jsonl:2", 20)
    set_template(marked)
    ends(test, "10,000 messages with marks", show, 0, None, "", 20, 256 * MIB)
    test.write("long.jsonl", first + '{"messages": [' + "[]," * 300000 + "[]]}\n")
    ends(test, "a sample of 300,000 values", show, 5, "E-DATA-JSON", "long.jsonl:2", 20, 128 * MIB)
    test.write("long.jsonl", first + '{"text": "a"}\n')
    (folder / "tokenizer_config.json").write_text(json.dumps({"x": [[]] * 300000}))
    ends(test, "tokenizer_config.json with 300,000 values", show, 5, "E-TOKENIZER", "tokenizer_config.json", 20, 128 * MIB)


def instances(test):
    """Instance files of planning problems."""
    test.write("wide.csv", "id,lower,upper,size\n" + "," * 5000000 + "\n")
    ends(test, "a line of 5,000,000 fields", ["layout", "wide.csv", "--minimize"], 5, "E-LAYOUT-CSV", "wide.csv:2")
    ends(test, "an endless file", ["layout", "/dev/zero", "--minimize"], 5, "E-LAYOUT-CSV", "/dev/zero", 20, 600 * MIB)
    with open(test.path("long.csv"), "w") as file:
        file.write("id,lower,upper,size\n")
        file.truncate((256 << 20) + 1)
    ends(test, "256 MiB and a byte", ["layout", "long.csv", "--minimize"], 5, "E-LAYOUT-CSV", "268435456 bytes", 20, 600 * MIB)
    test.write("deep.json", '{"schema":' + "[" * 5000000)
    ends(test, "a deep instance", ["recompute", "deep.json", "--memory", "1MiB"], 5, "E-INSTANCE", "deep.json")
    ends(test, "a deep plan", ["explain", "0", "--plan", "deep.json"], 2, "E-PLAN-FILE", "deep.json")
    test.write("deep.toml", "a" + ".a" * 400000 + " = 1\n")
    ends(test, "a deep machine", ["plan", "config.toml", "--machine", "deep.toml"], 2, "E-MACHINE-FILE", "deep.toml")


def main():
    test = Test("untrusted_files")
    test.run_parts(prepare, configurations, logs, metadata, claims, patterns, samples, instances)
    test.finish()


if __name__ == "__main__":
    main()
