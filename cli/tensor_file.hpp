// Tensors in files: .npy (one a file) and .safetensors (by name). What a file claims is checked before anything is believed; whatever is
// wrong ends in a Failure that names the file and the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

// `raw16` are 16-bit words without a meaning of their own: numpy has no bfloat16, and stores it as uint16 or void. Integers are lengths.
enum class FileType { fp16, bf16, fp32, fp64, raw16, int32, int64 };

std::string_view name_of(FileType type);
std::size_t size_of(FileType type);

// A tensor without gaps, the last axis innermost, as it stands in a file.
struct FileTensor {
  FileType type = FileType::fp32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

// "(2, 300, 8, 64)"
std::string shape_text(const std::vector<std::int64_t>& shape);

enum class FileFormat { npy, safetensors };

// By the extension; fails for others.
FileFormat format_of(const std::filesystem::path& path);

FileTensor read_npy(const std::filesystem::path& path);
FileTensor read_safetensors(const std::filesystem::path& path, const std::string& name);
// None where the file has no tensor of that name.
std::optional<FileTensor> find_safetensors(const std::filesystem::path& path, const std::string& name);

struct NamedTensor {
  std::string name;
  FileTensor tensor;
};

// A .npy file holds one tensor, and its name is lost. bf16, which .npy cannot say, is widened to fp32: exact, and readable everywhere.
void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

}  // namespace tandem::cli
