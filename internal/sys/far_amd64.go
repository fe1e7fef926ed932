package sys

// nearLines is how many lines an AMD processor is asked for with PREFETCHT0, into the first level
// of its cache. Zen 4 has 24 places for misses of that level, and drops hints that find none: from
// 24 lines on, most of a group were not there. Larger groups take PREFETCHT1, the second level,
// which keeps them. Processors before Zen 4 take both instructions for the same.
const nearLines = 20

var amd = isAMD(vendor())

// far reports whether n times lines lines are asked for into the second level.
func far(n, lines uintptr) bool { return amd && n*lines > nearLines }

// isAMD reports whether the registers B, D and C of CPUID 0 are AMD's: "AuthenticAMD".
func isAMD(b, d, c uint32) bool {
	return b == 0x68747541 && d == 0x69746e65 && c == 0x444d4163
}

// vendor returns the registers of CPUID 0 that hold the vendor's name.
func vendor() (b, d, c uint32)
