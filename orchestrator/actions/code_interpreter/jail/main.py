"""The sandbox's process: it locks itself up, tries whether that holds, then runs the code.

It is started as `python -I -S -B` with a job (see `Job`) on its standard input, and writes one
line of JSON to a descriptor before any of the code runs: `{"isolation": [...]}`, or
`{"refused": "why"}`, after which it ends and the code does not run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import resource
import site
import socket
import sys
import traceback
import types
from typing import Any, TypedDict

from . import landlock, namespaces, seccomp
from .kernel import Refused, check_result, libc, prctl
from .variables import Variables

_PDEATHSIG, _DUMPABLE, _NO_NEW_PRIVILEGES = 1, 4, 38
_CAPABILITY_VERSION = 0x20080522
_SIGKILL = 9
_STATUS = 3
_NAME = "<code>"

# What may be read besides Python's library: shared libraries, fonts, time zones.
_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"),
    *("/usr/share/fonts", "/usr/share/zoneinfo"),
)

_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")


class Job(TypedDict):
    """The job that the process reads from standard input."""

    code: str  # the Python program
    parent: int  # the id of the process that started this one, and with which it must end
    layers: list[str]  # which of `namespaces` and `landlock` to try
    packages: list[str]  # folders of installed packages
    scratch: str  # the code's folder
    # What the file system holds that is made in its place: `bytes` and `inodes`
    bounds: dict[str, int]
    # What the scratch folder may hold at the end: `bytes` and `files`
    kept: dict[str, int]
    root: str  # an empty folder, to build a new root in
    outside: str  # a folder with a file `probe` that the code must not reach
    user: int  # the user to become when this process is root
    limits: dict[str, int]  # values by the names of `resource`, without `RLIMIT_`
    explained: int  # the exit status when standard error says why the program failed


def main(status: int) -> None:
    """Runs the job on standard input; `status` is a socket for the outcome of locking up."""
    # Not as arguments: other users see those of a process.
    job: Job = json.loads(sys.stdin.buffer.read())
    os.dup2(status, _STATUS)
    try:
        answer: dict[str, Any] = {"isolation": _lock_up(job)}
    except Exception as error:  # whatever it is, the code must not run
        answer = {"refused": str(error) or type(error).__name__}
    os.write(_STATUS, json.dumps(answer).encode() + b"\n")
    os.close(_STATUS)
    if "refused" in answer:
        os._exit(1)
    sys.exit(_run(job))


def _lock_up(job: Job) -> list[str]:
    library = [os.path.realpath(path) for path in sys.path if os.path.exists(path)]
    sys.path[:] = [path for path in library if path != os.path.realpath(_own_folder())]
    readable = [*sys.path, *job["packages"], *_SYSTEM]
    held, why = _enter_namespaces(job, readable)
    _leave_root(job)
    prctl(_DUMPABLE, 1)  # its own user may look at what it holds
    prctl(_NO_NEW_PRIVILEGES, 1)
    if "landlock" in job["layers"]:
        try:
            landlock.restrict(readable, _DEVICES, job["scratch"])
            held.append("landlock")
        except Refused as error:
            why.append(str(error))
    if not held:
        raise Refused("; ".join(why) or "no way to confine files was to be tried")
    _drop_capabilities()
    _end_with_parent(job["parent"])
    _limit(job["limits"])
    _detach()
    os.chdir(job["scratch"])
    seccomp.restrict()
    _test_confinement(job["outside"])
    return [*held, "seccomp"]


# This package's folder is no part of Python's library, and so is not shown to the code.
def _own_folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _enter_namespaces(job: Job, readable: list[str]) -> tuple[list[str], list[str]]:
    if "namespaces" not in job["layers"]:
        return [], []
    try:
        namespaces.enter(readable, _DEVICES, job["scratch"], job["root"], job["bounds"])
    except OSError as error:
        return [], [f"namespaces are not permitted ({error.strerror})"]
    _wait_for_files(job["scratch"])
    return ["namespaces"], []


# The session's files are copied by the parent: it alone may read them.
def _wait_for_files(scratch: str) -> None:
    folder = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(fileno=os.dup(_STATUS)) as channel:
        socket.send_fds(channel, [b"\n"], [folder])
        os.close(folder)
        if not channel.recv(1):
            raise Refused("the process that started the sandbox has ended")


# Limits of processes do not hold root. Where another user cannot read Python, the process stays
# root and loses its capabilities only.
def _leave_root(job: Job) -> None:
    user, scratch = job["user"], job["scratch"]
    if os.geteuid() != 0:
        return
    try:
        _change_owner(scratch, user)
        os.seteuid(user)
    except OSError:  # a container that has no such user
        _change_owner(scratch, os.getuid())
        return
    try:
        for folder in (os.path.dirname(os.__file__), scratch, *job["packages"]):
            os.listdir(folder)
    except OSError:
        os.seteuid(0)
        _change_owner(scratch, 0)
        return
    os.seteuid(0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _change_owner(scratch: str, user: int) -> None:
    os.chown(scratch, user, user)
    for folder, inner, names in os.walk(scratch):
        for name in (*inner, *names):
            os.chown(os.path.join(folder, name), user, user, follow_symlinks=False)


def _drop_capabilities() -> None:
    import ctypes
    import struct

    about = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    none = bytes(24)
    check_result(
        libc.capset(ctypes.create_string_buffer(about, 8), ctypes.create_string_buffer(none, 24)),
        "capset",
    )


def _end_with_parent(parent: int) -> None:
    prctl(_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:  # it ended before that was set
        raise Refused("the process that started the sandbox has ended")


def _limit(limits: dict[str, int]) -> None:
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, highest = resource.getrlimit(kind)
        # The processor's time has a signal first, which says what happened.
        hard = most + 1 if name == "CPU" else most
        if highest != resource.RLIM_INFINITY:
            most, hard = min(most, highest), min(hard, highest)
        resource.setrlimit(kind, (most, hard))


# An inherited descriptor would be a way out: only the outputs and the status stay open.
def _detach() -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.closerange(_STATUS + 1, 1 << 16)


# A kernel may take the rules and not keep them: what must not work is tried before the code runs.
def _test_confinement(outside: str) -> None:
    probe = os.path.join(outside, "probe")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC):
        _must_fail(f"opening a file outside ({flags})", lambda: os.open(probe, flags))  # noqa: B023
    _must_fail("making a folder outside", lambda: os.mkdir(os.path.join(outside, "made")))
    _must_fail("listing a folder outside", lambda: _find_probe(outside))
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 16):  # 16: AF_NETLINK
        _must_fail(f"a socket ({family})", lambda: socket.socket(family))  # noqa: B023
    _must_fail("a new process", _fork)
    _must_fail("another program", lambda: os.execv(sys.executable, [sys.executable, "-V"]))
    os.rmdir(_make_folder("works"))


def _make_folder(name: str) -> str:
    os.mkdir(name)  # in the scratch folder
    return name


def _find_probe(outside: str) -> None:
    if "probe" not in os.listdir(outside):  # a new root has the folder, and nothing in it
        raise FileNotFoundError


def _fork() -> None:
    if os.fork() == 0:
        os._exit(1)


def _must_fail(what: str, attempt: Any) -> None:
    try:
        attempt()
    except OSError:
        return
    raise Refused(f"the sandbox does not hold here: {what} is possible")


# Runs the program as the module `__main__`, the way a prompt does: what its last expression gives
# is shown, and what earlier programs left is there. Modules of the scratch folder can be imported
# after all others. Gives the exit code; what the program raised is then on the standard error.
def _run(job: Job) -> int:
    code = job["code"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv[:] = [_NAME]
    # As at a prompt. With `-S` Python does not do it by itself.
    site.setquit()
    site.sethelper()
    sys.path.extend([*job["packages"], job["scratch"]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Line by line, so that a program that is stopped has shown what it did.
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    variables = Variables(module, job["kept"]["bytes"], job["kept"]["files"])
    variables.load()
    linecache.cache[_NAME] = (len(code), None, code.splitlines(keepends=True), _NAME)
    failed = _execute_and_report(code, module, variables)
    os.chdir(job["scratch"])
    with contextlib.suppress(Exception):
        variables.save()
    return job["explained"] if failed else 0


def _execute_and_report(code: str, module: types.ModuleType, variables: Variables) -> bool:
    """Executes the program, and says on standard error why it failed, if it did."""
    try:
        _execute(code, module, variables)
    except SystemExit as stop:
        return _report_exit(stop)
    except BaseException as error:  # whatever the code raises is its outcome
        _print_traceback(error)
        return True
    return False


def _execute(code: str, module: types.ModuleType, variables: Variables) -> None:
    tree = ast.parse(code, _NAME)
    variables.note(code, tree)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, _NAME, "exec"), module.__dict__)
    if last is not None:
        exec(compile(ast.Interactive([last]), _NAME, "single"), module.__dict__)


def _report_exit(stop: SystemExit) -> bool:
    if stop.code is None or stop.code == 0:
        return False
    print(f"SystemExit: {stop.code}", file=sys.stderr)
    return True


# The traceback begins with the code's own first line: the lines above are this package's.
def _print_traceback(error: BaseException) -> None:
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != _NAME:
        frame = frame.tb_next
    try:
        traceback.print_exception(type(error), error, frame)
    except BaseException:  # no memory is left, or the exception's own text raises
        os.write(2, f"{type(error).__name__}\n".encode())
