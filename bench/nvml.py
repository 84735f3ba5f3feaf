"""Bytes of a GPU that are in use, by whatever processes, as its driver counts them from outside: NVML through ctypes, which makes
no context on the device; nvidia-smi where that library cannot be loaded. What the firmware keeps is not in them.
"""

import ctypes
import subprocess
import threading
import time


class _Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


class _OldMemory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Gpu:
    """The first GPU. `used()`: bytes, or None if neither way works; `source`: the way; `name`, `driver`: text or None."""

    def __init__(self, library="libnvidia-ml.so.1"):
        """`library`: None asks the program alone."""
        self.source, self._handle = None, ctypes.c_void_p()
        try:
            self._nvml = ctypes.CDLL(library) if library else None
            if library and self._nvml.nvmlInit_v2() == 0:
                if self._nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._handle)) == 0:
                    self.source = "nvml"
        except (OSError, AttributeError):
            pass
        if self.source is None and self._ask_program() is not None:
            self.source = "nvidia-smi"
        self.name, self.driver = self._facts()

    def used(self):
        if self.source == "nvml":
            return self._ask_library()
        return self._ask_program() if self.source else None

    def _facts(self):
        if self.source == "nvml":
            name, driver = ctypes.create_string_buffer(96), ctypes.create_string_buffer(80)
            named = self._nvml.nvmlDeviceGetName(self._handle, name, len(name)) == 0
            known = self._nvml.nvmlSystemGetDriverVersion(driver, len(driver)) == 0
            return name.value.decode() if named else None, driver.value.decode() if known else None
        return self._query("name"), self._query("driver_version")

    def _ask_library(self):
        memory = _Memory(version=ctypes.sizeof(_Memory) | 2 << 24)
        try:
            if self._nvml.nvmlDeviceGetMemoryInfo_v2(self._handle, ctypes.byref(memory)) == 0:
                return memory.used
        except AttributeError:
            pass
        old = _OldMemory()
        return old.used if self._nvml.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(old)) == 0 else None

    def _ask_program(self):
        answer = self._query("memory.used")
        return int(answer) << 20 if answer and answer.isdigit() else None

    @staticmethod
    def _query(field):
        """An answer of nvidia-smi, or None."""
        try:
            command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "--id=0"]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip() or None
        except (OSError, subprocess.SubprocessError):
            return None


class Sampler:
    """The most that came to use while it ran, beyond what was in use before.

    with Sampler(gpu) as sampler: ...; sampler.peak: bytes or None; sampler.samples: how many.
    """

    def __init__(self, gpu):
        # A call of the program takes longer than the pause.
        self._gpu, self._seconds, self._end = gpu, 0.005 if gpu.source == "nvml" else 0.05, threading.Event()
        self.before, self.most, self.samples = None, None, 0

    def __enter__(self):
        self.before = self._settled()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(timeout=2)  # a driver that hangs is not waited for

    @property
    def peak(self):
        return None if None in (self.before, self.most) else max(0, self.most - self.before)

    def _settled(self):
        """Waits for the driver, which returns the memory of a process some time after its end."""
        used = self._gpu.used()
        for _ in range(20):
            if used is None:
                return None
            time.sleep(0.1)
            later = self._gpu.used()
            if later is None or later >= used:
                return used
            used = later
        return used

    def now(self):
        """The most so far, with a sample of this moment; None if nothing is known."""
        used = self._gpu.used()
        if used is not None:
            self.most = used if self.most is None else max(self.most, used)
            self.samples += 1
        return self.most

    def _watch(self):
        while not self._end.wait(self._seconds):
            self.now()
