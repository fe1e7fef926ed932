package measure

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
)

// NetFlags choose and shape the network path; every subcommand that communicates has them.
type NetFlags struct {
	Transport   string  `default:"udp" help:"Transport: udp, the default; shm on one machine; auto, shm to this machine and udp elsewhere; afpacket and afxdp, udp past the kernel's IP stack, see --iface; ud, InfiniBand and RoCE." placeholder:"NAME"`
	Iface       string  `help:"Network interface, for transports below IP, that is afpacket and afxdp; without it that with the address. With ud the RDMA device, as mlx5_0 or mlx5_0/1." placeholder:"NAME"`
	GID         string  `name:"gid" help:"With ud: the own GID, by its index or as text; without it that with the address." placeholder:"GID"`
	XDPMode     string  `name:"xdp-mode" default:"auto" help:"Where the XDP program of afxdp runs: native, in the link's driver; generic, on any link, slower; auto, native where the driver can." placeholder:"MODE"`
	MTU         int     `name:"mtu" help:"Largest packet in bytes, headers of IP and UDP not included; 0: what the route carries, at most 8952, and 3776 with afxdp." placeholder:"BYTES"`
	Credits     int     `help:"Packets in flight per session; 0: 32 at first, up to 128 with packets below 8 KiB, then as many as the path fills." placeholder:"N"`
	Slots       int     `help:"Requests in flight per session, a power of two; 0: 8." placeholder:"N"`
	CC          string  `name:"cc" default:"timely" help:"Congestion control: timely, the default; dcqcn, if the switches set ECN marks; swift; cubic, which shares links with TCP; none. The same for client and server." placeholder:"NAME"`
	LinkRate    float64 `name:"link-rate" help:"Rate of the network link in bits per second, as 25e9; 0: what the transport says, else 100e9." placeholder:"RATE"`
	Pin         string  `default:"auto" help:"Cores for the client's threads, then the server's, as 0,1; auto; none; default ${default}." placeholder:"CORES"`
	Wait        string  `help:"What an idle loop does: adaptive, spin, sleep; default spin in bench, else adaptive." placeholder:"HOW"`
	OwnCore     bool    `hidden:"" help:"An adaptive loop does not yield to other goroutines while it spins."`
	NoGSO       bool    `name:"no-gso" hidden:"" help:"Every packet a datagram of its own."`
	Portable    bool    `hidden:"" help:"UDP through package net, as on systems other than Linux."`
	NoHugepages bool    `hidden:"" help:"No hugepages for message buffers."`
	GC          int     `name:"gc" default:"400" help:"The garbage collector's GOGC while running; default ${default}." placeholder:"PERCENT"`
	JSON        bool    `name:"json" help:"Print one JSON object."`
	Profile     string  `name:"cpuprofile" hidden:"" help:"Write a CPU profile; the server's gets .server added." placeholder:"FILE"`
	captureFlags
	secure.Flags
	switches
	slowHeartbeat bool // many idle sessions shall not disturb what is measured
	oneClient     bool // a server for one client, which may have all that the server has

	pair      *vethPair // the link that this process made for itself and its server, or nil
	notes     io.Writer // where to say what costs speed; nil: nowhere
	endpoints int       // most that this process opens at the same time; 0 stands for 1
}

// note says what the user should know, once.
func (f *NetFlags) note(format string, args ...any) {
	if f.notes != nil {
		fmt.Fprintf(f.notes, f.Transport+": "+format+"\n", args...)
		f.notes = nil
	}
}

// switches turn off optimisations of the common case, to measure what they bring, or turn on what
// watches a loop, to measure what that takes.
type switches struct {
	NoBundles      bool `hidden:"" help:"Each packet is a datagram."`
	NoBatchedTime  bool `hidden:"" help:"Clients read the clock for each packet."`
	NoRateBypass   bool `hidden:"" help:"Clients compute a rate after each answer."`
	NoPacingBypass bool `hidden:"" help:"Clients send every packet through the rate limiter."`
	NoPrealloc     bool `hidden:"" help:"Servers allocate each response."`
	NoZeroCopy     bool `hidden:"" help:"Servers copy each request."`
	Scraped        bool `hidden:"" help:"Metrics are taken ten times a second."`
	Recorded       bool `hidden:"" help:"The last datagrams are recorded."`
}

// list returns the switches that are set, as the names of their flags.
func (s *switches) list() (names []string) {
	for _, f := range []struct {
		on   bool
		name string
	}{
		{s.NoBatchedTime, "no-batched-time"}, {s.NoRateBypass, "no-rate-bypass"},
		{s.NoPacingBypass, "no-pacing-bypass"},
		{s.NoPrealloc, "no-prealloc"}, {s.NoZeroCopy, "no-zero-copy"}, {s.NoBundles, "no-bundles"},
		{s.Scraped, "scraped"}, {s.Recorded, "recorded"},
	} {
		if f.on {
			names = append(names, f.name)
		}
	}
	return names
}

// Off returns the names of the flags of the optimisations that are switched off.
func (f *NetFlags) Off() []string { return f.switches.list() }

// FaultFlags are faults injected at the client, both ways.
type FaultFlags struct {
	Loss    float64 `help:"Probability that a packet is lost, 0 to 1." placeholder:"P"`
	Dup     float64 `help:"... repeated." placeholder:"P"`
	Reorder float64 `help:"... overtaken by later ones." placeholder:"P"`
	Corrupt float64 `help:"... damaged." placeholder:"P"`
	Seed    uint64  `default:"1" help:"Seed of the injected faults; default ${default}." placeholder:"N"`
}

func (f *FaultFlags) any() bool { return f.Loss+f.Dup+f.Reorder+f.Corrupt != 0 }

// Check reports the first wrong flag as a cli.UsageError.
func (f *NetFlags) Check() error {
	if f.medium() == nil {
		return cli.Usagef("transport %q is unknown; there are udp, shm, auto, afpacket, afxdp and ud",
			f.Transport)
	}
	if _, ok := algorithms[f.CC]; !ok {
		return cli.Usagef("--cc %s: want timely, dcqcn, swift, cubic or none", f.CC)
	}
	// not a number is not equal to itself
	if f.LinkRate != math.Trunc(f.LinkRate) || math.Abs(f.LinkRate) > 1e18 {
		return cli.Usagef("--link-rate %v: want bits per second, as 25e9", f.LinkRate)
	}
	if err := f.checkXDPMode(); err != nil {
		return err
	}
	if f.GID != "" && f.Transport != "ud" {
		return cli.Usagef("--gid %s: needs --transport ud, not %s", f.GID, f.Transport)
	}
	if err := f.medium().check(f); err != nil {
		return err
	}
	if _, ok := waits[f.Wait]; !ok {
		return cli.Usagef("--wait %s: want adaptive, spin or sleep", f.Wait)
	}
	if _, err := f.cores(1); err != nil {
		return err
	}
	if err := f.Load(); err != nil {
		return err
	}
	nexus, err := erpc.NewNexus(f.Config())
	if err != nil {
		return cli.UsageError(cli.OneLine(err))
	}
	return nexus.Close()
}

var waits = map[string]erpc.Wait{"": erpc.WaitAdaptive, "adaptive": erpc.WaitAdaptive,
	"spin": erpc.WaitSpin, "sleep": erpc.WaitSleep}

// algorithms are those that flags name.
var algorithms = map[string]erpc.CCAlgorithm{}

func init() {
	for a := erpc.CCTimely; a <= erpc.CCCubic; a++ {
		if a != erpc.CCCustom {
			algorithms[a.String()] = a
		}
	}
}

// ecn reports whether the transport is to show ECN marks.
func (f *NetFlags) ecn() bool { return f.CC == "dcqcn" }

// Config is the library's configuration for these flags.
func (f *NetFlags) Config() erpc.Config {
	var timing erpc.Timing
	if f.slowHeartbeat {
		timing.Heartbeat, timing.FailureTimeout = 30*time.Second, 90*time.Second
	}
	cfg := erpc.Config{
		Timing: timing, Credits: f.Credits, Slots: f.Slots, MTU: f.MTU, Wait: waits[f.Wait],
		NoHugepages: f.NoHugepages, NoBundles: f.NoBundles, MaxMessage: maxMessage,
		Congestion: erpc.Congestion{Algorithm: algorithms[f.CC], LinkRate: int64(f.LinkRate)},
		Experiment: erpc.Experiment{
			NoPrealloc: f.NoPrealloc, NoZeroCopy: f.NoZeroCopy, NoBatchedTime: f.NoBatchedTime,
			NoRateBypass: f.NoRateBypass, NoPacingBypass: f.NoPacingBypass,
		},
	}
	cfg.Shares.Off = f.oneClient
	f.Apply(&cfg)
	return cfg
}

// maxMessage is the largest request or response of the commands.
const maxMessage = 64 << 20

// tune applies the flags that concern the whole process, which is to run so many event loops.
// Goroutines on fewer processors (GOMAXPROCS) than loops would hand them round, which takes far
// longer than the system takes to switch threads. A user's GOMAXPROCS stays.
func (f *NetFlags) tune(loops int) {
	debug.SetGCPercent(f.GC)
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) <= loops {
		runtime.GOMAXPROCS(loops + 1)
	}
}

// Spoil wraps tr in the injected faults, if any.
func (f *FaultFlags) Spoil(tr transport.Transport, seed uint64) (transport.Transport, error) {
	if !f.any() {
		return tr, nil
	}
	faults := faulty.Faults{Loss: f.Loss, Dup: f.Dup, Reorder: f.Reorder, Corrupt: f.Corrupt}
	bad, err := faulty.New(tr, faulty.Config{Seed: f.Seed + seed, TX: faults, RX: faults})
	if err != nil {
		return nil, errors.Join(cli.UsageError(cli.OneLine(err)), tr.Close())
	}
	return bad, nil
}

func (f *FaultFlags) check() error {
	c := faulty.Config{TX: faulty.Faults{Loss: f.Loss, Dup: f.Dup, Reorder: f.Reorder,
		Corrupt: f.Corrupt}}
	if err := c.Validate(); err != nil {
		return cli.UsageError(cli.OneLine(err))
	}
	return nil
}

// cores returns the core of each of n threads, -1 for no pinning.
func (f *NetFlags) cores(n int) ([]int, error) {
	list := make([]int, n)
	for i := range list {
		list[i] = -1
	}
	var from []int
	switch f.Pin {
	case "none", "":
		return list, nil
	case "auto":
		if from = allowedCores(); len(from) < 2 {
			return list, nil
		}
	default:
		for part := range strings.SplitSeq(f.Pin, ",") {
			c, err := strconv.Atoi(part)
			if err != nil || c < 0 {
				return nil, cli.Usagef("--pin %s: want core numbers as 0,1, or auto or none", f.Pin)
			}
			from = append(from, c)
		}
	}
	for i := range list {
		list[i] = from[i%len(from)]
	}
	return list, nil
}

// coreDistance measures how far the first client thread is from its server, ns; 0 if
// they are not pinned.
func (f *NetFlags) coreDistance(threads int) float64 {
	cores, err := f.cores(2 * threads)
	if err != nil {
		return 0
	}
	return coreRoundTrip(cores[0], cores[threads])
}
