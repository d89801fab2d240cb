"""Sum up the test runs of CI from their JUnit files; fail on a skip that nobody allowed.

usage: skips.py ALLOW_LIST RUN.xml [RUN.xml ...]

The allow-list has one regular expression per line, matched anywhere in the reason; `#` starts a comment.
An expected failure counts as a skip: it, too, is a test that proves nothing.
"""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def read_run(path: Path) -> tuple[int, int, list[tuple[str, str]]]:
    """Return how many tests passed, how many failed, and (test, reason) of each one skipped."""
    passed, failed, skipped = 0, 0, []
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif (skip := case.find("skipped")) is not None:
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            reason = skip.get("message", "")
            if reason == "collection skipped":  # a whole module; only the text says why
                reason = (skip.text or "").partition("Skipped: ")[2].rstrip("\"')")
            skipped.append((name, reason))
        else:
            passed += 1
    return passed, failed, skipped


def main(allow_list: str, *runs: str) -> int:
    """Print the sums and the skips; return 1 when a run is missing, empty or skipped without leave."""
    lines = Path(allow_list).read_text(encoding="utf-8").splitlines()
    allowed = [re.compile(line) for line in map(str.strip, lines) if line and not line.startswith("#")]
    totals = [0, 0, 0]
    faults = []
    for run in map(Path, runs):
        if not run.exists():
            faults.append(f"{run.stem}: left no record, so its tests did not run to the end")
            continue
        passed, failed, skipped = read_run(run)
        totals = [a + b for a, b in zip(totals, (passed, failed, len(skipped)), strict=True)]
        print(f"{run.stem:<14}{passed:>6} passed{failed:>6} failed{len(skipped):>6} skipped")
        if passed == 0:
            faults.append(f"{run.stem}: no test passed")
        for name, reason in skipped:
            verdict = "allowed" if any(pattern.search(reason) for pattern in allowed) else "NOT ALLOWED"
            print(f"    {verdict}: {name}: {reason}")
            if verdict == "NOT ALLOWED":
                faults.append(
                    f"{run.stem}: {name} was skipped for a reason that .ci/allowed-skips.txt does not list"
                )
    for fault in faults:
        print(f"skips.py: {fault}")
    print(f"tests: {totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
