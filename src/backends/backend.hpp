// What a backend is: a way to run attention, with a name, that can say what it supports. Same interface for all; the operator tests run
// the same body on each.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/tensor.hpp"
#include "tandem/result.hpp"

namespace tandem {

// A prepared forward. Immutable: run() may be called from several threads.
class ForwardExecutable {
 public:
  virtual ~ForwardExecutable() = default;

  virtual std::size_t workspace_size() const { return 0; }
  virtual Status init_workspace(Workspace /*workspace*/, void* /*stream*/) const { return {}; }

  // `call` has the shapes of the problem that this was prepared for; strides and addresses are its own.
  virtual Status run(const ForwardCall& call, Workspace workspace, void* stream) const = 0;

  // What was chosen and why, as JSON.
  virtual std::string describe() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Whether this backend can serve the problem with tensors of these layouts (addresses may be null), and if not why.
  virtual Status supports(const ForwardProblem& problem, const ForwardCall& call) const = 0;

  // `problem` has at least one query, head and batch entry, and is supported.
  virtual Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& problem) = 0;
};

struct BackendOptions {
  int device = 0;
  int threads = 0;  // 0: one for each core
  std::string cache_dir;
};

// Each fails with `unavailable` and the reason where this machine cannot run it.
Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);
Result<std::unique_ptr<Backend>> make_hopper_backend(const BackendOptions& options);

// "auto": hopper where it is available, else cpu. "model" is there once libtandem_model has registered it.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options);

using BackendFactory = Result<std::unique_ptr<Backend>> (*)(const BackendOptions& options);
void register_backend(std::string_view name, BackendFactory factory);

}  // namespace tandem
