package mica_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// A partition is a cache or a store in memory off the Go heap, with one owner.
func ExamplePartition() {
	p, err := mica.New(mica.Config{Mode: mica.Cache, Memory: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	key := []byte("user:7")
	hash := p.Hash(key) // once for several operations
	if err := p.Put(hash, key, []byte("Ada")); err != nil {
		log.Fatal(err)
	}
	item, found := p.Get(hash, key)
	fmt.Println(string(item.Value), found) // Value is a view: it lasts until the next write

	if err := p.Delete(hash, key, 0); err != nil {
		log.Fatal(err)
	}
	_, found = p.Get(hash, key)
	fmt.Println(found, p.Close())
	// Output:
	// Ada true
	// false <nil>
}

// A write can depend on the version that a reader saw.
func ExamplePartition_CompareAndSwap() {
	p, err := mica.New(mica.Config{Mode: mica.Store, Memory: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	key := []byte("stock")
	hash := p.Hash(key)
	if err := p.Put(hash, key, []byte("5")); err != nil {
		log.Fatal(err)
	}
	item, _ := p.Get(hash, key)
	seen := item.Version
	_, err = p.CompareAndSwap(hash, key, []byte("4"), seen)
	fmt.Println(err)
	_, err = p.CompareAndSwap(hash, key, []byte("4"), seen) // a second one that saw 5
	fmt.Println(errors.Is(err, mica.ErrVersion), p.Close())
	// Output:
	// <nil>
	// true <nil>
}
