package grpcerpc

import "sync"

// maxTokens is the largest maxTokens of a service config (gRFC A6).
const maxTokens = 1000

// throttle holds back the further tries of a ClientConn's calls while many of them fail (gRFC A6,
// "Throttling Retry Attempts"). Failures take a token each, successes give a part of one, and with
// half of the tokens or less there are no further tries. A nil throttle holds nothing back.
type throttle struct {
	most, ratio float64

	mu     sync.Mutex
	tokens float64
}

// newThrottle returns the throttle of a service config, nil if it has none.
func newThrottle(c *serviceConfig) *throttle {
	if c == nil || c.throttling == nil {
		return nil
	}
	t := c.throttling
	return &throttle{most: t.MaxTokens, ratio: t.TokenRatio, tokens: t.MaxTokens}
}

// fail counts a call that failed, and reports whether it may be tried again.
func (t *throttle) fail() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = max(t.tokens-1, 0)
	return t.tokens > t.most/2
}

// succeed counts a call that succeeded.
func (t *throttle) succeed() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens = min(t.tokens+t.ratio, t.most)
}
