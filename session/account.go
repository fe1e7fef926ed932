package session

// Refusal says why a request got no memory.
type Refusal uint8

// The refusals.
const (
	Granted       Refusal = iota
	NoMemory              // the process has none left
	NotKept               // the same for a response
	AddrQuotaUsed         // the address has its quota, and most of the process's memory is in use
	QuotaUsed             // the session has its quota
	RequestStale          // the request stood still too long
	ResponseGone          // the response was not asked for, and made room
)

// refusalText is the text of the error that the client gets.
var refusalText = [...][]byte{
	Granted:       nil,
	NoMemory:      []byte("no memory for the request"),
	NotKept:       []byte("no memory for the response"),
	AddrQuotaUsed: []byte("memory of this address"),
	QuotaUsed:     []byte("memory of this session"),
	RequestStale:  []byte("the request stood still too long"),
	ResponseGone:  []byte("the response was kept too long"),
}

// maxRefusal is enough for the body of an error with such a text.
const maxRefusal = 64

// Bank is where accounts get memory from, in pieces: what the process may use.
type Bank interface {
	// Take takes n bytes, or says why not.
	Take(n int64) Refusal
	// Give gives n bytes back.
	Give(n int64)
	// Lean takes n bytes of what a peer may hold ahead of its packets, and reports whether there
	// were as many. A negative n gives them back.
	Lean(n int64) bool
}

const (
	// smallBuffer is the largest buffer that is not counted: there are few of them in a slot, and
	// small requests stay as fast as they are.
	smallBuffer = 512
	// accountStep is how much an account takes from its bank at least. It keeps up to twice that.
	accountStep = 16 << 10
	// maxCredit bounds the bytes of finished requests that let a peer hold memory ahead of its
	// packets.
	maxCredit = 32 << 20
)

// Account counts the memory that the sessions of one peer have at an endpoint: requests and
// responses that the library keeps, in buffers of more than 512 bytes.
//
// A request's buffer may be larger than twice the bytes that have come of it. The rest counts as
// ahead of its packets from when the buffer was taken until the request is complete, also when
// packets catch up meanwhile. All requests of a peer together are ahead by at most twice the bytes
// of its complete requests, of which 32 MiB count, and what the bank lets it lean. So buffers of
// unfinished requests take at most twice the bytes that the peer has sent, and what it may lean.
type Account struct {
	bank   Bank
	used   int64
	spare  int64 // taken from the bank and not used
	ahead  int64
	credit int64 // bytes of complete requests
	leant  int64 // of ahead, taken from the bank
}

// NewAccount returns an account at a bank.
func NewAccount(bank Bank) Account { return Account{bank: bank} }

// Used returns the bytes that count.
func (a *Account) Used() int64 { return a.used }

// take takes n bytes, or says why not.
func (a *Account) take(n int) Refusal {
	if int64(n) > a.spare {
		need := int64(n) - a.spare
		step := max(need, accountStep)
		why := a.bank.Take(step)
		if why != Granted && step > need {
			step = need
			why = a.bank.Take(step)
		}
		if why != Granted {
			return why
		}
		a.spare += step
	}
	a.spare -= int64(n)
	a.used += int64(n)
	return Granted
}

// Release gives back what a buffer of n bytes took that Server.Take has handed over.
func (a *Account) Release(n int) {
	if n > smallBuffer {
		a.give(n)
	}
}

func (a *Account) give(n int) {
	a.used -= int64(n)
	a.spare += int64(n)
	if a.spare > 2*accountStep {
		a.bank.Give(a.spare - accountStep)
		a.spare = accountStep
	}
}

// Close gives everything back to the bank. Nothing counts any more.
func (a *Account) Close() {
	a.bank.Give(a.used + a.spare)
	a.used, a.spare = 0, 0
	a.fallBack(a.ahead)
}

// getAhead notes n more bytes ahead of their packets, if there may be so many, or fewer if n is
// negative.
func (a *Account) getAhead(n int64) bool {
	if n <= 0 {
		a.fallBack(-n)
		return true
	}
	if lean := a.ahead + n - 2*a.credit - a.leant; lean > 0 {
		if !a.bank.Lean(lean) {
			return false
		}
		a.leant += lean
	}
	a.ahead += n
	return true
}

// fallBack notes that n bytes are not ahead of their packets any more.
func (a *Account) fallBack(n int64) {
	a.ahead -= n
	if a.leant > 0 {
		if back := min(a.leant, 2*a.credit+a.leant-a.ahead); back > 0 {
			a.bank.Lean(-back)
			a.leant -= back
		}
	}
}

// complete notes a complete request of n bytes.
func (a *Account) complete(n int) { a.credit = min(a.credit+int64(n), maxCredit) }
