"""A checker of trace files: slices of a track nest or follow each other, times do not go back, counters equal the timeline."""

import json

SLACK = 0.001  # microseconds: times are written with four decimals


def faults_of(trace, profile=None, rounds=1, noise=False):
    """The faults of a trace as lines. `profile`: the object of `profile --json` with the same plan, whose timeline the counters
    have to equal. `rounds`: micro-steps of the measured update, and of the planned one. `noise`: the window was measured."""
    faults = []
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        return ["it has no list of events"]
    tracks, counters, names = {}, {}, set()
    for event in events:
        kind, pid = event.get("ph"), event.get("pid")
        if kind == "M":
            names.add((event["name"], pid, event.get("tid")))
        elif kind == "X":
            if event["dur"] < 0:
                faults.append(f"a slice ends before it begins: {event}")
            tracks.setdefault((pid, event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        elif kind == "C":
            counters.setdefault((pid, event["name"]), []).append((event["ts"], event["args"]))
        else:
            faults.append(f"an event of kind {kind}")
    for where, slices in tracks.items():
        if ("thread_name", *where) not in names:
            faults.append(f"track {where} has no name")
        faults += slice_faults(where, slices)
    for pid, _ in tracks:
        if ("process_name", pid, None) not in names:
            faults.append(f"process {pid} has no name")
    for where, samples in counters.items():
        if any(late[0] < early[0] - SLACK for early, late in zip(samples, samples[1:])):
            faults.append(f"counter {where} goes back in time")
    if profile is not None:
        faults += counter_faults(counters, profile["timeline"], rounds, noise)
    return faults


def slice_faults(where, slices):
    """Begins in order; each slice lies within the open ones or after them."""
    open_ends = []
    for (begin, end), (before, _) in zip(slices, [(float("-inf"), 0), *slices]):
        if begin < before - SLACK:
            return [f"track {where} goes back from {before} to {begin}"]
        while open_ends and open_ends[-1] <= begin + SLACK:
            open_ends.pop()
        if open_ends and end > open_ends[-1] + SLACK:
            return [f"slices of track {where} overlap at {begin}"]
        open_ends.append(end)
    return []


def expected_samples(timeline, tier, rounds, noise):
    """The bytes of a tier at each step of an update, by owner: rounds of the micro-step, the noise pass after the first one,
    and the update."""
    phases = {phase["phase"]: phase for phase in timeline}
    first, steady = phases["first"], phases.get("steady")

    def rows(phase):
        owners = phase["tiers"].get(tier, {})
        return [{owner: levels[i] for owner, levels in owners.items()} for i in range(len(phase["steps"]))]

    if rounds == 1:
        return rows(first)
    micro = len(first["steps"])
    measured = rows(phases["noise"]) if noise else []
    return rows(first) + measured + rows(steady)[:micro] * (rounds - 1) + rows(steady)[micro:]


def counter_faults(counters, timeline, rounds, noise):
    faults = []
    tiers = {tier for phase in timeline if phase["phase"] in ("first", "steady") for tier in phase["tiers"]}
    for pid in (1, 2):
        for tier in tiers:
            found = [args for _, args in counters.get((pid, f"{tier} bytes"), [])]
            want = expected_samples(timeline, tier, rounds, noise)
            if len(found) != len(want):
                faults.append(f"counter of {tier}, process {pid}: {len(found)} samples, expected {len(want)}")
            elif found != want:
                at = next(i for i, (one, other) in enumerate(zip(found, want)) if one != other)
                faults.append(f"counter of {tier}, process {pid}, sample {at}: {found[at]}, expected {want[at]}")
    return faults


def read_trace(path):
    return json.loads(path.read_text())
