"""The parts of scripts/on_gpu: their steps, and how each is judged."""

import json
import os
import re
import shutil
import sys

from record import record_steps
from memory import memory_steps
from session import ROOT, Absent, Failed, Part, Step, metrics_of
from speed import speed_steps

SHARDS = 2
FOUND = 99  # the exit code of a sanitizer that has found something
# Each tool's planted fault, and its options. Past each buffer lie bytes that belong to nobody: those of another are as good as
# any to a tool.
TOOLS = {
    "memcheck": ("Overrun", ["--padding", "256", "--nvtx", "yes"]),
    "racecheck": ("Race", ["--nvtx", "no"]),
    "initcheck": ("Unwritten", ["--nvtx", "no"]),
    "synccheck": ("Barrier", ["--nvtx", "no"]),
}
HIDDEN = "--gtest_also_run_disabled_tests"
# One run of each case shows all accesses and exchanges between threads. Ranges are other kernels.
CASES = "CudaOps/OpCasesTest.AgreesWithTheReference/*:CudaOps/OpCasesTest.GivesTheSameBitsRangeByRange/*"
# Cases whose kernels are all our own: cuBLASLt's may have no PTX for this GPU.
OWN = "--gtest_filter=-Ops/*:*/matmul:*/block_matmul:*/linear_cross_entropy*:CudaBlocks.AMatrix*:CudaBlocks.ALoss*"
BITS = ("gpt2", "llama", "lora-nf4", "lora-q4_k", "chat")
# Parts of program.py, and a figure that each leaves on a GPU.
FAULTS = {"below_the_floor": "below-the-floor", "crowded": "crowded", "counted": "counted-ample"}
TRAINING = """\
seed = 3
[model]
kind = "gpt2"
layers = 2
width = 64
heads = 2
context = 64
vocab = 256
dropout = 0.1
[data]
train = "{text}"
format = "bytes"
[train]
effective_batch = 8
micro_batch = 4
accumulation = 2
updates = {updates}
[optimizer]
name = "adamw"
learning_rate = 1e-3
[memory]
budget = "4GiB"
"""


SANITIZED_UPDATES = 3


def program_of_cases(session):
    if not session.test_cuda.exists():
        raise Absent(f"test_cuda is not in {session.folder}; scripts/package --cuda --tests has it")
    return session.test_cuda


def demand_gpu(done):
    """Of what a program said."""
    missing = re.search(r"^no GPU.*|error while loading shared libraries.*", done.out + done.err, re.M)
    if missing:
        raise Absent(missing.group(0))


def tests_of(done):
    """Numbers and names of GoogleTest's output."""
    ran = re.search(r"^\[=+\] (\d+) tests? .*ran", done.out, re.M)
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", done.out, re.M)))
    return {"tests": int(ran.group(1)) if ran else 0, "failed": len(failed), "names": failed[:20]}


def cases(session, options, environment):
    done = session.call(program_of_cases(session), "--gtest_brief=1", *options, environment=environment)
    demand_gpu(done)
    figures = tests_of(done)
    if done.code != 0 or figures["tests"] == 0:
        raise Failed(f"exit {done.code}", **figures, said=done.last_lines())
    return figures


def cases_part():
    ptx = {"CUDA_FORCE_PTX_JIT": "1", "CUDA_CACHE_MAXSIZE": str(1 << 30)}
    ways = {"launched": ([], {}, 30), "captured": (["--captured"], {}, 30), "apart": (["--apart"], {}, 35),
            "ptx": ([OWN], ptx, 45)}  # fmt: skip
    steps = []
    for name, (options, environment, seconds) in ways.items():
        for shard in range(SHARDS):
            more = {**environment, "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
            steps.append(Step(f"{name} {shard + 1}/{SHARDS}", seconds, lambda s, o=options, e=more: cases(s, o, e)))
    return Part("cases", steps)


def program(session, expected, *options):
    """Parts of program.py, with figures of their own; the `expected` ones show that they have run."""
    figures = session.work / "figures.json"
    figures.unlink(missing_ok=True)
    folder = session.work / "program"
    shutil.rmtree(folder, ignore_errors=True)
    done = session.call(sys.executable, ROOT / "tests" / "cuda" / "program.py", session.plimsoll, "--device", session.args.device,
                        "--keep", folder, "--figures", figures, *options, *([] if session.cuda else ["--small"]))  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    demand_gpu(done)
    found = json.loads(figures.read_text()) if figures.exists() else {}
    if done.code != 0:
        raise Failed(f"exit {done.code}", **found, said=done.last_lines(30))
    missing = [name for name in expected if name not in found]
    if missing:
        raise Failed(f"no figures of {', '.join(missing)}", **found, said=done.last_lines(30))
    return found


def faults(session):
    expected = [figure for part, figure in FAULTS.items() if session.cuda or part != "crowded"]
    return program(session, expected, *(word for part in FAULTS for word in ("--only", part)))


def bits_part():
    steps = [Step(f"{kind} {precision}", 40 if kind == "gpt2" else 20,
                  lambda s, k=kind, p=precision: program(s, [f"{k}-{p}"], "--kind", k, "--precision", p))
             for kind in BITS for precision in ("fp32", "bf16")]  # fmt: skip
    return Part("bits", [*steps, Step("faults", 45, faults)])


# Sanitizers.


def sanitizer(session):
    given = session.args.sanitizer
    if given is None:
        found = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
        candidates = [ROOT / path for path in found if path]
    else:
        candidates = [given.resolve() / "compute-sanitizer", *sorted(given.resolve().rglob("compute-sanitizer"))]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise Absent("there is no compute-sanitizer that can be executed; --sanitizer DIR names its folder")


def sanitized(session, tool, *command, found=False, environment=None, seconds=None, ran=lambda done: {}):
    """Runs a command under a tool, which has to find something or nothing. `ran`: figures of a command that has done its work."""
    program_of_cases(session)
    options = ["--tool", tool, "--error-exitcode", FOUND, "--print-limit", "20", *TOOLS[tool][1]]
    done = session.call(sanitizer(session), *options, *command, environment=environment, seconds=seconds)
    demand_gpu(done)
    said = done.out + done.err
    summary = re.findall(r"^=+ *((?:ERROR|RACECHECK) SUMMARY:.*)", said, re.M)
    figures = {"summary": summary[-1] if summary else None}
    findings = [line for line in said.splitlines() if re.match(r"=========\s+\S", line) and "COMPUTE-SANITIZER" not in line]
    if not summary:
        figures["said"] = done.last_lines()
        raise Failed(f"the tool gave no summary, exit {done.code}", **figures)
    if found and done.code != FOUND:
        raise Failed("the planted fault was not found", **figures)
    if not found and done.code != 0:
        raise Failed("exit {}: {}".format(done.code, summary[-1]), **figures, findings=findings[:40], said=done.last_lines())
    try:
        return {**figures, **ran(done)}
    except Failed as failure:
        raise Failed(str(failure), **figures, **failure.figures, said=done.last_lines()) from failure


def planted(session, tool):
    """A barrier that not all threads reach may hang where the tool does not see it: a limit of its own."""
    chosen = f"--gtest_filter=Planted.DISABLED_{TOOLS[tool][0]}"
    return sanitized(session, tool, session.test_cuda, "--apart", HIDDEN, chosen, found=True, seconds=90)


def neighbour(session):
    """An overrun between neighbours of one arena: the guards see it without a tool, and memcheck by ranges."""
    sanitizer(session)
    name = "Planted.DISABLED_Overrun"
    done = session.call(program_of_cases(session), HIDDEN, f"--gtest_filter={name}")
    demand_gpu(done)
    if done.code == 0 or f"[  FAILED  ] {name}" not in done.out:
        raise Failed(f"the guards of neighbouring buffers did not see an overrun, exit {done.code}", said=done.last_lines())
    return sanitized(session, "memcheck", session.test_cuda, HIDDEN, "--gtest_filter=Reach.DISABLED_Neighbour", found=True)


def smallest_cases(session, tool, shard):
    """The smallest case of each kernel."""
    environment = {"GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
    words = ["--apart", "--smallest", "--gtest_brief=1", f"--gtest_filter={CASES}"]

    def ran(done):
        figures = {"tests": tests_of(done)["tests"]}
        if figures["tests"] == 0:
            raise Failed("no case has run", **figures)
        return figures

    return sanitized(session, tool, session.test_cuda, *words, environment=environment, ran=ran)


def rates(session):
    """Rates are measured without a tool. Products are measured under it, because cuBLASLt then takes other algorithms."""
    sanitizer(session)
    session.demand("machine", *session.device)


def training(session, tool, precision):
    """Kernels run one by one, each with its operands alone within reach. No plan contains the tool's memory on the host, which an
    audited run does not check."""
    config, run = session.work / "sanitized.toml", session.work / f"run-{tool}-{precision}"
    config.write_text(TRAINING.format(text=ROOT / "LICENSE", updates=SANITIZED_UPDATES))
    shutil.rmtree(run, ignore_errors=True)
    single = ["--set", "machine.gpu_graphs=false"] if session.cuda else []
    command = [session.plimsoll, "train", config, *session.device, "--audit", "--updates", SANITIZED_UPDATES, *single, "--set",
               f"precision.compute={precision}", "--run", run]  # fmt: skip

    def ran(_):
        figures = {"updates": len(metrics_of(run))}
        if figures["updates"] != SANITIZED_UPDATES:
            raise Failed(f"{figures['updates']} of {SANITIZED_UPDATES} updates", **figures)
        return figures

    figures = sanitized(session, tool, "--target-processes", "all", *command, ran=ran)
    shutil.rmtree(run, ignore_errors=True)
    return figures


def sanitizer_part(tool):
    steps = [Step("planted", 20, lambda s: planted(s, tool))]
    if tool == "memcheck":
        steps.append(Step("neighbour", 20, neighbour))
    steps += [Step(f"cases {shard + 1}/{SHARDS}", 70, lambda s, n=shard: smallest_cases(s, tool, n)) for shard in range(SHARDS)]
    steps.append(Step("rates", 15, rates))
    steps += [Step(f"training {p}", 40, lambda s, p=p: training(s, tool, p), after="rates") for p in ("fp32", "bf16")]
    return Part(tool, steps)


def all_parts():
    parts = [cases_part(), bits_part(), Part("memory", memory_steps()), *map(sanitizer_part, TOOLS),
             Part("record", record_steps()), Part("speed", speed_steps())]  # fmt: skip
    return {part.name: part for part in parts}
