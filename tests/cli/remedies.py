#!/usr/bin/env python3
"""Advice in the situations of conversations, adapters, tokenizers and tables: python3 remedies.py path/to/plimsoll

Each error is provoked, and its advice is followed as printed, with names of folders and files that need quotes in a shell.
"""

import json
import os
import pathlib
import random
import shlex
import shutil
import struct
import subprocess
import tempfile

from _plimsoll import Test, prose
from adapters import header_of, write_tensors
from advice import SMALL, follows, provoked
from train_conversations import prepare

MARK = "\u2581"
BASE = "a base, it's new"


def base(test):
    """A folder with weights, a tokenizer and a template, and a configuration of an adapter over it."""
    if test.path(BASE).exists():
        return "tune.toml"
    config = prepare(test)
    test.succeeds("train", config, "--updates", 1, "--memory", "1GiB", "--run", "first", "--json")
    shutil.copytree(test.path("first/weights"), test.path(BASE))
    test.write("text.txt", "the red sea and a green ship\n" * 200)
    test.write("tune.toml", f'[model]\ninit = "{BASE}"\ncontext = 64\n[data]\ntrain = "chats.jsonl"\nformat = "chat"\n'
               "[train]\neffective_batch = 2\nupdates = 1\n[memory]\nbudget = \"1GiB\"\n[machine]\nthreads = 1\n")  # fmt: skip
    return "tune.toml"


def spare_tokens(test):
    """A token without a row in the table stops only the text that contains it."""
    tune = base(test)
    spare = test.path("spare")
    shutil.copytree(test.path(BASE), spare)
    tokenizer = json.loads((spare / "tokenizer.json").read_text())
    rows = 1 + max(*tokenizer["model"]["vocab"].values(), *(each["id"] for each in tokenizer["added_tokens"]))
    tokenizer["added_tokens"].append({"id": rows, "content": "<pad>", "single_word": False, "lstrip": False, "rstrip": False,
                                      "normalized": False, "special": True})  # fmt: skip
    (spare / "tokenizer.json").write_text(json.dumps(tokenizer))
    of_spare = ["--set", "model.init=spare"]
    of_text = [*of_spare, "--set", "data.train=text.txt", "--set", "data.format=bpe"]
    test.succeeds("train", tune, *of_spare, "--run", "spare chats")
    test.succeeds("train", tune, *of_text, "--run", "spare texts")
    test.succeeds("eval", tune, "--set", "data.train=text.txt", "--set", "data.format=bpe", "--set",
                  "data.vocabulary=spare", "--weights", "spare")  # fmt: skip
    # At this temperature a row that is not there would be drawn soon.
    test.succeeds("generate", "--weights", "spare", "--prompt", "red", "--tokens", 40, "--temperature", 1000, "--memory", "1GiB")
    test.succeeds("generate", "--weights", "spare", "--chat", "--prompt", "red", "--tokens", 4, "--memory", "1GiB")
    test.write("padded.txt", "the red <pad> sea\n" * 200)
    error = test.fails(5, "E-DATA-TOKEN", "train", tune, *of_text, "--set", "data.train=padded.txt", "--run", "padded")
    test.that(error and "<pad>" in error["message"], f"the token is named: {error}")
    test.fails(5, "E-DATA-TOKEN", "generate", "--weights", "spare", "--prompt", "<pad>", "--memory", "1GiB")
    test.write("padded.jsonl", json.dumps({"prompt": "red", "completion": "<pad>"}) + "\n")
    error = test.fails(5, "E-DATA-TOKEN", "train", tune, *of_spare, "--set", "data.train=padded.jsonl", "--run", "padded")
    test.that(error and "padded.jsonl:1" in error["where"], f"the sample is named: {error}")
    report = test.succeeds("export", "--weights", "spare", "--gguf", "spare.gguf", "--type", "F32", "--json")
    test.that(report and report["tokenizer"], "the file has the tokens that the table has rows for")
    # Tokens that a file holds, past weights that no key makes larger.
    test.write("past.bin", struct.pack("<600H", *([5] * 599), rows + 3))
    error = test.fails(5, "E-DATA-TOKEN", "train", tune, "--set", "data.train=past.bin", "--set", "data.format=u16", "--run",
                       "past")  # fmt: skip
    test.equal("no key is advised that the weights refuse", error and error["try"], [])


def ranks(test):
    """A rank above a side of its matrix is accepted."""
    tune = base(test)
    for kind in ("lora", "dora"):
        wide = ["--set", f"adapter.kind={kind}", "--set", "adapter.rank=100", "--set", 'adapter.targets=["q_proj", "k_proj"]']
        test.succeeds("train", tune, *wide, "--run", f"wide {kind}")
        test.succeeds("generate", "--adapter", f"wide {kind}", "--prompt", "red", "--tokens", 2, "--memory", "1GiB")
        test.succeeds("merge", "--adapter", f"wide {kind}", "--out", f"{kind}-merged")


def adapters(test):
    """Impossible adapters, in a configuration and as an existing folder."""
    tune = base(test)
    lora = ["--set", "adapter.kind=lora"]
    for targets in ('["q_proj", "lm_head"]', '["lm_head"]', '["v_proj", "embed_tokens"]'):
        provoked(test, 2, "E-ADAPTER-TARGET", ["plan", tune, *lora, "--set", f"adapter.targets={targets}", "--memory", "2GiB"])
    test.succeeds("train", tune, *lora, "--set", 'adapter.targets=["q_proj"]', "--run", "an adapter")
    folder = test.path("an adapter/weights")
    settings = json.loads((folder / "adapter_config.json").read_text())

    def changed(name, **settings_of):
        copy = test.path(name)
        shutil.copytree(folder, copy)
        (copy / "adapter_config.json").write_text(json.dumps({**settings, **settings_of}))
        return copy

    # An adapter whose base has another place.
    moved = changed("moved adapter", base_model_name_or_path="org/model")
    alone = test.write("alone.toml", '[adapter]\ninit = "moved adapter"\n[data]\ntrain = "chats.jsonl"\nformat = "chat"\n'
                       "[train]\neffective_batch = 2\nupdates = 1\n[model]\ncontext = 64\n")  # fmt: skip
    filled = lambda error: [advice.replace("BASE", shlex.quote(BASE)) for advice in error["try"]]
    for command in (["train", alone, "--run", "on moved", "--memory", "1GiB"],
                    ["generate", "--adapter", moved, "--prompt", "red", "--tokens", "1", "--memory", "1GiB"],
                    ["merge", "--adapter", moved, "--out", "moved-merged"]):  # fmt: skip
        error = test.fails(5, "E-ADAPTER-BASE", *command)
        for advice in filled(error):
            follows(test, "E-ADAPTER-BASE", advice, [str(word) for word in command])
    test.succeeds("eval", alone, "--adapter", moved, "--weights", BASE, "--memory", "1GiB")
    # An adapter of the head, which every command refuses by its name.
    head = changed("adapter of the head", target_modules=["q_proj", "lm_head"])
    header, data = header_of(folder / "adapter_model.safetensors")
    rank, width, rows = settings["r"], 64, json.loads((test.path(BASE) / "config.json").read_text())["vocab_size"]
    for part, shape in (("lora_A", [rank, width]), ("lora_B", [rows, rank])):
        size = 4 * shape[0] * shape[1]
        header[f"base_model.model.lm_head.{part}.weight"] = {"dtype": "F32", "shape": shape,
                                                             "data_offsets": [len(data), len(data) + size]}  # fmt: skip
        data += bytes(size)
    write_tensors(head / "adapter_model.safetensors", header, data)
    for command in (["generate", "--adapter", head, "--prompt", "red", "--tokens", "1"],
                    ["merge", "--adapter", head, "--out", "of"],
                    ["train", tune, "--set", f"adapter.init={head}", "--run", "of"]):  # fmt: skip
        error = test.fails(5, "E-ADAPTER-FEATURE", *command)
        test.that(error and "lm_head" in error["message"], f"the head is named: {error}")
    provoked(test, 5, "E-ADAPTER-FOLDER", ["init", folder, "chats.jsonl"], only=lambda advice: False, advices=0)
    error = test.fails(5, "E-ADAPTER-FOLDER", "plan", tune, "--set", f"model.init={folder}")
    for advice in filled(error):
        if "adapter.init" in advice:
            follows(test, "an adapter as the model", advice, ["plan", tune, "--memory", "1GiB"])


def tied_tables(test):
    """A tied table with an adapter that names one of its two names."""
    base(test)
    tied = test.write("tied.toml", SMALL.replace("dropout = 0.1\n", ""))
    test.succeeds("train", tied, "--run", "tied base")
    on_tied = test.write("on tied.toml", SMALL.replace('kind = "gpt2"\nlayers = 2\nwidth = 32\nheads = 2\n',
                         'init = "tied base/weights"\n').replace("vocab = 256\ndropout = 0.1\n", ""))  # fmt: skip
    lora = ["--set", "adapter.kind=lora", "--set", 'adapter.targets=["c_attn"]']
    provoked(test, 2, "E-ADAPTER-TIED", ["plan", on_tied, *lora, "--set", 'adapter.modules_to_save=["wte"]'])
    test.succeeds("train", on_tied, *lora, "--set", 'adapter.modules_to_save=["wte", "lm_head"]', "--run", "tied run")
    one = test.path("one of two's names")
    shutil.copytree(test.path("tied run/weights"), one)
    settings = json.loads((one / "adapter_config.json").read_text())
    (one / "adapter_config.json").write_text(json.dumps({**settings, "modules_to_save": ["wte"]}))
    header, data = header_of(one / "adapter_model.safetensors")
    del header["base_model.model.lm_head.weight"]
    kept = {name: entry for name, entry in header.items() if name != "__metadata__"}
    packed, out = b"", {}
    for name, entry in kept.items():
        begin, end = entry["data_offsets"]
        out[name] = {**entry, "data_offsets": [len(packed), len(packed) + end - begin]}
        packed += data[begin:end]
    write_tensors(one / "adapter_model.safetensors", out, packed)
    generate = ["generate", "--adapter", one, "--prompt", "ab", "--tokens", "2", "--memory", "64MiB"]
    error = provoked(test, 5, "E-ADAPTER-TIED", generate)
    merged = [word for word in shlex.split(error["try"][0])][-1]
    test.succeeds("generate", "--weights", merged, "--prompt", "ab", "--tokens", 2, "--memory", "64MiB")


def exports(test):
    """An adapter that no GGUF file holds."""
    tune = base(test)
    test.succeeds("train", tune, "--set", "adapter.kind=dora", "--run", "it's dora")
    provoked(test, 5, "E-EXPORT-ADAPTER", ["export", "--adapter", "it's dora", "--gguf", "a file.gguf", "--type", "F16"])
    test.that(test.path("a file.gguf").exists(), "the merged model is exported")


def hints(test):
    """A run of conversations ends with the command that talks to it; one of samples without a template does not."""
    tune = base(test)

    def last(*command):
        said = test.run("train", *command).text()[1].splitlines()
        return next((line.removeprefix("try: ") for line in said if line.startswith("try: ")), "")

    command = last(tune, "--run", "it's talk")
    test.that(command.endswith(" --chat"), f"a chat goes on as a chat: {command}")
    follows(test, "the hint of a chat", command, [])
    command = last(tune, "--set", "adapter.kind=lora", "--run", "talk of an adapter")
    test.that(command.endswith(" --chat"), f"an adapter's, too: {command}")
    follows(test, "the hint of an adapter's chat", command, [])
    plain = test.path("plain")
    shutil.copytree(test.path(BASE), plain)
    (plain / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (plain / "chat_template.jinja").unlink(missing_ok=True)
    test.write("pairs.jsonl", "".join(json.dumps({"prompt": "red", "completion": f" sea {i}"}) + "\n" for i in range(9)))
    command = last(tune, "--set", "model.init=plain", "--set", "data.train=pairs.jsonl", "--run", "pairs")
    test.that("--prompt" in command, f"without a template there is a prompt: {command}")
    follows(test, "the hint without a template", command, [])
    test.fails(5, "E-CHAT-TEMPLATE", "generate", "--weights", "plain", "--chat", "--prompt", "red")


def tables(test):
    """Data of other kinds: the printed command makes a new file, which the same configuration takes."""
    tune = base(test)
    rng = random.Random(4)
    sentence = lambda: " ".join(rng.choice(("red", "sea", "ship, line", 'a "deck"')) for _ in range(5))
    cell = lambda text: '"' + text.replace('"', '""') + '"'
    rows = [(sentence(), sentence()) for _ in range(12)]
    tables_of = {
        "it's a table.csv": "question,answer,id\n" + "".join(f"{cell(a)},{cell(b)},{i}\n" for i, (a, b) in enumerate(rows)),
        "prompts.csv": "\ufeffprompt,completion\r\n" + "".join(f"{cell(a)},{cell(b)}\r\n" for a, b in rows),
        "alpaca.tsv": "instruction\tinput\toutput\n" + "".join(f"{cell(a)}\t\t{cell(b)}\n" for a, b in rows),
        "semicolons.csv": "Frage;Antwort\n" + "".join(f"{cell(a)};{cell(b)}\n" for a, b in rows),
        "short.csv": "question,answer\n" + "".join(f"{cell(a)},{cell(b)}\n" for a, b in rows) + "alone\n",
        "messages.csv": "id,messages\n" + "".join(
            f"{i},{cell(json.dumps([{'role': 'user', 'content': a}, {'role': 'assistant', 'content': b}]))}\n"
            for i, (a, b) in enumerate(rows)),
        "column.csv": "review,label\n" + "".join(f"{cell(a + b)},{i}\n" for i, (a, b) in enumerate(rows)),
    }  # fmt: skip

    def converted(error, name):
        before = set(os.listdir(test.folder))
        done = subprocess.run(["sh", "-c", error["try"][0]], cwd=test.folder, capture_output=True, timeout=60)
        test.equal(f"exit code of `{error['try'][0]}`: {done.stderr[-300:]}", done.returncode, 0)
        made = sorted(set(os.listdir(test.folder)) - before)
        test.equal(f"new files of {name}", len(made), 1)
        return made[0] if made else name

    for name, content in tables_of.items():
        test.write(name, content)
        error = test.fails(5, "E-DATA-FORMAT", "train", tune, "--set", f"data.train={name}", "--run", "table")
        made = converted(error, name)
        test.succeeds("train", tune, "--set", f"data.train={made}", "--run", f"of {name}")
    test.write("train.jsonl", "".join(json.dumps({"id": i, "body": a + b}) + "\n" for i, (a, b) in enumerate(rows)))
    as_text = ["--set", "data.format=auto", "--run", "texts"]
    for name, which in (("it's a table.csv", 0), ("alpaca.tsv", 0), ("train.jsonl", 1)):
        error = test.fails(5, "E-DATA-FORMAT", "train", tune, *as_text, "--set", f"data.train={name}")
        made = converted({"try": error["try"][which:]}, name)
        test.succeeds("train", tune, "--set", f"data.train={made}", "--set", "data.format=auto", "--run", f"texts of {name}")
    before = "wide characters\n" * 200
    test.write("train.txt", before.encode("utf-16"))
    error = test.fails(5, "E-DATA-FORMAT", "train", "config.toml", "--set", "data.format=auto", "--run", "wide")
    made = converted(error, "train.txt")
    test.equal("the text in UTF-8", test.path(made).read_text(), before)
    test.equal("the file that was read", test.path("train.txt").read_bytes(), before.encode("utf-16"))
    test.write("train.txt", prose(1, 20000))
    error = test.fails(5, "E-DATA-FORMAT", "train", tune, "--set", "data.train=train.jsonl", *as_text)
    as_it_is = next(advice for advice in error["try"] if "data.format=bytes" in advice)
    follows(test, "as bytes", as_it_is, ["train", "config.toml", "--set", "data.train=train.jsonl", "--set",
            "data.validation=train.jsonl", "--run", "as it is"])  # fmt: skip


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """The bytes of one field of a protobuf message."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentencepiece(kind=2, prefix=1, own=()):
    """A tokenizer.model: bytes, letters and two words, behind pieces of the user's own."""
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *((piece, 0.0, 4) for piece in own)]
    pieces += [(f"<0x{i:02X}>", 0.0, 6) for i in range(256)]
    words = ["th", "the", f"{MARK}the", "ca", "cat", f"{MARK}cat"]
    pieces += [(word, -float(i), 1) for i, word in enumerate(words)]
    pieces += [(letter, -50.0 - i, 1) for i, letter in enumerate(f"{MARK}theca")]
    out = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, which)) for text, score, which in pieces)
    return out + field(2, field(3, kind) + field(35, 1)) + field(3, field(3, prefix) + field(4, 0)), len(pieces)


def sentencepieces(test):
    """A folder whose only tokenizer is SentencePiece's: it is read, trained on and exported; other models are refused."""
    base(test)
    model, size = sentencepiece()
    test.write("pieces/tokenizer.model", model)
    the, cat, space = 261, 264, 265
    ids = lambda *more: test.succeeds("tokenize", "--tokenizer", *more, "--json")["ids"]
    test.equal("tokens", ids("pieces", "the cat"), [1, the, cat])
    test.equal("a space is a mark", ids("pieces", " the"), [1, space, the])
    test.equal("bytes of what is no piece", ids("pieces", "the\u00e9"), [1, the, 3 + 0xC3, 3 + 0xA9])
    test.equal("by the file itself", ids("pieces/tokenizer.model", "the", "--no-special"), [the])
    decoded = test.succeeds("tokenize", "--tokenizer", "pieces", "--decode", f"1 {the} {cat}", "--json")
    test.equal("text", decoded["text"], "the cat")
    test.write("pieces/tokenizer_config.json", json.dumps({"legacy": False, "add_bos_token": False}))
    test.equal("a space before a whole text alone", ids("pieces", " the"), [the])
    test.write("pieces/added_tokens.json", json.dumps({"<pad>": size}))
    test.equal("an added token", ids("pieces", "the<pad>"), [the, size])
    test.path("pieces/added_tokens.json").unlink()
    shape = f"""model={{kind="llama",layers=1,width=16,heads=2,kv_heads=1,mlp_width=32,context=16,vocab={size}}}
data={{train="cats.txt",format="bpe",vocabulary="pieces"}}
train={{effective_batch=2,updates=1}}
"""
    test.write("pieces.toml", shape)
    test.write("cats.txt", "the cat\n" * 200)
    test.succeeds("train", "pieces.toml", "--memory", "256MiB", "--run", "pieces run")
    test.succeeds("generate", "--weights", "pieces run", "--prompt", "the", "--tokens", 3, "--memory", "256MiB")
    test.succeeds("export", "--weights", "pieces run", "--gguf", "pieces.gguf", "--type", "F32")
    for text in ("the cat", " the", "the  cat"):
        test.equal(f"tokens of '{text}' by the GGUF file", ids("pieces.gguf", text), ids("pieces", text))
    test.write("own/tokenizer.model", sentencepiece(prefix=0, own=(MARK * 4, "<turn>"))[0])
    test.equal("pieces of the user", ids("own", "the    the<turn>"), [1, the + 1, 3, the + 1, 4])
    test.write("unigram/tokenizer.model", sentencepiece(kind=1)[0])
    error = test.fails(5, "E-TOKENIZER", "tokenize", "--tokenizer", "unigram", "the")
    test.that(error and "Unigram" in error["message"], f"the kind is named: {error}")
    for cut in (1, 9, len(model) // 2 + 1, len(model) - 1):
        test.write("cut/tokenizer.model", model[:cut])
        result = test.run("tokenize", "--tokenizer", "cut", "the")
        test.that(result.code == 5 and "E-TOKENIZER" in result.text()[1], f"cut after {cut} bytes: {result.text()[1]}")
        test.that("data." not in result.text()[1], f"no advice on data where none are read: {result.text()[1]}")
    # Alone in a model's folder it is the vocabulary of the model: for data of any format, for eval, and for an adapter.
    shutil.copytree(test.path("pieces run/weights"), test.path("pieces model"))
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        test.path(f"pieces model/{name}").unlink(missing_ok=True)
    test.write("pieces model/tokenizer.model", model)
    test.write("cats.jsonl", json.dumps({"text": "the cat"}) + "\n" + json.dumps({"text": "the the cat"}) + "\n")
    test.write("on-pieces.toml", """model={init="pieces model",context=16}
data={train="cats.jsonl",format="chat"}
train={effective_batch=2,updates=1}
""")
    for given in ([], ["--set", "data.train=cats.txt", "--set", "data.format=bpe"]):
        test.succeeds("plan", "on-pieces.toml", "--memory", "256MiB", *given, "--json")
    test.succeeds("train", "on-pieces.toml", "--memory", "256MiB", "--run", "on pieces", "--json")
    other = ["--set", "data.vocabulary=folder", "--set", "data.train=cats.txt", "--set", "data.format=bpe", "--json"]
    test.path("folder").mkdir(exist_ok=True)
    result = test.run("eval", "on-pieces.toml", "--weights", "pieces model", "--memory", "256MiB", *other)
    test.that("carries no vocabulary" not in result.text()[1], f"eval reads it: {result.text()[1]}")
    test.write("pieces model/tokenizer.model", model[: len(model) // 2 + 1])
    error = test.fails(5, "E-TOKENIZER", "plan", "on-pieces.toml", "--memory", "256MiB")
    test.that(error and "as it was published" in error["expected"], f"a cut one is told: {error}")


def metaspaces(test):
    """Exported: the file has the tokens of the tokenizer, wherever that puts spaces."""
    base(test)
    if not test.path("pieces run").exists():
        sentencepieces(test)
    for scheme in ("first", "always", "never"):
        folder = test.path(f"spaces {scheme}")
        shutil.copytree(test.path("pieces run/weights"), folder)
        for name in ("tokenizer.model", "tokenizer_config.json"):
            (folder / name).unlink()
        words = ["th", "the", f"{MARK}the", "ca", "cat", f"{MARK}cat", *f"{MARK}theca"]
        pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *words]
        vocabulary = {text: i for i, text in enumerate(pieces)}
        merges = [["t", "h"], ["th", "e"], [MARK, "the"], [f"{MARK}", "th"], ["c", "a"], ["ca", "t"], [MARK, "cat"]]
        merges = [merge for merge in merges if "".join(merge) in vocabulary]
        steps = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
        if scheme != "never":
            steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        (folder / "tokenizer.json").write_text(json.dumps({
            "added_tokens": [{"id": i, "content": text, **flags} for i, text in enumerate(("<unk>", "<s>", "</s>"))],
            "pre_tokenizer": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": False},
            "decoder": {"type": "Sequence", "decoders": steps},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocabulary,
                      "merges": merges},
        }))  # fmt: skip
        result = test.run("export", "--weights", folder, "--gguf", f"{scheme}.gguf", "--type", "F32")
        test.equal(f"exit code of export, {scheme}", result.code, 0)
        test.equal(f"a note on llama.cpp, {scheme}", "llama.cpp" in result.text()[1], scheme != "never")
        for text in ("the cat", " the cat", "the</s>the", "</s>the", "a  the", ""):
            got, want = (test.succeeds("tokenize", "--tokenizer", place, text, "--json") for place in (f"{scheme}.gguf", folder))
            test.equal(f"tokens of '{text}', {scheme}", got["ids"], want["ids"])


def disks(test):
    """A disk in memory is reported, and no disk is advised."""
    memory = pathlib.Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK) and "tmpfs" in pathlib.Path("/proc/mounts").read_text()):
        print("skipped: no tmpfs at /dev/shm")
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        disk = ["--disk", f"{folder}/new:64MiB", "--set", "plan.optimizer_state=disk"]
        for command in (["plan", "config.toml"], ["train", "config.toml", "--run", "in memory"]):
            said = test.run(*command, *disk).text()[1]
            test.equal(f"notes of {command[0]} on a disk in memory", said.count("lies in memory"), 1)
        said = test.run("train", "config.toml", "--disk", f"{test.path('pages')}:64MiB", "--run", "on disk").text()[1]
        there = subprocess.run(["stat", "-f", "-c", "%T", test.folder], capture_output=True, text=True).stdout.strip()
        test.equal("a note on a disk", "lies in memory" in said, there == "tmpfs")
        error = test.fails(2, "E-CONFIG-MISSING", "plan", "config.toml", "--set", "plan.optimizer_state=disk")
        advised = error["try"][0].split()[1].rsplit(":", 1)[0]
        kind = subprocess.run(["stat", "-f", "-c", "%T", os.path.dirname(advised) or "."], cwd=test.folder, capture_output=True,
                              text=True)  # fmt: skip
        test.that(kind.stdout.strip() != "tmpfs" or advised == "plimsoll-pages", f"a disk is advised: {error['try']}")


def names(test):
    """Keys of Axolotl, Unsloth, TRL, LLaMA-Factory and PEFT: taken as ours with a note, or refused with ours."""
    base(test)
    test.write("axolotl.toml", f"""adapter = "qlora"
lora_r = 4
lora_alpha = 8
lora_dropout = 0.0
lora_target_modules = ["q_proj", "v_proj"]
sequence_len = 64
sample_packing = false
val_set_size = 0.2
micro_batch_size = 1
gradient_accumulation_steps = 2
num_epochs = 1
load_in_4bit = true
optimizer = "adamw_bnb_8bit"
lr_scheduler = "cosine"
[model]
init = "{BASE}"
[data]
train = "chats.jsonl"
format = "chat"
""")
    result = test.run("train", "axolotl.toml", "--run", "axolotl", "--memory", "1GiB", "--updates", 1)
    if test.equal(f"exit code with Axolotl's names: {result.text()[1][-600:]}", result.code, 0):
        resolved = test.path("axolotl/config.resolved.toml").read_text()
        for line in ('kind = "lora"', "rank = 4", "alpha = 8.0", "context = 64", 'validation = "20%"', 'base = "nf4"'):
            test.that(line in resolved, f"{line} follows from it")
    test.write("peft.toml", f"""[model]
init = "{BASE}"
context = 64
[lora]
r = 4
lora_alpha = 8
target_modules = ["q_proj"]
use_dora = true
[data]
train = "chats.jsonl"
format = "chat"
[train]
per_device_train_batch_size = 2
max_steps = 1
""")
    result = test.run("train", "peft.toml", "--run", "peft", "--memory", "1GiB")
    if test.equal(f"exit code with PEFT's names: {result.text()[1][-600:]}", result.code, 0):
        test.that('kind = "dora"' in test.path("peft/config.resolved.toml").read_text(), "it is DoRA")
    for name, key in (("base_model", "model.init"), ("model_name_or_path", "model.init"), ("output_dir", "of plimsoll train"),
                      ("max_seq_length", "model.context"), ("cutoff_len", "model.context"), ("max_length", "model.context"),
                      ("datasets", "data.train"), ("dataset_path", "data.train"), ("dataset", "data.train"),
                      ("bias", "leave it out"), ("task_type", "leave it out"), ("lora_target_linear", "adapter.targets"),
                      ("lora_target", "adapter.targets"), ("quantization_bit", "quantize.base"),
                      ("eval_dataset", "data.validation"), ("chat_template", "data.template"),
                      ("train_on_inputs", "data.loss"), ("flash_attention", "leave it out")):  # fmt: skip
        error = test.fails(2, "E-CONFIG-KEY", "plan", "config.toml", "--set", f"{name}=x")
        test.that(error and key in error["expected"], f"{name} leads to {key}: {error and error['expected']}")


def main():
    test = Test("remedies")
    test.write("config.toml", SMALL)
    test.run_parts(spare_tokens, ranks, adapters, tied_tables, exports, hints, tables, sentencepieces, metaspaces, disks, names)
    test.finish()


if __name__ == "__main__":
    main()
