package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// result is printed as one JSON object, or as a line for people.
type result struct {
	Bench    string  `json:"bench"`
	Peer     string  `json:"peer"`
	Size     int     `json:"size"`
	Window   int     `json:"window"`
	Duration float64 `json:"duration_s"`
	Rpcs     int     `json:"rpcs"`
	Rps      float64 `json:"rps"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
	CPU      float64 `json:"cpu_ns_per_rpc"`
}

type flags struct {
	size, window int
	duration     time.Duration
	pin          bool
	json, server bool
}

func main() {
	var f flags
	flag.IntVar(&f.size, "size", 32, "bytes in request and response")
	flag.IntVar(&f.window, "window", 60, "goroutines, each with one RPC in flight")
	flag.DurationVar(&f.duration, "duration", 5*time.Second, "how long to measure")
	flag.BoolVar(&f.pin, "pin", true, "pin the client to core 0 and the server to core 1 (Linux)")
	flag.BoolVar(&f.json, "json", false, "print one JSON object")
	flag.BoolVar(&f.server, "server", false, "serve until standard input ends; for the child process")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "bench/grpc:", err)
		os.Exit(1)
	}
}

func run(f flags) error {
	if f.size < 0 || f.window < 1 || f.duration <= 0 {
		return errors.New("size, window and duration must be positive")
	}
	if f.server {
		return serve()
	}
	addr, stop, err := startServer(f.pin)
	if err != nil {
		return err
	}
	if f.pin {
		if err := pin(os.Getpid(), 0); err != nil {
			return errors.Join(err, stop(nil))
		}
	}
	res, err := measure(f, addr, stop)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(os.Stdout).Encode(res)
	}
	fmt.Printf("grpc-go unary echo, %d B, %d in flight: %.0f RPCs/s, p50 %.1f us, p99 %.1f us, CPU %.0f ns per RPC\n",
		res.Size, res.Window, res.Rps, res.P50, res.P99, res.CPU)
	return nil
}

const method = "/bench.Echo/Echo"

// echo is the handler that generated code would contain.
func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	return in, nil
}

// serve prints its address and serves until standard input ends.
func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, struct{}{})
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	return s.Serve(l)
}

// startServer starts the server process. stop ends it and adds its CPU time.
func startServer(pinned bool) (addr string, stop func(cpu *time.Duration) error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "-server")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func(cpu *time.Duration) error {
		_ = in.Close()
		err := cmd.Wait()
		if cpu != nil {
			*cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		return err
	}
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return "", nil, errors.Join(err, stop(nil))
	}
	if pinned {
		if err := pin(cmd.Process.Pid, 1); err != nil {
			return "", nil, errors.Join(err, stop(nil))
		}
	}
	return addr, stop, nil
}

// measure warms up, measures, and ends the server.
func measure(f flags, addr string, stop func(*time.Duration) error) (res *result, err error) {
	var cpu time.Duration
	defer func() {
		err = errors.Join(err, stop(&cpu))
		if res != nil && err == nil {
			// The CPU time of the warm-up is in it too: a tenth more RPCs than counted.
			res.CPU = float64(cpu.Nanoseconds()) / float64(res.Rpcs) / 1.1
		}
	}()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := callers(f, conn, f.duration/10); err != nil {
		return nil, err
	}
	begin := time.Now()
	lat, err := callers(f, conn, f.duration)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(begin).Seconds()
	cpu = cpuTime()
	slices.Sort(lat)
	us := func(q float64) float64 { return float64(lat[int(q*float64(len(lat)-1))]) / 1e3 }
	name := "rate"
	if f.window == 1 {
		name = "latency"
	}
	return &result{Bench: name, Peer: "grpc-go " + grpc.Version, Size: f.size, Window: f.window, Duration: elapsed, Rpcs: len(lat),
		Rps: float64(len(lat)) / elapsed, P50: us(.5), P99: us(.99), P999: us(.999), Max: us(1)}, nil
}

// callers keeps f.window RPCs in flight for d, and returns their latencies.
func callers(f flags, conn *grpc.ClientConn, d time.Duration) ([]time.Duration, error) {
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	all := make([][]time.Duration, f.window)
	errs := make([]error, f.window)
	var wg sync.WaitGroup
	for i := range f.window {
		wg.Go(func() {
			in, out := wrapperspb.Bytes(make([]byte, f.size)), new(wrapperspb.BytesValue)
			for !over.Load() && errs[i] == nil {
				at := time.Now()
				errs[i] = conn.Invoke(context.Background(), method, in, out)
				all[i] = append(all[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}
