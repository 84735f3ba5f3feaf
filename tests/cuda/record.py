"""The part `record` of scripts/on_gpu: a model's kernels are measured and kept as a machine file; its predicted and measured
times at eight budgets. Machine files lie beside the results, in FILE.machines.
"""

import pathlib
import shutil
import statistics

from session import Failed, Step

from gpu_models import MODELS, SMALL, write_config

# Seconds to measure the kernels, and of a budget. The largest model takes more than one call of five minutes.
TIMES = {"gpt2-124m": (60, 20), "smollm2-135m": (70, 20), "qwen2.5-0.5b": (80, 25), "qwen2.5-1.5b": (110, 30)}
BUDGETS, SAMPLES, UPDATES = 8, 32, 6


def configured(session, name):
    """Its micro-batch is fixed: all budgets then have the kernels that were measured."""
    micro = (MODELS[name] if session.cuda else SMALL)["micro"]
    config = write_config(session.work, name, SAMPLES, UPDATES, small=not session.cuda)
    return config, ["--set", f"train.micro_batch={micro}", "--set", f"train.accumulation={SAMPLES // micro}"]


def restore(session):
    """The machine files of an earlier session go back to the cache, where the program looks for them."""
    cache = pathlib.Path(session.environment["XDG_CACHE_HOME"]) / "plimsoll"
    for file in session.kept.glob("machine-*.json") if session.kept.is_dir() else ():
        if not (cache / file.name).exists():
            cache.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, cache)


def kernels(session, name):
    restore(session)
    config, options = configured(session, name)
    record = session.demand("machine", config, *session.device, *options)
    session.kept.mkdir(exist_ok=True)
    shutil.copy(record["file"], session.kept)
    measured = {each["micro_batch"]: each for each in record["configuration"]}
    return {"machine": record["name"], "file": pathlib.Path(record["file"]).name, "kernels_measured": record["kernels_measured"],
            "missing": sum(each["kernels"] - each["measured"] for each in measured.values())}  # fmt: skip


def budget(session, name, number):
    """Budget `number` of the eight, from the floor to the ceiling in equal ratios."""
    config, options = configured(session, name)
    words = [config, *session.device, *options]
    bounds = session.plan("bounds", *words, "--memory", "64GiB" if session.cuda else "1GiB")[0]["bounds"]
    low, high = bounds["floor_bytes"], max(bounds["floor_bytes"], bounds["ceiling_bytes"])
    memory = high if number == BUDGETS - 1 else int(low * (high / low) ** (number / (BUDGETS - 1)))
    planned, plan = session.plan("record", *words, "--memory", memory)
    lines, sampler, _ = session.train(config, "record", UPDATES, *options, "--plan", plan)
    predicted, measured = planned["predicted"]["update_seconds"], statistics.median(line["seconds"] for line in lines[1:])
    figures = {"memory_bytes": memory, "predicted_seconds": predicted, "update_seconds": measured,
               "error": round(predicted / measured - 1, 4), "cost_source": planned["predicted"]["cost_source"],
               "planning_seconds": planned["planning_seconds"], "counted_bytes": sampler.peak}  # fmt: skip
    if sampler.peak is not None and sampler.peak > memory:
        raise Failed(f"{sampler.peak} bytes counted, of a budget of {memory}", **figures)
    return figures


def record_steps():
    steps = []
    for name, (first, each) in TIMES.items():
        steps.append(Step(f"{name} kernels", first, lambda s, n=name: kernels(s, n)))
        steps += [Step(f"{name} budget {i + 1}/{BUDGETS}", each, lambda s, n=name, i=i: budget(s, n, i), after=f"{name} kernels")
                  for i in range(BUDGETS)]  # fmt: skip
    return steps
