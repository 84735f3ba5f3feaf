"""The part `memory` of scripts/on_gpu: large models within budgets. The driver's count stays within the budget at every sample,
is at most 64 MiB below the prediction, and does not grow after the first updates. An audited run has each byte at its planned
place. One MiB below the floor is refused.
"""

import dataclasses
import shutil
import statistics

from session import Failed, Step

from gpu_models import write_config

MIB, GIB = 1 << 20, 1 << 30
MOST_BELOW = 64 * MIB  # of the prediction
SMALL_UPDATES = 8
LORA = ["--set", "adapter.kind=lora", "--set", "adapter.rank=16", "--set", "quantize.base=nf4"]


@dataclasses.dataclass
class Model:
    name: str
    memory: int
    samples: int
    updates: int
    seconds: float
    host: int | None = None
    options: list = dataclasses.field(default_factory=list)


MODELS = (
    Model("gpt2-124m", 4 * GIB, 32, 200, 60),
    Model("gpt2-124m", 8 * GIB, 32, 200, 60),
    Model("gpt2-1.5b", 8 * GIB, 16, 20, 150, host=40 * GIB),
    Model("qwen2.5-1.5b", 4 * GIB, 4, 200, 120, options=LORA),
)


def budgets_of(session, model):
    if not session.cuda:
        return ["--memory", "256MiB", *model.options]
    host = ["--host-memory", model.host] if model.host else []
    return ["--memory", model.memory, *host, *model.options]


def configured(session, model):
    """The configuration, the number of updates, the plan and its file."""
    updates = model.updates if session.cuda else SMALL_UPDATES
    config = write_config(session.work, model.name, model.samples, updates, small=not session.cuda)
    planned, plan = session.plan(model.name, config, *session.device, *budgets_of(session, model))
    return config, updates, planned, plan


def counted(budget, predicted, sampler, settled):
    """The figures of a training's bytes, which must be within their limits."""
    if sampler.peak is None or settled is None:
        raise Failed("neither NVML nor nvidia-smi counts the bytes in use")
    figures = {"budget_bytes": budget, "predicted_bytes": predicted, "counted_bytes": sampler.peak,
               "predicted_minus_counted_bytes": predicted - sampler.peak, "grown_bytes": max(0, sampler.most - settled),
               "samples": sampler.samples}  # fmt: skip
    if sampler.peak > budget:
        raise Failed(f"{sampler.peak} bytes counted, of a budget of {budget}", **figures)
    if not 0 <= predicted - sampler.peak <= MOST_BELOW:
        raise Failed(f"predicted - counted is {(predicted - sampler.peak) / MIB:.1f} MiB", **figures)
    if figures["grown_bytes"] > 0:
        raise Failed(f"{figures['grown_bytes']} bytes more after the first updates", **figures)
    return figures


def within(session, model):
    config, updates, planned, plan = configured(session, model)
    lines, sampler, settled = session.train(config, "memory", updates, *model.options, "--plan", plan)
    figures = counted(planned["budget"]["memory"], planned["predicted"]["process_bytes"], sampler, settled)
    seconds = statistics.median(line["seconds"] for line in lines[1:])
    return {**figures, "source": session.gpu.source, "updates": updates, "micro": planned["batch"]["micro"],
            "tokens_per_second": round(statistics.median(line["tokens_per_second"] for line in lines[1:]), 1),
            "update_seconds": seconds, "predicted_seconds": planned["predicted"]["update_seconds"],
            "planning_seconds": planned["planning_seconds"], "host_bytes": lines[-1]["vm_hwm_bytes"],
            "predicted_host_bytes": planned["predicted"].get("host_bytes")}  # fmt: skip


def audited(session, model):
    config, _, _, plan = configured(session, model)
    run = session.work / "audit"
    shutil.rmtree(run, ignore_errors=True)
    words = [*session.device, *model.options, "--plan", plan, "--updates", 1, "--audit", "--run", run]
    report = session.demand("train", config, *words)
    shutil.rmtree(run, ignore_errors=True)
    figures = {}
    for key in ("arena_bytes", "live_bytes"):
        figures |= {key: report["measured"][key], f"{key}_off": report["measured"][key] - report["predicted"][key]}
    if figures["arena_bytes_off"] or figures["live_bytes_off"]:
        raise Failed("bytes are not as planned", **figures)
    return figures


def refused(session, model):
    config, _, planned, _ = configured(session, model)
    floor = planned["bounds"]["floor_bytes"]
    words = [config, *session.device, *budgets_of(session, model), "--memory", floor - MIB, "--run", session.work / "refused"]
    done = session.call(session.plimsoll, "train", *words, "--json")
    code = (done.json().get("infeasible") or {}).get("code")
    if (done.code, code) != (3, "E-PLAN-FIT"):
        raise Failed(f"one MiB below the floor: exit {done.code}, {code}", said=done.last_lines())
    return {"floor_bytes": floor}


def memory_steps():
    steps = []
    for model in MODELS:
        name = f"{model.name} {model.memory // GIB} GiB"
        steps.append(Step(name, model.seconds, lambda s, m=model: within(s, m)))
        steps.append(Step(f"{name} audit", model.seconds / 2, lambda s, m=model: audited(s, m)))
    steps.append(Step(f"{MODELS[0].name} below the floor", 30, lambda s: refused(s, MODELS[0])))
    return steps
