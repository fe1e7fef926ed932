package hostiletest

// runRole does nothing: no test starts processes here.
func runRole() bool { return false }
