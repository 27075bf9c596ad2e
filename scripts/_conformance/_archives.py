"""Source archives of packages: fetched by name, compared with their recorded digests, unpacked safely."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twintrack.errors import UserError

__all__ = ["Package", "fetch", "read_packages", "unpack"]


@dataclass(frozen=True)
class Package:
    """A package whose own tests are measured: its version, the SHA-256 of its source archive, its switches."""

    name: str
    version: str
    sha256: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def archive(self) -> str:
        """File name of the source archive."""
        return f"{self.name}-{self.version}.tar.gz"


def read_packages(path: Path) -> list[Package]:
    """The ``[[package]]`` tables of our own data file."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Package(**entry) for entry in document["package"]]


def fetch(package: Package, folder: Path) -> Path:
    """Download a source archive with pip, which refuses another digest before it looks inside.

    Raises:
        UserError: pip could not, with its last line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / f"{package.name}.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--no-binary", ":all:", "--require-hashes", "--dest", str(folder), "--requirement", str(wanted),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise UserError(
            f"the source archive {package.archive} from pip's index", found=said[-1], where="pip download",
            remedy="reach an index that has it, or give a folder of archives with --from",
        )  # fmt: skip
    return checked(folder / package.archive, package.sha256)


def checked(archive: Path, sha256: str) -> Path:
    """The archive itself, after its digest was compared.

    Raises:
        UserError: it is not there, or is another one.
    """
    if not archive.is_file():
        raise UserError(
            f"the archive {archive.name}",
            found="no such file",
            where=str(archive.parent),
            remedy="download it",
        )
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise UserError(f"SHA-256 {sha256}", found=found, where=archive.name, remedy="download it anew")
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive below a folder. Nothing in it may leave the folder, be a device, or link outside.

    Raises:
        UserError: an entry would, or the archive is damaged; do not use what was unpacked before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise UserError(
            "an archive whose entries stay below its folder", found=str(error), where=archive.name,
            remedy="do not use this archive",
        ) from None  # fmt: skip
