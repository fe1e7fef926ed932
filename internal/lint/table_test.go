package lint

// trait is a right or a duty that a package has beside its imports.
type trait uint8

const (
	mayUnsafe trait = 1 << iota // may import unsafe
	mayCgo                      // may use cgo; such a package is imported by name only
	mayClock                    // may read the clock
	pure                        // no I/O, no timers: time comes in as an argument
	suite                       // a test suite that other packages run: counts as test code
)

// row says what one package, or with "/..." a whole folder, may import. Test files
// may import every package of the project.
type row struct {
	path   string   // folder below the repository's root
	may    []string // packages of the project; "/..." as in path, "..." for all
	third  []string // import path prefixes of other projects
	traits trait
}

// anything in the project, for programs.
var anything = []string{"..."}

// xsys is the one third-party dependency of the library.
var xsys = []string{"golang.org/x/sys"}

// gopacket reads and writes captures; the core never imports it.
var gopacket = []string{"github.com/gopacket/gopacket"}

// grpcThird are the modules of gRPC's API.
var grpcThird = []string{"google.golang.org"}

// testThird are the modules that every test may import besides.
var testThird = []string{"go.uber.org/goleak", "pgregory.net/rapid", "github.com/gopacket/gopacket",
	"github.com/anishathalye/porcupine", "github.com/HdrHistogram/hdrhistogram-go",
	"google.golang.org/grpc", "go.opentelemetry.io"}

// transportImpl are the packages that a transport may import.
var transportImpl = []string{"transport", "internal/..."}

// table holds one row for each package, in the order of ARCHITECTURE.md. Packages
// that do not exist yet may have a row.
var table = []row{
	{path: "wire", traits: pure},
	{path: "msgbuf", may: []string{"wire", "internal/hugemem", "internal/invariants", "internal/sys"},
		traits: pure},
	{path: "packet", traits: pure},
	{path: "security", may: []string{"wire"}, third: []string{"golang.org/x/sys"}, traits: pure},
	{path: "security/chacha", may: []string{"security"}, third: []string{"golang.org/x/crypto"}},
	{path: "security/sectest", may: []string{"security", "wire"}, traits: suite},
	{path: "session", may: []string{"wire", "msgbuf", "packet", "cc", "cc/cubic", "internal/..."},
		traits: pure},
	{path: "cc", may: []string{"internal/monotime"}, traits: pure},
	{path: "cc/cubic", may: []string{"internal/monotime"}, traits: pure},
	{path: "cc/timely", may: []string{"internal/monotime"}, traits: pure},
	{path: "cc/dcqcn", may: []string{"internal/monotime"}, traits: pure},
	{path: "cc/swift", may: []string{"internal/monotime"}, traits: pure},
	{path: "cc/cctest", may: []string{"cc"}, traits: suite},
	{path: "ratelimit/carousel", may: []string{"internal/monotime"}, traits: pure},

	{path: "transport", may: []string{"msgbuf", "packet"}},
	{path: "transport/conformance", may: transportImpl, traits: suite | mayClock},
	{path: "transport/conformance/decorated", may: []string{"transport/..."}, traits: suite},
	{path: "transport/udp", may: transportImpl, third: xsys, traits: mayUnsafe},
	{path: "transport/shm", may: transportImpl, third: xsys},
	{path: "transport/auto",
		may: []string{"transport", "transport/udp", "transport/shm", "internal/..."}, third: xsys},
	// The codec reaches its frame devices through an interface that it owns.
	{path: "transport/rawudp", may: transportImpl, third: xsys},
	{path: "transport/rawudp/link", may: []string{"transport", "transport/rawudp", "internal/..."},
		third: []string{"golang.org/x/sys", "github.com/vishvananda/netlink"}},
	{path: "transport/rawudp/afpacket",
		may:   []string{"transport", "transport/rawudp", "transport/rawudp/link", "internal/..."},
		third: []string{"golang.org/x/sys", "github.com/cilium/ebpf"}, traits: mayUnsafe},
	{path: "transport/rawudp/afxdp",
		may:   []string{"transport", "transport/rawudp", "transport/rawudp/link", "internal/..."},
		third: []string{"golang.org/x/sys", "github.com/cilium/ebpf"}, traits: mayUnsafe},
	{path: "transport/rawudp/vethtest",
		third: []string{"golang.org/x/sys", "github.com/vishvananda/netlink",
			"github.com/vishvananda/netns"}, traits: suite},
	{path: "transport/rawudp/rawtest", may: []string{"transport", "transport/rawudp",
		"transport/rawudp/vethtest", "transport/faulty", "transport/udp", "erpc"},
		third: xsys, traits: suite | mayClock},
	{path: "transport/ud", may: []string{"transport", "internal/...", "internal/verbs"}, third: xsys},
	{path: "transport/sim", may: transportImpl},
	{path: "transport/sim/bulk", may: []string{"cc/cubic", "transport", "transport/sim"}},
	{path: "transport/faulty", may: transportImpl},
	{path: "transport/lending", may: transportImpl},
	// stamps with wall time
	{path: "transport/pcap", may: []string{"transport", "flight", "internal/...", "kit/filelock",
		"kit/outfile"},
		third: gopacket, traits: mayClock},
	{path: "transport/pcap/layer", may: []string{"wire"}, third: gopacket},

	{path: "internal/monotime", third: xsys, traits: mayUnsafe | mayClock},
	{path: "internal/gid"},
	{path: "internal/memsize"},
	{path: "internal/accept", traits: mayClock},
	{path: "internal/cpuquota", may: []string{"internal/monotime"}},
	{path: "internal/idle", may: []string{"internal/monotime"}, traits: pure},
	{path: "internal/cmac", traits: pure},
	{path: "internal/chart", may: []string{"kit/outfile"}, third: []string{"gonum.org/v1/plot"}},
	// the papers' experiments on simulated networks, cores and adapters
	{path: "internal/paperlab", may: []string{"erpc", "internal/chart", "kit/cli",
		"internal/monotime", "internal/paperlab/..."}, third: []string{"github.com/alecthomas/kong"}},
	{path: "internal/paperlab/...", may: []string{"cc", "cc/dcqcn", "cc/swift", "cc/timely", "erpc",
		"erpc/simhost", "index/...", "internal/idle", "kv/mica", "rfp/...", "session", "transport",
		"transport/sim", "wire"}, third: xsys},
	{path: "internal/ring", may: []string{"internal/invariants", "internal/sys"}, third: xsys,
		traits: mayUnsafe},
	{path: "internal/shmem", may: []string{"internal/sys"}, third: xsys, traits: mayUnsafe},
	{path: "internal/poll", may: []string{"transport"}, third: xsys}, // for Wait
	{path: "internal/ownfile"},
	{path: "internal/racesync", traits: mayUnsafe},
	{path: "internal/recverr", may: []string{"transport"}, third: xsys},
	{path: "internal/hugemem", may: []string{"internal/invariants", "internal/sys"}, third: xsys,
		traits: mayUnsafe},
	{path: "internal/sys", may: []string{"internal/invariants"}, third: xsys, traits: mayUnsafe},
	{path: "internal/invariants"},
	{path: "internal/verbs", may: []string{"internal/sys"}, third: xsys, traits: mayUnsafe | mayCgo},
	{path: "internal/lint"},
	{path: "internal/packaging", traits: mayClock}, // tests of what is released
	{path: "internal/pages", traits: mayClock},     // tests of the documents
	{path: "scripts/budget"},
	{path: "scripts/callpath"},
	{path: "scripts/callpath/steady", may: []string{"erpc", "transport/udp"}},
	{path: "scripts/grpc-suite"},
	{path: "scripts/grpc-suite/endpoint", may: []string{
		"transport", "transport/auto", "transport/faulty", "transport/udp"}},
	{path: "scripts/guards"}, // drives go test
	{path: "scripts/memcached-suite", may: []string{"internal/monotime"}},
	{path: "scripts/memcached-suite/memcached"},
	{path: "scripts/modproxy", third: []string{"golang.org/x/mod"}},
	{path: "scripts/mutants"}, // drives go-gremlins, a command
	{path: "scripts/thirdparty"},

	// The endpoint knows the transport interface and picks the default congestion
	// control, but no implementation of a transport.
	{path: "erpc", may: []string{"erpc/internal/engine", "security", "session", "cc", "cc/timely",
		"cc/dcqcn", "cc/swift", "transport", "msgbuf", "wire", "flight", "internal/..."}},
	{path: "erpc/internal/engine", may: []string{"security", "session", "ratelimit/carousel",
		"transport", "msgbuf", "wire", "internal/invariants", "internal/monotime",
		"internal/sys"}},
	{path: "erpc/simhost", may: []string{"erpc", "transport", "transport/sim"}},
	{path: "flight", may: []string{"packet", "wire", "internal/sys"}},
	{path: "erpc/simtest", traits: suite},
	{path: "erpc/udptest", third: xsys, traits: suite},
	{path: "erpc/hostiletest", third: xsys, traits: suite},

	{path: "debug", may: []string{"erpc", "flight", "internal/ownfile"}, third: xsys,
		traits: mayClock},
	{path: "metrics", may: []string{"erpc"}, traits: pure},
	{path: "metrics/prometheus", may: []string{"erpc", "metrics", "transport/udp"},
		third: []string{"github.com/prometheus"}},
	{path: "metrics/otel", may: []string{"erpc", "metrics"},
		third: []string{"go.opentelemetry.io"}, traits: mayClock},

	{path: "gopt", may: []string{"internal/sys"}, traits: mayUnsafe},
	{path: "gopt/...", may: []string{"gopt"}, traits: pure},
	{path: "gopt/translate", traits: pure},
	{path: "gopt/turns", third: xsys, traits: suite | mayClock},
	// of two kinds of nodes
	{path: "index", may: []string{"gopt", "internal/hugemem", "internal/invariants",
		"internal/sys"},
		traits: pure | mayUnsafe},
	{path: "index/message", may: []string{"index"}, traits: pure},
	{path: "index/snapshot", may: []string{"index"}},
	{path: "index/durable", may: []string{"index", "kit/filelock", "kit/outfile"}, traits: mayClock},
	{path: "index/server", may: []string{"index", "index/durable", "index/message", "erpc"}},
	{path: "index/client", may: []string{"index", "index/message", "erpc"}},
	{path: "kv/mica", may: []string{"gopt", "internal/hugemem"}, traits: pure | mayUnsafe},
	{path: "kv/message", may: []string{"kv/mica"}, traits: pure},
	{path: "kv/server", may: []string{"kv/mica", "kv/message", "erpc", "transport"}, traits: mayClock},
	{path: "kv/client", may: []string{"kv/mica", "kv/message", "erpc"}, traits: mayClock},
	{path: "kv/memcached", may: []string{"kv/mica", "internal/accept"}, traits: mayClock},
	{path: "kv/herd", may: []string{"kv/mica", "kv/message", "rfp/onesided", "internal/monotime"},
		traits: pure},
	// The one application that may import internal/verbs.
	{path: "kv/herd/rdma", may: []string{"kv/herd", "kv/mica", "kv/message", "internal/...",
		"internal/verbs"}, traits: mayClock},

	{path: "rfp", may: []string{"rfp/onesided", "internal/monotime"}, traits: pure},
	{path: "rfp/jakiro", may: []string{"rfp", "kv/mica"}, traits: pure},
	{path: "rfp/jakiro/bypass", may: []string{"rfp", "rfp/jakiro", "rfp/onesided", "kv/mica"},
		traits: pure},
	{path: "rfp/simtest", traits: suite},
	{path: "rfp/onesided", traits: pure | mayUnsafe},
	{path: "rfp/onesided/conformance", may: []string{"rfp/onesided"}, traits: suite},
	{path: "rfp/onesided/model", may: []string{"rfp/onesided", "internal/monotime"}, traits: pure},
	{path: "rfp/onesided/shm", may: []string{"rfp/onesided", "internal/shmem"}, third: xsys,
		traits: mayClock},
	{path: "rfp/onesided/rc", may: []string{"rfp/onesided", "internal/hugemem", "internal/verbs"},
		third: xsys, traits: mayClock},
	{path: "rfp/adaptive", may: []string{"rfp", "erpc", "internal/monotime"}},
	{path: "ycsb", traits: pure},

	// What commands and the other modules of this repository share.
	{path: "kit"},
	{path: "kit/filelock", may: []string{"internal/ownfile", "kit/outfile"}, third: xsys},
	{path: "kit/outfile", may: []string{"internal/ownfile"}, third: xsys},
	{path: "kit/leastheap", may: []string{"internal/memsize"}},
	{path: "kit/cli", may: []string{"kit/outfile"},
		third: []string{"github.com/alecthomas/kong", "golang.org/x/sys"}},
	{path: "kit/cli/clitest", may: []string{"kit/cli"}, traits: suite},
	{path: "kit/cli/secure", may: []string{"erpc", "internal/ownfile", "kit/cli", "kit/outfile",
		"security", "security/chacha"}},
	{path: "kit/cli/secure/securetest", may: []string{"kit/cli", "security/sectest"},
		traits: suite},
	{path: "kit/loadgen", may: []string{"erpc", "transport", "transport/udp", "transport/shm",
		"transport/auto", "internal/monotime"}, traits: mayClock}, // of commands and benchmarks
	{path: "kit/monotime", may: []string{"internal/monotime"}, traits: mayClock},

	{path: "cmd/erpc/watch", may: []string{"debug", "erpc", "kit/cli"}},
	{path: "cmd/erpc/watch/browsertest", may: []string{"cmd/erpc/watch"},
		third: []string{"github.com/chromedp"}, traits: suite},
	{path: "cmd/erpc/measure", may: anything, third: []string{"golang.org/x/sys",
		"github.com/alecthomas/kong", "github.com/HdrHistogram/hdrhistogram-go",
		"github.com/vishvananda/netlink", "github.com/vishvananda/netns"}, traits: mayClock},
	{path: "cmd/...", may: anything, third: []string{"golang.org/x/sys", "github.com/alecthomas/kong",
		"github.com/HdrHistogram/hdrhistogram-go", "github.com/gopacket/gopacket", "gonum.org/v1/plot",
		"github.com/vishvananda/netlink", "github.com/vishvananda/netns", "github.com/cilium/ebpf",
		"github.com/klauspost/cpuid/v2", "golang.org/x/term"}, traits: mayClock},
	{path: "contrib/wireshark", third: gopacket}, // a test of the dissector
	// What measures. It imports what users may, and by name what the commands of the product share.
	{path: "labs/benchrows", third: xsys, traits: mayClock},
	{path: "labs/cmd/erpc-bench", may: []string{"cmd/erpc/measure", "erpc", "kit/cli",
		"kit/monotime", "transport/udp"}, third: []string{"github.com/alecthomas/kong"},
		traits: mayClock},
	{path: "labs/cmd/erpc-hostile", may: []string{"erpc", "kit/cli/secure", "msgbuf", "security",
		"session", "transport", "transport/udp", "wire"}, third: xsys, traits: mayClock},
	{path: "labs/cmd/erpc-rfp", may: []string{"erpc", "kit/cli", "kit/monotime",
		"internal/sys", "internal/verbs", "kv/...", "kv/herd/rdma", "labs/benchrows", "rfp/...",
		"rfp/onesided/rc", "transport", "transport/shm", "transport/ud"},
		third: []string{"github.com/alecthomas/kong"}, traits: mayClock},
	{path: "labs/cmd/raft-bench", may: []string{"erpc", "kit/cli", "kit/cli/secure",
		"kit/leastheap", "labs/raft/lab", "labs/raft/simlab", "transport", "transport/auto",
		"transport/shm", "transport/udp"}, third: []string{"github.com/alecthomas/kong"},
		traits: mayClock},
	{path: "labs/cmd/wakeups", third: xsys, traits: mayClock},
	{path: "labs/failures", may: []string{"cmd/erpc/watch", "debug", "erpc", "grpcerpc",
		"kit/outfile", "labs/peers/...", "metrics", "transport", "transport/auto",
		"transport/rawudp/afpacket",
		"transport/shm", "transport/udp"},
		third: []string{"golang.org/x/net", "google.golang.org"}, traits: mayClock},
	{path: "labs/index", may: []string{"index/...", "gopt/...", "erpc", "transport", "transport/udp",
		"transport/shm", "kit/loadgen", "labs/benchrows"}, third: []string{
		"github.com/tidwall/btree", "github.com/gaissmai/bart",
		"github.com/cloudflare/ahocorasick", "golang.org/x/sys"}, traits: mayClock},
	{path: "labs/kv", may: []string{"kv/...", "erpc", "transport", "transport/udp", "transport/shm",
		"kit/loadgen", "labs/benchrows", "ycsb"}, third: []string{
		"github.com/dgraph-io/ristretto/v2", "github.com/maypok86/otter/v2",
		"github.com/VictoriaMetrics/fastcache",
		"github.com/coocood/freecache", "github.com/bradfitz/gomemcache", "golang.org/x/sys"},
		traits: mayClock},
	{path: "labs/paths", may: []string{"erpc", "kit/cli", "transport", "transport/auto",
		"transport/shm", "transport/udp"}, third: xsys, traits: mayClock | mayUnsafe},
	{path: "labs/raft", may: []string{"erpc", "transport", "transport/udp", "transport/shm",
		"raft-example/...", "kit/leastheap", "kit/loadgen", "kit/monotime",
		"labs/raft/lab"},
		third: []string{"go.etcd.io/raft/v3", "go.etcd.io/etcd", "google.golang.org/grpc",
			"google.golang.org/protobuf",
			"github.com/prometheus", "github.com/HdrHistogram/hdrhistogram-go",
			"github.com/hashicorp"}, traits: mayClock},
	{path: "labs/raft/lab", may: []string{"erpc", "kit/loadgen", "kit/monotime",
		"raft-example/...", "transport", "transport/udp"},
		third: []string{"go.etcd.io/raft/v3", "google.golang.org/protobuf"}, traits: mayClock},
	{path: "labs/raft/simlab", may: []string{"erpc", "erpc/simhost", "raft-example/...",
		"transport/sim"}},
	{path: "labs/ycsb/...", may: []string{"labs/ycsb/...", "ycsb", "index", "kv/mica", "grpcerpc",
		"erpc", "kit/outfile", "transport", "transport/udp", "transport/auto"},
		third: []string{"google.golang.org/grpc",
			"google.golang.org/protobuf", "connectrpc.com/connect", "storj.io/drpc", "golang.org/x/sys",
			"github.com/HdrHistogram/hdrhistogram-go", "github.com/cockroachdb/pebble/v2",
			"gonum.org/v1/plot"}, traits: mayClock | mayUnsafe},
	{path: "labs/peers/...", may: []string{"labs/peers/...", "erpc", "grpcerpc", "transport",
		"transport/auto", "transport/udp", "transport/shm", "kit/cli", "kit/outfile"},
		third: []string{"golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf",
			"connectrpc.com/connect", "storj.io/drpc", "github.com/HdrHistogram/hdrhistogram-go",
			"github.com/quic-go/quic-go", "github.com/cilium/ebpf", "gonum.org/v1/plot"},
		traits: mayClock | mayUnsafe},
	{path: "grpcerpc", may: []string{"grpcerpc/internal/frame", "erpc", "transport", "transport/auto",
		"transport/shm"}, third: grpcThird, traits: mayClock},
	{path: "grpcerpc/internal/frame", traits: pure},
	{path: "grpcerpc/ecosystem", may: anything, third: []string{"google.golang.org", "go.etcd.io",
		"go.opentelemetry.io", "github.com"}, traits: mayClock}, // tests alone
	{path: "grpcerpc/...", may: anything, third: grpcThird, traits: mayClock | mayUnsafe},
	{path: "cluster", may: []string{"erpc"}},
	{path: "cluster/dns", may: []string{"cluster", "erpc"}},
	{path: "cluster/etcd", may: []string{"cluster", "erpc"},
		third:  []string{"go.etcd.io/etcd", "golang.org/x/sys", "google.golang.org/grpc"},
		traits: mayClock},
	{path: "cluster/grpccluster", may: []string{"cluster"}, third: []string{"google.golang.org/grpc"}},
	{path: "cluster/kube", may: []string{"cluster", "erpc"}, third: []string{"k8s.io", "sigs.k8s.io"}},
	{path: "cluster/demo/clustertest", may: anything, third: []string{"go.etcd.io/etcd",
		"go.uber.org/zap", "google.golang.org"}, traits: suite | mayClock},
	{path: "cluster/demo/deploytest", third: []string{"github.com/compose-spec"}, traits: suite},
	{path: "cluster/demo/erpc-cluster", may: []string{"cluster", "cluster/etcd", "erpc", "kit/cli",
		"transport/udp"}, third: []string{"github.com/HdrHistogram/hdrhistogram-go",
		"github.com/alecthomas/kong", "go.etcd.io/etcd", "go.uber.org/zap"}, traits: mayClock},
	{path: "examples/...", may: anything, traits: mayClock},
	{path: "raft-example/kv", may: []string{"gopt"}, traits: pure},
	{path: "raft-example/wal", may: []string{"kit/filelock", "kit/outfile"},
		third: []string{"go.etcd.io/raft/v3", "google.golang.org/protobuf"}},
	{path: "raft-example/replica", may: []string{"raft-example/kv", "kit/monotime"},
		third: []string{"go.etcd.io/raft/v3", "google.golang.org/protobuf"}, traits: pure},
	{path: "raft-example/history", may: []string{"raft-example/kv", "kit/monotime"},
		third: []string{"github.com/anishathalye/porcupine"}},
	{path: "raft-example/hraft", may: []string{"erpc", "transport", "transport/udp"},
		third: []string{"github.com/hashicorp"}, traits: mayClock},
	{path: "raft-example/...", may: anything,
		third: []string{"go.etcd.io/raft/v3", "google.golang.org/protobuf", "golang.org/x/sys",
			"github.com/alecthomas/kong"}, traits: mayClock},
}

// Limits on length, in lines.
const (
	maxFileLines = 1200
	maxFuncLines = 70
)
