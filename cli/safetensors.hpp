// The safetensors format: a JSON header, then the bytes of all tensors without gaps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "file.hpp"
#include "tensor_file.hpp"

namespace tandem::cli {

FileTensor parse_safetensors(const InputFile& file, const std::string& name);
// None where there is no tensor of that name.
std::optional<FileTensor> find_in_safetensors(const InputFile& file, const std::string& name);
void format_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors);

}  // namespace tandem::cli
