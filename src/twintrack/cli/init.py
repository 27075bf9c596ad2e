"""``twintrack init``: a commented job file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from twintrack.errors import JobError
from twintrack.job.write import job_toml, starter_job
from twintrack.storage import LocalFileSystem, write_bytes_atomic

__all__ = ["command"]


@click.command("init")
@click.argument("path", type=click.Path(path_type=Path), default=Path("job.toml"))
def command(path: Path) -> None:
    """Write a commented job to PATH (job.toml, or job.toml inside PATH where that is a folder).

    Every key stands in it with its meaning and its default. A file that exists is never overwritten.
    """
    fs = LocalFileSystem()
    target = path / "job.toml" if path.is_dir() else path
    if fs.exists(target) or target.is_symlink():
        raise JobError(
            "a path that is free",
            found="a file",
            where=str(target),
            remedy="name another, or move it away",
        )
    write_bytes_atomic(fs, target, job_toml(starter_job()).encode())
    click.echo(f"wrote {target}; `twintrack job show {target}` prints what it means")
