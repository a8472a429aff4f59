#include "host_tensor.hpp"

#include <fmt/format.h>

#include <cstring>

#include "element.hpp"
#include "failure.hpp"

namespace tandem::cli {
namespace {

std::int64_t load_integer(const std::byte* address, FileType type) {
  std::int32_t narrow = 0;
  std::int64_t wide = 0;
  if (type == FileType::int64) {
    std::memcpy(&wide, address, sizeof wide);
    return wide;
  }
  std::memcpy(&narrow, address, sizeof narrow);
  return narrow;
}

double load_file_element(const std::byte* address, FileType type) {
  switch (type) {
    case FileType::fp16: return load_element(address, DataType::fp16);
    case FileType::fp32: return load_element(address, DataType::fp32);
    case FileType::bf16:
    case FileType::raw16: return load_element(address, DataType::bf16);
    case FileType::int32: return static_cast<double>(load_integer(address, type));
    case FileType::int64: return static_cast<double>(load_integer(address, type));
    case FileType::fp64: break;
  }
  double value = 0;
  std::memcpy(&value, address, sizeof value);
  return value;
}

FileType file_type(DataType type) {
  switch (type) {
    case DataType::fp16: return FileType::fp16;
    case DataType::bf16: return FileType::bf16;
    case DataType::fp32: return FileType::fp32;
  }
  return FileType::fp32;
}

// (batch, seqlen, heads, dim) of a file's axes.
Shape read_shape(const std::string& label, const std::vector<std::int64_t>& axes, Layout layout) {
  const std::size_t rank = axes.size();
  if (rank < 2 || rank > 4)
    fail("{} has shape {}; it must have 4 axes {}, 3 without batch, or 2 for one head", label, shape_text(axes),
         layout == Layout::bshd ? "(batch, seqlen, heads, dim)" : "(batch, heads, seqlen, dim)");
  const std::int64_t batch = rank == 4 ? axes[0] : 1, dim = axes[rank - 1];
  if (rank == 2) return {1, axes[0], 1, dim};
  const std::int64_t first = axes[rank - 3], second = axes[rank - 2];
  return layout == Layout::bshd ? Shape{batch, first, second, dim} : Shape{batch, second, first, dim};
}

}  // namespace

void HostTensor::load_row(std::int64_t batch, std::int64_t row, std::int64_t head, float* values) const {
  const auto step = static_cast<std::int64_t>(size_of(type)) * stride[3];
  const std::byte* address = at(batch, row, head, 0);
  const auto each = [&](auto convert) {
    for (std::int64_t i = 0; i < shape[3]; ++i) values[i] = convert(address + i * step);
  };
  const auto half = [](const std::byte* from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return bits;
  };
  switch (type) {
    case DataType::fp16: each([&](const std::byte* from) { return float_of_fp16(half(from)); }); break;
    case DataType::bf16: each([&](const std::byte* from) { return float_of_bf16(half(from)); }); break;
    case DataType::fp32: each([&](const std::byte* from) { return static_cast<float>(load_element(from, DataType::fp32)); }); break;
  }
}

Stride stride_of(const Shape& shape, Layout layout) { return layout == Layout::bshd ? contiguous_stride(shape) : heads_first_stride(shape); }

HostTensor make_tensor(const Shape& shape, DataType type, Layout layout) {
  HostTensor tensor{.type = type, .shape = shape, .stride = stride_of(shape, layout), .storage = {}};
  tensor.storage.resize(static_cast<std::size_t>(tensor.elements()) * size_of(type));
  return tensor;
}

HostTensor from_file(const std::string& label, FileTensor source, Layout layout, DataType type) {
  HostTensor tensor{.type = type, .shape = read_shape(label, source.shape, layout), .storage = {}};
  tensor.stride = stride_of(tensor.shape, layout);
  const bool same = source.type == file_type(type) || (source.type == FileType::raw16 && type == DataType::bf16);
  if (same) {
    tensor.storage = std::move(source.data);
    return tensor;
  }
  const std::size_t from = size_of(source.type), to = size_of(type);
  tensor.storage.resize(source.data.size() / from * to);
  for (std::size_t i = 0; i < tensor.storage.size() / to; ++i)
    store_element(tensor.storage.data() + i * to, load_file_element(source.data.data() + i * from, source.type), type);
  return tensor;
}

FileTensor to_file(const HostTensor& tensor, Layout layout, std::size_t rank) {
  const Shape& shape = tensor.shape;
  FileTensor file{.type = file_type(tensor.type), .shape = {}, .data = {}};
  if (layout == Layout::bshd)
    file.shape = {shape[0], shape[1], shape[2], shape[3]};
  else
    file.shape = {shape[0], shape[2], shape[1], shape[3]};
  if (rank == 3) file.shape.erase(file.shape.begin());
  if (rank == 2) file.shape = {shape[1], shape[3]};
  HostTensor packed = make_tensor(shape, tensor.type, layout);
  const std::size_t row_bytes = static_cast<std::size_t>(shape[3]) * size_of(tensor.type);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t s = 0; s < shape[1]; ++s)
      for (std::int64_t h = 0; h < shape[2]; ++h) std::memcpy(packed.at(b, s, h, 0), tensor.at(b, s, h, 0), row_bytes);
  file.data = std::move(packed.storage);
  return file;
}

std::optional<DataType> natural_type(FileType type) {
  switch (type) {
    case FileType::fp16: return DataType::fp16;
    case FileType::bf16: return DataType::bf16;
    case FileType::fp32:
    case FileType::fp64: return DataType::fp32;
    case FileType::raw16:
    case FileType::int32:
    case FileType::int64: break;
  }
  return std::nullopt;
}

std::vector<std::int64_t> integers_of(const std::string& label, const FileTensor& tensor) {
  if (tensor.shape.size() != 1) fail("{} has shape {}; it must have one axis", label, shape_text(tensor.shape));
  if (tensor.type != FileType::int32 && tensor.type != FileType::int64) fail("{} is {}; it must be int32 or int64", label, name_of(tensor.type));
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at < tensor.data.size(); at += size_of(tensor.type)) values.push_back(load_integer(tensor.data.data() + at, tensor.type));
  return values;
}

std::vector<float> floats_of(const std::string& label, const FileTensor& tensor) {
  if (tensor.shape.size() != 1) fail("{} has shape {}; it must have one axis", label, shape_text(tensor.shape));
  if (!natural_type(tensor.type)) fail("{} holds {}; it must be fp16, bf16, fp32 or fp64", label, name_of(tensor.type));
  std::vector<float> values;
  for (std::size_t at = 0; at < tensor.data.size(); at += size_of(tensor.type))
    values.push_back(static_cast<float>(load_file_element(tensor.data.data() + at, tensor.type)));
  return values;
}

DataType parse_data_type(const std::string& name) {
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32})
    if (name == name_of(type)) return type;
  fail("dtype is '{}'; it must be fp16, bf16 or fp32", name);
}

std::string shape_text(const Shape& shape) { return fmt::format("({}, {}, {}, {})", shape[0], shape[1], shape[2], shape[3]); }

}  // namespace tandem::cli
