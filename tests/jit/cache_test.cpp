// The kernel cache: keys, races among threads and processes, damaged entries, folders that cannot be written, packs. Nothing is compiled here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "jit/digest.hpp"
#include "jit/kernel_cache.hpp"
#include "temporary_folder.hpp"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;
using testing::ChildProcess;
using testing::EnvironmentVariable;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

constexpr const char* kVersion = "13.0";
constexpr const char* kSource = "a kernel";

CompiledKernel kernel_of(const std::string& cubin) {
  CompiledKernel kernel;
  kernel.cubin = cubin;
  kernel.report = {.registers = 168, .spill_bytes = 4, .stack_bytes = 16, .advisories = {"(C7508) one", "(C7517) two"}};
  kernel.seconds = 0.25;
  return kernel;
}

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() : folder_(temporary_ / "cache"), entry_(folder_ / (KernelCache::key(kSource, kVersion) + ".tk")) {}

  // What is found or made, and whether it was made.
  struct Outcome {
    Result<CompiledKernel> kernel;
    int made;
  };
  Outcome find_or_make(const KernelCache& cache, const std::string& cubin = "made now") const {
    int made = 0;
    auto kernel = cache.find_or_make(kSource, kVersion, [&]() -> Result<CompiledKernel> {
      ++made;
      return kernel_of(cubin);
    });
    return {std::move(kernel), made};
  }

  std::vector<std::string> files_in(const fs::path& folder) const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& file : fs::directory_iterator(folder, error)) names.push_back(file.path().filename().string());
    return names;
  }

  EnvironmentVariable no_folder_{"TANDEM_CACHE_DIR", std::nullopt}, no_packs_{"TANDEM_AOT_DIR", std::nullopt};
  TemporaryFolder temporary_;
  fs::path folder_, entry_;
};

// -------------------------------------------------------------------------------------------------------------------------------- keys

TEST_F(CacheTest, KeyIsTheSameInAnotherFolderAndEnvironment) {
  const std::string key = KernelCache::key(kSource, kVersion);
  EXPECT_EQ(key.size(), 64u);
  for (const auto& environment : std::vector<std::vector<std::string>>{
           {}, {"CUDA_HOME=/somewhere", "HOME=/elsewhere", "TANDEM_CACHE_DIR=/x", "TZ=Asia/Tokyo", "LC_ALL=tr_TR.UTF-8", "SOURCE_DATE_EPOCH=1"}}) {
    ChildProcess child({"key", kSource, kVersion}, {.folder = temporary_.path(), .environment = environment});
    EXPECT_EQ(child.wait().output, key);
  }
}

TEST_F(CacheTest, KeyIsTheDigestOfAllThatMakesAKernel) {
  std::string options;
  for (const char* option : compile_options()) options += std::string(option) + "\n";
  const auto key_with = [&](std::string_view schema, std::string_view sources, std::string_view source, std::string_view with, std::string_view architecture,
                            std::string_view version) {
    return sha256({schema, sources, source, with, architecture, version});
  };
  constexpr std::string_view kSchema = "tandem-kernel-2";
  const std::string key = KernelCache::key(kSource, kVersion);
  EXPECT_EQ(key, key_with(kSchema, sources_digest(), kSource, options, "sm_90a", kVersion));
  EXPECT_EQ(std::set<std::string>({key, key_with("tandem-kernel-3", sources_digest(), kSource, options, "sm_90a", kVersion),
                                   key_with(kSchema, "other sources", kSource, options, "sm_90a", kVersion),
                                   key_with(kSchema, sources_digest(), kSource, options + "-G\n", "sm_90a", kVersion),
                                   key_with(kSchema, sources_digest(), kSource, options, "sm_100a", kVersion), KernelCache::key("another kernel", kVersion),
                                   KernelCache::key(kSource, "13.1")})
                .size(),
            7u);
}

TEST_F(CacheTest, OptionsAskForTheLogAndForgetNothing) {
  const auto options = compile_options();
  const std::set<std::string> given(options.begin(), options.end());
  for (const char* option : {"--gpu-architecture=sm_90a", "--std=c++20", "--ptxas-options=-v", "--no-cache", "--diag-error=161"})
    EXPECT_TRUE(given.contains(option)) << option;
}

// ------------------------------------------------------------------------------------------------------------------------------ entries

TEST_F(CacheTest, StoresAndFindsAllOfAKernel) {
  const KernelCache cache(folder_);
  EXPECT_FALSE(cache.find(kSource, kVersion).has_value());
  std::string cubin = "\x7f";
  for (int byte = 0; byte < 256; ++byte) cubin += static_cast<char>(byte);  // zeros and newlines too
  EXPECT_EQ(find_or_make(cache, cubin).made, 1);
  const auto found = cache.find(kSource, kVersion);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cubin, cubin);
  EXPECT_EQ(found->report.registers, 168);
  EXPECT_EQ(found->report.spill_bytes, 4);
  EXPECT_EQ(found->report.stack_bytes, 16);
  EXPECT_THAT(found->report.advisories, ::testing::ElementsAre("(C7508) one", "(C7517) two"));
  EXPECT_EQ(found->seconds, 0) << "it was not compiled now";
  EXPECT_EQ(find_or_make(cache).made, 0);
  EXPECT_FALSE(cache.find("another kernel", kVersion).has_value());
  EXPECT_FALSE(cache.find(kSource, "13.1").has_value());
}

TEST_F(CacheTest, LeavesNothingButTheEntryAndItsLock) {
  const KernelCache cache(folder_);
  find_or_make(cache);
  const std::string key = KernelCache::key(kSource, kVersion);
  EXPECT_THAT(files_in(folder_), ::testing::UnorderedElementsAre(key + ".tk", key + ".lock"));
}

TEST_F(CacheTest, AFailureIsPassedOnAndNotStored) {
  const KernelCache cache(folder_);
  const auto failed = cache.find_or_make(kSource, kVersion, []() -> Result<CompiledKernel> { return Status(StatusCode::compile_error, "no luck"); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "no luck");
  EXPECT_FALSE(fs::exists(entry_));
  EXPECT_EQ(find_or_make(cache).made, 1) << "the next one tries again";
}

TEST_F(CacheTest, DamageIsAMissAndIsRepaired) {
  const KernelCache cache(folder_);
  const std::string cubin(300, 'c');
  find_or_make(cache, cubin);
  const std::string sound = read_file(entry_);
  std::vector<std::string> damaged = {"", "\n", "\n\n\n", "not ours", sound + "x", "tandem-kernel-1" + sound.substr(15), std::string(1 << 20, '\0')};
  for (std::size_t length = 0; length < sound.size(); length += 7) damaged.push_back(sound.substr(0, length));
  for (std::size_t at = 0; at < sound.size(); at += 5) {
    damaged.push_back(sound);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const std::string& bytes : damaged) {
    write_file(entry_, bytes);
    EXPECT_FALSE(cache.find(kSource, kVersion).has_value());
    ASSERT_EQ(cache.entries().size(), 1u);
    EXPECT_FALSE(cache.entries()[0].valid);
    const Outcome outcome = find_or_make(cache, cubin);
    ASSERT_EQ(outcome.made, 1) << "taken for sound: " << bytes.substr(0, 100);
    ASSERT_EQ(outcome.kernel.value().cubin, cubin);
    ASSERT_EQ(read_file(entry_), sound) << "replaced";
    EXPECT_TRUE(cache.entries()[0].valid);
  }
}

// An entry whose digest is right but whose description is not ours.
std::string with_description(const std::string& key, const std::string& about) {
  const std::string body = about + "\ncubin";
  return "tandem-kernel-2\n" + sha256({key, body}) + "\n" + body;
}

TEST_F(CacheTest, AForeignDescriptionIsAMiss) {
  const KernelCache cache(folder_);
  find_or_make(cache);
  const std::string key = KernelCache::key(kSource, kVersion);
  write_file(entry_, with_description(key, R"({"registers":1})"));
  ASSERT_TRUE(cache.find(kSource, kVersion).has_value()) << "or the cases below would miss for another reason";
  for (const char* about : {"", "not json", "[]", "7", R"({"registers":"many"})", R"({"advisories":[1]})", R"({"advisories":{}})"}) {
    write_file(entry_, with_description(key, about));
    EXPECT_FALSE(cache.find(kSource, kVersion).has_value()) << about;
    EXPECT_EQ(find_or_make(cache).made, 1) << about;
  }
}

TEST_F(CacheTest, AnEntryUnderAnotherKeysNameIsAMiss) {
  const KernelCache cache(folder_);
  find_or_make(cache);
  fs::rename(entry_, folder_ / (KernelCache::key("another kernel", kVersion) + ".tk"));
  EXPECT_FALSE(cache.find("another kernel", kVersion).has_value()) << "the wrong kernel would be launched";
}

TEST_F(CacheTest, AFolderInThePlaceOfAnEntryIsAMissAndTheKernelIsUsedFromMemory) {
  const KernelCache cache(folder_);
  fs::create_directories(entry_ / "in the way");
  const Outcome outcome = find_or_make(cache);
  EXPECT_EQ(outcome.made, 1);
  EXPECT_EQ(outcome.kernel.value().cubin, "made now");
  EXPECT_THAT(files_in(folder_), ::testing::Each(::testing::Not(::testing::HasSubstr(".tmp."))));
}

TEST_F(CacheTest, TemporaryFilesOfOthersDoNoHarmAndAreCleared) {
  const KernelCache cache(folder_);
  fs::create_directories(folder_);
  write_file(folder_ / (KernelCache::key(kSource, kVersion) + ".tmp.1.0"), "half an entry");
  write_file(folder_ / "notes.txt", "somebody's");
  EXPECT_EQ(find_or_make(cache).made, 1);
  EXPECT_EQ(cache.entries().size(), 1u);
  EXPECT_EQ(cache.clear(), 1u);
  EXPECT_THAT(files_in(folder_), ::testing::ElementsAre("notes.txt"));
  EXPECT_EQ(cache.clear(), 0u);
}

TEST_F(CacheTest, AFolderThatIsNotThereHasNoEntries) {
  const KernelCache cache(folder_);
  EXPECT_TRUE(cache.entries().empty());
  EXPECT_EQ(cache.clear(), 0u);
}

// ---------------------------------------------------------------------------------------------------------------- folders not to write in

TEST_F(CacheTest, WhereNoFolderCanBeMadeTheKernelIsUsedFromMemory) {
  write_file(temporary_ / "a file", "");
  const KernelCache cache(temporary_ / "a file" / "cache");  // not even root can write below a file
  for (int round = 0; round < 2; ++round) {
    const Outcome outcome = find_or_make(cache);
    ASSERT_TRUE(outcome.kernel.ok());
    EXPECT_EQ(outcome.kernel.value().cubin, "made now");
    EXPECT_EQ(outcome.made, 1);
  }
  EXPECT_FALSE(cache.store("key", kernel_of("cubin")));
}

TEST_F(CacheTest, WhereTheLockCannotBeOpenedTheKernelIsMadeAndStored) {
  const KernelCache cache(folder_);
  fs::create_directories(folder_ / (KernelCache::key(kSource, kVersion) + ".lock"));
  EXPECT_EQ(find_or_make(cache).made, 1);
  EXPECT_EQ(find_or_make(cache).made, 0);
}

TEST_F(CacheTest, WithoutAnyFolderTheKernelIsUsedFromMemory) {
  const EnvironmentVariable xdg("XDG_CACHE_HOME", std::nullopt), home("HOME", std::nullopt);
  const KernelCache cache;
  EXPECT_TRUE(cache.folder().empty());
  EXPECT_EQ(find_or_make(cache).made, 1);
  EXPECT_FALSE(cache.store("key", kernel_of("cubin")));
  EXPECT_TRUE(cache.entries().empty());
}

TEST_F(CacheTest, FolderIsTheFirstThatIsNamed) {
  const EnvironmentVariable xdg("XDG_CACHE_HOME", "/xdg"), home("HOME", "/home/somebody");
  {
    const EnvironmentVariable own("TANDEM_CACHE_DIR", "/own");
    EXPECT_EQ(KernelCache("/given").folder(), "/given");
    EXPECT_EQ(KernelCache().folder(), "/own");
  }
  EXPECT_EQ(KernelCache().folder(), "/xdg/tandem");
  const EnvironmentVariable empty("XDG_CACHE_HOME", "");
  EXPECT_EQ(KernelCache().folder(), "/home/somebody/.cache/tandem");
}

// ------------------------------------------------------------------------------------------------------------------------------- races

TEST_F(CacheTest, ManyThreadsMakeAnEntryOnce) {
  const KernelCache cache(folder_);
  std::atomic<int> made{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] {
      const auto kernel = cache.find_or_make(kSource, kVersion, [&]() -> Result<CompiledKernel> {
        ++made;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return kernel_of("made once");
      });
      if (!kernel.ok() || kernel.value().cubin != "made once") ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(wrong, 0);
}

TEST_F(CacheTest, DifferentEntriesAreMadeAtTheSameTime) {
  const KernelCache cache(folder_);
  std::atomic<int> making{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const auto kernel = cache.find_or_make("kernel " + std::to_string(i), kVersion, [&]() -> Result<CompiledKernel> {
        const int now = ++making;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        for (int waited = 0; making < 4 && waited < 2'000; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return kernel_of("one of four");
      });
      EXPECT_TRUE(kernel.ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 4) << "one lock for each key, not one for all";
}

TEST_F(CacheTest, ManyProcessesMakeAnEntryOnce) {
  const fs::path log = temporary_ / "log";
  std::vector<ChildProcess> children;
  for (int i = 0; i < 8; ++i) children.emplace_back(std::vector<std::string>{"make", folder_, kSource, log});
  for (ChildProcess& child : children) EXPECT_EQ(child.wait().status, 0);
  EXPECT_EQ(read_file(log), "made\n");
}

TEST_F(CacheTest, AProcessThatDiesWhileMakingHoldsNobodyUp) {
  const fs::path log = temporary_ / "log";
  ChildProcess dying({"hang", folder_, kSource, log});
  for (int waited = 0; !fs::exists(log) && waited < 10'000; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(fs::exists(log)) << "it holds the lock and makes the entry";
  ChildProcess waiting({"make", folder_, kSource, log});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(read_file(log), "made\n") << "the second waits";
  dying.kill();
  EXPECT_EQ(waiting.wait().status, 0);
  EXPECT_EQ(read_file(log), "made\nmade\n");
}

TEST_F(CacheTest, ReadersNeverSeeHalfAnEntry) {
  const KernelCache cache(folder_);
  const std::string cubin(200'000, 'c');
  find_or_make(cache, cubin);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) cache.store(KernelCache::key(kSource, kVersion), kernel_of(cubin));
    done = true;
  });
  int read = 0;
  while (!done) {
    const auto found = cache.find(kSource, kVersion);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->cubin, cubin);
    ++read;
  }
  writer.join();
  EXPECT_GT(read, 0);
}

// ------------------------------------------------------------------------------------------------------------------------------- packs

class PackTest : public CacheTest {
 protected:
  // A pack made by NVRTC `version` that holds the kernel.
  fs::path make_pack(const char* name, const char* version, const std::string& cubin) const {
    const KernelCache pack(temporary_ / name);
    EXPECT_TRUE(pack.store(KernelCache::key(kSource, version), kernel_of(cubin)));
    EXPECT_TRUE(pack.label_pack(version));
    return pack.folder();
  }
};

TEST_F(PackTest, IsLookedInFirst) {
  find_or_make(KernelCache(folder_), "from the folder");
  const KernelCache cache(folder_, {make_pack("pack", kVersion, "from the pack")});
  EXPECT_EQ(cache.find(kSource, kVersion)->cubin, "from the pack");
  const Outcome outcome = find_or_make(cache);
  EXPECT_EQ(outcome.made, 0);
  EXPECT_EQ(outcome.kernel.value().cubin, "from the pack");
}

TEST_F(PackTest, ServesWhereAnotherCompilerIsInstalledOrNone) {
  const KernelCache cache(folder_, {make_pack("pack", "12.9", "by an older compiler")});
  for (const char* version : {kVersion, "99.9", ""}) {
    const auto found = cache.find(kSource, version);
    ASSERT_TRUE(found.has_value()) << version;
    EXPECT_EQ(found->cubin, "by an older compiler");
  }
}

TEST_F(PackTest, WithoutALabelIsNone) {
  const fs::path pack = make_pack("pack", kVersion, "from the pack");
  fs::remove(pack / "nvrtc-version");
  const KernelCache cache(folder_, {pack, temporary_ / "not there"});
  EXPECT_TRUE(cache.packs().empty() || cache.packs()[0].folder != pack);
  EXPECT_FALSE(cache.find(kSource, kVersion).has_value());
}

TEST_F(PackTest, TheFirstOfSeveralWins) {
  const KernelCache cache(folder_,
                          {make_pack("empty", "13.9", "for another version"), make_pack("one", kVersion, "first"), make_pack("two", kVersion, "second")});
  fs::remove(temporary_ / "empty" / (KernelCache::key(kSource, "13.9") + ".tk"));
  EXPECT_EQ(cache.find(kSource, kVersion)->cubin, "first");
}

TEST_F(PackTest, IsNamedByTheEnvironmentToo) {
  make_pack("one", kVersion, "first");
  make_pack("two", kVersion, "second");
  const EnvironmentVariable list("TANDEM_AOT_DIR",
                                 "::" + (temporary_ / "nowhere").string() + ":" + (temporary_ / "two").string() + ":" + (temporary_ / "one").string());
  const KernelCache cache(folder_);
  ASSERT_GE(cache.packs().size(), 2u);
  EXPECT_EQ(cache.find(kSource, kVersion)->cubin, "second");
}

TEST_F(PackTest, IsNeverWritten) {
  const fs::path pack = make_pack("pack", kVersion, "from the pack");
  const fs::path damaged = pack / (KernelCache::key(kSource, kVersion) + ".tk");
  write_file(damaged, "damaged");
  const KernelCache cache(folder_, {pack});
  EXPECT_EQ(find_or_make(cache).made, 1);
  EXPECT_EQ(read_file(damaged), "damaged");
  EXPECT_THAT(files_in(pack), ::testing::UnorderedElementsAre(damaged.filename().string(), "nvrtc-version"));
  EXPECT_TRUE(fs::exists(entry_));
  EXPECT_EQ(find_or_make(cache).made, 0) << "the folder's entry serves";
}

TEST_F(PackTest, LabelSurvivesWhereTheFolderCannotBeWritten) {
  write_file(temporary_ / "a file", "");
  EXPECT_FALSE(KernelCache(temporary_ / "a file" / "pack").label_pack(kVersion));
}

}  // namespace
}  // namespace tandem::jit
