#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "backends/backend.hpp"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class NamedBackend final : public Backend {
 public:
  std::string_view name() const override { return "named"; }
  Status supports(const ForwardProblem&, const ForwardCall&) const override { return {StatusCode::unsupported, "it has no kernels"}; }
  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem&) override { return Status(StatusCode::unsupported, "it has no kernels"); }
};

Result<std::unique_ptr<Backend>> make_named(const BackendOptions&) { return std::unique_ptr<Backend>(std::make_unique<NamedBackend>()); }

TEST(BackendRegistry, MakesTheCpuBackendByName) {
  auto backend = make_backend("cpu", {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ(backend.value()->name(), "cpu");
}

TEST(BackendRegistry, AutoIsHopperWhereThereIsOneElseTheCpu) {
  auto automatic = make_backend("auto", {});
  ASSERT_TRUE(automatic.ok()) << automatic.status().message();
  EXPECT_EQ(automatic.value()->name(), make_backend("hopper", {}).ok() ? "hopper" : "cpu");
}

TEST(BackendRegistry, AnUnknownNameIsRefusedWithTheValueAndTheAcceptedNames) {
  for (const char* const name : {"gpu", "", "CPU"}) {
    const auto backend = make_backend(name, {});
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.status().code(), StatusCode::invalid_argument);
    for (const char* const text : {name, "\"auto\"", "\"cpu\"", "\"hopper\""}) EXPECT_THAT(backend.status().message(), HasSubstr(text));
  }
}

TEST(BackendRegistry, ARegisteredBackendIsMadeAndListed) {
  register_backend("named", make_named);
  auto backend = make_backend("named", {});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ(backend.value()->name(), "named");
  EXPECT_THAT(make_backend("other", {}).status().message(), HasSubstr("\"named\""));
}

TEST(BackendRegistry, OptionsReachTheBackend) {
  BackendOptions options;
  options.threads = -3;
  EXPECT_THAT(make_backend("cpu", options).status().message(), HasSubstr("threads is -3"));
}

TEST(BackendRegistry, ServesSeveralThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      const std::string name = "thread" + std::to_string(i);
      for (int j = 0; j < 100; ++j) {
        register_backend(name, make_named);
        EXPECT_TRUE(make_backend(name, {}).ok());
      }
    });
  }
}

}  // namespace
}  // namespace tandem
