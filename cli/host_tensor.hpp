// Tensors of attention in host memory, in any layout that strides can say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/tandem.hpp"
#include "tensor_file.hpp"

namespace tandem::cli {

struct HostTensor {
  DataType type = DataType::bf16;
  Shape shape{};            // (batch, seqlen, heads, dim)
  Stride stride{};          // elements
  std::int64_t offset = 0;  // of the first element in the storage
  std::vector<std::byte> storage;

  std::byte* at(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t column) {
    return storage.data() + index(batch, row, head, column) * static_cast<std::int64_t>(size_of(type));
  }
  const std::byte* at(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t column) const {
    return storage.data() + index(batch, row, head, column) * static_cast<std::int64_t>(size_of(type));
  }
  std::int64_t index(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t column) const {
    return offset + batch * stride[0] + row * stride[1] + head * stride[2] + column * stride[3];
  }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }

  // The row as numbers; `values` has dim places.
  void load_row(std::int64_t batch, std::int64_t row, std::int64_t head, float* values) const;
};

// The order of the axes in a file, the last innermost. Rank 3 is one batch entry, rank 2 one head.
enum class Layout { bshd, bhsd };

Stride stride_of(const Shape& shape, Layout layout);

// Uninitialised but for zeros.
HostTensor make_tensor(const Shape& shape, DataType type, Layout layout);

// `label` names the tensor in sentences. Converts to `type`.
HostTensor from_file(const std::string& label, FileTensor source, Layout layout, DataType type);

// Back to the axes that a file of that rank and layout has.
FileTensor to_file(const HostTensor& tensor, Layout layout, std::size_t rank);

// The dtype that a file's tensor has by itself; none for raw words and integers.
std::optional<DataType> natural_type(FileType type);

// The numbers of a tensor with one axis: lengths (int32 or int64), or a logit a head (floating point).
std::vector<std::int64_t> integers_of(const std::string& label, const FileTensor& tensor);
std::vector<float> floats_of(const std::string& label, const FileTensor& tensor);

DataType parse_data_type(const std::string& name);

std::string shape_text(const Shape& shape);

}  // namespace tandem::cli
