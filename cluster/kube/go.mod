module github.com/userspace-rpc/erpc/cluster/kube

go 1.26.0

require (
	github.com/userspace-rpc/erpc v0.1.0
	github.com/userspace-rpc/erpc/cluster v0.1.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
