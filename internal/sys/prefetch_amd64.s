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

// func prefetchEach(ps *unsafe.Pointer, n, lines uintptr, far bool)
TEXT ·prefetchEach(SB), NOSPLIT, $0-25
	MOVQ ps+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ lines+16(FP), DX
	TESTQ DX, DX
	JEQ  eachdone
	CMPB far+24(FP), $0
	JNE  eachfar
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
eachfar:
	DECQ CX
	JLT  eachdone
	MOVQ (SI), AX
	ADDQ $8, SI
	MOVQ DX, BX
eachfarline:
	PREFETCHT1 (AX)
	ADDQ $64, AX
	DECQ BX
	JNE  eachfarline
	JMP  eachfar
eachdone:
	RET

// func prefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr, far bool)
TEXT ·prefetchAt(SB), NOSPLIT, $0-41
	MOVQ base+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ stride+24(FP), R8
	MOVQ lines+32(FP), DX
	TESTQ DX, DX
	JEQ  atdone
	CMPB far+40(FP), $0
	JNE  atfar
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
atfar:
	DECQ CX
	JLT  atdone
	MOVL (SI), AX
	ADDQ $4, SI
	IMULQ R8, AX
	ADDQ DI, AX
	MOVQ DX, BX
atfarline:
	PREFETCHT1 (AX)
	ADDQ $64, AX
	DECQ BX
	JNE  atfarline
	JMP  atfar
atdone:
	RET

// func vendor() (b, d, c uint32)
TEXT ·vendor(SB), NOSPLIT, $0-12
	XORL AX, AX
	XORL CX, CX
	CPUID
	MOVL BX, b+0(FP)
	MOVL DX, d+4(FP)
	MOVL CX, c+8(FP)
	RET
