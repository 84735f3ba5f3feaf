#!/usr/bin/env python3
"""Questions and answers about the Debian packages that are installed on this machine, as chats.

    python3 packages.py FOLDER [--most N]      writes FOLDER/train.jsonl and FOLDER/validation.jsonl

An answer is the summary of a package and the first sentences of its description. Every tenth source package is held out, with all
packages that are built from it. At most N chats are for training, and 60 are held out. The order is that of hashes, so that a
part of the packages is a fair sample of them. Needs dpkg-query and the standard library.
"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess

MOST_WORDS, MOST_HELD_OUT = 50, 60
FIELDS = ["${Package}", "${source:Package}", "${Description}"]


def number(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def answer(description):
    """'default icon theme.\n This package ...\n .\n More' -> 'Default icon theme. This package ...'"""
    summary, _, rest = description.partition("\n")
    paragraph = " ".join(rest.split("\n .\n", 1)[0].split())
    text = summary[:1].upper() + summary[1:].rstrip(".") + "."
    words = len(text.split())
    for sentence in re.split(r"(?<=[.!?]) ", paragraph):
        words += len(sentence.split())
        if words > MOST_WORDS or not sentence.endswith("."):
            break
        text += " " + sentence
    return text


def packages():
    """(name, source, description) of each, once."""
    form = "\x1f".join(FIELDS) + "\x1e"
    out = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout
    found = {}
    for record in out.split("\x1e"):
        fields = record.split("\x1f")
        if len(fields) == len(FIELDS) and fields[2].strip():
            found[fields[0]] = tuple(fields)
    return sorted(found.values(), key=lambda package: number(package[0]))


def chat(name, description):
    question = f"What is the Debian package {name}?"
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer(description)}]
    return json.dumps({"messages": turns}, ensure_ascii=False) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--most", type=int, help="chats to train on")
    args = parser.parse_args()
    train, held_out = [], []
    for name, source, description in packages():
        (held_out if number(source) % 10 == 0 else train).append(chat(name, description))
    (args.folder / "train.jsonl").write_text("".join(train[:args.most]), encoding="utf-8")
    (args.folder / "validation.jsonl").write_text("".join(held_out[:MOST_HELD_OUT]), encoding="utf-8")
    print(len(train[:args.most]), min(len(held_out), MOST_HELD_OUT))


if __name__ == "__main__":
    main()
