"""A session on a machine with a GPU: the programs that were built elsewhere, the time that is left, and the file of results.

A part is a list of steps. A step begins only if its estimate fits into the time that is left; it is ended, with its processes,
when the time is over. The file is written after each step. A later session of the same build, GPU and driver goes on from it:
steps that passed or failed stay, steps that were cut or lacked something run.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from processes import Done, end, exit_on_signals
from programs import Refused, build_of, folder_of_programs, unpacked

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

from nvml import Gpu, Sampler  # noqa: E402

SCHEMA = "plimsoll.gpu/1"
MORE_TIME = 1.5  # of the seconds after which a step was cut
GRACE = 5  # seconds to end a step and write the file
NO_GPU = ("E-CUDA-DEVICE", "E-CUDA-LOAD")
SETTLED = 3  # updates, after which nothing may grow


class Failed(Exception):
    """A step's result that is not as it should be, with the figures so far."""

    def __init__(self, text, **figures):
        super().__init__(text)
        self.figures = figures


class Absent(Exception):
    """Something that a step needs is not here."""


class Cut(Exception):
    """The time was over within a step."""


@dataclasses.dataclass
class Step:
    name: str
    seconds: float  # an estimate: a guess until a file has the step's own seconds
    run: Callable  # of the session; returns figures
    after: str | None = None  # a step that prepares this machine for it: runs again in each session that has this one left


@dataclasses.dataclass
class Part:
    name: str
    steps: list
    asked: list | None = None  # the steps of this call; None: all


def read_results(path):
    """An earlier file of results."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"--from {path}: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("parts"), list) or not all(map(is_part, found["parts"])):
        raise Refused(f"--from {path} holds no results of scripts/on_gpu")
    return found


def is_part(value):
    figures = value.get("figures") if isinstance(value, dict) and isinstance(value.get("name"), str) else None
    steps = figures.get("steps") if isinstance(figures, dict) else None
    return isinstance(steps, dict) and all(map(is_result, steps.values()))


def is_result(value):
    return isinstance(value, dict) and isinstance(value.get("status"), str) and isinstance(value.get("seconds"), (int, float))


def described(error):
    return f"{type(error).__name__}: {error}"


class Session:
    def __init__(self, args):
        exit_on_signals()
        self.begin = time.monotonic()
        self.seconds = 60 * args.minutes
        self.args, self.out = args, args.out.resolve()
        self.cuda = args.device == "cuda"
        self.device = ["--device", "cuda", "--unverified"] if self.cuda else ["--device", "cpu"]
        self.work, self.kept = self.out.with_suffix(".work"), self.out.with_suffix(".machines")
        self.plans = {}
        if self.out.exists() and (args.earlier is None or args.earlier.resolve() != self.out):
            raise Refused(f"{self.out} is there already; go on with --from, or give another --out")
        earlier = args.earlier and read_results(args.earlier)
        archive = None if args.bin.is_dir() else unpacked(args.bin, next(path for path in self.out.parents if path.is_dir()))
        try:
            self.folder = folder_of_programs(archive or args.bin.resolve(), args.bin)
            self.gpu = Gpu() if self.cuda else Gpu(library=None)
            self.results = self._go_on(build_of(self.folder), earlier)
            self._make_work(archive)
        except OSError as error:
            raise Refused(f"{self.work} cannot be written: {error}") from error
        finally:
            if archive:
                shutil.rmtree(archive, ignore_errors=True)
        self.plimsoll, self.test_cuda = self.folder / "plimsoll", self.folder / "test_cuda"
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        self.environment.setdefault("XDG_CACHE_HOME", str(self.work / "cache"))
        libraries = subprocess.run([ROOT / "scripts" / "cuda_libraries"], capture_output=True, text=True).stdout.strip()
        if libraries:
            self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (libraries, os.environ.get("LD_LIBRARY_PATH"))))

    def _go_on(self, build, earlier):
        here = {"schema": SCHEMA, "gpu": self.gpu.name, "driver": self.gpu.driver, "build": build, "device": self.args.device}
        if earlier is None:
            return {**here, "parts": []}
        for key, value in here.items():
            if earlier.get(key) != value:
                raise Refused(f"--from {self.args.earlier} is of {key} {earlier.get(key)!r}, here is {value!r}; begin a new file")
        return earlier

    def _make_work(self, archive):
        """The folder of the work, with the programs of an archive and the machine files of an earlier call."""
        self.work.mkdir(parents=True, exist_ok=True)
        if archive:
            place = self.work / "bin"
            if place.exists():
                shutil.rmtree(place)
            archive.rename(place)
            self.folder = place / self.folder.relative_to(archive)
        machines = self.args.earlier and self.args.earlier.resolve().with_suffix(".machines")
        if machines and machines.is_dir() and machines != self.kept:
            shutil.copytree(machines, self.kept, dirs_exist_ok=True)

    # Time and processes.

    def left(self):
        return self.seconds - GRACE - (time.monotonic() - self.begin)

    def start(self, command, folder=None, environment=None, log=None):
        sink = subprocess.PIPE if log is None else log
        return subprocess.Popen([str(word) for word in command], cwd=folder or self.work, stdin=subprocess.DEVNULL, stdout=sink,
                                stderr=sink, env={**self.environment, **(environment or {})}, start_new_session=True)

    def call(self, *command, seconds=None, folder=None, environment=None):
        """Runs a command within the time that is left; `seconds`: and within its own limit, whose excess is a failure."""
        process = self.start(command, folder, environment)
        limit = min(seconds or self.left(), self.left())
        try:
            out, err = process.communicate(timeout=max(1, limit))
        except subprocess.TimeoutExpired as expired:
            if seconds is not None and self.left() > 0:
                raise Failed(f"{pathlib.Path(command[0]).name} takes longer than {seconds:.0f} s") from expired
            raise Cut from expired
        finally:
            end(process)
        return Done(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def demand(self, *command, **more):
        """The JSON object of a command of plimsoll that must succeed."""
        done = self.call(self.plimsoll, *command, "--json", **more)
        if done.code == 0:
            return done.json()
        error = done.json()
        if error.get("code") in NO_GPU:
            raise Absent(f"{error['code']} {error.get('message')}")
        raise Failed(f"exit {done.code} of plimsoll {command[0]}: {done.error()}", said=done.last_lines())

    def plan(self, name, *command):
        """A plan and its file. Each command plans once in a session."""
        words = tuple(map(str, command))
        if words not in self.plans:
            file = self.work / f"plan-{name}.json"
            self.plans[words] = self.demand("plan", *words, "--out", file), file
        return self.plans[words]

    def train(self, config, run, updates, *more):
        """Trains until metrics has so many lines; what is saved then is not waited for. The lines, the bytes that the driver
        counts (Sampler), and those after the first updates."""
        folder, lines, settled = self.work / run, [], None
        shutil.rmtree(folder, ignore_errors=True)
        with Sampler(self.gpu) as sampler, (self.work / "train.log").open("w+b") as log:
            process = self.start([self.plimsoll, "train", config, *self.device, "--run", folder, *more], log=log)
            try:
                while len(lines) < updates:
                    ended = process.poll() is not None
                    lines = metrics_of(folder)
                    if settled is None and len(lines) >= SETTLED:
                        settled = sampler.now()
                    if ended:
                        break
                    if self.left() < 0:
                        raise Cut
                    time.sleep(0.02)
            finally:
                end(process)
            log.seek(0)
            said = log.read().decode("utf-8", "replace")
        shutil.rmtree(folder, ignore_errors=True)
        if len(lines) < updates:
            error = Done(process.returncode, "", said).error()
            raise Failed(f"{len(lines)} of {updates} updates, exit {process.returncode}: {error}", said=said[-1500:])
        return lines, sampler, settled

    # Results.

    def results_of(self, name):
        """The part's object in the file."""
        for part in self.results["parts"]:
            if part["name"] == name:
                return part
        part = {"name": name, "status": "cut", "seconds": 0, "figures": {"steps": {}}}
        self.results["parts"].append(part)
        return part

    def write(self):
        partial = self.out.with_suffix(".partial")
        partial.write_text(json.dumps(self.results, indent=1) + "\n")
        partial.replace(self.out)

    def run(self, parts):
        """Runs the parts' asked steps that are left, as the time allows. Returns the statuses of all that were asked for."""
        found = set()
        kept = [self.results_of(part.name) for part in parts]
        self.write()
        for part, whole in zip(parts, kept, strict=True):
            asked, steps, prepared = part.steps if part.asked is None else part.asked, whole["figures"]["steps"], set()
            for step in asked:
                if is_left(step, asked, steps):
                    self._run_step(step, part, whole, prepared)
            whole["status"] = status_of(steps, part)
            self.write()
            found |= {steps[step.name]["status"] for step in asked}
        return found

    def _run_step(self, step, part, whole, prepared):
        """`whole`: the part's object in the file. `prepared`: names of the steps that have passed in this call."""
        steps = whole["figures"]["steps"]
        before = steps.get(step.name, {})
        if step.after and step.after not in prepared:
            result = self._unprepared(step, before, steps)
        else:
            result = self._result(step, before)
        if result["status"] == "passed":
            prepared.add(step.name)
        if result["status"] != "cut" or before.get("status") != "passed":
            steps[step.name] = result
        whole["status"] = status_of(steps, part)
        whole["seconds"] = round(sum(each["seconds"] for each in steps.values()), 1)
        self.write()
        told = result.get("reason") or shown(result)
        print(f"{result['status']:8}{part.name}, {step.name}, {result['seconds']:.0f} s{': ' if told else ''}{told}", flush=True)

    @staticmethod
    def _unprepared(step, before, steps):
        first = steps.get(step.after, {})
        if first.get("status") == "absent":
            return {**first, "seconds": 0}
        return {**before, "status": "cut", "seconds": before.get("seconds", 0), "reason": f"runs after {step.after}"}

    def _result(self, step, before):
        seconds = estimate(step, before)
        if seconds > self.left():
            result = {"status": "cut", "seconds": before.get("seconds", 0)}
            if "began" in before:
                result["began"] = before["began"]
            return {**result, "reason": f"takes about {seconds:.0f} s, {max(0, self.left()):.0f} s are left"}
        begin = time.monotonic()
        try:
            if self.cuda and self.gpu.source is None and not pathlib.Path("/dev/nvidiactl").exists():
                raise Absent("a GPU: neither NVML nor nvidia-smi has one")
            result = {"status": "passed", **(step.run(self) or {})}
        except Failed as failure:
            result = {"status": "failed", "reason": str(failure), **failure.figures}
        except Absent as absent:
            result = {"status": "absent", "reason": str(absent)}
        except Cut:
            result = {"status": "cut", "began": True, "reason": "the time was over"}
        except (OSError, ValueError, LookupError, TypeError, subprocess.SubprocessError) as error:
            result = {"status": "failed", "reason": f"ended early: {described(error)}"}
        result["seconds"] = round(time.monotonic() - begin, 1)
        return result


def is_over(step, steps):
    return steps.get(step.name, {}).get("status") in ("passed", "failed")


def is_left(step, asked, steps):
    if not is_over(step, steps):
        return True
    waiting = any(each.after == step.name and not is_over(each, steps) for each in asked)
    return waiting and steps[step.name]["status"] == "passed"


def estimate(step, before):
    """Seconds of a step: from the earlier file if it began there."""
    if before.get("status") == "passed":
        return before["seconds"]
    return max(step.seconds, MORE_TIME * before["seconds"]) if before.get("began") else step.seconds


def status_of(steps, part):
    """Of a whole part. `steps`: the results; a step without one counts as cut."""
    found = [steps.get(step.name, {}).get("status", "cut") for step in part.steps]
    found += [result["status"] for name, result in steps.items() if name not in {step.name for step in part.steps}]
    return next((status for status in ("failed", "cut", "absent") if status in found), "passed")


def shown(result):
    numbers = {key: value for key, value in result.items() if key != "seconds" and isinstance(value, (int, float))}
    return ", ".join(f"{key} {value:,}" for key, value in numbers.items())


def metrics_of(folder):
    path = folder / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
