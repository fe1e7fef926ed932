package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// TestMain lets the test binary be the program, for children.
func TestMain(m *testing.M) { clitest.Main(m, main, &childEnv) }

// try runs a command line.
func try(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	return clitest.Command(run).Try(t, args...)
}

// serve runs a server in this process until the test ends, and returns its addresses.
func serve(t *testing.T, args ...string) []string {
	t.Helper()
	return serveAll(t, args...).Addrs
}

// serveAll is serve for all addresses.
func serveAll(t *testing.T, args ...string) ready {
	t.Helper()
	var said ready
	clitest.Command(run).Serve(t, &said, "serving, empty",
		append([]string{"serve", "--json", "--addr=127.0.0.1:0", "--no-hugepages"}, args...)...)
	return said
}

// TestMemcached: memcached's clients find what others have put, and the reverse.
func TestMemcached(t *testing.T) {
	s := serveAll(t, "--partitions=2", "--memory=4", "--memcached=127.0.0.1:0")
	at := "--servers=" + s.Addrs[0]
	if status, _, errOut := try(t, "put", "apple", "red", at); status != cli.Done {
		t.Fatal(errOut)
	}
	c, err := net.Dial("tcp", s.Memcached)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "get apple\r\nset pear 0 0 5\r\ngreen\r\nquit\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "VALUE apple 0 3\r\nred\r\nEND\r\nSTORED\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if status, out, errOut := try(t, "get", "pear", at); status != cli.Done || out != "green\n" {
		t.Errorf("%d, %q, %s", status, out, errOut)
	}
}

// TestDemo: the demonstration checks every answer itself.
func TestDemo(t *testing.T) {
	status, out, errOut := try(t, "demo", "--keys=3000", "--each=20ms", "--memory=2", "--json")
	var r demoResult
	if err := json.Unmarshal([]byte(out), &r); status != cli.Done || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errOut)
	}
	if len(r.Rows) != len(rows) {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.GETs == 0 || row.Wrong != 0 || row.Missing != 0 || row.Get.P50 == 0 {
			t.Errorf("%+v", row)
		}
	}
	status, out, errOut = try(t, "demo", "--keys=1000", "--each=10ms", "--memory=2")
	if status != cli.Done || !strings.Contains(out, rows[1].what) || !strings.Contains(out, "26 M/s") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// TestOperations: two servers of several partitions, by hand.
func TestOperations(t *testing.T) {
	one, two := serve(t, "--partitions=2", "--memory=2"), serve(t, "--store", "--one-by-one")
	at := fmt.Sprintf("--servers=%s,%s", one[1], two[0])
	steps := []struct {
		args   string
		status int
		out    string
	}{
		{"put apple red", cli.Done, "stored\n"},
		{"put pear green", cli.Done, "stored\n"},
		{"put pear yellow --absent", cli.Failed, ""},
		{"get pear", cli.Done, "green\n"},
		{"put pear yellow --life=1000", cli.Done, "stored\n"},
		{"get pear", cli.Done, "yellow\n"},
		{"get plum", cli.Failed, ""},
		{"delete apple", cli.Done, "deleted\n"},
		{"delete apple", cli.Failed, ""},
		{"get " + strings.Repeat("k", 256), cli.Failed, ""},
	}
	for _, s := range steps {
		status, out, errOut := try(t, append(strings.Fields(s.args), at)...)
		if status != s.status || out != s.out {
			t.Errorf("%s: status %d, %q, want %d, %q; %s", s.args, status, out, s.status, s.out, errOut)
		}
	}
	status, out, errOut := try(t, "stats", at)
	if status != cli.Done || strings.Count(out, "\n") != 4 {
		t.Errorf("stats: %d, %s%s", status, out, errOut)
	}
}

// TestLoadBench: an open and a closed loop over what was loaded; keys that were not are counted,
// and other values are noticed.
func TestLoadBench(t *testing.T) {
	at := "--servers=" + strings.Join(serve(t, "--partitions=2", "--memory=4")[:1], ",")
	if status, _, errOut := try(t, "load", "--keys=2000", at); status != cli.Done ||
		!strings.Contains(errOut, "of 2000 keys stored") {
		t.Fatalf("load: %d, %s", status, errOut)
	}
	for _, args := range []string{"--gets=0.5", "--rate=20000 --zipf=0.9", "--keys=4000"} {
		args := append([]string{"bench", at, "--keys=2000", "--each=50ms", "--json"},
			strings.Fields(args)...)
		status, out, errOut := try(t, args...)
		var r benchResult
		err := json.Unmarshal([]byte(out), &r)
		if status != cli.Done || err != nil || r.GETs == 0 || r.PUTs == 0 ||
			(r.Missing > 0) != (args[len(args)-1] == "--keys=4000") {
			t.Errorf("%v: status %d, %+v, %v: %s", args, status, r, err, errOut)
		}
	}
	status, _, errOut := try(t, "bench", at, "--keys=2000", "--each=50ms", "--value=31", "--gets=1")
	if status != cli.Failed || !strings.Contains(errOut, "were wrong") {
		t.Errorf("another value: status %d, %s", status, errOut)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{
		"serve --partitions=0", "serve --memory=0", "serve --transport=x", "serve --pin=1,2",
		"serve --move-to-head=2", "serve --store --move-to-head=1", "serve --item-size=0",
		"load --keys=0", "load --depth=0", "load --value=3", "bench --gets=2", "bench --outstanding=0",
		"bench --each=0s", "bench --rate=-1", "bench --zipf=1", "get",
		"serve --design=x", "plots --keys=0", "plots --each=1h",
		"bench --design=x", "load --design=herd --servers=a,b",
		"serve --design=herd --memcached=127.0.0.1:0", "bench --transport=x",
		"designs", "designs --addr=a --rounds=0", "designs --addr=a --each=1h",
		"designs --addr=a --keys=0",
		"designs --addr=a --outstanding=0", "designs --addr=a --outstanding=257",
		"get a --timeout=-1s", "demo --each=1h", "demo --keys=0", "nothing"} {
		if status, _, errOut := try(t, strings.Fields(args)...); status != cli.Usage || errOut == "" {
			t.Errorf("%s: status %d, %q", args, status, errOut)
		}
	}
	if status, out, _ := try(t, "--help"); status != cli.Done || !strings.Contains(out, "demo") {
		t.Errorf("help: %d, %s", status, out)
	}
}

// TestValues: a value is right for its key and for no other, damaged or cut.
func TestValues(t *testing.T) {
	for _, size := range []int{4, 8, 15, 16, 17, 32, 100} {
		k := &keyset{n: 10, value: size}
		b := make([]byte, size)
		k.fill(b, 7, 3)
		if !k.right(b, 7) || k.right(b, 8) || k.right(b[1:], 7) {
			t.Errorf("%d bytes: %v, %v, %v", size, k.right(b, 7), k.right(b, 8), k.right(b[1:], 7))
		}
		b[size-1]++
		if size > 16 && k.right(b, 7) {
			t.Errorf("%d bytes: damage is not noticed", size)
		}
	}
}

// TestZipf: the first numbers are as frequent as the law says, to within six sigmas.
func TestZipf(t *testing.T) {
	const n, draws = 1000, 200_000
	z, r := newZipf(n, 0.99), rand.New(rand.NewPCG(1, 2))
	var count [n]int
	for range draws {
		count[z.next(r)]++
	}
	for i := range 2 { // the others are approximate
		p := math.Pow(float64(i+1), -0.99) / z.zeta
		if d := math.Abs(float64(count[i]) - p*draws); d > 6*math.Sqrt(p*draws) {
			t.Errorf("number %d: %d times, want %.0f", i, count[i], p*draws)
		}
	}
	if count[10] < count[100] || count[100] < count[999] || count[999] == 0 {
		t.Errorf("%d, %d, %d", count[10], count[100], count[999])
	}
	if got := newZipf(1, 0.99).next(r); got != 0 {
		t.Error(got)
	}
}

// TestZipfPower: multiplications have the result of the power.
func TestZipfPower(t *testing.T) {
	for theta, whole := range map[float64]uint{0.99: 100, 0.5: 2, 0.9: 10, 0.999: 1000, 0.7: 0} {
		z := newZipf(100, theta)
		if z.whole != whole {
			t.Errorf("theta %v: whole is %d, want %d", theta, z.whole, whole)
		}
		for _, x := range []float64{0.5, 0.93, 0.999, 1} {
			if got, want := z.power(x), math.Pow(x, z.alpha); math.Abs(got-want) > 1e-9*want {
				t.Errorf("theta %v: %v to the power of %v is %v, want %v", theta, x, z.alpha, got, want)
			}
		}
	}
}
