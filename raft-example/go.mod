module github.com/userspace-rpc/erpc/raft-example

go 1.26.0

require (
	github.com/userspace-rpc/erpc v0.0.0
	go.etcd.io/raft/v3 v3.7.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/userspace-rpc/erpc => ..
