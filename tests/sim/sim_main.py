"""``make sim``: replay one seed and print what happened, or sweep many and print which failed."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.extend(str(folder) for folder in Path(__file__).resolve().parents[:2])

from sim_faults import ALL, BESIDES, EXTRA, WEIGHTS
from sim_scenario import DURATION_S, SCENES, Report, simulate
from sim_voter import sweep_voter

PROGRESS = 25
SHARE = 4
"""Of so many seeds one has transactions, unless scenes or faults are chosen; half of those delete records, too, and a
quarter are in compacted topics; one has a consumer group of the newer protocol; in one, log directories go and come
back; in every other one of the rest, rights come and go, and in the others a machine goes for good."""


def main() -> int:
    """``make sim SEED=n`` or ``make sim SEEDS=n``."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print its trace")
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to sweep")
    parser.add_argument("--first", type=int, default=1, help="the first seed of a sweep")
    parser.add_argument("--duration", type=float, default=DURATION_S, help="virtual seconds under faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of a sweep")
    parser.add_argument(
        "--without", action="append", default=[], choices=sorted(WEIGHTS | BESIDES), help="leave this fault out"
    )
    parser.add_argument("--with", dest="extra", action="append", default=[], choices=sorted(EXTRA), help="and this one")
    parser.add_argument("--scene", action="append", default=[], choices=SCENES, help="let clients do this besides")
    parser.add_argument("--only", action="append", default=[], choices=sorted(ALL), help="and no others")
    parser.add_argument("--voter", type=int, metavar="STRIDE", help="damage every STRIDEth byte of a voter's files")
    options = parser.parse_args()
    gc.disable()
    if options.voter is not None:
        return _sweep_voter(range(options.first, options.first + options.seeds), options.jobs, options.voter)
    without, extra = options.without, options.extra
    if options.only:
        without, extra = [name for name in ALL if name not in options.only], options.only
    how = _Sweep(options.duration, without, extra, options.scene, is_chosen=bool(options.scene or options.only))
    if options.seed is not None:
        return _replay(options.seed, how)
    return _sweep(range(options.first, options.first + options.seeds), options.jobs, how)


def _replay(seed: int, how: _Sweep) -> int:
    report = how(seed, tracing=True)
    print("\n".join(report.trace))
    print(_line(report))
    if report.violation:
        print(report.violation)
    return 0 if report.ok else 1


def _sweep(seeds: range, jobs: int, how: _Sweep) -> int:
    began = time.monotonic()
    failed: list[Report] = []
    totals: Counter[str] = Counter()
    synced: Counter[str] = Counter()
    cpu_s = virtual_s = 0.0
    done = sent = 0
    fates: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    rights: Counter[str] = Counter()
    # A process for each seed, forked: it ends without running what is left of killed processes.
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        for report in pool.imap_unordered(how, seeds):
            cpu_s += report.cpu_s
            virtual_s += report.virtual_s
            sent += report.sent_by_kernel
            synced.update(report.synced_on_loop)
            totals.update(report.faults)
            shared.update(report.shared)
            rights.update(report.rights)
            if report.transactions is not None:
                fates.update(report.transactions.figures | {"copied": report.transactions.copied, "runs": 1})
            done += 1
            if done % PROGRESS == 0:
                print(f"{done} of {len(seeds)} seeds, {len(failed)} failed", file=sys.stderr, flush=True)
            if not report.ok:
                failed.append(report)
                print(f"{_line(report)}\n  {report.violation.strip().splitlines()[-1]}", flush=True)
    took_s = time.monotonic() - began
    print(f"{len(seeds)} seeds from {seeds.start}, {how.duration_s:.0f} s under faults each: {len(failed)} failed")
    print(f"{virtual_s:.0f} virtual s in {cpu_s:.0f} CPU s: {virtual_s / cpu_s:.1f} to 1; it took {took_s:.0f} s")
    print(f"sent by sendfile: {sent >> 10} KiB")
    print("synced on a loop: " + ", ".join(f"{name} {count}" for name, count in synced.most_common(8)))
    if fates:
        print(
            f"transactions in {fates['runs']} runs: {fates['sent']} begun, {fates['acknowledged']} committed, "
            f"{fates['unknown']} of unknown fate, {fates['copied']} records copied once each"
        )
    if shared:
        print(
            f"consumer groups in {shared['runs']} runs: {shared['given']} times a member was given a partition, "
            f"{shared['commits']} offsets committed"
        )
    if runs := rights.pop("runs", 0):
        print(f"rights in {runs} runs: " + ", ".join(f"{what} {count}" for what, count in rights.items()))
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    if failed:
        print("failed: " + " ".join(str(report.seed) for report in sorted(failed, key=lambda report: report.seed)))
    return 1 if failed else 0


def _sweep_voter(seeds: range, jobs: int, stride: int) -> int:
    cases: Counter[str] = Counter()
    failed, cpu_s, for_a_person = 0, 0.0, 0
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        for report in pool.imap_unordered(partial(sweep_voter, stride=stride), seeds):
            cases.update(report.cases)
            cpu_s += report.cpu_s
            for_a_person += report.for_a_person
            if report.violation:
                failed += 1
                print(f"seed {report.seed}: {report.violation}", flush=True)
    for kind, count in sorted(cases.items()):
        print(f"{count:7} {kind}")
    print(f"{cases.total()} cases, {for_a_person} of them for a person, {cpu_s:.0f} CPU s: {failed} seeds failed")
    return 1 if failed else 0


@dataclass(frozen=True)
class _Sweep:
    duration_s: float
    without: Collection[str]
    extra: Collection[str]
    scenes: Collection[str]
    is_chosen: bool

    def __call__(self, seed: int, *, tracing: bool = False) -> Report:
        scenes = self.scenes
        if not self.is_chosen and seed % SHARE == 0:
            besides = (("deleted records",), (), ("deleted records",), ("compacted topics",))[seed // SHARE % 4]
            scenes = ("transactions", *besides)
        if not self.is_chosen and seed % SHARE == SHARE // 2:
            scenes = ("consumer groups",)
        if not self.is_chosen and seed % (2 * SHARE) == 2 * SHARE - 1:
            scenes = ("rights",)
        extra = self.extra
        if not self.is_chosen and seed % SHARE == 1:
            extra = (*extra, "former directories")
        if not self.is_chosen and seed % (2 * SHARE) == SHARE - 1:
            extra = (*extra, "machine goes for good")
        how = {"without": self.without, "extra": extra, "scenes": scenes}
        return simulate(seed, self.duration_s, **how, tracing=tracing)


def _line(report: Report) -> str:
    verdict = report.verdict
    seen = f"{verdict.acknowledged} of {verdict.sent} acknowledged, {verdict.read} read" if verdict else "no verdict"
    if report.transactions is not None:
        seen += f", {report.transactions.sentence}"
    return (
        f"seed {report.seed}: {'ok' if report.ok else 'FAILED'}, {seen}, {sum(report.faults.values())} faults, "
        f"{report.virtual_s:.0f} virtual s in {report.cpu_s:.1f} CPU s, {report.turns} turns, {report.fingerprint:08x}"
    )


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # nothing of the killed processes may run, not even now
