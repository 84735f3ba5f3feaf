#!/usr/bin/env python3
"""Misleading data, through the commands: python3 misleading_data.py path/to/plimsoll

Bytes that are no text, texts that a template has already rendered, samples that are cut or misspelt, weights of another
vocabulary. No case trains silently.
"""

import bz2
import gzip
import json
import lzma
import os
import struct
import subprocess

from _data import BEGIN, END, SENTENCE, conversations, measured, model, text_model, train, with_cache, write_tokenizer
from _plimsoll import Test, byte_letters


def no_text(test):
    """Bytes of another kind are refused although a format is given; "bytes" takes them with a note."""
    text = (SENTENCE * 400).encode()
    test.write("t.txt", text)
    config = text_model(test)
    zipped = test.path("zipped.zip")
    subprocess.run(
        ["python3", "-c", "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('t', 'x' * 99)", zipped], check=True
    )
    kinds = {
        "gzip": gzip.compress(text),
        "bzip2": bz2.compress(text),
        "xz": lzma.compress(text),
        "zip": zipped.read_bytes(),
        "zstd": b"\x28\xb5\x2f\xfd" + os.urandom(4000),
        "parquet": b"PAR1" + os.urandom(4000) + b"PAR1",
        "pdf": b"%PDF-1.7\n" + text,
        "utf-16": text.decode().encode("utf-16"),
        "utf-16 without a mark": text.decode().encode("utf-16-le"),
        "utf-16, most significant first": b"\xfe\xff" + text.decode().encode("utf-16-be"),
        "utf-32": text.decode().encode("utf-32"),
        "zero bytes": text[:100] + bytes(10) + text,
        "tokens": struct.pack("<400H", *[40000 + i for i in range(400)]),
        "noise": os.urandom(4000).replace(b"\0", b"\x80"),
        "latin-1": "für Ärger über Öl. ".encode("latin-1") * 100,
    }
    for i, (kind, content) in enumerate(kinds.items()):
        data = test.write(f"kind-{i}.txt", content)
        code = "E-DATA-TEXT" if kind in ("noise", "latin-1") else "E-DATA-FORMAT"
        for key in ("data.train", "data.validation"):
            more = ["--set", "data.train=t.txt", "--set", f"{key}={data}"]
            error = test.fails(5, code, "train", config, "--memory", "64MiB", "--run", "none", *more)
            test.that(error and str(data) in error["where"], f"{kind}: the file is named: {error}")
    for name, form in (("kind-0.txt", "u16"), ("t.txt", "u16"), ("t.txt", "u32"), ("kind-0.txt", "u32")):
        more = ["--set", f"data.train={name}", "--set", f"data.format={form}", "--set", "model.vocab=65536"]
        if test.path(name).stat().st_size % 4 == 0:
            test.fails(5, "E-DATA-FORMAT", "train", config, "--memory", "64MiB", "--run", "none", *more)
    model(test, "raw.toml", {"train": "kind-0.txt", "format": "bytes"}, vocab=256)
    said = train(test, "raw.toml", "raw", "--set", "data.validation=kind-7.txt")
    for told in ("kind-0.txt looks like a gzip file;", "kind-7.txt looks like text in UTF-16;"):
        test.that(f"{told} data.format = \"bytes\"" in said, f"what the bytes are is told: {said[:400]}")
    said = train(test, "raw.toml", "raw-text", "--set", "data.train=t.txt")
    test.that("looks like" not in said, f"nothing is told of the bytes of a text: {said[:400]}")
    # A hint is a note.
    test.write("few.txt", text + b"caf\xe9\n")
    said = train(test, config, "few", "--set", "data.train=few.txt")
    test.that("1 byte(s) of" in said and "no UTF-8" in said, f"a broken byte is told: {said[:400]}")
    test.write("rows.txt", '{"text": "the cat"}\n' * 200)
    said = train(test, config, "rows", "--set", "data.train=rows.txt")
    test.that("looks like JSON" in said, f"JSON is told: {said[:400]}")
    said = train(test, config, "plain")
    test.that("looks like JSON" not in said and "UTF-8" not in said, f"nothing is told of text: {said[:400]}")


def rendered(test):
    """Text that a template has rendered gets no second begin and end token."""
    write_tokenizer(test, "chat")
    text = f"{BEGIN}[user]hi{END}[assistant]ship{END}"
    rows = [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ship"}]},
        {"text": text},
        {"text": text + "\n"},
        {"text": text[len(BEGIN) : -len(END)]},
        {"prompt": f"{BEGIN}[user]hi{END}[assistant]", "completion": f"ship{END}"},
        {"prompt": "[user]hi", "completion": "ship"},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"ship{END}"}]},
    ]
    test.write("own.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    data = {"train": "own.jsonl", "format": "chat", "vocabulary": "chat"}
    config = model(test, "own.toml", data, kind='"llama"', context=64)
    shown = test.succeeds("data", "show", config, "--samples", len(rows), "--json")["samples"]
    ids = [sample["ids"] for sample in shown]
    test.equal("a text that was rendered", ids[1], ids[0])
    test.equal("the same with a line end", ids[2], ids[0] + [2 + ord("\n")])
    test.equal("a prompt that was rendered", ids[4], ids[0])
    for i in (3, 5):
        test.equal(f"ends of a plain text {i}", (ids[i].count(0), ids[i][0], ids[i][-1]), (1, 0, 1))
    marks = [(sample["own_begin"], sample["own_end"]) for sample in shown[1:6]]
    test.equal("marks", marks, [(True, True)] * 2 + [(False, False), (True, True), (False, False)])
    test.that("begin and end tokens of its own" in test.succeeds("data", "show", config, "--samples", 2), "they are shown")
    said = train(test, config, "own")
    for words in ("3 begin with a begin token", "3 end with an end token", "1 have a begin or end token twice"):
        test.that(words in said, f"{words!r} is told: {said[-900:]}")
    counts = test.report("own")["data"]["counts"]
    test.equal("counts", [counts[key] for key in ("samples", "own_begins", "own_ends", "doubled")], [7, 3, 3, 1])
    # A file of documents.
    cache, environment = with_cache(test, "documents")
    whole = {**data, "train": "own.txt", "format": "bpe"}
    config = model(test, "documents.toml", whole, kind='"llama"')

    def tokens(name, content):
        test.write("own.txt", content)
        for old in cache.glob("tokens-*"):
            old.unlink()
        said = train(test, config, name, environment=environment)
        raw = next(cache.glob("tokens-*")).read_bytes()[256:]
        return list(struct.unpack(f"<{len(raw) // 2}H", raw)), said

    once, said = tokens("documents-1", (text + "\n") * 20)
    test.equal("documents that were rendered", once, (ids[0] + [2 + ord("\n")]) * 20)
    test.that("note: own.txt" in said or "begin token of its tokenizer" in said, f"a note says so: {said[:300]}")
    plain, said = tokens("documents-2", f"one{END}two{END}\n" * 20)
    test.equal("begin tokens of plain documents", (plain.count(0), plain.count(1), plain[-2:]), (40, 40, [1, 2 + ord("\n")]))
    test.that("begin token" not in said, "no note")
    for prompt, want in ((f"{BEGIN}hi", 1), ("hi", 1)):
        result = test.run("generate", "--weights", "own/weights", "--prompt", prompt, "--tokens", 1, "--json")
        test.equal(f"begin tokens of {prompt!r}", result.json()["samples"][0]["prompt_tokens"].count(0), want)
        test.equal(f"a note for {prompt!r}", "begins with <|bos|> itself" in result.text()[1], prompt != "hi")


def told(test):
    """`train` reports and records the facts of the plan about the samples."""
    write_tokenizer(test, "chat")
    row = lambda question, answer: {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
    rows = [row("hi", "ship"), row("x" * 90, "lost"), row("hi", "y" * 90)]
    test.write("told.jsonl", "".join(json.dumps(one) + "\n" for one in rows))
    test.write(
        "marks.jinja",
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ eos_token }}{% endfor %}",
    )
    data = {"train": "told.jsonl", "format": "chat", "vocabulary": "chat", "template": "marks.jinja"}
    config = model(test, "told.toml", data, updates=2, kind='"llama"', context=64)
    said = train(test, config, "told")
    line = "samples: 2 cut to the context, 1 left out: no token is trained on, 2 train no token that ends an answer"
    test.that(line in said, f"it is told: {said}")
    plan = test.succeeds("plan", config, "--memory", "64MiB", "--json")
    test.equal("run.json", test.report("told")["data"]["counts"], plan["epoch"]["data"])
    events = lambda: [json.loads(one) for one in test.path("told/events.jsonl").read_text().splitlines()]
    kept = {"event": "data", "update": 1, **plan["epoch"]["data"]}
    test.equal("events.jsonl", [one for one in events() if one["event"] == "data"], [kept])
    test.succeeds("train", "--run", "told", "--resume", "--updates", 3, "--json")
    test.equal("events.jsonl of a run that goes on", [one for one in events() if one["event"] == "data"], [kept])
    test.succeeds("plan", config, "--memory", "64MiB", "--out", "told.json")
    test.that(line in train(test, config, "replayed", "--plan", "told.json"), "a plan that is replayed tells it")


def roles(test):
    write_tokenizer(test, "chat")
    config = model(
        test, "roles.toml", {"train": "roles.jsonl", "format": "chat", "vocabulary": "chat"}, kind='"llama"', context=64
    )
    good = {"role": "user", "content": "hi"}
    for role, meant in (
        ("asistant", "assistant"),
        ("assitant", "assistant"),
        ("Assistant", "assistant"),
        ("User ", "user"),
        ("usr", "user"),
        ("sytem", "system"),
    ):
        sample = {"messages": [good, {"role": role, "content": "ship"}]}
        test.write("roles.jsonl", conversations(2, "ship") + json.dumps(sample) + "\n")
        error = test.fails(5, "E-CHAT-SAMPLE", "train", config, "--memory", "64MiB", "--run", "none")
        test.that(error and error["where"].endswith("roles.jsonl:3"), f"the line is named: {error}")
        test.that(error and role in error["message"] and f"'{meant}'" in error["expected"], f"and the role: {error}")
    test.write("roles.jsonl", json.dumps({"conversations": [{"from": "humna", "value": "a"}, {"from": "gpt", "value": "b"}]}))
    error = test.fails(5, "E-CHAT-SAMPLE", "train", config, "--memory", "64MiB", "--run", "none")
    test.that(error and "'human'" in error["expected"], f"a speaker: {error}")
    own = {"messages": [{"role": "narrator", "content": "a"}, *json.loads(conversations(1, "b"))["messages"]]}
    test.write("roles.jsonl", json.dumps(own) + "\n")
    train(test, config, "roles")


def vocabularies(test):
    """An evaluation reads text with the vocabulary of the weights."""
    test.write("t.txt", SENTENCE * 400)
    config = text_model(test)
    train(test, config, "words-run")
    weights = "words-run/weights"

    def evaluated(file, *more):
        result = test.run("eval", file, "--weights", weights, "--json", *more)
        return result.json(), result.text()[1]

    want = evaluated(config)[0]["loss_bits"]
    test.that("vocabulary" not in evaluated(config)[1], "nothing is told of the weights' own vocabulary")
    auto = model(test, "auto.toml", {"train": "t.txt", "format": "auto"}, vocab=256)
    test.equal("loss without a vocabulary", evaluated(auto)[0]["loss_bits"], want)
    # The same tokens under other numbers.
    letters = byte_letters()
    test.write("turned/vocab.json", json.dumps({text: i for i, text in enumerate(["<|endoftext|>", *reversed(letters)])}))
    test.write("turned/merges.txt", "#version: 0.2\n")
    found, said = evaluated(config, "--set", "data.vocabulary=turned")
    test.equal("loss with another vocabulary", found["loss_bits"], want)
    test.that("differs from the vocabulary of the weights" in said, f"a note: {said}")
    found, said = evaluated(auto, "--set", "data.format=bytes")
    test.that("read as bytes" in said, f"a note for bytes: {said}")
    test.write("ids.bin", struct.pack("<400H", *[1 + i % 250 for i in range(400)]))
    found, said = evaluated(auto, "--set", "data.train=ids.bin")
    test.that("token ids" in said and found["units"] > 0, f"a note for ids: {said}")
    test.write("far.bin", struct.pack("<400H", *[1 + i % 300 for i in range(400)]))
    test.equal("ids past the vocabulary", evaluated(auto, "--set", "data.train=far.bin")[0]["code"], "E-DATA-TOKEN")
    raw = model(test, "raw.toml", {"train": "t.txt", "format": "bytes"}, vocab=256)
    train(test, raw, "bytes-run")
    weights = "bytes-run/weights"
    want = evaluated(raw)[0]["loss_bits"]
    test.equal("loss of bytes", evaluated(config, "--set", "data.format=auto")[0]["loss_bits"], want)
    test.equal("a vocabulary for bytes", evaluated(config)[0]["code"], "E-CONFIG-CONFLICT")


if __name__ == "__main__":
    program = Test("misleading_data")
    measured(program)
    program.run_parts(no_text, rendered, told, roles, vocabularies)
    program.finish()
