"""scripts/on_gpu with stand-ins: small models on the processor, and recorded answers of nvidia-smi, compute-sanitizer, PyTorch
and test_cuda. Every part passes; parts fail, are cut, lack something and go on; a file of another build is refused.
"""

import argparse
import contextlib
import functools
import io
import json
import os
import signal
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

import parts as all_of_them  # noqa: E402
import processes  # noqa: E402
import programs  # noqa: E402
import session as sessions  # noqa: E402

SPEED = ("gpt2-124m", "smollm2-135m", "qwen2.5-0.5b")
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
echo $$ >"{state}/pid"
sleep 0.5
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
            # Steps that were not asked for count as cut.
            self.assertEqual(part["status"], "cut" if part["name"] in ("bits", "record") else "passed", part)
            self.assertEqual(set(part), {"name", "status", "seconds", "figures"})
            self.assertEqual({step["status"] for step in part["figures"]["steps"].values()}, {"passed"}, part)
        self.assertEqual(len(self.steps("cases")), 8)
        self.assertEqual(self.steps("cases")["ptx 2/2"]["tests"], 431)
        for kind in ("gpt2", "llama", "lora-nf4", "lora-q4_k", "chat"):
            figures = self.steps("bits")[f"{kind} bf16"][f"{kind}-bf16"]
            self.assertEqual((figures["loss_difference"], figures["audit_bytes"]), (0, 0))
        self.assertTrue({"below-the-floor", "counted-ample"} <= set(self.steps("bits")["faults"]))
        for tool in SANITIZERS:
            self.assertEqual([self.steps(tool)[f"cases {i}/2"]["tests"] for i in (1, 2)], [431, 431])
            self.assertEqual([self.steps(tool)[f"training {each}"]["updates"] for each in ("fp32", "bf16")], [3, 3])
        memory = self.steps("memory")["qwen2.5-1.5b 4 GiB"]
        self.assertTrue(7 << 20 < memory["predicted_minus_counted_bytes"] <= 9 << 20, memory)
        self.assertIn("1 error", self.steps("memcheck")["planted"]["summary"])
        budgets = [self.steps("record")[f"gpt2-124m budget {i}/8"] for i in range(1, 9)]
        self.assertEqual([each["memory_bytes"] for each in budgets], sorted(each["memory_bytes"] for each in budgets))
        self.assertTrue(all(each["update_seconds"] > 0 for each in budgets))
        self.assertTrue((self.folder / "results.machines" / "machine-1.json").exists())
        for model in SPEED:
            ours, theirs = (self.steps("speed")[f"{model} round 0 {kind}"] for kind in ("plimsoll", "compile"))
            self.assertGreater(ours["tokens_per_second"], 0)
            self.assertEqual((theirs["tokens_per_second"], theirs["device_bytes"]), (463800.0, 302 << 20))
            self.assertGreater(ours["device_bytes"], 0)
            self.assertRegex(theirs["best"], "^searched on NVIDIA H100" if model == "gpt2-124m" else "^guessed$")
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
        self.assertIn("cases failed (0 of 8 steps passed), racecheck failed (0 of 6 steps passed), memory failed (1 of 9", said)
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

    def test_what_has_not_run_does_not_pass(self):
        (self.state / "idle").touch()
        self.run_script("racecheck:cases 1", "racecheck:training fp32", code=1)
        steps = self.steps("racecheck")
        self.assertEqual((steps["cases 1/2"]["status"], steps["cases 1/2"]["reason"]), ("failed", "no case has run"))
        self.assertEqual(steps["training fp32"]["reason"], "0 of 3 updates")
        (self.state / "idle").unlink()
        self.out.unlink()
        # A case that is outside of the op cases is counted, too.
        rotary = "CudaOps/OpCasesTest.AgreesWithTheReference/rotary_cuda"
        (self.state / "cases").write_text(BAD.replace(rotary, "CudaUpdate.LionIsTheCpus"))
        self.run_script("cases:launched 1", code=1)
        self.assertEqual(self.steps("cases")["launched 1/2"]["names"], ["CudaUpdate.LionIsTheCpus"])

    def test_a_program_without_a_usable_gpu(self):
        """Programs then print a line and exit with 0."""
        none = "no GPU: E-CUDA-DEVICE there is no driver"
        self.program("bin/test_cuda", f"#!/bin/sh\necho '{none}'\n")
        with contextlib.ExitStack() as patches:
            patches.enter_context(self.patched(all_of_them.sys, "executable", self.bin / "test_cuda"))
            steps = {name: part.steps for name, part in all_of_them.all_parts().items()}
            chosen = [steps["bits"][0], steps["bits"][-1], steps["cases"][0], steps["memcheck"][1]]
            self.assertEqual(chosen[3].name, "neighbour")
            self.assertEqual(self.run_steps(20, chosen)[1], {step.name: "absent" for step in chosen})
        self.assertEqual({step["reason"] for step in self.steps("part").values()}, {none})

    def test_bits_without_figures_fail(self):
        self.program("bin/test_cuda", "#!/bin/sh\n")
        with self.patched(all_of_them.sys, "executable", self.bin / "test_cuda"):
            steps = all_of_them.all_parts()["bits"].steps
            self.assertEqual(set(self.run_steps(20, steps)[1].values()), {"failed"})
        self.assertEqual(self.steps("part")["llama bf16"]["reason"], "no figures of llama-bf16")
        self.assertEqual(self.steps("part")["faults"]["reason"], "no figures of below-the-floor, counted-ample")

    def test_an_overrun_is_seen_by_its_test(self):
        (self.state / "overrun").write_text("CUDA error 700\n")
        self.run_script("memcheck:neighbour", code=1)
        self.assertIn("did not see an overrun, exit 1", self.steps("memcheck")["neighbour"]["reason"])

    def test_code_for_newer_gpus(self):
        """Kernels of cuBLASLt are left out, attention's are not."""
        self.run_script("cases:ptx")
        (chosen,) = {line.split("--gtest_filter=")[1] for line in self.calls().splitlines() if line.startswith("test_cuda")}
        without = chosen.removeprefix("-").split(":")
        self.assertTrue({"Ops/*", "*/matmul", "*/block_matmul", "*/linear_cross_entropy*"} <= set(without))
        self.assertNotIn("attention", chosen)

    def test_parts_of_one_call_fit_into_it(self):
        parts = all_of_them.all_parts()
        groups = [[step.seconds for step in parts[name].steps] for name in ("cases", "bits", *SANITIZERS)]
        for name, model in [("memory", "gpt2-124m"), ("memory", "gpt2-1.5b"), ("memory", "qwen2.5-1.5b"), ("record", "gpt2-124m"),
                            ("record", "smollm2-135m"), ("record", "qwen2.5-0.5b"), *(("speed", each) for each in SPEED)]:
            groups.append([step.seconds for step in parts[name].steps if step.name.startswith(model)])
        self.assertTrue(all(0 < sum(group) <= 295 for group in groups), list(map(sum, groups)))

    def test_what_is_absent(self):
        (self.bin / "test_cuda").rename(self.folder / "test_cuda")
        (self.folder / "empty").mkdir()
        # A file that cannot be executed is no sanitizer.
        (self.folder / "empty" / "compute-sanitizer").write_text("#!/bin/sh\n")
        self.run_script("cases", "memcheck", "speed:gpt2-124m round 0", "--sanitizer", self.folder / "empty", whole=False, code=6)
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["absent", "absent", "cut"])
        self.assertIn("test_cuda", self.steps("cases")["ptx 1/2"]["reason"])
        self.assertIn("--sanitizer", self.steps("memcheck")["rates"]["reason"])
        self.assertIn("--python", self.steps("speed")["gpt2-124m round 0 compile"]["reason"])
        self.assertEqual(self.steps("speed")["gpt2-124m round 0 plimsoll"]["status"], "passed")
        # With PyTorch it goes on, and keeps the rest.
        self.calls()
        self.run_script("speed:gpt2-124m round 0", "--from", self.out)
        self.assertEqual({step["status"] for step in self.steps("speed").values()}, {"passed"})
        self.assertEqual(self.part("speed")["status"], "cut", "other models have not run")
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
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["absent", "cut"])
        self.assertEqual({step["status"] for step in self.steps("record").values()}, {"absent"})
        self.assertIsNone(self.results()["gpu"])

    def test_no_time(self):
        said = self.run_script("cases", minutes=0.5, code=6)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual(self.calls(), "plimsoll --version\n")
        self.assertIn("takes about 30 s", said)
        self.run_script("cases:launched", "--from", self.out)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual([step["status"] for step in self.steps("cases").values()], ["passed"] * 2 + ["cut"] * 6)
        self.out.unlink()
        # A call's exit code is that of its own steps, the file's status that of the part.
        self.assertIn("cases cut (2 of 8 steps passed)", self.run_script("cases:launched"))
        self.assertEqual(self.part("cases")["status"], "cut")

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
        self.assertIn("no program", self.run_script("speed", "--python", self.folder / "none", whole=False, code=2))
        for minutes in ("inf", "nan", "-1", "0", "1e300", "five"):
            self.assertIn("--minutes", self.run_script("cases", minutes=minutes, code=2))
        self.assertEqual(self.left_behind(), [])

    def left_behind(self):
        """Whatever a refused call has made."""
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith(("results", ".on_gpu")))

    def archive(self):
        archive = self.folder / "plimsoll-cuda.tar.xz"
        with tarfile.open(archive, "w:xz") as file:
            file.add(self.bin, "plimsoll-cuda")
        return archive

    def test_programs_that_cannot_be_used_are_refused(self):
        refused = functools.partial(self.run_script, "cases", code=2)
        self.assertIn("cannot be unpacked", refused("--bin", ROOT / "LICENSE"))
        self.assertIn("holds no plimsoll", refused("--bin", self.state))
        archive = self.archive()
        (self.bin / "plimsoll_cuda.so").write_bytes(os.urandom(1 << 16))
        whole = self.archive().read_bytes()
        for size in (0, 100, len(whole) // 2, len(whole) - 10):
            archive.write_bytes(whole[:size])
            self.assertIn("cannot be unpacked", refused("--bin", archive))
        with tarfile.open(archive, "w:xz") as file:
            file.add(self.state, "other")
        self.assertIn("holds no plimsoll", refused("--bin", archive))
        program = self.bin / "plimsoll"
        for text, reason in (("\x7fELF of another processor", ""), ("#!/bin/sh\nexit 3\n", ": exit 3")):
            program.write_text(text)
            self.assertIn(f"does not run here{reason}", refused())
        program.chmod(0o644)
        self.assertIn("does not run here", refused())
        self.program("bin/plimsoll", "#!/bin/sh\nexec sleep 60\n")
        with self.patched(programs, "VERSION_SECONDS", 0.2), self.assertRaisesRegex(programs.Refused, "timed out"):
            self.session(5)
        self.program("bin/plimsoll", PROGRAM)
        self.assertIn("cannot be written", refused("--out", ROOT / "LICENSE" / "results.json"))
        self.assertEqual(self.left_behind(), [])

    def test_results_that_cannot_be_used_are_refused(self):
        earlier = self.folder / "earlier.json"
        part = {"name": "cases", "status": "cut", "seconds": 0, "figures": {"steps": {}}}
        texts = ["", "[]", "{}", '{"parts": 3}', '{"parts": [7]}', json.dumps({"parts": [{**part, "figures": {}}]}),
                 json.dumps({"parts": [{**part, "figures": {"steps": {"launched 1/2": {}}}}]})]  # fmt: skip
        for text in texts:
            earlier.write_text(text)
            self.assertIn("--from", self.run_script("cases", "--from", earlier, code=2))
        earlier.write_bytes(b"\xff\xfe")
        self.assertIn("--from", self.run_script("cases", "--from", earlier, code=2))
        self.assertIn("--from", self.run_script("cases", "--from", self.folder / "none.json", code=2))
        self.assertIn("--from", self.run_script("cases", "--from", self.folder, code=2))
        self.assertFalse(earlier.with_suffix(".work").exists())

    def test_a_file_is_not_overwritten(self):
        self.run_script("cases:launched")
        other, third = self.folder / "other.json", self.folder / "third.json"
        other.write_text("results of another day")
        self.assertIn("is there already", self.run_script("cases", "--from", self.out, "--out", other, code=2))
        self.assertEqual(other.read_text(), "results of another day")
        self.assertFalse(other.with_suffix(".work").exists())
        self.run_script("cases:captured", "--from", self.out, "--out", third)
        self.run_script("cases:captured", "--from", self.out, "--out", self.folder / "state" / ".." / self.out.name)
        for path in (third, self.out):
            self.assertEqual(len(json.loads(path.read_text())["parts"][0]["figures"]["steps"]), 4)

    def test_models_of_the_benchmark(self):
        done = subprocess.run([ROOT / "bench" / "cuda", PLIMSOLL, "--model", "gpt2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'gpt2' is no model; there are gpt2-124m", done.stderr)

    def test_an_archive(self):
        archive = self.archive()
        self.run_script("cases", "--bin", archive)
        build = self.results()["build"]
        self.run_script("cases", "--from", self.out)
        self.assertEqual(self.results()["build"], build, "the archive's build is that of the folder")
        self.assertEqual(self.left_behind(), ["results.json", "results.work"])
        # An archive of another build leaves the programs as they are.
        (self.bin / "plimsoll_cuda.so").write_bytes(b"another module")
        self.run_script("cases", "--bin", self.archive(), "--from", self.out, code=2)
        module = self.folder / "results.work" / "bin" / "plimsoll-cuda" / "plimsoll_cuda.so"
        self.assertEqual(module.read_bytes(), b"module")

    def test_signals_end_it_and_the_file_stays(self):
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            (self.state / "wait").unlink(missing_ok=True)
            self.out.unlink(missing_ok=True)
            self.run_script("cases:launched 1")
            (self.state / "wait").touch()
            (self.state / "waits").unlink(missing_ok=True)
            command = [ROOT / "scripts" / "on_gpu", "cases", "--device", "cpu", "--bin", self.bin, "--from", self.out]
            # Tests in the background ignore SIGINT.
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment,
                                       preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL)
                                                           for each in (signal.SIGINT, signal.SIGHUP)])  # fmt: skip
            waits = self.state / "waits"
            self.wait_until(lambda: waits.exists() and waits.read_text().strip())
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (128 + number, ""), out)
            self.assertEqual({name: step["status"] for name, step in self.steps("cases").items()}, {"launched 1/2": "passed"})
            self.assertFalse(runs(waits.read_text()))

    def wait_until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    # Steps of a test, in a session within this process.

    @contextlib.contextmanager
    def patched(self, module, name, value):
        before = getattr(module, name)
        setattr(module, name, value)
        try:
            yield
        finally:
            setattr(module, name, before)

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

    def test_a_step_beyond_the_time_is_cut_with_its_processes(self):
        command = (f'echo $$ >"{self.state}/outer"; sleep 300 & echo $! >"{self.state}/inner"; '
                   f"setsid sh -c 'echo $$ >\"{self.state}/apart\"; sleep 300; :' & wait")  # fmt: skip
        long = sessions.Step("long", 1, lambda s: s.call("sh", "-c", command))
        short = sessions.Step("short", 0, lambda s: {"number": 7})
        seconds, found = self.run_steps(0.15, [short, long])
        self.assertLess(seconds, 9 + sessions.GRACE)
        self.assertEqual(found, {"short": "passed", "long": "cut"})
        for name in ("outer", "inner", "apart"):
            self.assertFalse(runs((self.state / name).read_text()), f"the {name} process has ended")
        # Later it is known to take longer, and does not begin; with more time, it does.
        began = self.steps("part")["long"]["seconds"]
        self.assertGreater(began, 1)
        small = (began + sessions.GRACE + 1) / 60
        self.assertEqual(self.run_steps(small, [short, long], self.out)[1], {"short": "passed", "long": "cut"})
        self.assertIn("takes about", self.steps("part")["long"]["reason"])
        quick = sessions.Step("long", 1, lambda s: {})
        self.assertEqual(self.run_steps(10, [short, quick], self.out)[1], {"short": "passed", "long": "passed"})

    def test_a_stranger_that_holds_the_output_is_not_waited_for(self):
        command = f"setsid sh -c 'echo $$ >\"{self.state}/apart\"; exec sleep 60' &"
        seconds, found = self.run_steps(0.1, [sessions.Step("left", 0, lambda s: s.call("sh", "-c", command))])
        self.assertEqual(found, {"left": "cut"})
        self.assertLess(seconds, 6 + processes.END_SECONDS + sessions.GRACE)
        os.kill(int((self.state / "apart").read_text()), signal.SIGKILL)

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
