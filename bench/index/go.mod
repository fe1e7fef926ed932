module github.com/userspace-rpc/erpc/bench/index

go 1.26.0

require (
	github.com/cloudflare/ahocorasick v0.0.0-20240916140611-054963ec9396
	github.com/gaissmai/bart v0.30.0
	github.com/tidwall/btree v1.8.2
	github.com/userspace-rpc/erpc v0.0.0
)

require golang.org/x/sys v0.49.0

replace github.com/userspace-rpc/erpc => ../..
