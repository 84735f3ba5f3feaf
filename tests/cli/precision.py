#!/usr/bin/env python3
"""Formats of stored numbers: each choice takes the documented bytes, and changes only the rounding."""

import json
import math
import pathlib
import re

from _plimsoll import Test

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "precision.md"
SIZES = {"f32": 4, "bf16": 2, "u8": 1}
CODED_BLOCK = 256  # parameters that share a scale
KEPT = ("parameters", "gradient accumulators", "optimizer state")


def stated():
    """(settings, bytes of a parameter) of each row of the table."""
    head, rows = False, []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "`[precision]`":
            head = True
        elif head and not line.startswith("|"):
            break
        elif head and not cells[0].startswith("---"):
            rows.append((re.findall(r"(\w+) = \"(\w+)\"", cells[0]), float(cells[-1])))
    return rows


def bytes_of_a_parameter(test):
    rows = stated()
    test.that(len(rows) >= 2, "docs/precision.md has a table of bytes")
    for settings, expected in rows:
        sets = [part for key, value in settings for part in ("--set", f"precision.{key}={value}")]
        split = ["--set", "train.micro_batch=1", "--set", "train.accumulation=8"]
        plan = test.succeeds("plan", "config.toml", "--values", "--json", *split, *sets)
        for key, value in settings:
            named = {"gradients": "accumulation", "parameters": "storage"}.get(key, key)
            test.equal(f"precision.{named} in the plan", plan["precision"][named], value)
        kept = [value for value in plan["values"] if value["role"] in KEPT and value["alias_of"] is None]
        size = {value["name"]: math.prod(value["shape"]) * SIZES[value["dtype"]] for value in kept}
        parameters = sum(math.prod(value["shape"]) for value in kept if value["role"] == "parameters")
        # The tied embedding's rows have sums of their own.
        apart = size.pop("wte.weight.grad.rows")
        test.equal("bytes of the embedding's own sums", apart, 4 * 256 * 32)
        # A state of 8 bits has a scale for each block of a tensor.
        scales = {name: size.pop(name) for name in list(size) if name.endswith(".scale")}
        of = {value["name"]: math.prod(value["shape"]) for value in kept}
        for name, scale in scales.items():
            test.equal(f"bytes of {name}", scale, 4 * math.ceil(of[name.removesuffix(".scale")] / CODED_BLOCK))
        test.equal("states with scales", len(scales), 2 * 28 if ("optimizer_state", "8bit") in settings else 0)
        # With fp32 gradients this holds for all parameters, otherwise for matrices alone.
        matrix = "h.0.mlp.c_fc.weight"
        own = [name for name in size if name.startswith(matrix) and not name.endswith(".part")]
        test.equal(f"bytes of a matrix with {settings}", sum(size[name] for name in own) / of[matrix], expected)
        if ("gradients", "bf16") not in settings:
            for table in ("wte.weight", "wpe.weight"):
                own = [name for name in size if name.startswith(table)]
                test.equal(f"bytes of {table} with {settings}", sum(size[name] for name in own) / of[table], expected)
        if not {("gradients", "bf16"), ("parameters", "bf16")} & set(settings):
            test.equal(f"bytes a parameter with {settings}", sum(size.values()) / parameters, expected)


def train(test, run, *more):
    return test.succeeds("train", "config.toml", "--run", run, "--set", "schedule.name=constant", "--json", *more)


def narrow_state(test, width="bf16"):
    narrow = ["--set", f"precision.optimizer_state={width}"]
    exact, whole = train(test, f"exact-{width}"), train(test, f"whole-{width}", *narrow)
    test.near("the loss with a narrow state", whole["final"]["loss"], exact["final"]["loss"], 2e-3)
    test.that(
        whole["final"]["parameters_xxh128"] != exact["final"]["parameters_xxh128"], "a narrow state has rounded something"
    )
    again = train(test, f"again-{width}", *narrow)
    folder = test.path("pages")
    disk = train(test, f"disk-{width}", *narrow, "--disk", f"{folder}:64MiB", "--set", "plan.optimizer_state=disk")
    train(test, f"cut-{width}", *narrow, "--updates", "3")
    cut = train(test, f"cut-{width}", *narrow, "--resume", "--updates", "6")
    for name, report in (("again", again), ("from the disk", disk), ("in two pieces", cut)):
        for key in ("parameters_xxh128", "loss_bits"):
            test.equal(f"{key} {name}", report["final"][key], whole["final"][key])


def narrow_gradients(test):
    split = ["--set", "train.micro_batch=2", "--set", "train.accumulation=4"]
    narrow = [*split, "--set", "precision.gradients=bf16"]
    exact, whole = train(test, "exact-sums", *split), train(test, "narrow-sums", *narrow)
    test.near("the loss with narrow sums", whole["final"]["loss"], exact["final"]["loss"], 2e-3)
    test.that(whole["final"]["parameters_xxh128"] != exact["final"]["parameters_xxh128"], "sums have been rounded")
    pages = ["--disk", f"{test.path('pages')}:64MiB"]
    for name, more in {
        "again": [],
        "from the disk": [*pages, "--set", "plan.parameters=disk", "--set", "plan.gradients=disk"],
        "block by block": ["--set", "plan.group=4"],
        "with everything made again": ["--set", "plan.recompute=all"],
        "with all on disk and block by block": [*pages, "--set", "plan.gradients=disk", "--set", "plan.group=2"],
    }.items():
        report = train(test, f"narrow sums {name}", *narrow, *more, "--audit")
        for key in ("parameters_xxh128", "loss_bits"):
            test.equal(f"{key} {name}", report["final"][key], whole["final"][key])
    train(test, "cut-sums", *narrow, "--updates", "3")
    cut = train(test, "cut-sums", *narrow, "--resume", "--updates", "6")
    test.equal("bits in two pieces", cut["final"]["parameters_xxh128"], whole["final"]["parameters_xxh128"])
    both = [*narrow, "--set", "optimizer.name=adafactor", "--set", "optimizer.learning_rate=1e-2"]
    test.that(train(test, "sums-adafactor", *both) is not None, "with adafactor")


def to_the_nearest(test):
    """Rounding to nearest is refused unless forced, as it loses small steps."""
    narrow = ["--set", "precision.compute=bf16", "--set", "precision.parameters=bf16"]
    nearest = ["--set", "precision.rounding=nearest"]
    error = test.fails(2, "E-CONFIG-ROUNDING", "plan", "config.toml", *narrow, *nearest)
    test.that("precision.force_nearest=true" in " ".join(error["try"]), f"how to insist: {error}")
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "config.toml", *nearest, "--set", "precision.force_nearest=true")
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "config.toml", *narrow, "--set", "precision.force_nearest=true")
    # Remedies of a refused plan leave no number to round.
    state = ["--set", "precision.optimizer_state=bf16", *nearest, "--set", "precision.force_nearest=true"]
    refused = test.run("plan", "config.toml", *state, "--memory", "12MiB", "--json")
    test.equal("exit code of what does not fit", refused.code, 3)
    tried = [" ".join(remedy["arguments"]) for remedy in refused.json()["infeasible"]["remedies"]]
    wider = [line for line in tried if "optimizer_state=fp32" in line]
    test.that(all("rounding=stochastic" in line for line in wider), f"{tried}")
    forced = [*narrow, *nearest, "--set", "precision.force_nearest=true"]
    small = ["--set", "optimizer.weight_decay=0", "--set"]
    rate = "optimizer.learning_rate={}".format
    train(test, "still", *narrow, *small, rate(1e-30), "--updates", "1")
    train(test, "nearest", *forced, *small, rate(1e-6))
    train(test, "random", *narrow, *small, rate(1e-6))
    text = test.path("nearest/config.resolved.toml").read_text()
    test.that('rounding = "nearest"' in text and "force_nearest = true" in text, "the run says so")
    weights = (test.path(run) / "weights/model.safetensors" for run in ("still", "nearest", "random"))
    still, nearest, random = (bf16_elements(path) for path in weights)
    moved = [sum(a != b for a, b in zip(still, each)) / len(still) for each in (nearest, random)]
    test.that(3 * moved[0] < moved[1], f"of small steps fewer are lost at random: {moved}")


def bf16_elements(path, name="h.0.mlp.c_fc.weight"):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    begin, end = json.loads(raw[8 : 8 + size])[name]["data_offsets"]
    return [raw[8 + size + i : 10 + size + i] for i in range(begin, end, 2)]


def narrow_parameters(test):
    split = ["--set", "train.micro_batch=2", "--set", "train.accumulation=4", "--set", "precision.compute=bf16"]
    narrow = [*split, "--set", "precision.parameters=bf16"]
    exact, whole = train(test, "master", *split), train(test, "no-master", *narrow)
    test.near("the loss without a master copy", whole["final"]["loss"], exact["final"]["loss"], 5e-3)
    pages = ["--disk", f"{test.path('pages')}:64MiB"]
    for name, more in {
        "again": [],
        "from the disk": [*pages, "--set", "plan.parameters=disk", "--set", "plan.gradients=disk"],
        "with everything made again": ["--set", "plan.recompute=all"],
    }.items():
        report = train(test, f"no master {name}", *narrow, *more, "--audit")
        for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
            test.equal(f"{key} {name}", report["final"][key], whole["final"][key])
    train(test, "cut-master", *narrow, "--updates", "3")
    cut = train(test, "cut-master", *narrow, "--resume", "--updates", "6")
    test.equal("bits in two pieces", cut["final"]["parameters_xxh128"], whole["final"]["parameters_xxh128"])
    least = ["--set", "precision.gradients=bf16", "--set", "precision.optimizer_state=8bit"]
    smallest = train(test, "six-bytes", *narrow, *least)
    test.near("the loss with six bytes", smallest["final"]["loss"], exact["final"]["loss"], 1e-2)
    for name in ("lion", "sgd"):
        optimizer = ["--set", f"optimizer.name={name}", "--set", "optimizer.momentum=0.9"]
        other = train(test, f"no-master-{name}", *narrow, *least, *optimizer)
        test.that(other is not None, f"{name} rounds its weights")
    # All commands that read weights read the result.
    loss = test.succeeds("eval", "config.toml", "--weights", test.path("no-master") / "weights", "--json")["loss"]
    test.near("the loss of what was saved", loss, whole["final"]["validation_loss"], 1e-3)
    more = train(test, "from-weights", *narrow, "--set", f"model.init={test.path('no-master') / 'weights'}", "--updates", "1")
    test.that(more is not None, "weights of bf16 are a beginning")
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "config.toml", "--set", "precision.parameters=bf16")
    # Adafactor: almost nothing in addition to weights and sums of two bytes each.
    factored = ["--set", "optimizer.name=adafactor", "--set", "optimizer.learning_rate=1e-2"]
    exact = train(test, "factored-master", *split, *factored)
    two = train(test, "factored", *narrow, *factored, "--set", "precision.gradients=bf16", "--audit")
    test.near("the loss with four bytes", two["final"]["loss"], exact["final"]["loss"], 1e-2)
    disk = [*pages, "--set", "plan.parameters=disk"]
    paged = train(test, "factored-disk", *narrow, *factored, "--set", "precision.gradients=bf16", *disk, "--audit")
    test.equal("bits of adafactor from the disk", paged["final"]["parameters_xxh128"], two["final"]["parameters_xxh128"])


def coded_state(test):
    narrow_state(test, "8bit")


def rounded_products(test):
    rounded = ["--set", "precision.compute=bf16", "--set", "train.micro_batch=4", "--set", "train.accumulation=2"]
    exact = train(test, "exact-4", *rounded[2:])
    whole = train(test, "products", *rounded)
    test.near("the loss with rounded products", whole["final"]["loss"], exact["final"]["loss"], 2e-3)
    test.that(whole["final"]["parameters_xxh128"] != exact["final"]["parameters_xxh128"], "products have been rounded")
    folder = test.path("pages")
    others = {
        "again": [],
        "with everything made again": ["--set", "plan.recompute=all", "--set", "plan.loss_chunks=8"],
        "from the disk": ["--disk", f"{folder}:64MiB", "--set", "plan.parameters=disk", "--set", "plan.gradients=disk"],
    }
    for name, more in others.items():
        report = train(test, f"products {name}", *rounded, *more, "--audit")
        for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
            test.equal(f"{key} {name}", report["final"].get(key), whole["final"].get(key))
        measured, predicted = report["measured"], report["predicted"]
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{key} {name}", measured[key], predicted[key])
    narrow = ["--set", "precision.optimizer_state=bf16"]
    both = train(test, "both", *rounded, *narrow)
    test.near("the loss with both", both["final"]["loss"], exact["final"]["loss"], 4e-3)


def overflowing(test):
    """fp16: an overflowing window is computed again, and a skipped window changes no parameter."""
    half = ["--set", "precision.compute=fp16", "--set", "train.micro_batch=2", "--set", "train.accumulation=4"]
    exact, whole = train(test, "exact-2", *half[2:]), train(test, "half", *half)
    test.near("the loss in fp16", whole["final"]["loss"], exact["final"]["loss"], 1e-3)
    test.that(not (test.path("half") / "events.jsonl").exists(), "nothing overflowed")
    test.equal("scales", {line["loss_scale"] for line in test.lines("half")}, {65536.0})
    # One overflow, in the third of four micro-steps: what is left of the window is not run, and it is computed again.
    once = train(test, "once", *half, "--fault", "overflow=3:2:1")
    test.near("the loss after an overflow", once["final"]["loss"], whole["final"]["loss"], 1e-4)
    test.equal("scales", [line["loss_scale"] for line in test.lines("once")], [65536.0] * 2 + [32768.0] + [65536.0] * 3)
    event = {"event": "overflow", "update": 3, "loss_scale": 65536.0, "micro_steps": 3}
    test.equal("events", events(test, "once"), [event])
    test.equal("samples", once["samples"], whole["samples"])
    train(test, "cut-half", *half, "--fault", "overflow=3:2:1", "--updates", "3")
    cut = train(test, "cut-half", *half, "--resume")
    test.equal("bits in two pieces", cut["final"]["parameters_xxh128"], once["final"]["parameters_xxh128"])
    test.equal("events in two pieces", events(test, "cut-half"), [event])
    # The same samples in every window: one that is skipped leaves no trace but its scale.
    test.write("few.txt", test.path("train.txt").read_bytes()[: 8 * 32 + 1])
    same = [*half, "--set", "data.train=few.txt", "--set", "data.order=sequential", "--set", "model.dropout=0"]
    same += ["--set", "schedule.warmup=0updates"]
    skipped = train(test, "skipped", *same, "--fault", "overflow=2:0:4")
    test.equal("scales", [line["loss_scale"] for line in test.lines("skipped")], [65536.0] + [4096.0] * 5)
    test.equal("samples of a skip", events(test, "skipped")[-1]["samples"], [[1, i] for i in range(8)])
    test.equal("samples taken", skipped["samples"], 7 * 8)
    low = train(test, "low", *same, "--set", "precision.loss_scale=4096")
    test.near("the loss with another scale", low["final"]["loss"], skipped["final"]["loss"], 1e-4)
    train(test, "skipped-cut", *same, "--fault", "overflow=2:0:4", "--updates", "2")
    cut = train(test, "skipped-cut", *same, "--resume")
    test.equal("bits in two pieces, behind a skip", cut["final"]["parameters_xxh128"], skipped["final"]["parameters_xxh128"])
    test.equal("samples in two pieces", cut["samples"], 7 * 8)
    first = train(test, "skipped-first", *same, "--fault", "overflow=1:0:4")
    test.equal("bits behind a skip", first["final"]["parameters_xxh128"], low["final"]["parameters_xxh128"])
    disk = ["--disk", f"{test.path('pages')}:64MiB", "--set", "plan.parameters=disk", "--set", "plan.gradients=disk"]
    for name, more in {
        "from the disk": disk,
        "with everything made again": ["--set", "plan.recompute=all", "--set", "plan.loss_chunks=8"],
        "block by block": ["--set", "plan.group=4"],
    }.items():
        other = train(test, f"half {name}", *half, *more, "--fault", "overflow=3:3:1", "--audit")
        test.near(f"the loss {name}", other["final"]["loss"], whole["final"]["loss"], 1e-4)
        test.equal(f"overflows {name}", len(events(test, f"half {name}")), 1)
    error = test.fails(4, "E-SCALE-FLOOR", "train", "config.toml", "--run", "floor", *half, "--fault", "overflow=1:0:1000")
    test.that("precision.compute=bf16" in " ".join(error["try"]), f"a remedy: {error}")
    test.that((test.path("floor") / "diverged").exists(), "the state is kept")


def watched(test):
    """A decay that replaces every matrix at each update: all are named, once, and equally for every plan."""
    decay = ["--set", "optimizer.learning_rate=0.01", "--set", "optimizer.weight_decay=200"]
    decay += ["--set", "train.on_divergence=continue"]
    split = ["--set", "train.micro_batch=2", "--set", "train.accumulation=4", "--updates", "60"]
    pages = ["--disk", f"{test.path('pages')}:64MiB", "--set", "plan.optimizer_state=disk", "--set", "plan.parameters=disk"]
    for name, more in {"watched": [], "watched-disk": pages, "watched-again": ["--set", "plan.recompute=all"]}.items():
        train(test, name, *decay, *split, *more)
    paths = [test.path(name) / "metrics.jsonl" for name in ("watched", "watched-disk", "watched-again")]
    ratios = [[json.loads(line)["update_ratio"] for line in path.read_text().splitlines()] for path in paths]
    test.that(0.1 < ratios[0][40] < 2, f"the update ratio: {ratios[0][40]}")
    test.that(ratios[0] == ratios[1] == ratios[2], "the same for every plan")
    told = [event for event in events(test, "watched") if event["event"] == "UPDATE_RATIO"]
    names = sorted(name for event in told for name in event["names"])
    test.equal("updates of events", sorted({event["update"] for event in told})[0], 52)
    matrices = sorted(f"h.{i}.{part}.weight" for i in (0, 1) for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"))
    test.equal("matrices that are told of", names, sorted([*matrices, "wpe.weight", "wte.weight"]))


def small_gradients(test):
    """fp16: gradients below its range are counted, and each is named once, by a resumed run as well."""
    half = ("--set", "precision.compute=fp16", "--set", "precision.loss_scale_growth=1000000samples", "--updates", "30")
    train(test, "small", *half, "--set", "precision.loss_scale=1", "--set", "model.dropout=0")
    lines = [json.loads(line) for line in (test.path("small") / "metrics.jsonl").read_text().splitlines()]
    test.that(all(0.05 < line["underflow"] <= 1 for line in lines), "a scale of 1 loses digits")
    found = [event for event in events(test, "small") if event["event"] == "UNDERFLOW"]
    test.that(found and found[0]["update"] == 20 and found[0]["most"] > 0.05, f"{found}")
    test.that(any(name.startswith("h.1.mlp") for name in found[0]["names"]), f"{found[0]['names']}")
    names = [name for event in found for name in event["names"]]
    test.equal("names that are said twice", len(names), len(set(names)))
    train(test, "small", *half, "--set", "precision.loss_scale=1", "--set", "model.dropout=0", "--resume", "--updates", "60")
    after = [name for event in events(test, "small") if event["event"] == "UNDERFLOW" for name in event["names"]]
    test.equal("names that are said twice after a resume", len(after), len(set(after)))
    train(test, "not-small", *half, "--set", "precision.loss_scale=16777216", "--set", "model.dropout=0")
    lines = [json.loads(line) for line in (test.path("not-small") / "metrics.jsonl").read_text().splitlines()]
    test.that(all(line["underflow"] < 0.05 for line in lines), "the largest scale does not")


def events(test, run):
    return [json.loads(line) for line in (test.path(run) / "events.jsonl").read_text().splitlines()]


def offered(test):
    plan = test.succeeds("plan", "config.toml", "--json")
    lever = [lever for lever in plan["levers"] if "precision.optimizer_state=bf16" in lever["arguments"]]
    if test.equal("levers that narrow the state", len(lever), 1):
        test.that(lever[0]["changes_result"], "the lever says that it changes results")
        own = plan["predicted"]["process_bytes"]
        test.that(lever[0]["process_bytes"] < own, f"{lever[0]['process_bytes']} is less than {own}")
    text = test.succeeds("plan", "config.toml", "--set", "precision.optimizer_state=bf16")
    test.that("fp32 (optimizer state bf16)" in text, "the plan names both precisions")
    test.fails(2, "E-CONFIG-PRECISION", "plan", "config.toml", "--set", "precision.optimizer_state=fp8")
    none = ["--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0"]
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "config.toml", *none, "--set", "precision.optimizer_state=bf16")
    # As files of other programs have it: one of two flags.
    config = test.path("config.toml").read_text()
    test.write("flags.toml", config + "[precision]\nbf16 = true\nfp16 = false\n")
    test.equal("compute", test.succeeds("plan", "flags.toml", "--json")["precision"]["compute"], "bf16")


def main():
    test = Test("precision")
    states = [narrow_state, coded_state]
    test.run_parts(bytes_of_a_parameter, *states, narrow_gradients, narrow_parameters, to_the_nearest,
                   rounded_products, overflowing,
                   watched, small_gradients, offered)
    test.finish()


if __name__ == "__main__":
    main()
