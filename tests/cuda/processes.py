"""Processes of a session on a GPU: started in groups of their own, and ended with all that they have started."""

import collections
import dataclasses
import json
import os
import signal
import subprocess
import sys

END_SECONDS = 3  # for a killed process to go; one that waits for a driver stays longer


@dataclasses.dataclass
class Done:
    code: int
    out: str
    err: str

    def last_lines(self, count=12):
        return "\n".join((self.out + self.err).strip().splitlines()[-count:])[-1500:]

    def error(self):
        """The line with a code, or the last one."""
        lines = (self.err or self.out).strip().splitlines() or ["nothing said"]
        return next((line for line in lines if line.startswith("E-")), lines[-1])[:300]

    def json(self):
        try:
            value = json.loads(self.out)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def descendants(pid):
    """All processes that it has started, and theirs, in whatever session: by the parents that /proc names."""
    children = collections.defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children[parent].append(int(name))
    found, left = set(), [pid]
    while left:
        new = [child for child in children[left.pop()] if child not in found]
        found.update(new)
        left += new
    return found


def send(number, pid, whole_group=False):
    try:
        (os.killpg if whole_group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def end(process):
    """Ends a process and all that it has started. Stopped ones start no others while they are looked for."""
    found = set()
    if process.poll() is None:
        send(signal.SIGSTOP, process.pid)
        while new := descendants(process.pid) - found:
            found |= new
            for pid in new:
                send(signal.SIGSTOP, pid)
    send(signal.SIGKILL, process.pid, whole_group=True)
    for pid in found:
        send(signal.SIGKILL, pid)
    try:
        process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def exit_on_signals():
    """SIGHUP, SIGINT and SIGTERM end this program by way of every `finally`. Ignored ones, as under nohup, stay ignored."""
    numbers = [each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]

    def leave(number, _):
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in numbers:
        signal.signal(each, leave)
