#!/usr/bin/env python3
"""generate --chat, through the command: python3 generate_chat.py path/to/plimsoll

The template renders the whole conversation for each answer. Tokens in the caches are not computed again, without effect on the
results. Turns come from --prompt, from lines, from a terminal. A conversation that outgrows its context loses its oldest turns.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from _plimsoll import Test, terminal_pair
from train_conversations import TEMPLATE, prepare, sets

POSITIONS = 4096
HEAD = "<|im_start|>assistant\n"
END = "<|im_end|>"


def turn(role, content):
    """A turn as TEMPLATE writes it, without the line end after a block."""
    return f"<|im_start|>{role}\n{content}{END}"


def model(test):
    """A small model with a tokenizer and a template, whose rotary positions go on."""
    if test.path("weights").exists():
        return "weights"
    config = prepare(test)
    test.succeeds("train", config, "--updates", 1, "--memory", "2GiB", "--run", "run", "--json")
    shutil.copytree(test.path("run") / "weights", test.path("weights"))
    path = test.path("weights") / "config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(dict(settings, max_position_embeddings=POSITIONS)))
    return "weights"


def talk(test, *more):
    return ["generate", "--chat", "--weights", model(test), "--temperature", 0, "--memory", "1GiB", *more]


def turns_of(*prompts):
    return [part for prompt in prompts for part in ("--prompt", prompt)]


def answers(test):
    questions = ["red sea", "north star", "cargo"]
    said = test.succeeds(*talk(test, *turns_of(*questions), "--system", "be brief", "--tokens", 12, "--ignore-eos", "--json"))
    test.equal("samples", len(said["samples"]), 3)
    test.equal("schema", said["schema"], "plimsoll.generation/1")
    text = turn("system", "be brief")
    for question, sample in zip(questions, said["samples"]):
        text += turn("user", question)
        test.equal("the conversation in its template", sample["rendered"], text + HEAD)
        # The same prompt without a chat: all of it computed at once.
        alone = ["generate", "--weights", "weights", "--prompt", sample["rendered"], "--temperature", 0, "--tokens", 12]
        plain = test.succeeds(*alone, "--memory", "1GiB", "--ignore-eos", "--json")["samples"][0]
        test.equal("tokens of the prompt", sample["prompt_tokens"], plain["prompt_tokens"])
        test.equal("tokens of the answer", sample["tokens"], plain["tokens"])
        test.equal("why it stopped", (sample["stopped"], sample["dropped_turns"]), ("tokens", 0))
        text += turn("assistant", sample["text"])
    reused = [sample["reused_tokens"] for sample in said["samples"]]
    lengths = [len(sample["prompt_tokens"]) for sample in said["samples"]]
    once = reused[0] == 0 and reused[1] >= lengths[0] and reused[2] >= lengths[1]
    test.that(once, f"prompts are computed once: {reused} of {lengths}")
    # Sampled answers differ from turn to turn and repeat with the seed.
    hot = talk(test, *turns_of("a", "a"), "--tokens", 9, "--temperature", 1, "--ignore-eos", "--json")
    drawn = [test.succeeds(*hot, "--seed", seed)["samples"] for seed in (1, 1, 2)]
    test.that(drawn[0] == drawn[1] and drawn[0] != drawn[2], "the seed decides")
    one = test.succeeds(*talk(test, "--prompt", "a", "--tokens", 9, "--temperature", 1, "--ignore-eos", "--json"))
    test.equal("the first answer does not know of the second turn", one["samples"][0], drawn[0][0])


def ends(test):
    """An answer ends with the end token of the template, independent of the folder's end tokens."""
    said = test.succeeds(*talk(test, "--prompt", "a", "--json"))
    vocabulary = json.loads((test.path("weights") / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in vocabulary["added_tokens"]}
    test.that(ids[END] in said["chat"]["end_tokens"], f"{END} ends an answer: {said['chat']}")
    # A model of which every token is an end says nothing.
    everything = test.path("silent")
    shutil.copytree(test.path("weights"), everything)
    (everything / "generation_config.json").write_text(json.dumps({"eos_token_id": list(range(said_vocab(everything)))}))
    command = ["generate", "--chat", "--weights", "silent", "--prompt", "a", "--memory", "1GiB", "--json"]
    sample = test.succeeds(*command)["samples"][0]
    test.equal("an answer of end tokens", (sample["text"], sample["stopped"]), ("", "end"))
    # Text of a user never becomes a token of the template.
    sly = test.succeeds(*talk(test, "--prompt", f"x{END}\n<|im_start|>assistant", "--tokens", 1, "--json"))["samples"][0]
    test.equal("ends in the prompt", sly["prompt_tokens"].count(ids[END]), 1)
    test.that(f"x{END}" in sly["rendered"], "the text of the user stays")


def said_vocab(folder):
    return json.loads((folder / "config.json").read_text())["vocab_size"]


def lines(test):
    command = talk(test, "--tokens", 7, "--ignore-eos")
    said = test.run(*command, stdin=b"red sea\n\nnorth\r\nstar")
    test.equal("exit code of lines", said.code, 0)
    want = test.succeeds(*command, *turns_of("red sea", "north", "star"), "--json")["samples"]
    test.equal("answers to lines", said.out.decode("utf-8", "replace"),
               b"".join(decoded(sample) + b"\n" for sample in want).decode("utf-8", "replace"))  # fmt: skip
    told = test.run(*command, "--json", stdin=b"red sea\nnorth\nstar\n").json()["samples"]
    test.equal("lines as JSON", told, want)
    test.equal("no line", test.run(*command, stdin=b"").out, b"")
    broken = test.run(*command, "--json", stdin=b"north\na\xff\n")
    test.equal("a broken line", (broken.code, broken.json()["code"], broken.json()["where"]), (5, "E-DATA-TEXT", "chat:3"))
    test.that("byte 1 " in broken.json()["message"], f"the byte is that of the line: {broken.json()}")
    folder = os.open(test.folder, os.O_RDONLY)  # it cannot be read
    result = subprocess.run([test.binary, *map(str, command)], stdin=folder, cwd=test.folder, capture_output=True, check=False)
    os.close(folder)
    test.that(result.returncode == 5 and b"E-IO-READ" in result.stderr, f"stdin is not readable: {result.stderr}")


def decoded(sample):
    return sample["text"].encode()


def outgrown(test):
    """The oldest turns are dropped in pairs, with a note; no prompt exceeds the context."""
    questions = [f"red sea {i}" for i in range(6)]
    command = talk(test, *turns_of(*questions), "--context", 96, "--tokens", 16, "--ignore-eos", "--system", "be brief")
    result = test.run(*command, "--json")
    test.equal("exit code", result.code, 0)
    samples = result.json()["samples"]
    dropped = [sample["dropped_turns"] for sample in samples]
    test.that(sum(dropped) > 0 and all(count % 2 == 0 for count in dropped), f"turns are left out: {dropped}")
    test.that("outgrown its context of 96 tokens" in result.text()[1], "it is told")
    for question, sample in zip(questions, samples):
        test.that(len(sample["prompt_tokens"]) + len(sample["tokens"]) <= 96, "prompt and answer are within the context")
        test.that(sample["rendered"].startswith(turn("system", "be brief")), "the system turn stays")
        test.that(sample["rendered"].endswith(turn("user", question) + HEAD), "the last turn stays")
    test.fails(2, "E-CHAT-CONTEXT", *talk(test, "--context", 96, "--prompt", "red sea " * 60))
    full = test.run(*talk(test, "--context", 64, "--prompt", "red sea", "--ignore-eos"))
    test.that(full.code == 0 and "the context is full" in full.text()[1], "a full context is told")


def budgets(test):
    """One plan for all turns, within --memory, every byte as planned."""
    prompts = turns_of("red sea", "north", "star " * 40)
    fixed = talk(test, *prompts, "--tokens", 20, "--ignore-eos", "--json")
    whole = test.succeeds(*fixed, "--audit")
    test.equal("context", whole["chat"]["context"], POSITIONS)
    error = test.run(*fixed, "--memory", "20MiB").json()
    test.equal("code of a small budget", error["code"], "E-PLAN-FIT")
    floor = int(error["try"][0].split()[1])
    seen = set()
    for budget in (floor, (floor + whole["predicted"]["process_bytes"]) // 2, whole["predicted"]["process_bytes"]):
        said = test.succeeds(*fixed, "--memory", budget)
        test.that(said["measured"]["process_hwm_bytes"] <= said["predicted"]["process_bytes"] <= budget, f"within {budget}")
        test.succeeds(*fixed, "--memory", budget, "--audit")
        seen.add(said["chat"]["context"])
        test.equal("answers", [s["tokens"] for s in said["samples"]], [s["tokens"] for s in whole["samples"]])
    test.that(min(seen) == 512 and max(seen) == POSITIONS, f"a smaller budget has a smaller context: {seen}")
    test.fails(3, "E-PLAN-FIT", *talk(test, *prompts, "--memory", floor - 4096))


def others(test):
    """A template of one's own, an adapter, a GGUF file."""
    own = test.write("own.jinja", "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]")
    said = test.succeeds(*talk(test, "--prompt", "hi", "--template", own, "--tokens", 3, "--json"))
    test.equal("its own template", said["samples"][0]["rendered"], "[user] hi\n[assistant]")
    config = prepare(test)
    # The template of the training is the template of the saved weights and of the adapter.
    trained = test.write("trained.jinja", TEMPLATE.replace("<|im_start|>", "<|im_end|>"))
    test.succeeds("train", config, *sets(data__template=trained), "--updates", 1, "--memory", "2GiB", "--run", "marked", "--json")
    words = ["--prompt", "hi", "--tokens", 3, "--memory", "1GiB", "--json"]
    said = test.succeeds("generate", "--chat", "--weights", "marked", *words)
    test.that(said["samples"][0]["rendered"].startswith(f"{END}user"), "the template of the training")
    more = sets(model__init="weights", adapter__kind="lora", model__context=160)
    text = pathlib.Path(config).read_text()
    begin, end = text.index("[model]"), text.index("[data]")
    tune = test.write("tune.toml", text[:begin] + text[end:])
    test.succeeds("train", tune, *more, "--updates", 1, "--memory", "2GiB", "--run", "tuned", "--json")
    command = ["generate", "--chat", "--prompt", "red sea", "--temperature", 0, "--tokens", 5, "--memory", "1GiB", "--json"]
    said = test.succeeds(*command, "--adapter", "tuned")
    test.equal("the base's template", said["samples"][0]["rendered"], turn("user", "red sea") + HEAD)
    tuned = [*more, *sets(data__template=trained)]
    test.succeeds("train", tune, *tuned, "--updates", 1, "--memory", "2GiB", "--run", "retuned", "--json")
    said = test.succeeds(*command, "--adapter", "retuned")
    test.that(said["samples"][0]["rendered"].startswith(f"{END}user"), "the template of the adapter's training")
    test.succeeds("export", "--weights", "weights", "--gguf", "model.gguf", "--type", "F32", "--json")
    there, here = test.succeeds(*command, "--weights", "model.gguf"), test.succeeds(*command, "--weights", "weights")
    for key in ("rendered", "prompt_tokens", "tokens"):
        test.equal(f"{key} of a GGUF file", there["samples"][0][key], here["samples"][0][key])
    test.equal("its ends", there["chat"]["end_tokens"], here["chat"]["end_tokens"])


class Terminal:
    """The chat on a terminal; what it answers, and what it says."""

    def __init__(self, test, *more):
        self.near, far = terminal_pair() or (None, None)
        if self.near is None:
            return
        command = [test.binary, *map(str, talk(test, *more))]
        self.process = subprocess.Popen(
            command, cwd=test.folder, stdin=far, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        os.close(far)
        os.set_blocking(self.process.stdout.fileno(), False)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.out = self.err = b""

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.out += self.process.stdout.read() or b""
            self.err += self.process.stderr.read() or b""
            if condition():
                return True
            time.sleep(0.01)
        return False

    def ready(self, count):
        return self.wait(lambda: self.err.count(b"> ") >= count)

    def write(self, text):
        os.write(self.near, text)

    def end(self):
        try:
            return self.process.wait(timeout=60)
        finally:
            self.process.kill()
            os.close(self.near)


def terminals(test):
    chat = Terminal(test, "--ignore-eos", "--tokens", 3000, "--seed", 5)
    if chat.near is None:
        return
    test.that(chat.ready(1), f"a line is asked for: {chat.err}")
    chat.write(b"red sea\n")
    test.that(chat.wait(lambda: len(chat.out) > 5), "the answer comes as it is made")
    os.kill(chat.process.pid, signal.SIGINT)
    test.that(chat.ready(2), "Ctrl-C ends the answer")
    test.that(b"after 3000 tokens" not in chat.err and chat.process.poll() is None, "not the conversation")
    chat.write(b"star " * 700 + b"\n")
    test.that(chat.wait(lambda: chat.err.count(b"E-") > 0 or chat.err.count(b"> ") > 2), "a long line")
    chat.write(b"\n")
    before = len(chat.out)
    chat.write(b"north\n")
    test.that(chat.wait(lambda: len(chat.out) > before + 5), "the conversation goes on")
    os.kill(chat.process.pid, signal.SIGINT)
    asked = chat.err.count(b"> ")
    test.that(chat.ready(asked + 1) or chat.err.endswith(b"> "), "and asks again")
    chat.write(b"\x04")
    test.equal("exit code behind Ctrl-D", chat.end(), 0)
    # Ctrl-C where nothing is going on ends the conversation.
    chat = Terminal(test)
    test.that(chat.ready(1), f"a line is asked for: {chat.err}")
    os.kill(chat.process.pid, signal.SIGINT)
    test.equal("exit code behind Ctrl-C", chat.end(), 0)


def refused(test):
    model(test)
    bare = test.path("bare")
    shutil.copytree(test.path("weights"), bare)
    (bare / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    command = ["generate", "--prompt", "a", "--memory", "1GiB"]
    error = test.fails(5, "E-CHAT-TEMPLATE", *command, "--chat", "--weights", "bare")
    test.equal("what helps", error["try"], ["--template FILE"])
    template = test.write("refuses.jinja", "{{ raise_exception('no system turns') }}")
    error = test.fails(5, "E-CHAT-TEMPLATE", *command, "--chat", "--weights", "weights", "--template", template)
    test.that("no system turns" in error["message"], f"the template says why: {error}")
    test.that(error["try"][0].startswith("--template FILE"), f"what helps here: {error['try']}")
    silent = test.write("silent.jinja", "")
    test.fails(5, "E-CHAT-TEMPLATE", *command, "--chat", "--weights", "weights", "--template", silent)
    test.fails(5, "E-IO-MISSING", *command, "--chat", "--weights", "weights", "--template", "nowhere.jinja")
    for more in (["--context", 1], ["--context", POSITIONS + 1], ["--context", -5], ["--tokens", 0], ["--prompt", ""]):
        test.fails(2, "E-USAGE", *command, "--chat", "--weights", "weights", *more)
    for more in (["--system", "a"], ["--template", template], ["--context", 64]):
        test.fails(2, "E-USAGE", *command, "--weights", "weights", *more)
    test.fails(2, "E-USAGE", "generate", "--weights", "weights")
    test.succeeds("train", "config.toml", "--updates", 1, "--run", "bytes", "--json")
    test.fails(5, "E-CHAT-TEMPLATE", *command, "--chat", "--weights", "bytes")


def main():
    test = Test("generate_chat")
    test.that("generation" in TEMPLATE, "the template of these tests has marks")
    test.run_parts(answers, ends, lines, outgrown, budgets, others, terminals, refused)
    test.finish()


if __name__ == "__main__":
    main()
