"""The part `speed` of scripts/on_gpu: Plimsoll and compiled PyTorch on one card, by the stages of bench/cuda."""

import json

from session import ROOT, Absent, Cut, Failed, Step

# Seconds of a model's stages, in the order of STAGES.
MODELS = {"gpt2-124m": (70, 80, 40, 40), "smollm2-135m": (70, 80, 40, 40), "qwen2.5-0.5b": (85, 95, 50, 50)}
# Stages of bench/cuda, and whether they need PyTorch.
STAGES = {"kernels": False, "round 0 compile": True, "round 0 plimsoll": False, "budget, share of compile": True}


def stage(session, model, name):
    """One stage. Stages that have run, here or in an earlier session, are in the file that bench/cuda goes on from."""
    if STAGES[name] and not session.args.python:
        raise Absent("PyTorch: --python names a Python that has it")
    out = session.work / "bench.json"
    results = session.results_of("speed")["figures"]["steps"].values()
    stages = {key: value for result in results for key, value in result.get("stages", {}).items()}
    gpu = {"gpu": session.gpu.name} if session.gpu.name else {}
    out.write_text(json.dumps({"schema": "plimsoll.bench_cuda/1", **gpu, "stages": stages}))
    words = ["--device", session.args.device, "--model", model, "--stage", f"{model} {name}", "--out", out]
    words += ["--python", session.args.python] if session.args.python else []
    done = session.call(ROOT / "bench" / "cuda", session.plimsoll, *words, "--seconds", max(1, int(session.left())))
    found = json.loads(out.read_text())["stages"]
    figures = {"stages": {key: value for key, value in found.items() if key not in stages}}
    result = found.get(f"{model} {name}")
    if result is None:
        lines = (done.out + done.err).splitlines()
        if any(line.startswith("no time for") for line in lines):
            raise Cut
        missing = [line for line in lines if line.startswith("absent")]
        if missing:
            raise Absent(missing[0].removeprefix("absent "))
        raise Failed(f"exit {done.code}", said=done.last_lines())
    if "failed" in result:
        raise Failed(result["failed"], machine=found.get("machine", {}).get("name"))
    keys = ("tokens_per_second", "device_bytes", "reserved_bytes", "kernels", "best")
    return {**figures, **{key: result[key] for key in keys if key in result}}


def speed_steps():
    return [Step(f"{model} {name}", seconds, lambda s, m=model, n=name: stage(s, m, n))
            for model, times in MODELS.items() for name, seconds in zip(STAGES, times, strict=True)]  # fmt: skip
