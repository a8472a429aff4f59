#include "safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "failure.hpp"

namespace tandem::cli {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr int kMaxDepth = 3;                       // header, tensor, its shape

struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

// Bytes of an element; none for dtypes that are not known here.
std::optional<std::uint64_t> element_size(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> sizes{{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
                                                          {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                                          {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};
  const auto found = sizes.find(dtype);
  if (found == sizes.end()) return std::nullopt;
  return found->second;
}

nlohmann::json parse_header(const InputFile& file, const std::string& text) {
  std::set<std::string> names;
  std::string repeated;
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second) repeated = parsed.get<std::string>();
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  nlohmann::json header = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object()) fail("{}: its header is not a JSON object", file.name());
  if (too_deep) fail("{}: its header is nested deeper than {} levels", file.name(), kMaxDepth);
  if (!repeated.empty()) fail("{}: its header names the tensor '{}' twice", file.name(), repeated);
  return header;
}

std::uint64_t unsigned_of(const nlohmann::json& value, const InputFile& file, const std::string& tensor, const char* what) {
  if (!value.is_number_unsigned()) fail("{}: {} of tensor '{}' holds {}, which is not a count", file.name(), what, tensor, value.dump());
  return value.get<std::uint64_t>();
}

Entry parse_entry(const InputFile& file, const std::string& name, const nlohmann::json& value) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
    fail("{}: tensor '{}' must have dtype, shape and data_offsets", file.name(), name);
  const nlohmann::json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string()) fail("{}: dtype of tensor '{}' is {}, which is not a string", file.name(), name, dtype.dump());
  if (!shape.is_array()) fail("{}: shape of tensor '{}' is {}, which is not an array", file.name(), name, shape.dump());
  if (!offsets.is_array() || offsets.size() != 2) fail("{}: data_offsets of tensor '{}' is {}; it must be [begin, end]", file.name(), name, offsets.dump());

  Entry entry{.name = name, .dtype = dtype.get<std::string>(), .shape = {}};
  std::uint64_t count = element_size(entry.dtype).value_or(0);
  for (const auto& extent : shape) {
    const std::uint64_t value_of = unsigned_of(extent, file, name, "shape");
    if (value_of >> 62 != 0 || __builtin_mul_overflow(count, value_of, &count))
      fail("{}: shape {} of tensor '{}' is too large", file.name(), shape.dump(), name);
    entry.shape.push_back(static_cast<std::int64_t>(value_of));
  }
  entry.begin = unsigned_of(offsets[0], file, name, "data_offsets");
  entry.end = unsigned_of(offsets[1], file, name, "data_offsets");
  if (entry.begin > entry.end) fail("{}: data_offsets {} of tensor '{}' end before they begin", file.name(), offsets.dump(), name);
  if (element_size(entry.dtype) && entry.end - entry.begin != count)
    fail("{}: tensor '{}' of dtype {} and shape {} needs {} bytes and its data_offsets {} hold {}", file.name(), name, entry.dtype, shape.dump(), count,
         offsets.dump(), entry.end - entry.begin);
  return entry;
}

// The tensors fill the data without gaps or overlaps.
void check_coverage(const InputFile& file, std::vector<Entry> entries, std::uint64_t data_size) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t reached = 0;
  std::string before;
  for (const Entry& entry : entries) {
    if (entry.end > data_size)
      fail("{}: the file is truncated: tensor '{}' ends at byte {} of the data and there are {}", file.name(), entry.name, entry.end, data_size);
    if (entry.begin < reached) fail("{}: tensors '{}' and '{}' overlap", file.name(), before, entry.name);
    if (entry.begin > reached) fail("{}: bytes {} to {} of the data belong to no tensor", file.name(), reached, entry.begin);
    reached = entry.end;
    before = entry.name;
  }
  if (reached != data_size) fail("{}: {} bytes at the end of the data belong to no tensor", file.name(), data_size - reached);
}

FileType type_of(const InputFile& file, const Entry& entry) {
  if (entry.dtype == "F16") return FileType::fp16;
  if (entry.dtype == "BF16") return FileType::bf16;
  if (entry.dtype == "F32") return FileType::fp32;
  if (entry.dtype == "F64") return FileType::fp64;
  if (entry.dtype == "I32") return FileType::int32;
  if (entry.dtype == "I64") return FileType::int64;
  fail("{}: tensor '{}' has dtype {}; F16, BF16, F32 and F64 are understood, and I32 and I64 for lengths", file.name(), entry.name, entry.dtype);
}

const char* dtype_of(FileType type) {
  switch (type) {
    case FileType::fp16: return "F16";
    case FileType::bf16: return "BF16";
    case FileType::fp32: return "F32";
    case FileType::fp64: return "F64";
    case FileType::raw16: return "U16";
    case FileType::int32: return "I32";
    case FileType::int64: return "I64";
  }
  return "?";
}

// What the header of a file says, checked.
struct Contents {
  std::vector<Entry> entries;  // in the order of their names
  std::uint64_t data_start = 0;

  const Entry* find(const std::string& name) const {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
    return found == entries.end() ? nullptr : &*found;
  }
};

Contents read_contents(const InputFile& file) {
  const std::uint64_t header_size = little_endian(file.read(0, 8, "the header length"));
  if (header_size > kMaxHeader) fail("{}: its header claims {} bytes; it does not look like a .safetensors file", file.name(), header_size);
  const nlohmann::json header = parse_header(file, file.read_text(8, header_size, "the header"));
  Contents contents{.entries = {}, .data_start = 8 + header_size};
  for (const auto& [key, value] : header.items())
    if (key != "__metadata__") contents.entries.push_back(parse_entry(file, key, value));
  check_coverage(file, contents.entries, file.size() - contents.data_start);
  return contents;
}

FileTensor read_entry(const InputFile& file, const Contents& contents, const Entry& entry) {
  return {type_of(file, entry), entry.shape, file.read(contents.data_start + entry.begin, entry.end - entry.begin, "the tensor")};
}

std::array<std::byte, 8> eight_bytes(std::uint64_t value) {
  std::array<std::byte, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  return bytes;
}

}  // namespace

FileTensor parse_safetensors(const InputFile& file, const std::string& name) {
  const Contents contents = read_contents(file);
  if (const Entry* entry = contents.find(name)) return read_entry(file, contents, *entry);
  std::string names;
  for (const Entry& entry : contents.entries) names += (names.empty() ? "" : ", ") + entry.name;
  fail("{}: it has no tensor '{}'; it holds {}", file.name(), name, names.empty() ? "none" : names);
}

std::optional<FileTensor> find_in_safetensors(const InputFile& file, const std::string& name) {
  const Contents contents = read_contents(file);
  const Entry* entry = contents.find(name);
  if (entry == nullptr) return std::nullopt;
  return read_entry(file, contents, *entry);
}

void format_safetensors(OutputFile& file, const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", dtype_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8 bytes
  file.write(eight_bytes(text.size()));
  file.write_text(text);
  for (const auto& [name, tensor] : tensors) file.write(tensor.data);
}

}  // namespace tandem::cli
