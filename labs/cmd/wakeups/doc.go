// Command wakeups is the least program that shows what the Go runtime's own wake-ups cost where one
// goroutine hands results to many, as an event loop does, on a machine whose other cores have work.
// Each goroutine that becomes ready makes the runtime wake a processor if one is idle. That takes
// some of the goroutines, and finds no more. No call of the runtime makes a goroutine ready without
// that.
//
//	go run ./cmd/wakeups              # all cores
//	GOMAXPROCS=1 go run ./cmd/wakeups # the same work on one
//
// It prints for both ways of giving way, by runtime.Gosched and behind the goroutines in the queue
// of the same processor, the CPU time and the elapsed time of a wake-up with its answer, and the
// switches of threads for 1,000 of them.
package main
