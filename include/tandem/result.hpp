// Outcome of a call that may fail: a value, or a status with one sentence.
#pragma once

#include <tandem/tandem.h>

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tandem {

enum class StatusCode : int {
  ok = TANDEM_OK,
  invalid_argument = TANDEM_INVALID_ARGUMENT,
  unsupported = TANDEM_UNSUPPORTED,
  unavailable = TANDEM_UNAVAILABLE,
  compile_error = TANDEM_COMPILE_ERROR,
  driver_error = TANDEM_DRIVER_ERROR,
  out_of_memory = TANDEM_OUT_OF_MEMORY,
  internal_error = TANDEM_INTERNAL_ERROR,
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                      // NOLINT(google-explicit-constructor)
  Result(Status failure) : failure_(std::move(failure)) { assert(!failure_.ok()); }  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return failure_; }

  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status failure_;
};

}  // namespace tandem
