"""Stand-ins of the tests of scripts/on_gpu: small models on the processor, and recorded answers of nvidia-smi, compute-sanitizer,
PyTorch and test_cuda.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PLIMSOLL = Path(os.environ.get("PLIMSOLL", ROOT / "build" / "release" / "plimsoll"))
sys.path[:0] = [str(ROOT / "tests" / "cuda"), str(ROOT / "tests" / "cli"), str(ROOT / "bench")]

import session as sessions  # noqa: E402

SPEED = ("gpt2-124m", "smollm2-135m", "qwen2.5-0.5b")  # models
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Trainings tell their process and their run; a measurement of the machine is a recorded one.
PROGRAM = """#!/bin/sh
echo "plimsoll $1" >>"{state}/calls"
case $1 in
  machine) cat "{state}/machine.json"; exit 0 ;;
  train)
    rm -f "{state}/seen"
    echo $$ >"{state}/pid"
    previous=
    for word in "$@"; do
      if [ "$previous" = --run ]; then echo "$word" >"{state}/run"; fi
      previous=$word
    done ;;
esac
exec "{plimsoll}" "$@"
"""
MACHINE = {
    "schema": "plimsoll.machine/1", "name": "NVIDIA H100 80GB HBM3", "libraries": ["CUDA 13.0"], "kernels_measured": 61,
    "gemm_bf16_flops_per_second": 8e14, "gemm_fp32_flops_per_second": 5e13, "copy_bytes_per_second": 3e12,
    "tiers": [{"name": "device", "capacity": 85017493504}],
    "configuration": [{"micro_batch": 2, "kernels": 61, "measured": 61, "work_share": 1.0}],
}  # fmt: skip
# A training takes its predicted bytes less `below` MiB.
# A training that ended before it was seen is seen once: how often a busy machine samples is no part of these tests.
NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *=name*) echo "NVIDIA H100 80GB HBM3" ;;
  *=driver_version*) echo 580.159.04 ;;
  *)
    used=1000
    if [ ! -e "{state}/seen" ] || kill -0 "$(cat "{state}/pid" 2>/dev/null)" 2>/dev/null; then
      bytes=$(sed -n 's/.*"process_bytes": *\\([0-9]*\\).*/\\1/p' "$(cat "{state}/run")/run.json" 2>/dev/null | head -n 1)
      [ -z "$bytes" ] || {{ used=$((used + bytes / 1048576 - $(cat "{state}/below"))); : >"{state}/seen"; }}
    fi
    echo $used ;;
esac
"""
TEST_CUDA = """#!/bin/sh
echo "test_cuda $*" >>"{state}/calls"
[ ! -e "{state}/wait" ] || {{ echo $$ >"{state}/waits"; sleep 300; }}
case "$*" in *DISABLED_*) cat "{state}/overrun"; exit 1 ;; esac
cat "{state}/cases"
! grep -q FAILED "{state}/cases"
"""
GOOD = "NVIDIA H100 80GB HBM3, sm_90\n[==========] 431 tests from 2 test suites ran. (8123 ms total)\n[  PASSED  ] 431 tests.\n"
BAD = GOOD.replace("PASSED  ] 431", "PASSED  ] 430") + (
    "[  FAILED  ] 1 test, listed below:\n"
    "[  FAILED  ] CudaOps/OpCasesTest.AgreesWithTheReference/rotary_cuda, where GetParam() = rotary\n\n 1 FAILED TEST\n"
)
OVERRUN = "[  FAILED  ] Planted.DISABLED_Overrun (0 ms)\n"
# It runs the command that follows its options, unless `idle` is there.
SANITIZER = """#!/bin/sh
echo "sanitizer $*" >>"{state}/calls"
case "$*" in
  *DISABLED_*) cat "{state}/found"; exit 99 ;;
  *racecheck*) cat "{state}/races" ;;
  *) echo "========= COMPUTE-SANITIZER"; echo "========= ERROR SUMMARY: 0 errors" ;;
esac
[ ! -e "{state}/idle" ] || exit 0
while case "$1" in */test_cuda | */plimsoll) false ;; esac; do shift; done
"$@" || exit
if grep -q 'Race reported' "{state}/races"; then exit 99; fi
"""
FOUND = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at overrun_kernel(int, float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f2b4ba00400 is out of bounds
========= ERROR SUMMARY: 1 error
"""
NO_RACES = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at norm_kernel(float *)+0x1f0
=========     and Read access at norm_kernel(float *)+0x230 [128 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
# A training of PyTorch, which takes 300 MiB for half a second.
TORCH = """#!/bin/sh
echo "torch $*" >>"{state}/calls"
mkdir -p "{state}/torch"
echo '{{"process_bytes": 325058560}}' >"{state}/torch/run.json"
echo "{state}/torch" >"{state}/run"
rm -f "{state}/seen"
echo $$ >"{state}/pid"
sleep 0.5
: >"{state}/seen"
cat <<'END'
{answer}
END
"""
TORCH_SAID = {"torch": "2.11.0+cu130", "batch": 8, "sdpa": "flash", "tokens_per_second": 463800.0, "step_seconds": [1.13, 1.13],
              "best_tokens_per_second": 464100.0, "first_loss": 10.98, "device_peak_bytes": 18790481920}  # fmt: skip


def runs(pid):
    """False for a process that has ended, though its parent may not have asked for its exit code."""
    state = Path("/proc", pid.strip(), "stat")
    return state.exists() and ") Z " not in state.read_text()


@unittest.skipUnless(PLIMSOLL.exists(), "there is no plimsoll")
class OnGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plimsoll_on_gpu_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.state, self.bin, self.out = self.folder / "state", self.folder / "bin", self.folder / "results.json"
        for name in ("state", "bin", "path", "sanitizer"):
            (self.folder / name).mkdir()
        self.program("bin/plimsoll", PROGRAM)
        self.program("bin/test_cuda", TEST_CUDA)
        self.program("path/nvidia-smi", NVIDIA_SMI)
        self.program("path/torch_python", TORCH)
        self.program("sanitizer/compute-sanitizer", SANITIZER)
        (self.bin / "plimsoll_cuda.so").write_bytes(b"module")
        machine = self.state / "machine-1.json"
        machine.write_text(json.dumps(MACHINE))
        (self.state / "machine.json").write_text(json.dumps({**MACHINE, "file": str(machine)}))
        for name, text in (("below", "8"), ("cases", GOOD), ("found", FOUND), ("races", NO_RACES), ("calls", ""),
                           ("overrun", OVERRUN)):
            (self.state / name).write_text(text)
        self.environment = {**os.environ, "PATH": f"{self.folder / 'path'}{os.pathsep}{os.environ['PATH']}",
                            "OMP_WAIT_POLICY": "passive"}  # fmt: skip
        # A cache of its own: `restore` puts the machine file of the stand-ins there.
        shared = Path(os.environ.get("XDG_CACHE_HOME", PLIMSOLL.parent / "test-cache"), "plimsoll")
        own = self.folder / "cache" / "plimsoll"
        own.mkdir(parents=True)
        for file in shared.glob("machine-*.json"):
            shutil.copy(file, own)
        self.environment["XDG_CACHE_HOME"] = str(own.parent)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text.format(state=self.state, plimsoll=PLIMSOLL, answer=json.dumps(TORCH_SAID)))
        path.chmod(0o755)

    def run_script(self, *words, minutes=60, whole=True, code=0):
        """What the script said; its exit code is demanded. `whole`: with PyTorch and the sanitizers."""
        command = [ROOT / "scripts" / "on_gpu", "--device", "cpu", "--minutes", minutes, *words]
        if "--bin" not in words:
            command += ["--bin", self.bin]
        if "--out" not in words and "--from" not in words:
            command += ["--out", self.out]
        if whole:
            command += ["--python", self.folder / "path" / "torch_python", "--sanitizer", self.folder / "sanitizer"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment, timeout=800)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def results(self):
        return json.loads(self.out.read_text())

    def part(self, name):
        (found,) = [part for part in self.results()["parts"] if part["name"] == name]
        return found

    def steps(self, name):
        return self.part(name)["figures"]["steps"]

    def calls(self):
        calls = (self.state / "calls").read_text()
        (self.state / "calls").write_text("")
        return calls

    def left_behind(self):
        """Whatever a refused call has made."""
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith(("results", ".on_gpu")))

    def archive(self):
        archive = self.folder / "plimsoll-cuda.tar.xz"
        with tarfile.open(archive, "w:xz") as file:
            file.add(self.bin, "plimsoll-cuda")
        return archive

    def wait_until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    # Steps of a test, in a session within this process.

    def session(self, minutes, earlier=None):
        args = argparse.Namespace(out=self.out, earlier=earlier, device="cpu", bin=self.bin, minutes=minutes, python=None,
                                  sanitizer=self.folder / "sanitizer")  # fmt: skip
        path, os.environ["PATH"] = os.environ["PATH"], self.environment["PATH"]
        try:
            return sessions.Session(args)
        finally:
            os.environ["PATH"] = path

    def run_steps(self, minutes, steps, earlier=None):
        """The seconds, and what the part's steps ended with."""
        begin, part = time.monotonic(), sessions.Part("part", steps)
        with contextlib.redirect_stdout(io.StringIO()):
            self.session(minutes, earlier).run([part])
        return time.monotonic() - begin, {name: step["status"] for name, step in self.steps("part").items()}
