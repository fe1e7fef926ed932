package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/labs/raft/lab"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// report is the object that -json prints.
type report struct {
	Keys   int           `json:"keys"`
	Rounds int           `json:"rounds"`
	GRPC   []figures     `json:"grpc"`
	Ours   []*lab.Report `json:"erpc"`
	Times  [][]float64   `json:"times_faster"` // each of GRPC's p50 of a PUT over each of Ours
}

// figures are gRPC's.
type figures struct {
	Processes bool        `json:"processes"` // each replica is one, else all and the client are one
	Plain     lab.Latency `json:"plain"`
	Put       lab.Latency `json:"put"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if system := os.Getenv(childEnv); system != "" {
		keepMembersHeap()
		if err := runMember(system, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "raftstore:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "raftstore:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == "load" {
		return runLoad(ctx, args[1:], out, progress)
	}
	set := flag.NewFlagSet("raftstore", flag.ContinueOnError)
	set.SetOutput(progress)
	keys := set.Int("keys", 100_000, "`keys` to choose from")
	rounds := set.Int("rounds", 5, "turns, whose medians are reported")
	each := set.Duration("each", 500*time.Millisecond, "how long a turn takes")
	asJSON := set.Bool("json", false, "print one JSON object")
	heap := heapFlag(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	if *keys < 1 || *rounds < 1 || *each < time.Millisecond || *each > time.Second {
		return fmt.Errorf("-keys %d, -rounds %d, -each %v: want at least 1, 1 and 1ms to 1s", *keys,
			*rounds, *each)
	}
	stop, err := keepHeap(*heap)
	if err != nil {
		return err
	}
	defer stop()
	r := report{Keys: *keys, Rounds: *rounds}
	for _, processes := range []bool{false, true} {
		f, err := measureGRPC(ctx, processes, *keys, *rounds, *each)
		if err != nil {
			return err
		}
		r.GRPC = append(r.GRPC, f)
	}
	for _, way := range []struct {
		name   string
		listen func() (transport.Transport, error)
	}{
		{"udp", func() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }},
		{"shm", func() (transport.Transport, error) { return shm.Listen("", shm.Config{}) }},
	} {
		o, err := lab.Run(ctx, lab.Config{Transport: way.name, Listen: way.listen, Replicas: 3,
			Placement: lab.Spread, Keys: *keys, Rounds: *rounds, Each: *each})
		if errors.Is(err, transport.ErrUnsupported) {
			continue // on other systems than Linux
		}
		if err != nil {
			return err
		}
		r.Ours = append(r.Ours, o)
		r.Times = append(r.Times, []float64{r.GRPC[0].Put.P50 / o.Put.P50, r.GRPC[1].Put.P50 / o.Put.P50})
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	return r.print(out)
}

// print writes the report as tables.
func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "3 replicas, %d keys, us at the client\n", r.Keys)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tplain p50\tPUT p50\tPUT p99")
	for i, g := range r.GRPC {
		fmt.Fprintf(w, "gRPC, %s\t%.0f\t%.0f\t%.0f\n",
			[]string{"all in one process", "a process each"}[i], g.Plain.P50, g.Put.P50, g.Put.P99)
	}
	for _, o := range r.Ours {
		fmt.Fprintf(w, "erpc over %s, threads of one process\t%.1f\t%.1f\t%.1f\n", o.Transport,
			o.Plain.P50, o.Put.P50, o.Put.P99)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, o := range r.Ours {
		fmt.Fprintf(out, "erpc over %s: PUT p50 %.1f times lower than gRPC in one process, %.1f times "+
			"lower than with a process each\n",
			o.Transport, r.Times[i][0], r.Times[i][1])
	}
	return nil
}

// measureGRPC measures the store over gRPC, plain RPCs and PUTs in turns.
func measureGRPC(ctx context.Context, processes bool, keys, rounds int,
	each time.Duration) (figures, error) {
	g, err := openGRPC(ctx, 3, keys, processes)
	if err != nil {
		return figures{}, err
	}
	var plain, put []lab.Latency
	for range rounds {
		p, err := g.phase(ctx, each, g.plain)
		q, err2 := g.phase(ctx, each, g.put)
		if err = errors.Join(err, err2); err != nil {
			return figures{}, errors.Join(err, g.close())
		}
		plain, put = append(plain, p), append(put, q)
	}
	return figures{processes, median(plain), median(put)}, g.close()
}

// grpcLab is a cluster over gRPC and its client.
type grpcLab struct {
	stores   []*store
	children *children
	conn     *grpc.ClientConn
	session  uint64
	seq      uint64
	keys     int
	rng      *rand.Rand
	cancel   context.CancelFunc
}

// openGRPC starts the replicas, in this process or in one each, and waits for a leader.
func openGRPC(ctx context.Context, n, keys int, processes bool) (g *grpcLab, err error) {
	g = &grpcLab{keys: keys, rng: rand.New(rand.NewPCG(1, 2))}
	ctx, g.cancel = context.WithCancel(ctx)
	var members map[uint64]string
	if processes {
		if g.children, err = startChildren(ctx, "grpc-go", n, start{Keys: keys}, ""); err == nil {
			members = g.children.members
		}
	} else {
		members, err = g.startHere(ctx, n)
	}
	if err == nil {
		g.conn, err = grpc.NewClient(members[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err == nil {
		err = g.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// open opens a session, when the replica leads.
func (g *grpcLab) open(ctx context.Context) error {
	for g.session == 0 {
		a, err := g.call(ctx, kv.Command{Op: kv.Open, Cluster: 1})
		if err != nil {
			return err
		}
		if a.Status == kv.OK {
			g.session = a.Number
		}
	}
	return nil
}

// startHere starts the replicas in this process.
func (g *grpcLab) startHere(ctx context.Context, n int) (members map[uint64]string, err error) {
	members = map[uint64]string{}
	for i := range n {
		s, err := newStore()
		if err != nil {
			return nil, err
		}
		g.stores = append(g.stores, s)
		members[uint64(i+1)] = s.lis.Addr().String()
	}
	for i, s := range g.stores {
		if err := s.start(ctx, &start{ID: uint64(i + 1), Members: members, Keys: g.keys}); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func (g *grpcLab) close() (err error) {
	if g.conn != nil {
		err = g.conn.Close()
	}
	if g.children != nil {
		err = errors.Join(err, g.children.close())
	}
	g.cancel()
	for _, s := range g.stores {
		err = errors.Join(err, s.close())
	}
	return err
}

func (g *grpcLab) call(ctx context.Context, c kv.Command) (kv.Answer, error) {
	out := new(wrapperspb.BytesValue)
	if err := g.conn.Invoke(ctx, callMethod, &wrapperspb.BytesValue{Value: c.Append(nil)},
		out); err != nil {
		return kv.Answer{}, err
	}
	return kv.ParseAnswer(out.Value)
}

func (g *grpcLab) put(ctx context.Context) error {
	g.seq++
	c := kv.Command{Op: kv.Put, Cluster: 1, Session: g.session, Seq: g.seq}
	c.Key, _ = kv.MakeKey(fmt.Appendf(nil, "key-%012d", g.rng.IntN(g.keys)))
	c.Value, _ = kv.MakeValue(make([]byte, kv.MaxValue))
	a, err := g.call(ctx, c)
	return errors.Join(err, a.Status.Err())
}

func (g *grpcLab) plain(ctx context.Context) error {
	out := new(wrapperspb.BytesValue)
	return g.conn.Invoke(ctx, echoMethod,
		&wrapperspb.BytesValue{Value: make([]byte, 32+kv.MaxKey+kv.MaxValue)}, out)
}

// phase does one kind of request, one at a time; a tenth of the time warms up.
func (g *grpcLab) phase(ctx context.Context, d time.Duration,
	do func(context.Context) error) (lab.Latency, error) {
	h := hdrhistogram.New(1, 60e9, 3)
	begin := monotime.Now()
	for now := begin; now < begin.Add(d); {
		if err := do(ctx); err != nil {
			return lab.Latency{}, err
		}
		end := monotime.Now()
		if end > begin.Add(d/10) {
			_ = h.RecordValue(int64(end.Sub(now)))
		}
		now = end
	}
	return lab.Latency{P50: float64(h.ValueAtQuantile(50)) / 1e3,
		P99: float64(h.ValueAtQuantile(99)) / 1e3}, nil
}

func median(list []lab.Latency) lab.Latency {
	slices.SortFunc(list, func(a, b lab.Latency) int { return int(a.P50*1e3 - b.P50*1e3) })
	return list[len(list)/2]
}
