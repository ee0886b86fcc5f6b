"""Programs that try to get out. Each attempt is a real one: outside the sandbox it succeeds."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import threading

import pytest
from interpreter_support import PROJECT, children, needs_sandbox, output_of, run
from left_out import sampled

from orchestrator.actions.code_interpreter import process
from orchestrator.errors import DependencyFailed

pytestmark = needs_sandbox
CANARY = "canary-code-5b1e"

# What an attempt has: `A`, with the places and names of `target`. It says REACHED when it got out.
READS = {
    "environment": "import os\nif A['canary'] in str(os.environ): print('REACHED')",
    "environment of C": """
import ctypes
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
if A['canary'].encode() in (getenv(b'CODE_CANARY') or b''): print('REACHED')""",
    "its process": "if open('/proc/self/environ').read(): print('REACHED')",
    "the parent's environment": """
if open(f'/proc/{A["parent"]}/environ').read(): print('REACHED')""",
    "the parent's memory map": """
if open(f'/proc/{A["parent"]}/maps').read(): print('REACHED')""",
    "processes": "import os\nif os.listdir('/proc'): print('REACHED')",
    "users": "if open('/etc/passwd').read(): print('REACHED')",
    "host names": "if open('/etc/hosts').read(): print('REACHED')",
    "home": "import os\nif set(os.listdir(A['home'])) >= set(A['at home']): print('REACHED')",
    "a secret file": "if open(A['secret']).read() == A['canary']: print('REACHED')",
    "the project": "if open(A['project'] + '/pyproject.toml').read(): print('REACHED')",
    "the temporary folder": "import os\nif os.listdir(A['folder']): print('REACHED')",
    "shared memory": "import os\nif os.listdir('/dev/shm') is not None: print('REACHED')",
    "a link to a file": """
import os
os.symlink(A['secret'], 'link')
if open('link').read() == A['canary']: print('REACHED')""",
    "a link to a folder": """
import os
os.symlink(A['folder'], 'link2')
if os.listdir('link2'): print('REACHED')""",
    "a second name of a file": """
import os
os.link(A['secret'], 'hard')
if open('hard').read() == A['canary']: print('REACHED')""",
    "an open descriptor": """
import os
for number in range(3, 200):
    try:
        os.lseek(number, 0, 0)
        if os.read(number, 99) == A['canary'].encode(): print('REACHED')
    except OSError:
        pass""",
    "its own descriptors": "import os\nif os.listdir('/proc/self/fd'): print('REACHED')",
}
NETWORK = {
    "TCP": "import socket\nsocket.create_connection(('127.0.0.1', A['port']), 5)\nprint('REACHED')",
    "TCP over IPv6": "import socket\nsocket.socket(socket.AF_INET6)\nprint('REACHED')",
    "UDP": """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', A['port']))
print('REACHED')""",
    "DNS": "import socket\nsocket.getaddrinfo('localhost', A['port'])\nprint('REACHED')",
    "HTTP": """
import urllib.request
urllib.request.urlopen(f'http://127.0.0.1:{A["port"]}/', timeout=5)
print('REACHED')""",
    "listening": "import socket\nsocket.create_server(('127.0.0.1', 0))\nprint('REACHED')",
    "a Unix socket": """
import socket
socket.socket(socket.AF_UNIX).connect(A['socket'])
print('REACHED')""",
    "an abstract Unix socket": """
import socket
socket.socket(socket.AF_UNIX).connect('\\0' + A['abstract'])
print('REACHED')""",
    "a pair of datagram sockets": """
import socket
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print('REACHED')""",
    "another address through a pair": """
import socket
one, other = socket.socketpair()
try:
    one.sendto(b'x', A['socket'])
except OSError as error:
    if isinstance(error, PermissionError): raise
print('REACHED')""",
    "the kernel's socket call": """
import ctypes
number = {'x86_64': 41, 'aarch64': 198}[A['machine']]
if ctypes.CDLL(None).syscall(number, 2, 1, 0) >= 0: print('REACHED')""",
    "a packet of messages": """
import socket
one, other = socket.socketpair()
one.sendmsg([b'x'])
print('REACHED')""",
}
PROCESSES = {
    "fork": "import os\nif os.fork() == 0: os._exit(0)\nos.wait()\nprint('REACHED')",
    "another program": "import subprocess\nsubprocess.run(['/bin/true'])\nprint('REACHED')",
    "Python again": """
import subprocess, sys
subprocess.run([A['python'], '-c', ''])
print('REACHED')""",
    "instead of itself": "import os\nos.execv('/bin/echo', ['echo', 'REACHED'])",
    "a spawned program": """
import os
pid = os.posix_spawn('/bin/true', ['true'], {})
os.waitpid(pid, 0)
print('REACHED')""",
    "a shell": "import os\nif os.system('true') == 0: print('REACHED')",
    "multiprocessing": """
import multiprocessing
with multiprocessing.get_context('fork').Pool(1): print('REACHED')""",
    "a daemon": """
import os
if os.fork() == 0:
    os.setsid()
    os._exit(0)
os.wait()
print('REACHED')""",
    "the kernel's clone": """
import ctypes, os
libc = ctypes.CDLL(None)
number = {'x86_64': 56, 'aarch64': 220}[A['machine']]
pid = libc.syscall(number, 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
if pid > 0:
    os.waitpid(pid, 0)
    print('REACHED')""",
    "the kernel's clone3": """
import ctypes, os, struct
libc = ctypes.CDLL(None)
args = struct.pack('=11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
pid = libc.syscall(435, args, len(args))
if pid == 0: os._exit(0)
if pid > 0:
    os.waitpid(pid, 0)
    print('REACHED')""",
    "a program from memory": """
import os
fd = os.memfd_create('x')
print('REACHED')""",
    "a session of its own": "import os\nif os.fork() == 0:\n    os._exit(0)\nprint('REACHED')",
    "signals": "import os\nos.kill(A['parent'], 0)\nprint('REACHED')",
    "signals to a group": "import os\nos.killpg(os.getpgid(A['parent']), 0)\nprint('REACHED')",
    "signals to all": "import os\nos.kill(-1, 0)\nprint('REACHED')",
    "signals of a pipe": """
import fcntl, os
read, write = os.pipe()
fcntl.fcntl(read, fcntl.F_SETOWN, A['parent'])
print('REACHED')""",
    "limits of the parent": """
import resource
resource.prlimit(A['parent'], resource.RLIMIT_NOFILE)
print('REACHED')""",
    "a handle of the parent": "import os\nos.pidfd_open(A['parent'])\nprint('REACHED')",
    "processors of the parent": """
import os
os.sched_setaffinity(A['parent'], os.sched_getaffinity(A['parent']))
print('REACHED')""",
}
WRITES = {
    "a new file": "open(A['folder'] + '/new', 'w').close()\nprint('REACHED')",
    "a file in /tmp": """
import os
name = f'/tmp/code-{os.getpid()}'
open(name, 'w').close()
os.unlink(name)
print('REACHED')""",
    "a new folder": "import os\nos.mkdir(A['folder'] + '/made')\nprint('REACHED')",
    "appending": "open(A['victim'], 'a').close()\nprint('REACHED')",
    "truncating": "import os\nos.truncate(A['victim'], 0)\nprint('REACHED')",
    "truncating by opening": """
import os
os.open(A['victim'], os.O_RDONLY | os.O_TRUNC)
print('REACHED')""",
    "removing": "import os\nos.unlink(A['victim'])\nprint('REACHED')",
    "moving away": "import os\nos.rename(A['victim'], A['victim'] + '2')\nprint('REACHED')",
    "moving out": """
import os
open('mine', 'w').close()
os.rename('mine', A['folder'] + '/moved')
print('REACHED')""",
    "through a link": """
import os
os.symlink(A['folder'], 'out')
open('out/new', 'w').close()
print('REACHED')""",
    "the library": """
import os
name = os.path.dirname(os.__file__) + '/code_interpreter_was_here'
open(name, 'w').close()
os.unlink(name)
print('REACHED')""",
    "a named pipe": "import os\nos.mkfifo('pipe')\nprint('REACHED')",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """What must not be reached: a secret, files, and servers that listen."""
    folder = tmp_path_factory.mktemp("outside")
    folder.chmod(0o755)
    (folder / "secret").write_text(CANARY)
    listeners = [socket.create_server(("127.0.0.1", 0))]
    abstract = f"code-{os.getpid()}"
    for address in (str(folder / "s"), f"\0{abstract}"):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(address)
        listeners[-1].listen()

    def answer():
        try:
            while True:
                with listeners[0].accept()[0] as connection:
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        except OSError:
            return

    server = threading.Thread(target=answer)
    server.start()
    yield {
        "canary": CANARY,
        "folder": str(folder),
        "secret": str(folder / "secret"),
        "victim": str(folder / "victim"),
        "home": os.path.expanduser("~"),
        "at home": os.listdir(os.path.expanduser("~")),
        "project": str(PROJECT),
        "python": sys.executable,
        "parent": os.getpid(),
        "port": listeners[0].getsockname()[1],
        "socket": str(folder / "s"),
        "abstract": abstract,
        "machine": platform.machine(),
    }
    listeners[0].shutdown(socket.SHUT_RDWR)
    server.join()
    for listener in listeners:
        listener.close()


@pytest.fixture
def outside(target, monkeypatch):
    """The targets as they were, and what a process inherits."""
    monkeypatch.setenv("CODE_CANARY", CANARY)
    with open(target["victim"], "w") as victim:
        victim.write("unharmed")
    os.chmod(target["victim"], 0o644)
    descriptor = os.open(target["secret"], os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    yield target
    os.close(descriptor)


def program(attempt, target):
    return f"import json\nA = json.loads({json.dumps(target)!r})\n{attempt.strip()}"


ATTEMPTS = {**READS, **NETWORK, **PROCESSES, **WRITES}
# These need what not every place without a sandbox permits.
NOT_EVERYWHERE = {
    "the kernel's clone3",
    "signals to all",
    "TCP over IPv6",
    "a second name of a file",
    "its own descriptors",
    "the library",
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_nothing_outside_is_reached(name, outside, interpreter):
    hold(interpreter, ATTEMPTS[name], outside)


@pytest.mark.parametrize("layer", ["namespaces", "landlock"])
@pytest.mark.parametrize("name", sampled([*READS, *WRITES]))
def test_one_way_to_confine_files_is_enough(name, layer, outside, interpreter, monkeypatch):
    monkeypatch.setattr(process, "LAYERS", (layer,))
    try:
        hold(interpreter, ATTEMPTS[name], outside)
    except DependencyFailed:
        pytest.skip(f"{layer} alone is not possible here")


def hold(interpreter, attempt, outside):
    before = sorted(os.listdir(outside["folder"]))
    result = run(interpreter, program(attempt, outside))
    assert "REACHED" not in result.details["executionOutput"]
    assert CANARY not in result.details["executionOutput"]
    assert all(CANARY.encode() not in file["bytes"] for file in result.files)
    assert sorted(os.listdir(outside["folder"])) == before
    with open(outside["victim"]) as victim:
        assert victim.read() == "unharmed"


@pytest.mark.parametrize("name", sampled(sorted(set(ATTEMPTS) - NOT_EVERYWHERE)))
def test_the_attempt_succeeds_without_a_sandbox(name, outside, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program(ATTEMPTS[name], outside)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        close_fds=False,
        check=False,
    )
    assert "REACHED" in done.stdout, done.stderr


def test_modes_owners_and_times_outside_stay(outside, interpreter):
    code = """
import os
os.chmod(A['victim'], 0o777)
os.chown(A['victim'], 1, 1)
os.utime(A['victim'], (1, 1))
fd = os.open(os.__file__, os.O_RDONLY)
os.fchmod(fd, 0)"""
    files = [outside["victim"], os.__file__]
    before = [os.stat(file) for file in files]
    run(interpreter, program(code, outside))
    for file, old in zip(files, before, strict=True):
        new = os.stat(file)
        assert (new.st_mode, new.st_uid, new.st_mtime_ns) == (
            old.st_mode,
            old.st_uid,
            old.st_mtime_ns,
        )


KERNEL_CALLS = {  # x86_64, aarch64
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "io_uring_setup": (425, 425),
    "pidfd_getfd": (438, 438),
    "open_by_handle_at": (304, 265),
    "setuid": (105, 146),
    "setsid": (112, 157),
    "personality": (135, 92),
    "seccomp": (317, 277),
    "inotify_init1": (294, 26),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "x32 getpid": (0x40000000 + 39, 0x40000000 + 172),
}


@pytest.mark.parametrize("name", sampled(KERNEL_CALLS))
def test_kernel_calls_are_refused_to_ctypes_too(name, interpreter):
    number = KERNEL_CALLS[name][platform.machine() == "aarch64"]
    code = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
done = libc.syscall(ctypes.c_long({number}), 0, 0, 0, 0, 0)
done, errno.errorcode[ctypes.get_errno()]"""
    assert output_of(run(interpreter, code)) in ("(-1, 'EPERM')", "(-1, 'ENOSYS')")


def test_limits_and_the_filter_cannot_be_lifted(interpreter):
    code = """
import ctypes, resource
libc = ctypes.CDLL(None, use_errno=True)
for name in ('RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_NOFILE', 'RLIMIT_NPROC'):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
        print('REACHED')
    except (ValueError, PermissionError):
        pass
for option in (1, 4, 22, 38):  # the parent's death, dumps, the filter, privileges
    print(libc.prctl(option, 0, 0, 0, 0), end=' ')"""
    assert output_of(run(interpreter, code)) == "-1 -1 -1 -1 "


def test_a_program_has_no_capabilities_and_is_not_root_where_that_is_possible(interpreter):
    code = """
import ctypes, struct
header = struct.pack('=Ii', 0x20080522, 0)
data = ctypes.create_string_buffer(24)
ctypes.CDLL(None).capget(header, data)
bytes(data) == bytes(24)"""
    # `capget` is not among the calls, so the buffer stays empty; changing the host name is no more.
    assert output_of(run(interpreter, code)) == "True"
    assert "PermissionError" in run(interpreter, "import socket\nsocket.sethostname('x')").text


def test_only_its_own_streams_are_open(outside, interpreter):
    code = """
import os
found = []
for number in range(1024):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
found"""
    assert output_of(run(interpreter, code)) == "[0, 1, 2]"


def test_one_session_cannot_read_another(interpreter):
    run(interpreter, "open('mine.txt', 'w').write('private')", session_id="s-1")
    folder = run(interpreter, "import os\nprint(os.getcwd())", session_id="s-1").text
    listed = run(interpreter, "import os\nos.listdir()", session_id="s-2")
    assert output_of(listed) == "[]"
    read = run(interpreter, f"open({folder!r} + '/mine.txt').read()", session_id="s-2")
    assert "private" not in read.text
    assert "Error" in read.text


def test_names_of_other_files_are_hidden_by_namespaces(outside, interpreter):
    if "namespaces" not in interpreter.check():
        pytest.skip("namespaces are not permitted here")
    code = "import os\n[os.path.exists(path) for path in (A['secret'], '/etc/passwd', '/proc')]"
    assert output_of(run(interpreter, program(code, outside))) == "[False, False, False]"


def test_no_process_is_left(interpreter):
    before = children()
    run(interpreter, "import threading\nthreading.Thread(target=input, daemon=True).start()")
    run(interpreter, "import os\nos.close(1)\nos.close(2)")
    assert children() <= before
