package replica

import "go.etcd.io/raft/v3"

// Retire has a replica that is to end hand over, if it leads: it takes no more requests, answers
// those that it has, and then asks the voter that has most of the log to lead. It is called again
// and again, and reports whether there is something to wait for. A transfer may fail; with hurry it
// does not wait for answers.
func (r *Replica) Retire(hurry bool) (wait bool) {
	r.retiring = true
	if r.err != nil || r.state != raft.StateLeader || len(r.log.conf.GetVoters()) < 2 {
		return false
	}
	if hurry || r.requests() == 0 {
		r.handOver()
	}
	return true
}

// requests is how many requests wait for their answers.
func (r *Replica) requests() int {
	n := len(r.offers.tags) + len(r.early.given.tags) + r.proposed.len() + r.waiting.len() +
		len(r.reads)
	for i := r.asked.head; i < len(r.asked.list); i++ {
		n += len(r.asked.list[i].reads)
	}
	return n
}
