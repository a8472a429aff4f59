#include "tensor_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "failure.hpp"
#include "npy.hpp"
#include "safetensors.hpp"

namespace tandem::cli {

std::string_view name_of(FileType type) {
  switch (type) {
    case FileType::fp16: return "fp16";
    case FileType::bf16: return "bf16";
    case FileType::fp32: return "fp32";
    case FileType::fp64: return "fp64";
    case FileType::raw16: return "16-bit words";
    case FileType::int32: return "int32";
    case FileType::int64: return "int64";
  }
  return "?";
}

std::size_t size_of(FileType type) {
  switch (type) {
    case FileType::fp16:
    case FileType::bf16:
    case FileType::raw16: return 2;
    case FileType::fp32:
    case FileType::int32: return 4;
    case FileType::fp64:
    case FileType::int64: return 8;
  }
  return 1;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

FileFormat format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".npy") return FileFormat::npy;
  if (extension == ".safetensors") return FileFormat::safetensors;
  fail("{}: the file name ends in '{}'; .npy and .safetensors are understood", path.string(), extension);
}

FileTensor read_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  return parse_npy(file);
}

FileTensor read_safetensors(const std::filesystem::path& path, const std::string& name) {
  const InputFile file(path);
  return parse_safetensors(file, name);
}

std::optional<FileTensor> find_safetensors(const std::filesystem::path& path, const std::string& name) {
  const InputFile file(path);
  return find_in_safetensors(file, name);
}

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  OutputFile file(path);
  if (format_of(path) == FileFormat::safetensors) {
    format_safetensors(file, tensors);
  } else {
    if (tensors.size() != 1) fail("{}: a .npy file holds one tensor and {} were to be written; use a .safetensors file", path.string(), tensors.size());
    format_npy(file, tensors.front().tensor);
  }
  file.commit();
}

}  // namespace tandem::cli
