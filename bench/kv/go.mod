module github.com/userspace-rpc/erpc/bench/kv

go 1.26.0

require (
	github.com/VictoriaMetrics/fastcache v1.13.0
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/coocood/freecache v1.2.7
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/maypok86/otter/v2 v2.4.0
	github.com/userspace-rpc/erpc v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/userspace-rpc/erpc => ../..
