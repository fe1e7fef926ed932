package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// help has what tests look for, to learn what a server can do.
const help = `memcached 1.6.0-erpc-kv
-p, --port=<num>          TCP port to listen on
-s, --unix-socket=<file>  UNIX socket to listen on
-l, --listen=<addr>       interface to listen on
-m, --memory-limit=<num>  item memory in megabytes
-M, --disable-evictions   return error on memory exhausted instead of evicting
-c, --conn-limit=<num>    max simultaneous connections
-I, --max-item-size=<num> adjusts max item size
-Y, --auth-file=<file>    path to authentication file
-Z, --enable-ssl          enable TLS/SSL
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "memcached:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o := options{addr: "127.0.0.1", port: "11211", memory: "64"}
	if err := o.read(args); err != nil {
		return err
	}
	if o.help {
		fmt.Print(help)
		return nil
	}
	program := os.Getenv("ERPC_KV")
	return syscall.Exec(program, append([]string{program}, o.flags()...), os.Environ())
}

// options are what memcached's mean to erpc-kv.
type options struct {
	addr, port, socket, memory string
	rest                       []string
	help                       bool
}

var errOption = errors.New("this option is not supported")

// ignored are the options that change nothing that a client sees, each with whether it has a value:
// threads, requests in a row, the user, memory pages, sizes of slabs, UDP.
var ignored = map[byte]bool{'v': false, 'L': false, 'k': false, 'R': true, 'u': true, 'U': true,
	'f': true, 'n': true, 'b': true}

// read reads the command line of memcached.
func (o *options) read(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if len(arg) < 2 || arg[0] != '-' {
			return fmt.Errorf("%s: %w", arg, errOption)
		}
		if valued, ok := ignored[arg[1]]; ok && !valued {
			continue
		}
		switch arg[1] {
		case 'h':
			o.help = true
			continue
		case 'M':
			o.rest = append(o.rest, "--store")
			continue
		case 'Z':
			continue // its certificates are other options
		}
		value := arg[2:]
		if value == "" && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := o.valued(arg[1], value); err != nil {
			return fmt.Errorf("-%c %s: %w", arg[1], value, err)
		}
	}
	return nil
}

// valued reads an option with a value.
func (o *options) valued(name byte, value string) error {
	switch name {
	case 'p':
		o.port = value
	case 's':
		o.socket = value
	case 'l':
		o.addr = value
	case 'm':
		o.memory = value
	case 'c':
		o.rest = append(o.rest, "--max-conns="+value)
	case 't':
		if n, err := strconv.Atoi(value); err != nil || n < 1 {
			return errOption
		}
	case 'Y':
		o.rest = append(o.rest, "--auth-file="+value)
	case 'I':
		n, err := size(value)
		if err != nil {
			return err
		}
		o.rest = append(o.rest, fmt.Sprint("--max-item-size=", n))
	case 'B':
		if value != "ascii" && value != "auto" {
			return errOption
		}
	case 'o':
		for sub := range strings.SplitSeq(value, ",") {
			if err := o.extended(sub); err != nil {
				return err
			}
		}
	default:
		if !ignored[name] {
			return errOption
		}
	}
	return nil
}

// size reads a size in bytes, with k or m behind it or not.
func size(value string) (n int, err error) {
	digits := strings.TrimRight(value, "kKmM")
	n, err = strconv.Atoi(digits)
	switch value[len(digits):] {
	case "":
	case "k", "K":
		n <<= 10
	default:
		n <<= 20
	}
	return n, err
}

// extended reads an option of -o. Those for slabs, threads in the background and buffers change
// nothing here.
func (o *options) extended(option string) error {
	name, value, _ := strings.Cut(option, "=")
	switch name {
	case "idle_timeout":
		o.rest = append(o.rest, "--idle-timeout="+value+"s")
	case "ssl_chain_cert":
		o.rest = append(o.rest, "--tls-cert="+value)
	case "ssl_key":
		o.rest = append(o.rest, "--tls-key="+value)
	case "ssl_ca_cert":
		o.rest = append(o.rest, "--tls-ca="+value)
	case "relaxed_privileges", "modern", "no_modern", "lru_crawler", "no_lru_crawler",
		"lru_maintainer", "no_lru_maintainer", "slab_reassign", "slab_automove",
		"slab_automove_window", "slab_chunk_max", "hashpower", "read_buf_mem_limit":
	default:
		return errOption
	}
	return nil
}

// flags returns the command line of erpc-kv.
func (o *options) flags() []string {
	at := o.socket
	if at == "" {
		at = o.addr + ":" + o.port
	}
	return append([]string{"serve", "--addr=127.0.0.1:0", "--memcached=" + at, "--memory=" + o.memory},
		o.rest...)
}
