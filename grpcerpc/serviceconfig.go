package grpcerpc

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/serviceconfig"
)

// serviceConfig is a service config as gRPC documents it ("Service Config in gRPC"), as far as it
// is supported: the balancer, methodConfig with timeout, waitForReady, message sizes, retryPolicy,
// and retryThrottling and healthCheckConfig.
type serviceConfig struct {
	serviceconfig.Config // of grpc, sealed; nil
	balancer             string
	balancerConfig       serviceconfig.LoadBalancingConfig
	methods              map[string]*methodConfig // "/service/method", "/service/", or ""
	throttling           *jsonThrottling          // nil: retries are not throttled
	health               *jsonHealth              // nil: all that is connected is healthy
	hedges               bool                     // some methods have a hedgingPolicy: it is skipped
}

// methodConfig has a service config's settings for a method. Fields that it does not set are nil.
type methodConfig struct {
	timeout      *time.Duration
	waitForReady *bool
	maxRequest   *int
	maxResponse  *int
	retry        *retryPolicy
}

// retryPolicy says when a call is made again, though it may have run.
type retryPolicy struct {
	attempts   int
	initial    time.Duration
	most       time.Duration
	multiplier float64
	codes      map[codes.Code]bool
}

// GetMethodConfig returns what the service config that holds says of a method, "/service/method".
// Its RetryPolicy is nil in any case, of a type that grpc keeps to itself.
//
//lint:ignore SA1019 as grpc's
func (cc *ClientConn) GetMethodConfig(method string) grpc.MethodConfig {
	m := cc.config.Load().of(method)
	//lint:ignore SA1019 as grpc's
	return grpc.MethodConfig{WaitForReady: m.waitForReady, Timeout: m.timeout,
		MaxReqSize: m.maxRequest, MaxRespSize: m.maxResponse}
}

// of returns the config of a method, never nil.
func (c *serviceConfig) of(method string) *methodConfig {
	if c != nil && len(c.methods) > 0 {
		if m := c.methods[method]; m != nil {
			return m
		}
		if m := c.methods[method[:strings.LastIndexByte(method, '/')+1]]; m != nil {
			return m
		}
		if m := c.methods[""]; m != nil {
			return m
		}
	}
	return &noConfig
}

// noConfig is the config of methods that have none.
var noConfig methodConfig

type jsonConfig struct {
	LoadBalancingPolicy string                       `json:"loadBalancingPolicy"`
	LoadBalancingConfig []map[string]json.RawMessage `json:"loadBalancingConfig"`
	MethodConfig        []jsonMethod                 `json:"methodConfig"`
	RetryThrottling     *jsonThrottling              `json:"retryThrottling"`
	HealthCheckConfig   *jsonHealth                  `json:"healthCheckConfig"`
}

// jsonHealth names the service whose health counts.
type jsonHealth struct {
	ServiceName string `json:"serviceName"`
}

type jsonThrottling struct {
	MaxTokens  float64 `json:"maxTokens"`
	TokenRatio float64 `json:"tokenRatio"`
}

type jsonMethod struct {
	Name []struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	} `json:"name"`
	Timeout                 *string    `json:"timeout"`
	WaitForReady            *bool      `json:"waitForReady"`
	MaxRequestMessageBytes  *int64     `json:"maxRequestMessageBytes"`
	MaxResponseMessageBytes *int64     `json:"maxResponseMessageBytes"`
	RetryPolicy             *jsonRetry `json:"retryPolicy"`
	HedgingPolicy           any        `json:"hedgingPolicy"`
}

type jsonRetry struct {
	MaxAttempts          int     `json:"maxAttempts"`
	InitialBackoff       string  `json:"initialBackoff"`
	MaxBackoff           string  `json:"maxBackoff"`
	BackoffMultiplier    float64 `json:"backoffMultiplier"`
	RetryableStatusCodes []any   `json:"retryableStatusCodes"`
}

// parseServiceConfig reads a service config. Unknown fields are left out, as in gRPC.
func parseServiceConfig(text string) (*serviceConfig, error) {
	var j jsonConfig
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return nil, fmt.Errorf("grpcerpc: service config: %w", err)
	}
	if t := j.RetryThrottling; t != nil && j.MethodConfig != nil && // as grpc-go checks it
		!(t.MaxTokens > 0 && t.MaxTokens <= maxTokens && t.TokenRatio > 0) {
		return nil, fmt.Errorf("grpcerpc: service config: retryThrottling needs maxTokens above 0 and "+
			"at most %d, and a tokenRatio above 0", maxTokens)
	}
	if name := j.LoadBalancingPolicy; len(j.LoadBalancingConfig) == 0 && balancer.Get(name) != nil {
		// Balancers that have configs need one, and wait for it.
		j.LoadBalancingConfig = []map[string]json.RawMessage{{name: json.RawMessage("{}")}}
	}
	c := &serviceConfig{methods: make(map[string]*methodConfig), balancer: j.LoadBalancingPolicy,
		throttling: j.RetryThrottling, health: j.HealthCheckConfig}
	if err := c.chooseBalancer(j.LoadBalancingConfig); err != nil {
		return nil, err
	}
	for i := range j.MethodConfig {
		if j.MethodConfig[i].Name == nil {
			continue // it is for no method
		}
		m, err := j.MethodConfig[i].parse()
		c.hedges = c.hedges || j.MethodConfig[i].HedgingPolicy != nil
		if err != nil {
			return nil, fmt.Errorf("grpcerpc: service config: methodConfig[%d]: %w", i, err)
		}
		for _, n := range j.MethodConfig[i].Name {
			key := ""
			if n.Service != "" {
				key = "/" + n.Service + "/" + n.Method
			} else if n.Method != "" {
				return nil, fmt.Errorf("grpcerpc: service config: method %q without a service", n.Method)
			}
			if c.methods[key] != nil {
				return nil, fmt.Errorf("grpcerpc: service config: two methodConfigs for %q", key)
			}
			c.methods[key] = m
		}
	}
	return c, nil
}

// chooseBalancer takes the first balancer of a list that is registered.
func (c *serviceConfig) chooseBalancer(list []map[string]json.RawMessage) error {
	for _, entry := range list {
		for name, raw := range entry {
			b := balancer.Get(name)
			if b == nil || len(entry) != 1 {
				continue
			}
			c.balancer = name
			p, ok := b.(balancer.ConfigParser)
			if !ok {
				return nil
			}
			var err error
			if c.balancerConfig, err = p.ParseConfig(raw); err != nil {
				return fmt.Errorf("grpcerpc: service config: %s: %w", name, err)
			}
			return nil
		}
	}
	if list != nil {
		return fmt.Errorf("grpcerpc: service config: none of the balancers is registered")
	}
	return nil
}

func (j *jsonMethod) parse() (m *methodConfig, err error) {
	m = &methodConfig{waitForReady: j.WaitForReady}
	if j.Timeout != nil {
		d, err := parseDuration(*j.Timeout)
		if err != nil {
			return nil, err
		}
		m.timeout = &d
	}
	for _, f := range []struct {
		from *int64
		to   **int
	}{{j.MaxRequestMessageBytes, &m.maxRequest}, {j.MaxResponseMessageBytes, &m.maxResponse}} {
		if f.from != nil {
			n := int(min(*f.from, math.MaxInt))
			*f.to = &n
		}
	}
	if j.RetryPolicy != nil {
		m.retry, err = j.RetryPolicy.parse()
	}
	return m, err
}

func (j *jsonRetry) parse() (p *retryPolicy, err error) {
	p = &retryPolicy{attempts: j.MaxAttempts, multiplier: j.BackoffMultiplier,
		codes: make(map[codes.Code]bool)}
	if p.initial, err = parseDuration(j.InitialBackoff); err != nil {
		return nil, err
	}
	if p.most, err = parseDuration(j.MaxBackoff); err != nil {
		return nil, err
	}
	for _, c := range j.RetryableStatusCodes {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		var code codes.Code
		if err := code.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		p.codes[code] = true
	}
	if p.attempts < 2 || p.initial <= 0 || p.most <= 0 || p.multiplier <= 0 || len(p.codes) == 0 {
		return nil, fmt.Errorf("retryPolicy is incomplete")
	}
	return p, nil
}

// jsonDuration is a duration as JSON has it for protobuf: seconds with an "s". As in grpc-go digits
// may be missing on one side of the dot.
var jsonDuration = regexp.MustCompile(`^-?(\d+(\.\d{0,9})?|\.\d{1,9})s$`)

// parseDuration reads such a duration. One that is too long for a time.Duration is the longest.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case !jsonDuration.MatchString(text):
		return 0, fmt.Errorf("a duration of %q, which must be as in 1.5s", text)
	case err == nil:
		return d, nil
	case text[0] == '-':
		return math.MinInt64, nil
	}
	return math.MaxInt64, nil
}
