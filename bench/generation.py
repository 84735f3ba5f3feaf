#!/usr/bin/env python3
"""Tokens per second of generation of single tokens: Plimsoll with each form of the base, transformers and llama.cpp.

  python3 bench/generation.py build/release/plimsoll MODEL.gguf --python PYTHON_WITH_TRANSFORMERS_AND_XLLAMACPP

All of them in turn, round after round, on the same file, prompt and threads: transformers computes with the decoded weights in
fp32 and in bf16, llama.cpp with the file's blocks. Each row has the median and the best of its rounds, and the median of the
processor time of a token. "weights" is the rate at which Plimsoll reads its matrices, in GB/s, and its share of the copy
bandwidth that `plimsoll machine` measured. A busy machine makes rates worthless; processor times with --threads 1 suffer less.
"others" is the share of the machine that other processes took.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

PROMPT = "The history of the harbour began"
PEERS = r'''
import json, os, sys, time
peer, path, threads, tokens, prompt = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
if peer == "llama.cpp":
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 2048
    params.n_parallel = 1
    params.verbosity = -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = True
    server = xllamacpp.Server(params)
    request = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0.8, "seed": 1}
    def complete(new):
        begin = time.process_time()
        reply = server.handle_completions(request | {"max_tokens": new})
        reply = json.loads(reply) if isinstance(reply, (str, bytes)) else reply
        return reply["timings"]["predicted_per_second"], time.process_time() - begin
    complete(4)
    short, long = complete(4), complete(tokens)
    print(long[0], (long[1] - short[1]) / (tokens - 4))
    sys.stdout.flush()
    os._exit(0)
import torch, transformers
torch.set_num_threads(threads)
folder, file = os.path.split(path)
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[peer.split()[1]]
model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=dtype).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
inputs = tokenizer(prompt, return_tensors="pt")
def seconds(new):
    begin, busy = time.perf_counter(), time.process_time()
    model.generate(**inputs, max_new_tokens=new, min_new_tokens=new, do_sample=True, temperature=0.8)
    return time.perf_counter() - begin, time.process_time() - busy
seconds(4)
short, long = seconds(4), seconds(tokens)
print((tokens - 4) / (long[0] - short[0]), (long[1] - short[1]) / (tokens - 4))
'''


def busy_seconds():
    with open("/proc/stat") as file:
        fields = [int(x) for x in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def run_plimsoll(arguments, base, tokens):
    """The time stamps of the output after the prompt, and the processor time."""
    command = [arguments.plimsoll, "generate", "--weights", arguments.model, "--prompt", PROMPT, "--tokens", str(tokens),
               "--ignore-eos", "--threads", str(arguments.threads), "--seed", "1"]
    if base != "fp32":
        command += ["--set", f"quantize.base={base}"]
    before = os.times()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        stamps, seen = [], 0
        while text := os.read(process.stdout.fileno(), 1 << 16):
            seen += len(text)
            if seen > len(PROMPT):
                stamps.append(time.perf_counter())
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}")
    after = os.times()
    return stamps, after.children_user + after.children_system - before.children_user - before.children_system


def plimsoll(arguments, base):
    """The seconds from the first token, made by the pass over the prompt, to the last one."""
    _, short = run_plimsoll(arguments, base, 4)
    stamps, long = run_plimsoll(arguments, base, arguments.tokens)
    return (arguments.tokens - 1) / (stamps[-1] - stamps[0]), (long - short) / (arguments.tokens - 4)


def peer(arguments, name):
    command = [arguments.python, "-c", PEERS, name, arguments.model, str(arguments.threads), str(arguments.tokens), PROMPT]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    return tuple(float(x) for x in done.stdout.split()[-2:])


def matrix_bytes(arguments):
    """Bytes of the matrices that a token reads: linear layers by form, and the table in the form of the file or in fp32."""
    code = ("import gguf, json, sys\n"
            "tensors = [t for t in gguf.GGUFReader(sys.argv[1]).tensors if len(t.shape) == 2]\n"
            "print(json.dumps([[t.name, int(t.n_elements), int(t.n_bytes)] for t in tensors]))")
    done = subprocess.run([arguments.python, "-c", code, arguments.model], capture_output=True, text=True, check=True)
    sizes = {"fp32": 0, "bf16": 0, "nf4": 0, "int8": 0, "file": 0}
    for name, elements, stored in json.loads(done.stdout):
        table = "embd" in name or name.startswith("output")
        for form, each in {"fp32": 4, "bf16": 2, "nf4": 0.516, "int8": 1}.items():
            sizes[form] += elements * (4 if table else each)
        sizes["file"] += stored
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--python", help="with transformers, gguf and xllamacpp; without it there are no peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--bases", default="fp32,bf16,int8,nf4,file")
    arguments = parser.parse_args()
    measured = subprocess.run([arguments.plimsoll, "machine", "--json"], capture_output=True, text=True, check=True)
    machine = json.loads(measured.stdout)
    copy = machine.get("copy_bytes_per_second")
    ways = {f"plimsoll {base}": (plimsoll, base) for base in arguments.bases.split(",")}
    sizes = {}
    if arguments.python:
        ways |= {name: (peer, name) for name in ("transformers fp32", "transformers bf16", "llama.cpp")}
        sizes = matrix_bytes(arguments)
    rates, times, others = ({name: [] for name in ways} for _ in range(3))
    for _ in range(arguments.rounds):
        for name, (run, what) in ways.items():
            begin, busy, own = time.perf_counter(), busy_seconds(), os.times()
            rate, spent = run(arguments, what)
            after = os.times()
            used = after.children_user + after.children_system - own.children_user - own.children_system
            rates[name].append(rate)
            times[name].append(spent)
            others[name].append((busy_seconds() - busy - used) / (time.perf_counter() - begin) / os.cpu_count())
    print("| | tokens/s | best | CPU ms a token | weights, GB/s | of copy | others |\n|---|---|---|---|---|---|---|")
    for name, each in rates.items():
        read = sizes.get(name.removeprefix("plimsoll "), 0) * statistics.median(each) if name.startswith("plimsoll") else 0
        gb, share = (f"{read * 1e-9:.1f}", f"{read / copy:.2f}" if copy else "") if read else ("", "")
        milliseconds = 1000 * statistics.median(times[name])
        print(f"| {name} | {statistics.median(each):.1f} | {max(each):.1f} | {milliseconds:.1f} | {gb} | {share} | "
              f"{100 * statistics.median(others[name]):.0f} % |", flush=True)
    if copy:
        print(f"\ncopy: {copy * 1e-9:.1f} GB/s")


main()
