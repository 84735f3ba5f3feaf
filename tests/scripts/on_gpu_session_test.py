"""Sessions of scripts/on_gpu: refusals, the time, signals, archives, and files that go on."""

import functools
import json
import os
import signal
import subprocess
import tarfile
import unittest
from unittest import mock

from _on_gpu import NVIDIA_SMI, PROGRAM, ROOT, OnGpu, runs

import processes
import programs
import session as sessions


class OnGpuSessionTest(OnGpu):
    def test_no_time(self):
        said = self.run_script("cases", minutes=0.5, code=6)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual(self.calls(), "plimsoll --version\n")
        self.assertIn("takes about 30 s", said)
        self.run_script("cases:launched", "--from", self.out)
        self.assertEqual(self.part("cases")["status"], "cut")
        self.assertEqual([step["status"] for step in self.steps("cases").values()], ["passed"] * 2 + ["cut"] * 6)
        self.out.unlink()
        # Words of one part are put together. A call's exit code is that of its own steps, the file's status that of the part.
        self.assertIn("results.json: cases cut (3 of 8 steps passed)\n", self.run_script("cases:launched", "cases:apart 2"))
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
        with mock.patch.object(programs, "VERSION_SECONDS", 0.2), self.assertRaisesRegex(programs.Refused, "timed out"):
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
