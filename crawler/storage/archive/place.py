"""The folder of the archive: local, or whatever else fsspec knows (`s3://bucket/pages`).

A file that is being written has `.open` at the end of its name, and loses it when its pages have been read back: so
whatever is named `*.warc.gz` is whole.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from crawler.errors import ArchiveError, ConfigError
from crawler.storage.archive import index

WARC = ".warc.gz"
OPEN = ".open"


class Place:
    """Read and write the files of one archive. Every method raises ArchiveError when the place refuses."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError where *url* names no place that can be used here."""
        self.url = url
        try:
            self._files, self._folder = url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise ConfigError(f"{url}: {error} (for s3:// that is the extra `s3`: pip install 'seedbed[s3]')") from None
        except ValueError as error:
            raise ConfigError(f"{url}: {error}") from None

    def names(self) -> list[str]:
        """Return the names of the files, oldest first."""
        return [name for name in self._listed() if name.endswith(WARC)]

    def unfinished(self) -> list[str]:
        """Return the names of files that are being written, or were when their writer died."""
        return [name for name in self._listed() if name.endswith(WARC + OPEN)]

    def size_bytes(self, name: str) -> int:
        """Return the size of a file."""
        with self._told(name):
            return int(self._files.size(self._path(name)))

    @contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file that is there. What is raised inside is told as this file's fault."""
        with self._told(name), self._files.open(self._path(name), "rb") as stream:
            try:
                yield stream
            except ArchiveError as error:
                raise ArchiveError(f"{name}: {error}") from error

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a new file; on leaving it is whole and on the disk, or gone."""
        with self._told(name):
            self._files.makedirs(self._folder, exist_ok=True)
            try:
                with self._files.open(self._path(name), "wb") as stream:
                    yield stream
                    if self._is_local:
                        stream.flush()
                        os.fsync(stream.fileno())
            except BaseException:
                self.remove(name)
                raise

    def finish(self, name: str) -> None:
        """Take the `.open` off the name of a file, for good."""
        with self._told(name):
            self._files.mv(self._path(name), self._path(name.removesuffix(OPEN)))
            if self._is_local:
                folder = os.open(self._folder, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._told(name):
            if self._files.exists(self._path(name)):
                self._files.rm_file(self._path(name))

    def index_of(self, name: str) -> str | None:
        """Return the name of a file's index, None where it has none."""
        beside = name + index.SUFFIX
        with self._told(beside):
            return beside if self._files.exists(self._path(beside)) else None

    @property
    def _is_local(self) -> bool:
        return isinstance(self._files, LocalFileSystem)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _listed(self) -> list[str]:
        with self._told(""):
            if not self._files.isdir(self._folder):
                return []
            paths: list[Any] = self._files.ls(self._folder, detail=False)
        return sorted(Path(path).name for path in paths)

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveError(f"{self.url}/{name}: {error.strerror or error}") from error
