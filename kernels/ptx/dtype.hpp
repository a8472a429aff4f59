// Element types of tensors; plain C++, shared with the host.
#pragma once

namespace tandem {

enum class DType : int { fp16, bf16 };

constexpr const char* name_of(DType type) { return type == DType::bf16 ? "bf16" : "fp16"; }

}  // namespace tandem
