#!/usr/bin/env python3
"""Prints the digest of the sources that a record (of a benchmark or a GPU run) was made from.

    tools/sources_digest.py             over all files of kernels/ and src/: what records carry as sources_digest
    tools/sources_digest.py --kernels   over the kernel sources alone, as the library computes it for its cache keys

SHA-256 over path and content of every file, by path; each part stands after its length in bytes and a colon, so that no two lists of
files run together. Paths are relative and use slashes: the digest is the same wherever the tree lies.
"""

import argparse
import hashlib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD_FOLDERS = ("kernels", "src")
KERNEL_SUFFIXES = {".cuh", ".hpp", ".cu"}  # what cmake/EmbedSources.cmake embeds


def digest_of(base: pathlib.Path, files: list[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(file.relative_to(base).as_posix() for file in files):
        for part in (path.encode(), (base / path).read_bytes()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()


def visible_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Files of a folder, without hidden ones and what editors and interpreters leave behind."""
    return [
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith("~") and not any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(folder).parts)
    ]


def sources_digest(root: pathlib.Path = ROOT) -> str:
    """Of everything that a GPU run depends on: kernels/ and src/."""
    return digest_of(root, [file for folder in RECORD_FOLDERS for file in visible_files(root / folder)])


def kernels_digest(root: pathlib.Path = ROOT) -> str:
    """As src/jit/digest.cpp computes it."""
    folder = root / "kernels"
    return digest_of(folder, [file for file in folder.rglob("*") if file.suffix in KERNEL_SUFFIXES])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true", help="the kernel sources alone")
    print(kernels_digest() if parser.parse_args().kernels else sources_digest())


if __name__ == "__main__":
    main()
