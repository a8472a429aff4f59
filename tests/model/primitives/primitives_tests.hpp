// The primitive tests, as bodies that know no machine. An executable instantiates them with a runner of its own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "model/primitives/host.hpp"

namespace tandem::primitives {

struct Runner {
  std::string name;
  std::function<std::string()> unavailable;  // why it cannot run here; empty: it can
  std::function<Outputs(Kernel, const Inputs&)> run;
};
void PrintTo(const Runner& runner, std::ostream* out);

std::uint64_t digest(const std::vector<std::uint32_t>& words);

class Primitives : public ::testing::TestWithParam<Runner> {
 protected:
  void SetUp() override {
    const std::string reason = GetParam().unavailable();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // Each kernel runs once for all tests.
  const Outputs& run(Kernel kernel) {
    static std::map<std::pair<std::string, Kernel>, Outputs> results;
    auto& result = results[{GetParam().name, kernel}];
    if (result.out.empty()) result = GetParam().run(kernel, make_inputs(kernel));
    return result;
  }
};

}  // namespace tandem::primitives
