// Package hugemem hands out page-aligned memory outside the Go heap, in
// hugepages where the system has some free.
//
// Packet memory lives here for three reasons: the garbage collector neither scans
// nor counts it, a network card can be told its address once, and unmapping
// it returns it to the system at that moment.
//
// [Alloc] tries explicit hugepages (Linux MAP_HUGETLB) and falls back to ordinary
// pages; [AllocPlain] takes ordinary pages at once. Transparent hugepages are
// never asked for silently: the kernel may back a single touched byte with 2 MiB,
// which makes small pools look bloated. [Advise] asks for them, for memory that
// will be filled anyway, and [AdviseHeap] for a part of the Go heap.
//
// Systems without mmap get memory of the Go heap, with the same alignment.
//
// # Map
//
//	owns       mapped memory until Free
//	called by  msgbuf and kv/mica; AdviseHeap by index
//	never      the garbage collector sees it; huge pages are asked for silently
package hugemem
