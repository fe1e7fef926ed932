package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// interopCases are those that grpc-go's own script runs.
func (o *options) interopCases() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(o.dir, "grpc/interop/interop_test.sh"))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), "CASES=(")
	list, _, ok := strings.Cut(rest, "\n)")
	if !ok {
		return nil, errors.New("interop_test.sh has no CASES")
	}
	var cases []string
	for name := range strings.FieldsSeq(list) {
		cases = append(cases, strings.Trim(name, `"`))
	}
	return cases, nil
}

// interop runs grpc-go's client for all cases against its server, plain and with TLS.
func (o *options) interop(lists) ([]result, error) {
	if err := o.programs(o.suite.programs...); err != nil {
		return nil, err
	}
	cases, err := o.interopCases()
	if err != nil {
		return nil, err
	}
	var all []result
	for kind, flags := range map[string][][]string{
		"plain/": {nil, nil},
		"tls/": {{"-use_tls"},
			{"-use_tls", "-use_test_ca", "-server_host_override=foo.test.google.fr"}},
	} {
		port, stop, err := o.interopServer(flags[0]...)
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if !o.match.MatchString(kind + c) {
				continue
			}
			out, err := o.interopClient(c, port, flags[1])
			r := result{test: test{name: kind + c}, failed: err != nil}
			if r.failed {
				r.first = firstLine(out, fmt.Errorf("%w: %s", err, out))
			}
			all = append(all, r)
		}
		stop()
	}
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// interopAt is where the server says that it listens.
var interopAt = regexp.MustCompile(`interop server listening on .*:(\d+)`)

// interopServer starts the server at any port, and returns that and what ends it.
func (o *options) interopServer(flags ...string) (port string, stop func(), err error) {
	cmd := o.program("server", append(flags, "-port=0")...)
	cmd.Env = append(cmd.Env, "GRPC_GO_LOG_SEVERITY_LEVEL=info")
	says, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if m := interopAt.FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // it must not wait for a reader
				}
			}()
			return m[1], func() { _, _ = cmd.Process.Kill(), cmd.Wait() }, nil
		}
	}
	return "", nil, fmt.Errorf("grpc-go's interop server ended: %w", cmd.Wait())
}

// interopClient runs the client for a case.
func (o *options) interopClient(name, port string, flags []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	of := o.program("client")
	cmd := exec.CommandContext(ctx, of.Path, append(flags, "-server_port="+port, "-test_case="+name,
		`-service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = of.Dir, of.Env, time.Second
	return cmd.CombinedOutput()
}
