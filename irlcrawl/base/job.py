"""JOB, the directory of one crawl: the paths of its files (job_files.py names them), and who may write to it.

The lock is an flock on LOCK: the kernel drops it when the last process that inherited it is gone, so no crash leaves a
stale one, and a new crawl cannot begin while a worker of the old one still has a request in flight.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from irlcrawl.base import job_files
from irlcrawl.base.exit_codes import ExitCode, is_disk_full
from irlcrawl.base.job_files import REPAIRED, SNAPSHOT

if TYPE_CHECKING:
    from drum.files import Files

LOCK_WAIT_SECONDS = 5.0
"""How long a start waits for the lock: workers of a crawl that was just killed need a moment to notice."""
LOCK_POLL_SECONDS = 0.05


class JobError(Exception):
    """JOB cannot be used as asked. The message is for a person."""

    code = ExitCode.FAILED


class JobLocked(JobError):
    """Another process holds JOB."""

    code = ExitCode.LOCKED


class JobDamaged(JobError):
    """Something stored in JOB is damaged or missing."""

    code = ExitCode.DAMAGED


class JobFull(JobError):
    """No room on JOB's file system."""

    code = ExitCode.DISK_FULL


def command(*parts: object) -> str:
    """`irlcrawl VERB JOB ...`, quoted so that it can be pasted into a shell whatever JOB's name is, and printable."""
    return " ".join(("irlcrawl", *(_quoted(str(part)) for part in parts)))


def _quoted(word: str) -> str:
    """A word of bash. One with bytes that would move a cursor, or are no UTF-8, is written as $'\\x1b'."""
    if word.isprintable():
        return shlex.quote(word)
    plain = set(range(0x20, 0x7F)) - set(b"'\\")
    escaped = "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{escaped}'"


def check_mounted(directory: Path) -> None:
    """Raise JobError if `directory` is a link whose target does not exist."""
    if directory.is_symlink() and not directory.exists():
        to = os.readlink(directory)
        raise JobError(f"{directory}: leads to {to}, which is not there (is its disk mounted?)")


def _read_only(directory: Path) -> bool:
    """Whether nobody may write there: disks with errors are remounted so."""
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


class JobDir:
    """Paths in JOB, and its lock: `with JobDir(path) as job:` creates missing directories and holds the lock.

    `lock_fds` are the inheritable descriptors that keep the lock (none while it is not held); every worker process gets
    them. One is of LOCK, the other of JOB/warcs, because two crawls may be led to the same archives, as a copy of JOB
    is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self.state = self.path / job_files.STATE
        self.warcs = self.path / job_files.WARCS
        self.logs = self.path / job_files.LOGS
        self.crawl_log = self.logs / job_files.CRAWL_LOG
        self.own_log = self.logs / job_files.OWN_LOG
        self.steering_log = self.logs / job_files.STEERING_LOG
        self.undelivered = self.logs / job_files.UNDELIVERED
        self.config_file = self.path / job_files.CONFIG
        self.lock_file = self.path / job_files.LOCK
        self.socket = self.path / job_files.SOCKET
        self.snapshots = self.path / job_files.SNAPSHOTS
        self.indexes = self.path / job_files.INDEXES
        self.payloads = self.indexes / job_files.PAYLOADS
        self.opt_outs = self.indexes / job_files.OPT_OUTS
        self.window = self.indexes / job_files.WINDOW
        self.ballast = self.path / job_files.BALLAST
        self.history = self.path / job_files.HISTORY
        self.leases = self.state / job_files.LEASES
        self.lock_fds: tuple[int, ...] = ()

    def exists(self) -> bool:
        """Whether a crawl was started here."""
        return self.config_file.is_file()

    def is_snapshot(self) -> bool:
        """Whether this is a snapshot of a crawl, in which nothing is written any more."""
        return (self.path / SNAPSHOT).exists()

    def require(self) -> JobDir:
        """This JobDir. Raises JobError when no crawl is here."""
        if not self.exists():
            self.check_configured()
            raise JobError(f"{self.path}: no crawl here (it has no {self.config_file.name})")
        return self

    def has_catalogue(self) -> bool:
        """Whether a crawl has begun to keep its state here."""
        if not self.state.is_dir():
            return False
        from drum import Catalog, Files  # loads numpy: verbs that only ask have no need of it

        return Catalog.exists(self.state, Files())

    def check_configured(self) -> None:
        """Raise JobDamaged when there is a crawl here but its configuration is gone. With another configuration links
        would be judged differently, and links that it leaves out are left out for good."""
        if self.lost_config():
            raise JobDamaged(
                f"{self.config_file}: missing, though its crawl's state is here: put the configuration back, or let "
                f"{command('fsck', self.path, '--repair')} write down that of the last run (where a snapshot was being "
                "opened: delete this directory, and open it again)"
            )

    def lost_config(self) -> bool:
        """Whether a crawl was started here whose configuration is gone. Looked for last: a start writes it first."""
        return not self.exists() and self.has_catalogue() and not self.exists()

    def check_usable(self, repairing: bool = False) -> None:
        """Raise JobError when a crawl can be neither created nor resumed here; touches nothing."""
        at = self.path
        if (at / SNAPSHOT).exists():
            job = at.parent.parent
            raise JobError(
                f"{at}: a snapshot, which stays as it is; to make a crawl of it: "
                f"{command('snapshots', job, '--open', at.name, 'DIR')}"
            )
        if not repairing:
            self._check_repaired()
        if at.is_dir():
            ours = self.exists() or self.lock_file.exists() or self.lost_config()
            if not ours and any(at.iterdir()):
                raise JobError(f"{at}: a directory with other things in it; name an empty or a new one")
        elif at.exists() or at.is_symlink():
            raise JobError(f"{at}: not a directory")
        while not at.exists() and at != at.parent:
            at = at.parent
        if not at.is_dir():
            raise JobError(f"{self.path}: cannot be created: {at} is not a directory")
        for directory in (at, self.state, self.warcs, self.logs):
            check_mounted(directory)
            if directory.exists() and not os.access(directory, os.W_OK | os.X_OK):
                why = "its disk is mounted read-only:" if _read_only(directory) else "no permission for"
                raise JobError(f"{self.path}: cannot be written: {why} {directory}")
        self._check_links()

    def _check_links(self) -> None:
        """Raise JobError for a link in place of a file that a crawl writes: in the JOB of a stranger it might lead to
        any file of ours. Directories may be links, and so may archives that are closed; but state and logs of another
        crawl are kept by a lock that nobody would ask here."""
        for directory in (self.state, self.logs):
            owner = directory.resolve().parent
            another = owner != self.path.resolve() and any(
                map(os.path.exists, (owner / job_files.LOCK, owner / SNAPSHOT))
            )
            if directory.is_symlink() and another:
                raise JobError(f"{directory}: a link into {owner}, which is another crawl or a snapshot of one")
        for directory in (self.path, self.state, self.logs, self.warcs):
            if not directory.is_dir():
                continue
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink() and self._is_written(directory, entry):
                        raise JobError(
                            f"{entry.path}: a link to {os.readlink(entry.path)}, which would be written to; put the "
                            "file itself there, or remove the link"
                        )

    def _is_written(self, directory: Path, entry: os.DirEntry[str]) -> bool:
        if directory == self.path:
            return not entry.is_dir()
        if directory == self.warcs:
            return entry.name.endswith(job_files.OPEN)
        return directory == self.state or entry.name in (job_files.CRAWL_LOG, job_files.OWN_LOG)

    def _check_repaired(self) -> None:
        if any((self.path / f"{path.name}{REPAIRED}").exists() for path in (self.state, self.logs)):
            again = command("fsck", self.path, "--repair")
            raise JobError(f"{self.path}: a repair was interrupted; run it again: {again}")

    # -- the lock ------------------------------------------------------------------------------------------------------

    def acquire(self, wait_seconds: float | None = None, repairing: bool = False) -> None:
        """Create missing directories and take the lock. Raises JobError, JobFull, and JobLocked after `wait_seconds`
        (LOCK_WAIT_SECONDS)."""
        self.check_usable(repairing)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._lock(fd, LOCK_WAIT_SECONDS if wait_seconds is None else wait_seconds)
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)  # for people and messages; the lock itself is the flock
                for directory in (self.state, self.warcs, self.logs):
                    directory.mkdir(exist_ok=True)
                self.lock_fds = (fd, *self._lock_archives())
                for held in self.lock_fds:
                    os.set_inheritable(held, True)
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise self.cannot_be_written(error) from error

    def acquire_to_look(self) -> None:
        """Take the lock and write nothing, so that a copy on a read-only disk can be checked. JobError, JobLocked."""
        self._check_repaired()
        try:
            fd = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # no crawl ever ran here: a copy
            return
        try:
            self._lock(fd, LOCK_WAIT_SECONDS)
            self.lock_fds = (fd, *(self._lock_archives() if self.warcs.is_dir() else ()))
        except BaseException:
            os.close(fd)
            raise

    def _lock(self, fd: int, wait_seconds: float) -> None:
        if not _flock_within(fd, wait_seconds):
            raise JobLocked(f"{self.locked_by()}; see `irlcrawl status` and `irlcrawl stop`")

    def _lock_archives(self) -> tuple[int, ...]:
        """The descriptor that locks JOB/warcs; none if the file system cannot lock directories (NFS). JobLocked."""
        fd = os.open(self.warcs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _flock_within(fd, LOCK_WAIT_SECONDS):
                return (fd,)
        except OSError:
            os.close(fd)
            return ()
        os.close(fd)
        if self.warcs.is_symlink():
            raise JobLocked(f"{self.warcs}: leads to archives that another crawl, or a check of it, has in use")
        raise self.unlocked_in_use()

    def unlocked_in_use(self) -> JobLocked:
        """The error for a JOB that is in use although LOCK was free: somebody took LOCK for a stale file and deleted
        it."""
        return JobLocked(
            f"{self.path}: in use by a crawl, or a check of it, that still runs, though its LOCK was deleted; "
            "`irlcrawl stop` it"
        )

    def release(self) -> None:
        """Give up this process's share of the lock; workers that are alive keep theirs."""
        for fd in self.lock_fds:
            os.close(fd)
        self.lock_fds = ()

    def __enter__(self) -> JobDir:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def is_locked(self) -> bool:
        """Whether some process holds JOB."""
        return not self.wait_unlocked(0.0)

    def wait_unlocked(self, seconds: float) -> bool:
        """Wait until no process holds JOB; False if one still does after `seconds`."""
        try:
            fd = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return _flock_within(fd, seconds, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def locked_by(self) -> str:
        """`JOB: in use by process N`, for messages. `fsck` writes no number into LOCK, and a number left by a finished
        crawl is stale; then the message names no process."""
        try:
            text = self.lock_file.read_text(errors="replace").strip()
        except FileNotFoundError:
            return f"{self.path}: in use by a crawl, or a check of it, that still runs, though its LOCK was deleted"
        there = text.isdecimal() and os.path.exists(f"/proc/{text}")
        return f"{self.path}: in use by " + (f"process {text}" if there else "a crawl, or a check of it")

    # -- the configuration it runs with --------------------------------------------------------------------------------

    def write_config(self, text: str, files: Files | None = None) -> None:
        """Replace irlcrawl.toml at once and durably, and make the names of all directories that `acquire` made durable
        (later writers sync only files in them). An unchanged text is not written again, so that a crawl on a completely
        full disk can be opened and can say what it needs. Raises JobError, JobFull."""
        from drum.files import Files  # loads numpy, which questions to a crawl do not need

        files = files or Files()
        temporary = Path(job_files.temporary(os.fspath(self.config_file)))
        try:
            files.unlink(temporary, missing_ok=True)
            if not files.exists(self.config_file) or files.read(self.config_file) != text.encode():
                handle = files.create(temporary)
                try:
                    files.write(handle, text.encode())
                    files.fsync(handle)
                finally:
                    files.close(handle)
                files.rename(temporary, self.config_file)
            for path in (self.path, self.path.parent):  # JOB's own name has to last as long as what is in it
                files.fsync_dir(path)
        except OSError as error:
            raise self.cannot_be_written(error) from error

    def cannot_be_written(self, error: OSError) -> JobError:
        """The error to raise for an OSError of a write."""
        if is_disk_full(error):
            return JobFull(f"{self.path}: no room on its disk; make some, and run the same command again")
        return JobError(f"{self.path}: cannot be written: {error.strerror}")


def _flock_within(fd: int, seconds: float, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the flock within `seconds`. flock has no deadline of its own, hence the polling."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            pause.wait(LOCK_POLL_SECONDS)
