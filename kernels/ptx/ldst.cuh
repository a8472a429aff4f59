// 8x8 matrices of 16-bit numbers between shared memory and registers, and global accesses of a stated width.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// Lanes 8i..8i+7 give the row addresses of matrix i; register i gets two neighbouring elements of row lane/4.
TANDEM_DEVICE void ldmatrix_x4(u32 (&registers)[4], u32 row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row_address)
               : "memory");
}

TANDEM_DEVICE void stmatrix_x4(u32 row_address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

TANDEM_DEVICE u32 load_global_4b(const void* source) {
  u32 word;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(word) : "l"(source) : "memory");
  return word;
}

// The number at `source`, or `otherwise` where that is null. One instruction with a predicate: the compiler makes no second copy of what
// follows for the constant.
TANDEM_DEVICE float load_global_or(const float* source, float otherwise) {
  float value = otherwise;
  asm("{\n.reg .pred p;\nsetp.ne.u64 p, %1, 0;\n@p ld.global.f32 %0, [%1];\n}" : "+f"(value) : "l"(source));
  return value;
}

TANDEM_DEVICE void store_global_4b(void* destination, u32 word) { asm volatile("st.global.b32 [%0], %1;" ::"l"(destination), "r"(word) : "memory"); }

TANDEM_DEVICE void store_global_16b(void* destination, u32 w0, u32 w1, u32 w2, u32 w3) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(destination), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
}

TANDEM_DEVICE void store_global(float* destination, float value) { asm volatile("st.global.f32 [%0], %1;" ::"l"(destination), "f"(value) : "memory"); }

}  // namespace tandem::ptx
