// The kernel sources inside the library, and digests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "jit/compiler.hpp"
#include "jit/digest.hpp"
#include "jit/embedded_sources.hpp"
#include "specs.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = TANDEM_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::map<std::string, std::string> embedded() {
  std::map<std::string, std::string> files;
  for (const EmbeddedSource& source : embedded_sources()) EXPECT_TRUE(files.emplace(source.path, source.text).second) << source.path << " twice";
  return files;
}

TEST(EmbeddedSources, AreTheFilesOfKernelsByteForByte) {
  std::map<std::string, std::string> on_disk;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "kernels"))
    if (const std::string extension = entry.path().extension(); extension == ".cuh" || extension == ".hpp" || extension == ".cu")
      on_disk[fs::relative(entry.path(), kRoot / "kernels")] = read(entry.path());
  ASSERT_GT(on_disk.size(), 20u);
  const auto files = embedded();
  for (const auto& [path, text] : on_disk) {
    ASSERT_TRUE(files.contains(path)) << path;
    EXPECT_EQ(files.at(path), text) << path << " differs: build again";
  }
  EXPECT_EQ(files.size(), on_disk.size());
}

TEST(EmbeddedSources, TheForwardKernelCanBeReadInOneSitting) {
  std::map<std::string, std::ptrdiff_t> lines;
  for (const auto& [path, text] : embedded())
    if (path.starts_with("attention/") && path.ends_with(".cuh")) lines[path] = std::ranges::count(text, '\n');
  EXPECT_LT(lines.at("attention/forward.cuh"), 500);
  lines.erase("attention/prepare.cuh");  // another kernel
  std::ptrdiff_t all = 0;
  for (const auto& [path, count] : lines) all += count;
  EXPECT_LT(all, 1500);
}

TEST(EmbeddedSources, IncludeNothingButEachOther) {
  const auto files = embedded();
  const std::regex include("#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  for (const auto& [path, text] : files)
    for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match) {
      EXPECT_EQ((*match)[1], "\"") << path << " includes a system header, which NVRTC has not";
      EXPECT_TRUE(files.contains((*match)[2])) << path << " includes " << (*match)[2];
    }
}

TEST(EmbeddedSources, HoldWhatTheCompilerIsGiven) {
  const std::string source = jit::kernel_source(ForwardSpec{});
  const auto files = embedded();
  EXPECT_TRUE(files.contains("attention/spec.hpp"));
  EXPECT_TRUE(files.contains("entry/forward.cu"));
  EXPECT_THAT(source, ::testing::HasSubstr("#include \"entry/forward.cu\""));
  EXPECT_THAT(files.at("entry/forward.cu"), ::testing::HasSubstr(std::string(jit::kEntryName)));
}

TEST(KernelSource, DiffersForEveryShippedSpec) {
  std::set<std::string> sources;
  for (const ForwardSpec& spec : testing::shipped_specs()) sources.insert(jit::kernel_source(spec));
  EXPECT_EQ(sources.size(), kShippedCount);
}

TEST(KernelSources, AreAsciiSoThatEveryCompilerReadsThemAlike) {
  for (const auto& [path, text] : embedded())
    for (const char c : text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << path << " holds the byte " << static_cast<int>(c);
}

// ------------------------------------------------------------------------------------------------------------------------------ digests

TEST(Sha256, IsThatOfThePartsEachAfterItsLength) {
  // SHA-256 of "", "0:", "3:abc" and "1:a2:bc" by another implementation.
  EXPECT_EQ(jit::sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(jit::sha256({""}), "ba768b331fd86cec803be04e56ab2b3d4c0e98ef4ee4fcd4e72ad7cce61a1d1f");
  EXPECT_EQ(jit::sha256({"abc"}), "aab5f9ae99b2e38fb462025c8f72f570c9c811705d2a4277dc855d7fa293fe97");
  EXPECT_EQ(jit::sha256({"a", "bc"}), "5310a58788781ab25d5ad7c3f85035824b4eb7bdfa394e0ac2186271472b5492");
}

TEST(Sha256, TellsApartPartsThatRunTogetherAlike) {
  std::set<std::string> digests = {jit::sha256({"ab", "c"}), jit::sha256({"a", "bc"}), jit::sha256({"abc"}), jit::sha256({"abc", ""}),
                                   jit::sha256({"", "abc"})};
  EXPECT_EQ(digests.size(), 5u);
}

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  pclose(pipe);
  return text;
}

TEST(SourcesDigest, IsWhatTheToolComputesFromTheFiles) {
  EXPECT_EQ(output_of("'" TANDEM_PYTHON "' '" TANDEM_SOURCE_DIR "/tools/sources_digest.py' --kernels"), jit::sources_digest() + "\n");
}

}  // namespace
}  // namespace tandem
