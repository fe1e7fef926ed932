module github.com/userspace-rpc/erpc/raft-example

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/userspace-rpc/erpc v0.0.0
	go.etcd.io/raft/v3 v3.7.0
	golang.org/x/sys v0.49.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/userspace-rpc/erpc => ..
