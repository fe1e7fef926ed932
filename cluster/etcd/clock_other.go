//go:build !linux

package etcd

import "time"

// machine is this machine's clock.
var machine = clock{now: func() time.Duration { return time.Since(start) }, after: time.After}

var start = time.Now()
