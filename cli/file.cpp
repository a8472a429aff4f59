#include "file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "failure.hpp"

namespace tandem::cli {

namespace fs = std::filesystem;

InputFile::InputFile(const fs::path& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail("{}: no such file", name());
  if (!fs::is_regular_file(status)) fail("{}: is not a regular file", name());
  size_ = fs::file_size(path, error);
  if (error) fail("{}: its size cannot be read: {}", name(), error.message());
  stream_.open(path, std::ios::binary);
  if (!stream_) fail("{}: cannot be opened: {}", name(), std::strerror(errno));
}

void InputFile::require_range(std::uint64_t offset, std::uint64_t count, const char* what) const {
  if (offset > size_ || count > size_ - offset)
    fail("{}: the file is truncated: {} needs bytes {} to {} and there are {}", name(), what, offset, offset + count, size_);
}

void InputFile::read_into(std::uint64_t offset, std::uint64_t count, char* target, const char* what) const {
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(offset));
  stream_.read(target, static_cast<std::streamsize>(count));
  if (static_cast<std::uint64_t>(stream_.gcount()) != count) fail("{}: reading {} failed: {}", name(), what, std::strerror(errno));
}

std::vector<std::byte> InputFile::read(std::uint64_t offset, std::uint64_t count, const char* what) const {
  require_range(offset, count, what);
  std::vector<std::byte> bytes(count);
  read_into(offset, count, reinterpret_cast<char*>(bytes.data()), what);
  return bytes;
}

std::string InputFile::read_text(std::uint64_t offset, std::uint64_t count, const char* what) const {
  require_range(offset, count, what);
  std::string text(count, '\0');
  read_into(offset, count, text.data(), what);
  return text;
}

OutputFile::OutputFile(fs::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".tmp." + std::to_string(::getpid());
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!temporary_.empty()) fs::remove(temporary_, error);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  stream_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) fail("{}: writing failed: {}", path_.string(), std::strerror(errno));
}

void OutputFile::write_text(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void OutputFile::commit() {
  stream_.close();
  std::error_code error;
  if (stream_) fs::rename(temporary_, path_, error);
  if (!stream_ || error) fail("{}: writing failed: {}", path_.string(), error ? error.message() : std::strerror(errno));
  temporary_.clear();
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace tandem::cli
