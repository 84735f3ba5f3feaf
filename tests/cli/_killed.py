"""A run that is killed and resumed three times, and the numbers that exports of it must have."""

import json
import signal

SETTINGS = ["--set", "model.dropout=0", "--set", "machine.threads=1", "--set", "train.effective_batch=32"]
SETTINGS += [
    "--set",
    "train.updates=160",
    "--set",
    "save.every=20",
    "--set",
    "train.evaluate_every=10",
    "--set",
    "save.keep_last=9",
]
KILLS = (30, 75, 110)  # updates

TAGS = {
    "train/loss": "loss",
    "train/gradient_norm": "grad_norm",
    "train/learning_rate": "learning_rate",
    "train/update_ratio": "update_ratio",
    "perf/tokens_per_second": "tokens_per_second",
    "perf/wait_seconds": "wait_seconds",
    "memory/process_bytes": "vm_hwm_bytes",
}
# Updates that are trained again after a kill have these numbers again, bit by bit.
SAME_AGAIN = ("train/loss", "train/gradient_norm", "train/learning_rate", "train/update_ratio", "eval/loss")


def train_with_kills(test, run):
    process = test.start("train", "config.toml", "--run", run, *SETTINGS)
    for update in KILLS:
        test.wait_for_lines(process, run, update)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = test.start("train", "--run", run, "--resume")
    process.communicate()
    test.equal(f"exit code of {run}", process.returncode, 0)
    test.equal(f"starts of {run}", len(test.report(run)["segments"]), 1 + len(KILLS))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def expected(folder, after=0, until=1 << 60):
    """{tag: {update: value}} of the lines in a folder."""
    values = {tag: {} for tag in [*TAGS, "eval/loss"]}
    for line in lines_of(folder / "metrics.jsonl"):
        if after < line["update"] <= until:
            for tag, key in TAGS.items():
                values[tag][line["update"]] = line[key]
    for line in lines_of(folder / "eval.jsonl"):
        if after < line["update"] <= until:
            values["eval/loss"][line["update"]] = line["loss"]
    return values


def parts_of(folder):
    """What a run that went back once, or never, has to show: [part 1, part 2]."""
    left = folder / "abandoned/1"
    if not left.exists():
        return [expected(folder)]
    back = min(line["update"] for line in lines_of(left / "metrics.jsonl")) - 1
    first, rest = expected(folder, 0, back), expected(left)
    return [{tag: {**first[tag], **rest[tag]} for tag in first}, expected(folder, back)]
