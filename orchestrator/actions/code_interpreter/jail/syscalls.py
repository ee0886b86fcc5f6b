"""Numbers of system calls, as `name=x86_64:aarch64`; `-` where an architecture has none.

What is in no table is answered with `ENOSYS`: libraries then use an older call, and calls that
kernels will have one day are refused before anybody knows them. `clone3` must be among these, since
a filter cannot see its arguments.
"""

from __future__ import annotations

# What Python, NumPy and Matplotlib need; none reaches another process or a network.
ALLOWED = """
read=0:63 write=1:64 open=2:- openat=257:56 close=3:57 lseek=8:62 pread64=17:67 pwrite64=18:68
readv=19:65 writev=20:66 preadv=295:69 pwritev=296:70 stat=4:- fstat=5:80 lstat=6:-
newfstatat=262:79 statx=332:291 access=21:- faccessat=269:48 faccessat2=439:439 readlink=89:-
readlinkat=267:78 getcwd=79:17 chdir=80:49 fchdir=81:50 getdents=78:- getdents64=217:61
mkdir=83:- mkdirat=258:34 rmdir=84:- unlink=87:- unlinkat=263:35 rename=82:- renameat=264:38
renameat2=316:276 link=86:- linkat=265:37 symlink=88:- symlinkat=266:36 umask=95:166 dup=32:23
dup2=33:- dup3=292:24 pipe=22:- pipe2=293:59 flock=73:32 fsync=74:82 fdatasync=75:83
truncate=76:45 ftruncate=77:46 fadvise64=221:223 statfs=137:43 fstatfs=138:44
sendfile=40:71 copy_file_range=326:285 poll=7:- ppoll=271:73 select=23:- pselect6=270:72
epoll_create=213:- epoll_create1=291:20 epoll_ctl=233:21 epoll_wait=232:- epoll_pwait=281:22
eventfd2=290:19 timerfd_create=283:85 timerfd_settime=286:86 timerfd_gettime=287:87 mmap=9:222
munmap=11:215 mprotect=10:226 mremap=25:216 brk=12:214 madvise=28:233 msync=26:227
mincore=27:232 futex=202:98 set_robust_list=273:99 get_robust_list=274:100 rseq=334:293
membarrier=324:283 rt_sigaction=13:134 rt_sigprocmask=14:135 rt_sigreturn=15:139
rt_sigpending=127:136 rt_sigsuspend=130:133 rt_sigtimedwait=128:137 sigaltstack=131:132
restart_syscall=219:128 pause=34:- alarm=37:- setitimer=38:103 getitimer=36:102
timer_create=222:107 timer_settime=223:110 timer_gettime=224:108 timer_getoverrun=225:109
timer_delete=226:111 nanosleep=35:101 clock_nanosleep=230:115 clock_gettime=228:113
clock_getres=229:114 gettimeofday=96:169 time=201:- times=100:153 getrandom=318:278
getpid=39:172 getppid=110:173 gettid=186:178 getuid=102:174 geteuid=107:175 getgid=104:176
getegid=108:177 getresuid=118:148 getresgid=120:150 getgroups=115:158 getpgrp=111:-
getpgid=121:155 getsid=124:156 getrlimit=97:163 getrusage=98:165 getpriority=140:141
sched_yield=24:124 sched_getaffinity=204:123 sched_getparam=143:121 sched_getscheduler=145:120
sched_get_priority_max=146:125 sched_get_priority_min=147:126 getcpu=309:168 uname=63:160
sysinfo=99:179 set_tid_address=218:96 exit=60:93 exit_group=231:94 wait4=61:260 waitid=247:95
recvfrom=45:207 shutdown=48:210 getsockopt=55:209 setsockopt=54:208 getsockname=51:204
getpeername=52:205
"""

# Allowed for some arguments (see `seccomp`).
CHECKED = """
clone=56:220 kill=62:129 tgkill=234:131 prlimit64=302:261 socketpair=53:199 sendto=44:206
ioctl=16:29 prctl=157:167 fcntl=72:25
"""

# Answered with success, and nothing happens: modes, owners and times stay as they are.
SILENT = """
chmod=90:- fchmod=91:52 fchmodat=268:53 fchmodat2=452:452 chown=92:- fchown=93:55 lchown=94:-
fchownat=260:54 utime=132:- utimes=235:- futimesat=261:- utimensat=280:88
"""

# Answered as by a file system without extended attributes, which `shutil` understands, and without
# space set aside, which the C library writes instead: nobody must take a disk in one moment.
UNSUPPORTED = """
fallocate=285:47
getxattr=191:8 lgetxattr=192:9 fgetxattr=193:10 setxattr=188:5 lsetxattr=189:6 fsetxattr=190:7
listxattr=194:11 llistxattr=195:12 flistxattr=196:13 removexattr=197:14 lremovexattr=198:15
fremovexattr=199:16
"""

# Answered with `EPERM`, so that Python raises `PermissionError`.
DENIED = """
socket=41:198 connect=42:203 bind=49:200 listen=50:201 accept=43:202 accept4=288:242
sendmsg=46:211 recvmsg=47:212 sendmmsg=307:269 recvmmsg=299:243 fork=57:- vfork=58:-
execve=59:221 execveat=322:281 ptrace=101:117 process_vm_readv=310:270 process_vm_writev=311:271
mount=165:40 umount2=166:39 pivot_root=155:41 chroot=161:51 unshare=272:97 setns=308:268
bpf=321:280 keyctl=250:219 add_key=248:217 request_key=249:218 perf_event_open=298:241
setuid=105:146 setgid=106:144 setreuid=113:145 setregid=114:143 setresuid=117:147
setresgid=119:149 setgroups=116:159 setsid=112:157 setpgid=109:154 setrlimit=160:164
setpriority=141:140 sched_setaffinity=203:122 sched_setscheduler=144:119 sched_setparam=142:118
tkill=200:130 rt_sigqueueinfo=129:138 rt_tgsigqueueinfo=297:240 pidfd_open=434:434
pidfd_send_signal=424:424 pidfd_getfd=438:438 mknod=133:- mknodat=259:33 seccomp=317:277
capset=126:91 personality=135:92 reboot=169:142 init_module=175:105 finit_module=313:273
kexec_load=246:104 swapon=167:224 sethostname=170:161 settimeofday=164:170 clock_settime=227:112
"""


def numbers(table: str, machine: str) -> dict[str, int]:
    """A table's calls by name, for `x86_64` or `aarch64`."""
    column = ("x86_64", "aarch64").index(machine)
    rows = (row.partition("=") for row in table.split())
    found = {name: both.split(":")[column] for name, _, both in rows}
    return {name: int(number) for name, number in found.items() if number != "-"}
