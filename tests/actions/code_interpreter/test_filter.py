"""The filter of system calls, carried out here for both machines it is written for."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import strategies

from orchestrator.actions.code_interpreter.jail import syscalls
from orchestrator.actions.code_interpreter.jail.seccomp import MACHINES, program

OWN = 4711
ALLOW, KILL = "allow", "kill"
MACHINE = pytest.mark.parametrize("machine", sorted(MACHINES))


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> object:
    """What the filter says: `allow`, `kill` or an error number."""
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    arch = MACHINES[machine] if architecture is None else architecture
    return carry_out(program(machine, OWN), struct.pack("=iIQ6Q", number, arch, 0, *given))


def carry_out(code: bytes, data: bytes) -> object:
    """Runs a program of classic BPF, as far as the filter uses it."""
    steps = list(struct.iter_unpack("=HBBI", code))
    at, value = 0, 0
    while True:
        kind, yes, no, constant = steps[at]
        at += 1
        if kind == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif kind == 0x54:
            value &= constant
        elif kind == 0x15:
            at += yes if value == constant else no
        else:
            assert kind == 0x06
            return _meaning(constant)


def _meaning(constant: int) -> object:
    if constant == 0x7FFF0000:
        return ALLOW
    return KILL if constant == 0x80000000 else constant & 0xFFFF


def call(machine: str, name: str) -> int:
    tables = (syscalls.ALLOWED, syscalls.CHECKED, syscalls.SILENT, syscalls.DENIED)
    return {n: v for t in tables for n, v in syscalls.numbers(t, machine).items()}[name]


@MACHINE
def test_every_call_of_a_table_has_its_verdict(machine):
    for table, wanted in (
        (syscalls.ALLOWED, ALLOW),
        (syscalls.SILENT, 0),
        (syscalls.UNSUPPORTED, errno.ENOTSUP),
        (syscalls.DENIED, errno.EPERM),
    ):
        for name, number in syscalls.numbers(table, machine).items():
            assert verdict(machine, number) == wanted, name


@MACHINE
def test_no_call_is_in_two_tables(machine):
    found: list[int] = []
    for table in ("ALLOWED", "CHECKED", "SILENT", "UNSUPPORTED", "DENIED"):
        found += syscalls.numbers(getattr(syscalls, table), machine).values()
    assert len(found) == len(set(found))


@MACHINE
@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("clone", (0x3D0F00,), ALLOW),  # what the C library makes threads with
        ("clone", (17,), errno.EPERM),
        ("clone", (0x10000000 | 17,), errno.EPERM),
        ("kill", (OWN,), ALLOW),
        ("kill", (1,), errno.EPERM),
        ("kill", (0,), errno.EPERM),
        ("kill", (0xFFFFFFFF,), errno.EPERM),
        ("tgkill", (OWN, 5), ALLOW),
        ("tgkill", (1, OWN), errno.EPERM),
        ("prlimit64", (0,), ALLOW),
        ("prlimit64", (1,), errno.EPERM),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 0x80801), ALLOW),  # not inherited, not blocking
        ("socketpair", (1, 2), errno.EPERM),
        ("socketpair", (1, 5), errno.EPERM),
        ("socketpair", (2, 1), errno.EPERM),
        ("sendto", (3, 4, 5, 0, 0, 0), ALLOW),
        ("sendto", (3, 4, 5, 0, 0x7000, 16), errno.EPERM),
        ("sendto", (3, 4, 5, 0, 0x700000000, 16), errno.EPERM),
        ("ioctl", (1, 0x5413), ALLOW),
        ("ioctl", (1, 0x5412), errno.ENOTTY),  # TIOCSTI
        ("prctl", (15,), ALLOW),
        ("prctl", (1,), errno.EPERM),
        ("fcntl", (1, 3), ALLOW),
        ("fcntl", (1, 8), errno.EPERM),  # F_SETOWN
    ],
)
def test_arguments_decide(machine, name, arguments, wanted):
    assert verdict(machine, call(machine, name), *arguments) == wanted


@MACHINE
def test_another_architecture_ends_the_process(machine):
    for other in (0x40000003, 0x40000028, 0, *(set(MACHINES.values()) - {MACHINES[machine]})):
        assert verdict(machine, call(machine, "read"), architecture=other) == KILL


@MACHINE
@for_all(number=strategies.integers(-(2**31), 2**31 - 1))
def test_what_is_in_no_table_does_not_exist(machine, number):
    tables = ("ALLOWED", "CHECKED", "SILENT", "UNSUPPORTED", "DENIED")
    known = {v for t in tables for v in syscalls.numbers(getattr(syscalls, t), machine).values()}
    if number not in known:
        assert verdict(machine, number, 0x10000) == errno.ENOSYS


@MACHINE
def test_threads_are_made_with_the_older_call(machine):
    assert verdict(machine, 435) == errno.ENOSYS  # clone3, whose flags a filter cannot see


def test_the_kernel_takes_a_filter_of_this_length():
    assert all(len(program(machine, OWN)) // 8 < 4096 for machine in MACHINES)


HEADERS: Sequence[tuple[str, str]] = [
    ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    ("aarch64", "/usr/include/aarch64-linux-gnu/asm/unistd_64.h"),
    ("aarch64", "/usr/include/asm-generic/unistd.h"),
]


@pytest.mark.parametrize(("machine", "header"), HEADERS)
def test_numbers_are_the_kernels(machine, header):
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    text = Path(header).read_text(encoding="utf-8")
    kernels = {name: int(n) for name, n in re.findall(r"#define __NR_(\w+)\s+(\d+)\b", text)}
    # The generic header names some calls by their 32-bit form first.
    wide = {name: int(n) for name, n in re.findall(r"#define __NR3264_(\w+)\s+(\d+)\b", text)}
    kernels |= wide
    kernels |= {"newfstatat": wide.get("fstatat", kernels.get("newfstatat", 0))}
    for table in ("ALLOWED", "CHECKED", "SILENT", "UNSUPPORTED", "DENIED"):
        for name, number in syscalls.numbers(getattr(syscalls, table), machine).items():
            assert kernels.get(name, number) == number, name
