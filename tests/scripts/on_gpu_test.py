"""scripts/on_gpu with stand-ins: every part passes; parts fail, lack something, and go on."""

import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from _on_gpu import BAD, PLIMSOLL, RACES, ROOT, SANITIZERS, SPEED, OnGpu

from parts import all_parts


class OnGpuPartsTest(OnGpu):
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
        steps = {name: part.steps for name, part in all_parts().items()}
        chosen = [steps["bits"][0], steps["bits"][-1], steps["cases"][0], steps["memcheck"][1]]
        self.assertEqual(chosen[3].name, "neighbour")
        with mock.patch.object(sys, "executable", self.bin / "test_cuda"):
            self.assertEqual(self.run_steps(20, chosen)[1], {step.name: "absent" for step in chosen})
        self.assertEqual({step["reason"] for step in self.steps("part").values()}, {none})

    def test_bits_without_figures_fail(self):
        self.program("bin/test_cuda", "#!/bin/sh\n")
        steps = all_parts()["bits"].steps
        with mock.patch.object(sys, "executable", self.bin / "test_cuda"):
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
        parts = all_parts()
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
        self.skip_with_a_gpu()
        self.environment["PATH"] = os.environ["PATH"]
        self.run_script("cases", "record:qwen", "--device", "cuda", code=6)
        self.assertEqual([part["status"] for part in self.results()["parts"]], ["absent", "cut"])
        self.assertEqual({step["status"] for step in self.steps("record").values()}, {"absent"})
        self.assertIsNone(self.results()["gpu"])

    def test_a_gpu_that_the_program_cannot_use(self):
        self.skip_with_a_gpu()
        self.program("bin/plimsoll", '#!/bin/sh\nexec "{plimsoll}" "$@"\n')
        words = ("bits:gpt2 fp32", "bits:faults", "memory:gpt2-124m", "memcheck:training", "record:gpt2", "speed:gpt2-124m")
        self.run_script(*words, "--device", "cuda", code=6)
        steps = [step for part in self.results()["parts"] for step in part["figures"]["steps"].values()]
        self.assertEqual({step["status"] for step in steps}, {"absent"})
        self.assertTrue(all("E-CUDA-" in step["reason"] for step in steps), steps)

    def skip_with_a_gpu(self):
        if Path("/dev/nvidiactl").exists() or subprocess.run(["sh", "-c", "command -v nvidia-smi"], capture_output=True).stdout:
            self.skipTest("a GPU is here")

    def test_models_of_the_benchmark(self):
        done = subprocess.run([ROOT / "bench" / "cuda", PLIMSOLL, "--model", "gpt2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'gpt2' is no model; there are gpt2-124m", done.stderr)

if __name__ == "__main__":
    unittest.main()
