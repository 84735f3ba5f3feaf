"""scripts/on_gpu with stand-ins: small models on the processor, and recorded answers of nvidia-smi, compute-sanitizer, PyTorch
and test_cuda. Every part passes; parts fail, are cut, lack something and go on; a file of another build is refused.
"""

import argparse
import contextlib
import io
import json
import os
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

SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Trainings tell their process and their run; a measurement of the machine is a recorded one.
PROGRAM = """#!/bin/sh
echo "plimsoll $1" >>"{state}/calls"
case $1 in
  machine) cat "{state}/machine.json"; exit 0 ;;
  train)
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
NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *=name*) echo "NVIDIA H100 80GB HBM3" ;;
  *=driver_version*) echo 580.159.04 ;;
  *)
    used=1000
    if kill -0 "$(cat "{state}/pid" 2>/dev/null)" 2>/dev/null; then
      bytes=$(sed -n 's/.*"process_bytes": *\\([0-9]*\\).*/\\1/p' "$(cat "{state}/run")/run.json" 2>/dev/null | head -n 1)
      [ -z "$bytes" ] || used=$((used + bytes / 1048576 - $(cat "{state}/below")))
    fi
    echo $used ;;
esac
"""
TEST_CUDA = """#!/bin/sh
echo "test_cuda $*" >>"{state}/calls"
case "$*" in *DISABLED_*) exit 1 ;; esac
cat "{state}/cases"
! grep -q FAILED "{state}/cases"
"""
GOOD = "NVIDIA H100 80GB HBM3, sm_90\n[==========] 431 tests from 2 test suites ran. (8123 ms total)\n[  PASSED  ] 431 tests.\n"
BAD = GOOD.replace("PASSED  ] 431", "PASSED  ] 430") + (
    "[  FAILED  ] 1 test, listed below:\n"
    "[  FAILED  ] CudaOps/OpCasesTest.AgreesWithTheReference/rotary_cuda, where GetParam() = rotary\n\n 1 FAILED TEST\n"
)
SANITIZER = """#!/bin/sh
echo "sanitizer $*" >>"{state}/calls"
case "$*" in
  *DISABLED_*) cat "{state}/found"; exit 99 ;;
  *racecheck*) cat "{state}/races"; if grep -q 'Race reported' "{state}/races"; then exit 99; fi ;;
  *) echo "========= COMPUTE-SANITIZER"; echo "========= ERROR SUMMARY: 0 errors" ;;
esac
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
echo $$ >"{state}/pid"
sleep 0.5
cat <<'END'
{answer}
END
"""
TORCH_SAID = {"torch": "2.11.0+cu130", "batch": 8, "sdpa": "flash", "tokens_per_second": 463800.0, "step_seconds": [1.13, 1.13],
              "best_tokens_per_second": 464100.0, "first_loss": 10.98, "device_peak_bytes": 18790481920}  # fmt: skip


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
        for name, text in (("below", "8"), ("cases", GOOD), ("found", FOUND), ("races", NO_RACES), ("calls", "")):
            (self.state / name).write_text(text)
        self.environment = {**os.environ, "PATH": f"{self.folder / 'path'}{os.pathsep}{os.environ['PATH']}",
                            "OMP_WAIT_POLICY": "passive"}  # fmt: skip
        self.environment.setdefault("XDG_CACHE_HOME", str(PLIMSOLL.parent / "test-cache"))

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

    def test_every_part_passes(self):
        self.run_script("cases", "bits:bf16", "bits:faults", "memory", *SANITIZERS, "record:gpt2", "record:qwen2.5-0.5b budget 8",
                        "speed")  # fmt: skip
        results = self.results()
        self.assertEqual({key: results[key] for key in ("schema", "gpu", "driver", "device")},
                         {"schema": "plimsoll.gpu/1", "gpu": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "device": "cpu"})
        names = [part["name"] for part in results["parts"]]
        self.assertEqual(names, ["cases", "bits", "memory", *SANITIZERS, "record", "speed"])
        for part in results["parts"]:
            self.assertEqual(part["status"], "passed", part)
            self.assertEqual(set(part), {"name", "status", "seconds", "figures"})
        self.assertEqual(len(self.steps("cases")), 8)
        self.assertEqual(self.steps("cases")["ptx 2/2"]["tests"], 431)
        for kind in ("gpt2", "llama", "lora-nf4", "lora-q4_k", "chat"):
            figures = self.steps("bits")[f"{kind} bf16"][f"{kind}-bf16"]
            self.assertEqual((figures["loss_difference"], figures["audit_bytes"]), (0, 0))
        memory = self.steps("memory")["qwen2.5-1.5b 4 GiB"]
        self.assertTrue(7 << 20 < memory["predicted_minus_counted_bytes"] <= 9 << 20, memory)
        self.assertIn("1 error", self.steps("memcheck")["planted"]["summary"])
        budgets = [self.steps("record")[f"gpt2-124m budget {i}/8"] for i in range(1, 9)]
        self.assertEqual([each["memory_bytes"] for each in budgets], sorted(each["memory_bytes"] for each in budgets))
        self.assertTrue(all(each["update_seconds"] > 0 for each in budgets))
        self.assertTrue((self.folder / "results.machines" / "machine-1.json").exists())
        for model in ("gpt2-124m", "smollm2-135m", "qwen2.5-0.5b"):
            ours, theirs = (self.steps("speed")[f"{model} round 0 {kind}"] for kind in ("plimsoll", "compile"))
            self.assertGreater(ours["tokens_per_second"], 0)
            self.assertEqual((theirs["tokens_per_second"], theirs["device_bytes"]), (463800.0, 302 << 20))
            self.assertGreater(ours["device_bytes"], 0)
        calls = self.calls()
        self.assertIn("torch", calls)
        self.assertNotIn("search", calls)
        self.assertEqual(calls.count("--kind qwen2 "), 1)
        # All is there: nothing runs again.
        self.run_script("cases", "memory", "speed", "record:gpt2", "--from", self.out)
        self.assertEqual(self.calls(), "plimsoll --version\n")

    def test_what_fails(self):
        (self.state / "cases").write_text(BAD)
        (self.state / "races").write_text(RACES)
        (self.state / "below").write_text("-300")
        said = self.run_script("cases:launched", "racecheck:cases", "memory:gpt2-124m 4 GiB", code=1)
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["failed"] * 3)
        names = self.steps("cases")["launched 1/2"]["names"]
        self.assertEqual(names, ["CudaOps/OpCasesTest.AgreesWithTheReference/rotary_cuda"])
        race = self.steps("racecheck")["cases 1/2"]
        self.assertIn("Race reported between Write access at norm_kernel", " ".join(race["findings"]))
        self.assertIn("of a budget of", self.steps("memory")["gpt2-124m 4 GiB"]["reason"])
        self.assertEqual(self.steps("memory")["gpt2-124m 4 GiB audit"]["status"], "passed")
        self.assertIn("cases failed, racecheck failed, memory failed", said)
        # A result that has failed stays.
        self.calls()
        self.run_script("cases:launched", "--from", self.out, code=1)
        self.assertNotIn("test_cuda", self.calls())

    def test_a_tool_that_finds_nothing_planted(self):
        (self.state / "found").write_text("========= ERROR SUMMARY: 0 errors\n")
        text = (self.folder / "sanitizer" / "compute-sanitizer").read_text().replace("exit 99 ;;", "exit 0 ;;")
        (self.folder / "sanitizer" / "compute-sanitizer").write_text(text)
        self.run_script("synccheck:planted", code=1)
        self.assertEqual(self.steps("synccheck")["planted"]["reason"], "the planted fault was not found")

    def test_what_is_absent(self):
        (self.bin / "test_cuda").rename(self.folder / "test_cuda")
        (self.folder / "empty").mkdir()
        self.run_script("cases", "memcheck", "speed:gpt2-124m round 0", "--sanitizer", self.folder / "empty", whole=False, code=6)
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["absent"] * 3)
        self.assertIn("test_cuda", self.steps("cases")["ptx 1/2"]["reason"])
        self.assertIn("--sanitizer", self.steps("memcheck")["rates"]["reason"])
        self.assertIn("--python", self.steps("speed")["gpt2-124m round 0 compile"]["reason"])
        self.assertEqual(self.steps("speed")["gpt2-124m round 0 plimsoll"]["status"], "passed")
        # With PyTorch it goes on, and keeps the rest.
        self.calls()
        self.run_script("speed:gpt2-124m round 0", "--from", self.out)
        self.assertEqual(self.part("speed")["status"], "passed")
        self.assertNotIn("train", self.calls().replace("torch_train", ""))
        self.assertEqual(self.part("cases")["status"], "absent")

    def test_a_python_without_torch_is_absent(self):
        self.program("path/torch_python", "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
        self.run_script("speed:gpt2-124m round 0 compile", code=6)
        self.assertIn("No module named 'torch'", self.steps("speed")["gpt2-124m round 0 compile"]["reason"])

    def test_a_machine_without_a_gpu(self):
        self.environment["PATH"] = os.environ["PATH"]
        if Path("/dev/nvidiactl").exists() or subprocess.run(["sh", "-c", "command -v nvidia-smi"], capture_output=True).stdout:
            self.skipTest("a GPU is here")
        self.run_script("cases", "record:qwen", "--device", "cuda", code=6)
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["absent"] * 2)
        self.assertIsNone(self.results()["gpu"])

    def test_no_time(self):
        said = self.run_script("cases", minutes=0.5, code=6)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual(self.calls(), "plimsoll --version\n")
        self.assertIn("takes about 45 s", said)
        self.run_script("cases:launched", "--from", self.out)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual([step["status"] for step in self.steps("cases").values()], ["passed"] * 2 + ["cut"] * 6)

    def test_another_build_or_gpu_is_refused(self):
        self.run_script("cases")
        before = self.results()
        self.assertIn("is there already", self.run_script("cases", code=2))
        self.program("path/nvidia-smi", NVIDIA_SMI.replace("H100 80GB HBM3", "H200"))
        self.assertIn("is of gpu 'NVIDIA H100", self.run_script("cases", "--from", self.out, code=2))
        self.program("path/nvidia-smi", NVIDIA_SMI)
        (self.bin / "plimsoll_cuda.so").write_bytes(b"another module")
        self.assertIn("is of build 'plimsoll", self.run_script("cases", "--from", self.out, code=2))
        self.assertEqual(self.results(), before)

    def test_usage(self):
        self.assertIn("'speeed' is no part; there are cases, bits", self.run_script("speeed", code=2))
        self.assertIn("no step of record has 'gpt5'", self.run_script("record:gpt5", code=2))
        self.assertIn("scripts/package", self.run_script("cases", "--bin", self.folder / "none.tar.xz", code=2))

    def test_an_archive(self):
        archive = self.folder / "plimsoll-cuda.tar.xz"
        with tarfile.open(archive, "w:xz") as file:
            file.add(self.bin, "plimsoll-cuda")
        self.run_script("cases", "--bin", archive)
        build = self.results()["build"]
        self.run_script("cases", "--from", self.out)
        self.assertEqual(self.results()["build"], build, "the archive's build is that of the folder")

    # Steps of a test, in a session within this process.

    def session(self, minutes, earlier=None):
        args = argparse.Namespace(out=self.out, earlier=earlier, device="cpu", bin=self.bin, minutes=minutes, python=None,
                                  sanitizer=None)  # fmt: skip
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

    def test_a_step_beyond_the_time_is_cut_with_its_processes(self):
        command = f'echo $$ >"{self.state}/outer"; sleep 300 & echo $! >"{self.state}/inner"; wait'
        long = sessions.Step("long", 1, lambda s: s.call("sh", "-c", command))
        short = sessions.Step("short", 0, lambda s: {"number": 7})
        seconds, found = self.run_steps(0.15, [short, long])
        self.assertLess(seconds, 9 + sessions.GRACE)
        self.assertEqual(found, {"short": "passed", "long": "cut"})
        for name in ("outer", "inner"):
            state = Path("/proc", (self.state / name).read_text().strip(), "stat")
            self.assertTrue(not state.exists() or ") Z " in state.read_text(), f"the {name} process has ended")
        # Later it is known to take longer, and does not begin; with more time, it does.
        began = self.steps("part")["long"]["seconds"]
        self.assertGreater(began, 1)
        small = (began + sessions.GRACE + 1) / 60
        self.assertEqual(self.run_steps(small, [short, long], self.out)[1], {"short": "passed", "long": "cut"})
        self.assertIn("takes about", self.steps("part")["long"]["reason"])
        quick = sessions.Step("long", 1, lambda s: {})
        self.assertEqual(self.run_steps(10, [short, quick], self.out)[1], {"short": "passed", "long": "passed"})

    def test_what_prepares_a_machine_runs_again(self):
        ran = []
        step = lambda name, seconds=0, after=None: sessions.Step(name, seconds, lambda s: ran.append(name), after)
        steps = [step("first"), step("quick", after="first"), step("slow", 600, after="first")]
        self.assertEqual(self.run_steps(1, steps)[1], {"first": "passed", "quick": "passed", "slow": "cut"})
        self.assertEqual(self.run_steps(20, steps, self.out)[1], {"first": "passed", "quick": "passed", "slow": "passed"})
        self.run_steps(20, steps, self.out)
        self.assertEqual(ran, ["first", "quick", "first", "slow"])

    def test_an_error_is_a_failure_and_the_others_run(self):
        def wrong(_):
            raise ValueError("no number")

        steps = [sessions.Step("wrong", 0, wrong), sessions.Step("right", 0, lambda s: None)]
        self.assertEqual(self.run_steps(1, steps)[1], {"wrong": "failed", "right": "passed"})
        self.assertEqual(self.steps("part")["wrong"]["reason"], "ended early: ValueError: no number")


if __name__ == "__main__":
    unittest.main()
