package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB // the real test, for what is not overridden

	mu       sync.Mutex
	messages []string
	failed   bool
	skipped  bool
	cleanups []func()
}

// record runs f as a test of its own and returns how that ended.
func record(tb testing.TB, f func(testing.TB)) *recorder {
	r := &recorder{TB: tb}
	r.inGoroutine(func() { f(r) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.inGoroutine(last)
	}
	return r
}

// inGoroutine runs f where FailNow may end the goroutine. A panic is a failure.
func (r *recorder) inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) note(text string, fail bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, text)
	r.failed = r.failed || fail
}

func (r *recorder) text() string { return strings.Join(r.messages, "\n") }

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)           { r.note(fmt.Sprint(args...), false) }
func (r *recorder) Logf(f string, a ...any)   { r.note(fmt.Sprintf(f, a...), false) }
func (r *recorder) Error(args ...any)         { r.note(fmt.Sprint(args...), true) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...), true) }
func (r *recorder) Fail()                     { r.note("Fail", true) }
func (r *recorder) FailNow()                  { r.note("FailNow", true); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)          { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(f string, a ...any)  { r.Logf(f, a...); r.SkipNow() }
func (r *recorder) SkipNow()                  { r.skipped = true; runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
func (r *recorder) Skipped() bool { return r.skipped }
