// How a command says that it cannot go on: one sentence, which main prints to stderr before it exits with 2.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "tandem/result.hpp"

namespace tandem::cli {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

inline void require(const Status& status) {
  if (!status.ok()) throw Failure(status.message());
}

template <class T>
T require(Result<T> result) {
  if (!result.ok()) throw Failure(result.status().message());
  return std::move(result).value();
}

}  // namespace tandem::cli
