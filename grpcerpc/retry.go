package grpcerpc

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The keys of metadata by which clients and servers speak of tries. They are gRPC's (A6).
const (
	previousAttempts = "grpc-previous-rpc-attempts"
	retryPushback    = "grpc-retry-pushback-ms"
)

// defaultMaxAttempts bounds the tries of a call, as in grpc-go.
const defaultMaxAttempts = 5

// retries are the further tries of a call that its service config asks for. One goroutine at a time
// uses them.
type retries struct {
	policy   *retryPolicy // nil: there are none
	throttle *throttle    // of the ClientConn; nil: none
	most     int          // tries, whatever the policy says
	done     int          // further tries that were made
	paced    int          // of them since a server said when
	spent    bool         // there is none left, where there would be another one
}

// next waits until it is time for another try after one that ended with a code and a trailer. It
// reports false if none follows. The error is that of ctx, if that ends first, or errClosing, if
// conn does, which is the ClientConn's: the server chooses the pause, and may choose years.
func (r *retries) next(
	ctx, conn context.Context, code codes.Code, trailer metadata.MD,
) (again bool, err error) {
	pause, ok := r.due(code, trailer, rand.Float64())
	if !ok {
		return false, nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.done++
		return true, nil
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	case <-conn.Done():
		return false, errClosing
	}
}

// last returns the error of a call after its last try. It says if there were as many as may be.
func (r *retries) last(err error) error {
	if !r.spent {
		return err
	}
	err = fmt.Errorf("max retries exhausted: failed after %d attempts: %w", r.done+1, err)
	return status.Convert(err).Err()
}

// due returns how long the pause before another try is; ok is false if none follows. Random is at
// least 0 and below 1.
func (r *retries) due(
	code codes.Code, trailer metadata.MD, random float64,
) (pause time.Duration, ok bool) {
	pause, said, ok := pushback(trailer)
	p := r.policy
	switch {
	case !ok:
		r.throttle.fail()
		return 0, false
	case p == nil || !p.codes[code] || !r.throttle.fail():
		return 0, false
	case r.done+1 >= min(p.attempts, r.most):
		r.spent = true
		return 0, false
	case said:
		r.paced = 0
	default:
		pause = p.pause(r.paced, random)
		r.paced++
	}
	return pause, true
}

// pause returns how long to wait after so many tries; random is at least 0 and below 1.
func (p *retryPolicy) pause(tries int, random float64) time.Duration {
	most := min(float64(p.initial)*math.Pow(p.multiplier, float64(tries)), float64(p.most))
	return time.Duration(most * (0.8 + 0.4*random))
}

// pushback returns what a server says about the next try: that it comes after a pause, or, by a
// negative number or one that cannot be read, that there is none (ok is false).
func pushback(trailer metadata.MD) (pause time.Duration, said, ok bool) {
	list := trailer[retryPushback]
	if len(list) == 0 {
		return 0, false, true
	}
	ms, err := strconv.Atoi(list[0])
	if len(list) > 1 || err != nil || ms < 0 {
		return 0, true, false
	}
	return time.Duration(min(int64(ms), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
		true, true
}

// announce adds to the metadata of a try how many came before it.
func (r *retries) announce(md metadata.MD) metadata.MD {
	if r.done == 0 {
		return md
	}
	return metadata.Join(md, metadata.Pairs(previousAttempts, strconv.Itoa(r.done)))
}
