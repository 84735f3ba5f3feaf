#!/usr/bin/env python3
"""Plimsoll and PyTorch side by side: training steps of a language model on the CPU, alternating in rounds (A B C ... A B C ...).

Prints medians and best of tokens per second, the process high-water mark, the ratio of Plimsoll to each PyTorch variant (the
median of the ratios within a round) and the share of the step's roofline. The roofline is the time of the matrix products at
the measured GEMM peak plus that of AdamW's bytes (28 per parameter) at the measured copy bandwidth; both come from `plimsoll
machine --json` (gemm_fp32_flops_per_second or gemm_bf16_flops_per_second, copy_bytes_per_second) or from --gemm and --copy,
and the line is left out where they are unknown. With --dtype bf16 both take their products in bf16 (PyTorch by autocast),
with fp32 weights, and Plimsoll in fp32 stands beside them.

  python3 bench/train_cpu.py build/release/plimsoll --python /path/to/python-with-torch --rounds 3
  python3 bench/train_cpu.py build/release/plimsoll --python /path/to/python-with-torch --model byte10m
  python3 bench/train_cpu.py build/release/plimsoll --python /path/to/python-with-torch --dtype bf16
  python3 bench/train_cpu.py build/release/plimsoll --python /path/to/python-with-torch --model smollm2
  python3 bench/train_cpu.py build/release/plimsoll --python /path/to/python-with-peft --model qwen2.5-1.5b --lora 16
  python3 bench/train_cpu.py --python /path/to/python-with-torch          PyTorch alone

With --lora RANK: adapters on all linear layers, over frozen layers in bf16 and in NF4, with products in fp32 and in bf16, beside
PEFT over a model in fp32 and in bf16.

Standard library only. A busy machine makes every figure worthless: the column "others" is the share of the machine that other
processes took during the timed steps.
"""
import argparse
import array
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile

MODELS = {
    "gpt2": dict(kind="gpt2", layers=12, width=768, heads=12, vocab=50304, context=256, batch=4),
    "byte10m": dict(kind="gpt2", layers=6, width=384, heads=6, vocab=256, context=256, batch=16),
    # The shapes of SmolLM2-135M and Qwen2.5-0.5B; PyTorch runs the models of the package transformers.
    "smollm2": dict(kind="llama", layers=30, width=576, heads=9, kv_heads=3, mlp_width=1536, vocab=49152, context=512, batch=2),
    "qwen2.5-1.5b": dict(kind="qwen2", layers=28, width=1536, heads=12, kv_heads=2, mlp_width=8960, vocab=151936, context=512,
                         batch=1),
    "qwen2": dict(kind="qwen2", layers=24, width=896, heads=14, kv_heads=2, mlp_width=4864, vocab=151936, context=512, batch=1),
}
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184"
PEERS = {
    "torch eager": ([], {}),
    "torch compile": (["--compile"], {}),
    "torch eager, malloc": ([], {"GLIBC_TUNABLES": MALLOC}),
    "torch compile, malloc": (["--compile"], {"GLIBC_TUNABLES": MALLOC}),
}
LORA_PEERS = {
    "peft fp32": (["--dtype", "fp32"], {}),
    "peft bf16": (["--dtype", "pure_bf16"], {}),
    "peft fp32, checkpoint": (["--dtype", "fp32", "--checkpoint"], {}),
}
LORA = {f"plimsoll {base}, products {compute}": ["--set", f"quantize.base={base}", "--set", f"precision.compute={compute}"]
        for base in ("bf16", "nf4") for compute in ("fp32", "bf16")}
CONFIG = """\
seed = 1
[model]
init = "random"
{model}
dropout = 0.0
{adapter}[data]
train = "{tokens}"
format = "u32"
order = "sequential"
[train]
effective_batch = {batch}
micro_batch = {batch}
accumulation = 1
updates = {updates}
gradient_clip = 1.0
[optimizer]
name = "adamw"
learning_rate = 3e-4
betas = [0.9, 0.95]
epsilon = 1e-8
weight_decay = 0.1
decay = "all"
[schedule]
name = "constant"
[memory]
budget = "{memory}"
[precision]
compute = "fp32"
[machine]
threads = {threads}
"""


def busy_seconds():
    """Seconds in which any processor of the machine was busy, so far."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    times = os.times()
    return times.children_user + times.children_system


def call(command, environment=None):
    """Stdout of a command and the share of the machine that others took meanwhile; stops the benchmark if the command fails."""
    busy, own, start = busy_seconds(), own_seconds(), os.times().elapsed
    command = [str(word) for word in command]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexited {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    seconds = os.times().elapsed - start
    return result.stdout, max(0.0, busy_seconds() - busy - (own_seconds() - own)) / (seconds * os.cpu_count())


def model_of(args):
    """The model with the batch of the command line."""
    return {**MODELS[args.model], **({"batch": args.batch} if args.batch else {})}


def run_peer(args, flags, environment):
    script = pathlib.Path(__file__).resolve().parent / "peers" / "torch_train.py"
    command = [args.python, script, "--steps", args.steps, "--warmup", 2, "--threads", args.threads]
    command += ["--dtype", args.dtype, *flags]
    for key, value in model_of(args).items():
        command += ["--" + key.replace("_", "-"), value]
    if args.lora:
        command += ["--lora", args.lora]
    out = json.loads(call(command, environment)[0].splitlines()[-1])
    return dict(median=out["tokens_per_second"], best=out["best_tokens_per_second"], hwm=out["vm_hwm_bytes"],
                others=statistics.mean(out["others_share"]))


def write_tokens(path, model, updates):
    rng = random.Random(7)
    count = updates * model["batch"] * model["context"] + 1
    tokens = array.array("I", (rng.randrange(model["vocab"]) for _ in range(count)))
    if sys.byteorder == "big":
        tokens.byteswap()
    path.write_bytes(tokens.tobytes())


def write_config(args, work):
    config = work / "bench.toml"
    model = model_of(args)
    keys = {key: value for key, value in model.items() if key != "batch"}
    if model["kind"] != "gpt2":
        keys["tied"] = True
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    adapter = f'[adapter]\nkind = "lora"\nrank = {args.lora}\ntargets = "all-linear"\n' if args.lora else ""
    config.write_text(CONFIG.format(model=text, adapter=adapter, batch=model["batch"], tokens=work / "tokens.bin",
                                    updates=args.steps + 2, memory=args.memory, threads=args.threads))
    return config


def run_plimsoll(args, work, number, flags=()):
    folder, config = work / f"run{number}", write_config(args, work)
    _, others = call([args.binary, "train", config, *flags, "--run", folder, "--json"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    speeds = [line["tokens_per_second"] for line in lines[2:]]
    hwm = max(line["vm_hwm_bytes"] for line in lines)
    return dict(median=statistics.median(speeds), best=max(speeds), hwm=hwm, others=others)


def find_number(value, key):
    """The first number under `key`, at any depth of a JSON value."""
    if isinstance(value, dict) and isinstance(value.get(key), (int, float)):
        return value[key]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for found in (find_number(child, key) for child in children) if found is not None), None)


def machine_rates(args):
    """(GEMM flop/s, copy bytes/s); None where unknown."""
    machine = json.loads(call([args.binary, "machine", "--json"])[0]) if args.binary else {}
    gemm = args.gemm * 1e9 if args.gemm else find_number(machine, f"gemm_{args.dtype}_flops_per_second")
    return gemm, args.copy * 1e9 if args.copy else find_number(machine, "copy_bytes_per_second")


def block_weights(m):
    """The number of weights in the products of a block."""
    width = m["width"]
    if m["kind"] == "gpt2":
        return 12 * width**2
    keys = width // m["heads"] * m["kv_heads"]
    return 2 * width**2 + 2 * width * keys + 3 * width * m["mlp_width"]


def parameters(m):
    """The number of parameters, with all vectors of GPT-2; those of the other models are less than a thousandth."""
    vectors = 13 * m["width"] * m["layers"] + (m["context"] + 2) * m["width"] if m["kind"] == "gpt2" else 0
    return m["vocab"] * m["width"] + m["layers"] * block_weights(m) + vectors


def flops_per_step(m):
    """Matrix products of forward and backward; attention counted causal, that is, half of the square."""
    weights = m["vocab"] * m["width"] + m["layers"] * block_weights(m)
    return (6 * weights + 6 * m["layers"] * m["context"] * m["width"]) * m["batch"] * m["context"]


def roofline(m, rates):
    """The maximum tokens per second of these products and AdamW, or None."""
    if None in rates:
        return None
    return m["batch"] * m["context"] / (flops_per_step(m) / rates[0] + 28 * parameters(m) / rates[1])


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(reversed([tuple(part.strip() for part in line.split(":", 1)) for line in lines if ":" in line]))
    names = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile")
    wide = [name for name in names if name in fields.get("flags", "").split()]
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.machine())} ({family}; {' '.join(wide)})"


def summary(name, runs, own, limit):
    """One row; `own` are Plimsoll's runs of the same rounds, or None."""
    ratio = statistics.median(a["median"] / b["median"] for a, b in zip(own, runs)) if own else None
    median = statistics.median(run["median"] for run in runs)
    return dict(name=name, tokens_per_second=median, best_tokens_per_second=max(run["best"] for run in runs),
                plimsoll_ratio=ratio, roofline_share=median / limit if limit else None,
                vm_hwm_bytes=max(run["hwm"] for run in runs), others_share=statistics.mean(run["others"] for run in runs))


def show(args, rows, rates, limit):
    m = model_of(args)
    print(f"{processor()}, {args.threads} threads")
    print(f"{args.model}: {parameters(m) / 1e6:.1f} M parameters, B={m['batch']}, T={m['context']}, {args.dtype}, AdamW, clip; "
          f"{args.rounds} rounds of {args.steps} timed steps")
    if limit:
        print(f"roofline {limit:.0f} tokens/s: {flops_per_step(m) / 1e9:.0f} GFLOP per step at {rates[0] / 1e9:.0f} GFLOP/s, "
              f"{28 * parameters(m) / 1e9:.2f} GB of AdamW at {rates[1] / 1e9:.0f} GB/s")
    print(f"{'':24}{'tokens/s':>10}{'best':>10}{'roofline':>10}{'plimsoll/it':>13}{'VmHWM GB':>10}{'others':>8}")
    for row in rows:
        share = f"{row['roofline_share']:.0%}" if limit else "-"
        ratio = f"{row['plimsoll_ratio']:.2f}" if row["plimsoll_ratio"] else "-"
        print(f"{row['name']:24}{row['tokens_per_second']:10.1f}{row['best_tokens_per_second']:10.1f}{share:>10}{ratio:>13}"
              f"{row['vm_hwm_bytes'] / 1e9:10.2f}{row['others_share']:8.0%}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("binary", nargs="?", type=lambda text: pathlib.Path(text).resolve(), help="plimsoll; left out: PyTorch alone")
    p.add_argument("--python", help="a Python that has torch; left out: Plimsoll alone")
    p.add_argument("--model", choices=MODELS, default="gpt2")
    p.add_argument("--batch", type=int, help="samples of an update, instead of the model's own")
    p.add_argument("--lora", type=int, default=0, metavar="RANK", help="train adapters on all linear layers")
    p.add_argument("--peers", help="comma-separated choice, without spaces: torch-eager,torch-compile,...")
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=5, help="timed steps of a run, after two that are not")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--memory", default="8GiB", help="Plimsoll's budget")
    p.add_argument("--gemm", type=float, help="GFLOP/s of the roofline")
    p.add_argument("--copy", type=float, help="GB/s of the roofline")
    p.add_argument("--json", type=pathlib.Path, help="write the rows here as well")
    args = p.parse_args()
    if args.lora and MODELS[args.model]["kind"] == "gpt2":
        p.error(f"--lora: PEFT is compared on smollm2, qwen2 and qwen2.5-1.5b, not on {args.model}")
    return args


def main():
    args = arguments()
    known = {name.replace(",", "").replace(" ", "-"): name for name in (LORA_PEERS if args.lora else PEERS)}
    chosen = (args.peers.split(",") if args.peers else list(known)) if args.python else []
    if wrong := [name for name in chosen if name not in known]:
        sys.exit(f"no peer is called {wrong[0]}; the peers are {', '.join(known)}")
    peers = {known[name]: (LORA_PEERS if args.lora else PEERS)[known[name]] for name in chosen}
    if not args.binary and not peers:
        sys.exit("nothing to run: give the binary, or --python and at least one peer")
    ours = {"plimsoll": ["--set", f"precision.compute={args.dtype}"]}
    if args.dtype != "fp32":
        ours["plimsoll fp32"] = []
    if args.lora:
        ours = LORA
    runs = {name: [] for name in (list(ours) if args.binary else []) + list(peers)}
    with tempfile.TemporaryDirectory(prefix="plimsoll_bench_") as folder:
        work = pathlib.Path(folder)
        write_tokens(work / "tokens.bin", model_of(args), args.steps + 2)
        for number in range(args.rounds):
            for name, done in runs.items():
                if name in ours:
                    done.append(run_plimsoll(args, work, f"{number}-{name}", ours[name]))
                else:
                    done.append(run_peer(args, *peers[name]))
                print(f"round {number + 1} {name}: {done[-1]['median']:.1f} tokens/s", file=sys.stderr)
    rates = machine_rates(args)
    limit = None if args.lora else roofline(model_of(args), rates)
    first = next((name for name in runs if name in ours), None)
    rows = [summary(name, done, runs.get(first) if name != first else None, limit) for name, done in runs.items()]
    show(args, rows, rates, limit)
    if args.json:
        result = dict(processor=processor(), model=args.model, roofline=limit, rows=rows, runs=runs)
        args.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
