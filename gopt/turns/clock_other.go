//go:build !linux

package turns

import "time"

var start = time.Now()

func now() time.Duration { return time.Since(start) }
