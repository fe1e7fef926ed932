package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscalls are those that a container may refuse.
var syscalls = map[string]uint32{
	"memfd_create": unix.SYS_MEMFD_CREATE, "sendmmsg": unix.SYS_SENDMMSG,
	"recvmmsg": unix.SYS_RECVMMSG, "sched_setaffinity": unix.SYS_SCHED_SETAFFINITY,
	"sched_getaffinity": unix.SYS_SCHED_GETAFFINITY, "mlock": unix.SYS_MLOCK,
	"madvise": unix.SYS_MADVISE, "mbind": unix.SYS_MBIND,
	"get_mempolicy": unix.SYS_GET_MEMPOLICY, "set_mempolicy": unix.SYS_SET_MEMPOLICY,
	"bpf": unix.SYS_BPF, "io_uring_setup": unix.SYS_IO_URING_SETUP,
	"membarrier": unix.SYS_MEMBARRIER, "getrandom": unix.SYS_GETRANDOM,
	"ppoll": unix.SYS_PPOLL, "setsockopt": unix.SYS_SETSOCKOPT, "socket": unix.SYS_SOCKET,
}

var errnos = map[string]syscall.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS,
	"EAFNOSUPPORT": unix.EAFNOSUPPORT, "ENOPROTOOPT": unix.ENOPROTOOPT}

// denyMain becomes another program, whose kernel refuses some calls. A call is a name, or with
// values of arguments: socket:0=10.
func denyMain(args []string) error {
	set := flag.NewFlagSet("deny", flag.ContinueOnError)
	errno := set.String("errno", "EPERM", "what they return")
	calls := set.String("calls", "", "names, with commas between them")
	if err := set.Parse(args); err != nil {
		return err
	}
	no, ok := errnos[*errno]
	if !ok || set.NArg() == 0 {
		return fmt.Errorf("deny: want an errno and a program, got %q and %q", *errno, set.Args())
	}
	filter, err := refusing(strings.Split(*calls, ","), no)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(set.Arg(0))
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, no = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if no != 0 {
		return fmt.Errorf("seccomp: %w", no)
	}
	return syscall.Exec(path, set.Args(), os.Environ())
}

// refusing is a classic BPF program over struct seccomp_data of linux/seccomp.h: the number of the
// call at 0, the low half of argument i at 16+8i.
func refusing(calls []string, no syscall.Errno) (prog []unix.SockFilter, err error) {
	load := func(at uint32) {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
	}
	for _, call := range calls {
		parts := strings.Split(call, ":")
		nr, ok := syscalls[parts[0]]
		if !ok {
			return nil, fmt.Errorf("deny: no call is named %q", parts[0])
		}
		left := uint8(2 * len(parts[1:])) // instructions between this test and the verdict
		load(0)
		prog = append(prog, equal(nr, left+1))
		for _, arg := range parts[1:] {
			i, value, _ := strings.Cut(arg, "=")
			index, err := strconv.Atoi(i)
			if err != nil {
				return nil, err
			}
			k, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			left -= 2
			load(uint32(16 + 8*index))
			prog = append(prog, equal(uint32(k), left+1))
		}
		prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K,
			K: unix.SECCOMP_RET_ERRNO | uint32(no)})
	}
	return append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K,
		K: unix.SECCOMP_RET_ALLOW}), nil
}

// equal goes on at the next instruction if the accumulator is k, else behind so many.
func equal(k uint32, others uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: others}
}

// junkMain sends random datagrams.
func junkMain(args []string) error {
	set := flag.NewFlagSet("junk", flag.ContinueOnError)
	addr := set.String("addr", "", "where to")
	n := set.Int("n", 30_000, "how many")
	if err := set.Parse(args); err != nil {
		return err
	}
	c, err := net.Dial("udp", *addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 1400)
	for i := range *n {
		b := b[:1+i%len(b)]
		if _, err := rand.Read(b); err != nil {
			return err
		}
		_, _ = c.Write(b) // the server's port may be closed
	}
	fmt.Println(`{"ready":true}`)
	return nil
}
