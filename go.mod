module github.com/userspace-rpc/erpc

go 1.26
