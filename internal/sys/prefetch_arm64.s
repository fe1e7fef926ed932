#include "textflag.h"

// func prefetch(p unsafe.Pointer, lines uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD lines+8(FP), R1
	CBZ  R1, done
loop:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUB  $1, R1
	CBNZ R1, loop
done:
	RET

// func prefetchEach(ps *unsafe.Pointer, n, lines uintptr, far bool)
TEXT ·prefetchEach(SB), NOSPLIT, $0-25
	MOVD ps+0(FP), R0
	MOVD n+8(FP), R1
	MOVD lines+16(FP), R2
	CBZ  R2, eachdone
eachnext:
	CBZ  R1, eachdone
	SUB  $1, R1
	MOVD.P 8(R0), R3
	MOVD R2, R4
eachline:
	PRFM (R3), PLDL1KEEP
	ADD  $64, R3
	SUB  $1, R4
	CBNZ R4, eachline
	B    eachnext
eachdone:
	RET

// func prefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr, far bool)
TEXT ·prefetchAt(SB), NOSPLIT, $0-41
	MOVD base+0(FP), R0
	MOVD at+8(FP), R1
	MOVD n+16(FP), R2
	MOVD stride+24(FP), R5
	MOVD lines+32(FP), R6
	CBZ  R6, atdone
atnext:
	CBZ  R2, atdone
	SUB  $1, R2
	MOVWU.P 4(R1), R3
	MUL  R5, R3, R3
	ADD  R0, R3, R3
	MOVD R6, R4
atline:
	PRFM (R3), PLDL1KEEP
	ADD  $64, R3
	SUB  $1, R4
	CBNZ R4, atline
	B    atnext
atdone:
	RET
