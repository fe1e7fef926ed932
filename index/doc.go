// Package index is an ordered map in memory for many readers and writers at the same time. Readers
// wait for nobody. It is the index of the eRPC paper's second application (section 7.2), which has
// Masstree there, rebuilt under Go's memory model: no plain access races with another.
//
// [Map] holds values of 8 bytes, [Bytes] values of any length. Keys have 0 to 255 bytes and are in
// the order of bytes.Compare. Keys of up to 8 bytes lie in one B+tree; longer keys share a further
// tree per 8 bytes that they have in common, as in Masstree.
//
// # Map
//
//	owns       nodes and leaves of one map
//	called by  index/server and applications, from any goroutine
//	never      a reader waits, or sees a key half written
//
// # Nodes
//
// A key is cut into slices of 8 bytes, each a big-endian integer. A tree of one layer orders
// slices.
//
//	inner   23 separators, 24 children, atomic pointers; more come only behind the last one
//	leaf    56 places for slices and values, and one word, the state: which of them are keys
//
// A place of a leaf is used once: a writer fills it, and then stores the leaf's state with the bit
// of the place. Only the value changes afterwards, by an atomic store. Deletion stores a state
// without the bit. When no place is left the leaf is replaced by one or two new ones. So a reader
// of a state sees only entries written before that was stored, and nothing is torn. A lookup finds
// places by a byte of hash for each. The order of the places is bytes too. A writer that puts a
// place between others says so in the state first. A scan that meets this, or finds that places
// have come meanwhile, sorts the places of its state by itself. A sum needs no order but in its
// last leaf.
//
// The garbage collector keeps what readers still look at, and thus does the work of epochs.
//
// A node is replaced, never moved: its field moved then names its successor, and its parent's child
// pointer follows. An inner node is replaced to get a separator between others. Which entries a
// dead node had when it died stays readable for ever.
//
// Keys that come in order replace nothing. The last leaf is cut behind its last key: it stays, and
// the key begins a new leaf, which is put behind the last child of the same parent. A place is left
// in the old leaf, for a key that comes late.
//
// # Readers
//
// Get, GetBatch and SumAfter take no lock and allocate nothing. None of them tries again, except
// that a sum goes down once more for each leaf that was cut below its first key, and then replaced,
// while it went down. They wait for no writer. A reader goes from the root to a leaf with one
// atomic load per level, and follows the field moved at most once per level. That is enough. The
// replacer of a node holds its parent's lock from before the node's death until the parent's
// pointer, and all that follows from it above, is stored. A node that dies must have the lock of
// its own parent. So when a reader comes to a dead node by a parent that was alive, the node's heir
// died, if at all, after the reader began: its last entries were current at a moment between call
// and return, and the reader may use them. In a parent that died meanwhile the same holds for its
// last children. A leaf is cut under the lock of its parent too: a reader that was led to it for a
// slice behind the cut came before the cut was published, and rightly finds nothing there.
//
// # Writers
//
// A writer locks one leaf. If keys have come in order before, it looks first at the leaf that its
// goroutine made last. It locks the parent too when the leaf has no place left, or has become
// nearly empty; then locks go from below to above, and siblings are only tried. An empty layer is
// taken out of the layer above it.
//
// # Consistency
//
// Each Get, Put, PutIfAbsent and Delete is linearizable. A batch is that many single lookups. Scan,
// SumAfter and the iterators see each key that is there from their begin to their end exactly once,
// and no key twice, in order. Keys that come or go meanwhile may be seen. There is no snapshot of
// several keys.
//
// # Memory
//
// Maps larger than the caches wait for memory, so what is read next is asked for early. A lookup
// asks for whole nodes of the last two levels: the separators, the child's pointer or the value
// come together. A batch waits for many lookups at once, and then the number of lines counts: a
// processor has some 16 under way. So a batch asks for an inner node's first line, whose pivots say
// which line of separators and which one of children it needs, three of seven in all.
//
// A program whose memory is one large map in the main calls [HugePages]: a GET or PUT of a key in
// no order takes about a third less time. Nodes stay on the Go heap, so readers need no epochs.
//
// A scan asks for two leaves ahead, if it needs as many, and for the next parent's children when
// its own do not suffice. It reads one line of a leaf, and then lines in a row: the order, and as
// many pairs as a leaf usually has. It asks for no others. Fill copies keys and values into a Page.
// It calls no function for each key, so it takes less time than Scan. SumAfter copies nothing, and
// needs the order in its last leaf only.
//
// # Why leaves are written in place
//
// Leaves that are copied for each insert are simpler: an immutable leaf behind an atomic pointer.
// BenchmarkLeafInsert measures both: 3 M random inserts into 25,000 leaves, a full one is halved,
// the collector's work counts. In place an insert allocates 85 bytes and takes 0.46 to 0.52 us;
// copied, 1,237 bytes and 1.26 to 1.82 us: 2.5 to 3.9 times as much (three runs in turns). Much of
// the difference is the allocation and the collector, which has to find each dead leaf again. The
// state brings the rest: an insert is published by one store, and readers need no version.
package index
