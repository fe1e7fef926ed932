module github.com/userspace-rpc/erpc

go 1.26.0

require (
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/alecthomas/kong v1.17.0
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)
