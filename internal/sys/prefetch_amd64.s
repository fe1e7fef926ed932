#include "textflag.h"

// func prefetch(p unsafe.Pointer, lines uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ lines+8(FP), CX
	TESTQ CX, CX
	JEQ  done
loop:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JNE  loop
done:
	RET

// func PrefetchEach(ps *unsafe.Pointer, n, lines uintptr)
TEXT ·PrefetchEach(SB), NOSPLIT, $0-24
	MOVQ ps+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ lines+16(FP), DX
	TESTQ DX, DX
	JEQ  eachdone
eachnext:
	DECQ CX
	JLT  eachdone
	MOVQ (SI), AX
	ADDQ $8, SI
	MOVQ DX, BX
eachline:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ BX
	JNE  eachline
	JMP  eachnext
eachdone:
	RET

// func PrefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr)
TEXT ·PrefetchAt(SB), NOSPLIT, $0-40
	MOVQ base+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ stride+24(FP), R8
	MOVQ lines+32(FP), DX
	TESTQ DX, DX
	JEQ  atdone
atnext:
	DECQ CX
	JLT  atdone
	MOVL (SI), AX
	ADDQ $4, SI
	IMULQ R8, AX
	ADDQ DI, AX
	MOVQ DX, BX
atline:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ BX
	JNE  atline
	JMP  atnext
atdone:
	RET
