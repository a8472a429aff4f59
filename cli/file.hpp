// Files by bytes, with every failure as a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace tandem::cli {

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);

  std::string name() const { return path_.string(); }
  std::uint64_t size() const { return size_; }

  // `count` bytes from `offset`; fails, naming `what`, if the file does not hold them. Nothing is allocated before that is known.
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t count, const char* what) const;
  std::string read_text(std::uint64_t offset, std::uint64_t count, const char* what) const;

 private:
  void read_into(std::uint64_t offset, std::uint64_t count, char* target, const char* what) const;
  void require_range(std::uint64_t offset, std::uint64_t count, const char* what) const;

  std::filesystem::path path_;
  mutable std::ifstream stream_;
  std::uint64_t size_ = 0;
};

// Written beside its place and moved there by commit(): a failure leaves no half file.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  void write_text(std::string_view text);
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  std::ofstream stream_;
};

// The little-endian number in the bytes.
std::uint64_t little_endian(std::span<const std::byte> bytes);

}  // namespace tandem::cli
