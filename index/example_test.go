package index_test

import (
	"fmt"

	"github.com/userspace-rpc/erpc/index"
)

// An ordered map for any number of goroutines, whose readers never wait.
func ExampleMap() {
	m := index.NewMap()
	for i, fruit := range []string{"plum", "fig", "pear", "apple"} {
		if _, _, err := m.Put([]byte(fruit), uint64(10*i)); err != nil {
			fmt.Println(err)
		}
	}
	value, ok := m.Get([]byte("pear"))
	fmt.Println(value, ok, m.Len())

	for key, value := range m.Ascend([]byte("b")) { // from the first key that is not below "b"
		fmt.Println(string(key), value)
	}
	// Output:
	// 20 true 4
	// fig 10
	// pear 20
	// plum 0
}

// GetBatch overlaps the cache misses of its lookups: faster than as many calls of Get when the
// map is larger than the caches.
func ExampleMap_GetBatch() {
	m := index.NewMap()
	_, _, _ = m.Put([]byte("a"), 1)
	_, _, _ = m.Put([]byte("c"), 3)

	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	m.GetBatch(keys, values, ok)
	fmt.Println(values, ok)
	// Output: [1 0 3] [true false true]
}

// Fill copies what a scan calls a function for, and takes less time.
func ExampleMap_Fill() {
	m := index.NewMap()
	_, _, _ = m.Put([]byte("apple"), 1)
	_, _, _ = m.Put([]byte("fig"), 2)
	_, _, _ = m.Put([]byte("pear"), 3)

	var p index.Page // to be filled again and again
	m.Fill(&p, []byte("b"), 10)
	for i, v := range p.Values() {
		fmt.Printf("%s %d\n", p.Key(i), v)
	}
	// Output:
	// fig 2
	// pear 3
}

// Bytes is the same map with values of any length.
func ExampleBytes() {
	m := index.NewBytes()
	_, _, _ = m.Put([]byte("greeting"), []byte("hello"))
	old, replaced, _ := m.Put([]byte("greeting"), []byte("good morning"))
	fmt.Println(string(old), replaced)
	now, _ := m.Get([]byte("greeting"))
	fmt.Println(string(now))
	// Output:
	// hello true
	// good morning
}
