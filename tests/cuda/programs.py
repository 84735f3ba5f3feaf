"""The programs of a session on a GPU, which were built elsewhere: a folder, or an archive of scripts/package."""

import hashlib
import lzma
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zlib

PROGRAMS = ("plimsoll", "plimsoll_cuda.so", "test_cuda")
VERSION_SECONDS = 60


class Refused(Exception):
    """The session cannot begin."""


def unpacked(archive, beside):
    """A new folder with the content of an archive."""
    if not archive.is_file():
        raise Refused(f"there is no {archive}; scripts/package --cuda --tests --archive makes one")
    try:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=".on_gpu-", dir=beside))
    except OSError as error:
        raise Refused(f"{beside} cannot be written: {error}") from error
    try:
        with tarfile.open(archive) as file:
            file.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            while file.fileobj.read(1 << 20):  # to its checksum, which shows a truncated archive
                pass
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Refused(f"{archive} cannot be unpacked: {error}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def folder_of_programs(folder, given):
    """The folder itself or one below it, as in an archive; `given`: its name for the user."""
    if (folder / "plimsoll").is_file():
        return folder
    found = sorted(path.parent for path in folder.glob("*/plimsoll") if path.is_file())
    if not found:
        raise Refused(f"{given} holds no plimsoll")
    return found[0]


def build_of(folder):
    """The version, and a hash of the programs' bytes."""
    program, digest = folder / "plimsoll", hashlib.sha256()
    try:
        for name in PROGRAMS:
            path = folder / name
            digest.update(name.encode() + (path.read_bytes() if path.exists() else b""))
        done = subprocess.run([program, "--version"], capture_output=True, timeout=VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{program} does not run here: {error}") from error
    out, err = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    if done.returncode != 0:
        raise Refused(f"{program} does not run here: exit {done.returncode}, {err.strip()[-300:]}")
    return f"{out.partition(chr(10))[0]} {digest.hexdigest()[:16]}"
