#!/usr/bin/env python3
"""eval and generate: limits of tokens, memory and threads."""

import json
import shutil

from _plimsoll import Test, byte_letters

PADDED = 300


def write_vocabulary(test, folder, tokens):
    """A vocabulary of n tokens: 256 bytes, then merges of "a" with the letters after it."""
    letters = byte_letters()
    merges = [("a", chr(ord("b") + i)) for i in range(tokens - 256)]
    names = letters + [a + b for a, b in merges]
    test.write(f"{folder}/vocab.json", json.dumps({name: i for i, name in enumerate(names)}))
    test.write(f"{folder}/merges.txt", "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))


def without_marker(test, source, folder):
    """A copy of a folder of weights whose tokens are not bytes."""
    shutil.copytree(test.path(source), test.path(folder))
    path = test.path(folder) / "config.json"
    config = json.loads(path.read_text())
    config.pop("plimsoll_tokenizer", None)
    path.write_text(json.dumps(config))


def generate(folder, *more):
    return ["generate", "--weights", folder, "--prompt", "abac", "--tokens", "200", *more]


def vocabularies(test):
    without_marker(test, "bytes/weights", "large")
    write_vocabulary(test, "large", 260)
    result = test.run(*generate("large"))
    test.equal("exit code of a prompt past the model", result.code, 5)
    test.that("E-DATA-TOKEN" in result.text()[1] and "'ab'" in result.text()[1], f"it is named: {result.text()[1]}")
    text = test.succeeds("generate", "--weights", "large", "--prompt", "zz", "--tokens", "200", "--temperature", "1000")
    test.that(text is not None and text.startswith("zz"), "tokens past the model are not drawn")

    without_marker(test, "padded/weights", "padded-weights")
    write_vocabulary(test, "padded-weights", 260)
    # At this temperature all rows are as likely: padded ones would be drawn within a few tokens.
    text = test.succeeds(*generate("padded-weights", "--temperature", "1000"))
    test.that(text is not None and text.startswith("abac"), "a padded model generates")

    # Text by another vocabulary than that of the weights.
    write_vocabulary(test, "other", 260)
    test.write("other/merges.txt", "#version: 0.2\na e\na d\na c\na b\n")
    test.write("tuned.toml", '[model]\ninit = "padded-weights"\n[data]\ntrain = "train.txt"\nformat = "bpe"\n'
                             '[train]\neffective_batch = 1\nupdates = 1\n')  # fmt: skip
    for vocabulary, another in (("padded-weights", False), ("other", True)):
        said = test.run("plan", "tuned.toml", "--set", f"data.vocabulary={vocabulary}").text()[1]
        test.equal(f"a note, text by {vocabulary}", "which differs from the vocabulary of" in said, another)

    small = test.path("bytes/weights/config.json")
    config = json.loads(small.read_text())
    test.equal("marker of a model of bytes", config["plimsoll_tokenizer"], "bytes")
    small.write_text(json.dumps({**config, "vocab_size": 200}))
    test.equal("exit code of bytes past the model", test.run(*generate("bytes/weights")).code, 5)
    small.write_text(json.dumps(config))
    text = test.run(*generate("bytes/weights", "--temperature", "0", "--seed", "3")).out
    test.equal("the same again", test.run(*generate("bytes/weights", "--temperature", "0", "--seed", "4")).out, text)


def memory(test):
    for command in (generate("bytes/weights"), ["eval", "config.toml", "--weights", "bytes/weights"]):
        result = test.run(*command, "--memory", "9999TiB")
        test.equal(f"exit code of {command[0]} with more than the machine has", result.code, 3)
        test.that("E-MEM-MACHINE" in result.text()[1], f"{command[0]} names it")
        for size in ("", " "):
            result = test.run(*command, "--memory", size)
            test.equal(f"exit code of {command[0]} --memory '{size}'", result.code, 2)
        test.equal(f"exit code of {command[0]} in 128 MiB", test.run(*command, "--memory", "128MiB").code, 0)


def threads(test):
    for count, code in ((-1, 2), (1025, 2), (0, 0), (1, 0)):
        result = test.run(*generate("bytes/weights", "--threads", str(count)))
        test.equal(f"exit code of --threads {count}", result.code, code)


def data(test):
    """eval reads the validation data alone."""
    for sets, code in (([], 0), (["--set", "data.train=/no/such/file"], 0), (["--set", "data.validation=/no/such/file"], 5)):
        result = test.run("eval", "config.toml", "--weights", "bytes/weights", *sets)
        test.equal(f"exit code of eval {sets}", result.code, code)


def main():
    test = Test("eval_generate")
    train = ["train", "config.toml", "--updates", "1", "--json"]
    test.succeeds(*train, "--run", "bytes")
    tokens = b"".join((i % 250).to_bytes(2, "little") for i in range(4000))
    test.write("tokens.bin", tokens)
    files = ["--set", "data.train=tokens.bin", "--set", "data.validation=tokens.bin", "--set", "data.format=u16"]
    test.succeeds(*train, "--run", "padded", "--set", f"model.vocab={PADDED}", *files)
    test.run_parts(vocabularies, memory, threads, data)
    test.finish()


if __name__ == "__main__":
    main()
