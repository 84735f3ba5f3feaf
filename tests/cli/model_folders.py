#!/usr/bin/env python3
"""Contents of model folders and data files: content that is not understood does not train, and kept content is not lost."""

import json
import re
import shlex
import shutil
import struct

from _plimsoll import Test, byte_letters

SHAPE = "model={{layers=1,width=16,heads=2,context=32,vocab=260}}\ndata={{{}}}\ntrain={{effective_batch=4,updates=2}}\n"
FROM_FOLDER = 'model={init="base/weights",context=32}\ndata={train="t.txt"}\ntrain={effective_batch=4,updates=2}\n'
MEMORY = ["--memory", "64MiB"]
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def copy(test, name):
    shutil.rmtree(test.path(name), ignore_errors=True)
    shutil.copytree(test.path("base/weights"), test.path(name))
    return ["from.toml", *MEMORY, "--set", f"model.init={test.path(name)}"]


def train(test, arguments, run):
    shutil.rmtree(test.path(run), ignore_errors=True)
    test.succeeds("train", *arguments, "--run", run, "--json")


def kept(test):
    """Ids, unknown keys and files of the init folder come through."""
    arguments = copy(test, "init")
    path = test.path("init/config.json")
    config = json.loads(path.read_text())
    config.update({"eos_token_id": 0, "bos_token_id": 5, "pad_token_id": 7, "of_another_tool": {"a": [1]}})
    path.write_text(json.dumps(config))
    extra = {"added_tokens.json": '{"<|user|>": 257}', "generation_config.json": "{}", "chat_template.jinja": "x"}
    for name, text in extra.items():
        test.write(f"init/{name}", text)
    train(test, [*arguments, "--set", "optimizer.ema_half_life=10samples"], "keeps")
    for folder in ("keeps/weights", "keeps/weights_ema"):
        saved = json.loads(test.path(f"{folder}/config.json").read_text())
        for key in ("eos_token_id", "bos_token_id", "pad_token_id", "of_another_tool", "vocab_size"):
            test.equal(f"{key} in {folder}", saved.get(key), config[key])
        for name in (*extra, "vocab.json", "merges.txt"):
            test.equal(f"{name} in {folder}", test.path(f"{folder}/{name}").read_text(), test.path(f"init/{name}").read_text())
    refused = test.run("generate", "--weights", "keeps/weights", "--prompt", "<|user|>hi", "--tokens", "1")
    test.equal("exit code of a prompt with such a token", refused.code, 5)
    test.that("E-TOKENIZER" in refused.text()[1], f"it is named: {refused.text()[1]}")
    test.write("user.txt", "<|user|>hi" * 400)
    test.fails(5, "E-TOKENIZER", "train", *arguments, "--set", f"data.train={test.path('user.txt')}", "--run", "split")
    test.that(not test.path("split").exists(), "no run is left")


def unread(test):
    """A tokenizer.json of an unsupported kind alone, and no vocabulary."""
    arguments = copy(test, "alone")
    test.write("alone/tokenizer.json", json.dumps({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}))
    for name in ("vocab.json", "merges.txt"):
        test.path(f"alone/{name}").unlink()
    for more in ([], ["--set", "data.format=auto"], ["--set", "data.format=bpe"]):
        test.fails(5, "E-TOKENIZER", "train", *arguments, *more, "--run", "run")
    train(test, [*arguments, "--set", "data.format=bytes"], "bytes")
    test.that(test.path("bytes/weights/tokenizer.json").exists(), "tokenizer.json is kept")
    changed = copy(test, "changed")
    for setting in ({"add_prefix_space": True}, {"add_bos_token": True}, {"tokenizer_class": "LlamaTokenizer"}):
        test.write("changed/tokenizer_config.json", json.dumps(setting))
        test.fails(5, "E-TOKENIZER", "train", *changed, "--run", "run")
    test.path("changed/tokenizer_config.json").unlink()
    config = json.loads(test.path("changed/config.json").read_text())
    test.write("changed/config.json", json.dumps({**config, "quantization_config": {"bits": 4}}))
    test.fails(5, "E-FORMAT-CONFIG", "plan", *changed)
    test.path("alone/tokenizer.json").unlink()
    test.fails(5, "E-TOKENIZER", "train", *arguments, "--run", "run")


def weights(test):
    """plan refuses weights that train cannot read."""

    def refused(name, code, text):
        for command in ("plan", "train"):
            more = ["--run", "run"] if command == "train" else []
            result = test.run(command, *arguments, *more)
            test.equal(f"exit code of {command} with {name}", result.code, 5)
            test.that(code in result.text()[1] and text in result.text()[1], f"{command} names {name}: {result.text()[1]}")
        test.that(not test.path("run").exists(), f"no run is left after {name}")

    arguments = copy(test, "w")
    file = test.path("w/model.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    refused("a cut file", "E-FORMAT-SAFETENSORS", "model.safetensors")
    file.write_bytes(whole.replace(b"ln_f.bias", b"ln_x.bias"))
    refused("a missing tensor", "E-FORMAT-WEIGHTS", "ln_f.bias")
    file.write_bytes(whole.replace(b'"F32"', b'"I32"'))
    refused("numbers of another type", "E-FORMAT-TENSOR", "I32")
    file.write_text(POINTER)
    refused("a pointer", "E-IO-LFS", "lfs pull")
    file.unlink()
    refused("no weights", "E-FORMAT-WEIGHTS", "no model.safetensors")
    test.write("w/pytorch_model.bin", "x")
    refused("other weights", "E-FORMAT-WEIGHTS", "pytorch_model.bin")
    test.write("w/model.safetensors.index.json", "{}")
    refused("an index without a map", "E-FORMAT-INDEX", "no weight_map")
    arguments = copy(test, "w")
    test.write("w/vocab.json", POINTER)
    refused("a pointer to a vocabulary", "E-IO-LFS", "vocab.json")
    arguments = [*copy(test, "w"), "--set", "data.vocabulary=nowhere", "--set", "data.format=u16", "--set", "data.train=t.bin"]
    refused("no vocabulary", "E-IO-MISSING", "no vocabulary")


def formats(test):
    """Files that are evidently of another kind, and kinds that exclude each other."""
    test.write("c.toml", SHAPE.format('train="t.bin",validation="t.txt"'))
    for command in (["plan", "c.toml"], ["train", "c.toml", "--run", "run"]):
        test.fails(5, "E-DATA-FORMAT", *command, *MEMORY)
    foreign = {"x.jsonl": '{"text": "a"}\n', "x.txt.gz": b"\x1f\x8b\x08" + bytes(99), "utf16.txt": "text".encode("utf-16")}
    for name, content in foreign.items():
        test.write(name, content)
        test.fails(5, "E-DATA-FORMAT", "plan", "from.toml", *MEMORY, "--set", f"data.train={test.path(name)}")


def llmc(ids, width, version=None):
    """llm.c's token file, with n bytes per token."""
    magic, usual, letter = {2: (20240520, 1, "H"), 4: (20240801, 7, "I")}[width]
    return struct.pack("<256i", magic, version or usual, len(ids), *[0] * 253) + struct.pack(f"<{len(ids)}{letter}", *ids)


def bits(test, run):
    report = json.loads(test.path(f"{run}/run.json").read_text())
    return [line["loss_bits"] for line in test.lines(run)], report["final"]["parameters_xxh128"]


def widths(test):
    """The same ids in 2 and 4 bytes, with llm.c's header and without: the same samples in the same order, the same bits."""
    ids = [i * 31 % 257 for i in range(4000)]
    files = {"u16": struct.pack("<4000H", *ids), "u32": struct.pack("<4000I", *ids), "llmc2": llmc(ids, 2), "llmc4": llmc(ids, 4)}
    results, staging = {}, {}
    for name, content in files.items():
        test.write(f"{name}.bin", content)
        form = "auto" if name.startswith("llmc") else name
        test.write("c.toml", SHAPE.format(f'train="{name}.bin",format="{form}"'))
        train(test, ["c.toml", *MEMORY], name)
        results[name] = bits(test, name)
        plan = test.succeeds("plan", "c.toml", *MEMORY, "--set", "train.micro_batch=4", "--values", "--json")
        staging[name] = [value["bytes"] for value in plan["values"] if value["name"].startswith("data.staging")]
    for name in files:
        test.equal(f"bits of {name}", results[name], results["u16"])
    two = staging["u16"]
    four = [2 * size for size in two]
    test.equal("staging", staging, {"u16": two, "u32": four, "llmc2": two, "llmc4": four})
    test.that(len(two) == 2 and 2 * 4 * 33 <= two[0] < 4 * 4 * 33, f"two bytes a token are staged: {two}")
    mixed = []
    for one, other in (("u16", "llmc4"), ("llmc4", "llmc2"), ("llmc2", "llmc2")):
        test.write("c.toml", SHAPE.format(f'train="{one}.bin",validation="{other}.bin"'))
        train(test, ["c.toml", *MEMORY, "--set", "train.evaluate_every=1"], f"{one}-{other}")
        evaluations = test.path(f"{one}-{other}/eval.jsonl").read_text().splitlines()
        mixed.append((bits(test, f"{one}-{other}"), [json.loads(line)["loss_bits"] for line in evaluations]))
    equal = mixed[0] == mixed[1] == mixed[2]
    test.that(len(mixed[0][1]) >= 2 and equal, f"widths of train and validation change no bit: {mixed}")


def large_ids(test):
    """Ids past 65,535: of a file, and of text through a vocabulary of as many tokens."""
    shape, vocab = SHAPE.replace("vocab=260", "vocab={vocab}").replace("{{{}}}", "{{{data}}}"), 151936
    ids = [i * 3331 % vocab for i in range(2000)]
    test.write("ids.bin", struct.pack("<2000I", *ids))
    test.write("ids-llmc.bin", llmc(ids, 4))
    room = ["--memory", "512MiB"]
    test.write("raw.toml", shape.format(vocab=vocab, data='train="ids.bin",format="u32"'))
    test.write("header.toml", shape.format(vocab=vocab, data='train="ids-llmc.bin"'))
    for name in ("raw", "header"):
        train(test, [f"{name}.toml", *room], name)
    test.equal("bits behind a header", bits(test, "header"), bits(test, "raw"))
    raw, header = (test.succeeds("eval", f"{name}.toml", "--weights", "raw/weights", "--json") for name in ("raw", "header"))
    test.equal("loss of eval", header and header["loss_bits"], raw and raw["loss_bits"])
    error = test.fails(5, "E-DATA-TOKEN", "train", "raw.toml", *room, "--set", "model.vocab=100000", "--run", "past")
    place, value = (int(number) for number in re.search(r"token (\d+) is (\d+)", error["message"]).groups())
    test.equal("the id that is named", value, ids[place])
    test.that(value >= 100000 and error["try"] == [f"--set model.vocab={value + 1}"], f"it is past the vocabulary: {error}")

    test.write("auto.toml", shape.format(vocab=vocab, data='train="ids.bin"'))
    error = test.fails(5, "E-DATA-FORMAT", "train", "auto.toml", *room, "--run", "auto")
    train(test, ["auto.toml", *room, *shlex.split(error["try"][0])], "auto")
    test.equal("bits as advised", bits(test, "auto"), bits(test, "raw"))
    for name, content in (("cut", struct.pack("<2000I", *ids)[:-2]), ("version", llmc(ids, 4, 1)), ("end", llmc(ids, 4)[:-4])):
        test.write("bad.bin", content)
        form = "u32" if name == "cut" else "llmc"
        test.fails(5, "E-DATA-FORMAT", "plan", "raw.toml", "--set", f"data.format={form}", "--set", "data.train=bad.bin")

    # All bytes, and all pairs of them, those that begin with the letter a last.
    letters = byte_letters()
    firsts = [*(byte for byte in range(256) if byte != ord("a")), ord("a")]
    pairs = [(letters[a], letters[b]) for a in firsts for b in range(256)]
    names = [*letters, *(a + b for a, b in pairs)]
    test.write("pairs/vocab.json", json.dumps({name: i for i, name in enumerate(names)}))
    test.write("pairs/merges.txt", "".join(f"{a} {b}\n" for a, b in pairs))
    test.write("high.txt", "ab\n" * 1000)
    test.write("text.toml", shape.format(vocab=vocab, data='train="high.txt",format="bpe",vocabulary="pairs"'))
    train(test, ["text.toml", *room], "text")
    token = 256 + 255 * 256 + ord("b")
    test.write("high.bin", struct.pack("<2000I", *[token, ord("\n")] * 1000))
    test.write("high.toml", shape.format(vocab=vocab, data='train="high.bin",format="u32"'))
    train(test, ["high.toml", *room], "high")
    test.equal("bits of text and of its tokens", bits(test, "text"), bits(test, "high"))
    prompt = ["--prompt", "abab", "--tokens", "4"]
    said = test.run("generate", "--weights", "text/weights", *prompt, "--temperature", "100")
    test.that(said.code == 0 and said.out.startswith(b"abab"), f"the model generates: {said.code} {said.text()[1]}")


def several(test):
    """Lists, patterns and folders train like the one file that holds them all."""
    text = test.path("train.txt").read_bytes()
    parts = [text[:7000], text[7000:7001], text[7001:]]
    for i, part in enumerate(parts):
        test.write(f"texts/{i}.txt", part)

    def result(name, value):
        test.write(f"{name}.toml", test.path("config.toml").read_text().replace('train = "train.txt"', f"train = {value}"))
        run = test.succeeds("train", f"{name}.toml", "--run", f"run-{name}", "--json")
        return run and (run["data_hash"], run["final"]["parameters_xxh128"])

    whole = result("whole", '"train.txt"')
    for name, value in (
        ("list", '["texts/0.txt", "texts/1.txt", "texts/2.txt"]'),
        ("pattern", '"texts/*.txt"'),
        ("folder", '"texts"'),
    ):
        test.equal(f"a {name} of files", result(name, value), whole)
    more = ["--updates", "7", "--set", "train.updates=7"]
    test.succeeds("train", "list.toml", "--run", "run-list", "--resume", "--json", *more)
    test.fails(5, "E-DATA-FILES", "train", "config.toml", "--run", "run", "--set", "data.train=texts/*.md")
    test.fails(2, "E-CONFIG-MISSING", "train", "config.toml", "--run", "run", "--set", "data.train=[]")
    test.fails(5, "E-DATA-FILES", "plan", "config.toml", "--set", "data.train=texts/**/*.txt")
    test.fails(2, "E-CONFIG-VALUE", "plan", "config.toml", "--set", 'data.train=["texts/0.txt", ""]')
    plan = test.succeeds("plan", "config.toml", "--set", 'data.train=["texts/0.txt", "nope.txt"]', "--json")
    test.that(plan and plan["assumed"][0]["path"].endswith("nope.txt"), "the file that is missing is named")
    test.write("texts/deep/3.txt", text)
    error = test.fails(5, "E-DATA-FILES", "plan", "config.toml", "--set", "data.train=texts")
    advised = shlex.split(error["try"][0])
    plan = test.succeeds("plan", "config.toml", *advised, "--json")
    test.that(plan and plan["run"]["epochs"] < test.succeeds("plan", "config.toml", "--json")["run"]["epochs"],
              "files of the folder and of that in it")  # fmt: skip


def added(test):
    """added_tokens.json changes no token that vocab.json has; a token without a row is left out."""
    folder = test.path("added")
    shutil.copytree(test.path("base/weights"), folder)
    test.succeeds("export", "--weights", folder, "--gguf", "without.gguf", "--type", "F32", "--json")
    (folder / "added_tokens.json").write_text(json.dumps({"<|endoftext|>": 0, "zz": 1 << 32 | 5}))
    test.succeeds("export", "--weights", folder, "--gguf", "with.gguf", "--type", "F32", "--json")
    test.that(test.path("with.gguf").read_bytes() == test.path("without.gguf").read_bytes(), "the same file")


def main():
    test = Test("model_folders")
    letters = byte_letters()
    names = ["<|endoftext|>", *letters]
    test.write("vocab.json", json.dumps({name: i for i, name in enumerate(names)}))
    test.write("merges.txt", "#version: 0.2\n")
    test.write("t.txt", "the cat sat on the mat.\n" * 400)
    test.write("t.bin", struct.pack("<4000H", *(i * 31 % 257 for i in range(4000))))
    test.write("base.toml", SHAPE.format('train="t.txt",format="bpe",vocabulary="."'))
    test.write("from.toml", FROM_FOLDER)
    test.succeeds("train", "base.toml", *MEMORY, "--run", "base", "--json")
    test.run_parts(kept, unread, weights, formats, widths, large_ids, several, added)
    test.finish()


if __name__ == "__main__":
    main()
