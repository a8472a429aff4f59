#!/usr/bin/env python3
"""Says which records of GPU runs are of the sources as they are now: bench/records/ and tests/records/.

A record names the digest of kernels/ and src/ that it was made from (tools/sources_digest.py). One of other sources is history, not
evidence. This reports and does not fail, except with --strict where a folder's newest record is stale or missing.
"""

import argparse
import json
import pathlib
import sys

from sources_digest import ROOT, sources_digest

FOLDERS = ("bench/records", "tests/records")


def read(path: pathlib.Path) -> dict:
    try:
        record = json.loads(path.read_text())
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true", help="fail unless the newest record of each folder is of these sources")
    strict = parser.parse_args().strict
    now = sources_digest()
    print(f"sources are {now[:12]}")
    good = True
    for folder in FOLDERS:
        records = [(read(path), path) for path in sorted((ROOT / folder).glob("**/*.json"))]
        records.sort(key=lambda item: str(item[0].get("date", "")))
        for record, path in records:
            digest, date = record.get("sources_digest"), record.get("date", "no date")
            state = "names no sources_digest" if not digest else "is of these sources" if digest == now else f"STALE: is of sources {str(digest)[:12]}"
            print(f"{path.relative_to(ROOT)} ({date}) {state}")
        if not records:
            print(f"{folder} holds no record")
        good = good and bool(records) and records[-1][0].get("sources_digest") == now
    return 1 if strict and not good else 0


if __name__ == "__main__":
    sys.exit(main())
