"""Tools of the end-to-end tests: runs of the binary, a tiny configuration with its data, checks that continue after a failure.

Each test is a program: `python3 NAME.py path/to/plimsoll [--keep FOLDER]`. It prints a line per difference and exits 1
if there is one.
"""

import argparse
import array
import functools
import json
import os
import pathlib
import pty
import random
import shutil
import subprocess
import sys
import tempfile
import time

TIMEOUT = 300  # seconds of a command, on a machine that does other work as well

CONFIG = """\
seed = 3
[model]
kind = "gpt2"
layers = 2
width = 32
heads = 2
context = 32
vocab = 256
dropout = 0.1
[data]
train = "train.txt"
validation = "validation.txt"
format = "bytes"
[train]
effective_batch = 8
updates = 6
evaluate_samples = 8
[optimizer]
name = "adamw"
learning_rate = 1e-3
[schedule]
name = "cosine"
warmup = "2updates"
[memory]
budget = "64MiB"
[machine]
threads = 2
"""


def terminal_pair():
    """Both ends of a pseudo-terminal; None if there is no such device, as in a bare chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        print(f"skipped: a terminal, {error}")
        return None


def shown_on(master):
    """The pieces of a terminal's output, until the last process has closed its side."""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


class Result:
    def __init__(self, command, process):
        self.command = " ".join(command[1:])
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def text(self):
        return self.out.decode("utf-8", "replace"), self.err.decode("utf-8", "replace")

    def json(self):
        """The one JSON object on stdout, or None."""
        try:
            value = json.loads(self.out)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Test:
    """A scratch folder with config.toml, train.txt and validation.txt; the binary; failures so far."""

    def __init__(self, name, options=None):
        """`options` adds those of a script to the parser; `arguments` has their values."""
        parser = argparse.ArgumentParser()
        parser.add_argument("binary", type=pathlib.Path)
        parser.add_argument("--keep", type=pathlib.Path, help="work in this folder, empty or new, and leave it")
        parser.add_argument("--only", action="append", metavar="PART", help="of the parts; may be repeated")
        if options:
            options(parser)
        self.arguments = arguments = parser.parse_args()
        self.binary, self.keep = str(arguments.binary.resolve()), arguments.keep is not None
        self.only = arguments.only
        self.failures, self.checks = 0, 0
        self.folder = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix=f"plimsoll_{name}_"))).resolve()
        # In the folder of the binary, so that the machine is measured once for all tests of a build.
        os.environ.setdefault("XDG_CACHE_HOME", str(pathlib.Path(self.binary).parent / "test-cache"))
        self.write("config.toml", CONFIG)
        self.write("train.txt", prose(1, 20000))
        self.write("validation.txt", prose(2, 2000))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def path(self, name):
        return self.folder / name

    def run(self, *arguments, environment=None, stdout=None, timeout=TIMEOUT, before=None, stdin=None):
        command = [self.binary, *(str(argument) for argument in arguments)]
        process = subprocess.run(
            command,
            cwd=self.folder,
            input=stdin or b"",
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment or os.environ,
            timeout=timeout,
            preexec_fn=before,
        )
        return Result(command, process)

    def start(self, *arguments):
        command = [self.binary, *(str(argument) for argument in arguments)]
        return subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def that(self, condition, text):
        self.checks += 1
        if not condition:
            self.failures += 1
            print(f"FAIL {text}", flush=True)
        return bool(condition)

    def equal(self, what, got, want):
        return self.that(got == want, f"{what} is {got!r}, expected {want!r}")

    def near(self, what, got, want, relative):
        good = isinstance(got, (int, float)) and abs(got - want) <= relative * abs(want)
        return self.that(good, f"{what} is {got!r}, expected {want!r} within {relative:g}")

    def run_parts(self, *parts):
        """Calls each part with this test and prints its seconds. A part that ends early is a failure; the others still run."""
        for part in parts:
            name = part.func.__name__ if isinstance(part, functools.partial) else part.__name__
            if self.only and name not in self.only:
                continue
            start = time.monotonic()
            try:
                part(self)
            except Exception as error:
                self.that(False, f"{name} ended early: {type(error).__name__}: {error}")
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)

    def succeeds(self, *arguments):
        """Runs the command and demands exit 0. Returns the JSON object if --json is given, else stdout as text."""
        result = self.run(*arguments)
        if not self.equal(f"exit code of `{result.command}`", result.code, 0):
            print("\n".join(result.text())[-2000:])
            return None
        if "--json" not in arguments:
            return result.text()[0]
        self.that(result.json() is not None, f"stdout of `{result.command}` is one JSON object: {result.out[:200]!r}")
        return result.json()

    def fails(self, exit_code, code, *arguments):
        """Runs the command with --json. Demands the exit code and an error object with the code, reported on stderr as well."""
        result = self.run(*arguments, "--json")
        said = f"`{result.command}`"
        error = result.json()
        if not self.equal(f"exit code of {said}", result.code, exit_code) or not self.that(
            error is not None, f"stdout of {said} is one JSON object: {result.out[:200]!r}"
        ):
            print("\n".join(result.text())[-2000:])
            return None
        self.equal(f"code of {said}", error.get("code"), code)
        self.shape(f"error of {said}", error, ERROR)
        self.equal(f"schema of {said}", error.get("schema"), "plimsoll.error/1")
        self.that(code in result.text()[1], f"stderr of {said} names {code}")
        return error

    def shape(self, what, value, want):
        """Compares a value with a description: a type, a tuple of alternatives, [element], {key: description}."""
        if isinstance(want, tuple):
            return self.that(any(matches(value, one) for one in want), f"{what} is {shown(value)}, expected one of {want}")
        if isinstance(want, dict):
            if not self.that(isinstance(value, dict), f"{what} is {shown(value)}, expected an object"):
                return
            for key, inner in want.items():
                if self.that(key in value, f"{what} has the key {key}"):
                    self.shape(f"{what}.{key}", value[key], inner)
        elif isinstance(want, list):
            if self.that(isinstance(value, list), f"{what} is {shown(value)}, expected a list"):
                for i, element in enumerate(value):
                    self.shape(f"{what}[{i}]", element, want[0])
        else:
            self.that(matches(value, want), f"{what} is {shown(value)}, expected {want}")

    def wait_for_lines(self, process, run, count):
        """Waits until metrics.jsonl has n lines, or the process has ended."""
        path, deadline = self.path(run) / "metrics.jsonl", time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.read_bytes().count(b"\n") >= count:
                return
            time.sleep(0.002)

    def lines(self, run):
        """The lines of a run's metrics.jsonl. Every line must be complete JSON without NaN and infinity."""
        text = (self.path(run) / "metrics.jsonl").read_text()
        self.that(text == "" or text.endswith("\n"), f"{run}/metrics.jsonl ends with a whole line")
        return [json.loads(line, parse_constant=self.no_constant) for line in text.splitlines()]

    def no_constant(self, name):
        self.that(False, f"{name} is not JSON")

    def checkpoints(self, run):
        """The updates of its checkpoints, oldest first."""
        folder = self.path(f"{run}/checkpoints")
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []

    def state(self, run):
        """The file with the tensors of its newest checkpoint."""
        kept = self.checkpoints(run)
        return self.path(f"{run}/checkpoints/{kept[-1] if kept else 0}/state.safetensors")

    def report(self, run):
        return json.loads((self.path(run) / "run.json").read_text())

    def finish(self):
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        print(f"{self.checks} checks, {self.failures} failures")
        sys.exit(1 if self.failures else 0)


def matches(value, want):
    if want is None or isinstance(want, (str, dict)):
        return value == want
    if want is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if want is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, want)


def shown(value):
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


ERROR = {"schema": str, "code": str, "where": str, "message": str, "expected": str, "try": [str]}


def read_safetensors(path):
    """{name: (shape, array of fp32)} of a file; names without the prefix of GPT-2, tensors of other types left out."""
    blob = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(blob[:8], "little")
    tensors = {}
    for name, entry in json.loads(blob[8:begin]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = entry["data_offsets"]
        values = array.array("f", blob[begin + first : begin + last])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name.removeprefix("transformer.")] = (entry["shape"], values)
    return tensors


def byte_letters():
    """The letter for each byte, by GPT-2's rule."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}
    return [letters[byte] for byte in range(256)]


def prose(seed, size):
    """Words of a small alphabet: enough structure for a loss that falls."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 7))) for _ in range(50)]
    text = ""
    while len(text) < size:
        text += draw.choice(words) + draw.choice("  ,\n")
    return text[:size]
