#include "npy.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "element.hpp"
#include "failure.hpp"

namespace tandem::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeader = 1 << 20;  // numpy itself refuses headers above 10,000 bytes unless told otherwise
constexpr std::size_t kMaxRank = 8;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads the Python dictionary of a header: {'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header read() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string("a key");
      expect(':');
      if (key == "descr") {
        if (peek() == '[') fail("{}: it holds a structured array; Q, K and V have plain numbers", file_);
        header.descr = string("descr");
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape") {
        header.shape = shape();
        has_shape = true;
      } else {
        fail("{}: the header has the unknown key '{}'", file_, key);
      }
      if (!accept(',') && peek() != '}') malformed("',' or '}'");
    }
    skip_space();
    if (position_ != text_.size()) malformed("its end");
    if (!has_descr || !has_order || !has_shape) fail("{}: the header lacks {}", file_, !has_descr ? "descr" : !has_order ? "fortran_order" : "shape");
    return header;
  }

 private:
  [[noreturn]] void malformed(const char* wanted) const { fail("{}: the .npy header is malformed: expected {} at its byte {}", file_, wanted, position_); }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) ++position_;
  }
  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted || position_ == text_.size()) return false;
    ++position_;
    return true;
  }
  void expect(char wanted) {
    const char expected[] = {'\'', wanted, '\'', '\0'};
    if (!accept(wanted)) malformed(expected);
  }
  bool accept_word(std::string_view word) {
    if (peek(); text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  std::string string(const char* what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed(what);
    const std::size_t end = text_.find(quote, ++position_);
    if (end == std::string_view::npos) malformed("a closing quote");
    const std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    malformed("True or False");
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      peek();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0) malformed("an extent of 0 or more");
      position_ = static_cast<std::size_t>(end - text_.data());
      accept_word("L");  // written by Python 2
      extents.push_back(extent);
      if (extents.size() > kMaxRank) fail("{}: it has more than {} axes; Q, K and V have 2 to 4", file_, kMaxRank);
      if (!accept(',') && peek() != ')') malformed("',' or ')'");
    }
    return extents;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
};

FileType type_of(const std::string& descr, const std::string& file) {
  if (descr == "bfloat16") return FileType::bf16;
  if (descr.empty()) fail("{}: its dtype is empty; <f2, <f4, <f8, <u2 or <V2 for bfloat16, and <i4 or <i8 for lengths, are understood", file);
  if (descr.front() == '>') fail("{}: its dtype '{}' is big-endian; save it in little-endian order (astype('<{}'))", file, descr, descr.substr(1));
  const std::string kind = descr.front() == '<' || descr.front() == '|' || descr.front() == '=' ? descr.substr(1) : descr;
  if (kind == "f2") return FileType::fp16;
  if (kind == "f4") return FileType::fp32;
  if (kind == "f8") return FileType::fp64;
  if (kind == "u2" || kind == "V2") return FileType::raw16;
  if (kind == "i4") return FileType::int32;
  if (kind == "i8") return FileType::int64;
  fail("{}: its dtype is '{}'; <f2, <f4, <f8, <u2 or <V2 for bfloat16, and <i4 or <i8 for lengths, are understood", file, descr);
}

// The elements of a column-major array in row-major order.
std::vector<std::byte> from_fortran_order(const std::vector<std::byte>& source, const std::vector<std::int64_t>& shape, std::size_t element) {
  std::vector<std::byte> target(source.size());
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> stride(rank), index(rank);
  std::int64_t step = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  std::int64_t from = 0;
  for (std::size_t to = 0; to < target.size(); to += element) {
    std::memcpy(target.data() + to, source.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t axis = rank; axis-- > 0;) {  // the next index, last axis first
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return target;
}

}  // namespace

FileTensor parse_npy(const InputFile& file) {
  const auto start = file.read(0, 8, "the .npy signature");
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) fail("{}: it does not start like a .npy file", file.name());
  const auto major = static_cast<int>(start[6]);
  if (major < 1 || major > 3) fail("{}: it is of .npy version {}.{}; 1 to 3 are understood", file.name(), major, static_cast<int>(start[7]));
  const std::uint64_t length_bytes = major == 1 ? 2 : 4;
  const std::uint64_t header_size = little_endian(file.read(8, length_bytes, "the header length"));
  if (header_size > kMaxHeader) fail("{}: its header claims {} bytes; more than {} is not a header", file.name(), header_size, kMaxHeader);
  const std::string name = file.name();
  const std::string text = file.read_text(8 + length_bytes, header_size, "the header");
  const Header header = HeaderReader(text, name).read();

  FileTensor tensor;
  tensor.type = type_of(header.descr, name);
  tensor.shape = header.shape;
  std::int64_t bytes = static_cast<std::int64_t>(size_of(tensor.type));
  for (const std::int64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) fail("{}: its shape {} is too large", name, shape_text(header.shape));
  const std::uint64_t data_start = 8 + length_bytes + header_size;
  tensor.data = file.read(data_start, static_cast<std::uint64_t>(bytes), "the tensor");
  if (const std::uint64_t rest = file.size() - data_start - static_cast<std::uint64_t>(bytes); rest != 0)
    fail("{}: {} bytes follow the tensor of shape {}; one array a file is understood", name, rest, shape_text(header.shape));
  if (header.fortran_order && !tensor.data.empty()) tensor.data = from_fortran_order(tensor.data, tensor.shape, size_of(tensor.type));
  return tensor;
}

void format_npy(OutputFile& file, const FileTensor& tensor) {
  const char* descr = "<f4";
  if (tensor.type == FileType::fp16) descr = "<f2";
  if (tensor.type == FileType::fp64) descr = "<f8";
  if (tensor.type == FileType::raw16) descr = "<u2";
  if (tensor.type == FileType::int32) descr = "<i4";
  if (tensor.type == FileType::int64) descr = "<i8";
  std::string shape;
  for (const std::int64_t extent : tensor.shape) shape += fmt::format("{}, ", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape.substr(0, shape.size() - (shape.empty() ? 0 : 1)));
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');  // the data starts at a multiple of 64 bytes
  header += '\n';

  file.write_text(kMagic);
  file.write_text(std::string_view("\x01\x00", 2));
  const auto length = static_cast<std::uint16_t>(header.size());
  const std::array<std::byte, 2> length_bytes{static_cast<std::byte>(length & 0xff), static_cast<std::byte>(length >> 8)};
  file.write(length_bytes);
  file.write_text(header);
  if (tensor.type != FileType::bf16) {
    file.write(tensor.data);
    return;
  }
  std::vector<std::byte> wide(tensor.data.size() * 2);
  for (std::size_t i = 0; i < tensor.data.size() / 2; ++i)
    store_element(wide.data() + i * 4, load_element(tensor.data.data() + i * 2, DataType::bf16), DataType::fp32);
  file.write(wide);
}

}  // namespace tandem::cli
