"""Files that are either whole or absent: atomic writes, digests, locks, confined paths."""

from twintrack.storage.atomic import write_bytes_atomic, write_json_atomic
from twintrack.storage.digest import canonical_json, digest_bytes, digest_file, digest_json
from twintrack.storage.faults import FullFileSystem, KillingFileSystem, ReadOnlyFileSystem
from twintrack.storage.filesystem import FileSystem, LocalFileSystem, WritableFile, storage_errors
from twintrack.storage.lock import FileLock
from twintrack.storage.paths import inside
from twintrack.storage.streaming import DigestingFile, FileDigest

__all__ = [
    "DigestingFile",
    "FileDigest",
    "FileLock",
    "FileSystem",
    "FullFileSystem",
    "KillingFileSystem",
    "LocalFileSystem",
    "ReadOnlyFileSystem",
    "WritableFile",
    "canonical_json",
    "digest_bytes",
    "digest_file",
    "digest_json",
    "inside",
    "storage_errors",
    "write_bytes_atomic",
    "write_json_atomic",
]
