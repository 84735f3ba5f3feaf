"""What scripts/to_wandb and scripts/to_mlflow share: the records of a run as rows, from `plimsoll export RUN --csv`."""

import argparse
import csv
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

# Columns of the tables, and their names elsewhere.
UPDATES = {
    "loss": "train/loss",
    "grad_norm": "train/gradient_norm",
    "learning_rate": "train/learning_rate",
    "update_ratio": "train/update_ratio",
    "tokens_per_second": "perf/tokens_per_second",
    "wait_seconds": "perf/wait_seconds",
    "vm_hwm_bytes": "memory/process_bytes",
}
EVALUATIONS = {"loss": "eval/loss", "accuracy": "eval/accuracy"}
PAUSE = 1  # seconds between two looks


class Part:
    """A run, or a part of one that went back to an earlier checkpoint. `sent` has the numbers of updates and evaluations that the
    other side has, and the digest of these updates."""

    def __init__(self, number, folder):
        self.number = number
        self.updates, self.evaluations = (table(folder / name) for name in ("metrics.csv", "evaluations.csv"))

    def digest(self, updates):
        text = "".join(f"{row['update']},{row['loss']}\n" for row in self.updates[:updates])
        return hashlib.sha256(text.encode()).hexdigest()

    def state(self):
        return {"updates": len(self.updates), "evaluations": len(self.evaluations), "digest": self.digest(None)}

    def continues(self, sent):
        """Whether these updates begin with those that were sent; None while the run has not reached them again."""
        if sent["updates"] > len(self.updates):
            return None
        return self.digest(sent["updates"]) == sent["digest"]

    def after(self, sent):
        """(update, time, {name: value}) of what was not sent, in the order of updates; an evaluation follows its update."""
        rows = [(0, row, UPDATES) for row in self.updates[sent["updates"] :]]
        rows += [(1, row, EVALUATIONS) for row in self.evaluations[sent["evaluations"] :]]
        for _, row, names in sorted(rows, key=lambda each: (int(each[1]["update"]), each[0])):
            values = {name: float(row[key]) for key, name in names.items() if row[key]}
            yield int(row["update"]), float(row["time"]), values


def table(file):
    return list(csv.DictReader(file.open(newline=""))) if file.exists() else []


def arguments(text, *options):
    """The arguments of a script: the run, --follow, --plimsoll, and its own `options`: (flag, default, help)."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of the run")
    parser.add_argument(
        "--follow", action="store_true", help="go on while the run lives, and after its resumes, until it is done"
    )
    parser.add_argument("--plimsoll", default=shutil.which("plimsoll") or "build/release/plimsoll", help="the program")
    for flag, default, help_text in options:
        parser.add_argument(flag, default=default, help=help_text)
    return parser.parse_args()


def shown(given):
    """The run as `runs show` has it: name, id, settings."""
    command = [given.plimsoll, "runs", "show", given.run, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["runs"][0]


def send_all(given, send):
    """Calls send(part) for each part of the run; with --follow again and again, until the run is done. An error of the other side
    ends the script, or with --follow is told and tried again: all that was not sent comes later."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as name:
        folder = pathlib.Path(name)
        export = [given.plimsoll, "export", given.run, "--csv", name, *(["--follow"] if given.follow else [])]
        child = subprocess.Popen(export, stdout=subprocess.DEVNULL)
        try:
            waits = PAUSE if given.follow else 0
            while True:
                ended = not given.follow or child.poll() is not None
                if ended and child.wait() != 0:
                    sys.exit(child.returncode)
                try:
                    for part in parts(folder):
                        send(part)
                    if ended:
                        return
                except Exception as error:
                    if not given.follow:
                        raise
                    print(f"note: {type(error).__name__}: {error}; it is tried again", file=sys.stderr, flush=True)
                    waits = min(2 * waits, 60)
                else:
                    waits = PAUSE
                time.sleep(waits)
        finally:
            child.kill()
            child.wait()


def parts(folder):
    number, at = 1, folder
    while (at / "metrics.csv").exists():
        yield Part(number, at)
        number += 1
        at = folder / str(number)
